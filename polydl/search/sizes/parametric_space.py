"""Ways to run a nest at any size: in blocks of constant sizes whose last ones run short, or in vectors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from polydl.base.errors import InputError
from polydl.dependences.directions import NestLegality
from polydl.dependences.nests import Nest
from polydl.lower.guarded_pieces import extents
from polydl.model import isl
from polydl.model.scop import Scop
from polydl.model.strides import strides_of
from polydl.rank.block_shapes import register_blocks_for
from polydl.schedule.loops import start
from polydl.schedule.ordered import Ordered, ordered
from polydl.schedule.quick_legality import is_legal
from polydl.schedule.transform import Transform
from polydl.schedule.transforms import Microkernel, Pack, Parallelize, Permute, Tile, Vectorize
from polydl.target import Machine

_BLOCKS = 3
"""Register blocks that are tried."""
_DEPTHS = (128, 256, 512)
"""Steps of the reductions in a tile, about."""
_COLUMNS = (256, 1024)
"""Columns in a tile, about."""
_COLUMNS_AROUND = (64, 128)
"""Columns in a tile outside of the loops that are in no tiles, about: what B has of them stays in the second cache
meanwhile."""
_ROWS = (48, 192)
"""Rows in a tile, about."""
_ROW = 512
"""Elements of a row that one thread takes of rows that all threads share."""
_SHORT = 16
"""Iterations of innermost loops together that are short."""

Way = tuple[Transform, ...]
"""How one nest is run."""


def apply_each(nest: Nest, ways: Sequence[Way]) -> list[Ordered]:
    """The orders that ways make of a nest; what several ways begin with is applied once. Raises InputError."""
    found: dict[int, Ordered] = {}
    _apply_below(Ordered.nest(start(nest)), list(enumerate(ways)), 0, found)
    return [found[number] for number in range(len(ways))]


def _apply_below(done: Ordered, ways: Sequence[tuple[int, Way]], depth: int, found: dict[int, Ordered]) -> None:
    """Ways that have their first transforms in common, which are `done`."""
    next_ones: dict[Transform, list[tuple[int, Way]]] = {}
    for number, way in ways:
        if len(way) == depth:
            found[number] = done
        else:
            next_ones.setdefault(way[depth], []).append((number, way))
    for transform, some in next_ones.items():
        _apply_below(done.after(transform), some, depth + 1, found)


def in_vectors(scop: Scop, nest: Nest, legality: NestLegality, free: Sequence[str]) -> list[Way]:
    """Of a nest without a microkernel: the innermost loop in vectors, the outermost one on all threads. Of loops that
    are a box also each other one innermost that goes along memory, and in tiles for the threads; of a contraction each
    loop of its output, where sums are too short for a vector. `free`: loops that threads may share."""
    shared = nest.loops[:1] and nest.loops[0] in free
    ways: list[Way] = [(Vectorize(),), *([(Parallelize((nest.loops[0],)), Vectorize())] if shared else [])]
    if not nest.box:
        return ways
    if nest.contraction is not None:
        reductions = nest.contraction.reductions
        outputs = [loop for loop in nest.loops if loop not in reductions]
        for last in outputs:
            # In another order are only the elements of the output: each has its sum in the order as it is written.
            order = (*(loop for loop in outputs if loop != last), *reductions, last)
            ways += [(Permute(order),)] if order != nest.loops else []
        return ways
    ways += _around_short_loops(nest, legality, free)
    for last in nest.loops[:-1]:
        if not _along_memory(scop, nest, last):
            continue
        others = [loop for loop in nest.loops if loop != last]
        further: list[Way] = [(Permute((*others, last)), Vectorize())]
        if others[0] in free:
            further.append((Permute((*others, last)), Parallelize((others[0],)), Vectorize()))
        if last in free:
            order = (f"{last}.0", *others, f"{last}.1")
            further.append((Tile(last, (_ROW,)), Permute(order), Parallelize(order[:1]), Vectorize()))
        ways += [way for way in further if _is_legal(nest, way, legality)]
    return ways


def _around_short_loops(nest: Nest, legality: NestLegality, free: Sequence[str]) -> Iterator[Way]:
    """With the innermost loops written out, which are short, and each other one right around them: as a row of its own
    a sum of three costs more than its call."""
    trips = fixed_extents(nest)
    short = nest.loops[len(nest.loops) :]
    for at in reversed(range(len(nest.loops))):
        if (math.prod(trips[loop] or _SHORT + 1 for loop in nest.loops[at:])) <= _SHORT:
            short = nest.loops[at:]
    others = [loop for loop in nest.loops if loop not in short]
    if not short or not others:
        return
    for last in others:
        order = (*(loop for loop in others if loop != last), last, *short)
        ways: list[Way] = [(Permute(order),), *([(Permute(order), Parallelize(order[:1]))] if order[0] in free else [])]
        yield from (way for way in ways if _is_legal(nest, way, legality))


def _is_legal(nest: Nest, way: Way, legality: NestLegality) -> bool:
    loops = ordered(nest, way).loops
    return loops is not None and is_legal(loops, legality)


def _along_memory(scop: Scop, nest: Nest, loop: str) -> bool:
    """Whether a loop leads every access of a nest to the same element or the next one."""
    every = [strides_of(scop, s, access) for s in nest.statements for access in s.accesses]
    return all(strides is not None and strides[loop] in (0, 1) for strides in every)


def fixed_extents(nest: Nest) -> dict[str, int | None]:
    """The iterations of each loop of a perfect nest; None where they depend on parameters, bounded or not."""
    ranges = dict(zip(nest.statements[0].iterators, extents(nest.statements[0]), strict=True))
    return {loop: None if isl.involved_parameters(ranges[loop]) else nest.counts[loop].extent for loop in nest.loops}


def in_blocks(nest: Nest, free: Sequence[str], machine: Machine) -> list[Way]:
    """Ways to run a contraction in blocks that do not depend on its sizes. `free`: loops that carry no dependence."""
    found = nest.contraction
    assert found is not None
    if not nest.box:
        return _on_slanted_sides(nest, free, machine)
    ways: dict[Way, None] = {}
    trips = fixed_extents(nest)
    for rows, columns, m, n, *product in register_blocks_for(machine)(nest)[:_BLOCKS]:
        if rows is None:
            continue
        reductions = [i for i in found.reductions if trips[i] != 1]
        deep = next((i for i in reductions if trips[i] is None), None)
        # Reductions of other symbolic extents stay around: a copy needs a bound for each loop that it is of.
        # In tiles outermost, because the layout of a copy needs whole extents further inside.
        inside = sorted((i for i in reductions if i == deep or trips[i] is not None), key=lambda i: i != deep)
        outside = [i for i in nest.loops if i not in (rows, columns, *inside)]
        steps = math.prod(trips[i] or 1 for i in inside)
        widths = [(wide, False) for wide in _COLUMNS] + [(wide, True) for wide in _COLUMNS_AROUND if outside]
        operands = found.roles(columns)
        moves = operands is not None and any(operands[1].strides[loop] != 0 for loop in outside)
        for depth, (wide, around), high in itertools.product(_DEPTHS, widths, _ROWS):
            tiles: list[Transform] = [Tile(deep, (max(8, depth // steps),))] if deep is not None else []
            tiles += [Tile(columns, (n * max(2, round(wide / n)),)), Tile(rows, (m * max(2, round(high / m)),))]
            over = [] if deep is None else [f"{deep}.0"]
            points = tuple(f"{i}.1" if i == deep else i for i in inside)
            # Without copies in the order of the program, which is mostly along memory.
            written = tuple(sorted(points, key=lambda i: nest.loops.index(i.removesuffix(".1"))))
            of_copies, along = (
                Microkernel(f"{rows}.1", f"{columns}.1", m, n, reduce, product="".join(product))
                for reduce in (points, written)
            )
            for first, second in ((columns, rows), (rows, columns))[: 1 if around else 2]:
                begin = (f"{first}.0", *over, *outside) if around else (*outside, f"{first}.0", *over)
                order = (*begin, f"{second}.0", f"{columns}.1", f"{rows}.1")
                for copies in _packs(rows, columns, first, over) if not found.windows(columns) else [()]:
                    kernel = of_copies if copies else along
                    if not {one.operand for one in copies}.issuperset(found.copied(columns)):
                        continue  # the microkernel cannot read them where they are
                    if around and moves and copies:
                        continue  # a copy of B around loops that move it has no bound
                    for shared in _shared(order, outside, second, first, free):
                        way = (*tiles, kernel, *shared, *copies)
                        try:
                            ordered(nest, way)
                        except InputError:  # no place for a copy
                            continue
                        ways[way] = None
    return list(ways)


def _on_slanted_sides(nest: Nest, free: Sequence[str], machine: Machine) -> list[Way]:
    """Ways to run a contraction that is no box: blocks alone, of which rows and columns have a divisor in common, since
    text for every remainder of both would be long; no copies. Reductions in tiles stay outermost."""
    found = nest.contraction
    assert found is not None
    trips = fixed_extents(nest)
    reductions = [i for i in found.reductions if trips[i] != 1]
    deep = next((i for i in reductions if trips[i] is None), None)
    ways: list[Way] = []
    blocks = [b for b in register_blocks_for(machine)(nest) if b[0] is not None and b[3] % b[2] == 0]
    for rows, columns, m, n, *_ in blocks[:1]:
        if rows is None or found.copied(columns) or len(reductions) > 1:
            continue
        outside = [i for i in nest.loops if i not in (rows, columns, *reductions)]
        for depth in _DEPTHS:
            tiles = [Tile(deep, (depth,))] if deep is not None else []
            over, points = ([f"{deep}.0"], (f"{deep}.1",)) if deep is not None else ([], tuple(reductions))
            base = (*tiles, Microkernel(rows, columns, m, n, points), Permute((*outside, *over, columns, rows)))
            ways += [(*base,), *([(*base, Parallelize((columns,)))] if columns in free else [])]
            ways += [(*base, Parallelize((columns, rows)))] if columns in free and rows in free else []
    return ways


def _shared(
    order: Sequence[str], outside: Sequence[str], second: str, first: str, free: Sequence[str]
) -> Iterator[tuple[Transform, ...]]:
    """The order, and loops for the threads: none, the outermost ones, those that are in no tiles, those over the inner
    of the tiles, and over blocks as well. Blocks around tiles then, for the last tile runs short, by how much is not
    known: with tiles around blocks all short ones may be one thread's (50 rows are a tile of 49 and one of 1)."""
    as_is = Permute(tuple(order))
    yield (as_is,)
    if outside and order[0] == f"{first}.0" and first in free:
        yield as_is, Parallelize((order[0],))
    outermost = outside[: _run(outside, free)]
    if outermost:
        yield as_is, Parallelize(tuple(outermost))
    if second in free:
        tiles = f"{second}.0"
        yield as_is, Parallelize((tiles,))
        place = order.index(tiles)
        blocks = order[place + 1]
        if first in free and blocks == f"{first}.1":
            yield (
                Permute((*order[:place], blocks, tiles, *order[place + 2 :])),
                Parallelize((blocks, tiles)),
            )


def _run(outside: Sequence[str], free: Sequence[str]) -> int:
    """How many of the outermost loops may be shared out together."""
    return next((n for n, loop in enumerate(outside) if loop not in free), len(outside))


def _packs(rows: str, columns: str, first: str, over: Sequence[str]) -> Iterator[tuple[Pack, ...]]:
    """Copies of tiles of the operands: of that which the outer of the two loops over tiles moves, outside of the inner
    one; of the other inside of it."""
    outer = over[-1] if over else f"{first}.0"
    inner = f"{rows}.0" if first == columns else f"{columns}.0"
    place = {"B": outer, "A": inner} if first == columns else {"A": outer, "B": inner}
    for operands in ((), ("B",), ("B", "A")):
        yield tuple(Pack(operand, place[operand]) for operand in operands)
