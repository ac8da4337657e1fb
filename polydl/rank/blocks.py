"""Chooses register blocks to try for a nest: those that lose least to remainders and to the ports of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from polydl.dependences.nests import Nest
from polydl.model.types import ElementType
from polydl.rank.register_blocks import block_cycles, target_isa
from polydl.schedule.structure import RegisterBlocks
from polydl.target import Machine
from polydl.target.isa import Isa, register_blocks


@cache
def block_efficiency(target: Isa, element: ElementType, m: int, n: int, rows: int | None, columns: int | None) -> float:
    """Modelled fraction of the FMA peak when a rows x columns output is cut into m x n register blocks.

    Remainder blocks count with their own, lower efficiency; lanes that a mask leaves idle count as lost. An unknown
    extent counts as a multiple of the block.
    """
    r, c = m if rows is None else rows, n if columns is None else columns
    return r * c / (target.lanes(element) * target.fmas) / block_cycles(target, element, m, n, r, c)


_LEAST = 0.8
"""Fraction of the best block's modelled efficiency below which a block is not tried: what a better place in the
caches can win back at most, by the spread between blocks on data in the first and in the second level cache that
experiments/microkernel_peak.py shows."""


def register_blocks_for(machine: Machine) -> RegisterBlocks:
    """(rows loop, columns loop, m, n) to try for a contraction's microkernel, most promising first.

    For each pair of loops and each number of vectors the block that loses least to remainders and ports; ordered by
    that efficiency (to the percent), then by the bytes that a block loads per FMA, 1/m + 1/n.
    """
    target = target_isa(machine)

    def blocks(nest: Nest) -> Sequence[tuple[str | None, str, int, int]]:
        found = nest.contraction
        assert found is not None
        best: dict[tuple[str | None, str, int], tuple[float, float, int]] = {}
        for columns in found.columns():
            for rows in found.rows(columns) or (None,):
                row_extent = 1 if rows is None else nest.counts[rows].extent
                column_extent = nest.counts[columns].extent
                for m, n in register_blocks(found.element, target, 0.0):
                    m = m if row_extent is None else min(m, max(row_extent, 1))
                    n = n if column_extent is None else min(n, max(column_extent, 1))
                    lost = -round(block_efficiency(target, found.element, m, n, row_extent, column_extent), 2)
                    key, price = (rows, columns, n), (lost, 1 / m + 1 / n, m)
                    best[key] = min(best.get(key, price), price)
        ordered = sorted((price, (r or "", c, n), (r, c, price[2], n)) for (r, c, n), price in best.items())
        return [block for price, _, block in ordered if price[0] <= _LEAST * ordered[0][0][0]]

    return blocks


def whole_block(machine: Machine, element: ElementType, size: int) -> tuple[int, int] | tuple[()]:
    """(m, n) of the best register block that divides size x size; empty where none does."""
    target = target_isa(machine)
    fitting = [(m, n) for m, n in register_blocks(element, target, 0.0) if m > 1 and size % m == 0 and size % n == 0]
    best = max(
        fitting, key=lambda mn: (block_efficiency(target, element, *mn, size, size), -1 / mn[0] - 1 / mn[1]), default=()
    )
    return best
