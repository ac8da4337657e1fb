"""Sums between bounds that are read, in lanes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from polydl.equations.step import Step
from polydl.model.combiners import adds
from polydl.model.scop import Assignment, BlackBox, Scop, Statement


@dataclass(frozen=True, slots=True)
class SumsOfReadBounds:
    """Loops that are kept as they are written, and of which the front end has seen that they only add up
    (frontend.lower.sums_of_read_bounds), may do so in another order.

    before:    for (k = ptr[i]; k < ptr[i + 1]; k++) s += a[k]
    after:     the same behind `#pragma omp simd reduction(+ : s)`, or as a sum over a segment that may be regrouped
    requires:  leave to reassociate
    """

    statements: tuple[str, ...]

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `polydl.equations.step.Rewrite`."""
        if not all(_adds_up(before.statement(name)) for name in self.statements):
            return f"{', '.join(self.statements)}: not all of them only add up"
        same = after.statements == _made(before, self).statements
        return None if same else f"more than {', '.join(self.statements)} was changed"

    def __str__(self) -> str:
        return f"{', '.join(self.statements)} adds up in vector lanes"


def sums_of_read_bounds(scop: Scop) -> Iterator[Step]:
    """Let every loop that only adds up do so in lanes (`SumsOfReadBounds`)."""
    names = tuple(s.name for s in scop.statements if _adds_up(s))
    if names:
        rewrite = SumsOfReadBounds(names)
        yield Step(rewrite, scop, _made(scop, rewrite))


def _adds_up(statement: Statement) -> bool:
    body = statement.body
    if not isinstance(body, BlackBox) or body.regroups:
        return False
    over = None if body.segment is None else body.segment.sum.body
    return bool(body.lanes) or (isinstance(over, Assignment) and adds(over.op))


def _made(scop: Scop, rewrite: SumsOfReadBounds) -> Scop:
    def changed(statement: Statement) -> Statement:
        body = statement.body
        assert isinstance(body, BlackBox)
        return replace(statement, body=replace(body, text=body.lanes or body.text, lanes="", regroups=True))

    return replace(scop, statements=tuple(changed(s) if s.name in rewrite.statements else s for s in scop.statements))
