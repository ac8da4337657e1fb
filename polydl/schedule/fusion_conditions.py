"""When an element-wise nest may move into a heavy one: algorithm 3 of PolyDL, decided by sets and never by names.

    for i: for j: for k: C[i][j] += A[i][k] * B[k][j];      the heavy nest
    for i: for j: C[i][j] = max(C[i][j], 0);                the element-wise nest, which runs in the last iteration of k

The paper's three conditions: both nests write the same set of elements; the element-wise nest writes each of them
once; nothing between the two touches the set. Written out for operands other than the set (a bias, a residual) and for
results that go to another array, they need two more, which the paper takes for granted: an iteration of the
element-wise nest touches no element of the set but its own; what else it reads, nobody in between writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum

from polydl.base.records import dataclass
from polydl.dependences.nests import Nest
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.scop import Access, Assignment, Statement


class Condition(Enum):
    """What fusing needs; the value says it to people."""

    SHAPE = "the element-wise nest is one assignment, and the heavy one writes one array"
    ELEMENT = "an iteration of the element-wise nest touches one element of the set"
    SAME_SET = "both nests touch the same set of elements"
    ONCE = "the element-wise nest takes each element once"
    BETWEEN = "nothing between the two nests reads or writes the set, nor writes what the element-wise nest reads"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why two nests are not fused."""

    condition: Condition
    reason: str
    """With the elements or instances that show it."""

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class Fused:
    """An element-wise statement inside a heavy nest."""

    nest: Nest
    """The element-wise nest."""
    element: isl.Map
    """{ C[c…] -> S[i…] }: the one instance that belongs to an element of the heavy nest's output."""

    @property
    def statement(self) -> Statement:
        return self.nest.statements[0]


@dataclass(frozen=True, slots=True)
class Group:
    """A heavy nest and the element-wise ones that move into it."""

    heavy: Nest
    output: str
    """The array whose elements name the instances: the heavy nest's."""
    elements: isl.Set
    """{ C[c…] } what the heavy nest writes."""
    arrays: Mapping[str, isl.Map]
    """Per array that the group writes element by element, { C[c…] -> A[a…] }."""
    before: tuple[Fused, ...] = ()
    """In the order in which they run."""
    after: tuple[Fused, ...] = ()

    @property
    def members(self) -> tuple[Fused, ...]:
        """The element-wise nests, in the order in which they run."""
        return *self.before, *self.after


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one pair of nests."""

    heavy: str
    """Name of the heavy nest."""
    light: str
    """Name of the element-wise nest."""
    before: bool
    """The element-wise nest comes first."""
    failure: Failure | None
    """None: fused."""
    lines: tuple[int, int] = field(default=(0, 0))
    """Where the two stand in the source, 1-based."""

    def __str__(self) -> str:
        pair = f"{self.light} (line {self.lines[1]}) into {self.heavy} (line {self.lines[0]})"
        return f"not fused: {pair}: {self.failure}" if self.failure else f"fused: {pair}"


def start_group(nest: Nest) -> Group | Failure:
    """The group of a heavy nest alone."""
    writes = [a for s in nest.statements for a in s.accesses if a.write]
    arrays = {a.array for a in writes}
    if len(arrays) != 1:
        names = ", ".join(sorted(arrays)) or "nothing"
        return Failure(Condition.SHAPE, f"{nest.name} writes {names}; one array is what fusing is about")
    output = arrays.pop()
    elements = isl.united(access.relation.range() for access in writes)
    assert elements is not None, "it writes some"
    if isl.arity(elements) == 0:
        return Failure(Condition.SHAPE, f"{nest.name} writes the scalar {output}")
    return Group(nest, output, elements.coalesce(), {output: isl.Map.identity(elements.get_space().map_from_set())})


def extend(group: Group, light: Nest, between: Sequence[Nest], *, before: bool) -> Group | Failure:
    """The group with an element-wise nest moved into it, or the condition that fails.

    `between`: the nests that run between the group and `light` and stay where they are. Raises QuotaExceeded.
    """
    statement = light.statements[0]
    if len(light.statements) != 1 or not isinstance(statement.body, Assignment):
        return Failure(Condition.SHAPE, f"{light.name} is not one assignment")
    target = statement.target
    with quota("the conditions of fusion"):
        own = _own_element(group, statement)
        if isinstance(own, Failure):
            return own
        failure = _same_set(group, statement, own) or _once(own) or _once(target.relation)
        if failure is None and before and target.array != group.output:
            failure = Failure(
                Condition.SAME_SET, f"{light.name} writes {target.array}, {group.heavy.name} starts from {group.output}"
            )
        failure = failure or _between(group, statement, between)
        if failure is not None:
            return failure
        element = own.reverse()
        arrays = dict(group.arrays)
        if target.array not in arrays:
            arrays[target.array] = element.apply_range(target.relation).coalesce()
    fused = Fused(light, element)
    if before:
        return replace(group, arrays=arrays, before=(fused, *group.before))
    return replace(group, arrays=arrays, after=(*group.after, fused))


def _own_element(group: Group, statement: Statement) -> isl.Map | Failure:
    """{ S[i…] -> C[c…] } the element that an iteration is about."""
    own: tuple[isl.Map, Access] | None = None
    for access in statement.accesses:
        if access.array not in group.arrays:
            continue
        here = access.relation.apply_range(group.arrays[access.array].reverse()).intersect_domain(statement.domain)
        if not here.is_single_valued():
            _, two = _several(access.relation)
            return Failure(Condition.ELEMENT, f"an iteration of {statement.name} touches {two}")
        if own is None:
            own = here, access
        elif not own[0].is_equal(here):
            other = own[0].subtract(here) if not own[0].is_subset(here) else here.subtract(own[0])
            one, two = (_element_at(a.relation, other.domain()) for a in (own[1], access))
            return Failure(Condition.ELEMENT, f"{_point(other.domain())} touches {one} and {two}")
    if own is None:
        return Failure(Condition.SAME_SET, f"{statement.name} does not touch {', '.join(group.arrays)}")
    return own[0]


def _element_at(relation: isl.Map, instances: isl.Set) -> str:
    elements = isl.Set.from_basic_set(instances.sample()).apply(relation)
    return "nothing" if elements.is_empty() else _point(elements)


def _several(relation: isl.Map) -> tuple[isl.Set, str]:
    """A point of the domain that is related to more than one of the range, and two of these: `C[0] and C[1]`."""
    pairs = relation.reverse().apply_range(relation)
    different = pairs.subtract(isl.Map.identity(pairs.get_space()))
    one = isl.Set.from_basic_set(different.domain().sample())
    two = isl.Set.from_basic_set(one.apply(different).sample())
    common = one.apply(relation.reverse()).intersect(two.apply(relation.reverse()))
    point = isl.Set.from_basic_set(common.sample())
    related = point.apply(relation)
    one = isl.Set.from_basic_set(related.sample())
    return point, f"{_point(one)} and {_point(related.subtract(one))}"


def _same_set(group: Group, statement: Statement, own: isl.Map) -> Failure | None:
    mine, theirs = own.range(), group.elements
    if mine.is_equal(theirs):
        return None
    extra, missing = mine.subtract(theirs), theirs.subtract(mine)
    heavy, light = group.heavy.name, statement.name
    if not missing.is_empty():
        return Failure(Condition.SAME_SET, f"{heavy} writes {_point(missing)}, which {light} does not touch")
    return Failure(Condition.SAME_SET, f"{light} touches {_point(extra)}, which {heavy} does not write")


def _once(own: isl.Map) -> Failure | None:
    """{ S[i…] -> A[a…] } as many iterations as elements."""
    if own.is_injective():
        return None
    element, two = _several(own.reverse())
    return Failure(Condition.ONCE, f"{two} both touch {_point(element)}")


def _between(group: Group, statement: Statement, between: Sequence[Nest]) -> Failure | None:
    """Whether anything that stays in place is in the way, the heavy nest itself included."""
    others = [other for nest in between for other in nest.statements]
    found = [_touches_set(group, statement, other) for other in others]
    found += [_conflict(statement, statement.accesses, other) for other in others]
    if statement.target.array not in group.arrays:
        inside = [*group.heavy.statements, *(f.statement for f in group.members)]
        found += [_conflict(statement, [statement.target], other) for other in inside]
    found += [_reads_finished(group, statement, other) for other in group.heavy.statements]
    return next((failure for failure in found if failure is not None), None)


def _reads_finished(group: Group, statement: Statement, other: Statement) -> Failure | None:
    """The heavy nest must not read elements that another of its iterations is about: they may be changed already."""
    writes = [a for a in other.accesses if a.write]
    for access in other.accesses:
        if access.write or access.array != group.output or not writes:
            continue
        foreign = access.relation.subtract(writes[0].relation)
        if not foreign.is_empty():
            at, element = _point(foreign.domain()), _element_at(foreign, foreign.domain())
            return Failure(Condition.BETWEEN, f"{at} reads {element}, which {statement.name} may have changed by then")
    return None


def _conflict(light: Statement, accesses: Sequence[Access], other: Statement) -> Failure | None:
    """An element that both touch and one of them writes."""
    for a in accesses:
        for b in other.accesses:
            if a.array != b.array or not (a.write or b.write):
                continue
            common = a.relation.range().intersect(b.relation.range())
            if not common.is_empty():
                theirs, mine = ("writes" if x.write else "reads" for x in (b, a))
                return Failure(Condition.BETWEEN, f"{other.name} {theirs} {_point(common)}, which {light.name} {mine}")
    return None


def _touches_set(group: Group, light: Statement, other: Statement) -> Failure | None:
    for b in other.accesses:
        if b.array not in group.arrays:
            continue
        common = group.elements.apply(group.arrays[b.array]).intersect(b.relation.range())
        touched = any(a.array == b.array for a in light.accesses)
        if touched and not common.is_empty():
            does = "writes" if b.write else "reads"
            where = f"between {group.heavy.name} and {light.name}"
            return Failure(Condition.BETWEEN, f"{other.name}, {where}, {does} {_point(common)}")
    return None


def _point(of: isl.Set) -> str:
    """`S0[1, 2]`: the least point of a set as text; with parameters, one for the values that it names."""
    coordinates, given = isl.first_point(of)
    values = ", ".join(f"{name} = {number}" for name, number in given.items())
    return f"{of.get_tuple_name()}[{', '.join(map(str, coordinates))}]" + (f" (with {values})" if values else "")


def beside(
    before: Sequence[tuple[Statement, isl.Map]], after: Sequence[tuple[Statement, isl.Map]], times: isl.Map
) -> Iterator[tuple[Statement, int, isl.Map]]:
    """When statements run that are about one element each, in loops in which it is written several times: right before
    the first, or right after the last of these.

    `before`, `after`: the statements, with { S[i…] -> C[c…] }; `times`: { C[c…] -> [t…] } when elements are written.
    Yields a statement, its number among those of one time, of which the writing one is 0, and { S[i…] -> [t…] }.
    """
    for number, (statement, element) in enumerate((*before, *after), -len(before)):
        found = element.apply_range(times)
        if number < 0:
            yield statement, number, found.lexmin()
        else:
            yield statement, number + 1, found.lexmax()
