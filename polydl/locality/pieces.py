"""Intervals of time as boxes of iterations (the second half of Algorithm 1), many variants at once.

The times between source and target are cut into pieces that fix a prefix of the loops, bound the next one and leave
the others free: in the original iterators such a piece is a box.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import numpy as np

from polydl.base.records import dataclass
from polydl.locality.boxes import BoolArray, IntArray, LoopBatch

_ENDLESS = np.iinfo(np.int64).max // 4
"""Stands for no upper bound, with room for arithmetic; loops end where their iterator does."""


class Side(Enum):
    """The part of the interval between source and target that a piece belongs to."""

    SOURCE = "the rest of the source's iteration of the carrying loop"
    MIDDLE = "whole iterations of the carrying loop"
    TARGET = "the beginning of the target's iteration"


@dataclass(frozen=True, slots=True)
class Piece:
    """Times with one prefix, the next counter between bounds and the rest free, in each of R rows."""

    low: IntArray
    """(R, iterators) least value of each."""
    high: IntArray
    """(R, iterators) greatest; below `low` somewhere where the piece is empty."""
    depth: IntArray | None
    """(R,) the bounded loop; None where the whole remainder of the prefix is taken."""
    side: Side

    @property
    def present(self) -> BoolArray:
        """(R,): the piece isn't empty."""
        return np.asarray((self.low <= self.high).all(axis=1))


class Prefixes:
    """Values of the iterators when the outer loops stand at given counters."""

    def __init__(self, loops: LoopBatch, time: IntArray) -> None:
        self.loops = loops
        self.rows = np.arange(len(loops))
        shape = (loops.depth + 1, len(loops), len(loops.extents))
        self.base = np.zeros(shape, dtype=np.int64)
        """(D + 1, R, iterators): value when the loops at this depth and inside stand at 0."""
        self.left = np.empty(shape, dtype=np.int64)
        """(D + 1, R, iterators): iterations that the loops at this depth and inside run over."""
        self.left[0] = np.array(loops.extents, dtype=np.int64)
        for d in range(loops.depth):
            stepped = np.flatnonzero(loops.iterator[:, d] >= 0)
            iterator, span = loops.iterator[stepped, d], loops.span[stepped, d]
            done = time[stepped, d] * span
            self.base[d + 1], self.left[d + 1] = self.base[d], self.left[d]
            self.base[d + 1, stepped, iterator] += done
            self.left[d + 1, stepped, iterator] = np.minimum(span, self.left[d, stepped, iterator] - done)

    def free(self, depth: int | IntArray, side: Side = Side.MIDDLE) -> Piece:
        """Every time with the first `depth` counters."""
        low = self.base[depth, self.rows]
        return Piece(low, low + self.left[depth, self.rows] - 1, None, side)

    def bounded(self, depth: IntArray, least: IntArray, most: IntArray, where: BoolArray, side: Side) -> Piece:
        """Times with the first `depth` counters and the next between `least` and `most`, in rows `where`; (R,) all."""
        low = self.base[depth, self.rows]
        high = low + self.left[depth, self.rows] - 1
        iterator, span = self.loops.iterator[self.rows, depth], self.loops.span[self.rows, depth]
        rows = self.rows
        begin = low[rows, iterator]
        high[rows, iterator] = np.minimum(high[rows, iterator], begin + (most + 1) * span - 1)
        low[rows, iterator] = begin + least * span
        # Padding (iterator -1) has one iteration, number 0: nothing is before or after it.
        absent = ~where | (iterator < 0)
        high[absent] = low[absent] - 1
        return Piece(low, high, depth, side)


def between(loops: LoopBatch, carrier: IntArray, source: IntArray, target: IntArray) -> Iterator[Piece]:
    """Disjoint pieces of { t : source <= t <= target } where the loop `carrier` (R,) is the first they differ at.

    Middle first, then the rest of the source's iteration and the beginning of the target's, each from the outside in.
    A source that stands at the start of its iteration makes that a whole iteration of the carrier.
    """
    depths = np.arange(loops.depth)
    moved = np.asarray(((source > 0) & (depths > carrier[:, None])).any(axis=1))
    whole = ~moved
    starts, ends = Prefixes(loops, source), Prefixes(loops, target)
    every = np.ones(len(loops), dtype=np.bool_)
    rows = starts.rows
    yield starts.bounded(carrier, source[rows, carrier] + ~whole, target[rows, carrier] - 1, every, Side.MIDDLE)
    if not whole.all():
        for d in range(1, loops.depth):
            where = ~whole & (carrier < d)
            depth = np.full(len(loops), d)
            yield starts.bounded(depth, source[:, d] + 1, _ENDLESS // loops.span[:, d], where, Side.SOURCE)
        point = starts.free(loops.depth, Side.SOURCE)
        yield Piece(point.low, np.where(whole[:, None], point.low - 1, point.high), None, Side.SOURCE)
    for d in range(1, loops.depth):
        where = (carrier < d) & (target[:, d] > 0)
        if where.any():
            depth = np.full(len(loops), d)
            yield ends.bounded(depth, np.zeros_like(depth), target[:, d] - 1, where, Side.TARGET)
    yield ends.free(loops.depth, Side.TARGET)
