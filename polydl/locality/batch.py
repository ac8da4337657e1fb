"""Working sets and footprints of many variants of a box nest at once, in closed form.

Equal to `polydl.locality.exact` on `boxes.timed_nest` of each variant, which the tests hold it to. Algorithm 1's set
of times between source and target is cut into pieces that fix a prefix of the loops, bound the next one and leave
the others free: in the original iterators such a piece is a box.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from polydl.locality.boxes import BoolArray, BoxAccess, BoxNest, IntArray, LoopBatch
from polydl.locality.endpoints import Carried, PairSolver
from polydl.locality.exact import Kind
from polydl.locality.progressions import Box, NotClosedForm, Sum, Term, union_sizes

CHUNK = 4096
"""Variants analysed together: bounds the memory (a few hundred bytes a variant, loop and iterator)."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Accesses of one array that all have the same two subscript functions as source and target."""

    array: str
    source: BoxAccess
    target: BoxAccess
    kinds: frozenset[Kind]


@dataclass(frozen=True, slots=True)
class BatchWorkingSets:
    """Working sets of V variants, R in all: Algorithm 1."""

    arrays: tuple[str, ...]
    pairs: tuple[Pair, ...]
    variant: IntArray
    """(R,) index of the variant."""
    pair: IntArray
    """(R,) index into `pairs`."""
    depth: IntArray
    """(R,) the loop that carries the dependence."""
    spans_parallel: IntArray
    """(R,) depth of the parallel loop whose whole footprint is taken; -1 for none."""
    minimum: IntArray
    """(R, A) elements of each array from the source through its first target."""
    maximum: IntArray
    """(R, A) elements of each array from the source through its last target."""


@dataclass
class BoxAnalysis:
    """The vectorised analysis of one nest; keeps what it solved, so that later batches are quicker.

    Raises ValueError when the closed forms don't apply to the nest (`BoxNest.why_not_separable`); use
    `polydl.locality.exact` on `timed_nest` then.
    """

    nest: BoxNest
    pairs: tuple[Pair, ...] = field(init=False)
    _solvers: tuple[PairSolver, ...] = field(init=False)
    _functions: dict[str, tuple[BoxAccess, ...]] = field(init=False)

    def __post_init__(self) -> None:
        reason = self.nest.why_not_separable()
        if reason is not None:
            raise ValueError(f"no closed form: {reason}")
        kinds: dict[tuple[object, ...], tuple[BoxAccess, BoxAccess, set[Kind]]] = {}
        for source in self.nest.accesses:
            for target in self.nest.accesses:
                if source.array == target.array:
                    key = (source.array, source.function, target.function)
                    kinds.setdefault(key, (source, target, set()))[2].add(Kind.of(source.write, target.write))
        self.pairs = tuple(Pair(s.array, s, t, frozenset(found)) for s, t, found in kinds.values())
        self._solvers = tuple(PairSolver(self.nest, pair.source, pair.target) for pair in self.pairs)
        self._functions = {}
        for array in self.nest.arrays:
            distinct = {a.function: a for a in self.nest.accesses if a.array == array}
            self._functions[array] = tuple(distinct.values())

    def working_sets(self, batch: LoopBatch) -> BatchWorkingSets:
        """Algorithm 1 on every variant: one row a pair of distinct subscript functions and carrying loop.

        Raises NotClosedForm when a set of subscript values is neither a progression nor short enough to list.
        """
        parts: list[tuple[IntArray, ...]] = []
        for start in range(0, len(batch), CHUNK):
            chunk = batch.take(slice(start, start + CHUNK))
            for index, solver in enumerate(self._solvers):
                for carried in solver.carried(chunk):
                    low, high, spanned = self._sizes(chunk, carried)
                    rows = len(carried.variant)
                    parts.append(
                        (
                            carried.variant + start,
                            np.full(rows, index, dtype=np.int64),
                            np.full(rows, carried.depth, dtype=np.int64),
                            spanned,
                            low,
                            high,
                        )
                    )
        width = len(self.nest.arrays)
        empty = (np.zeros(0, dtype=np.int64),) * 4 + (np.zeros((0, width), dtype=np.int64),) * 2
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else list(empty)
        order = np.lexsort((columns[2], columns[1], columns[0]))
        return BatchWorkingSets(self.nest.arrays, self.pairs, *(column[order] for column in columns))

    def footprints(self, batch: LoopBatch) -> IntArray:
        """(V, D + 1, A): distinct elements of each array touched by the loops at depth d and inside, outer ones at 0.

        At depth 0 the whole nest, at depth D one time step.
        """
        result = np.zeros((len(batch), batch.depth + 1, len(self.nest.arrays)), dtype=np.int64)
        for d in range(batch.depth + 1):
            high = batch.cover[:, d, :] - 1
            result[:, d, :] = self._touched([_Piece(np.zeros_like(high), high, None)], len(batch))
        return result

    def _sizes(self, batch: LoopBatch, carried: Carried) -> tuple[IntArray, IntArray, IntArray]:
        """Elements of least and greatest working set, and the depth of the parallel loop that both stand for."""
        rows = len(carried.variant)
        depths = np.arange(batch.depth)
        inner = batch.parallel[carried.variant] & (batch.trip[carried.variant] > 1)
        inner &= (depths == carried.depth) | ((depths > carried.depth) & carried.differs)
        spanned = np.where(inner.any(axis=1), inner.argmax(axis=1), -1)
        low = np.zeros((rows, len(self.nest.arrays)), dtype=np.int64)
        high = np.zeros_like(low)
        plain = np.flatnonzero(spanned < 0)
        if len(plain):
            loops = batch.take(carried.variant[plain])
            same = (carried.first[plain] == carried.last[plain]).all(axis=1)
            source = carried.source[plain]
            low[plain] = self._between(loops, carried.depth, source, carried.first[plain])
            high[plain] = low[plain]
            other = np.flatnonzero(~same)
            if len(other):
                high[plain[other]] = self._between(
                    loops.take(other), carried.depth, source[other], carried.last[plain][other]
                )
        shared = np.flatnonzero(spanned >= 0)
        if len(shared):
            loops = batch.take(carried.variant[shared])
            whole = _Prefixes(loops, carried.source[shared]).free(spanned[shared])
            low[shared] = high[shared] = self._touched([whole], len(shared))
        return low, high, spanned

    def _between(self, loops: LoopBatch, carrier: int, source: IntArray, target: IntArray) -> IntArray:
        """(R, A): elements touched at { t : source <= t <= target }."""
        return self._touched(list(_pieces(loops, carrier, source, target)), len(loops), loops.iterator)

    def _touched(self, pieces: list[_Piece], rows: int, iterator: IntArray | None = None) -> IntArray:
        result = np.empty((rows, len(self.nest.arrays)), dtype=np.int64)
        for number, array in enumerate(self.nest.arrays):
            boxes: list[tuple[Box, BoolArray]] = []
            for access in self._functions[array]:
                boxes += _boxes(access, pieces, iterator, rows)
            result[:, number] = union_sizes(boxes, rows)
        return result


@dataclass(frozen=True, slots=True)
class _Piece:
    """Times with one prefix, the next counter between bounds and the rest free: a box of iterations, row by row."""

    low: IntArray
    """(R, iterators) least value of each."""
    high: IntArray
    """(R, iterators) greatest; below `low` somewhere where the piece is empty."""
    depth: int | None
    """The bounded loop; None where the whole remainder of the prefix is taken."""
    side: str = ""
    """`source` (the rest of the source's iteration), `middle` or `target` (the beginning of the target's)."""

    @property
    def present(self) -> BoolArray:
        return (self.low <= self.high).all(axis=1)


class _Prefixes:
    """Values of the iterators when the outer loops stand at given counters."""

    def __init__(self, loops: LoopBatch, time: IntArray) -> None:
        self.loops = loops
        self.time = time
        rows, count = len(loops), len(loops.extents)
        self.base = [np.zeros((rows, count), dtype=np.int64)]
        """For each depth, (R, iterators): value when the loops inside stand at 0."""
        self.left = [np.broadcast_to(np.array(loops.extents, dtype=np.int64), (rows, count))]
        """For each depth, (R, iterators): iterations that the loops inside run over."""
        for d in range(loops.depth):
            stepped = loops.iterator[:, d, None] == np.arange(count)
            span = loops.span[:, d, None]
            done = time[:, d, None] * span
            self.base.append(self.base[d] + np.where(stepped, done, 0))
            self.left.append(np.where(stepped, np.minimum(span, self.left[d] - done), self.left[d]))

    def free(self, depth: int | IntArray) -> _Piece:
        """Every time with the first `depth` counters."""
        if isinstance(depth, int):
            low, left = self.base[depth], self.left[depth]
        else:
            rows = np.arange(len(depth))
            low, left = np.stack(self.base)[depth, rows], np.stack(self.left)[depth, rows]
        return _Piece(low, low + left - 1, None)

    def bounded(self, depth: int, least: IntArray, most: IntArray, side: str) -> _Piece:
        """Times with the first `depth` counters and the next between `least` and `most`, (R,) each."""
        stepped = self.loops.iterator[:, depth, None] == np.arange(len(self.loops.extents))
        span = self.loops.span[:, depth, None]
        low, left = self.base[depth], self.left[depth]
        begin = np.where(stepped, least[:, None] * span, 0)
        end = np.where(stepped, np.minimum(left, (most[:, None] + 1) * span), left)
        # Padding steps nothing: it has one iteration, number 0.
        end = np.where(((least > 0) | (most < 0))[:, None] & ~stepped.any(axis=1)[:, None], 0, end)
        return _Piece(low + begin, low + end - 1, depth, side)


def _pieces(loops: LoopBatch, carrier: int, source: IntArray, target: IntArray) -> Iterator[_Piece]:
    """Disjoint pieces of { t : source <= t <= target }, source before target first at the carrying loop.

    In order: whole iterations of the carrier, the rest of the source's iteration from the inside out, the beginning
    of the target's. A source that stands at the start of its iteration counts as a whole iteration of the carrier.
    """
    whole = ~source[:, carrier + 1 :].any(axis=1)
    starts, ends = _Prefixes(loops, source), _Prefixes(loops, target)
    first = source[:, carrier] + np.where(whole, 0, 1)
    yield starts.bounded(carrier, first, target[:, carrier] - 1, "middle")
    everything = np.full(len(loops), np.iinfo(np.int64).max // 4, dtype=np.int64)
    nothing = np.full(len(loops), -1, dtype=np.int64)
    if not whole.all():
        for d in range(carrier + 1, loops.depth):
            yield starts.bounded(d, source[:, d] + 1, np.where(whole, nothing, everything // loops.span[:, d]), "source")
        point = starts.free(loops.depth)
        yield _Piece(point.low, np.where(whole[:, None], point.low - 1, point.high), None, "source")
    for d in range(carrier + 1, loops.depth):
        if target[:, d].any():
            yield ends.bounded(d, np.zeros_like(nothing), target[:, d] - 1, "target")
    point = ends.free(loops.depth)
    yield _Piece(point.low, point.high, None, "target")


def _boxes(
    access: BoxAccess, pieces: list[_Piece], iterator: IntArray | None, rows: int
) -> Iterator[tuple[Box, BoolArray]]:
    """What an access touches in each piece, leaving out pieces that another one covers.

    When the bounded loop of a piece steps an iterator that the access doesn't use, the piece touches all that its
    prefix can: the pieces further in on its side add nothing, and the middle makes both sides redundant.
    """
    used = np.array([any(row[i] for row in access.rows) for i in range(len(access.rows[0]))]) if access.rows else None
    covered: dict[str, BoolArray] = {side: np.zeros(rows, dtype=np.bool_) for side in ("source", "target")}
    for piece in pieces:
        present = piece.present
        if piece.side in covered:
            present &= ~covered[piece.side]
        if piece.depth is not None and iterator is not None:
            steps = iterator[:, piece.depth]
            idle = np.ones(rows, dtype=np.bool_) if used is None else ~used[np.maximum(steps, 0)] | (steps < 0)
            for side in covered if piece.side == "middle" else (piece.side,):
                covered[side] |= present & idle
        box = tuple(
            Sum(offset, tuple(Term(c, piece.low[:, i], piece.high[:, i]) for i, c in enumerate(row) if c))
            for row, offset in zip(access.rows, access.offsets, strict=True)
        )
        yield box, present


__all__ = ["BatchWorkingSets", "BoxAnalysis", "NotClosedForm", "Pair"]
