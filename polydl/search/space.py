"""Enumerates the structures of a nest: which transforms are tried, within which limits.

The transforms say themselves what of them is tried (schedule.transforms): register blocks for the microkernel, tile
sizes, orders of the loops, which of them run in parallel, where operands are packed. Only legal structures come out
(schedule.legality).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from polydl.dependences.directions import NestLegality
from polydl.dependences.nests import Nest
from polydl.schedule.legality import is_legal
from polydl.schedule.limits import EQUAL, ILLEGAL, ORDERS, Space
from polydl.schedule.structure import RegisterBlocks, Structure, apply
from polydl.schedule.transform import Transform
from polydl.schedule.transforms import Permute
from polydl.schedule.transforms.microkernel import inside_tiles, microkernels
from polydl.schedule.transforms.pack import copies, needs_packed_columns
from polydl.schedule.transforms.parallelize import shared_out
from polydl.schedule.transforms.permute import number_of_orders, orders
from polydl.schedule.transforms.tile import tilings


def legal_structures(
    nest: Nest,
    legality: NestLegality,
    space: Space,
    blocks: RegisterBlocks,
    threads: int,
    pruned: Counter[str] | None = None,
) -> Iterator[Structure]:
    """The legal structures of a nest, at most `space.limit`, in a fixed order. The nest as it is written is among them.

    `pruned` takes the number of choices left out, per reason; what a limit keeps from being looked at is not counted.

    The rounds of the different choices of tiles and kernels are interleaved, so that a limit cuts the variety of
    each choice rather than whole choices.
    """
    pruned = Counter() if pruned is None else pruned
    seen: set[tuple[Transform, ...]] = set()
    shared = legality.parallel_loops(nest) if threads > 1 else ()
    bodies = [
        _orders(nest, legality, space, body, threads, pruned)
        for body in _bodies(nest, space, blocks, shared, threads, pruned)
    ]
    count = 0
    while bodies and count < space.limit:
        alive = []
        for body in bodies:
            if count >= space.limit:
                return
            structure = next(body, None)
            if structure is None:
                continue
            alive.append(body)
            if structure.transforms not in seen:
                seen.add(structure.transforms)
                count += 1
                yield structure
            else:
                pruned[EQUAL] += 1
        bodies = alive


def _bodies(
    nest: Nest, space: Space, blocks: RegisterBlocks, shared: Sequence[str], threads: int, pruned: Counter[str]
) -> Iterator[tuple[Transform, ...]]:
    """Tiles and microkernels, before the loops are put in order."""
    for kernel in microkernels(nest, space, blocks, pruned):
        held = {} if kernel is None else {kernel.rows or "": kernel.m, kernel.columns: kernel.n}
        for tiles in tilings(nest, space, held, shared, threads, pruned):
            if kernel is None:
                yield tiles
            else:
                yield (*tiles, inside_tiles(kernel, tiles))
    if nest.contraction is not None:
        yield ()


def _orders(
    nest: Nest,
    legality: NestLegality,
    space: Space,
    body: tuple[Transform, ...],
    threads: int,
    pruned: Counter[str],
) -> Iterator[Structure]:
    """Every order, parallel choice and packing of one body, legal ones only."""
    base = apply(nest, body)
    written = tuple(loop.name for loop in base.loops)
    count = broken = 0
    for order in itertools.chain([written], (o for o in orders(base) if o != written)):
        if count >= space.orders:
            pruned[ORDERS] += number_of_orders(base) - count - broken
            return
        structure = base if order == written else Permute(order).applied(base)
        if not is_legal(structure, legality):
            broken += 1
            pruned[ILLEGAL] += 1
        else:
            count += 1
            for made in shared_out(nest, legality, space, structure, threads, pruned):
                if not needs_packed_columns(made):
                    yield made
                if nest.box and structure.kernel is not None:
                    yield from copies(made, space.least_packed)
