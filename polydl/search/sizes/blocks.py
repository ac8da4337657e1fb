"""Code for all sizes of contractions in blocks: tiles of a constant size whose last ones run short, packed copies of
tiles, microkernels whose extents and strides are arguments.

Legality is decided for all values of the parameters at once, from the dependences of the program with its parameters;
where no loop would run, and where the work is less than forks of threads take, other code stands.

source:    the blocks and copies of BLIS (Van Zee and van de Geijn, TOMS 2015), which are made for any size as well
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

import numpy as np

from polydl.base.records import dataclass
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import Nest
from polydl.lower.emit import Generated, generate
from polydl.lower.guarded_pieces import Among, Dispatch, Question, codes_of, dispatched, extents
from polydl.lower.region import original_text
from polydl.model import isl
from polydl.model.at_sizes import at_sizes
from polydl.rank.estimator import Estimator
from polydl.rank.ranker import FloatArray
from polydl.schedule.check import check
from polydl.schedule.fusion_groups import plan
from polydl.schedule.ordered import Ordered, ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.recipe import Recipe
from polydl.schedule.transforms import Microkernel, Parallelize
from polydl.search.fused_variants import into_kernels
from polydl.search.sizes.choose import Choice, Compared, Feature, asked, characters, choose, choose_by_times
from polydl.search.sizes.code import EverySize, Setting, Symbolic, TimedSize, Timer
from polydl.search.sizes.decision_tree import Branch, SizeTree
from polydl.search.sizes.dispatch import leaves
from polydl.search.sizes.parameters import column_extents, row_lengths
from polydl.search.sizes.parametric_space import Way, apply_each, fixed_extents, in_blocks, in_vectors
from polydl.search.sizes.size_points import Lengths, Ranges, estimator_at, point_at, size_points, too_few
from polydl.target import Machine


def every_size_in_blocks(
    symbolic: Symbolic, sizes: Ranges, setting: Setting, timer: Timer | None = None
) -> EverySize | str:
    """Code for all values of a program's parameters, or why there is none.

    `sizes`: the least and the greatest value of each parameter for which ways to run it are compared by their
    estimates; the code is right for all. With a `timer` the variants are timed where their estimates are closest, and
    the estimates corrected by that. Raises QuotaExceeded.
    """
    some, most = symbolic.narrowed, setting.effort.blocks.characters
    made = _coded(symbolic, sizes, setting, blocked=True, timer=timer)
    if isinstance(made, str):
        return made
    code, marked, recipes, top = made.code, made.marked, made.recipes, made.top
    shortest = min(characters([one]) for one in codes_of(code))
    if made.lengths and characters(codes_of(code)) + shortest <= most:
        # Questions about how large sizes are don't tell rows apart that start in one set of a cache.
        other = _coded(symbolic, sizes, setting, blocked=True, crowded=True)
        if not isinstance(other, str) and characters((*codes_of(code), *codes_of(other.code))) <= most:
            values = reduce(isl.Set.union, (isl.near_multiples(n, *known) for n, known in made.lengths.items()))
            code = Among(values, other.code, code)
            if marked is not None and other.marked is not None:
                marked = Among(values, other.marked, marked)
            top = Among(values, other.top, top)
            recipes = (*recipes, *other.recipes)
    for name, extent in made.columns.items():
        # A block of one column leaves the lanes of vectors idle: then they run along the sum.
        rest = {other: ends for other, ends in sizes.items() if other != name}
        alone = Symbolic.of(at_sizes(some.scop, {name: 1}), reassociate=setting.reassociate)
        single = _coded(alone, rest, setting, blocked=False)
        if not isinstance(single, str):
            code = Question((extent,), 2, single.code, code)
            if marked is not None and single.marked is not None:
                marked = Question((extent,), 2, single.marked, marked)
            top = Question((extent,), 2, single.top, top)
            recipes = (*single.recipes, *recipes)
    return EverySize(
        generated=dispatched(some.scop, some, code),
        recipes=recipes,
        loss=made.choice.loss,
        tree=SizeTree(top, some.values),
        kind="variants in blocks",
        marked=dispatched(some.scop, some, marked) if marked is not None else None,
        timed=made.timed,
        limited=made.limited,
    )


@dataclass(frozen=True, slots=True)
class _Coded:
    """Code for a program at any size."""

    choice: Choice
    code: Dispatch
    marked: Dispatch | None
    """The same with marks."""
    top: Branch
    """The same, for people."""
    recipes: tuple[Recipe, ...]
    """How the nests are scheduled: for small sizes first."""
    limited: str
    """See `EverySize`."""
    lengths: Lengths
    """Of rows of operands of the heaviest nest."""
    columns: Mapping[str, isl.PwAff]
    """Parameters that are the extent of the loop over columns of the heaviest nest, and { [parameters] -> [n] } it."""
    timed: tuple[TimedSize, ...]
    """See `EverySize`."""


def _coded(
    symbolic: Symbolic,
    sizes: Ranges,
    setting: Setting,
    *,
    blocked: bool,
    crowded: bool = False,
    timer: Timer | None = None,
) -> _Coded | str:
    """`blocked`: contractions run in blocks of registers; otherwise like all other nests, in vectors. `crowded`: for
    sizes with which rows of operands start in one set of a cache."""
    scop, nests, effort = symbolic.program.scop, symbolic.nests, setting.effort
    ways = [_ways(symbolic, nest, setting, blocked=blocked) for nest in nests]
    heavy = [place for place, own in enumerate(ways) if not blocked or any(map(_in_blocks, own))]
    if not heavy:
        return _unfit(symbolic)
    lengths = row_lengths(scop, [nests[place] for place in heavy], sizes, setting.machine) if blocked else {}
    judging = effort.blocks.judging
    usual = effort.blocks.sizes if blocked else effort.points_in_vectors + judging
    count = min(usual, max(3 * judging, effort.nests_at_sizes // len(nests)))
    found = symbolic.program.dependences
    given = [point_at(scop, found, nests, one) for one in (timer.sizes if timer else ())]
    drawn = size_points(scop, found, nests, sizes, count, lengths, crowded=crowded)
    points = [estimator_at(point, setting.machine, setting.threads) for point in (*given, *drawn) if point is not None]
    if len(points) < 2 * judging:
        return too_few(sizes)
    stages = [(_part(some, count, usual), best) for some, best in effort.stages]
    estimated, first = _estimated(points, ways, heavy, _part(stages[0][0], count, usual), stages)
    compared = _compared(nests[first], points, first, estimated[first], judging)
    most = effort.blocks.variants
    while True:
        choice = choose(compared, range(len(compared.seconds)), effort.blocks, most)
        taken = {leaf: _taken(estimated, first, leaf) for leaf in leaves(choice.tree)}
        written = _code(symbolic, {leaf: _ordered(nests, own) for leaf, own in taken.items()}, setting)
        if isinstance(written, str):
            return written
        programs, codes = written
        if characters(codes.values()) <= effort.blocks.characters or len(taken) == 1:
            break
        most = len(taken) - 1
    original = len(estimated[first].ways)
    if timer is not None:
        timed = partial(_timed, timer, codes, points)
        asis = _seconds(points, first, [()])
        every = replace(compared, seconds=np.vstack([compared.seconds, asis]))
        at = range(sum(one is not None for one in given))
        quick = partial(_quick, timer, points)
        choice = choose_by_times(every, choice, [original, *codes], at, timed, effort, quick)
        if set(leaves(choice.tree)) == {original}:
            return f"the original loops are as fast in blocks: {', '.join(map(str, _sizes_of(choice, points)))}"
        programs = {leaf: programs[leaf] for leaf in leaves(choice.tree) if leaf != original}
    marked = _marked(symbolic, programs) if setting.instances else None
    among = _Among(symbolic, first, tuple(estimated[first].ways), setting.machine, setting.threads)
    said = {leaf: _Leaf(Recipe(tuple(nest.recipe for nest in programs[leaf])), taken[leaf], among) for leaf in programs}
    if original in leaves(choice.tree):
        as_written = Generated((), original_text(symbolic.read))
        codes[original], said[original] = as_written, _Leaf(None, tuple(() for _ in nests), among)
        if marked is not None:
            marked[original] = as_written
    ask = partial(asked, choice.tree, compared.features)
    return _Coded(
        choice,
        ask(codes),
        ask(marked) if marked is not None else None,
        ask(said),
        tuple(leaf.recipe for leaf in said.values() if leaf.recipe is not None),
        f"its {len(nests)} nests were compared at {count} sizes of {usual}" if count < usual else "",
        lengths,
        column_extents([made for own in programs.values() if (made := own[first].loops)], _ranges(nests[first])),
        tuple(_sizes_of(choice, points)),
    )


def _part(some: int, count: int, usual: int) -> int:
    """As large a part of `count` as a number is of what is usual, rounded up."""
    return -(-some * count // usual)


def _unfit(symbolic: Symbolic) -> str:
    """Why no nest of a program runs in blocks."""
    sums = [nest for nest in symbolic.nests if nest.contraction is not None]
    if not sums:
        return "no nest in it is a contraction"
    return "; ".join((f"no microkernel fits {', '.join(nest.name for nest in sums)}", *symbolic.out_of_form))


def _ways(symbolic: Symbolic, nest: Nest, setting: Setting, *, blocked: bool) -> list[Way]:
    """Ways to run a nest: in blocks, where there are any and this is asked for, else in vectors."""
    legality = nest_legality(nest, symbolic.program.dependences, reassociate=setting.reassociate)
    free = legality.parallel_loops(nest) if setting.threads > 1 else ()
    blocks = in_blocks(nest, free, setting.machine) if blocked and nest.contraction is not None else []
    return blocks or in_vectors(symbolic.program.scop, nest, legality, free)


def _in_blocks(way: Way) -> bool:
    return any(isinstance(one, Microkernel) for one in way)


@dataclass(frozen=True, slots=True)
class _Estimated:
    """Ways to run one nest, and what each is estimated to take."""

    ways: Sequence[Way]
    seconds: FloatArray
    """(V, P): of each way at each point."""

    def at(self, points: Sequence[Estimator], place: int) -> _Estimated:
        """The same ways to run the nest at this place, at more points, of which the first are those that it has."""
        further = _seconds(points[self.seconds.shape[1] :], place, self.ways)
        return _Estimated(self.ways, np.hstack([self.seconds, further]))

    def best(self, count: int) -> _Estimated:
        """Those ways that are among the best so many at one of the points."""
        some = np.unique(np.argsort(self.seconds, axis=0, kind="stable")[:count])
        return _Estimated([self.ways[i] for i in some], self.seconds[some])


def _estimated(
    points: Sequence[Estimator],
    ways: Sequence[Sequence[Way]],
    heavy: Sequence[int],
    count: int,
    stages: Sequence[tuple[int, int]],
) -> tuple[list[_Estimated], int]:
    """The best ways to run each nest at the first `count` points; those of that nest which takes longest, whose place
    comes second, at all points. `stages`: see `Effort`."""
    some = points[:count]
    every = [_Estimated(own, _seconds(some, place, own)) for place, own in enumerate(ways)]
    first = max(heavy, key=lambda place: float(np.log(every[place].seconds.min(axis=0)).sum()))
    longest = every[first]
    for more, best in stages:
        longest = longest.at(points[:more], first).best(best)
    found = [own.best(stages[0][1]) for own in every]
    found[first] = longest.at(points, first)
    return found, first


def _seconds(points: Sequence[Estimator], place: int, ways: Sequence[Way]) -> FloatArray:
    """(V, P): what each way to run a nest is estimated to take at each point."""
    return np.array([_way_seconds(point, place, ways) for point in points]).reshape(len(points), len(ways)).T


def _way_seconds(at: Estimator, place: int, ways: Sequence[Way]) -> list[float]:
    """Estimated seconds of each way to run the nest at this place."""
    return [one.score for one in at.orders(at.nests[place], apply_each(at.nests[place], ways))]


def _compared(nest: Nest, points: Sequence[Estimator], place: int, estimated: _Estimated, judging: int) -> Compared:
    """The ways to run the nest at this place, with what sizes are told apart by."""
    loops, ranges = _features(nest), _ranges(nest)
    features: list[Feature] = [tuple(ranges[loop] for loop in some) for some in loops]
    values = np.array([[_value(point.nests[place], some) for some in loops] for point in points])
    return Compared(estimated.seconds, features, values, judging)


def _ranges(nest: Nest) -> dict[str, isl.PwAff]:
    """{ [parameters] -> [n] } the extent of each loop."""
    return dict(zip(nest.loops, extents(nest.statements[0]), strict=False))


def _features(nest: Nest) -> list[tuple[str, ...]]:
    """What sizes are told apart by, each a product of loops: every loop without a fixed extent, the elements of each
    operand, all of the work."""
    found = nest.contraction
    free = [loop for loop, extent in fixed_extents(nest).items() if extent is None]
    arrays = () if found is None else (found.output, found.left, found.right)
    operands = [tuple(loop for loop in free if one.strides[loop] != 0) for one in arrays]
    return [loops for loops in dict.fromkeys([*((loop,) for loop in free), *operands, tuple(free)]) if loops]


def _value(nest: Nest, loops: Sequence[str]) -> float:
    return math.prod(float(nest.counts[loop].extent or 1) for loop in loops)


def _taken(estimated: Sequence[_Estimated], first: int, leaf: int) -> tuple[Way, ...]:
    """A way for each nest, of which the one at `first` runs in one of the ways that were compared for it."""
    way = estimated[first].ways[leaf]
    return tuple(way if place == first else _best_with(own, way) for place, own in enumerate(estimated))


def _best_with(own: _Estimated, way: Way) -> Way:
    """The way of another nest that is best in the mean, on threads where `way` is."""
    shared = any(isinstance(one, Parallelize) for one in way)
    alike = [i for i, other in enumerate(own.ways) if any(isinstance(one, Parallelize) for one in other) == shared]
    means = np.log(own.seconds).mean(axis=1)
    return own.ways[min(alike or range(len(own.ways)), key=lambda i: float(means[i]))]


def _ordered(nests: Sequence[Nest], ways: Sequence[Way]) -> list[Ordered]:
    return [ordered(nest, way) for nest, way in zip(nests, ways, strict=True)]


def _code(
    symbolic: Symbolic, programs: Mapping[int, list[Ordered]], setting: Setting
) -> tuple[dict[int, list[Ordered]], dict[int, Generated]] | str:
    """Nests with what stands around sums in their microkernels, unless that makes the text long, and their C; or
    why they are not legal."""
    scop, found = symbolic.program.scop, symbolic.program.dependences
    for groups in (plan(symbolic.nests).groups, ()):
        fused = {leaf: into_kernels(scop, own, groups, {}) for leaf, own in programs.items()}
        for own in fused.values():
            why = check(scop, program_tree(own), found, reassociate=setting.reassociate)
            if why is not None:
                return why
        codes = {leaf: generate(scop, program_tree(own), other_sizes=True) for leaf, own in fused.items()}
        if characters(codes.values()) <= setting.effort.blocks.characters:
            break
    return fused, codes


def _marked(symbolic: Symbolic, programs: Mapping[int, list[Ordered]]) -> dict[int, Generated]:
    """The C of nests with marks; how long it is decides nothing."""
    scop = symbolic.program.scop
    return {leaf: generate(scop, program_tree(one), instances=True, other_sizes=True) for leaf, one in programs.items()}


def _timed(timer: Timer, codes: Mapping[int, Generated], points: Sequence[Estimator], at: Sequence[int]) -> FloatArray:
    """Seconds (1 + V, Q) of the original and of codes at some of the points."""
    return timer.seconds(codes, [points[p].scop.sizes for p in at])


def _quick(timer: Timer, points: Sequence[Estimator], at: int) -> bool:
    """Whether a run at one of the points is short."""
    return timer.quick(points[at].scop.sizes)


def _sizes_of(choice: Choice, points: Sequence[Estimator]) -> Iterator[TimedSize]:
    """What was timed."""
    return (TimedSize(points[one.point].scop.sizes, one.seconds, one.original) for one in choice.timed)


@dataclass(frozen=True, slots=True)
class _Among:
    """What variants in blocks were chosen among."""

    symbolic: Symbolic
    first: int
    """Place of the nest that takes longest, by which variants are chosen."""
    ways: tuple[Way, ...]
    """To run that nest."""
    machine: Machine
    threads: int


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A variant whose sums are in blocks of registers (`polydl.search.sizes.decision_tree.Leaf`)."""

    recipe: Recipe | None
    """See `Leaf`."""
    ways: tuple[Way, ...]
    """How each nest is run, before what stands around its sums joins its microkernel: what is estimated."""
    among: _Among

    def seconds(self, sizes: Mapping[str, int]) -> tuple[float, float]:
        """See `Leaf`; of the ways to run the nest that takes longest."""
        of = self.among
        scop, found = of.symbolic.program.scop, of.symbolic.program.dependences
        point = point_at(scop, found, of.symbolic.nests, {name: sizes[name] for name in scop.parameters})
        if point is None:
            return math.nan, math.nan
        estimator = estimator_at(point, of.machine, of.threads)
        own = [_way_seconds(estimator, i, [way])[0] for i, way in enumerate(self.ways)]
        best = min(_way_seconds(estimator, of.first, of.ways))
        return sum(own), sum(own) - own[of.first] + min(best, own[of.first])
