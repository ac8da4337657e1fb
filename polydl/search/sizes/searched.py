"""Code for the sizes that were not tuned, of programs without contractions in blocks: the variants that were searched
for the tuned size, where they are as legal for every size.

The best variants of each family, with sizes as parameters, on one thread and on all, are compared by their estimates
at sizes over the ranges, beside the original loops; the few that are near the best everywhere become code, behind
conditions that ask how long the loops are. Legality is decided for all values of the parameters at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import chain, islice

import numpy as np

from polydl.base.effort import Effort
from polydl.base.errors import QuotaExceeded
from polydl.base.records import dataclass
from polydl.dependences.nests import nests
from polydl.lower.emit import Generated, generate
from polydl.lower.guarded_pieces import dispatched, extents
from polydl.lower.region import original_text
from polydl.model import isl
from polydl.model.at_sizes import at_sizes
from polydl.model.in_child import Hung
from polydl.model.isl import quota
from polydl.model.scop import Scop
from polydl.rank.estimator import Estimator
from polydl.rank.ranker import FloatArray
from polydl.schedule.check import check
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.recipe import Recipe
from polydl.schedule.resized import at_sizes as parts_at_sizes
from polydl.search.fused_variants import least_past_caches
from polydl.search.sizes.choose import Choice, Compared, asked, characters, choose, choose_by_times, losses
from polydl.search.sizes.code import EverySize, Setting, Symbolic, TimedSize, Timer, counted
from polydl.search.sizes.decision_tree import SizeTree
from polydl.search.sizes.dispatch import leaves
from polydl.search.sizes.lanes import candidates_in_lanes
from polydl.search.sizes.partial_sums import candidates_in_rounds
from polydl.search.sizes.searched_families import Base, Candidate, candidates_for, named
from polydl.search.sizes.size_points import Ranges, SizePoint, estimator_at, point_at, size_points, too_few
from polydl.search.variant import Variant, generated_apart
from polydl.target import Machine

_LARGEST = 32
"""Data at a size that is estimated, in last-level caches."""
_LEAST_POINTS = 8
"""Sizes that a choice needs."""
_TIMED_ANYHOW = 3
"""Ways beside the original that are timed at other sizes though little is to be done for long programs, the best by
estimate and what was chosen by times on all threads and on one: an estimate alone is no reason to leave the
original."""
_IN_CACHE = 4.0
"""How much longer it takes to store past the caches what would fit in them and is read again from there: about what
the last cache is faster than memory."""


@dataclass(slots=True)
class _Estimated:
    """Ways to run a program, and what each is estimated to take; their code, as far as it was made."""

    candidates: Sequence[Candidate]
    setting: Setting
    points: Sequence[Mapping[str, int]]
    """Values of the parameters."""
    judging: int
    """So many points at the end only judge."""
    seconds: FloatArray
    """(V, P): of each way at each point."""
    left_out: list[str] = field(default_factory=list)
    """Why others are not among them."""
    codes: dict[int, Generated] = field(default_factory=dict)
    hung: set[int] = field(default_factory=set)
    """Candidates whose code was too much for isl."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A candidate that was taken (`polydl.search.sizes.decision_tree.Leaf`)."""

    place: int
    """Among those that were estimated."""
    estimated: _Estimated

    @property
    def recipe(self) -> Recipe | None:
        own = self.estimated.candidates[self.place]
        return None if own.original else own.recipe

    def seconds(self, sizes: Mapping[str, int]) -> tuple[float, float]:
        of = self.estimated
        base = of.candidates[0].base
        own = {name: sizes[name] for name in base.scop.parameters}
        point = point_at(base.scop, base.dependences, base.nests, own)
        found = None if point is None else _scores(point, of.candidates, of.setting)
        return (math.nan, math.nan) if found is None else (found[self.place], min(found))


def every_size_of_searched(
    symbolic: Symbolic, sizes: Ranges, variants: Sequence[Variant], setting: Setting, timer: Timer | None = None
) -> EverySize | str:
    """Code for all values of a program's parameters, of variants that were searched for some, best first; or why there
    is none.

    `sizes`: the least and the greatest value of each parameter for which variants are compared by their estimates,
    which times at a few correct, where there is a `timer`; the code is right for all. Raises QuotaExceeded.
    """
    base = Base(symbolic.program.scop, symbolic.program.dependences, symbolic.nests)
    candidates, left_out = candidates_for(base, variants, setting)
    more = [candidates_in_lanes(base, setting)]
    if setting.reassociate and setting.threads > 1:
        more.append(candidates_in_rounds(base, setting.effort))
    for found, too_much in more:
        candidates, left_out = [*candidates, *found], [*left_out, *too_much]
    if len(candidates) < 2:
        return f"none of the variants is for every size: {'; '.join(counted(left_out)) or 'there is none'}"
    estimated = _estimated(candidates, sizes, setting, timer)
    if isinstance(estimated, str):
        return estimated
    estimated.left_out += left_out
    return _coded(symbolic, estimated, timer)


def _estimated(
    candidates: Sequence[Candidate], sizes: Ranges, setting: Setting, timer: Timer | None
) -> _Estimated | str:
    """The candidates that are among the best somewhere, and the original loops, with their estimates at points over the
    ranges."""
    base, effort, bound = candidates[0].base, setting.effort, setting.effort.searched
    statements = base.scop.weight
    candidates = candidates[: max(4, effort.statements // (2 * effort.first * statements))]
    drawn = size_points(base.scop, base.dependences, base.nests, sizes, effort.drawn, {}, crowded=False)
    given = (point_at(base.scop, base.dependences, base.nests, one) for one in (timer.sizes if timer else ()))
    every = chain((one for one in given if one is not None), drawn)
    points = islice(_worth_comparing(every, setting.machine), bound.sizes)
    first = _Scored.of(islice(points, effort.first), candidates, setting)
    if len(first.points) < _LEAST_POINTS:
        return too_few(sizes)
    best = np.unique(np.argsort(first.seconds, axis=0, kind="stable")[: effort.best])
    chosen = [i for i, one in enumerate(candidates) if one.chosen] if timer else []
    some = sorted({0, *map(int, best), *chosen})
    candidates = [candidates[i] for i in some]
    more = _Scored.of(islice(points, effort.statements // (len(some) * statements)), candidates, setting)
    # Those that came first have the corners of the ranges: they are no sample to judge with.
    seconds = np.concatenate([first.seconds[some], more.seconds], axis=1)
    judging = len(more.points) * bound.judging // bound.sizes
    return _Estimated(candidates, setting, [*first.points, *more.points], judging, seconds)


def _worth_comparing(points: Iterable[SizePoint], machine: Machine) -> Iterator[SizePoint]:
    """Each point once, without those whose data are so much larger than the caches that nothing new is seen there."""
    seen: set[tuple[int, ...]] = set()
    for point in points:
        sizes = tuple(point.scop.sizes.values())
        data = sum((a.layout.size or 0) * a.element.bytes for a in point.scop.arrays.values())
        if sizes not in seen and data <= _LARGEST * machine.caches[-1].bytes:
            seen.add(sizes)
            yield point


@dataclass(frozen=True, slots=True)
class _Scored:
    """What candidates are estimated to take at points."""

    points: list[Mapping[str, int]]
    seconds: FloatArray
    """(V, P)"""

    @staticmethod
    def of(at: Iterable[SizePoint], candidates: Sequence[Candidate], setting: Setting) -> _Scored:
        points: list[Mapping[str, int]] = []
        seconds: list[list[float]] = []
        for point in at:
            found = _scores(point, candidates, setting)
            if found is not None:
                points.append(point.scop.sizes)
                seconds.append(found)
        return _Scored(points, np.array(seconds).reshape(len(points), len(candidates)).T)


def _scores(point: SizePoint, candidates: Sequence[Candidate], setting: Setting) -> list[float] | None:
    """Estimated seconds of each candidate at a point; None where the program has other nests there."""
    at: dict[int, tuple[SizePoint, Estimator, dict[object, Ordered]]] = {}
    found: list[float] = []
    for one in candidates:
        key = id(one.base)
        if key not in at:
            there = point if one.base is candidates[0].base else _at(one.base, point)
            if there is None:
                return None
            at[key] = there, estimator_at(there, setting.machine, setting.threads, one.base.equal), {}
        there, estimator, known = at[key]
        new = [part for part in one.parts if part.key not in known]
        known |= zip((part.key for part in new), parts_at_sizes(there.scop, new, there.nests), strict=True)
        score = estimator.whole(program_tree([known[part.key] for part in one.parts])).score
        found.append(score * _IN_CACHE if _streams_in_cache(there.scop, one, setting.machine) else score)
    return found


def _streams_in_cache(scop: Scop, one: Candidate, machine: Machine) -> bool:
    streamed = [scop.arrays[name] for part in one.parts if part.rows is not None for name in part.rows.stream]
    return any((a.layout.size or 0) * a.element.bytes < least_past_caches(machine) for a in streamed)


def _at(base: Base, point: SizePoint) -> SizePoint | None:
    """Another form of the program at a point."""
    there = at_sizes(base.scop, {name: point.scop.sizes[name] for name in base.scop.parameters})
    made = nests(there, base.dependences)
    if list(map(named, made)) != list(map(named, base.nests)):
        return None
    return SizePoint(there, made)


def _coded(symbolic: Symbolic, estimated: _Estimated, timer: Timer | None) -> EverySize | str:
    """The fewest candidates that are near the best everywhere, and when each is taken. Those that turn out to be
    illegal, or to be too much to check, are left out and the choice is made again."""
    features, values = _features(estimated)
    compared = Compared(estimated.seconds, features, values, estimated.judging)
    bound = estimated.setting.effort.searched
    left = list(range(len(estimated.candidates)))
    most = bound.variants
    while True:
        choice = choose(compared, left, bound, most)
        taken = dict.fromkeys(leaves(choice.tree))
        broken = {leaf: why for leaf in set(taken) if (why := _written(symbolic, estimated, leaf))}
        for leaf, why in broken.items():
            estimated.left_out.append(why)
            left = [i for i in left if i != leaf and not (leaf in estimated.hung and _as_hard(estimated, i, leaf))]
        if broken:
            continue
        if most > 1 and characters(estimated.codes[leaf] for leaf in set(taken)) > bound.characters:
            most -= 1
            continue
        break
    if timer is not None:
        choice = _by_times(symbolic, estimated, compared, choice, left, timer)
    taken = dict.fromkeys(leaves(choice.tree))
    times = [TimedSize(estimated.points[one.point], one.seconds, one.original) for one in choice.timed]
    if set(taken) == {0} and times:
        return _reason(f"the original loops are as fast: {', '.join(map(str, times))}", estimated)
    original = losses(compared, left)[left.index(0)]
    if not times and np.mean(original - choice.losses) < estimated.setting.effort.gain:
        return _reason("the original loops are about as fast by estimate", estimated)
    some = symbolic.narrowed
    ask = partial(asked, choice.tree, features)
    marked = _marked(estimated, set(taken)) if estimated.setting.instances else None
    return EverySize(
        generated=dispatched(symbolic.read, some, ask(estimated.codes)),
        recipes=tuple(estimated.candidates[leaf].recipe for leaf in taken),
        timed=tuple(times),
        loss=choice.loss,
        tree=SizeTree(ask({leaf: _Leaf(leaf, estimated) for leaf in taken}), some.values),
        kind="of the variants that were searched",
        marked=dispatched(symbolic.read, some, ask(marked)) if marked else None,
        rewritten=_fused_programs(estimated, set(taken)) if marked else (),
        limited="; ".join(symbolic.out_of_form),
        left_out=counted(estimated.left_out),
    )


def _by_times(
    symbolic: Symbolic, estimated: _Estimated, compared: Compared, choice: Choice, left: Sequence[int], timer: Timer
) -> Choice:
    """The choice corrected by times of the original, of what was chosen by estimates, and of what was chosen by times
    at the tuned size."""
    effort = estimated.setting.effort
    chosen = [i for i in left if estimated.candidates[i].chosen]
    chosen.sort(key=lambda i: float(np.mean(np.log(estimated.seconds[i]))))
    _written(symbolic, estimated, 0)
    ways = [0]
    for way in dict.fromkeys((*chosen[:1], *leaves(choice.tree), *chosen)):
        if way == 0 or len(ways) > effort.timed_ways or _written(symbolic, estimated, way):
            continue
        most = Effort().searched.characters if len(ways) <= _TIMED_ANYHOW else effort.searched.characters
        if characters(estimated.codes[one] for one in (*ways[1:], way)) <= most:
            ways.append(way)
    codes = {way: estimated.codes[way] for way in ways[1:]}
    sizes = [{name: one[name] for name in timer.sizes[0]} for one in estimated.points] if timer.sizes else []
    given = [sizes.index(dict(one)) for one in timer.sizes if dict(one) in sizes]
    if not codes:
        return choice

    def timed(at: Sequence[int]) -> FloatArray:
        return timer.seconds(codes, [estimated.points[p] for p in at])

    return choose_by_times(compared, choice, ways, given, timed, effort, lambda at: timer.quick(estimated.points[at]))


def _reason(text: str, estimated: _Estimated) -> str:
    return f"{text}; left out: {'; '.join(counted(estimated.left_out))}" if estimated.left_out else text


def _written(symbolic: Symbolic, estimated: _Estimated, leaf: int) -> str:
    """Make the code of a candidate; why there is none, or nothing."""
    one = estimated.candidates[leaf]
    if leaf in estimated.codes:
        return ""
    if one.original:
        estimated.codes[leaf] = Generated((), original_text(symbolic.read))
        return ""
    try:
        with quota("a variant for every size", estimated.setting.effort.operations):
            why = check(one.base.scop, one.tree, one.base.dependences, reassociate=estimated.setting.reassociate)
        if why is None:
            code = _of_candidate(one, estimated.setting.effort)
            if any(part.rows for part in one.parts) and not code.rows:
                return "where sizes are parameters none of its loops becomes a row of vectors"
            estimated.codes[leaf] = code
    except Hung as error:
        estimated.hung.add(leaf)
        why = error.reason
    except QuotaExceeded as error:
        why = error.reason
    return why or ""


def _marked(estimated: _Estimated, taken: Iterable[int]) -> dict[int, Generated] | None:
    """The C of candidates with marks; None where isl takes too long for them."""
    made = {leaf: estimated.codes[leaf] for leaf in taken}
    for leaf in made:
        if not estimated.candidates[leaf].original:
            try:
                made[leaf] = _of_candidate(estimated.candidates[leaf], estimated.setting.effort, instances=True)
            except QuotaExceeded:
                return None
    return made


def _fused_programs(estimated: _Estimated, taken: Iterable[int]) -> tuple[Scop, ...]:
    bases = (estimated.candidates[leaf].base for leaf in taken)
    fused = {id(base): base.scop for base in bases if base is not estimated.candidates[0].base}
    return tuple(fused.values())


def _as_hard(estimated: _Estimated, one: int, other: int) -> bool:
    """Whether the trees of two candidates differ in what rows become at most."""
    first, second = (estimated.candidates[i] for i in (one, other))
    if first.base is not second.base or first.original or second.original:
        return False
    hows = ([p.how for p in c.parts if p.how is not None] for c in (first, second))
    return next(hows) == next(hows) != []


def _of_candidate(one: Candidate, effort: Effort, *, instances: bool = False) -> Generated:
    """The code of a candidate. Tiles along diagonals keep isl busy for minutes on few counted operations where sizes
    are parameters, so that it is made in a process of its own. Raises QuotaExceeded."""

    def made() -> Generated:
        return generate(one.base.scop, one.tree, instances=instances, other_sizes=True, operations=effort.operations)

    return generated_apart(made, f"code of {one.recipe.id} for every size", seconds=effort.child_seconds)


def _features(estimated: _Estimated) -> tuple[list[tuple[isl.PwAff, ...]], FloatArray]:
    """What sizes are told apart by: the extent of each loop of which that depends on parameters, and for each
    statement the product of all of these; and (P, F) their values at the points."""
    found: dict[tuple[str, ...], tuple[isl.PwAff, ...]] = {}
    for statement in estimated.candidates[0].base.scop.statements:
        own = [extent for extent in extents(statement) if isl.involved_parameters(extent)]
        for group in (*((one,) for one in own), tuple(own)):
            if group:
                found.setdefault(tuple(sorted(map(str, group))), group)
    features = list(found.values())
    at = [isl.parameter_values(point) for point in estimated.points]
    values = [[math.prod(_value(extent, point) for extent in group) for group in features] for point in at]
    return features, np.array(values)


def _value(extent: isl.PwAff, point: isl.Set) -> float:
    return float(isl.to_int(extent.intersect_params(point).max_val()))
