"""Microkernels inside of larger programs: the whole tiles of the contractions in a tiled band.

before:    for tiles: { for points: S: A[i][j] -= A[i][k] * A[k][j]; R: A[i][j] /= A[j][j]; … }
after:     for tiles: { what is left of the tile; for blocks of the tile: microkernel(…) }
requires:  a tiled band whose loops are S's own; the tile has no instance of any statement that is no contraction
           (`schedule.tree_check` decides); the block's instances are a box, the others stay plain loops
source:    blocked factorisations as in LAPACK (Anderson et al., 1999), here found by tiling; PolyDL's microkernels
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence as Several
from dataclasses import replace

from polydl.dependences.nests import Count1D, Nest
from polydl.model import isl
from polydl.model.contraction import Contraction
from polydl.model.counting import count
from polydl.model.scop import Scop, Statement
from polydl.model.time import map_from_affs
from polydl.schedule.as_tree import loops_inside
from polydl.schedule.kernel_call import kernel_call
from polydl.schedule.loops import NestLoops, Packed, apply, outer_affs
from polydl.schedule.transforms import Microkernel, Permute, Tile
from polydl.schedule.tree import Band, Copy, Kernel, Leaf, Member, Node, Run, Sequence
from polydl.target.isa import kernel_contraction

Axis = tuple[str, int]
"""An iterator of a statement, and the constant that a tile's loop adds to it."""


def blocked(
    child: Node,
    points: Several[Member],
    sizes: Several[int],
    scop: Scop,
    of: Mapping[str, Statement],
    block: tuple[int, int],
) -> Node:
    """The body of a tile, in which microkernels of `block` rows and columns compute the whole tiles of contractions.

    `points` are the loops of the band, `sizes` their tile sizes. The body itself where there is nothing to give.
    """
    names = list(points[0].affs)
    # Copies that convert need a box.
    found = {
        name: one if one is not None and one.uniform else None
        for name in names
        for one in (kernel_contraction(scop, of[name], in_place=True),)
    }
    sized = list(zip(points, sizes, strict=True))
    tile_of = {
        name: map_from_affs(of[name].domain, [isl.floor_div(m.affs[name], s) for m, s in sized]) for name in names
    }
    heavy = [name for name in names if found[name] is not None and _axes(of[name], points, name) is not None]
    kernels: list[Kernel] = []
    for name in heavy:
        tiles = tile_of[name].range()
        for other in names:
            if other not in heavy:
                tiles = tiles.subtract(tile_of[other].range())
        tiles = tiles.coalesce()
        one, axes = found[name], _axes(of[name], points, name)
        assert one is not None and axes is not None
        statement = replace(of[name], domain=tile_of[name].intersect_range(tiles).domain().coalesce())
        made = None if statement.domain.is_empty() else _kernel(statement, one, axes, sizes, block)
        if made is not None:
            kernels.append(replace(made, tiles=tuple(sized)))
    return Sequence((child, *kernels)) if kernels else child


def _axes(statement: Statement, points: Several[Member], name: str) -> list[Axis] | None:
    """Per loop of the band the iterator that it is; None unless they are the statement's own, each once, forwards."""
    if len(points) != statement.depth or statement.descending:
        return None
    axes: list[Axis] = []
    for member in points:
        row, constant = isl.coefficients(member.affs[name]), isl.offset(member.affs[name])
        if row is None or sorted(row) != [0] * (statement.depth - 1) + [1] or constant is None:
            return None
        axes.append((statement.iterators[row.index(1)], constant))
    return axes if len({iterator for iterator, _ in axes}) == len(axes) else None


def _kernel(
    statement: Statement, found: Contraction, axes: Several[Axis], sizes: Several[int], block: tuple[int, int]
) -> Kernel | None:
    """The tiles that are boxes, with the loops over tiles in the order of the band, then over blocks, columns outermost
    so that a panel of B stays in the cache; None where there are none, or the blocks do not fit."""
    size_of = {iterator: size for (iterator, _), size in zip(axes, sizes, strict=True)}
    columns = next((c for c in found.columns() if size_of[c] >= block[1]), None)
    rows = None if columns is None else next(iter(found.rows(columns)), None)
    if columns is None or rows is None or any(size < 2 for size in sizes):
        return None
    m, n = block
    if size_of[rows] % m or size_of[columns] % n:
        return None
    counts = {}
    for iterator, constant in axes:
        high = isl.greatest(statement.domain, iterator)
        counts[iterator] = Count1D(-constant, 1, None if high is None else high + constant + 1)
    nest = Nest((statement,), statement.iterators, found, counts, box=False)
    reductions = [i for i in statement.iterators if i not in (rows, columns)]
    if any(found.output.strides[i] != 0 for i in reductions):
        return None
    cut = apply(nest, [Tile(iterator, (size,)) for iterator, size in size_of.items()])
    over = tuple(cut.loop(f"{iterator}.0") for iterator, _ in axes)
    tile = tuple(cut.loop(f"{iterator}.1") for iterator in statement.iterators)
    boxes = kernel_call(NestLoops(nest, over), statement, tile).domain
    whole = map_from_affs(statement.domain, outer_affs(replace(cut, loops=over), statement)).intersect_range(
        boxes.reset_tuple_id()
    )
    if boxes.is_empty():
        return None
    rest = replace(statement, domain=whole.domain().coalesce())
    structure = replace(cut, nest=replace(nest, statements=(rest,)))
    for transform in (
        Microkernel(f"{rows}.1", f"{columns}.1", m, n, tuple(f"{i}.1" for i in reductions)),
        Permute((*(loop.name for loop in over), f"{columns}.1", f"{rows}.1")),
    ):
        structure = transform.applied(structure)
    if isl.involved_parameters(boxes):
        return Kernel(structure, rest.domain)
    many = count(boxes, budget=10_000)
    return Kernel(structure, rest.domain, (many.lower + many.upper) / 2 * math.prod(sizes))


def packed(node: Node, parallel: bool = False) -> Node:
    """The tree with the loops over the blocks of each kernel, and a copy of the tile of B before them: one for each
    thread where a loop further out is parallel."""
    match node:
        case Leaf() | Copy():
            return node
        case Sequence(children):
            return Sequence(tuple(packed(c, parallel) for c in children))
        case Band(members, child):
            return Band(members, packed(child, parallel or any(m.run is Run.PARALLEL for m in members)))
        case Kernel():
            return _with_copy(node, parallel)


def _with_copy(kernel: Kernel, parallel: bool) -> Node:
    tiles = [loop.name for loop in kernel.use.loops if loop.within is None]
    loops = replace(kernel.use, parallel=(tiles[0],)) if parallel else kernel.use
    # All blocks of a tile are cut from one box, though the nest is none: the copy fits all of them. What it copies
    # does not change while the tile runs: the check of the tree takes all of the tile to run at once.
    made = replace(kernel, use=replace(loops, packs=(Packed("B", tiles[-1]),)))
    return loops_inside(made.use, made, made, len(tiles))
