"""Cycles in the core of statements in plain loops, all data in the first-level cache.

What one iteration of an innermost loop costs follows from its arithmetic, from how each access moves along that loop,
and from how the loop runs: one iteration after the other, in the compiler's vectors, or as a row (kernels.rows).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from functools import cached_property
from typing import Any

from polydl.base.records import dataclass
from polydl.dependences.nests import Count1D, counted
from polydl.kernels.families import row_cycles
from polydl.kernels.innermost import Innermost
from polydl.model.accumulation import accumulates, accumulation, keeps
from polydl.model.chosen_strides import chosen_strides
from polydl.model.combiners import Regrouping
from polydl.model.contraction import contraction
from polydl.model.conversions import complex_products
from polydl.model.counting import count
from polydl.model.expr import Binary, Call, Conditional, Expr, Load, operands
from polydl.model.functions import function_called
from polydl.model.scop import Assignment, BlackBox, Scop, Statement
from polydl.model.strides import affine_rows, distances
from polydl.target.instructions import (
    CALL,
    LIBRARY_VECTOR_CALL,
    NOTHING,
    RATE,
    SLOW,
    Arithmetic,
    NeighbourSum,
    arithmetic,
    neighbour_sum,
    vector_cycles,
)
from polydl.target.isa import Isa

UNKNOWN = 64
"""Iterations that a loop without constant bounds is taken to have."""
ENTRIES = 16
"""Entries that a segment is taken to have, whose bounds only data know."""
LOOP_CYCLES = 12.0
"""Cycles to enter and leave an innermost loop that runs a few times: a mispredicted branch (Agner Fog,
"The microarchitecture of Intel, AMD and VIA CPUs": 12 to 20 cycles on current cores)."""
INTEGER_CYCLES = 1.0
"""Until an operation of integers has its result, if it is no product or quotient (Agner Fog, "Instruction tables")."""
COMPILER_VECTOR_BYTES = 32
"""Largest vectors that compilers use unasked: gcc and clang prefer 256 bits on processors that have 512 (GCC manual,
`-mprefer-vector-width`)."""
_SHARE_ERROR = 1e-6
"""Of a part of accesses that is left, as a quotient of numbers of iterations."""
_LEAST_BYTES = 8
"""Of the smallest vectors that compilers make of a loop: gcc on x86-64 has those of 8, 16 and 32 bytes."""
_STREAMS = 32
"""Streams of addresses that hardware follows ahead of a loop (Intel's optimization manual, "Data prefetch to the L2":
the streamer keeps track of one forward or backward stream in each of 32 pages)."""
_UNFOLLOWED = 14.0
"""Cycles that a line takes from the second-level cache where nothing fetched it ahead (Agner Fog: 12 to 14)."""
_PREDICTED = 16
"""Iterations of a loop up to which its end is foreseen, where they are always as many: gcc writes such loops out
(`max-completely-peel-times`), and processors remember as many branches of others."""
_PEELED = 200
"""Instructions up to which gcc writes such loops out (`max-completely-peeled-insns`)."""
_SCANNED = 500_000
"""isl operations in which points are counted one by one; for more of them half of the box is near enough."""


class Way(Enum):
    """How an innermost loop runs."""

    SERIAL = "serial"
    """One iteration after the other: some wait for the one before."""
    SCALAR = "scalar"
    """One iteration after the other, none of which waits; but nothing lets the compiler make vectors of them."""
    VECTOR = "vector"
    """In vectors of the compiler's."""
    SUM = "sum"
    """The same, with a partial sum in each lane."""
    ROW = "row"
    """As a vector function."""
    LANES = "lanes"
    """One iteration after the other, in each lane of a vector loop around it (schedule.innermost_passes)."""


@dataclass(frozen=True)
class Work:
    """A statement as the estimate sees it: what is asked again for each variant is kept."""

    scop: Scop
    statement: Statement
    left: dict[object, Any] = field(default_factory=dict, compare=False)
    """What microkernels leave out, by their loops (rank.slanted)."""

    @cached_property
    def instances(self) -> float:
        """How often it runs, or what it adds up over a segment does; the number for 64 where a bound is not known."""
        if any(extent is None for extent in (c.extent for c in self.counts.values())):
            return math.prod(self.ranges) * self._within
        found = count(self.statement.domain, operations=_SCANNED, budget=10_000)
        return (found.lower + found.upper) / 2 * self._within

    @property
    def _within(self) -> int:
        """Iterations within an instance: of segments, whose entries only data know, so many as `ENTRIES`."""
        if not isinstance(self.statement.body, BlackBox) or self.statement.body.segment is None:
            return 1
        found = contraction(self.scop, self.statement)
        return ENTRIES if found is None else math.prod(one.extent or ENTRIES for one in found.within)

    @cached_property
    def accumulates(self) -> bool:
        """Whether it accumulates into the element that it writes."""
        return accumulates(self.scop, self.statement)

    @cached_property
    def regroups(self) -> bool:
        """Whether it only combines values into an element, in an order that does not matter, by an operator that
        compilers regroup by themselves: of integers."""
        body, found = self.statement.body, accumulation(self.scop, self.statement)
        if found is None or not isinstance(body, Assignment) or body.op == "=":
            return False
        return found.regrouping is Regrouping.EXACT

    @cached_property
    def counts(self) -> Mapping[str, Count1D]:
        """How each of its loops counts."""
        return {i: counted([self.statement], i) for i in self.statement.iterators}

    @cached_property
    def ranges(self) -> tuple[float, ...]:
        """Iterations of each loop over the whole domain."""
        extents = (self.counts[i].extent for i in self.statement.iterators)
        return tuple(float(UNKNOWN if extent is None else max(extent, 1)) for extent in extents)

    @cached_property
    def rows(self) -> tuple[tuple[tuple[tuple[int, ...], ...], tuple[int, ...]] | None, ...]:
        """Per access the coefficients of the iterators by dimension, and the constants; None: not affine."""
        found: list[tuple[tuple[tuple[int, ...], ...], tuple[int, ...]] | None] = []
        for access in self.statement.accesses:
            rows = affine_rows(self.statement, access)
            if rows is None:
                found.append(None)
            else:
                names = self.statement.iterators
                found.append((tuple(tuple(row[n] for n in names) for row, _ in rows), tuple(c for _, c in rows)))
        return tuple(found)

    @cached_property
    def strides(self) -> tuple[tuple[float | None, ...] | None, ...]:
        """Per access the elements by which each iterator moves it; None where that is not known."""
        found: list[tuple[float | None, ...] | None] = []
        chosen = chosen_strides(self.scop, self.statement) if None in self.rows else {}
        for number, (access, rows) in enumerate(zip(self.statement.accesses, self.rows, strict=True)):
            if rows is None:
                found.append(chosen.get(number))
                continue
            moved = distances(self.scop.arrays[access.array], rows[0], self.statement.depth)
            known = tuple(float(one) for one in moved if isinstance(one, int))
            found.append(known if len(known) == len(moved) else None)
        return tuple(found)

    @cached_property
    def arithmetic(self) -> Arithmetic:
        """Of one instance."""
        return arithmetic(self.statement)

    @cached_property
    def neighbours(self) -> NeighbourSum | None:
        """What compilers add up neighbouring instances by in one instruction; None: nothing."""
        return neighbour_sum(self.statement, self.scop.arrays)

    @cached_property
    def asks(self) -> bool:
        """Whether it multiplies complex numbers, after which compilers ask for infinities (C11 G.5.1)."""
        body = self.statement.body
        if not isinstance(body, Assignment):
            return False
        elements = [self.scop.arrays[a.array].element for a in self.statement.accesses]
        return bool(complex_products(body.value, elements.__getitem__))

    @cached_property
    def rounds(self) -> bool:
        """Whether arithmetic in any of its elements rounds: in floats, and in complex numbers made of them."""
        return any(self.scop.arrays[a.array].element.rounds for a in self.statement.accesses)

    @cached_property
    def element_bytes(self) -> int:
        """Of its widest elements."""
        arrays = (self.scop.arrays[a.array] for a in self.statement.accesses)
        return max((a.element.bytes for a in arrays), default=8)

    def moves(self, step: Sequence[float] | None) -> tuple[float | None, ...]:
        """Elements by which each access moves when the iterators do by `step`; None where that is not known."""
        return tuple(None if step is None or strides is None else _moved(strides, step) for strides in self.strides)


def _moved(strides: Sequence[float | None], step: Sequence[float]) -> float | None:
    total = 0.0
    for stride, x in zip(strides, step, strict=True):
        if x and stride is None:
            return None
        total += 0.0 if stride is None else stride * x
    return total


@dataclass(frozen=True, slots=True)
class Inner:
    """A statement in an innermost loop."""

    work: Work
    step: tuple[float, ...] | None
    """By how much the iterators move from one iteration to the next; None where that is not known."""
    share: tuple[float, ...]
    """Per access the part of its loads and stores that is left when loops inside are written out: what does not move
    along one of them stays in a register."""
    times: float
    """Instances in one iteration: more than one where loops inside are written out."""
    across: tuple[float, ...] | None = None
    """By how much the iterators move from lane to lane, where it is a loop around that runs in vectors."""
    inner: int = 0
    """Iterations of a loop inside of the row in which each column adds something up; 0: it is in none."""


def latency(several: Sequence[Inner], target: Isa) -> float:
    """Cycles between the starts of two iterations that wait for each other, 0 where none does: the longest path from a
    value read to the one that it becomes, over the iterations in between."""
    waits = 0.0
    writers = _writers(several)
    for one in several:
        body = one.work.statement.body
        if not isinstance(body, Assignment):
            continue
        paths = _paths(one.work, body, target)
        for place, reader in enumerate(one.work.statement.accesses):
            if reader.write:
                continue
            for other in writers.get(reader.array, ()):
                distance = _distance(other, one, place)
                if distance:
                    waits = max(waits, paths[place] / distance)
    return waits


def _writers(several: Sequence[Inner]) -> dict[str, list[Inner]]:
    """The statements that write an array, by its name."""
    found: dict[str, list[Inner]] = {}
    for one in several:
        for array in dict.fromkeys(access.array for access in one.work.statement.accesses if access.write):
            found.setdefault(array, []).append(one)
    return found


def _distance(writer: Inner, reader: Inner, place: int) -> float:
    """Iterations from a statement's write to a read, the other's access with this number, of the same element further
    on; 0 where there is none, or where it cannot be told."""
    a, b = writer.work, reader.work
    if writer.step is None or reader.step is None or a.statement.iterators != b.statement.iterators:
        return 0.0
    for number, write in enumerate(a.statement.accesses):
        if not write.write or write.array != b.statement.accesses[place].array:
            continue
        one, two = a.rows[number], b.rows[place]
        if one is None or two is None or one[0] != two[0]:
            continue
        moved = [sum(c * s for c, s in zip(row, writer.step, strict=True)) for row in one[0]]
        apart = [x - y for x, y in zip(one[1], two[1], strict=True)]
        if not any(moved) and not any(apart):
            return 1.0  # the same element in every iteration
        ratios = {x / m for x, m in zip(apart, moved, strict=True) if m}
        still = all(not x for x, m in zip(apart, moved, strict=True) if not m)
        if still and len(ratios) == 1 and (distance := ratios.pop()) > 0:
            return distance
    return 0.0


def proven(several: Sequence[Inner]) -> bool:
    """Whether a compiler sees that no iteration needs another: whatever is written is touched by the same subscripts
    only, along the innermost loop."""
    if any(one.step is None or one.work.arithmetic.calls for one in several):
        return False
    for one in several:
        for number, write in enumerate(one.work.statement.accesses):
            if not write.write or one.work.scop.arrays[write.array].is_scalar:
                continue
            for other in several:
                for place, access in enumerate(other.work.statement.accesses):
                    same = one.work.rows[number], other.work.rows[place]
                    if access.array == write.array and (None in same or same[0] is None or same[1] is None):
                        return False
                    if access.array == write.array and same[0][0] != same[1][0]:  # type: ignore[index]
                        return False
    return True


def _paths(work: Work, body: Assignment, target: Isa) -> list[float]:
    """Per access the cycles from its value to the statement's result."""
    least = float(target.latency) if work.rounds else INTEGER_CYCLES
    own = 0.0 if body.op == "=" else _operation(body.op[:-1], least, target)
    inside = _depths(body.value, least, target)
    return [own + inside.get(place, 0.0) for place in range(len(work.statement.accesses))]


def _operation(op: str, least: float, target: Isa) -> float:
    return max(SLOW.get(op, 0.0), float(target.latency) if op == "*" else least)


def _depths(value: Expr, least: float, target: Isa) -> dict[int, float]:
    """By access in an expression the cycles from its value to that of the expression, in which an operation takes
    `least`."""
    if isinstance(value, Load):
        return {value.access: 0.0}
    below: dict[int, float] = {}
    for one in operands(value):
        for access, cycles in _depths(one, least, target).items():
            below[access] = max(cycles, below.get(access, 0.0))
    match value:
        case Binary(op):
            more = _operation(op, least, target)
        case Call(function):
            row = function_called(function)
            more = max(row.cycles if row is not None and row.cycles is not None else CALL, least)
        case Conditional():
            more = least
        case _:
            more = 0.0
    return {access: cycles + more for access, cycles in below.items()}


def way_of_compiler(several: Sequence[Inner], target: Isa) -> Way:
    """How a loop runs that nothing is said about."""
    if latency(several, target) > 0:
        return Way.SUM if len(several) == 1 and sums_by_itself(several[0]) and proven(several) else Way.SERIAL
    return Way.VECTOR if proven(several) and not any(one.work.asks for one in several) else Way.SCALAR


def cycles_of_compiler(
    several: Sequence[Inner], around: Sequence[Inner], trips: tuple[float, float], target: Isa, rounds: float = 1.0
) -> float:
    """Cycles of one iteration of an innermost loop that is left to the compiler. A short one is written out where that
    lets the loop around it become vectors. `around`: the same statements in that loop (`in_loop_around`); empty where
    there is none, or more in it. `trips`: iterations of that loop, and of the innermost one."""
    outer, inner = trips
    size = sum(one.work.arithmetic.simple + len(one.work.statement.accesses) for one in several) * inner
    if around and inner == round(inner) and inner <= _PREDICTED and size <= _PEELED:
        if way_of_compiler(around, target) is Way.VECTOR:
            return iteration_cycles(around, Way.VECTOR, outer, target) / inner
    return iteration_cycles(several, way_of_compiler(several, target), inner, target, rounds)


def in_loop_around(one: Inner, step: tuple[float, ...], trips: float) -> Inner:
    """The statement in the loop right around its innermost one, whose `trips` iterations are written out: what stays
    while they run is loaded and stored once. `step`: by how much that loop moves the iterators."""
    still = (move == 0 for move in one.work.moves(one.step))
    share = tuple(part / trips if stays else part for part, stays in zip(one.share, still, strict=True))
    return replace(one, step=step, share=share, times=one.times * trips)


def sums_by_itself(one: Inner) -> bool:
    """Whether a loop adds up in vectors though nothing is said about it: integers, into one element."""
    return one.work.regroups and into_one_element(one)


def into_one_element(one: Inner) -> bool:
    """Whether all that runs in a loop, loops inside that are written out included, writes one element: code for several
    sums at once keeps none of them in lanes."""
    body = one.work.statement.body
    if not isinstance(body, Assignment) or one.work.moves(one.step)[body.target] != 0:
        return False
    return one.share[body.target] * one.times <= 1.0 + _SHARE_ERROR


def iteration_cycles(several: Sequence[Inner], way: Way, trips: float, target: Isa, rounds: float = 1.0) -> float:
    """Cycles of one iteration of an innermost loop of `trips` iterations, entering it included. `rounds`: how often it
    runs before its sum is put together."""
    if way is Way.ROW:
        return _in_rows(several, trips, target)
    if way is Way.LANES:
        return _in_lanes(several, trips, target)
    if way in (Way.VECTOR, Way.SUM) and not _callable(several, target):
        way = Way.SERIAL if way is Way.SUM else Way.SCALAR
    scalar = sum(one.times * _instance(one, 1, {}) for one in several)
    waits = latency(several, target) if way in (Way.SERIAL, Way.SUM) else 0.0
    if way in (Way.SERIAL, Way.SCALAR):
        return max(scalar, waits) + LOOP_CYCLES / trips
    widest = max(one.work.element_bytes for one in several)
    lanes = _compiler_lanes(several, target)
    smallest = lanes
    if way is Way.SUM and (adding := several[0].work.neighbours) is not None:
        lanes = max(lanes, min(target.vector_bytes, COMPILER_VECTOR_BYTES) // adding.bytes)
        smallest = min(lanes, _LEAST_BYTES // adding.bytes)
    side_by_side = _stored(several)
    vector = max(sum(one.times * _instance(one, lanes, side_by_side) for one in several), waits)
    vector += max(0.0, _streams(several) - _STREAMS) * _UNFOLLOWED * lanes * widest / _LINE
    # Products of complex numbers are made once more to ask for infinities, in a loop of their own in front.
    asked = sum(one.times * _instance(one, lanes, side_by_side) for one in several if one.work.asks)
    # What a vector has no room for compilers leave to smaller ones, each half as large as the one before.
    rest = trips % lanes
    vectors = math.floor(trips / lanes) + int(rest // smallest).bit_count()
    spent = vectors * (vector + asked) + (rest % smallest) * max(scalar, waits)
    if way is Way.SUM and trips == round(trips) and trips <= _PREDICTED * lanes:
        return (spent + LOOP_CYCLES / rounds) / trips
    return (spent + LOOP_CYCLES * (3.0 if asked else 1.0)) / trips


_LINE = 64
"""Bytes of a cache line."""


def _streams(several: Sequence[Inner]) -> float:
    """Rows of memory that an innermost loop walks along at once: many where iterations of others are written out."""
    found: dict[object, float] = {}
    for one in several:
        accesses = one.work.statement.accesses
        for access, row, move, share in zip(accesses, one.work.rows, one.work.moves(one.step), one.share, strict=True):
            if row is not None and move != 0 and not one.work.scop.arrays[access.array].is_scalar:
                key = access.array, row[0], row[1][:-1]
                found[key] = max(found.get(key, 0.0), one.times * share)
    return sum(found.values())


def _callable(several: Sequence[Inner], target: Isa) -> bool:
    """Whether all functions that are called have vector forms: glibc's, on x86."""
    work = [one.work.arithmetic for one in several]
    return not any(one.calls if not target.intrinsics else one.scalar_calls for one in work)


def _stored(several: Sequence[Inner]) -> dict[str, float]:
    """Per array the elements that one iteration of a loop stores."""
    found: dict[str, float] = {}
    for one in several:
        for access, share in zip(one.work.statement.accesses, one.share, strict=True):
            if access.write:
                found[access.array] = found.get(access.array, 0.0) + one.times * share
    return found


def _instance(one: Inner, lanes: int, stored: Mapping[str, float]) -> float:
    """Cycles of `lanes` neighbouring instances of a statement, in vectors of as many. `stored`: see `_stored`; where
    stores leave elements out between them, lanes are stored one by one."""
    arrays, accesses = one.work.scop.arrays, one.work.statement.accesses
    moving, scattered = [], 0.0
    for access, move, share in zip(accesses, one.work.moves(one.step), one.share, strict=True):
        if arrays[access.array].is_scalar or move == 0:
            continue  # it stays in a register
        if access.write and move is not None and abs(move) > max(1.0, stored.get(access.array, math.inf)):
            scattered += share
        else:
            moving.append((move, share))
    ops = one.work.arithmetic
    return vector_cycles(ops, moving, lanes, ops.calls * (CALL if lanes == 1 else LIBRARY_VECTOR_CALL), scattered)


def _in_lanes(several: Sequence[Inner], trips: float, target: Isa) -> float:
    """Cycles of one iteration of one lane of a loop of `trips` iterations inside of a vector loop: what stays while it
    runs is loaded once in front of it, what stays from lane to lane is loaded for all of them at once."""
    lanes = _compiler_lanes(several, target)
    step = before = 0.0
    for one in several:
        arrays, accesses = one.work.scop.arrays, one.work.statement.accesses
        along, across = one.work.moves(one.step), one.work.moves(one.across)
        elements = [
            (move, share, stays == 0)
            for access, move, stays, share in zip(accesses, across, along, one.share, strict=True)
            if not arrays[access.array].is_scalar
        ]
        inside = [(1.0 if move == 0 else move, share) for move, share, stays in elements if not stays]
        outside = [(1.0 if move == 0 else move, share) for move, share, stays in elements if stays]
        ops = one.work.arithmetic
        step += one.times * vector_cycles(ops, inside, lanes, ops.calls * LIBRARY_VECTOR_CALL)
        before += one.times * vector_cycles(NOTHING, outside, lanes, 0.0)
    step += 2.0 * max(0.0, _held(several) - target.registers) / RATE
    return (max(step, latency(several, target)) + (before + LOOP_CYCLES) / trips) / lanes


def _compiler_lanes(several: Sequence[Inner], target: Isa) -> int:
    """Of the vectors that compilers make."""
    widest = max(one.work.element_bytes for one in several)
    return max(1, min(target.vector_bytes, COMPILER_VECTOR_BYTES) // widest)


def _in_rows(several: Sequence[Inner], trips: float, target: Isa) -> float:
    """Cycles of one iteration of an innermost loop of `trips` iterations that is a row."""
    works = [one.work for one in several]
    piece = Innermost(
        works[0].scop.arrays,
        tuple(work.statement for work in works),
        tuple(one.work.moves(one.step) for one in several),
        tuple(one.share for one in several),
        tuple(one.times for one in several),
        inner={at: one.inner for at, one in enumerate(several) if one.inner},
    )
    vectors = [work for work in works if not keeps(work.statement)] or works
    lanes = max(1, target.vector_bytes // max(work.element_bytes for work in vectors))
    gathering = sum(one.times for one in several if _gathers(one)) * 2 * math.log2(lanes) / RATE
    step = row_cycles(piece, target).step + 2.0 * max(0.0, _held(several) - target.registers) / RATE
    return (math.ceil(trips / lanes) * step + LOOP_CYCLES + gathering) / trips


def _gathers(one: Inner) -> bool:
    """Whether a statement accumulates into the same element while the loop runs, so that lanes are put together."""
    body = one.work.statement.body
    return (
        not one.inner
        and one.work.accumulates
        and isinstance(body, Assignment)
        and one.work.moves(one.step)[body.target] == 0
    )


_TEMPORARY = 6
"""Registers for what is loaded and for values between statements."""


def _held(several: Sequence[Inner]) -> float:
    """Registers that stay what they are, or are accumulated in, while a row runs; further ones are stored and loaded
    in each of its steps."""
    found: dict[object, float] = {}
    written = {
        one.work.statement.accesses[b.target].array
        for one in several
        if isinstance(b := one.work.statement.body, Assignment)
    }
    for one in several:
        accesses = one.work.statement.accesses
        for access, row, move, share in zip(accesses, one.work.rows, one.work.moves(one.step), one.share, strict=True):
            temporary = one.work.scop.arrays[access.array].is_scalar and access.array in written
            if move == 0 and (not temporary or one.work.accumulates):
                found[access.array, row] = max(found.get((access.array, row), 0.0), one.times * share)
    return sum(found.values()) + _TEMPORARY
