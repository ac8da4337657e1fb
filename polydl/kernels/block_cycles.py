"""Cycles of register blocks: one step of a reduction over rows x vectors accumulators."""

from __future__ import annotations

import math
from functools import cache

from polydl.model.types import ElementType
from polydl.target.isa import Isa, cycles, fits, split_block


def pieces(extent: int, size: int) -> list[tuple[int, int]]:
    """(size, how many) when an extent is cut into whole pieces and a remainder."""
    whole, rest = divmod(extent, size)
    return [(s, times) for s, times in ((size, whole), (rest, 1)) if s and times]


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
