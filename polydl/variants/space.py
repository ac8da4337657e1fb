"""The space of a nest's variants: which transforms are tried, and why nothing else.

Every choice is one of: a register block for the microkernel, which reductions run inside it, tile sizes, an order of
the loops, and which loops run in parallel. Only legal structures come out (variants.legality).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from polydl.variants.legality import NestLegality, is_legal
from polydl.variants.nests import Nest
from polydl.variants.structure import Loop, Structure, apply
from polydl.variants.transforms import Microkernel, Parallelize, Permute, Tile, Transform

Blocks = Callable[[Nest, str | None, str], Sequence[tuple[int, int]]]
"""Register blocks (m, n) worth trying for (nest, rows loop, columns loop), best first."""


@dataclass(frozen=True, slots=True)
class Space:
    """How far the space reaches."""

    name: str
    blocks: int
    """Register blocks tried per choice of rows and columns loops, at most."""
    tile_sizes: tuple[int, ...]
    """Candidate tile sizes, in iterations of the loop."""
    tiled_at_once: int
    """Loops tiled in the same variant, at most."""
    levels: int
    """Nested tile loops per loop, at most."""
    orders: int
    """Loop orders tried per choice of the rest, at most; all of them where there are no more than that."""
    limit: int
    """Variants per nest, at most."""


SPACES = {
    "small": Space("small", 1, (), 0, 0, 24, 500),
    "default": Space("default", 4, (32, 128, 512), 2, 1, 120, 10_000),
    "wide": Space("wide", 8, (8, 16, 32, 64, 128, 256, 512, 1024), 3, 2, 5040, 200_000),
}


@dataclass(frozen=True, slots=True)
class Variant:
    """An element of a space: the transforms and the structure that they make."""

    transforms: tuple[Transform, ...]
    structure: Structure


def variants(nest: Nest, legality: NestLegality, space: Space, blocks: Blocks, threads: int) -> Iterator[Variant]:
    """The legal variants of a nest, at most `space.limit`, in a fixed order. The nest as it is written is among them.

    The rounds of the different choices of tiles and kernels are interleaved, so that a limit cuts the variety of
    each choice rather than whole choices.
    """
    seen: set[tuple[Transform, ...]] = set()
    bodies = [_orders(nest, legality, space, body, threads) for body in _bodies(nest, space, blocks)]
    count = 0
    while bodies and count < space.limit:
        alive = []
        for body in bodies:
            variant = next(body, None)
            if variant is None:
                continue
            alive.append(body)
            if variant.transforms not in seen and count < space.limit:
                seen.add(variant.transforms)
                count += 1
                yield variant
        bodies = alive


def _bodies(nest: Nest, space: Space, blocks: Blocks) -> Iterator[tuple[Transform, ...]]:
    """Tiles and microkernels, before the loops are put in order."""
    for kernel in _kernels(nest, space, blocks):
        for tiles in _tiles(nest, space, kernel):
            if kernel is None:
                yield tiles
            else:
                yield (*tiles, _inside_tiles(kernel, tiles))
    if nest.contraction is not None:
        yield ()


def _kernels(nest: Nest, space: Space, blocks: Blocks) -> Iterator[Microkernel | None]:
    found = nest.contraction
    if found is None or not _unit_columns(nest):
        yield None
        return
    for columns in _unit_columns(nest):
        reductions = [i for i in found.reductions if _extent(nest, i) != 1]
        for rows in found.rows(columns) or (None,):
            for m, n in blocks(nest, rows, columns)[: space.blocks]:
                for inside in range(len(reductions) + 1):
                    yield Microkernel(rows, columns, m, n, tuple(reductions[inside:]))


def _unit_columns(nest: Nest) -> tuple[str, ...]:
    """Columns loops whose steps, as counted, are neighbours in memory."""
    assert nest.contraction is not None
    upwards = [c for c in nest.contraction.columns() if c not in nest.statements[0].descending]
    return tuple(c for c in upwards if nest.counts[c].stride == 1)


def _extent(nest: Nest, loop: str) -> int | None:
    return nest.counts[loop].extent


def _tiles(nest: Nest, space: Space, kernel: Microkernel | None) -> Iterator[tuple[Tile, ...]]:
    """Combinations of tilings, untiled first."""
    sizes: dict[str, list[tuple[int, ...]]] = {}
    for loop in nest.loops:
        extent = _extent(nest, loop)
        unit = 1
        if kernel is not None:
            unit = {kernel.rows: kernel.m, kernel.columns: kernel.n}.get(loop, 1)
        # A tile of a blocked loop is a whole number of blocks: the size nearest to the wanted one.
        fitting = sorted({max(1, round(s / unit)) * unit for s in space.tile_sizes})
        fitting = [s for s in fitting if s > unit and (extent is None or s < extent)]
        sizes[loop] = [(s,) for s in fitting]
        if space.levels > 1:
            sizes[loop] += [(big, small) for small in fitting for big in fitting if big > small and big % small == 0]
    tileable = [loop for loop in nest.loops if sizes[loop]]
    yield ()
    for many in range(1, space.tiled_at_once + 1):
        for loops in itertools.combinations(tileable, many):
            for chosen in itertools.product(*(sizes[loop] for loop in loops)):
                yield tuple(Tile(loop, size) for loop, size in zip(loops, chosen, strict=True))


def _inside_tiles(kernel: Microkernel, tiles: Sequence[Tile]) -> Microkernel:
    """The microkernel takes the innermost piece of a tiled loop."""
    point = {tile.loop: f"{tile.loop}.{len(tile.sizes)}" for tile in tiles}
    rows = None if kernel.rows is None else point.get(kernel.rows, kernel.rows)
    reduce = tuple(point.get(r, r) for r in kernel.reduce)
    return Microkernel(rows, point.get(kernel.columns, kernel.columns), kernel.m, kernel.n, reduce)


def _orders(
    nest: Nest, legality: NestLegality, space: Space, body: tuple[Transform, ...], threads: int
) -> Iterator[Variant]:
    """Every order and parallel choice of one body, legal ones only."""
    base = apply(nest, body)
    yield from _parallel(nest, legality, body, base, threads)
    count = 0
    for order in _permutations(base):
        if order == tuple(loop.name for loop in base.loops):
            continue
        if count >= space.orders:
            return
        transforms = (*body, Permute(order))
        structure = apply(nest, transforms)
        if is_legal(structure, legality):
            count += 1
            yield from _parallel(nest, legality, transforms, structure, threads)


def _trips(nest: Nest, loop: Loop) -> int | None:
    extent = loop.within if loop.within is not None else _extent(nest, loop.iterator)
    return None if extent is None else -(-extent // loop.step)


def _permutations(structure: Structure) -> Iterator[tuple[str, ...]]:
    """Orders of the loops that really loop, tile loops outside of their points; the others stay outermost."""
    nest = structure.nest
    idle = tuple(loop.name for loop in structure.loops if _trips(nest, loop) == 1)
    moving = [loop for loop in structure.loops if _trips(nest, loop) != 1]

    def extend(chosen: tuple[Loop, ...], rest: list[Loop]) -> Iterator[tuple[str, ...]]:
        if not rest:
            yield tuple(loop.name for loop in chosen)
        for i, loop in enumerate(rest):
            if not any(other.iterator == loop.iterator and other.step > loop.step for other in rest):
                yield from extend((*chosen, loop), rest[:i] + rest[i + 1 :])

    for order in extend((), moving):
        yield _with_idle(structure, idle, order)


def _with_idle(structure: Structure, idle: tuple[str, ...], order: tuple[str, ...]) -> tuple[str, ...]:
    """Loops of one iteration go outermost, unless that would take a point loop out of its tile loop."""
    loops = {loop.name: loop for loop in structure.loops}
    outside = tuple(n for n in idle if loops[n].within is None)
    inside = tuple(n for n in idle if loops[n].within is not None)
    return (*outside, *order, *inside)


def _parallel(
    nest: Nest, legality: NestLegality, transforms: tuple[Transform, ...], structure: Structure, threads: int
) -> Iterator[Variant]:
    """Sequential, and each run of adjacent loops that may be shared out among the threads."""
    sequential = Variant(transforms, structure)
    choices: list[Variant] = []
    if threads > 1:
        names = [loop.name for loop in structure.loops]
        for start in range(len(names)):
            if _trips(nest, structure.loops[start]) == 1:
                continue
            for end in range(start + 1, len(names) + 1):
                if _trips(nest, structure.loops[end - 1]) == 1:
                    break
                parallel = Parallelize(tuple(names[start:end]))
                made = apply(nest, (*transforms, parallel))
                if not is_legal(made, legality):
                    break
                choices.append(Variant((*transforms, parallel), made))
            if choices:
                break  # loops further inside only add fork and join
    if choices:
        yield from choices
    elif is_legal(structure, legality):
        yield sequential
