"""Sums between bounds that are read, in lanes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.equations.step import Remade, Step
from polydl.model.combiners import adds
from polydl.model.scop import Assignment, BlackBox, Scop, Statement


@dataclass(frozen=True, slots=True)
class SumsOfReadBounds(Remade):
    """Loops that are kept as they are written, and of which the front end has seen that they only add up
    (frontend.lower.sums_of_read_bounds), may do so in another order.

    before:    for (k = ptr[i]; k < ptr[i + 1]; k++) s += a[k]
    after:     the same behind `#pragma omp simd reduction(+ : s)`, or as a sum over a segment that may be regrouped
    requires:  leave to reassociate
    """

    statements: tuple[str, ...]

    def made(self, before: Scop) -> Scop | str:
        """See `Remade.made`."""
        if not all(_adds_up(before.statement(name)) for name in self.statements):
            return f"{', '.join(self.statements)}: not all of them only add up"
        changed = (_in_lanes(s) if s.name in self.statements else s for s in before.statements)
        return replace(before, statements=tuple(changed))

    def __str__(self) -> str:
        return f"{', '.join(self.statements)} adds up in vector lanes"


def sums_of_read_bounds(scop: Scop) -> Iterator[Step]:
    """Let every loop that only adds up do so in lanes (`SumsOfReadBounds`)."""
    names = tuple(s.name for s in scop.statements if _adds_up(s))
    if names:
        rewrite = SumsOfReadBounds(names)
        made = rewrite.made(scop)
        assert isinstance(made, Scop), made
        yield Step(rewrite, scop, made)


def _adds_up(statement: Statement) -> bool:
    body = statement.body
    if not isinstance(body, BlackBox) or body.regroups:
        return False
    over = None if body.segment is None else body.segment.sum.body
    return bool(body.lanes) or (isinstance(over, Assignment) and adds(over.op))


def _in_lanes(statement: Statement) -> Statement:
    body = statement.body
    assert isinstance(body, BlackBox)
    return replace(statement, body=replace(body, text=body.lanes or body.text, lanes="", regroups=True))
