"""Reads from the printed loops whether the innermost ones form a row: its loops, bounds and statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polydl.kernels.vector_text import NotVectorised
from polydl.model import isl
from polydl.model.scop import Statement


@dataclass(frozen=True, slots=True)
class RowStatement:
    """A statement in the body of a loop."""

    statement: Statement
    schedule: isl.Map
    """{ S[i…] -> [c…] } its instances in terms of the loops in C."""


@dataclass(frozen=True, slots=True)
class RowLoops:
    """The loops that become one row: the outermost first, in terms of the printed loops."""

    dims: tuple[int, ...]
    """Positions among the printed loops, neighbours."""
    extents: tuple[int, ...]
    """Iterations of all but the first."""


def row_loops(body: Sequence[RowStatement], inner: Sequence[tuple[int, int]]) -> RowLoops:
    """The innermost loops around a body as a row; `inner` holds the first and last value of all but the outermost.

    Raises NotVectorised where the printed loops are not the last dimensions of the schedule, all of them running.
    """
    depths = {isl.range_arity(at.schedule) for at in body}
    depth = depths.pop()
    first = depth - len(inner) - 1
    if depths or first < 0:
        raise NotVectorised("statements in different loops")
    for at in body:
        times = at.schedule.range()
        for d, (low, high) in enumerate(inner, first + 1):
            if (isl.least(times, d), isl.greatest(times, d)) != (low, high):
                raise NotVectorised("loops that are not the schedule's")
        within = isl.agree(isl.Map.from_domain_and_range(times, times), range(first))
        if isl.range_onto(within, [first]).is_single_valued():
            raise NotVectorised("a loop of one iteration")
    return RowLoops(tuple(range(first, depth)), tuple(high - low + 1 for low, high in inner))
