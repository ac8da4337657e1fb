"""Blocks of accumulators that stay in vector registers, and the cycles of one step of a reduction over them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from polydl.base.records import dataclass
from polydl.model.types import ElementType
from polydl.target.isa import Isa


@dataclass(frozen=True, slots=True)
class RegisterBlock:
    """The accumulators that stay in registers during the reduction: `rows` x `vectors`."""

    rows: int
    vectors: int
    held: int
    """Vectors of B held at once (`held_vectors`); if not all, A is broadcast again for the second half."""
    by_rows: bool
    """The elements of A are held, and the vectors of B are loaded one by one (`holds_rows`)."""
    steps: int
    """Steps of the innermost reduction that are written one after the other (`unrolled`)."""


def held_vectors(target: Isa, rows: int, vectors: int) -> int:
    """How many vectors of B to hold beside rows x vectors accumulators; 0 when the block would spill.

    All of them where they fit. Else two even halves with a register to spare, since the loads of the second overlap
    the FMAs of the first. More than two groups: gcc 12 keeps the vectors of several in registers, and spills.
    """
    free = target.registers - target.scratch - rows * vectors
    if target.window:
        # A vector of A, or what it is put together from, and the vectors of B that its taps are multiplied with.
        return vectors if free > target.window * vectors + target.apart - 1 else 0
    half = -(-vectors // 2)
    return vectors if free >= vectors else half if free > half else 0


def holds_rows(target: Isa, rows: int, vectors: int) -> bool:
    """Whether the elements of A are held beside rows x vectors accumulators instead of the vectors of B: these do not
    all fit, those do, and each of both is loaded once."""
    used = rows * vectors + target.scratch
    return not target.window and used + vectors > target.registers >= used + rows


def unrolled(rows: int, vectors: int) -> int:
    """Steps of the innermost reduction between two branches. Three scalar instructions close the loop, and compete with
    the FMAs for ports: with two steps of 6 x 2 vectors instead of one, 9 to 12 % more speed in the first-level cache
    (Golden Cove, AVX2); beyond 24 FMAs nothing is gained (experiments/microkernel_peak.py)."""
    return next((steps for steps in (1, 2) if steps * rows * vectors >= _BODY), 4)


_BODY = 24
"""FMAs between two branches."""


def paired_rows(target: Isa) -> int:
    """The most rows of a block one vector wide that takes two reduction steps at a time; 0 where it never does.

    Such a block broadcasts pairs of neighbours of A, interleaves two rows of B and has two accumulators per row: half
    the loads, half the latency. Beside them, the two interleaved rows stay in registers.
    """
    return (target.registers - target.scratch - 2) // 2 if target.pairs else 0


def _loads(target: Isa, rows: int, vectors: int, paired: bool) -> float:
    """Vector loads of one step of the innermost reduction."""
    if target.window:
        # Neighbouring taps start in the middle of a line: of vectors as long as one, each touches two.
        crossing = 1 + target.vector_bytes / 128
        return crossing * target.apart * vectors * (rows + target.window - 1) / target.window + vectors
    if paired and vectors == 1 and rows <= paired_rows(target):
        return 1 + rows / 2
    if holds_rows(target, rows, vectors):
        return rows + vectors
    held = held_vectors(target, rows, vectors)
    if held == 0:
        raise ValueError(f"{rows} x {vectors} accumulators do not fit {target.name}")
    return vectors + rows * -(-vectors // held)


def cycles(target: Isa, rows: int, vectors: int, paired: bool = False) -> float:
    """Cycles of one step of the innermost reduction for a register block, operands in the first-level cache.

    The slowest of the FMA ports, the load ports (each vector of B once, each element of A broadcast once for each
    group of held vectors) and the latency of the FMA, on which each accumulator waits for itself. `paired`: A allows
    blocks one vector wide to take two steps at a time.
    Raises ValueError for a block that does not fit the registers.
    """
    steps = 2 if paired and vectors == 1 and rows <= paired_rows(target) else 1
    loads = _loads(target, rows, vectors, paired)
    return max(rows * vectors / target.fmas, loads / target.loads, target.latency / steps)


def fits(target: Isa, rows: int, vectors: int) -> bool:
    """Whether the accumulators of a block stay in registers."""
    return held_vectors(target, rows, vectors) > 0 or holds_rows(target, rows, vectors)


def _fitting(target: Isa, most_rows: int, most_vectors: int) -> Iterator[tuple[int, int]]:
    for vectors in range(1, most_vectors + 1):
        for rows in range(1, most_rows + 1):
            if fits(target, rows, vectors):
                yield rows, vectors


def pieces(extent: int, size: int) -> list[tuple[int, int]]:
    """(size, how many) when an extent is cut into whole pieces and a remainder."""
    whole, rest = divmod(extent, size)
    return [(s, times) for s, times in ((size, whole), (rest, 1)) if s and times]


@cache
def split_block(target: Isa, element: ElementType, m: int, n: int, paired: bool = False) -> RegisterBlock:
    """The register block that covers m rows x n elements in the fewest modelled cycles.

    Remainders count for what they cost, so blocks that divide m x n are preferred; ties go to the fewest pieces,
    then to the fewest loads.
    """
    vectors_in_all = -(-n // target.lanes(element))

    def price(block: tuple[int, int]) -> tuple[float, int, float]:
        rows, vectors = block
        parts = [
            (r, v, rows_times * vectors_times)
            for r, rows_times in pieces(m, rows)
            for v, vectors_times in pieces(vectors_in_all, vectors)
        ]
        return (
            sum(times * cycles(target, r, v, paired) for r, v, times in parts),
            sum(times for _, _, times in parts),
            sum(times * _loads(target, r, v, paired) for r, v, times in parts),
        )

    rows, vectors = min(_fitting(target, m, vectors_in_all), key=price)
    return RegisterBlock(
        rows,
        vectors,
        held_vectors(target, rows, vectors) or 1,
        holds_rows(target, rows, vectors),
        unrolled(rows, vectors),
    )


def efficiency(element: ElementType, target: Isa, m: int, n: int, paired: bool = False) -> float:
    """Modelled fraction of the FMA peak, in (0, 1], of an m x n block (elements) on data in the first-level cache.

    Counts lanes that a masked last vector leaves empty as lost. Any m, n >= 1: split into register blocks as
    `split_block` does.
    """
    block = split_block(target, element, m, n, paired)
    spent = sum(
        rows_times * vectors_times * cycles(target, r, v, paired)
        for r, rows_times in pieces(m, block.rows)
        for v, vectors_times in pieces(-(-n // target.lanes(element)), block.vectors)
    )
    return m * n / (target.lanes(element) * target.fmas) / spent


def register_blocks(element: ElementType, target: Isa, least: float = 0.9) -> tuple[tuple[int, int], ...]:
    """The (m, n) blocks, in elements, whose accumulators stay in registers, best modelled efficiency first.

    Only those whose `efficiency` is at least `least`; n is a whole number of vectors. Ties: the larger block first,
    then the squarer, since both lower the traffic of A and B.
    """
    lanes = target.lanes(element)
    # More than eight vectors leave each with fewer than four rows to be used in.
    blocks = [(rows, vectors) for rows, vectors in _fitting(target, target.registers, 8)]
    scored = [
        (-efficiency_of(target, rows, vectors), -rows * vectors, abs(rows - vectors), rows, vectors)
        for rows, vectors in blocks
    ]
    return tuple((rows, vectors * lanes) for score, _, _, rows, vectors in sorted(scored) if -score >= least)


def efficiency_of(target: Isa, rows: int, vectors: int) -> float:
    """Modelled fraction of the FMA peak of one register block of full vectors."""
    return rows * vectors / target.fmas / cycles(target, rows, vectors)


@cache
def block_cycles(target: Isa, element: ElementType, m: int, n: int, rows: int, columns: int) -> float:
    """Cycles of one reduction step over a rows x columns output cut into m x n register blocks."""
    lanes = target.lanes(element)
    return math.fsum(
        row_times * column_times * _held_cycles(target, element, r, -(-c // lanes))
        for r, row_times in pieces(rows, m)
        for c, column_times in pieces(columns, n)
    )


def _held_cycles(target: Isa, element: ElementType, rows: int, vectors: int) -> float:
    """Cycles of one reduction step of a block, split into register blocks when it is larger than the registers."""
    if fits(target, rows, vectors):
        return _contended_cycles(target, rows, vectors)
    split = split_block(target, element, rows, vectors * target.lanes(element))
    return math.fsum(
        row_times * vector_times * _contended_cycles(target, r, v)
        for r, row_times in pieces(rows, split.rows)
        for v, vector_times in pieces(vectors, split.vectors)
    )


@cache
def _shares(target: Isa) -> dict[tuple[int, int], float]:
    return {(rows, vectors): share for rows, vectors, share in target.shares}


CONTENTION = 4.0
"""Exponent of the norm that joins the cycles of FMA and load ports: the closer the loads come to their limit, the more
often an FMA waits for one that was issued late, or again after a miss."""


def _contended_cycles(target: Isa, rows: int, vectors: int) -> float:
    """Cycles of one step of a register block: as they were measured on the machine, else `cycles`, with the bottleneck
    not taken as perfectly overlapped by the other ports."""
    share = _shares(target).get((rows, vectors))
    if share is not None:
        return rows * vectors / target.fmas / share
    bound = cycles(target, rows, vectors)
    loads = (rows + vectors) / target.loads
    fmas = rows * vectors / target.fmas
    joined = math.hypot(fmas ** (CONTENTION / 2), loads ** (CONTENTION / 2))
    return max(bound, math.pow(joined, 2 / CONTENTION))
