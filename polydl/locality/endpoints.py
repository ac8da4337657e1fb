"""Source and targets of dependences in box nests (the first half of Algorithm 1), many variants at once.

Two accesses f and g touch the same element where f(x) = g(x') for every subscript. Iterators that share no subscript
are independent of each other in this, so the relation is a product over groups of iterators, and so are its first
source and its first and last target. Most groups are one iterator that is in no subscript (any value meets any) or
in one with equal coefficients (it meets itself only), and need no search. The others (windows, stencils) are solved
by isl on the loops of the group alone, once for each different arrangement of these loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from enum import Enum

import numpy as np

from polydl.base.records import dataclass
from polydl.locality.boxes import BoolArray, BoxAccess, BoxNest, IntArray, LoopBatch
from polydl.model import isl
from polydl.model.isl import lex_extreme, quota


class Meeting(Enum):
    """Which values of a group of iterators meet across a pair of accesses."""

    ANY = "any"
    ITSELF = "itself"
    SOLVED = "solved"


@dataclass(frozen=True, slots=True)
class Group:
    """Iterators that share subscripts in a pair of accesses."""

    iterators: tuple[int, ...]
    dimensions: tuple[int, ...]
    """Array dimensions whose subscripts they are in."""
    meeting: Meeting


@dataclass(frozen=True, slots=True)
class Ends:
    """Source and targets on the loops of one group; `differs` says where source and a target can differ."""

    source: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    differs: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Carried:
    """Dependences of one pair of accesses in the R of V variants in which the loop at `depth` carries one."""

    depth: int
    variant: IntArray
    """(R,)"""
    source: IntArray
    """(R, D) counters of the loops."""
    first: IntArray
    """(R, D) of the first target."""
    last: IntArray
    """(R, D) of the last target."""
    differs: BoolArray
    """(R, D): source and some target of the restricted relation differ there."""


def groups(nest: BoxNest, source: BoxAccess, target: BoxAccess) -> tuple[Group, ...] | None:
    """The groups of a pair of accesses of one array; None when two constant subscripts can never be equal."""
    owner = list(range(len(nest.iterators)))
    members: list[list[int]] = []
    for one, other in zip(source.rows, target.rows, strict=True):
        members.append([i for i in owner if one[i] or other[i]])
    labels = list(owner)
    for joined in members:
        for i in joined:
            old, new = labels[i], labels[joined[0]]
            labels = [new if label == old else label for label in labels]
    for dimension, joined in enumerate(members):
        if not joined and source.offsets[dimension] != target.offsets[dimension]:
            return None
    found = []
    for label in dict.fromkeys(labels):
        iterators = tuple(i for i in owner if labels[i] == label)
        dimensions = tuple(d for d, joined in enumerate(members) if joined and labels[joined[0]] == label)
        if not dimensions:
            meeting = Meeting.ANY
        elif len(iterators) == 1 and all(
            source.rows[d] == target.rows[d] and source.offsets[d] == target.offsets[d] for d in dimensions
        ):
            meeting = Meeting.ITSELF
        else:
            meeting = Meeting.SOLVED
        found.append(Group(iterators, dimensions, meeting))
    return tuple(found)


_Key = tuple[tuple[tuple[int, int], ...], tuple[int, ...], int, bool]
"""Loops of the group as (iterator, span), block of each iterator, number of equal outer loops, next one carries."""


@dataclass
class PairSolver:
    """Finds the ends of the dependences of one pair of accesses."""

    nest: BoxNest
    source: BoxAccess
    target: BoxAccess
    _solved: dict[tuple[int, _Key], Ends | None] = field(default_factory=dict)

    def carried(self, batch: LoopBatch) -> Iterator[Carried]:
        """For each depth, the variants where that loop carries a dependence of the pair, with its ends."""
        parts = groups(self.nest, self.source, self.target)
        if parts is None:
            return
        loops = [_GroupLoops(batch, part) for part in parts]
        for depth in range(batch.depth):
            for carrier in loops:
                if carrier.group.meeting is Meeting.ITSELF:
                    continue
                chosen = np.flatnonzero((batch.trip[:, depth] > 1) & carrier.member[:, depth])
                if len(chosen):
                    found = self._at(batch, loops, carrier, depth, chosen)
                    if len(found.variant):
                        yield found

    def _at(
        self, batch: LoopBatch, loops: list[_GroupLoops], carrier: _GroupLoops, depth: int, chosen: IntArray
    ) -> Carried:
        shape = (len(chosen), batch.depth)
        ends = [np.zeros(shape, dtype=np.int64) for _ in range(3)]
        differs = np.zeros(shape, dtype=np.bool_)
        exists = np.ones(len(chosen), dtype=np.bool_)
        for part in loops:
            if part.group.meeting is Meeting.ANY:
                self._free(batch, part, depth, chosen, part is carrier, ends, differs)
            elif part.group.meeting is Meeting.SOLVED:
                exists &= self._search(part, depth, chosen, part is carrier, ends, differs)
        source, first, last = (end[exists] for end in ends)
        return Carried(depth, chosen[exists], source, first, last, differs[exists])

    @staticmethod
    def _free(
        batch: LoopBatch,
        part: _GroupLoops,
        depth: int,
        chosen: IntArray,
        carries: bool,
        ends: list[IntArray],
        differs: BoolArray,
    ) -> None:
        """Source 0; first target 0, or 1 in the carrying loop; last target the last of the loops inside."""
        (iterator,) = part.group.iterators
        left = batch.cover[chosen, depth, iterator]
        for d in range(depth, batch.depth):
            member = part.member[chosen, d] & (carries or d > depth)
            span = batch.span[chosen, d]
            counter = np.where(member, (left - 1) // span, 0)
            ends[2][:, d] += counter
            differs[:, d] |= member & (batch.trip[chosen, d] > 1)
            left = np.where(member, np.minimum(span, left - counter * span), left)
        if carries:
            ends[1][:, depth] += 1

    def _search(
        self,
        part: _GroupLoops,
        depth: int,
        chosen: IntArray,
        carries: bool,
        ends: list[IntArray],
        differs: BoolArray,
    ) -> BoolArray:
        """Ends of a group with windows or offsets, by isl for each different arrangement of its loops."""
        outer = (part.member[chosen, :depth] & (part.trip[chosen, :depth] > 1)).sum(axis=1)
        cases, inverse = np.unique(np.stack([part.arrangement[chosen], outer], axis=1), axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        exists = np.zeros(len(chosen), dtype=np.bool_)
        for case, (arrangement, equal) in enumerate(cases.tolist()):
            spans, block = part.arrangements[arrangement]
            solution = self._solve(part.group, (spans, block, equal, carries))
            if solution is None:
                continue
            rows = np.flatnonzero(inverse == case)
            exists[rows] = True
            for position in range(len(spans)):
                where = rows, part.depths[chosen[rows], position]
                for end, values in zip(ends, (solution.source, solution.first, solution.last), strict=True):
                    end[where] = values[position]
                differs[where] = solution.differs[position]
        return exists

    def _solve(self, group: Group, key: _Key) -> Ends | None:
        known = (self._index(group), key)
        if known not in self._solved:
            with quota(f"the dependences on {self.source.array}"):
                self._solved[known] = self._solve_with_isl(group, key)
        return self._solved[known]

    @staticmethod
    def _index(group: Group) -> int:
        return group.iterators[0]

    def _solve_with_isl(self, group: Group, key: _Key) -> Ends | None:
        loops, block, equal, carries = key
        places = isl.BasicSet.universe(isl.unnamed_space(len(loops) + len(group.iterators)))
        values: list[dict[int, int]] = []
        for number, iterator in enumerate(group.iterators):
            own = [(position, span) for position, (index, span) in enumerate(loops) if index == iterator]
            inside = [*own, (len(loops) + number, 1)]
            values.append(dict(inside))
            limits = [self.nest.extents[iterator], *(span for _, span in own)]
            limits[-1] = min(limits[-1], block[number])
            for level, (position, _) in enumerate(inside):
                places = isl.not_negative(places, {position: 1})
                rest = {other: -span for other, span in inside[level:]}
                places = isl.not_negative(places, rest, limits[level] - 1)
        pairs = isl.Map.from_domain_and_range(places.to_set(), places.to_set())
        for dimension in group.dimensions:
            source, target = (
                isl.linear(
                    places.get_space(),
                    {
                        position: access.rows[dimension][iterator] * span
                        for value, iterator in zip(values, group.iterators, strict=True)
                        for position, span in value.items()
                    },
                    access.offsets[dimension],
                )
                for access in (self.source, self.target)
            )
            pairs = isl.meet(pairs, source, target)
        pairs = isl.agree(pairs, range(equal))
        if carries:
            pairs = isl.ascending(pairs, equal)
        pairs = isl.range_onto(isl.domain_onto(pairs, range(len(loops))), range(len(loops)))
        if pairs.is_empty():
            return None
        first = lex_extreme(pairs.domain())
        targets = isl.fix_domain(pairs, first).range()
        differs = tuple(not isl.agrees(pairs, position) for position in range(len(loops)))
        return Ends(first, lex_extreme(targets), lex_extreme(targets, greatest=True), differs)


class _GroupLoops:
    """Where the loops of a group are in each variant, and their different arrangements."""

    def __init__(self, batch: LoopBatch, group: Group) -> None:
        self.group = group
        self.trip = batch.trip
        self.member: BoolArray = np.isin(batch.iterator, group.iterators)
        if group.meeting is not Meeting.SOLVED:
            return
        running = self.member & (batch.trip > 1)
        self.depths: IntArray = np.argsort(~running, axis=1, kind="stable")
        """(V, D): depths of the group's loops that run more than once, outermost first, then the others."""
        number = running.sum(axis=1)
        used = np.arange(batch.depth) < number[:, None]
        ordered = np.take_along_axis(batch.iterator, self.depths, axis=1)
        spans = np.take_along_axis(batch.span, self.depths, axis=1)
        block = batch.cover[:, batch.depth, list(group.iterators)]
        keys = np.concatenate([np.where(used, ordered, -1), np.where(used, spans, 0), block], axis=1)
        cases, inverse = np.unique(keys, axis=0, return_inverse=True)
        self.arrangement: IntArray = inverse.reshape(-1)
        """(V,): which of `arrangements` a variant has."""
        self.arrangements: list[tuple[tuple[tuple[int, int], ...], tuple[int, ...]]] = []
        for case in cases.tolist():
            iterators, sizes = case[: batch.depth], case[batch.depth : 2 * batch.depth]
            loops = tuple((i, s) for i, s in zip(iterators, sizes, strict=True) if i >= 0)
            self.arrangements.append((loops, tuple(case[2 * batch.depth :])))
