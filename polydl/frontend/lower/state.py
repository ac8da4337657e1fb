"""The state of a walk over a region: which iterations reach the current code, the loops around it, results so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import fields

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.errors import InputError
from polydl.frontend.core.tree_parts import replaced
from polydl.frontend.lower.raw import RawAccess, RawAssignment, RawBlackBox, RawCall, RawStatement, SourceLoop, Walked
from polydl.frontend.meaning.lookup import Lookup, Settings
from polydl.frontend.meaning.memory_places import Memory
from polydl.frontend.meaning.symbols import mentions
from polydl.frontend.meaning.values import Values
from polydl.frontend.text.pragmas import Pragma
from polydl.model import isl
from polydl.model.types import ElementType


def asked(node: c_ast.If) -> int:
    """What tells an `if` from all others, though one around what `continue` leaves out is made anew in each walk: the
    identity of its condition."""
    condition = node.cond
    while isinstance(condition, c_ast.UnaryOp) and condition.op == "!":
        condition = condition.expr
    return id(condition)


class State(Lookup, ABC):
    """The state of a walk. Only its own methods and those of the walk change it."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.errors: list[InputError] = []
        self.domain: isl.Set = settings.context
        """Values of parameters and iterators for which the current code runs."""
        self._prefix: list[int] = []
        """The place of each loop around the current code among its siblings, outermost first."""
        self._counters: list[int] = [0]
        """For each of these loops and for the current code: how many siblings came before."""
        self.in_fragment = False
        """The loops of a `microkernel loops(...)` pragma are walked: their variables need no declaration."""
        self.in_black_box = False
        """Code that data steer is walked to learn what it touches."""
        self.executing = 0
        """The loops of which an iteration is executed at the moment to learn what it does to integers."""
        self.pending: Pragma | None = None
        """The microkernel pragma before the next statement."""

    @abstractmethod
    def walk(self, node: Node) -> None:
        """Walk one statement, collecting its errors."""

    def values(self) -> Values:
        """A builder for one statement's value."""
        return Values(self)

    def memory(self, *code: Node) -> Memory:
        """What names lead to in some code where the walk is."""
        return Memory(code, self.scope.find, self.array_of)

    def branch(self, node: Node) -> None:
        """Walk a statement whose declarations end with it."""
        with self.scoped():
            self.walk(node)
            self.no_pending()

    def stays(self, node: c_ast.If) -> bool:
        """Whether an `if` is known to have to stay as it is written."""
        return asked(node) in self.settings.kept

    def no_pending(self) -> None:
        """Report a microkernel pragma that nothing follows."""
        if self.pending is not None:
            pragma, self.pending = self.pending, None
            what = "a loop" if pragma.kind == "call" else "a call"
            self.errors.append(
                InputError(
                    f"the microkernel pragma is not followed by {what}",
                    pragma.span,
                    f"put {what} behind it",
                    topic="microkernels",
                )
            )

    def emit(
        self,
        accesses: tuple[RawAccess, ...],
        body: RawAssignment | RawCall | RawBlackBox,
        node: Node,
        domain: isl.Set | None = None,
    ) -> None:
        """Add a statement at the current place, for the current iterations or those of `domain`."""
        position = (*self._prefix, self._counters[-1])
        self._counters[-1] += 1
        loops = tuple(loop for loop, _ in self.loops)
        where = self.domain if domain is None else domain
        self.walked.statements.append(RawStatement(loops, where, position, accesses, body, node))

    @contextmanager
    def collected(self) -> Iterator[list[RawStatement]]:
        """Inside, statements go to the list that this yields instead of becoming statements of the region."""
        kept, position = self.walked.statements, self._counters[-1]
        inner: list[RawStatement] = []
        self.walked.statements = inner
        try:
            yield inner
        finally:
            self.walked.statements = kept
            self._counters[-1] = position

    @contextmanager
    def tried(self) -> Iterator[list[RawStatement]]:
        """Inside, code is walked to see what becomes of it, and nothing of that stays: the list that this yields has
        its statements, or none where there were errors."""
        walked, environment, errors = self.walked, self.environment, self.errors
        self.walked = Walked(**{one.name: copy(getattr(walked, one.name)) for one in fields(walked)})
        self.environment, self.errors = dict(environment), []
        try:
            with self.scoped(), self.collected() as made:
                yield made
            if self.errors:
                made.clear()
        finally:
            self.walked, self.environment, self.errors = walked, environment, errors

    @contextmanager
    def inside(self, loop: SourceLoop, ctype: ElementType) -> Iterator[None]:
        """The body of a loop whose variable has this type; the domain is put back behind it."""
        outer = self.domain
        self.loops.append((loop, ctype))
        self._prefix.append(self._counters[-1])
        self._counters[-1] += 1
        self._counters.append(0)
        try:
            yield
        finally:
            self._counters.pop()
            self._prefix.pop()
            self.loops.pop()
            self.domain = outer

    def forget(self, names: frozenset[str]) -> None:
        """The values of these affine temporaries are known no more."""
        for name in names:
            if name in self.environment or ((found := self.scope.find(name)) is not None and found.is_integer):
                self.environment[name] = None

    def substituted(self, node: Node) -> Node | None:
        """The expression with affine temporaries replaced by what they stand for; None where one has a value for which
        there is no expression, as that which a loop leaves in its variable."""
        names = set(mentions(node)) & {name for name in self.environment if name in self.walked.temporaries}
        names -= {loop.name for loop, _ in self.loops}
        held = {name: known[1] for name in names if (known := self.environment[name]) is not None}
        if None in held.values():
            return None
        return replaced(node, {name: value for name, value in held.items() if value is not None}) if held else node
