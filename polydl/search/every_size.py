"""Code for the sizes that were not tuned: the same program with its sizes as parameters, in blocks.

A variant is made for values of the function's integer parameters. For others the output runs code that is made here,
once for all values: tiles of a constant size whose last ones run short, packed copies of tiles, microkernels whose
extents and strides are arguments. Legality is decided for all values at once, from the dependences of the program with
its parameters; where no loop would run, and where the work is less than forks of threads take, other code stands.

source:    the blocks and copies of BLIS (Van Zee and van de Geijn, TOMS 2015), which are made for any size as well
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from polydl.base.errors import InputError
from polydl.dependences.analysis import Dependence
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import Nest, nests
from polydl.lower.dispatch import Dispatch, Question, dispatched, extents, where_all_runs
from polydl.lower.emit import Generated, generate
from polydl.model import isl
from polydl.model.at_sizes import at_sizes
from polydl.model.contraction import contraction_at
from polydl.model.scop import Scop
from polydl.rank.blocks import register_blocks_for
from polydl.rank.estimator import Estimator
from polydl.rank.ranker import FloatArray
from polydl.rank.traffic import TrafficRanker
from polydl.rewrite.canonical import canonical
from polydl.schedule.check import check
from polydl.schedule.recipe import Recipe, recipe_of
from polydl.schedule.structure import Structure, apply
from polydl.schedule.transform import Transform
from polydl.schedule.transforms import Microkernel, Pack, Parallelize, Permute, Tile, Vectorize
from polydl.search.dispatch import Tree, few, leaves, taken, tree
from polydl.target import Machine

_BLOCKS = 3
"""Register blocks that are tried."""
_DEPTHS = (128, 256, 512)
"""Steps of the reductions in a tile, about."""
_COLUMNS = (256, 1024)
"""Columns in a tile, about."""
_ROWS = (48, 192)
"""Rows in a tile, about."""
_POINTS, _FURTHER = 48, 16
"""Sizes at which ways are compared, and further ones at which the choice among them is judged."""
_FIRST, _BEST = 12, 6
"""Points at which all ways are compared; how many of each of them are compared at the others too."""
_MOST = 4
"""Ways in one output, at most."""
_NEAR = 0.03
"""Mean loss over the points that is not worth another way."""

Way = tuple[Transform, ...]
"""How one nest is run."""


@dataclass(frozen=True, slots=True)
class EverySize:
    """What runs at sizes that were not tuned."""

    generated: Generated
    """Its C."""
    recipes: tuple[Recipe, ...]
    """How the nests are scheduled: for small sizes first."""
    loss: float
    """By how much the choice is slower than the best way for each size by the estimates, in the mean over sizes that
    the choice was not made with: 0.02 is 2 %."""

    def beside(self, code: Generated) -> Generated:
        """Code for some sizes with this for the others."""
        prologue = tuple(dict.fromkeys((*code.prologue, *self.generated.prologue)))
        return replace(code, prologue=prologue, otherwise=self.generated.region)

    def __str__(self) -> str:
        return f"{len(self.recipes)} variants in blocks, {100 * self.loss:.0f} % behind the best for each by estimate"


def every_size(
    symbolic: Scop, sizes: Mapping[str, tuple[int, int]], machine: Machine, threads: int, *, reassociate: bool
) -> EverySize | str:
    """Code for all values of a scop's parameters, or why there is none.

    `sizes`: the least and the greatest value of each parameter for which ways to run it are compared by their
    estimates; the code is right for all. Raises QuotaExceeded.
    """
    some = where_all_runs(symbolic)
    setting = _Setting(machine, threads, reassociate)
    made = _chosen(some.scop, sizes, setting, blocked=True)
    if isinstance(made, str):
        return made
    choice, recipes = made.choice, made.recipes
    for name, extent in made.columns.items():
        # A block of one column leaves the lanes of vectors idle: then they run along the sum.
        rest = {other: ends for other, ends in sizes.items() if other != name}
        single = _chosen(at_sizes(some.scop, {name: 1}), rest, setting, blocked=False)
        if not isinstance(single, str):
            choice = Question((extent,), 2, single.choice, choice)
            recipes = (*single.recipes, *recipes)
    return EverySize(dispatched(some.scop, some, choice), recipes, made.loss)


@dataclass(frozen=True, slots=True)
class _Setting:
    """What it is made for."""

    machine: Machine
    threads: int
    reassociate: bool


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Code for a program at any size."""

    choice: Dispatch
    recipes: tuple[Recipe, ...]
    """How the nests are scheduled: for small sizes first."""
    loss: float
    """See `EverySize`."""
    columns: Mapping[str, isl.PwAff]
    """Parameters that are the extent of the loop over columns of the heaviest nest, and { [parameters] -> [n] } it."""


def _chosen(symbolic: Scop, sizes: Mapping[str, tuple[int, int]], setting: _Setting, *, blocked: bool) -> _Chosen | str:
    """`blocked`: contractions run in blocks of registers; otherwise like all other nests, in vectors."""
    program = canonical(symbolic, reassociate=setting.reassociate)
    scop, found = program.scop, program.dependences
    parts = nests(scop, found)
    heavy = [place for place, nest in enumerate(parts) if nest.contraction is not None or not blocked]
    if not heavy:
        return "no nest in it is a contraction"
    ways: list[list[Way]] = []
    for nest in parts:
        legality = nest_legality(nest, found, reassociate=setting.reassociate)
        free = legality.parallel_loops(nest) if setting.threads > 1 else ()
        in_blocks = blocked and nest.contraction is not None
        ways.append(_blocked(nest, free, setting.machine) if in_blocks else _plain(nest, free))
        if not ways[-1]:
            return f"no microkernel fits {nest.name}"
    points = list(_points(scop, found, parts, sizes))
    if len(points) < 2 * _FURTHER:
        return f"few sizes with {', '.join(f'{n} = {v[0]}..{v[1]}' for n, v in sizes.items())} are possible"
    for place, own in enumerate(ways):
        ways[place] = _promising(own, np.array([_scores(p, place, own, setting) for p in points[:_FIRST]]).T)
    tables = [np.array([_scores(p, place, own, setting) for p in points]).T for place, own in enumerate(ways)]
    first = max(heavy, key=lambda place: float(np.log(tables[place].min(axis=0)).sum()))
    # In figures that every machine's logarithms agree on.
    losses = np.round(np.log(tables[first] / tables[first].min(axis=0)), 9)
    taking = few(losses[:, :-_FURTHER], _MOST, _NEAR)
    features = _features(parts[first])
    values = np.array([[_value(point.nests[first], loops) for loops in features] for point in points])
    grown = tree(losses[taking][:, :-_FURTHER], values[:-_FURTHER])
    lost = [losses[taking[taken(grown, values[p])], p] for p in range(len(points) - _FURTHER, len(points))]
    programs: dict[int, list[Structure]] = {}
    for leaf in leaves(grown):
        way = ways[first][taking[leaf]]
        others = [_beside(own, table, way) for own, table in zip(ways, tables, strict=True)]
        taken_ways = [way if place == first else other for place, other in enumerate(others)]
        programs[leaf] = [apply(nest, list(one)) for nest, one in zip(parts, taken_ways, strict=True)]
        why = check(scop, programs[leaf], found, reassociate=setting.reassociate)
        if why is not None:
            return why
    codes = {leaf: generate(scop, structures, other_sizes=True) for leaf, structures in programs.items()}
    loops = dict(zip(parts[first].loops, extents(parts[first].statements[0]), strict=False))

    def question(at: Tree) -> Dispatch:
        if isinstance(at, int):
            return codes[at]
        compared = tuple(loops[loop] for loop in features[at.feature])
        return Question(compared, at.limit, question(at.small), question(at.large))

    recipes = tuple(recipe_of(programs[leaf]) for leaf in dict.fromkeys(leaves(grown)))
    columns = {
        s.kernel.columns.iterator for made in programs.values() for s in made if s.kernel and s.nest is parts[first]
    }
    by_name = {n: loops[c] for c in sorted(columns) for n in isl.involved_parameters(loops[c]) if _is(loops[c], n)}
    return _Chosen(question(grown), recipes, math.expm1(float(np.mean(lost))), by_name)


def _is(extent: isl.PwAff, name: str) -> bool:
    """Whether an extent { [parameters] -> [n] } is one parameter by itself."""
    functions = [function for _, function in isl.pieces(extent)]
    if len(functions) != 1 or isl.involved_parameters(functions[0]) != (name,):
        return False
    # A line is known by two of its points.
    there = (extent.intersect_params(isl.parameter_values({name: value})).max_val() for value in (1, 2))
    return [isl.to_int(value) if value.is_int() else None for value in there] == [1, 2]


def _promising(ways: Sequence[Way], scores: FloatArray) -> list[Way]:
    """Those that are among the best few at one of some points; `scores` (V, P)."""
    kept = np.unique(np.argsort(scores, axis=0, kind="stable")[:_BEST])
    return [ways[i] for i in kept]


def _beside(own: Sequence[Way], table: FloatArray, way: Way) -> Way:
    """The way of another nest that is best in the mean, on threads where `way` is."""
    shared = any(isinstance(one, Parallelize) for one in way)
    alike = [i for i, other in enumerate(own) if any(isinstance(one, Parallelize) for one in other) == shared]
    means = np.log(table).mean(axis=1)
    return own[min(alike or range(len(own)), key=lambda i: float(means[i]))]


@dataclass(frozen=True, slots=True)
class _Point:
    """The program at some sizes."""

    scop: Scop
    nests: tuple[Nest, ...]


def _points(
    scop: Scop, found: Sequence[Dependence], parts: Sequence[Nest], ranges: Mapping[str, tuple[int, int]]
) -> Iterator[_Point]:
    """The program at sizes of these ranges; the same ones each time. Those at which something does not run are left
    out."""
    random = Random(0)
    # All of them small, large and in between: what is left to chance may have none of these.
    ends = [{n: round(low ** (1 - f) * high**f) for n, (low, high) in ranges.items()} for f in (0.0, 0.2, 0.6, 1.0)]
    others = ({n: _size(*r, random) for n, r in ranges.items()} for _ in range(_POINTS + _FURTHER - len(ends)))
    for sizes in (*ends, *others):
        there = at_sizes(scop, sizes)
        if any(statement.domain.is_empty() for statement in there.statements):
            continue
        made = nests(there, found)
        if [(n.name, n.loops) for n in made] == [(n.name, n.loops) for n in parts]:
            # A loop of one iteration moves nothing, which is no reason to take another for it at these sizes.
            own = [None if n.contraction is None else contraction_at(n.contraction, there) for n in parts]
            yield _Point(there, tuple(replace(n, contraction=c) for n, c in zip(made, own, strict=True)))


def _size(low: int, high: int, random: Random) -> int:
    """A size of a range, as likely in each order of magnitude; a third each are any number, a multiple of 16, and a
    power of two, which has conflicts in caches of its own."""
    value = math.exp(random.uniform(math.log(low), math.log(high)))
    kind = random.randrange(3)
    if kind == 0 or value < 16:
        found = round(value)
    else:
        found = 16 * round(value / 16) if kind == 1 else 2 ** round(math.log2(value))
    return min(max(found, low), high)


def _scores(point: _Point, place: int, ways: Sequence[Way], setting: _Setting) -> list[float]:
    """Estimated seconds of each way to run a nest."""
    nest = point.nests[place]
    estimator = Estimator(point.scop, point.nests, setting.machine, setting.threads, TrafficRanker())
    return [one.score for one in estimator.structures(nest, [apply(nest, list(way)) for way in ways])]


def _features(nest: Nest) -> list[tuple[str, ...]]:
    """What sizes are told apart by, each a product of loops: every loop without a fixed extent, the elements of each
    operand, all of the work."""
    found = nest.contraction
    free = [loop for loop in nest.loops if nest.counts[loop].extent is None]
    arrays = () if found is None else (found.output, found.left, found.right)
    operands = [tuple(loop for loop in free if one.strides[loop] != 0) for one in arrays]
    return [loops for loops in dict.fromkeys([*((loop,) for loop in free), *operands, tuple(free)]) if loops]


def _value(nest: Nest, loops: Sequence[str]) -> float:
    return math.prod(float(nest.counts[loop].extent or 1) for loop in loops)


def _plain(nest: Nest, free: Sequence[str]) -> list[Way]:
    """Of a nest without a microkernel: the innermost loop in vectors, the outermost one on all threads."""
    shared = nest.loops[:1] and nest.loops[0] in free
    return [(Vectorize(),), *([(Parallelize((nest.loops[0],)), Vectorize())] if shared else [])]


def _blocked(nest: Nest, free: Sequence[str], machine: Machine) -> list[Way]:
    """Ways to run a contraction in blocks that do not depend on its sizes. `free`: loops that carry no dependence."""
    found = nest.contraction
    assert found is not None
    ways: dict[Way, None] = {}
    for rows, columns, m, n in register_blocks_for(machine)(nest)[:_BLOCKS]:
        if rows is None or not nest.box:
            continue
        reductions = [i for i in found.reductions if nest.counts[i].extent != 1]
        deep = next((i for i in reductions if nest.counts[i].extent is None), None)
        # Reductions of other symbolic extents stay around: a copy needs a bound for each loop that it is of.
        inside = [i for i in reductions if i == deep or nest.counts[i].extent is not None]
        outside = [i for i in nest.loops if i not in (rows, columns, *inside)]
        steps = math.prod(nest.counts[i].extent or 1 for i in inside)
        for depth, wide, high in itertools.product(_DEPTHS, _COLUMNS, _ROWS):
            tiles: list[Transform] = [Tile(deep, (max(8, depth // steps),))] if deep is not None else []
            tiles += [Tile(columns, (n * max(2, round(wide / n)),)), Tile(rows, (m * max(2, round(high / m)),))]
            over = [] if deep is None else [f"{deep}.0"]
            points = tuple(f"{i}.1" if i == deep else i for i in inside)
            kernel = Microkernel(f"{rows}.1", f"{columns}.1", m, n, points)
            for first, second in ((columns, rows), (rows, columns)):
                order = (*outside, f"{first}.0", *over, f"{second}.0", f"{columns}.1", f"{rows}.1")
                base: list[Transform] = [*tiles, kernel, Permute(order)]
                for copies in _packs(rows, columns, first, over):
                    if found.transposed(columns) and not copies:
                        continue  # the microkernel reads neighbours along its columns
                    for shared in _shared(order, outside, second, first, free):
                        try:
                            apply(nest, [*base, *shared, *copies])
                        except InputError:  # no place for a copy
                            continue
                        ways[(*base, *shared, *copies)] = None
    return list(ways)


def _shared(
    order: Sequence[str], outside: Sequence[str], second: str, first: str, free: Sequence[str]
) -> Iterator[tuple[Parallelize, ...]]:
    """Loops for the threads: none, the outermost ones, those over the inner of the tiles, and over blocks as well."""
    yield ()
    outermost = outside[: _run(outside, free)]
    if outermost:
        yield (Parallelize(tuple(outermost)),)
    if second in free:
        yield (Parallelize((f"{second}.0",)),)
        blocks = order[order.index(f"{second}.0") + 1]
        if first in free and blocks == f"{first}.1":
            yield (Parallelize((f"{second}.0", blocks)),)


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
