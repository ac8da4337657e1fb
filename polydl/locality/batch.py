"""Working sets and footprints of many variants of a box nest at once, in closed form.

Equal to `polydl.locality.exact` on each variant as a nest in time, which the tests hold it to.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from polydl.base.records import dataclass
from polydl.locality.boxes import BoolArray, BoxAccess, BoxNest, IntArray, LoopBatch
from polydl.locality.endpoints import PairSolver
from polydl.locality.exact import Kind
from polydl.locality.pieces import Piece, Prefixes, Side, between
from polydl.locality.progressions import Box, NotClosedForm, Sum, Term, union_sizes

CHUNK = 2048
"""Variants analysed together: bounds the memory (a few hundred bytes per variant, loop and iterator)."""


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
    `polydl.locality.exact` then.
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
        """Algorithm 1 on every variant: one row per pair of distinct subscript functions and carrying loop.

        Raises NotClosedForm when a set of subscript values is neither a progression nor short enough to list.
        """
        width = len(self.nest.arrays)
        parts = [(np.zeros(0, dtype=np.int64),) * 4 + (np.zeros((0, width), dtype=np.int64),) * 2]
        for start in range(0, len(batch), CHUNK):
            chunk = batch.take(slice(start, start + CHUNK))
            found = [(i, each) for i, solver in enumerate(self._solvers) for each in solver.carried(chunk)]
            if not found:
                continue
            variant = np.concatenate([each.variant for _, each in found])
            depth = np.concatenate([np.full(len(each.variant), each.depth) for _, each in found])
            pair = np.concatenate([np.full(len(each.variant), index) for index, each in found])
            source, first, last, differs = (
                np.concatenate([getattr(each, name) for _, each in found])
                for name in ("source", "first", "last", "differs")
            )
            low, high, spanned = self._sizes(chunk.take(variant), depth, source, first, last, differs)
            parts.append((variant + start, pair, depth, spanned, low, high))
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.lexsort((columns[2], columns[1], columns[0]))
        return BatchWorkingSets(self.nest.arrays, self.pairs, *(column[order] for column in columns))

    def footprints(self, batch: LoopBatch) -> IntArray:
        """(V, D + 1, A): distinct elements of each array touched by the loops at depth d and inside, outer ones at 0.

        At depth 0 the whole nest, at depth D one time step.
        """
        result = np.zeros((len(batch), batch.depth + 1, len(self.nest.arrays)), dtype=np.int64)
        for d in range(batch.depth + 1):
            high = batch.cover[:, d, :] - 1
            result[:, d, :] = self._touched([Piece(np.zeros_like(high), high, None, Side.MIDDLE)], batch)
        return result

    def _sizes(
        self,
        loops: LoopBatch,
        depth: IntArray,
        source: IntArray,
        first: IntArray,
        last: IntArray,
        differs: BoolArray,
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Elements of least and greatest working set of R dependences, and the depth of the parallel loop spanned."""
        rows = len(loops)
        depths = np.arange(loops.depth)
        spans = loops.parallel & (loops.trip > 1)
        spans &= (depths == depth[:, None]) | ((depths > depth[:, None]) & differs)
        spanned = np.where(spans.any(axis=1), spans.argmax(axis=1), -1)
        low = np.zeros((rows, len(self.nest.arrays)), dtype=np.int64)
        shared = np.flatnonzero(spanned >= 0)
        if len(shared):
            whole = Prefixes(loops.take(shared), source[shared]).free(spanned[shared])
            low[shared] = self._touched([whole], loops.take(shared))
        high = low.copy()
        plain = np.flatnonzero(spanned < 0)
        if len(plain):
            # Both sizes in one go; where the targets are the same, so are the sizes.
            other = plain[(first[plain] != last[plain]).any(axis=1)]
            both = np.concatenate([plain, other])
            targets = np.concatenate([first[plain], last[other]])
            windows = loops.take(both)
            found = self._touched(list(between(windows, depth[both], source[both], targets)), windows)
            low[plain] = high[plain] = found[: len(plain)]
            high[other] = found[len(plain) :]
        return low, high, spanned

    def _touched(self, pieces: list[Piece], loops: LoopBatch) -> IntArray:
        """(R, A): distinct elements of each array touched in the union of the pieces of each row."""
        result = np.empty((len(loops), len(self.nest.arrays)), dtype=np.int64)
        for number, array in enumerate(self.nest.arrays):
            functions = self._functions[array]
            if len(functions) == 1:
                result[:, number] = _of_one_function(functions[0], pieces, loops)
            else:
                boxes: list[tuple[Box, BoolArray]] = []
                for access in functions:
                    needed = _needed(access, pieces, loops)
                    boxes += ((_image(access, p.low, p.high), n) for p, n in zip(pieces, needed, strict=True))
                result[:, number] = union_sizes(boxes, len(loops))
        return result


def _of_one_function(access: BoxAccess, pieces: list[Piece], loops: LoopBatch) -> IntArray:
    """As `union_sizes`, with the needed pieces of each row moved together, so that rows with as many share the work."""
    needed = np.stack(_needed(access, pieces, loops))
    number = needed.sum(axis=0)
    slots = np.argsort(~needed, axis=0, kind="stable")
    used = [i for i in range(len(loops.extents)) if any(row[i] for row in access.rows)]
    lows = np.stack([piece.low[:, used] for piece in pieces])
    highs = np.stack([piece.high[:, used] for piece in pieces])
    result = np.zeros(len(loops), dtype=np.int64)
    for size in np.unique(number):
        rows = np.flatnonzero(number == size)
        boxes = []
        for slot in range(size):
            low = np.zeros((len(rows), len(loops.extents)), dtype=np.int64)
            high = np.zeros_like(low)
            low[:, used], high[:, used] = lows[slots[slot, rows], rows], highs[slots[slot, rows], rows]
            boxes.append((_image(access, low, high), np.ones(len(rows), dtype=np.bool_)))
        result[rows] = union_sizes(boxes, len(rows))
    return result


def _image(access: BoxAccess, low: IntArray, high: IntArray) -> Box:
    return tuple(
        Sum(offset, tuple(Term(c, low[:, i], high[:, i]) for i, c in enumerate(row) if c))
        for row, offset in zip(access.rows, access.offsets, strict=True)
    )


def _needed(access: BoxAccess, pieces: list[Piece], loops: LoopBatch) -> list[BoolArray]:
    """Rows where each piece is there and adds something to what the access touches in the others.

    When the bounded loop of a piece steps an iterator that the access doesn't use, the piece touches all that its
    prefix can: the pieces further in on its side add nothing, and the middle makes both sides redundant.
    """
    used = np.array([any(row[i] for row in access.rows) for i in range(len(loops.extents))])
    covered = {Side.SOURCE: np.zeros(len(loops), dtype=np.bool_), Side.TARGET: np.zeros(len(loops), dtype=np.bool_)}
    needed = []
    for piece in pieces:
        present = piece.present
        if piece.side is not Side.MIDDLE:
            present = present & ~covered[piece.side]
        if piece.depth is not None:
            steps = np.take_along_axis(loops.iterator, piece.depth[:, None], axis=1)[:, 0]
            idle = present & (~used[np.maximum(steps, 0)] | (steps < 0))
            for side in covered if piece.side is Side.MIDDLE else (piece.side,):
                covered[side] |= idle
        needed.append(present)
    return needed


__all__ = ["BatchWorkingSets", "BoxAnalysis", "NotClosedForm", "Pair"]
