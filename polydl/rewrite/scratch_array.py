"""Arrays that a rewrite adds to a program, of which a set of points says how large they are."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.scop import Array, BlackBox, Scop, Statement, Storage
from polydl.model.time import map_from_affs
from polydl.model.types import ElementType

Ends = Sequence[tuple[int, int]]
"""First and last value of each coordinate."""


def ends_of(points: isl.Set) -> Ends | None:
    """The least box around a set; None where it is empty or has no numbers for bounds."""
    if points.is_empty() or isl.arity(points) == 0:
        return None
    found: list[tuple[int, int]] = []
    for dim in range(isl.arity(points)):
        low, high = isl.least(points, dim), isl.greatest(points, dim)
        if low is None or high is None:
            return None
        found.append((low, high))
    return found


def elements_of(ends: Ends) -> int:
    """Points in a box."""
    return math.prod(high - low + 1 for low, high in ends)


@dataclass(frozen=True, slots=True)
class Box:
    """A range of values for each coordinate, of which parameters may say where it begins and how long it is."""

    first: tuple[isl.PwAff, ...]
    """{ [parameters] -> [v] } the least value of each."""
    extents: tuple[isl.PwAff, ...]
    """{ [parameters] -> [n] } how many there are."""

    @staticmethod
    def between(ends: Ends) -> Box:
        """A box of known size."""
        nowhere = isl.unnamed_space(0)

        def number(value: int) -> isl.PwAff:
            return isl.PwAff.from_aff(isl.constant(nowhere, value))

        return Box(tuple(number(low) for low, _ in ends), tuple(number(high - low + 1) for low, high in ends))

    def points(self, like: isl.Set) -> isl.Set:
        """{ S[i…] } its points, in the space of a set."""
        found = isl.Set.universe(like.get_space())
        for at, low, extent in zip(isl.coordinates(like), self.first, self.extents, strict=True):
            counted = isl.PwAff.from_aff(at).sub(isl.lifted(low, like))
            inside = counted.sub(isl.lifted(extent, like)).add_constant_val(isl.value(1))
            found = found.intersect(counted.nonneg_set()).intersect(inside.neg().nonneg_set())
        return found


def box_of(points: isl.Set) -> Box | None:
    """The least box around a set, for each value of the parameters for which it has points; None where it has none, or
    no end."""
    ends = ends_of(points) if not isl.involved_parameters(points) else None
    if ends is not None:
        return Box.between(ends)
    if points.is_empty() or isl.arity(points) == 0 or not points.is_bounded():
        return None
    some, nowhere = points.params(), isl.unnamed_space(0)
    first, extents = list[isl.PwAff](), list[isl.PwAff]()
    for dim in range(isl.arity(points)):
        low, high = isl.symbolic_bounds(points, dim)
        extent = high.sub(low).add_constant_val(isl.value(1))
        first.append(low.coalesce().gist_params(some).insert_domain(nowhere))
        extents.append(extent.coalesce().gist_params(some).insert_domain(nowhere))
    return Box(tuple(first), tuple(extents))


def is_box(statement: Statement) -> bool:
    """Whether the instances of a statement are a range of values for each loop."""
    domain, box = statement.domain, box_of(statement.domain)
    if box is None:
        return False
    return bool(box.points(domain).intersect_params(domain.params()).is_equal(domain))


def scratch_array(name: str, element: ElementType, box: Box) -> Array:
    """An array with an element for each point of a box, row-major."""
    return Array(name, element, box.extents, Storage.SCRATCH, f"{element.c} *{name}", linear=True, restrict=True)


def region_scalar(name: str, element: ElementType) -> Array:
    """A scalar of the region."""
    return Array(name, element, (), Storage.REGION, f"{element.c} {name}", restrict=True)


def region_array(name: str, element: ElementType, sizes: Sequence[int]) -> Array:
    """An array of the region, of known size."""
    extents = tuple(isl.PwAff.from_aff(isl.constant(isl.unnamed_space(0), size)) for size in sizes)
    return Array(name, element, extents, Storage.REGION, f"{element.c} {name}{''.join(f'[{n}]' for n in sizes)}")


def array_of_extents(name: str, element: ElementType, extents: Sequence[isl.PwAff]) -> Array:
    """An array of the region. Where parameters say how large it is, the output writes that into its declaration, and
    asks whether a stack has room for it."""
    sizes = [known_size(extent) for extent in extents]
    known = [size for size in sizes if size is not None]
    if len(known) == len(sizes):
        return region_array(name, element, known)
    return Array(name, element, tuple(extents), Storage.REGION, f"{element.c} {name}")


def known_size(extent: isl.PwAff) -> int | None:
    """How many values a coordinate has, where that is a number."""
    return None if isl.involved_parameters(extent) else isl.to_int(extent.max_val())


def element_of(points: isl.Set, name: str, box: Box) -> isl.Map:
    """{ [p…] -> name[p - first…] } the element that belongs to a point."""
    coordinates = map(isl.PwAff.from_aff, isl.coordinates(points))
    places = [at.sub(isl.lifted(low, points)) for at, low in zip(coordinates, box.first, strict=True)]
    return isl.range_named(map_from_affs(points, places), name, [f"a{d}" for d in range(len(places))])


def stored_in(statement: Statement, name: str, array: str, place: isl.Map) -> Statement:
    """A statement with elements of `array`, { S[i…] -> array[a…] }, in place of what it touches of another one."""
    if all(a.array != name for a in statement.accesses):
        return statement
    accesses = tuple(replace(a, array=array, relation=place) if a.array == name else a for a in statement.accesses)
    body = statement.body
    if isinstance(body, BlackBox):
        # No name in a region hides another, and none is a member's: the word means the scalar wherever it stands.
        body = replace(body, text=re.sub(rf"\b{re.escape(name)}\b", array, body.text))
    return replace(statement, accesses=accesses, body=body)


def array_over(
    name: str, element: ElementType, points: isl.Set, dims: Sequence[int], *, known: bool = False
) -> tuple[Array, isl.Map] | None:
    """An array with an element for each value that some coordinates of points have together, and { [p…] -> name[a…] }
    the one that belongs to a point. None where nobody knows how many there are; `known`: as a number."""
    own = isl.project_onto(points, dims).reset_tuple_id()
    ends = ends_of(own) if known else None
    box = Box.between(ends) if ends is not None else None if known else box_of(own)
    if box is None:
        return None
    at = isl.coordinates(points)
    place = map_from_affs(points, [at[d] for d in dims]).apply_range(element_of(own, name, box))
    return scratch_array(name, element, box), place


def free_name(scop: Scop, stem: str) -> str:
    """A name that no array of the program has."""
    while stem in scop.arrays:
        stem += "_"
    return stem


def has_room(scop: Scop, more: Sequence[Box]) -> bool:
    """Whether so many elements more are at most as many as the program touches anyway: all together, or, where
    parameters say how many they are, each box as many as the elements of an array, no two those of one. Raises
    QuotaExceeded."""
    touched: dict[str, isl.Set] = {}
    for statement in scop.statements:
        for access in statement.accesses:
            if access.exact:
                elements = access.relation.intersect_domain(statement.domain).range()
                touched[access.array] = elements.union(touched.get(access.array, elements))
    boxes = [box for elements in touched.values() if (box := box_of(elements)) is not None]
    sizes, wanted = [_number_of(box) for box in boxes], [_number_of(box) for box in more]
    if None not in (*sizes, *wanted):
        return sum(n or 0 for n in wanted) <= sum(n or 0 for n in sizes)
    values = scop.context.params()
    for box in more:
        holding = next((one for one in boxes if _holds(one, box, values)), None)
        if holding is None:
            return False
        boxes.remove(holding)
    return True


def _number_of(box: Box) -> int | None:
    """Points of a box; None where parameters say how many they are."""
    if any(isl.involved_parameters(extent) for extent in box.extents):
        return None
    return math.prod(isl.to_int(extent.max_val()) for extent in box.extents)


def _holds(box: Box, other: Box, values: isl.Set) -> bool:
    """Whether a box surely has as many points as another one, for these values of the parameters: each extent of the
    other is at most one of its own."""
    own = list(box.extents)
    for extent in other.extents:
        wide = next((one for one in own if values.is_subset(extent.le_set(one).params())), None)
        if wide is None:
            return False
        own.remove(wide)
    return True
