"""Estimates of the variants of one program: the model's, with what a ranker says of the nests that it knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property

import numpy as np

from polydl.base.records import dataclass
from polydl.dependences.equal_nests import arrays_of, first_equal
from polydl.dependences.nests import Nest
from polydl.model.scop import Scop
from polydl.rank.estimate import Estimate
from polydl.rank.ranker import Ranker
from polydl.rank.rankers import of_contractions
from polydl.rank.traffic import TrafficRanker, estimates_of
from polydl.rank.tree_estimate import Far, footprints_of, tree_estimate
from polydl.rank.whole import (
    Known,
    distances,
    handed_over,
    known_of,
    part_estimate,
    program_estimate,
    reached,
    tree_estimator,
)
from polydl.schedule.loops import LoopTransform, NestLoops
from polydl.schedule.ordered import Ordered
from polydl.schedule.tree import Sequence as InOrder
from polydl.target import Machine


@dataclass(frozen=True, slots=True)
class _Estimated:
    """The estimates of structures of a nest."""

    around: tuple[tuple[object, ...], ...]
    """Per array of the nest what they take from what runs around it."""
    of: list[tuple[LoopTransform, ...]]
    """Per structure how it is made."""
    estimates: list[Estimate]


@dataclass(frozen=True)
class Estimator:
    """Estimates for one program, machine and number of threads.

    Scores are seconds, whoever orders. A ranker that predicts seconds corrects the estimate of a nest's structures to
    its own; of one whose scores have no unit, the order is kept: its best gets the least seconds that the model
    predicts for any of them, and so on. Schedule trees, rows and what is fused have the model's estimate, and so has a
    nest without a contraction unless the ranker knows all nests. Where a ranker finds structures equal, the model's
    estimate decides.
    """

    scop: Scop
    nests: Sequence[Nest]
    """All of the program's, in their order."""
    machine: Machine
    threads: int
    ranker: Ranker
    equal: Mapping[str, str] | None = None
    """By the name of each nest that of the first one that is equal to it; None: this is found out."""
    _estimated: dict[str, list[_Estimated]] = field(init=False, repr=False, compare=False, default_factory=dict)
    """By the name of the first of equal nests what was estimated for any of them."""

    @cached_property
    def _far(self) -> dict[str, Far]:
        parts = [nest.statements for nest in self.nests]
        return dict(
            zip((n.name for n in self.nests), distances(self.scop, parts, self.machine, self._known), strict=True)
        )

    @cached_property
    def _handed(self) -> dict[str, Estimate]:
        parts = [nest.statements for nest in self.nests]
        found = handed_over(self.scop, parts, self.machine, self.threads, self._known)
        return dict(zip((n.name for n in self.nests), found, strict=True))

    @cached_property
    def _first_equal(self) -> Mapping[str, Nest]:
        if self.equal is None:
            return first_equal(self.scop, self.nests)
        own = {nest.name: nest for nest in self.nests}
        return {name: own[first] for name, first in self.equal.items()}

    @cached_property
    def _known(self) -> Known:
        return known_of(self.nests, self._first_equal)

    def structures(self, nest: Nest, made: Sequence[NestLoops]) -> list[Estimate]:
        """Of structures of one nest. Raises QuotaExceeded where the ranker's exact analysis takes too long."""
        return self._with_order(nest, made)[0]

    def best_first(self, nest: Nest, made: Sequence[NestLoops]) -> list[tuple[NestLoops, Estimate]]:
        """Structures of one nest in the order of their scores; where these are equal, in the ranker's. Raises as
        `structures` does."""
        found, order = self._with_order(nest, made)
        return [(made[i], found[i]) for i in sorted(order, key=lambda i: found[i].score)]

    def _with_order(self, nest: Nest, made: Sequence[NestLoops]) -> tuple[list[Estimate], Sequence[int]]:
        found, order = self._by_itself(nest, made)
        handed = self._handed[nest.name]
        return [one + handed for one in found] if handed.seconds else found, order

    def _by_itself(self, nest: Nest, made: Sequence[NestLoops]) -> tuple[list[Estimate], Sequence[int]]:
        """Without what the nest waits for other nests (`handed_over`)."""
        model = self._model(nest, made)
        asked = nest.contraction is not None or not of_contractions(self.ranker)
        if isinstance(self.ranker, TrafficRanker) or not made or not asked:
            return model, range(len(made))
        said = self.ranker.rank(self.scop, nest, made, self.machine, self.threads)
        order = [int(i) for i in np.lexsort((np.array([one.score for one in model]), said.scores))]
        scores = said.scores if said.seconds else _dealt(order, [one.score for one in model])
        columns = {**said.columns, f"{self.ranker.name}_score": said.scores}
        corrected = [
            one.corrected(float(scores[i]), {name: float(column[i]) for name, column in columns.items()})
            for i, one in enumerate(model)
        ]
        return corrected, order

    def _model(self, nest: Nest, made: Sequence[NestLoops]) -> list[Estimate]:
        """What the model says, of equal nests with equal structures and equal traffic around them once."""
        far = self._far[nest.name]
        around = tuple(reached(far, array, self.machine) for array in arrays_of(nest))
        known = self._estimated.setdefault(self._first_equal[nest.name].name, [])
        for one in known:
            if one.around == around and one.of == [structure.transforms for structure in made]:
                return one.estimates
        found = estimates_of(self.scop, nest, made, self.machine, self.threads, far).each()
        known.append(_Estimated(around, [structure.transforms for structure in made], found))
        return found

    def orders(self, nest: Nest, made: Sequence[Ordered]) -> list[Estimate]:
        """Of orders of one nest, each from its tree where some are in rows. Raises as `structures` does."""
        if not any(one.rows for one in made):
            return self.structures(nest, [one.loops for one in made if one.loops is not None])
        footprints, far = footprints_of(self.scop, nest.statements), self._far[nest.name]
        handed = self._handed[nest.name]
        return [tree_estimate(footprints, one.tree, self.machine, self.threads, far) + handed for one in made]

    def part(self, made: Ordered) -> Estimate:
        """Of one part of a variant. Raises QuotaExceeded."""
        if made.loops is not None:
            return self.orders(made.loops.nest, [made])[0]
        names = {statement.name for statement in made.statements}
        together = [nest for nest in self.nests if nest.name in names]
        of = tree_estimator(self.scop, self.nests, together, self.machine, self.threads, self._known)
        return of.estimates([of.prepared(made.tree)])[0]

    def alone(self, made: Ordered) -> Estimate:
        """Of one part that runs by itself, again and again."""
        return part_estimate(self.scop, made.statements, made.tree, self.machine, self.threads, {}, self._known)

    def whole(self, tree: InOrder, base: Estimate | None = None) -> Estimate:
        """Of a whole program, with what a ranker corrected in the one that it was made from."""
        found = program_estimate(self.scop, tree, self.machine, self.threads, self._known)
        return found if base is None else found.corrected_as(base)


def _dealt(order: Sequence[int], seconds: Sequence[float]) -> Sequence[float]:
    """The seconds dealt out anew: the least to the first of the order, and so on."""
    result = [0.0] * len(seconds)
    for place, least in zip(order, sorted(seconds), strict=True):
        result[place] = least
    return result
