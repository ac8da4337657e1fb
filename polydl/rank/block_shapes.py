"""Chooses register blocks to try for a nest: those that lose least to remainders and to the ports of the machine."""

from __future__ import annotations

import math
from collections.abc import Sequence

from polydl.dependences.nests import Nest
from polydl.kernels.contraction_blocks import Block, ContractionUse, block_efficiency, price
from polydl.kernels.families import NESTS
from polydl.kernels.family import Cycles
from polydl.model.types import ElementType
from polydl.rank.instruction_set import target_isa
from polydl.rank.plain import ENTRIES
from polydl.schedule.grouping import grouped_within
from polydl.schedule.limits import RegisterBlocks
from polydl.target import Machine
from polydl.target.isa import Isa
from polydl.target.products import FMA, MATRICES, SINGLE, preferred
from polydl.target.schemes import scheme_of

_MOST_OF_TILES = 2
"""Blocks of tiles that are tried beside those of vectors: estimates of the whole nest decide between them."""
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
        best, spent = told(nest, better)
        # Single elements need copies of another type of both operands, which can take longer than they win.
        own = told(nest, "")[0] if better == SINGLE else []
        vectors = [*((*block, better) for block in best), *own] if better else best
        of_tiles, name = min(((told(nest, name), name) for name in MATRICES), key=lambda one: one[0][1])
        tiles, in_tiles = of_tiles
        matrices = [(*block, name) for block in tiles[:_MOST_OF_TILES]]
        return (
            [*matrices, *vectors]
            if in_tiles < spent
            else [*vectors[:_MOST_OF_TILES], *matrices, *vectors[_MOST_OF_TILES:]]
        )

    def told(nest: Nest, product: str) -> tuple[list[tuple[str | None, str, int, int]], float]:
        """With an inner product that a microkernel is told to take, and the cycles that the first one takes."""
        ordered = sorted(
            (
                (*price(use, b, target), b.m),
                (use.rows or "", use.columns, b.n),
                (use.rows, use.columns, b.m, b.n),
                _spent(nest, family.cycles(use, b, target), use, b),
            )
            for family in NESTS
            for one in family.matches(nest)
            if product not in MATRICES or _has_tiles(nest, one, product, target)
            for use in (one.told(product),)
            for b in family.shapes(use, target)
        )
        if not ordered:
            return [], math.inf
        return [block for cost, _, block, _ in ordered if cost[0] <= _LEAST * ordered[0][0][0]], ordered[0][3]

    return blocks


def _has_tiles(nest: Nest, use: ContractionUse, scheme: str, target: Isa) -> bool:
    """Whether a machine has instructions of a scheme that multiply matrices for a contraction, and whole steps of its
    reductions where they are within a segment."""
    product = use.in_matrices(scheme)
    if product is None or use.rows is None or not use.product.in_words or not target.has(product):
        return False
    found = nest.contraction
    assert found is not None
    moves = [use.left.strides[loop] for loop in (use.rows, use.columns)]
    return not use.direct or grouped_within(found, use.left, moves, product) is not None


def _spent(nest: Nest, cycles: Cycles, use: ContractionUse, block: Block) -> float:
    """Cycles of a whole contraction in the core: extents that are not known are large, segments as `plain.ENTRIES`."""
    rows, columns, *reductions = (
        _LARGE if e is None else e for e in (use.row_extent, use.column_extent, *use.reduction_extents)
    )
    calls = math.ceil(rows / block.m) * math.ceil(columns / block.n)
    within = () if nest.contraction is None else nest.contraction.within
    steps = math.prod(reductions) * math.prod(one.extent or ENTRIES for one in within)
    return steps * cycles.step + calls * (cycles.stores + cycles.drain)


_LARGE = 1024


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
