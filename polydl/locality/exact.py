"""Working sets of a loop nest, exactly (Algorithm 1 of PolyDL, Tavarageri et al., TACO 2021, section 4).

For each pair of accesses of one array and each loop, the dependence relation is restricted to the pairs of times
that this loop carries. Its source is the first time that has a target, its targets the first and the last time that
depend on this source; the working set is what the nest touches from the source through the target, both included:
what a cache must hold for the data to be still there. A dependence between different iterations of a parallel loop
takes the footprint of the whole parallel loop instead, with the loops outside it fixed at the source: its iterations
run at the same time, so that there is no 'between'. (The authors' program estimates that footprint from the first
and last iteration; here it is exact.)
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.counting import Count, count, total
from polydl.model.isl import DEFAULT_QUOTA, lex_extreme, quota
from polydl.model.nest import TimedAccess, TimedNest


class Kind(Enum):
    """Which of source and target read and write."""

    RAW = "RAW"
    WAR = "WAR"
    WAW = "WAW"
    RAR = "RAR"

    @classmethod
    def of(cls, source_writes: bool, target_writes: bool) -> Kind:
        if source_writes:
            return cls.WAW if target_writes else cls.RAW
        return cls.WAR if target_writes else cls.RAR


@dataclass(frozen=True, slots=True)
class ArrayFootprint:
    """How many distinct elements of one array are touched."""

    array: str
    elements: Count
    element_bytes: int

    @property
    def bytes(self) -> Count:
        return self.elements * self.element_bytes


@dataclass(frozen=True, slots=True)
class Footprint:
    """Distinct elements touched, array by array; arrays that are not touched are left out."""

    arrays: tuple[ArrayFootprint, ...]

    @property
    def elements(self) -> Count:
        return total(part.elements for part in self.arrays)

    @property
    def bytes(self) -> Count:
        return total(part.bytes for part in self.arrays)


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """The data touched between a use of an element and a later one (Algorithm 1)."""

    kind: Kind
    array: str
    source_statement: str
    target_statement: str
    carried_by: str
    """The loop that carries the dependence: the outermost whose iterations differ between source and target."""
    min_footprint: Footprint
    """Touched from the source through its first target."""
    max_footprint: Footprint
    """Touched from the source through its last target."""
    spans_parallel: str | None = None
    """The parallel loop whose whole footprint stands for both sizes; None when there is none."""

    @property
    def min(self) -> Count:
        """Elements."""
        return self.min_footprint.elements

    @property
    def max(self) -> Count:
        """Elements."""
        return self.max_footprint.elements


Time = tuple[int, ...]


def working_sets(nest: TimedNest, operations: int = DEFAULT_QUOTA) -> tuple[WorkingSet, ...]:
    """Algorithm 1: one working set for each pair of accesses and each loop that carries a dependence between them.

    Order: pairs in the order of `nest.accesses` (source first), then loops from the outermost. Times at which
    nothing happens do not count; several statements at one time all count.

    Raises ValueError when the nest has parameters left (see `polydl.locality.symbolic`), QuotaExceeded when an isl
    operation takes more than `operations`.
    """
    if isl.involved_parameters(nest.domain):
        raise ValueError(f"the working sets depend on parameters: {nest.domain.get_space()}")
    analysis = _Analysis(nest, operations)
    found = []
    for source in nest.accesses:
        for target in nest.accesses:
            if source.array != target.array:
                continue
            kind = Kind.of(source.write, target.write)
            for dependence in analysis.dependences(source, target):
                low, high, spanned = analysis.sizes(dependence)
                found.append(
                    WorkingSet(
                        kind,
                        source.array,
                        source.statement,
                        target.statement,
                        nest.loops[dependence.loop],
                        low,
                        high,
                        None if spanned is None else nest.loops[spanned],
                    )
                )
    return tuple(found)


def footprint(nest: TimedNest, prefix: Time = (), operations: int = DEFAULT_QUOTA) -> Footprint:
    """What the nest touches while its outermost len(prefix) loops stand at `prefix`; all of it by default."""
    return _Analysis(nest, operations).touched([_Piece(prefix, None)])


@dataclass(frozen=True, slots=True)
class _Carried:
    """A dependence restricted to one carrying loop."""

    loop: int
    source: Time
    first: Time
    last: Time
    parallel: int | None
    """Outermost parallel loop in which source and target may differ."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Times with a given prefix, and the coordinate after it within bounds (None: no bound on that side)."""

    prefix: Time
    bounds: tuple[int | None, int | None] | None


class _Analysis:
    """The isl objects of one nest, and what was found so far (many accesses share their relation)."""

    def __init__(self, nest: TimedNest, operations: int) -> None:
        self.nest = nest
        self.operations = operations
        self.depth = len(nest.loops)
        self.parallel = [i for i, loop in enumerate(nest.loops) if loop in nest.parallel]
        self._relations: list[isl.Map] = []
        self._index: dict[int, int] = {}
        self._dependences: dict[tuple[int, int], tuple[_Carried, ...]] = {}
        self._footprints: dict[tuple[_Piece, ...], Footprint] = {}
        self._bounds: dict[Time, tuple[int, int]] = {}
        self._box: list[tuple[int, int]] | None = None
        self.touches: dict[str, isl.Map] = {}
        with quota("reading the accesses of a nest", operations):
            if _is_box(nest.domain):
                self._box = [isl.bounds(nest.domain, loop) for loop in range(self.depth)]
            space = nest.domain.get_space()
            self._carries = [carried_by(space, loop) for loop in range(self.depth)]
            for access in nest.accesses:
                relation = access.relation.intersect_domain(nest.domain)
                self._index[id(access)] = self._intern(relation)
                known = self.touches.get(access.array)
                if known is None:
                    self.touches[access.array] = relation
                elif not relation.plain_is_equal(known):
                    self.touches[access.array] = known.union(relation)
            self.touches = {name: relation.coalesce() for name, relation in self.touches.items()}

    def _intern(self, relation: isl.Map) -> int:
        for index, known in enumerate(self._relations):
            if known.plain_is_equal(relation):
                return index
        self._relations.append(relation)
        return len(self._relations) - 1

    def dependences(self, source: TimedAccess, target: TimedAccess) -> tuple[_Carried, ...]:
        """The dependence of the pair for each loop that carries one, outermost first."""
        key = self._index[id(source)], self._index[id(target)]
        if key not in self._dependences:
            with quota(f"the dependences on {source.array}", self.operations):
                same_element = self._relations[key[0]].apply_range(self._relations[key[1]].reverse())
                self._dependences[key] = tuple(self._restrict(same_element))
        return self._dependences[key]

    def _restrict(self, same_element: isl.Map) -> Iterator[_Carried]:
        for loop, carries in enumerate(self._carries):
            carried = same_element.intersect(carries)
            if carried.is_empty():
                continue
            source = lex_extreme(carried.domain())
            targets = isl.fix_domain(carried, source).range()
            first, last = lex_extreme(targets), lex_extreme(targets, greatest=True)
            yield _Carried(loop, source, first, last, self._spans(carried, loop))

    def _spans(self, carried: isl.Map, loop: int) -> int | None:
        for position in self.parallel:
            if position == loop:
                return position
            if position > loop:
                if not isl.agrees(carried, position):
                    return position
        return None

    def sizes(self, dependence: _Carried) -> tuple[Footprint, Footprint, int | None]:
        """Least and greatest working set, and the parallel loop that both stand for."""
        if dependence.parallel is not None:
            whole = self.touched([_Piece(dependence.source[: dependence.parallel], None)])
            return whole, whole, dependence.parallel
        low = self.touched(self._between(dependence.source, dependence.first))
        high = (
            low
            if dependence.last == dependence.first
            else self.touched(self._between(dependence.source, dependence.last))
        )
        return low, high, None

    def _between(self, source: Time, target: Time) -> list[_Piece]:
        """Disjoint pieces that make up { t : source <= t <= target }, source < target.

        With d the first coordinate that differs: the rest of the source's iteration of loop d, whole iterations of
        d, then the beginning of the target's iteration. A rest that begins at the iteration's first time, or a
        beginning that ends with its last, is a whole iteration.
        """
        differ = next(i for i in range(self.depth) if source[i] != target[i])
        pieces: list[_Piece] = []
        low, high = source[differ] + 1, target[differ] - 1
        rest = self._from(source, differ + 1)
        if rest is None:
            low -= 1
        else:
            pieces += rest
        beginning = self._through(target, differ + 1)
        if beginning is None:
            high += 1
        if low <= high:
            pieces.append(_Piece(source[:differ], (low, high)))
        return pieces + (beginning or [])

    def _from(self, time: Time, depth: int) -> list[_Piece] | None:
        """Times >= `time` with its first `depth` coordinates; None when that is every time with them."""
        keep = self.depth
        while keep > depth and time[keep - 1] == self._extent(time[: keep - 1])[0]:
            keep -= 1
        if keep == depth:
            return None
        pieces = [_Piece(time[:keep], None)]
        for position in range(keep - 1, depth - 1, -1):
            if time[position] < self._extent(time[:position])[1]:
                pieces.append(_Piece(time[:position], (time[position] + 1, None)))
        return pieces

    def _through(self, time: Time, depth: int) -> list[_Piece] | None:
        """Times <= `time` with its first `depth` coordinates; None when that is every time with them."""
        keep = self.depth
        while keep > depth and time[keep - 1] == self._extent(time[: keep - 1])[1]:
            keep -= 1
        if keep == depth:
            return None
        pieces = [_Piece(time[:keep], None)]
        for position in range(keep - 1, depth - 1, -1):
            if time[position] > self._extent(time[:position])[0]:
                pieces.append(_Piece(time[:position], (None, time[position] - 1)))
        return pieces

    def _extent(self, prefix: Time) -> tuple[int, int]:
        """Least and greatest value of the next coordinate at times that begin with `prefix`."""
        if self._box is not None:
            return self._box[len(prefix)]
        known = self._bounds.get(prefix)
        if known is None:
            times = self.nest.domain
            for depth, value in enumerate(prefix):
                times = isl.fix(times, depth, value)
            known = self._bounds[prefix] = isl.bounds(times, len(prefix))
        return known

    def touched(self, pieces: list[_Piece]) -> Footprint:
        """Distinct elements of each array touched at the times of the pieces."""
        key = tuple(pieces)
        if key not in self._footprints:
            parts = []
            for array, relation in self.touches.items():
                with quota(f"the elements of {array} in a working set", self.operations):
                    elements = self._image(relation, pieces)
                size = count(elements, self.operations)
                if size.upper:
                    parts.append(ArrayFootprint(array, size, self.nest.element_bytes[array]))
            self._footprints[key] = Footprint(tuple(parts))
        return self._footprints[key]

    def _image(self, relation: isl.Map, pieces: list[_Piece]) -> isl.Set:
        def image(piece: _Piece) -> isl.Set:
            part = isl.fix_domain(relation, piece.prefix)
            return isl.domain_between(part, len(piece.prefix), *(piece.bounds or (None, None))).range()

        images = isl.united(map(image, pieces))
        return isl.Set.empty(relation.get_space().range()) if images is None else images


def _is_box(times: isl.Set) -> bool:
    """True when every constraint bounds one dimension only and there is no integer division: a product of intervals."""
    times = times.coalesce()
    if times.n_basic_set() != 1:
        return False
    (only,) = times.get_basic_sets()
    return isl.is_box(only)


def carried_by(space: isl.Space, loop: int) -> isl.Map:
    """{ t -> t' : t[:loop] = t'[:loop] and t[loop] < t'[loop] } on the space of the times."""
    return isl.ascending(isl.agree(isl.Map.universe(space.map_from_set()), range(loop)), loop)
