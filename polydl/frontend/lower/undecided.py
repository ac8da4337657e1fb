"""Statements of which data decide what runs, in a walk over a region: choices, or code that is kept as written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.lower import blackbox, microkernels
from polydl.frontend.lower.assignments import Assignments
from polydl.frontend.lower.conditional_assignments import choices
from polydl.frontend.lower.raw import RawBlackBox, RawEntries, RawSegment
from polydl.frontend.lower.zeros import unskipped
from polydl.frontend.meaning.affine import Value
from polydl.frontend.meaning.liveness import leaves


class Undecided(Assignments):
    """A walk as far as data steer it."""

    def _undecided(self, node: Node, condition: Node, branches: Sequence[Node]) -> None:
        """A statement of which data decide what runs."""
        if not self.in_black_box:
            if any(leaves(branch) for branch in branches):
                # the loop that the jump belongs to was not kept as a whole: the message is about the jump
                for branch in branches:
                    self._branch(branch)
                return
            dropped = unskipped(node, self) if isinstance(node, c_ast.If) else None
            if dropped is not None:
                self._branch(dropped)
                return
            chosen = choices(node, self) if isinstance(node, c_ast.If) else ()
            for one in chosen:
                self.walk(one)
            if not chosen:
                self._keep(node)
            return
        self._condition(condition)
        before = dict(self.environment)
        after: list[dict[str, tuple[Value, Node | None] | None]] = []
        for branch in branches:
            self.environment = dict(before)
            self._branch(branch)
            after.append(self.environment)
        self.environment = {
            name: known if all(one.get(name) is known for one in after) else None for name, known in before.items()
        }

    def _condition(self, node: Node) -> None:
        """Inside a black box: note what a condition reads."""
        builder = self.values()
        builder.expression(node, self.domain)
        if builder.accesses:
            self.emit(tuple(builder.accesses), RawBlackBox("", (), ()), node)

    def _keep(self, node: Node, segment: RawSegment | None = None, entries: RawEntries | None = None) -> None:
        """Make one statement of the code at `node`; `segment`: what it adds up, `entries`: what it runs through, where
        it is a loop over a segment. Raises InputError (also collected) and NeedsData."""
        text = self._with_pointers(node)
        blackbox.hidden_data(node, self)
        before, errors = dict(self.environment), len(self.errors)
        self.in_black_box = True
        try:
            with self.collected() as walked:
                self.walk(node)
        finally:
            self.in_black_box = False
        counters = blackbox.counters(node)
        self.environment = {name: None if name in counters else known for name, known in before.items()}
        if len(self.errors) > errors:
            return
        inner = blackbox.without_own(walked, node, self)
        accesses = microkernels.touched(inner)
        if any(access.write for access in accesses):
            self.walked.private.update({symbol.name: symbol for symbol in blackbox.private(node, self)})
            body = replace(blackbox.body(node, text, inner, entries, self), segment=segment)
            self.emit(accesses, body, node)

    def _switch(self, node: c_ast.Switch) -> None:
        if not self.in_black_box:
            self._keep(node)
            return
        cases = node.stmt.block_items or [] if isinstance(node.stmt, c_ast.Compound) else []
        own = [case for case in cases if isinstance(case, (c_ast.Case, c_ast.Default))]
        if len(own) < len(cases) or not cases:
            raise self.places.error(
                "code of this 'switch' stands before its first case", node, "move it out", topic="control-flow"
            )
        parts = [c_ast.Compound(list(case.stmts or []), case.coord) for case in own]
        self._undecided(node, node.cond, parts)

    def _branch(self, node: Node) -> None:
        with self.scoped():
            self.walk(node)
            self.no_pending()
