"""Enumerates the structures of a nest, from what the transforms say is worth trying (schedule.transforms).

Tiles and microkernels come first, then orders of the loops, which of them run in parallel, where operands are packed.
Only legal structures come out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polydl.schedule.limits import EQUAL, Choices, Limits
from polydl.schedule.loops import LoopTransform, NestLoops, apply
from polydl.schedule.transforms import CHOICES, Microkernel
from polydl.schedule.transforms.register_block import inside_tiles, microkernels
from polydl.schedule.transforms.tile import tilings
from polydl.target.products import MATRICES


def legal_structures(limits: Limits) -> Iterator[NestLoops]:
    """The legal structures of a nest, at most `space.limit`, in a fixed order. The nest as it is written is among them.

    The rounds of the different choices of tiles and kernels are interleaved, so that a limit cuts the variety of
    each choice rather than whole choices.
    """
    seen: set[tuple[LoopTransform, ...]] = set()
    bodies = [_chosen(apply(limits.nest, body), limits, CHOICES) for body in _bodies(limits)]
    count = 0
    while bodies and count < limits.space.limit:
        alive = []
        for body in bodies:
            if count >= limits.space.limit:
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
                limits.pruned[EQUAL] += 1
        bodies = alive


def _bodies(limits: Limits) -> Iterator[tuple[LoopTransform, ...]]:
    """Tiles and microkernels, before the loops are put in order."""
    for kernel in microkernels(limits):
        held = {} if kernel is None else {kernel.rows or "": kernel.m, kernel.columns: kernel.n}
        shallow = kernel.reduce if kernel is not None and _whole_rows(limits, kernel) else ()
        for tiles in tilings(limits, held, shallow):
            yield tiles if kernel is None else (*tiles, inside_tiles(kernel, tiles))
    if limits.nest.contraction is not None:
        yield ()


def _whole_rows(limits: Limits, kernel: Microkernel) -> bool:
    """Whether a block has all rows of the product: then each element of B is read once. Not of matrices in registers,
    which take more steps at once."""
    if kernel.product in MATRICES:
        return False
    extent = None if kernel.rows is None else limits.nest.counts[kernel.rows].extent
    return kernel.rows is None or (extent is not None and extent <= kernel.m)


def _chosen(structure: NestLoops, limits: Limits, choices: Sequence[Choices]) -> Iterator[NestLoops]:
    """What all choices, one after the other, make of a structure."""
    if not choices:
        yield structure
        return
    for made in choices[0](structure, limits):
        yield from _chosen(made, limits, choices[1:])
