"""Statements put together anew, from expressions of other statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from polydl.model.expr import Expr, Load, on_operands
from polydl.model.scop import Access, Assignment, Statement


class Rebuilt:
    """Gathers the accesses of a statement that is being put together, in evaluation order."""

    def __init__(self) -> None:
        self._accesses: list[Access] = []

    def _number(self, access: Access) -> int:
        self._accesses.append(access)
        return len(self._accesses) - 1

    def taken(
        self, value: Expr, accesses: Sequence[Access], instead: Callable[[Access], Expr | None] | None = None
    ) -> Expr:
        """An expression over `accesses`, as one of the statement; `instead` may give another for a load."""
        if isinstance(value, Load):
            access = accesses[value.access]
            other = instead(access) if instead is not None else None
            return Load(self._number(access)) if other is None else other
        return on_operands(value, lambda one: self.taken(one, accesses, instead))

    def statement(self, like: Statement, target: Access, op: str, value: Expr) -> Statement:
        """`target op value` in the loops and under the name of `like`; `value` is what `taken` returned."""
        read = None if op == "=" else self._number(replace(target, write=False))
        body = Assignment(self._number(target), op, value, read)
        return replace(like, accesses=tuple(self._accesses), body=body)
