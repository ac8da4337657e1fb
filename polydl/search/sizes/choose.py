"""Chooses few of many ways to run a program at every size, and when each of them runs.

Ways are compared by their estimates at many sizes. The few that are near the best everywhere stay; a decision tree over
what is asked of the sizes says which of them runs when. Deterministic: nothing here looks at a clock. Times at some
sizes come from outside, as numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from polydl.base.effort import Comparison, Effort
from polydl.base.records import dataclass
from polydl.lower.emit import Generated
from polydl.lower.guarded_pieces import Question
from polydl.model import isl
from polydl.rank.ranker import FloatArray
from polydl.search.sizes.corrected_by_times import closest, moved_by_times
from polydl.search.sizes.dispatch import Tree, answers, few, renumbered, taken, tree

L = TypeVar("L")

_CAUTION = math.log(1.1)
"""By how much a way has to be faster than the original, as a logarithm: corrected estimates err by as much."""

Feature = tuple[isl.PwAff, ...]
"""What sizes are told apart by: { [parameters] -> [n] } extents of loops, which are multiplied."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What ways to run a program are estimated to take at some sizes."""

    seconds: FloatArray
    """(V, P): of each way at each point."""
    features: Sequence[Feature]
    values: FloatArray
    """(P, F): of each feature at each point."""
    judging: int
    """So many points at the end only judge the choice."""

    @property
    def judged(self) -> range:
        """The points that judge."""
        return range(len(self.values) - self.judging, len(self.values))


@dataclass(frozen=True, slots=True)
class TimedAt:
    """What was timed at one of the points."""

    point: int
    seconds: float
    """Of the way that the choice takes there."""
    original: float
    """Of the loops as they are written."""


Timed = Callable[[Sequence[int]], FloatArray]
"""Seconds (V, Q) of ways at some points, NaN where there are none."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which way runs at which sizes."""

    tree: Tree
    """Its features and its ways are those that were compared."""
    losses: FloatArray
    """(P,): of what the tree takes over the best way at each point, as logarithms."""
    judged: range
    """The points that judge."""
    timed: tuple[TimedAt, ...] = ()
    """Where ways were timed, by which the estimates were corrected."""

    @property
    def loss(self) -> float:
        """By how much the choice is slower than the best way for each size, in the mean over sizes that it was not made
        with, or over all where there are no others: 0.02 is 2 %."""
        return math.expm1(float(np.mean(self.losses[self.judged.start :] if self.judged else self.losses)))


def losses(compared: Compared, ways: Sequence[int]) -> FloatArray:
    """(V, P): the logarithm of what ways take over what the best of them takes at each point, in figures that every
    machine's logarithms agree on."""
    seconds = compared.seconds[list(ways)]
    found: FloatArray = np.round(np.log(seconds / seconds.min(axis=0)), 9)
    return found


def choose(compared: Compared, ways: Sequence[int], bound: Comparison, variants: int | None = None) -> Choice:
    """The fewest of some ways that are near the best of them everywhere, and when each is taken. `variants`: how many
    at most, in place of the bound's."""
    lost = losses(compared, ways)
    end = compared.judged.start
    some = few(lost[:, :end], bound.variants if variants is None else variants, bound.near)
    grown = tree(lost[some][:, :end], compared.values[:end])
    taking = [lost[some[taken(grown, values)], p] for p, values in enumerate(compared.values)]
    return Choice(renumbered(grown, [ways[i] for i in some]), np.array(taking), compared.judged)


def choose_by_times(
    compared: Compared,
    before: Choice,
    ways: Sequence[int],
    given: Sequence[int],
    timed: Timed,
    bound: Effort,
    quick: Callable[[int], bool] = lambda point: True,
) -> Choice:
    """The choice among these ways, the first of which is the original, with their estimates corrected by times: at the
    points that are `given`, then at those where the best two are closest and a run is `quick`, `bound.timed` in all;
    and at one for each part of the sizes that another way than the original has then without having been timed there,
    at most as many again. A way that was nowhere faster than the original in time is not taken anywhere.

    The choice before it stays where nothing could be timed.
    """
    estimated = np.log(compared.seconds[list(ways)])
    places = np.log(np.maximum(compared.values, 1.0))
    end = compared.judged.start
    close = closest(estimated[:, :end], places[:end], bound.timed, quick)
    at = list(dict.fromkeys([*given, *close]))[: bound.timed]
    measured = timed(at) if at else np.empty((len(ways), 0))
    known = [q for q in range(len(at)) if np.isfinite(measured[:, q]).all()]
    if not known:
        return before
    moved, grown = _corrected(compared, estimated, places, at, measured, bound)
    if more := _untimed(grown, compared, places, at, quick)[: bound.timed]:
        at, measured = [*at, *more], np.hstack([measured, timed(more)])
        known = [q for q in range(len(at)) if np.isfinite(measured[:, q]).all()]
    gains = np.log(measured[0, known] / measured[:, known]).max(axis=1)
    moved, grown = _corrected(compared, estimated, places, at, measured, bound, gains >= _CAUTION)
    least = np.minimum(moved.min(axis=0), np.log(compared.seconds).min(axis=0))
    taking = [moved[taken(grown, values), p] - least[p] for p, values in enumerate(compared.values)]
    times = tuple(TimedAt(at[q], measured[taken(grown, compared.values[at[q]]), q], measured[0, q]) for q in known)
    return Choice(renumbered(grown, ways), np.array(taking), compared.judged, times)


def _corrected(
    compared: Compared,
    estimated: FloatArray,
    places: FloatArray,
    at: Sequence[int],
    measured: FloatArray,
    bound: Effort,
    faster: npt.NDArray[np.bool_] | None = None,
) -> tuple[FloatArray, Tree]:
    """(V, P) the estimates corrected by times, and the tree over them, which takes the original unless another way is
    faster by `_CAUTION`, and one of those that were `faster` in time, where that is given. What was seen counts for
    more than what is estimated around it."""
    end = compared.judged.start
    moved = moved_by_times(estimated, places, at, measured)
    handicapped = moved.copy()
    handicapped[0] -= _CAUTION
    if faster is not None:
        handicapped[1:][~faster[1:]] = handicapped.max() + 1
    lost = np.round(handicapped - handicapped.min(axis=0), 9)[:, :end]
    known = [p for p, times in zip(at, measured.T, strict=True) if np.isfinite(times).all()]
    seen = np.repeat(known, bound.timed_weight)
    grown = tree(np.hstack([lost, lost[:, seen]]), np.vstack([compared.values[:end], compared.values[seen]]))
    return moved, grown


def _untimed(
    grown: Tree, compared: Compared, places: FloatArray, at: Sequence[int], quick: Callable[[int], bool]
) -> list[int]:
    """A point in the middle of each leaf of a tree, those of most points first, that has another way than the original
    and where nothing was timed."""
    seen = {answers(grown, compared.values[p]) for p in at}
    of: dict[tuple[bool, ...], list[int]] = {}
    for p in range(compared.judged.start):
        where = answers(grown, compared.values[p])
        if where not in seen and taken(grown, compared.values[p]) != 0 and quick(p):
            of.setdefault(where, []).append(p)
    ordered = sorted(of.values(), key=lambda some: -len(some))
    return [sorted(some, key=lambda p: (float(places[p].sum()), p))[len(some) // 2] for some in ordered]


def asked(at: Tree, features: Sequence[Feature], leaves: Mapping[int, L]) -> Question[L] | L:
    """What belongs to each way, behind the questions of a tree."""
    if isinstance(at, int):
        return leaves[at]
    below = (asked(part, features, leaves) for part in (at.small, at.large))
    return Question(features[at.feature], at.limit, *below)


def characters(codes: Iterable[Generated]) -> int:
    """Length of the C of several pieces of code in one file."""
    codes = list(codes)
    shared = dict.fromkeys(piece for code in codes for piece in code.prologue)
    return sum(map(len, shared)) + sum(len(code.region) for code in codes)
