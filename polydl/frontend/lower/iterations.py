"""The loops of a walk over a region: their variables, and the iterations in which their bodies run."""

from __future__ import annotations

import copy
from typing import Any

from pycparser import c_ast

from polydl.base.errors import InputError
from polydl.frontend.lower import for_loops, inductions
from polydl.frontend.lower.member_nodes import Counted
from polydl.frontend.lower.raw import Given, SourceLoop
from polydl.frontend.lower.structured import structured
from polydl.frontend.lower.undecided import Undecided
from polydl.frontend.lower.zeros import without_continue
from polydl.frontend.meaning.affine import NotAffine, Value
from polydl.frontend.meaning.constants import constant
from polydl.frontend.meaning.liveness import assigned_names, leaves
from polydl.frontend.meaning.lookup import NeedsData
from polydl.frontend.meaning.symbols import Symbol, mentions
from polydl.model import isl
from polydl.model.scop import Storage
from polydl.model.types import ElementType

_COUNT = "count a variable that is set right in front of the loop and stepped by its last statement alone"


class Iterations(Undecided):
    """A walk as far as loops go."""

    def _for(self, node: Any) -> None:
        if leaves(node.stmt) and not self.in_black_box:
            body = self._without_jumps(node)
            if body is None:
                self._keep(node)
                return
            node = copy.copy(node)
            node.stmt = body
        if isinstance(node, Counted) and self._by_data(node):
            self._while(node.spelled)
            return
        loop = for_loops.header(node, self.evaluator, self.places)
        name = loop.variable
        if any(outer.name == name for outer, _ in self.loops):
            raise self.places.error(
                f"the loop variable '{name}' is already that of an outer loop",
                loop.declared or node.init or node,
                "give each loop its own",
                topic="loop-variables",
            )
        reached = self.domain
        with self.scoped():
            going_on = self.environment.get(name) if node.init is None else None
            if node.init is None and going_on is None:
                raise self.places.error(for_loops.NO_START, node, for_loops.WRITE, topic="loop-headers")
            integer = self._loop_variable(loop)
            start = self._first_value(loop) if going_on is None else going_on[0]
            if isinstance(node, Counted) and not self.loops and start is not None:
                self.walked.begun.setdefault(name, start)
            taken = None if start is None else self._taken(loop, integer, start)
            if isinstance(node, Counted) and taken is None:
                raise NeedsData(name)
            if taken is not None:
                if isinstance(node, Counted) and node.once:
                    for_loops.surely_runs(loop, reached, taken, self.places)
                self.environment.update(self._iterations(loop, integer, taken, start))
            elif going_on is not None:
                raise self.places.error(for_loops.NO_START, node, for_loops.WRITE, topic="loop-headers")
            elif self.in_black_box:
                self._undecided_loop(loop, integer)
                return
        if taken is None or start is None:
            self._keep(node)
        elif loop.declared is None and not (self.in_fragment or self.in_black_box):
            after = for_loops.value_afterwards(loop, integer, start, reached, taken, self.evaluator)
            if after is not None:
                self.environment[name] = after, None

    def _without_jumps(self, node: Any) -> Any:
        """The body of a loop that ends no iteration early; None where that takes the loop as it is."""
        body = without_continue(node.stmt, self)
        if body is not None and not leaves(body):
            return body
        return None if isinstance(node, Counted) else structured(node.stmt)

    def _by_data(self, node: Counted) -> bool:
        """Whether data decide how often a `while` or `do` loop that counts runs, as far as is known."""
        return node.init.lvalue.name in self.settings.data

    def _while(self, node: Any) -> None:
        """A `while` or `do` loop of which nothing says how often it runs."""
        kind = "while" if isinstance(node, c_ast.While) else "do"
        if constant(node.cond, self.scope) and not leaves(node.stmt):
            raise self.places.error(f"this '{kind}' loop never ends", node, _COUNT, topic="loop-headers")
        if not self.in_black_box:
            known = len(self.errors)
            try:
                self._keep(node)
            except InputError as error:
                self.errors.append(error)
            if len(self.errors) > known:
                why = f"a '{kind}' loop has no bound known in advance, and cannot be kept as it is"
                self.errors.insert(known, self.places.error(why, node, _COUNT, topic="control-flow"))
            return
        changed = assigned_names(node.stmt)
        self.forget(changed)
        self._condition(node.cond)
        self._branch(node.stmt)
        self.forget(changed)

    def _first_value(self, loop: for_loops.Header) -> Value | None:
        """What a loop's variable begins with; None where data decide it. Raises InputError."""
        try:
            return self.evaluator.value(loop.start, self.domain)
        except NotAffine as error:
            if error.data:
                return None
            raise self.values().not_affine("loop bound", error, loop.start) from None

    def _taken(self, loop: for_loops.Header, integer: ElementType, start: Value) -> isl.Set | None:
        """The current iterations with the values of a loop's variable; None where data decide them. Raises
        InputError."""
        self.loops.append((SourceLoop(loop.variable, loop.step < 0), integer))
        try:
            iterators = frozenset(outer.name for outer, _ in self.loops)
            once = isinstance(loop.node, Counted) and loop.node.once
            return for_loops.domain(loop, integer, start, self.domain, self.evaluator, self.places, iterators, once)
        except NotAffine:
            return None  # says `domain`
        finally:
            self.loops.pop()

    def _iterations(
        self, loop: for_loops.Header, integer: ElementType, taken: isl.Set, start: Value | None
    ) -> dict[str, tuple[Value, Any] | None]:
        """Walk the body of a loop. Gives what integers are worth behind it that each iteration adds the same to."""
        node = loop.node
        changed = assigned_names(node.stmt)
        self._counters_allowed(loop, changed)
        changed |= {other.variable for other in loop.others}
        behind: dict[str, tuple[Value, Any] | None] = {}
        around = self.domain
        try:
            with self.inside(SourceLoop(loop.variable, loop.step < 0), integer):
                self.domain = taken
                stepped = inductions.advances(loop, changed, taken, self)
                done = None if start is None else inductions.iteration(loop, start, integer, self)
                runs = inductions.trips(loop, frozenset(), around, self) if stepped.each else None
                begins = {name: known for name in stepped.each if (known := self.environment[name]) is not None}
                self.forget(changed)
                for name, (begin, _) in begins.items():
                    value = inductions.moved(begin, stepped.each[name], done, self)
                    self.environment[name] = None if value is None else (value, None)
                    if runs is not None and runs[1] and name not in stepped.doubtful:
                        value = inductions.moved(begin, stepped.each[name], runs[0], self)
                        behind[name] = None if value is None else (value, None)
                for other in loop.others:
                    target = c_ast.ID(other.variable, node.coord)
                    self._assignment(other.declared or node.init, target, "=", other.value)
                self.walk(node.stmt)
                self.no_pending()
        finally:
            self.forget(changed)
        return behind

    def _undecided_loop(self, loop: for_loops.Header, integer: ElementType) -> None:
        """Walk the body of a loop whose bounds data decide, for any value of its variables."""
        changed = assigned_names(loop.node.stmt) | {other.variable for other in loop.others}
        self._counters_allowed(loop, changed - {other.variable for other in loop.others})
        builder = self.values()
        begin = Given(loop.variable, builder.form(loop.start, self.domain), self.domain, "begin", int(loop.step > 0))
        ends = [
            Given(loop.variable, builder.form(bound, self.domain), self.domain, "end", past)
            for bound, past in for_loops.bounds(loop)
        ]
        self.walked.given += [begin, *ends]
        for start in (loop.start, *(other.start for other in loop.others)):
            self._condition(start)
        before = dict(self.undecided)
        self.undecided |= {loop.variable: integer} | {other.variable: integer for other in loop.others}
        try:
            self._condition(loop.condition)
            self.forget(changed)
            self.walk(loop.node.stmt)
            self.no_pending()
        finally:
            self.undecided = before
            self.forget(changed)

    def _counters_allowed(self, loop: for_loops.Header, changed: frozenset[str]) -> None:
        """Declare what a loop counts beside its variable. Raises InputError where that cannot be derived from it."""
        for other in loop.others:
            if other.declared is not None:
                self.declare(other.declared, loop_variable=True)
            found = self.scope.find(other.variable)
            moving = changed & {other.variable, *mentions(other.start), *mentions(loop.start)}
            if found is None or not found.is_integer or moving:
                why = (
                    f"'{min(moving)}' changes in it" if moving else f"'{other.variable}' is no integer of this function"
                )
                raise self.places.error(
                    f"the loop counts '{other.variable}' too, and {why}",
                    loop.node.init,
                    f"count '{loop.variable}' alone",
                    topic="loop-headers",
                )

    def _loop_variable(self, loop: for_loops.Header) -> ElementType:
        """The type of a loop's variable. Raises InputError when it can be none."""
        name = loop.variable
        if loop.declared is not None:
            found: Symbol | None = self.declare(loop.declared, loop_variable=True)
        else:
            found = self.scope.find(name)
            if found is None and self.in_fragment:
                decl = c_ast.Decl(
                    name, [], [], [], [], c_ast.TypeDecl(name, [], None, c_ast.IdentifierType(["int"])), None, None
                )
                found = self.scope.declare(decl, Storage.REGION, constant)
        if found is None:
            raise self.places.error(
                f"'{name}' is not declared", loop.node.init or loop.node, "declare it in the loop", topic="declarations"
            )
        reason = for_loops.refused(loop, found, self.settings, self.in_fragment)
        if reason is not None:
            why, hint = reason
            raise self.places.error(why, loop.node.init or loop.node, hint, topic="loop-variables")
        self.walked.temporaries.setdefault(name, found)
        self.environment.pop(name, None)
        assert found.integer is not None, "refused() lets no others through"
        return found.integer

    # assignments
