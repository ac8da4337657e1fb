"""Sums between bounds that are read: in lanes, or in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from polydl.equations.step import Step
from polydl.model.scop import BlackBox, Scop, Statement


@dataclass(frozen=True, slots=True)
class SumsOfReadBounds:
    """Loops that are kept as they are written, and of which the front end has seen that they only add up
    (frontend.lower.sums_of_read_bounds), may do so in another order, or may not.

    before:    for (k = ptr[i]; k < ptr[i + 1]; k++) s += a[k]
    in lanes:  the same behind `#pragma omp simd reduction(+ : s)`, or as a sum over a segment that may be regrouped
    in order:  the same, of which is not known that a microkernel may do it
    requires:  leave to reassociate, for lanes
    """

    statements: tuple[str, ...]
    in_lanes: bool

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `polydl.equations.step.Rewrite`."""
        if not all(_changes(before.statement(name), in_lanes=self.in_lanes) for name in self.statements):
            return f"{', '.join(self.statements)}: not all of them only add up"
        same = after.statements == _made(before, self).statements
        return None if same else f"more than {', '.join(self.statements)} was changed"

    def __str__(self) -> str:
        how = "in vector lanes" if self.in_lanes else "in the order that is written"
        return f"{', '.join(self.statements)} adds up {how}"


def sums_of_read_bounds(scop: Scop, *, reassociate: bool) -> Iterator[Step]:
    """Let every loop that only adds up do so in lanes, with leave to reassociate, or else keep its order
    (`SumsOfReadBounds`)."""
    names = tuple(s.name for s in scop.statements if _changes(s, in_lanes=reassociate))
    if names:
        rewrite = SumsOfReadBounds(names, reassociate)
        yield Step(rewrite, scop, _made(scop, rewrite))


def _changes(statement: Statement, *, in_lanes: bool) -> bool:
    body = statement.body
    if not isinstance(body, BlackBox):
        return False
    known = body.segment is not None
    return not body.regroups and (known or bool(body.lanes)) if in_lanes else known


def _made(scop: Scop, rewrite: SumsOfReadBounds) -> Scop:
    def changed(statement: Statement) -> Statement:
        body = statement.body
        assert isinstance(body, BlackBox)
        if not rewrite.in_lanes:
            return replace(statement, body=replace(body, segment=None))
        return replace(statement, body=replace(body, text=body.lanes or body.text, lanes="", regroups=True))

    return replace(scop, statements=tuple(changed(s) if s.name in rewrite.statements else s for s in scop.statements))
