"""Checks that an order of execution respects the dependences, without knowing how the order was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from polydl.base.records import dataclass
from polydl.dependences.analysis import Dependence, Kind
from polydl.model import isl
from polydl.model.isl import quota


@dataclass(frozen=True, slots=True)
class Violation:
    """A dependence that a schedule breaks, with a pair of instances as a counter-example."""

    dependence: Dependence
    source: str
    """isl text of one source instance."""
    target: str
    """isl text of the target instance that would no longer run after it."""
    parallel: bool
    """True: the two may run at the same time; False: they run in the wrong order."""

    def __str__(self) -> str:
        how = "at the same time as" if self.parallel else "no later than"
        return (
            f"{self.dependence.kind.value} dependence on {self.dependence.array}: "
            f"{self.target} would run {how} {self.source}, which it depends on"
        )


def _in_time(dependence: Dependence, schedule: Mapping[str, isl.Map]) -> isl.Map:
    return dependence.relation.apply_domain(schedule[dependence.source]).apply_range(schedule[dependence.target])


@dataclass(frozen=True, slots=True, eq=False)
class InTime:
    """A dependence as pairs of times { t -> t' } of a schedule; what several checks ask is computed once."""

    dependence: Dependence
    schedule: Mapping[str, isl.Map]
    """{ S[i…] -> [t0, …, tn] } per statement."""
    _together: list[isl.Map] = field(default_factory=list, init=False, repr=False)
    _agreed: list[int] = field(default_factory=list, init=False, repr=False)

    def together(self, dims: int) -> isl.Map:
        """The pairs whose first `dims` times agree."""
        if not self._together:
            self._together.append(_in_time(self.dependence, self.schedule))
        while len(self._together) <= dims:
            self._together.append(isl.agree(self._together[-1], [len(self._together) - 1]))
        return self._together[dims]

    @property
    def agreed(self) -> int:
        """How many of the leading times the two ends of every pair have in common."""
        if not self._agreed:
            pairs = self.together(0)
            places = isl.range_arity(pairs)
            self._agreed.append(next((at for at in range(places) if not isl.agrees(pairs, at)), places))
        return self._agreed[0]


def _violation(
    dependence: Dependence, schedule: Mapping[str, isl.Map], broken: isl.Map, *, parallel: bool
) -> Violation:
    pairs = schedule[dependence.source].apply_range(broken).apply_range(schedule[dependence.target].reverse())
    pair = pairs.intersect(dependence.relation).sample()
    return Violation(dependence, instance(pair.domain()), instance(pair.range()), parallel)


def apart_in_time(one: InTime, pairs: isl.Map) -> Violation:
    """Of a dependence with pairs of times { t -> t' }, not empty, that may run at the same time."""
    return _violation(one.dependence, one.schedule, pairs, parallel=True)


def reversed_order(dependence: Dependence) -> Violation:
    """Of a dependence all of whose targets would run before its sources."""
    pair = dependence.relation.sample()
    return Violation(dependence, instance(pair.domain()), instance(pair.range()), parallel=False)


def instance(point: isl.Set | isl.BasicSet) -> str:
    """`S0[1, 2]` from a set with one point."""
    coordinates, _ = isl.sample(point)
    return f"{point.get_tuple_name()}[{', '.join(map(str, coordinates))}]"


def ordering(dependences: Iterable[Dependence], *, reassociate: bool) -> tuple[Dependence, ...]:
    """The dependences whose order must be kept: no RAR, and no reductions whose result is the same in any order, or may
    round otherwise."""
    return tuple(d for d in dependences if d.kind is not Kind.RAR and not d.movable(reassociate=reassociate))


def conflicts(dependences: Iterable[Dependence]) -> tuple[Dependence, ...]:
    """All dependences but those between two reads."""
    return tuple(d for d in dependences if d.kind is not Kind.RAR)


def violation(
    dependences: Iterable[Dependence],
    schedule: Mapping[str, isl.Map],
    *,
    reassociate: bool = True,
) -> Violation | None:
    """The first dependence that a schedule breaks, or None when the schedule is legal.

    `schedule` maps each statement to time, { S[i…] -> [t0, …, tn] }, all of the same length. Instances of equal time
    are unordered. Raises QuotaExceeded.
    """
    return backward(InTime(d, schedule) for d in ordering(dependences, reassociate=reassociate))


def backward(dependences: Iterable[InTime]) -> Violation | None:
    """The first dependence whose target does not run after its source, or None. Raises QuotaExceeded."""
    with quota("the legality check"):
        for one in dependences:
            broken = _backward(one)
            if broken is not None:
                return _violation(one.dependence, one.schedule, broken, parallel=False)
    return None


def each_concurrent(one: InTime, parallel: Iterable[int]) -> Violation | None:
    """A pair of instances of a dependence that one of the `parallel` dimensions, running by itself inside of those
    before it, lets run at the same time; or None. `parallel`: increasing. Raises QuotaExceeded."""
    for dim in parallel:
        with quota("the legality check"):
            for apart in (isl.ascending(one.together(dim), dim), isl.descending(one.together(dim), dim)):
                if not apart.is_empty():
                    return _violation(one.dependence, one.schedule, apart, parallel=True)
    return None


def concurrent(
    dependences: Iterable[Dependence],
    schedule: Mapping[str, isl.Map],
    parallel: Sequence[int],
    *,
    reassociate: bool = True,
    grid: bool = False,
    summed: tuple[int, int] | None = None,
) -> Violation | None:
    """The first dependence between instances that the `parallel` dimensions let run at the same time, or None.

    `schedule`: as in `violation`. `parallel` lists time dimensions that run concurrently, consecutive ones collapsed
    into one; with grid=True sequential ones between them wait for nobody. `summed` is a parallel dimension and the
    length of its blocks: accumulations in different blocks have an accumulator each. Raises QuotaExceeded.
    """
    with quota("the legality check"):
        for dependence in dependences:
            if dependence.kind is Kind.RAR:
                continue
            time = _in_time(dependence, schedule)
            private = summed if dependence.apart(reassociate=reassociate) else None
            if private is not None:
                time = _same_block(time, *private)
            for dim in parallel:
                if private is not None and dim == private[0]:
                    continue  # inside a block one thread runs it in order
                # The pairs that every outer sequential loop leaves together, but this parallel one takes apart.
                outer = range(parallel[0] if grid else dim)
                together = isl.agree(time, (d for d in outer if d not in parallel))
                for apart in (isl.ascending(together, dim), isl.descending(together, dim)):
                    if not apart.is_empty():
                        return _violation(dependence, schedule, apart, parallel=True)
    return None


def _backward(one: InTime) -> isl.Map | None:
    """Pairs of times t -> t' with t' no later than t, or None when there are none.

    One dimension after the other: what an outer loop carries takes no part in the tests for the inner ones.
    """
    length = isl.range_arity(one.together(0))
    for dim in range(length):
        earlier = isl.descending(one.together(dim), dim)
        if not earlier.is_empty():
            return earlier
        if one.together(dim + 1).is_empty():
            return None
    return one.together(length)


def _same_block(pairs: isl.Map, dim: int, length: int) -> isl.Map:
    """The pairs t -> t' with floor(t_dim / length) = floor(t'_dim / length)."""
    block = isl.floor_div(isl.coordinate(pairs.get_space().domain(), dim), length)
    return isl.meet(pairs, block, block)


def block_violation(
    dependences: Iterable[Dependence], schedule: Mapping[str, isl.Map], registers: Mapping[str, isl.Map]
) -> Violation | None:
    """A pair of accumulations into one element that a register block would keep in two accumulators, or None.

    `registers` maps each statement that runs in a microkernel to its accumulator, { S[i…] -> [row, column] }; the
    instances of one call have equal times in `schedule`.
    """
    with quota("the legality check"):
        for dependence in dependences:
            if dependence.kind is Kind.RAR or dependence.source not in registers or dependence.target not in registers:
                continue
            same_call = schedule[dependence.source].apply_range(schedule[dependence.target].reverse())
            same_register = registers[dependence.source].apply_range(registers[dependence.target].reverse())
            broken = dependence.relation.intersect(same_call).subtract(same_register)
            if not broken.is_empty():
                pair = isl.Map.from_basic_map(broken.sample())
                return Violation(dependence, instance(pair.domain()), instance(pair.range()), parallel=True)
    return None


Signs = tuple[int, ...]
"""Direction vector: the sign of target - source, in time, for each loop."""


def sign_vectors(relation: isl.Map, loops: Sequence[int], descending: Sequence[bool]) -> frozenset[Signs]:
    """Exactly the direction vectors that occur in a dependence, over the loops at the given depths.

    Wolf & Lam's direction vectors, decided by emptiness tests instead of per-subscript approximations.
    """
    found: set[Signs] = set()

    def refine(rest: isl.Map, signs: Signs) -> None:
        if rest.is_empty():
            return
        if len(signs) == len(loops):
            found.add(signs)
            return
        d = loops[len(signs)]
        later, earlier = (1, -1) if not descending[len(signs)] else (-1, 1)
        refine(isl.agree(rest, [d]), (*signs, 0))
        refine(isl.ascending(rest, d), (*signs, later))
        refine(isl.descending(rest, d), (*signs, earlier))

    with quota("the direction vectors"):
        refine(relation, ())
    return frozenset(found)
