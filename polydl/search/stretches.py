"""Runs of neighbouring nests that may share loops, and which of them together save the most.

A loop of a nest and one of a neighbour are bound where every dependence between the two has the same value of both
("axis binding" in Li et al., "oneDNN Graph Compiler", CGO 2024, section V, there from the kinds of operators).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from polydl.base.records import dataclass
from polydl.dependences.analysis import Dependence, Kind
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import Nest
from polydl.lower.packed_ahead import derived
from polydl.model import isl
from polydl.model.time import shared_depth
from polydl.schedule.program_tree import starting_from_zero
from polydl.schedule.tree import own_statements
from polydl.search.variant import Variant

_ONCE = "what depends on constants alone is computed once for all runs"
_ONE_SCHEDULE = "they are scheduled together, as one region"

Places = tuple[int, ...]
"""Of parts among those of a variant."""
WhyApart = dict[tuple[str, str], str]
"""By the names of two nests why they share no loops."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring parts of a variant with bound loops."""

    places: Places
    axes: tuple[tuple[int, ...], ...]
    """Of each loop that they may share its position in each part's nest."""


class Apart(Exception):
    """Nests that share no loops; the message says why."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The parts of a variant that may share loops, in runs of which each reads or follows the one before it."""

    base: Variant
    runs: Sequence[Sequence[int]]
    """Places of parts with nothing in between that shares no loops with anything. What runs inside of a microkernel,
    or is done away with by one, is in nobody's way."""
    free: Mapping[int, Sequence[int]]
    """By place the loops that may be shared: with several threads, those that may run in parallel."""
    inside: Mapping[str, set[str]]
    """By the name of a part its statements and those that run inside of its microkernel."""
    bound: dict[tuple[int, int, int], bool] = field(default_factory=dict)
    """By the place of a dependence and two loops whether they have the same value in all of it."""

    @staticmethod
    def of(base: Variant, nests: Mapping[str, Nest], threads: int, apart: WhyApart) -> Neighbours:
        """Those of a variant. What is computed of constants alone, once for all runs, shares nothing; nor does a region
        of several nests."""
        tree = base.tree
        gone = set(starting_from_zero(base.parts).values())
        once = {name for place in derived(base.program, tree).parts for name in own_statements(tree.children[place])}
        inside: dict[str, set[str]] = {}
        for part in base.parts:
            into = part.into.into if part.into is not None else part.name
            inside.setdefault(into, set()).update(s.name for s in part.statements)
        runs: list[list[int]] = [[]]
        free: dict[int, Sequence[int]] = {}
        for place, part in enumerate(base.parts):
            if part.into is not None or part.name in gone:
                continue
            constant = not once.isdisjoint(s.name for s in part.statements)
            if constant:
                apart |= {(part.name, other.name): _ONCE for other in base.parts if other is not part}
            nest = nests.get(part.name)
            region = part.loops is None and (nest is None or part.statements != nest.statements)
            if part.loops is None:
                covered = [nest.name for nest in nests.values() if nest.statements[0] in part.statements]
                for pair in itertools.combinations(covered, 2):
                    apart.setdefault(pair, _ONE_SCHEDULE)
            if constant or nest is None or region:
                runs.append([])
                continue
            runs[-1].append(place)
            free[place] = _free(base, nest, threads)
        return Neighbours(base, runs, free, inside)

    def longest(self, apart: WhyApart) -> Iterator[Stretch]:
        """The longest stretches, from the first part on. To `apart` goes why they end."""
        for run in self.runs:
            start = 0
            while start < len(run):
                found = [*self._from(run[start:], apart)]
                if found:
                    yield found[-1]
                start += len(found) + 1

    def every(self) -> Iterator[Stretch]:
        """All stretches: those from each part to each after it that loops may be shared with."""
        for run in self.runs:
            for start in range(len(run)):
                yield from self._from(run[start:], {})

    def _from(self, run: Sequence[int], apart: WhyApart) -> Iterator[Stretch]:
        """The stretches that begin with the first part of a run, the shortest one first."""
        places = [run[0]]
        axes: list[tuple[int, ...]] = [(loop,) for loop in self.free[run[0]]]
        for place in run[1:]:
            try:
                axes = self._further(places, axes, place)
            except Apart as why:
                apart |= {(self.base.parts[at].name, self.base.parts[place].name): str(why) for at in places}
                return
            if not axes:
                return
            places.append(place)
            yield Stretch(tuple(places), tuple(axes))

    def _further(self, places: Sequence[int], axes: Sequence[tuple[int, ...]], place: int) -> list[tuple[int, ...]]:
        """The axes that a stretch has in common with one more part; none where it reads nothing of the stretch. Raises
        Apart where nothing binds it."""
        parts, name = self.base.parts, self.base.parts[place].name
        between = [
            (at, number)
            for at, other in enumerate(places)
            for number, d in enumerate(self.base.origin.dependences)
            if d.kind is not Kind.RAR and d.source in self.inside[parts[other].name] and d.target in self.inside[name]
        ]
        free = self.free[place]
        beside = -1
        if not any(self.base.origin.dependences[number].kind is Kind.RAW for _, number in between):
            # Nests that stood in the same loops (bands of one triangle) share these, whatever uses their values.
            beside = shared_depth([*parts[places[-1]].statements, *parts[place].statements])
        found: list[tuple[int, ...]] = []
        for axis in axes:
            for loop in free if beside < 0 else (p for p in free if p == axis[-1] < beside):
                if all(one[-1] != loop for one in found) and all(
                    self._bound(number, axis[at], loop) for at, number in between
                ):
                    found.append((*axis, loop))
                    break
        if not found and beside < 0:
            raise Apart(self._unbound(places, axes, place, between))
        return found

    def _unbound(
        self,
        places: Sequence[int],
        axes: Sequence[tuple[int, ...]],
        place: int,
        between: Sequence[tuple[int, int]],
    ) -> str:
        """Why no loop of a part is one with a loop of a stretch before it."""
        first, second = self.base.parts[places[-1]].name, self.base.parts[place].name
        free = self.free[place]
        if not axes or not free:
            return f"no loop of {second if axes else first} runs in parallel"
        for loop in free:
            for at, number in between:
                source = axes[0][at]
                if self._bound(number, source, loop):
                    continue
                d = self.base.origin.dependences[number]
                if source < isl.domain_arity(d.relation) and loop < isl.range_arity(d.relation):
                    ends = isl.coordinates(d.relation.domain())[source], isl.coordinates(d.relation.range())[loop]
                    (a, b) = isl.least_pair(d.relation.subtract(isl.meet(d.relation, *ends)))
                    pair = f"{d.target}{list(b)} needs {d.array} of {d.source}{list(a)}"
                    return f"no loop has the same value in both: {pair} ({d.kind.value})"
        return f"no loop of {second} is that of {first} in every dependence"

    def _bound(self, number: int, source: int, target: int) -> bool:
        """Whether two loops have the same value in all pairs of a dependence."""
        key = number, source, target
        if key not in self.bound:
            self.bound[key] = _same_value(self.base.origin.dependences[number], source, target)
        return self.bound[key]


def most_saved(saved: Mapping[Places, float]) -> list[Places]:
    """Which stretches, by their places, save the most together, each part in one at most: by dynamic programming over
    the parts, from the first to the last. Those that save nothing are left out; of equal ones, the fewest."""
    ends = 1 + max((max(places) for places in saved), default=0)
    best: list[tuple[float, list[Places]]] = [(0.0, [])]
    for end in range(ends):
        found = best[-1]
        for places, seconds in saved.items():
            if max(places) == end:
                before, chosen = best[min(places)]
                if before + seconds > found[0]:
                    found = before + seconds, [*chosen, places]
        best.append(found)
    return best[-1][1]


def _free(base: Variant, nest: Nest, threads: int) -> list[int]:
    if threads == 1:
        return list(range(len(nest.loops)))
    legality = nest_legality(nest, base.origin.dependences, reassociate=base.origin.reassociate)
    parallel = legality.parallel_loops(nest)
    return [place for place, loop in enumerate(nest.loops) if loop in parallel]


def _same_value(d: Dependence, source: int, target: int) -> bool:
    if source >= isl.domain_arity(d.relation) or target >= isl.range_arity(d.relation):
        return False
    return isl.distance(d.relation, source, target) == 0
