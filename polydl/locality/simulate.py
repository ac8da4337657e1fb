"""Cache misses by simulation: the accesses of a nest one after the other through LRU caches, set-associative or not.

The stack distance of an access is the number of distinct lines touched since its line was last touched, that line
included (Mattson et al., "Evaluation techniques for storage hierarchies", 1970): a fully associative LRU cache holds
the line if it has as many lines. Accesses of one set are a trace of their own, so that a stable sort by sets makes of
a set-associative cache a fully associative one of as many lines as there are ways.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from polydl.base.errors import QuotaExceeded
from polydl.base.records import dataclass
from polydl.locality.lines import LineTrace
from polydl.model import isl
from polydl.model.counting import disjoint_pieces

IntArray = npt.NDArray[np.int64]

MOST_ACCESSES = 1 << 20
"""Accesses of a trace, at most, where nobody asks for more: some seconds."""

LINES_OF_PAGE = 64
"""Lines of 64 bytes of a page of 4 KiB."""


@dataclass(frozen=True, slots=True)
class Trace:
    """N accesses in the order in which they happen."""

    access: IntArray
    """(N,) which of the nest's accesses."""
    line: IntArray
    """(N,) number of the line touched, from 0. Of a flat trace numbers are places in memory, in which the arrays lie
    one behind the other, by name, each from the beginning of a page; else they only tell lines apart."""


def trace(of: LineTrace, most: int = MOST_ACCESSES) -> Trace:
    """Every access of a nest. Raises QuotaExceeded where there are more than `most`, ValueError for parameters."""
    times, numbers, lines = [], [], []
    arrays = sorted({access.array for access in of.accesses})
    wide = max((isl.range_arity(access.relation) for access in of.accesses), default=0)
    left = most
    for number, access in enumerate(of.accesses):
        pairs = points(access.relation.wrap().flatten(), left)
        left -= len(pairs)
        times.append(pairs[:, : of.depth])
        place = np.zeros((len(pairs), wide + 1), dtype=np.int64)
        place[:, 0] = arrays.index(access.array)
        place[:, 1 : 1 + pairs.shape[1] - of.depth] = pairs[:, of.depth :]
        lines.append(place)
        numbers.append(np.full(len(pairs), number, dtype=np.int64))
    if not numbers:
        return Trace(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    time, number_of, place = np.concatenate(times), np.concatenate(numbers), np.concatenate(lines)
    order = np.lexsort((number_of, *(time[:, d] for d in reversed(range(of.depth)))))
    if of.flat:
        ends = np.zeros(len(arrays) + 1, dtype=np.int64)
        np.maximum.at(ends, place[:, 0] + 1, place[:, -1] // LINES_OF_PAGE + 1)
        line = place[:, -1] + np.cumsum(ends)[place[:, 0]] * LINES_OF_PAGE
    else:
        _, line = np.unique(place, axis=0, return_inverse=True)
    return Trace(number_of[order], line.reshape(-1).astype(np.int64)[order])


def points(of: isl.Set, most: int) -> IntArray:
    """(N, d) the points of a bounded set without parameters. Raises QuotaExceeded for more than `most`."""
    found = [np.zeros((0, isl.arity(of)), dtype=np.int64)]
    for piece in disjoint_pieces(of):
        found.append(_points_of(piece, most - sum(map(len, found))))
    return np.concatenate(found)


def _points_of(piece: isl.BasicSet, most: int) -> IntArray:
    """Dimension by dimension: of each point so far the values that its projection allows."""
    grown = np.zeros((1, 0), dtype=np.int64)
    for depth in range(1, isl.arity(piece) + 1):
        outer = isl.project_onto(piece.to_set(), range(depth))
        ends = isl.bounds(outer, depth - 1)
        grown = np.concatenate([_longer(part, grown, ends, most) for part in disjoint_pieces(outer)])
    return grown


def _longer(part: isl.BasicSet, prefixes: IntArray, ends: tuple[int, int], most: int) -> IntArray:
    """(M, d) the points of a basic set that begin with one of (N, d - 1) prefixes."""
    depth = isl.arity(part)
    columns = depth + isl.divisions(part) + 1
    equalities, inequalities = (np.array(rows, dtype=np.int64).reshape(-1, columns) for rows in isl.rows(part))
    low, high = (np.full(len(prefixes), end, dtype=np.int64) for end in ends)
    for row in (*equalities, *-equalities, *inequalities):
        factor = row[depth - 1]
        if factor and not row[depth:-1].any():
            rest = prefixes @ row[: depth - 1] + row[-1]
            if factor > 0:
                low = np.maximum(low, -(rest // factor))
            else:
                high = np.minimum(high, rest // -factor)
    many = np.maximum(high - low + 1, 0)
    if many.sum() > 4 * most + 4096:
        raise QuotaExceeded(f"more than {most} accesses", hint="give smaller sizes")
    first = np.repeat(np.cumsum(many) - many, many)
    values = np.repeat(low, many) + np.arange(many.sum()) - first
    both = np.concatenate([np.repeat(prefixes, many, axis=0), values[:, None]], axis=1)
    values = both
    for numerator, modulus in isl.definitions(part):
        known = np.array(numerator[: values.shape[1]], dtype=np.int64)
        values = np.concatenate([values, ((values @ known + numerator[-1]) // modulus)[:, None]], axis=1)
    inside = np.ones(len(both), dtype=np.bool_)
    for row in equalities:
        inside &= values @ row[:-1] + row[-1] == 0
    for row in inequalities:
        inside &= values @ row[:-1] + row[-1] >= 0
    found = both[inside]
    if len(found) > most:
        raise QuotaExceeded(f"more than {most} accesses", hint="give smaller sizes")
    return found


def stack_distances(line: IntArray) -> IntArray:
    """(N,) distinct lines touched since the last touch of the line, itself included; 0 for first touches.

    With p the place of the last touch, of the accesses after p those count whose own last touch was at p or before:
    they are the first of their line since. All accesses up to p are such, p + 1 of them, so that

        distance = #{ j < i : p_j <= p_i } - (p_i + 1) + 1.
    """
    before = last_touches(line)
    smaller = _smaller_in_front(before)
    return np.where(before < 0, 0, smaller - before)


def last_touches(line: IntArray) -> IntArray:
    """(N,) the place of the last access of the same line; -1 where there is none."""
    order = np.argsort(line, kind="stable")
    same = np.zeros(len(line), dtype=np.bool_)
    same[1:] = line[order][1:] == line[order][:-1]
    before = np.full(len(line), -1, dtype=np.int64)
    before[order[1:][same[1:]]] = order[:-1][same[1:]]
    return before


def _smaller_in_front(values: IntArray) -> IntArray:
    """(N,) how many values at earlier places are at most as large; the values are -1 or all different.

    Bit by bit of the values' ranks, the highest first (a wavelet matrix): of ranks with the same higher bits those with
    a 0 are smaller than those with a 1; then both are put apart in their order.
    """
    bits = max(0, int(len(values) - 1).bit_length())
    # Ranks in which equal values (-1) keep their order; behind them larger ones, up to a power of two.
    rank = np.arange(1 << bits, dtype=np.int64)
    rank[np.argsort(values, kind="stable")] = np.arange(len(values))
    place = np.arange(1 << bits, dtype=np.int64)
    found = np.zeros(1 << bits, dtype=np.int64)
    for bit in reversed(range(bits)):
        high = (rank >> bit & 1).astype(np.bool_)
        zeros = np.cumsum(~high.reshape(-1, 2 << bit), axis=1).reshape(-1)
        found[place[high]] += zeros[high]
        start = np.arange(1 << bits) >> (bit + 1) << (bit + 1)
        ones = np.arange(1 << bits) - start - zeros
        to = start + np.where(high, (1 << bit) + ones, zeros - 1)
        rank[to], place[to] = rank.copy(), place.copy()
    return found[: len(values)]


@dataclass(frozen=True, slots=True)
class Simulated:
    """Misses of the accesses of a nest, by the numbers of its accesses."""

    accesses: IntArray
    """(A,)."""
    compulsory: IntArray
    """(A,) first touches of a line."""
    others: tuple[IntArray, ...]
    """(A,) of each cache: misses of lines touched before."""


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache with LRU replacement."""

    sets: int
    ways: int
    """Lines of a set; a fully associative cache has one set."""


def simulate(of: LineTrace, caches: Sequence[Cache], most: int = MOST_ACCESSES) -> Simulated:
    """Misses of a nest in caches that begin empty; the sets of a cache take the lines of memory in turn, for which the
    trace must be flat. Raises QuotaExceeded for more than `most` accesses."""
    if not of.flat and any(cache.sets > 1 for cache in caches):
        raise ValueError("sets need the numbers of lines in memory")
    run = trace(of, most)
    count = len(of.accesses)
    first = last_touches(run.line) < 0
    others = []
    for cache in caches:
        order = np.argsort(run.line % cache.sets, kind="stable")
        missed = np.zeros(len(run.line), dtype=np.bool_)
        missed[order] = stack_distances(run.line[order]) > cache.ways
        others.append(np.bincount(run.access[missed & ~first], minlength=count))
    return Simulated(
        np.bincount(run.access, minlength=count), np.bincount(run.access[first], minlength=count), tuple(others)
    )


def replayed(run: Trace, cache: Cache) -> list[bool]:
    """Whether each access misses, by keeping the lines of each set in the order of their use: the slow twin of
    `stack_distances`."""
    held: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(cache.sets)]
    missed = []
    for line in run.line.tolist():
        own = held[line % cache.sets]
        missed.append(line not in own)
        own[line] = None
        own.move_to_end(line)
        if len(own) > cache.ways:
            own.popitem(last=False)
    return missed
