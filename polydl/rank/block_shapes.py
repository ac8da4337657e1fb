"""Chooses register blocks to try for a nest: those that lose least to remainders and to the ports of the machine."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.dependences.nests import Nest
from polydl.kernels.contraction_blocks import block_efficiency, price
from polydl.kernels.families import NESTS
from polydl.model.types import ElementType
from polydl.rank.instruction_set import target_isa
from polydl.schedule.limits import RegisterBlocks
from polydl.target import Machine
from polydl.target.products import FMA, SINGLE, preferred
from polydl.target.schemes import scheme_of

_LEAST = 0.8
"""Fraction of the best block's modelled efficiency below which a block is not tried: what a better place in the
caches can win back at most, by the spread between blocks on data in the first and in the second level cache that
experiments/microkernel_peak.py shows."""


def register_blocks_for(machine: Machine) -> RegisterBlocks:
    """(rows loop, columns loop, m, n) to try for a contraction's microkernel, most promising first, and the inner
    product that suits the machine better than that of the types.

    For each pair of loops and each number of vectors the block that loses least to remainders and ports; ordered by
    that efficiency (to the percent), then by the bytes that a block loads per FMA, 1/m + 1/n.
    """
    target = target_isa(machine)

    def blocks(nest: Nest) -> Sequence[tuple[str | None, str, int, int] | tuple[str | None, str, int, int, str]]:
        found = nest.contraction
        better = "" if found is None else preferred(found, lambda p: target.multiplying(p).fmas / target.fmas)
        best = told(nest, better)
        if not better:
            return best
        # Single elements need copies of another type of both operands, which can take longer than they win.
        own = told(nest, "") if better == SINGLE else []
        return [*((*block, better) for block in best), *own]

    def told(nest: Nest, product: str) -> list[tuple[str | None, str, int, int]]:
        """With an inner product that a microkernel is told to take."""
        ordered = sorted(
            ((*price(use, b, target), b.m), (use.rows or "", use.columns, b.n), (use.rows, use.columns, b.m, b.n))
            for family in NESTS
            for one in family.matches(nest)
            for use in (one.told(product),)
            for b in family.shapes(use, target)
        )
        return [block for cost, _, block in ordered if cost[0] <= _LEAST * ordered[0][0][0]]

    return blocks


def whole_block(machine: Machine, element: ElementType, size: int) -> tuple[int, int] | tuple[()]:
    """(m, n) of the best register block that divides size x size; empty where none does."""
    target = target_isa(machine)
    blocks = scheme_of(FMA).blocks(target, element)
    fitting = [(m, n) for m, n in blocks if m > 1 and size % m == 0 and size % n == 0]
    best = max(
        fitting,
        key=lambda mn: (block_efficiency(target, FMA, element, mn, size, size), -1 / mn[0] - 1 / mn[1]),
        default=(),
    )
    return best
