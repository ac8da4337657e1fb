"""Misses of fully associative LRU caches, exactly and without running over the accesses.

After Gysi, Grosser, Brandner, Hoefler (HayStack): A Fast Analytical Model of Fully Associative Caches, PLDI 2019,
sections 3 and 4. An access misses a cache of C lines if its line was never touched before (compulsory), or if more than
C distinct lines were touched since, this one included (capacity). The last touch of the same line is the lexicographic
maximum of those before; the lines touched since are an isl relation from times to lines, whose targets are counted as a
polynomial of the time; the misses are the times at which it is above C.

Two departures. HayStack counts with barvinok; here the polynomials are those of `polydl.model.parametric_counting`. And
before any last touch is looked for, the outermost loop is found one iteration of which touches no more lines than the
cache has: whatever is touched again within such an iteration hits. That leaves the few accesses that come to a line
first.

The time that this takes depends on the loops and subscripts, not on the sizes, where the polynomials are affine in the
loops: nests whose loops have constant bounds (tiled and permuted ones, stencils), and triangles as far as reuse across
whole triangles is decided by affine counts. Of others the values of a loop are taken one by one up to a budget; beyond
that, and where no polynomial is found or a quota ends, the result has bounds (`Count.exact`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from polydl.base.errors import QuotaExceeded
from polydl.base.records import dataclass
from polydl.locality.exact import carried_by
from polydl.locality.lines import LineTrace
from polydl.locality.simulate import MOST_ACCESSES, Cache, Simulated, simulate
from polydl.model import isl
from polydl.model.counting import ZERO, Count, count, count_above, count_fibres, total
from polydl.model.isl import DEFAULT_QUOTA, quota
from polydl.model.parametric_counting import NotClosedForm

MOST_VALUES = 1000
"""Values of a loop that one count of misses takes one by one, at most: each takes about a millisecond."""


@dataclass(frozen=True, slots=True)
class AccessMisses:
    """Of one access of a nest."""

    accesses: Count
    compulsory: Count
    """Lines that nothing touched before."""
    capacity: tuple[Count, ...]
    """Of each cache: lines that were touched before, and have left it since."""


def misses(trace: LineTrace, lines: Sequence[int], operations: int = DEFAULT_QUOTA) -> tuple[AccessMisses, ...]:
    """The misses of each access in fully associative LRU caches of so many lines, which begin empty.

    As `analytic`; where that has bounds and there are at most `simulate.MOST_ACCESSES` accesses, they are counted one
    by one. Raises ValueError as `analytic` does.
    """
    found = analytic(trace, lines, operations)
    inexact = any(not size.exact for one in found for size in (one.compulsory, *one.capacity))
    if not inexact or total(one.accesses for one in found).upper > MOST_ACCESSES:
        return found
    return of_simulation(simulate(trace, [Cache(1, size) for size in lines]))


def of_simulation(run: Simulated) -> tuple[AccessMisses, ...]:
    """The same numbers from a simulation."""
    return tuple(
        AccessMisses(Count.of(int(every)), Count.of(int(first)), tuple(Count.of(int(one)) for one in others))
        for every, first, *others in zip(run.accesses, run.compulsory, *run.others, strict=True)
    )


def analytic(
    trace: LineTrace, lines: Sequence[int], operations: int = DEFAULT_QUOTA, budget: int = MOST_VALUES
) -> tuple[AccessMisses, ...]:
    """The misses of each access in fully associative LRU caches of so many lines, which begin empty.

    `operations` bounds each step of isl, `budget` the values of a loop that are taken one by one. Raises ValueError for
    a nest with parameters, or whose accesses touch several elements at a time.
    """
    for access in trace.accesses:
        if isl.involved_parameters(access.relation.domain()):
            raise ValueError(f"the misses depend on parameters: {access.relation.get_space()}")
        if not access.relation.is_single_valued():
            raise ValueError(f"{access.statement} touches several elements of {access.array} at a time")
    work = _Work(trace, tuple(lines), operations, budget)
    return tuple(work.of_access(number) for number in range(len(trace.accesses)))


@dataclass(slots=True)
class _Work:
    trace: LineTrace
    lines: tuple[int, ...]
    operations: int
    budget: int
    holds: list[int] = field(init=False)
    """Of each cache: the least number of outer loops with which fixed all lines touched fit; depth + 1 where not even
    those of one time do."""
    merged: dict[str, list[tuple[isl.Map, int]]] = field(init=False)
    """Of each array its different relations, each with the last access that has it."""
    _touched: dict[tuple[str, int, bool], isl.Map] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.merged = {}
        for number, access in enumerate(self.trace.accesses):
            known = self.merged.setdefault(access.array, [])
            known[:] = [one for one in known if not one[0].plain_is_equal(access.relation)]
            known.append((access.relation, number))
        self.holds = self._holds()

    def _holds(self) -> list[int]:
        found = [self.trace.depth + 1] * len(self.lines)
        for depth in range(self.trace.depth, -1, -1):
            try:
                with quota("the lines touched by loops", self.operations):
                    sizes = [
                        count_fibres(_union([isl.domain_onto(one, range(depth)) for one, _ in relations]))
                        for relations in self.merged.values()
                    ]
                    size = _added(sizes)
            except (QuotaExceeded, NotClosedForm):
                break
            fits = [count_above(size, lines, self.budget).upper == 0 for lines in self.lines]
            found = [depth if fit and at == depth + 1 else at for fit, at in zip(fits, found, strict=True)]
            if not any(fits):
                break
        return found

    def of_access(self, number: int) -> AccessMisses:
        """All that is known of one access."""
        domain = self.trace.accesses[number].relation.domain()
        accesses = count(domain, self.operations)
        nothing = tuple(ZERO for _ in self.lines)
        inner = max(self.holds, default=self.trace.depth + 1)
        try:
            with quota("the first touches of lines", self.operations):
                first = domain.subtract(self._again(number, inner)).coalesce() if inner <= self.trace.depth else domain
        except QuotaExceeded:
            anything = Count(0, accesses.upper)
            return AccessMisses(accesses, anything, tuple(anything for _ in self.lines))
        capacity = list(nothing)
        for depth in range(min(inner - 1, self.trace.depth), -1, -1):
            if first.is_empty():
                break
            at_stake = [level for level, holds in enumerate(self.holds) if depth < holds]
            try:
                with quota("the last touches of lines", self.operations):
                    reuses = list(self._last_touches(number, depth, first))
                    for last, _ in reuses:
                        first = first.subtract(last.domain())
                    first = first.coalesce()
            except (QuotaExceeded, isl.Error):
                # Everything that is left may be a first touch, a hit or a miss.
                left = Count(0, count(first, self.operations).upper)
                return AccessMisses(accesses, left, tuple(one + left for one in capacity))
            for last, source in reuses:
                for level, missed in zip(at_stake, self._far(number, source, depth, last, at_stake), strict=True):
                    capacity[level] += missed
        return AccessMisses(accesses, count(first, self.operations), tuple(capacity))

    def _again(self, number: int, inner: int) -> isl.Set:
        """The times at which the line of an access was touched before, with the same `inner` outer loops."""
        own = self.trace.accesses[number]
        space = own.relation.get_space().domain()
        earlier = isl.Map.lex_gt(space)
        found = isl.Set.empty(space)
        for relation, last in self.merged[own.array]:
            same = own.relation.apply_range(relation.reverse())
            if last >= number:
                same = isl.agree(same, range(inner))
                reached = same.intersect(earlier).domain()
            else:
                reached = isl.agree(same, range(inner)).intersect(isl.Map.lex_ge(space)).domain()
            found = found.union(reached)
        for other in self.trace.accesses[:number]:
            if other.array == own.array:
                found = found.union(_at_once(own.relation, other.relation))
        return found.coalesce()

    def _last_touches(self, number: int, depth: int, times: isl.Set) -> Iterator[tuple[isl.Map, int]]:
        """{ time -> last touch of the line } for touches before that have the same `depth` outer loops and not the one
        inside of them, and which access that is. With all loops: other accesses of the same time."""
        own = self.trace.accesses[number]
        if depth == self.trace.depth:
            for source in reversed(range(number)):
                other = self.trace.accesses[source]
                if other.array != own.array:
                    continue
                here = _at_once(own.relation, other.relation).intersect(times)
                if not here.is_empty():
                    yield isl.Map.identity(here.get_space().map_from_set()).intersect_domain(here), source
                    times = times.subtract(here)
            return
        space = times.get_space()
        before = carried_by(space, depth).reverse()
        touches = []
        for relation, source in self.merged[own.array]:
            same = own.relation.intersect_domain(times).apply_range(relation.reverse()).intersect(before)
            if not same.is_empty():
                touches.append((same, source))
        if len(touches) == 1:
            yield touches[0][0].lexmax().coalesce(), touches[0][1]
            return
        numbered = [same.flat_range_product(_to_number(same.domain(), source)) for same, source in touches]
        if not numbered:
            return
        latest = _union(numbered).lexmax()
        for _, source in touches:
            found = isl.range_onto(isl.fix_range(latest, self.trace.depth, source), range(self.trace.depth))
            if not found.is_empty():
                yield found.coalesce(), source

    def _far(self, number: int, source: int, depth: int, last: isl.Map, levels: Sequence[int]) -> list[Count]:
        """Of accesses whose line was last touched by `source`, as `last` says: how many miss, of each cache."""
        sizes, whole = [], True
        for array in self.merged:
            try:
                with quota("the lines touched between two touches", self.operations):
                    sizes.append(count_fibres(self._between(array, number, source, depth, last)))
            except (QuotaExceeded, NotClosedForm, isl.Error):
                whole = False
        every = count(last.domain(), self.operations).upper
        try:
            with quota("the times at which a line has left", self.operations):
                distance = _added(sizes) if sizes else None
                found = [
                    ZERO if distance is None else count_above(distance, self.lines[i], self.budget) for i in levels
                ]
        except QuotaExceeded:
            return [Count(0, every) for _ in levels]
        # Lines of the arrays that could not be counted come to those that could.
        return found if whole else [Count(one.lower, every) for one in found]

    def _between(self, array: str, number: int, source: int, depth: int, last: isl.Map) -> isl.Map:
        """{ time -> lines of an array } touched from the last touch, included, to the time, excluded."""
        accesses = self.trace.accesses
        window = []
        if depth == self.trace.depth:
            ends = range(source, number)
            window += [
                a.relation.intersect_domain(last.domain()) for a in (accesses[i] for i in ends) if a.array == array
            ]
            return _union(window or [isl.Map.empty(last.get_space())])
        window += [last.apply_range(a.relation) for a in accesses[source:] if a.array == array]
        window += [a.relation.intersect_domain(last.domain()) for a in accesses[:number] if a.array == array]
        window.append(last.apply_range(self._rest(array, depth, after=True)))
        window.append(self._rest(array, depth, after=False).intersect_domain(last.domain()))
        space = last.get_space().domain()
        carried = carried_by(space, depth)
        whole = last.apply_range(carried).intersect(carried.reverse())
        if not whole.is_empty():
            window += [whole.apply_range(relation) for relation, _ in self.merged[array]]
        return _union([one for one in window if not one.is_empty()] or [isl.Map.empty(last.get_space())])

    def _rest(self, array: str, depth: int, *, after: bool) -> isl.Map:
        """{ time -> lines } touched later, or earlier, with the same values of the loops up to number `depth`."""
        key = array, depth, after
        if key not in self._touched:
            found = []
            for relation, _ in self.merged[array]:
                space = relation.get_space().domain()
                for inner in range(depth + 1, self.trace.depth):
                    then = carried_by(space, inner)
                    found.append((then if after else then.reverse()).apply_range(relation))
                if depth + 1 >= self.trace.depth:
                    found.append(isl.Map.empty(relation.get_space()))
            self._touched[key] = _union(found)
        return self._touched[key]


def _union(maps: Sequence[isl.Map]) -> isl.Map:
    result = maps[0]
    for one in maps[1:]:
        result = result.union(one)
    return result.coalesce()


def _added(sizes: Sequence[isl.PwQPolynomial]) -> isl.PwQPolynomial:
    result = sizes[0]
    for one in sizes[1:]:
        result = result.add(one)
    return result.coalesce()


def _at_once(one: isl.Map, other: isl.Map) -> isl.Set:
    """The times at which two relations lead to the same line."""
    return one.intersect(other).domain()


def _to_number(of: isl.Set, number: int) -> isl.Map:
    return isl.Map.from_aff(isl.constant(of, number))
