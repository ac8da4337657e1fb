"""Code for the sizes that were not tuned, of programs without contractions in blocks: the variants that were searched
for the tuned size, where they are as legal for every size.

The best variants of each family, with sizes as parameters, on one thread and on all, are compared by their estimates
at sizes over the ranges, beside the original loops; the few that are near the best everywhere become code, behind
conditions that ask how long the loops are. Legality is decided for all values of the parameters at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

import msgspec
import numpy as np

from polydl.base.errors import QuotaExceeded
from polydl.dependences.nests import nests
from polydl.lower.dispatch import Question, dispatched, extents, where_all_runs
from polydl.lower.emit import Generated, generate
from polydl.lower.region import original_text
from polydl.model import isl
from polydl.model.at_sizes import at_sizes
from polydl.model.in_child import Hung, in_child
from polydl.model.isl import quota
from polydl.model.scop import Scop
from polydl.rank.estimator import Estimator
from polydl.rank.ranker import FloatArray
from polydl.rank.traffic import TrafficRanker
from polydl.rewrite.canonical import canonical
from polydl.schedule.at_sizes import (
    at_sizes as parts_at_sizes,
)
from polydl.schedule.check import check
from polydl.schedule.program_tree import program_tree
from polydl.schedule.recipe import Recipe
from polydl.search.dispatch import Tree, few, leaves, renumbered, taken, tree
from polydl.search.every_size import EverySize
from polydl.search.every_size_candidates import Base, Candidate, candidates_for, named
from polydl.search.every_size_rounds import candidates_in_rounds
from polydl.search.size_points import Ranges, SizePoint, point_at, size_points
from polydl.search.size_tree import SizeTree
from polydl.search.variant import Variant
from polydl.target import Machine

L = TypeVar("L")

_POINTS, _FURTHER = 64, 16
"""Sizes at which variants are compared, and further ones at which the choice among them is judged."""
_DRAWN = 2 * (_POINTS + _FURTHER)
"""Sizes that are drawn, of which some are alike or too large."""
_LARGEST = 32
"""Data at a size that is compared, in last-level caches."""
_FIRST, _BEST = 10, 3
"""Sizes at which all are compared; how many of the best at each of them are compared at the others, too."""
_ESTIMATED = 3000
"""Statements that are estimated at all sizes together, about: fewer sizes and variants of programs with many."""
_LEAST_POINTS = 8
"""Sizes that a choice needs."""
_IN_CACHE = 4.0
"""How much longer it takes to store past the caches what would fit in them and is read again from there: about what
the last cache is faster than memory."""
_MOST = 6
"""Variants in one output, at most."""
_NEAR = 0.015
"""Mean loss over the points that is not worth another variant."""
_GAIN = 0.05
"""By how much the choice has to be faster than the original loops, in the mean."""
_MOST_TEXT = 100_000
"""Characters of C up to which there is another variant."""
_STEP = 5_000_000
"""isl operations that the check of a variant may take, and that its code may."""

_HANG_SECONDS = 10
"""Of processor time, after which the code of a variant is taken to hang: it takes two at most where it comes at all."""


@dataclass(frozen=True, slots=True)
class Searched(EverySize):
    """What runs at sizes that were not tuned: variants that were searched for the tuned size."""

    left_out: tuple[str, ...] = ()
    """Variants that would have been among them, with the reason, for people."""

    def __str__(self) -> str:
        behind = f"{100 * self.loss:.0f} % behind the best for each by estimate"
        left_out = f"; left out: {'; '.join(self.left_out)}" if self.left_out else ""
        return f"{len(self.recipes)} of the variants that were searched, {behind}{left_out}"


@dataclass(slots=True)
class _Compared:
    """Ways to run a program, and what each is estimated to take."""

    candidates: Sequence[Candidate]
    machine: Machine
    threads: int
    points: Sequence[Mapping[str, int]]
    """Values of the parameters; the last `further` ones only judge."""
    further: int
    seconds: FloatArray
    """(V, P): of each way at each point."""
    left_out: dict[str, None] = field(default_factory=dict)
    codes: dict[int, Generated] = field(default_factory=dict)
    hung: set[int] = field(default_factory=set)
    """Candidates whose code was too much for isl."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A candidate that was taken (`polydl.search.size_tree.Leaf`)."""

    place: int
    """Among those that were compared."""
    compared: _Compared

    @property
    def recipe(self) -> Recipe | None:
        own = self.compared.candidates[self.place]
        return None if own.original else own.recipe

    def seconds(self, sizes: Mapping[str, int]) -> tuple[float, float]:
        of = self.compared
        base = of.candidates[0].base
        own = {name: sizes[name] for name in base.scop.parameters}
        point = point_at(base.scop, base.dependences, base.nests, own)
        found = None if point is None else _scores(point, of.candidates, of.machine, of.threads)
        return (math.nan, math.nan) if found is None else (found[self.place], min(found))


def every_size_of_searched(
    symbolic: Scop,
    sizes: Ranges,
    variants: Sequence[Variant],
    machine: Machine,
    threads: int,
    *,
    reassociate: bool,
    instances: bool = False,
) -> Searched | str:
    """Code for all values of a scop's parameters, of variants that were searched for some, best first; or why there is
    none.

    `sizes`: the least and the greatest value of each parameter for which variants are compared by their estimates; the
    code is right for all. `instances`: also with the marks that a proof reads. Raises QuotaExceeded.
    """
    some = where_all_runs(symbolic)
    written = canonical(some.scop, reassociate=reassociate)
    base = Base(written.scop, written.dependences, nests(written.scop, written.dependences))
    candidates, left_out = candidates_for(base, variants, threads, reassociate=reassociate)
    if reassociate and threads > 1:
        in_parts, too_much = candidates_in_rounds(base)
        candidates, left_out = [*candidates, *in_parts], [*left_out, *too_much]
    if len(candidates) < 2:
        return f"none of the variants is for every size: {'; '.join(left_out) or 'there is none'}"
    compared = _compared(candidates, sizes, machine, threads)
    if isinstance(compared, str):
        return compared
    compared.left_out.update(dict.fromkeys(left_out))
    return _decided(symbolic, compared, reassociate=reassociate, instances=instances)


def _compared(candidates: Sequence[Candidate], sizes: Ranges, machine: Machine, threads: int) -> _Compared | str:
    """The candidates that are among the best somewhere, and the original loops, with their estimates at points over the
    ranges."""
    base = candidates[0].base
    statements = len(base.scop.statements)
    candidates = candidates[: max(4, _ESTIMATED // (2 * _FIRST * statements))]
    points = _worth_comparing(
        size_points(base.scop, base.dependences, base.nests, sizes, _DRAWN, {}, crowded=False), machine
    )
    points = islice(points, _POINTS + _FURTHER)
    first = _Scored.of(islice(points, _FIRST), candidates, machine, threads)
    if len(first.points) < _LEAST_POINTS:
        return f"few sizes with {', '.join(f'{n} = {v[0]}..{v[1]}' for n, v in sizes.items())} are possible"
    best = np.unique(np.argsort(first.seconds, axis=0, kind="stable")[:_BEST])
    kept = [0, *(int(i) for i in best if i != 0)]
    candidates = [candidates[i] for i in kept]
    more = _Scored.of(islice(points, _ESTIMATED // (len(kept) * statements)), candidates, machine, threads)
    # Those that came first have the corners of the ranges: they are no sample to judge with.
    seconds = np.concatenate([first.seconds[kept], more.seconds], axis=1)
    further = len(more.points) * _FURTHER // (_POINTS + _FURTHER)
    return _Compared(candidates, machine, threads, [*first.points, *more.points], further, seconds)


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
    def of(at: Iterable[SizePoint], candidates: Sequence[Candidate], machine: Machine, threads: int) -> _Scored:
        points: list[Mapping[str, int]] = []
        seconds: list[list[float]] = []
        for point in at:
            found = _scores(point, candidates, machine, threads)
            if found is not None:
                points.append(point.scop.sizes)
                seconds.append(found)
        return _Scored(points, np.array(seconds).reshape(len(points), len(candidates)).T)


def _scores(point: SizePoint, candidates: Sequence[Candidate], machine: Machine, threads: int) -> list[float] | None:
    """Estimated seconds of each candidate at a point; None where the program has other nests there."""
    at: dict[int, tuple[SizePoint, Estimator]] = {}
    found: list[float] = []
    for one in candidates:
        key = id(one.base)
        if key not in at:
            there = point if one.base is candidates[0].base else _at(one.base, point)
            if there is None:
                return None
            at[key] = there, Estimator(there.scop, there.nests, machine, threads, TrafficRanker())
        there, estimator = at[key]
        score = estimator.whole(program_tree(parts_at_sizes(there.scop, one.parts, there.nests))).score
        found.append(score * _IN_CACHE if _streams_in_cache(there.scop, one, machine) else score)
    return found


def _streams_in_cache(scop: Scop, one: Candidate, machine: Machine) -> bool:
    streamed = [scop.arrays[name] for part in one.parts if part.rows is not None for name in part.rows.stream]
    return any((a.layout.size or 0) * a.element.bytes <= machine.caches[-1].bytes for a in streamed)


def _at(base: Base, point: SizePoint) -> SizePoint | None:
    """Another form of the program at a point."""
    there = at_sizes(base.scop, {name: point.scop.sizes[name] for name in base.scop.parameters})
    made = nests(there, base.dependences)
    if list(map(named, made)) != list(map(named, base.nests)):
        return None
    return SizePoint(there, made)


def _decided(symbolic: Scop, compared: _Compared, *, reassociate: bool, instances: bool) -> Searched | str:
    """The fewest candidates that are near the best everywhere, and when each is taken. Those that turn out to be
    illegal, or to be too much to check, are left out and the choice is made again."""
    judged = len(compared.points) - compared.further
    alive = list(range(len(compared.candidates)))
    features, values = _features(compared)
    most = _MOST
    while True:
        seconds = compared.seconds[alive]
        losses: FloatArray = np.round(np.log(seconds / seconds.min(axis=0)), 9)
        taking = few(losses[:, :judged], most, _NEAR)
        grown = tree(losses[taking][:, :judged], values[:judged])
        chosen = renumbered(grown, [alive[i] for i in taking])
        broken = {leaf: why for leaf in set(leaves(chosen)) if (why := _written(compared, leaf, symbolic, reassociate))}
        for leaf, why in broken.items():
            compared.left_out[f"{compared.candidates[leaf].recipe.id}: {why}"] = None
            alive = [i for i in alive if i != leaf and not (leaf in compared.hung and _as_hard(compared, i, leaf))]
        if broken:
            continue
        if most > 1 and _characters(compared, chosen) > _MOST_TEXT:
            most -= 1
            continue
        break
    lost = [losses[taking[taken(grown, values[p])], p] for p in range(judged, len(values))]
    gained = [losses[0, p] - losses[taking[taken(grown, values[p])], p] for p in range(len(values))]
    if np.mean(gained) < _GAIN:
        return _reason("the original loops are about as fast by estimate", compared)
    some = where_all_runs(symbolic)
    said = {leaf: _Leaf(leaf, compared) for leaf in set(leaves(chosen))}
    marked = _marked(compared, set(leaves(chosen))) if instances else None
    return Searched(
        generated=dispatched(symbolic, some, _asked(chosen, features, compared.codes)),
        recipes=tuple(compared.candidates[leaf].recipe for leaf in dict.fromkeys(leaves(chosen))),
        loss=math.expm1(float(np.mean(lost))),
        tree=SizeTree(_asked(chosen, features, said), some.values),
        marked=dispatched(symbolic, some, _asked(chosen, features, marked)) if marked else None,
        rewritten=_fused_programs(compared, set(leaves(chosen))) if marked else (),
        left_out=tuple(compared.left_out),
    )


def _reason(text: str, compared: _Compared) -> str:
    return f"{text}; left out: {'; '.join(compared.left_out)}" if compared.left_out else text


def _written(compared: _Compared, leaf: int, symbolic: Scop, reassociate: bool) -> str:
    """Make the code of a candidate; why there is none, or nothing."""
    one = compared.candidates[leaf]
    if leaf in compared.codes:
        return ""
    if one.original:
        compared.codes[leaf] = Generated((), original_text(symbolic))
        return ""
    try:
        with quota("a variant for every size", _STEP):
            why = check(one.base.scop, program_tree(one.parts), one.base.dependences, reassociate=reassociate)
        if why is None:
            compared.codes[leaf] = _of_candidate(one)
    except Hung as error:
        compared.hung.add(leaf)
        why = error.reason
    except QuotaExceeded as error:
        why = error.reason
    return why or ""


def _marked(compared: _Compared, taken: Iterable[int]) -> dict[int, Generated] | None:
    """The C of candidates with marks; None where isl takes too long for them."""
    made = {leaf: compared.codes[leaf] for leaf in taken}
    for leaf in made:
        if not compared.candidates[leaf].original:
            try:
                made[leaf] = _of_candidate(compared.candidates[leaf], instances=True)
            except QuotaExceeded:
                return None
    return made


def _fused_programs(compared: _Compared, taken: Iterable[int]) -> tuple[Scop, ...]:
    bases = (compared.candidates[leaf].base for leaf in taken)
    fused = {id(base): base.scop for base in bases if base is not compared.candidates[0].base}
    return tuple(fused.values())


def _as_hard(compared: _Compared, one: int, other: int) -> bool:
    """Whether the trees of two candidates differ in what rows become at most."""
    first, second = (compared.candidates[i] for i in (one, other))
    if first.base is not second.base or first.original or second.original:
        return False
    hows = ([p.how for p in c.parts if p.how is not None] for c in (first, second))
    return next(hows) == next(hows) != []


def _of_candidate(one: Candidate, *, instances: bool = False) -> Generated:
    """The code of a candidate. Tiles along diagonals keep isl busy for minutes on few counted operations where sizes
    are parameters, so that it is made in a process of its own. Raises QuotaExceeded."""

    def made() -> str:
        code = generate(one.base.scop, program_tree(one.parts), instances=instances, other_sizes=True, operations=_STEP)
        return msgspec.json.encode(code).decode()

    what = f"code of {one.recipe.id} for every size"
    return msgspec.json.decode(in_child(made, what, seconds=_HANG_SECONDS), type=Generated)


def _characters(compared: _Compared, of: Tree) -> int:
    """Length of the C text of all codes of a choice."""
    codes = [compared.codes[leaf] for leaf in set(leaves(of))]
    shared = dict.fromkeys(piece for code in codes for piece in code.prologue)
    return sum(map(len, shared)) + sum(len(code.region) for code in codes)


def _features(compared: _Compared) -> tuple[list[tuple[isl.PwAff, ...]], FloatArray]:
    """What sizes are told apart by: the extent of each loop of which that depends on parameters, and for each
    statement the product of all of these; and (P, F) their values at the points."""
    found: dict[tuple[str, ...], tuple[isl.PwAff, ...]] = {}
    for statement in compared.candidates[0].base.scop.statements:
        own = [extent for extent in extents(statement) if isl.involved_parameters(extent)]
        for group in (*((one,) for one in own), tuple(own)):
            if group:
                found.setdefault(tuple(sorted(map(str, group))), group)
    features = list(found.values())
    at = [isl.parameter_values(point) for point in compared.points]
    values = [[math.prod(_value(extent, point) for extent in group) for group in features] for point in at]
    return features, np.array(values)


def _value(extent: isl.PwAff, point: isl.Set) -> float:
    return float(isl.to_int(extent.intersect_params(point).max_val()))


def _asked(at: Tree, features: Sequence[tuple[isl.PwAff, ...]], codes: Mapping[int, L]) -> Question[L] | L:
    """The code of each candidate, or what is said of it, behind the questions."""
    if isinstance(at, int):
        return codes[at]
    below = (_asked(part, features, codes) for part in (at.small, at.large))
    return Question(features[at.feature], at.limit, *below)
