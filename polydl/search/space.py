"""Enumerates the structures of a nest: which transforms are tried, within which limits.

Every choice is one of: a register block for the microkernel, which reductions run inside it, tile sizes, an order of
the loops, and which loops run in parallel. Only legal structures come out (schedule.legality).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from polydl.base.errors import InputError
from polydl.dependences.directions import NestLegality
from polydl.dependences.nests import Nest
from polydl.kernels.packs import needs_packed_columns, packed
from polydl.schedule.legality import is_legal
from polydl.schedule.structure import HILBERT, Loop, RegisterBlocks, Structure, apply, extended, trips
from polydl.schedule.transforms import Microkernel, Parallelize, Permute, Tile, Transform


@dataclass(frozen=True, slots=True)
class Space:
    """Limits of the space of structures."""

    name: str
    blocks: int
    """Register blocks (with their rows and columns loops) tried, at most."""
    tile_sizes: tuple[int, ...]
    """Candidate tile sizes, in iterations of the loop."""
    tiled_at_once: int
    """Loops tiled in the same variant, at most."""
    levels: int
    """Nested tile loops per loop, at most."""
    orders: int
    """Loop orders tried per choice of the rest, at most; all of them where there are no more than that."""
    starts: int
    """Loops tried as the outermost parallel one, at most, from the outside."""
    least_packed: int
    """Operands are packed when neighbours in the microkernel (rows, columns or innermost reduction) are at least this
    many elements apart; a denser operand gains nothing."""
    limit: int
    """Variants per nest, at most."""


SPACES = {
    "small": Space("small", 1, (), 0, 0, 24, 1, 1 << 62, 500),
    "default": Space("default", 5, (256, 512, 1024), 3, 1, 120, 3, 512, 10_000),
    "wide": Space("wide", 12, (16, 32, 64, 128, 256, 512, 1024), 3, 2, 5040, 9, 1, 200_000),
}


BLOCKS, TILES, ILLEGAL, ORDERS, IDLE, EQUAL = (
    "register blocks beyond the most efficient",
    "tiles as large as the loop or as small as the register block",
    "orders that break a dependence",
    "orders beyond the most that are tried",
    "parallel loops with fewer iterations than threads",
    "equal to another variant",
)
"""Why choices are left out, as they are counted."""


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
    for kernel in _kernels(nest, space, blocks, pruned):
        for tiles in _tiles(nest, space, kernel, shared, threads, pruned):
            if kernel is None:
                yield tiles
            else:
                yield (*tiles, _inside_tiles(kernel, tiles))
    if nest.contraction is not None:
        yield ()


def _kernels(nest: Nest, space: Space, blocks: RegisterBlocks, pruned: Counter[str]) -> Iterator[Microkernel | None]:
    found = nest.contraction
    if found is None or not _unit_columns(nest):
        yield None
        return
    reductions = [i for i in found.reductions if _extent(nest, i) != 1]
    allowed = _unit_columns(nest)
    possible = [b for b in blocks(nest) if b[1] in allowed]
    pruned[BLOCKS] += max(0, len(possible) - space.blocks)
    for rows, columns, m, n in possible[: space.blocks]:
        for inside in range(max(len(reductions), 1)):
            yield Microkernel(rows, columns, m, n, tuple(reductions[inside:]))


def _unit_columns(nest: Nest) -> tuple[str, ...]:
    """Columns loops whose steps, as counted, are neighbours in memory."""
    assert nest.contraction is not None
    upwards = [c for c in nest.contraction.columns() if c not in nest.statements[0].descending]
    neighbours = [c for c in upwards if nest.counts[c].stride == 1]
    return tuple(c for c in neighbours if nest.box or not nest.contraction.transposed(c))


def _extent(nest: Nest, loop: str) -> int | None:
    return nest.counts[loop].extent


def _tiles(
    nest: Nest, space: Space, kernel: Microkernel | None, shared: Sequence[str], threads: int, pruned: Counter[str]
) -> Iterator[tuple[Tile, ...]]:
    """Combinations of tilings, untiled first. A loop of `shared` may also be cut into one tile for each thread."""
    sizes: dict[str, list[tuple[int, ...]]] = {}
    for loop in nest.loops:
        extent = _extent(nest, loop)
        unit = 1
        if kernel is not None:
            unit = {kernel.rows: kernel.m, kernel.columns: kernel.n}.get(loop, 1)
        # A tile of a blocked loop is a whole number of blocks: the size nearest to the wanted one.
        wanted = {max(1, round(s / unit)) * unit for s in space.tile_sizes}
        if loop in shared and extent is not None and space.tiled_at_once > 0:
            wanted.add(-(-extent // (threads * unit)) * unit)
        fitting = [s for s in sorted(wanted) if s > unit and (extent is None or s < extent)]
        pruned[TILES] += len(wanted) - len(fitting)
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
    for order in itertools.chain([written], (o for o in _permutations(base) if o != written)):
        if count >= space.orders:
            pruned[ORDERS] += _number_of_orders(base) - count - broken
            return
        structure = base if order == written else extended(base, Permute(order))
        if not is_legal(structure, legality):
            broken += 1
            pruned[ILLEGAL] += 1
        else:
            count += 1
            for made in _parallel(nest, legality, space, structure, threads, pruned):
                if not needs_packed_columns(made):
                    yield made
                if nest.box and structure.kernel is not None:
                    yield from packed(made, space.least_packed)


def _number_of_orders(structure: Structure) -> int:
    """How many `_permutations` gives: the orders of the loops that really loop, those of one original loop fixed."""
    pieces = Counter(loop.iterator for loop in structure.loops if trips(structure.nest, loop) != 1)
    return math.factorial(pieces.total()) // math.prod(math.factorial(n) for n in pieces.values())


def _permutations(structure: Structure) -> Iterator[tuple[str, ...]]:
    """Orders of the loops that really loop, tile loops outside of their points; the others stay outermost."""
    nest = structure.nest
    idle = tuple(loop.name for loop in structure.loops if trips(nest, loop) == 1)
    moving = [loop for loop in structure.loops if trips(nest, loop) != 1]

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
    nest: Nest,
    legality: NestLegality,
    space: Space,
    structure: Structure,
    threads: int,
    pruned: Counter[str],
) -> Iterator[Structure]:
    """Runs of adjacent loops shared out among the threads; sequential where there is none.

    Loops are collapsed until there is enough for every thread: more would only make the chunks smaller.
    """
    names = [loop.name for loop in structure.loops]
    counts = [trips(nest, loop) for loop in structure.loops]
    starts = 0
    for start in range(len(names) if threads > 1 else 0):
        if starts == space.starts or counts[start] == 1:
            continue
        work = 1
        for end in range(start + 1, len(names) + 1):
            parallel = Parallelize(tuple(names[start:end]))
            made = extended(structure, parallel)
            if not is_legal(made, legality):
                break
            starts += end == start + 1
            trip = counts[end - 1]
            work = work * trip if trip is not None else work * threads * _CHUNKS
            if trip != 1 and (work >= threads or end == len(names)):
                yield made
            else:
                pruned[IDLE] += 1
            if work >= threads * _CHUNKS or (work >= threads and work % threads == 0 and trip is not None):
                break
    curve = _curve(nest, structure, threads)
    if curve is not None:
        made = extended(structure, curve)
        if is_legal(made, legality):
            yield made
    summed = _summed(nest, legality, structure, threads)
    if summed is not None:
        made = extended(structure, summed)
        if is_legal(made, legality):
            yield made
    if not starts:
        yield structure


def _curve(nest: Nest, structure: Structure, threads: int) -> Parallelize | None:
    """The outermost rows and columns of blocks along a Hilbert curve: an order that fits every cache without a tile
    size for it. For one order of the loops inside only, since they matter little."""
    moving = [loop for loop in structure.loops if trips(nest, loop) != 1]
    if len(structure.held) < 2 or not nest.box or threads < 2 or len(moving) < 2:
        return None
    first, second = moving[:2]
    rest = [loop.name for loop in moving[2:]]
    sides = tuple(loop.iterator for loop in structure.held)
    sizes = [trips(nest, loop) for loop in (first, second)]
    if (first.iterator, second.iterator) != sides or None in sizes or rest != sorted(rest, key=_written_place(nest)):
        return None
    if structure.loops.index(second) != structure.loops.index(first) + 1:
        return None
    work = math.prod(trip for trip in sizes if trip is not None)
    return Parallelize((first.name, second.name), HILBERT) if work >= _CHUNKS * threads else None


def _written_place(nest: Nest) -> Callable[[str], tuple[int, str]]:
    """Sort key for pieces of loops: the order in which the loops are written."""
    return lambda name: (nest.loops.index(name.split(".")[0]), name)


def _summed(nest: Nest, legality: NestLegality, structure: Structure, threads: int) -> Parallelize | None:
    """The outermost loop shared out in spite of being a reduction, where the parallel loops have too few iterations for
    the threads, or so few that some threads would idle for a fourth of the time, and copies of the output are small."""
    found = nest.contraction
    moving = [loop for loop in structure.loops if trips(nest, loop) != 1]
    if threads < 2 or not legality.accumulated or not moving or moving[0].within is not None:
        return None
    free = [trips(nest, loop) for loop in structure.loops if loop.iterator in legality.parallel_loops(nest)]
    if any(trip is None for trip in free):
        return None
    work = math.prod(trip for trip in free if trip is not None)
    trip = trips(nest, moving[0])
    if trip is None or trip < 2 or work >= _IDLE * (-(-work // threads) * threads):
        return None
    if found is not None:
        moves = found.output.strides
        reach = 1 + sum(abs(s) * ((_extent(nest, i) or 1) - 1) for i, s in moves.items())
        if moves[moving[0].iterator] != 0 or reach * threads > _MOST_SUMMED:
            return None
    name = moving[0].name
    try:
        extended(structure, Parallelize((name,), axes="R", ways=(threads,), summed=name))
    except InputError:  # no sum of one statement
        return None
    return Parallelize((name,), axes="R", ways=(threads,), summed=name)


_IDLE = 0.75
"""Share of the threads' time that parallel loops must use for a reduction not to be shared out."""
_MOST_SUMMED = 1 << 20
"""Elements of all copies of an output together, at most."""


_CHUNKS = 8
"""Parallel iterations per thread beyond which collapsing one more loop cannot balance the load noticeably."""
