"""Sums between bounds that are read: in lanes, or in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from polydl.equations.step import Step
from polydl.model.scop import BlackBox, Scop, Statement


@dataclass(frozen=True, slots=True)
class InLanes:
    """A loop that is kept as it is written adds up in vector lanes.

    before:    for (k = ptr[i]; k < ptr[i + 1]; k++) s += a[k]
    after:     the same behind `#pragma omp simd reduction(+ : s)`, or as a sum over a segment that may be regrouped
    requires:  leave to reassociate; the front end has seen that the loop only adds up
               (frontend.lower.sums_of_read_bounds)
    """

    statements: tuple[str, ...]

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `polydl.equations.step.Rewrite`."""
        if not all(_only_adds(before.statement(name)) for name in self.statements):
            return f"{', '.join(self.statements)}: not all of them only add up"
        same = after.statements == _made(before, self.statements).statements
        return None if same else f"more than {', '.join(self.statements)} was changed"

    def __str__(self) -> str:
        return f"{', '.join(self.statements)} adds up in vector lanes"


def sums_in_lanes(scop: Scop) -> Iterator[Step]:
    """Let every loop that only adds up do so in lanes (`InLanes`)."""
    names = tuple(s.name for s in scop.statements if _only_adds(s))
    if names:
        yield Step(InLanes(names), scop, _made(scop, names))


@dataclass(frozen=True, slots=True)
class InOrder:
    """A sum over a segment stays a loop that is kept as it is written.

    before:    a statement that is known to add up over a segment, which a microkernel may do
    after:     the same, of which that is not known
    """

    statements: tuple[str, ...]

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `polydl.equations.step.Rewrite`."""
        same = after.statements == _in_order(before, self.statements).statements
        return None if same else f"more than {', '.join(self.statements)} was changed"

    def __str__(self) -> str:
        return f"{', '.join(self.statements)} adds up in the order that is written"


def sums_in_order(scop: Scop) -> Iterator[Step]:
    """Keep the order of sums over segments, where there is no leave to reassociate (`InOrder`)."""
    names = tuple(s.name for s in scop.statements if isinstance(s.body, BlackBox) and s.body.segment is not None)
    if names:
        yield Step(InOrder(names), scop, _in_order(scop, names))


def _in_order(scop: Scop, names: tuple[str, ...]) -> Scop:
    def kept(statement: Statement) -> Statement:
        assert isinstance(statement.body, BlackBox)
        return replace(statement, body=replace(statement.body, segment=None))

    return replace(scop, statements=tuple(kept(s) if s.name in names else s for s in scop.statements))


def _only_adds(statement: Statement) -> bool:
    """Whether that is known, and the statement adds up in its order yet."""
    body = statement.body
    return isinstance(body, BlackBox) and not body.regroups and (bool(body.lanes) or body.segment is not None)


def _made(scop: Scop, names: tuple[str, ...]) -> Scop:
    return replace(scop, statements=tuple(_with(s) if s.name in names else s for s in scop.statements))


def _with(statement: Statement) -> Statement:
    assert isinstance(statement.body, BlackBox)
    text = statement.body.lanes or statement.body.text
    return replace(statement, body=replace(statement.body, text=text, lanes="", regroups=True))
