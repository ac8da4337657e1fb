"""Which register blocks to try for a nest: those that lose least to remainders and to the ports of the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from polydl.codegen.isa import Dtype, Isa, cycles, isa, register_blocks
from polydl.machine import Machine
from polydl.variants.nests import Nest



def target_isa(machine: Machine) -> Isa:
    """The generator's instruction set for a machine; the portable one for an unknown name."""
    try:
        return isa(machine.simd.isa)
    except KeyError:
        return isa("generic")


@cache
def block_efficiency(target: Isa, dtype: Dtype, m: int, n: int, rows: int | None, columns: int | None) -> float:
    """Modelled fraction of the FMA peak when a rows x columns output is cut into m x n register blocks.

    Remainder blocks count with their own, lower efficiency; lanes that a mask leaves idle count as lost. An unknown
    extent counts as a multiple of the block.
    """
    lanes = target.lanes(dtype)
    row_pieces = [(m, 1)] if rows is None else _pieces(rows, m)
    column_pieces = [(n, 1)] if columns is None else _pieces(columns, n)
    spent = 0.0
    useful = 0
    for r, row_times in row_pieces:
        for c, column_times in column_pieces:
            vectors = -(-c // lanes)
            spent += row_times * column_times * cycles(target, r, vectors)
            useful += row_times * column_times * r * c
    return useful / (lanes * target.fmas) / spent


def _pieces(extent: int, size: int) -> list[tuple[int, int]]:
    whole, rest = divmod(extent, size)
    return [(s, times) for s, times in ((size, whole), (rest, 1)) if s and times]


def register_blocks_for(machine: Machine) -> Callable[[Nest, str | None, str], Sequence[tuple[int, int]]]:
    """Blocks (m, n) for (nest, rows loop, columns loop), best modelled efficiency on the nest's extents first.

    Ties go to the block that loads least per FMA: 1/m + 1/n in units of vectors.
    """
    target = target_isa(machine)

    def blocks(nest: Nest, rows: str | None, columns: str) -> Sequence[tuple[int, int]]:
        assert nest.contraction is not None
        dtype: Dtype = "double" if nest.contraction.dtype == "double" else "float"
        lanes = target.lanes(dtype)
        row_extent = 1 if rows is None else nest.counts[rows].extent
        column_extent = nest.counts[columns].extent
        fitting = set()
        for m, n in register_blocks(dtype, target, 0.0):
            m = m if row_extent is None else min(m, max(row_extent, 1))
            n = n if column_extent is None else min(n, max(column_extent, 1))
            fitting.add((m, n))

        def price(block: tuple[int, int]) -> tuple[float, float, tuple[int, int]]:
            m, n = block
            lost = -round(block_efficiency(target, dtype, m, n, row_extent, column_extent), 3)
            return lost, lanes / n + 1 / m, block

        return sorted(fitting, key=price)

    return blocks
