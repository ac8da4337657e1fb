"""Code for the sizes that were not tuned: the same program with its sizes as parameters, in blocks.

A variant is made for values of the function's integer parameters. For others the output runs code that is made here,
once for all values: tiles of a constant size whose last ones run short, packed copies of tiles, microkernels whose
extents and strides are arguments. Legality is decided for all values at once, from the dependences of the program with
its parameters; where no loop would run, and where the work is less than forks of threads take, other code stands.

source:    the blocks and copies of BLIS (Van Zee and van de Geijn, TOMS 2015), which are made for any size as well
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeVar

import numpy as np

from polydl.base.effort import Effort
from polydl.dependences.analysis import Dependence
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import Nest, nests
from polydl.lower.dispatch import Among, Dispatch, Question, codes_of, dispatched, extents, where_all_runs
from polydl.lower.emit import Generated, generate
from polydl.model import isl
from polydl.model.at_sizes import at_sizes
from polydl.model.scop import Scop
from polydl.prove import Proof
from polydl.rank.estimator import Estimator
from polydl.rank.ranker import FloatArray
from polydl.rewrite.canonical import Canonical, canonical, kept_as_written
from polydl.rewrite.chains import plan
from polydl.schedule.check import check
from polydl.schedule.recipe import Recipe, recipe_of
from polydl.schedule.structure import Structure, apply
from polydl.schedule.transforms import Microkernel, Parallelize
from polydl.search.any_size_ways import Way, fixed_extents, in_blocks, in_vectors
from polydl.search.corrected import closest, corrected
from polydl.search.dispatch import Tree, few, leaves, renumbered, taken, tree
from polydl.search.extent_parameters import column_extents, row_lengths
from polydl.search.fused import into_kernels
from polydl.search.size_points import Lengths, Ranges, size_points
from polydl.search.size_tree import Branch, Compared, InBlocks, SizeTree, estimator_at, way_seconds
from polydl.target import Machine

L = TypeVar("L")

Timer = Callable[[Mapping[int, Generated], Sequence[Mapping[str, int]]], FloatArray]
"""Seconds (V, Q) of several pieces of code for one program, in their order, at some sizes; NaN where there are none."""


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
    tree: SizeTree
    """Which variant runs at which sizes."""
    marked: Generated | None = None
    """With `instances`: its C with lines that say which instances run (polydl.lower.instance_marks)."""
    rewritten: tuple[Scop, ...] = ()
    """The program with nests fused, where code is of that."""
    proof: Proof | None = None
    """What was shown of it, where this was asked for."""
    timed: int = 0
    """Sizes at which variants were timed, by which the estimates were corrected."""
    limited: str = ""
    """What its search has left out, for people (`Effort`); empty: nothing."""

    def beside(self, code: Generated) -> Generated:
        """Code for some sizes with this for the others."""
        prologue = tuple(dict.fromkeys((*code.prologue, *self.generated.prologue)))
        return replace(code, prologue=prologue, otherwise=self.generated.region)

    @property
    def shown(self) -> str:
        """What its proof came to, in a line for people; empty without one."""
        if self.proof is None:
            return ""
        if not self.proof.holds:
            return f"not proved for other sizes: {self.proof.reason}"
        granted = len(self.proof.trusted)
        return f"proved for all sizes{f' ({granted} assumptions in the head of the output)' if granted else ''}"

    def __str__(self) -> str:
        behind = f"{100 * self.loss:.0f} % behind the best for each by estimate"
        return f"{len(self.recipes)} variants in blocks, {behind}{f'; {self.limited}' if self.limited else ''}"


def every_size(
    symbolic: Scop,
    sizes: Ranges,
    machine: Machine,
    threads: int,
    *,
    reassociate: bool,
    instances: bool = False,
    timer: Timer | None = None,
    effort: Effort = Effort(),
) -> EverySize | str:
    """Code for all values of a scop's parameters, or why there is none.

    `sizes`: the least and the greatest value of each parameter for which ways to run it are compared by their
    estimates; the code is right for all. `instances`: also with the marks that a proof reads. With a `timer` the
    variants are timed where their estimates are closest, and the estimates corrected by that. Raises QuotaExceeded.
    """
    some = where_all_runs(symbolic)
    setting = _Setting(machine, threads, reassociate, instances, effort)
    made = _chosen(some.scop, sizes, setting, blocked=True, timer=timer)
    if isinstance(made, str):
        return made
    choice, marked, recipes, top = made.choice, made.marked, made.recipes, made.top
    if made.lengths:
        # Questions about how large sizes are don't tell rows apart that start in one set of a cache.
        other = _chosen(some.scop, sizes, setting, blocked=True, crowded=True)
        most = effort.blocks.characters
        if not isinstance(other, str) and _characters((*codes_of(choice), *codes_of(other.choice))) <= most:
            values = reduce(isl.Set.union, (isl.near_multiples(n, *known) for n, known in made.lengths.items()))
            choice = Among(values, other.choice, choice)
            if marked is not None and other.marked is not None:
                marked = Among(values, other.marked, marked)
            top = Among(values, other.top, top)
            recipes = (*recipes, *other.recipes)
    for name, extent in made.columns.items():
        # A block of one column leaves the lanes of vectors idle: then they run along the sum.
        rest = {other: ends for other, ends in sizes.items() if other != name}
        single = _chosen(at_sizes(some.scop, {name: 1}), rest, setting, blocked=False)
        if not isinstance(single, str):
            choice = Question((extent,), 2, single.choice, choice)
            if marked is not None and single.marked is not None:
                marked = Question((extent,), 2, single.marked, marked)
            top = Question((extent,), 2, single.top, top)
            recipes = (*single.recipes, *recipes)
    named = dispatched(some.scop, some, marked) if marked is not None else None
    sized = SizeTree(top, some.values)
    code = dispatched(some.scop, some, choice)
    return EverySize(code, recipes, made.loss, sized, marked=named, timed=made.timed, limited=made.limited)


@dataclass(frozen=True, slots=True)
class _Setting:
    """What it is made for."""

    machine: Machine
    threads: int
    reassociate: bool
    instances: bool
    """Whether the code is made with marks as well."""
    effort: Effort
    """What bounds the search."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Code for a program at any size."""

    choice: Dispatch
    marked: Dispatch | None
    """The same with marks."""
    top: Branch
    """The same choice, for people."""
    recipes: tuple[Recipe, ...]
    """How the nests are scheduled: for small sizes first."""
    loss: float
    """See `EverySize`."""
    timed: int
    """See `EverySize`."""
    limited: str
    """See `EverySize`."""
    lengths: Lengths
    """Of rows of operands of the heaviest nest."""
    columns: Mapping[str, isl.PwAff]
    """Parameters that are the extent of the loop over columns of the heaviest nest, and { [parameters] -> [n] } it."""


def _chosen(
    symbolic: Scop,
    sizes: Ranges,
    setting: _Setting,
    *,
    blocked: bool,
    crowded: bool = False,
    timer: Timer | None = None,
) -> _Chosen | str:
    """`blocked`: contractions run in blocks of registers; otherwise like all other nests, in vectors. `crowded`: for
    sizes with which rows of operands start in one set of a cache."""
    program = canonical(symbolic, reassociate=setting.reassociate)
    scop, found = program.scop, program.dependences
    parts = nests(scop, found)
    ways = [_ways(scop, nest, found, setting, blocked=blocked) for nest in parts]
    heavy = [place for place, own in enumerate(ways) if not blocked or any(map(_in_blocks, own))]
    if not heavy:
        sums = [nest for nest in parts if nest.contraction is not None]
        reasons = [why for nest in sums if (why := kept_as_written(scop, nest.statements[0]))]
        named = ", ".join(nest.name for nest in sums)
        return "; ".join((f"no microkernel fits {named}", *reasons)) if sums else "no nest in it is a contraction"
    lengths = row_lengths(scop, [parts[place] for place in heavy], sizes, setting.machine) if blocked else {}
    effort, judging = setting.effort, setting.effort.blocks.judging
    wanted = effort.blocks.sizes if blocked else effort.points_in_vectors + judging
    count = min(wanted, max(3 * judging, effort.nests_at_sizes // len(parts)))
    points = [
        estimator_at(point, setting.machine, setting.threads)
        for point in size_points(scop, found, parts, sizes, count, lengths, crowded=crowded)
    ]
    if len(points) < 2 * judging:
        return f"few sizes with {', '.join(f'{n} = {v[0]}..{v[1]}' for n, v in sizes.items())} are possible"
    (first_points, best), *stages = [(-(-some * count // wanted), best) for some, best in effort.stages]
    some = points[:first_points]
    compared = [_Compared(own, _seconds(some, place, own)).best(best) for place, own in enumerate(ways)]
    first = max(heavy, key=lambda place: float(np.log(compared[place].seconds.min(axis=0)).sum()))
    for more, best in stages:
        compared[first] = compared[first].at(points[:more], first).best(best)
    compared[first] = compared[first].at(points, first)
    sized = [point.nests[first] for point in points]
    decision = _decided(parts[first], sized, compared[first], effort)
    taking = {leaf: _taken(compared, first, leaf) for leaf in leaves(decision.tree)}
    programs = {leaf: _structures(parts, ways) for leaf, ways in taking.items()}
    made = _code(program, parts, programs, setting)
    if isinstance(made, str):
        return made
    programs, codes = made
    if timer is not None:
        decision = _timed(decision, points, sized, compared[first], codes, timer, effort)
        programs = {leaf: programs[leaf] for leaf in leaves(decision.tree)}
    marked = _marked(scop, programs) if setting.instances else None
    ranges = dict(zip(parts[first].loops, extents(parts[first].statements[0]), strict=False))
    among = Compared(program, parts, first, tuple(compared[first].ways), setting.machine, setting.threads)
    said = {leaf: InBlocks(recipe_of(programs[leaf]), taking[leaf], among) for leaf in programs}
    return _Chosen(
        decision.asked(decision.tree, codes, ranges),
        decision.asked(decision.tree, marked, ranges) if marked is not None else None,
        decision.asked(decision.tree, said, ranges),
        tuple(leaf.recipe for leaf in said.values()),
        decision.loss,
        decision.timed,
        f"its {len(parts)} nests were compared at {count} sizes of {wanted}" if count < wanted else "",
        lengths,
        column_extents([structures[first] for structures in programs.values()], ranges),
    )


def _code(
    program: Canonical, parts: Sequence[Nest], programs: Mapping[int, list[Structure]], setting: _Setting
) -> tuple[dict[int, list[Structure]], dict[int, Generated]] | str:
    """Structures with what stands around sums in their microkernels, unless that makes the text long, and their C; or
    why they are not legal."""
    scop = program.scop
    for groups in (plan(parts).groups, ()):
        fused = {leaf: into_kernels(scop, structures, groups, {}) for leaf, structures in programs.items()}
        for structures in fused.values():
            why = check(scop, structures, program.dependences, reassociate=setting.reassociate)
            if why is not None:
                return why
        codes = {leaf: generate(scop, structures, other_sizes=True) for leaf, structures in fused.items()}
        if _characters(codes.values()) <= setting.effort.blocks.characters:
            break
    return fused, codes


def _marked(scop: Scop, programs: Mapping[int, list[Structure]]) -> dict[int, Generated]:
    """The C of structures with marks; how long it is decides nothing."""
    return {leaf: generate(scop, one, instances=True, other_sizes=True) for leaf, one in programs.items()}


def _ways(scop: Scop, nest: Nest, found: Sequence[Dependence], setting: _Setting, *, blocked: bool) -> list[Way]:
    """Ways to run a nest: in blocks, where there are any and this is asked for, else in vectors."""
    legality = nest_legality(nest, found, reassociate=setting.reassociate)
    free = legality.parallel_loops(nest) if setting.threads > 1 else ()
    blocks = in_blocks(nest, free, setting.machine) if blocked and nest.contraction is not None else []
    return blocks or in_vectors(scop, nest, legality, free)


def _in_blocks(way: Way) -> bool:
    return any(isinstance(one, Microkernel) for one in way)


@dataclass(frozen=True, slots=True)
class _Compared:
    """Ways to run one nest, and what each is estimated to take."""

    ways: Sequence[Way]
    seconds: FloatArray
    """(V, P): of each way at each point."""

    @property
    def losses(self) -> FloatArray:
        """(V, P): the logarithm of the time over that of the best way at the point, in figures that every machine's
        logarithms agree on."""
        losses: FloatArray = np.round(np.log(self.seconds / self.seconds.min(axis=0)), 9)
        return losses

    def at(self, points: Sequence[Estimator], place: int) -> _Compared:
        """The same ways to run the nest at this place, at more points, of which the first are those that it has."""
        further = _seconds(points[self.seconds.shape[1] :], place, self.ways)
        return _Compared(self.ways, np.hstack([self.seconds, further]))

    def best(self, count: int) -> _Compared:
        """Those ways that are among the best so many at one of the points."""
        kept = np.unique(np.argsort(self.seconds, axis=0, kind="stable")[:count])
        return _Compared([self.ways[i] for i in kept], self.seconds[kept])


def _seconds(points: Sequence[Estimator], place: int, ways: Sequence[Way]) -> FloatArray:
    """(V, P): what each way to run a nest is estimated to take at each point."""
    return np.array([way_seconds(point, place, ways) for point in points]).reshape(len(points), len(ways)).T


def _characters(codes: Iterable[Generated]) -> int:
    """Length of the C text of several pieces of code in one file."""
    codes = list(codes)
    shared = dict.fromkeys(piece for code in codes for piece in code.prologue)
    return sum(map(len, shared)) + sum(len(code.region) for code in codes)


@dataclass(frozen=True, slots=True)
class _Decision:
    """Which way a nest is run at which sizes."""

    tree: Tree
    """Its features are indices of `features`, its variants those of the ways that were compared."""
    features: Sequence[tuple[str, ...]]
    """Loops whose extents are multiplied."""
    loss: float
    """See `EverySize`."""
    timed: int = 0
    """See `EverySize`."""

    def asked(self, at: Tree, leaves: Mapping[int, L], ranges: Mapping[str, isl.PwAff]) -> Question[L] | L:
        """What belongs to each variant behind the questions. `ranges`: { [parameters] -> [n] } the extent of each
        loop."""
        if isinstance(at, int):
            return leaves[at]
        compared = tuple(ranges[loop] for loop in self.features[at.feature])
        return Question(compared, at.limit, self.asked(at.small, leaves, ranges), self.asked(at.large, leaves, ranges))


def _decided(nest: Nest, sized: Sequence[Nest], compared: _Compared, effort: Effort) -> _Decision:
    """The fewest ways that are near the best everywhere, and when each is taken. `sized`: the nest at each point; the
    last points only judge."""
    losses, judging = compared.losses, effort.blocks.judging
    taking = few(losses[:, :-judging], effort.blocks.variants, effort.blocks.near)
    features = _features(nest)
    values = np.array([[_value(one, loops) for loops in features] for one in sized])
    grown = tree(losses[taking][:, :-judging], values[:-judging])
    lost = [losses[taking[taken(grown, values[p])], p] for p in range(len(sized) - judging, len(sized))]
    return _Decision(renumbered(grown, taking), features, math.expm1(float(np.mean(lost))))


def _timed(
    decision: _Decision,
    points: Sequence[Estimator],
    sized: Sequence[Nest],
    compared: _Compared,
    codes: Mapping[int, Generated],
    timer: Timer,
    effort: Effort,
) -> _Decision:
    """The decision among the same ways, with their estimates corrected by times. `sized`: the nest at each point."""
    names, judging = list(codes), effort.blocks.judging
    values = np.array([[_value(one, loops) for loops in decision.features] for one in sized])
    estimated, places = np.log(compared.seconds[names]), np.log(np.maximum(values, 1.0))
    at = closest(estimated[:, :-judging], places[:-judging], effort.timed)
    if not at:
        return decision
    measured = timer(codes, [points[p].scop.sizes for p in at])
    moved = corrected(estimated, places, at, measured)
    losses = np.round(moved - moved.min(axis=0), 9)
    grown = tree(losses[:, :-judging], values[:-judging])
    least = np.minimum(moved.min(axis=0), np.log(compared.seconds).min(axis=0))
    lost = [moved[taken(grown, values[p]), p] - least[p] for p in range(len(sized) - judging, len(sized))]
    known = int(np.isfinite(measured).all(axis=0).sum())
    return _Decision(renumbered(grown, names), decision.features, math.expm1(float(np.mean(lost))), known)


def _taken(compared: Sequence[_Compared], first: int, leaf: int) -> tuple[Way, ...]:
    """A way for each nest, of which the one at `first` runs in one of the ways that were compared for it."""
    way = compared[first].ways[leaf]
    return tuple(way if place == first else _beside(own, way) for place, own in enumerate(compared))


def _structures(parts: Sequence[Nest], ways: Sequence[Way]) -> list[Structure]:
    return [apply(nest, list(way)) for nest, way in zip(parts, ways, strict=True)]


def _beside(own: _Compared, way: Way) -> Way:
    """The way of another nest that is best in the mean, on threads where `way` is."""
    shared = any(isinstance(one, Parallelize) for one in way)
    alike = [i for i, other in enumerate(own.ways) if any(isinstance(one, Parallelize) for one in other) == shared]
    means = np.log(own.seconds).mean(axis=1)
    return own.ways[min(alike or range(len(own.ways)), key=lambda i: float(means[i]))]


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
