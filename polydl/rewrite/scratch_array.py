"""Arrays that a rewrite adds to a program, of which a set of points says how large they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from polydl.model import isl
from polydl.model.schedule import map_from_affs
from polydl.model.scop import Array, Scop, Statement, Storage
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


def is_box(statement: Statement) -> bool:
    """Whether the instances of a statement are a range of values for each loop."""
    ends = ends_of(statement.domain)
    box = isl.Set.universe(statement.domain.get_space())
    for dim, (low, high) in enumerate(ends or ()):
        box = isl.between(box, dim, low, high)
    return ends is not None and bool(box.is_equal(statement.domain))


def scratch_array(name: str, element: ElementType, ends: Ends) -> Array:
    """An array with an element for each point of a box, row-major."""
    space = isl.Set("{ [] }").get_space()
    extents = tuple(isl.PwAff.from_aff(isl.constant(space, high - low + 1)) for low, high in ends)
    declared = f"{element.c} *{name}"
    return Array(name, element, extents, Storage.SCRATCH, declared, linear=True, restrict=True)


def element_of(points: isl.Set, name: str, ends: Ends) -> isl.Map:
    """{ [p…] -> name[p - first…] } the element that belongs to a point."""
    places = [at.add_constant_val(isl.value(-low)) for at, (low, _) in zip(isl.coordinates(points), ends, strict=True)]
    return isl.range_named(map_from_affs(points, places), name, [f"a{d}" for d in range(len(places))])


def free_name(scop: Scop, stem: str) -> str:
    """A name that no array of the program has."""
    while stem in scop.arrays:
        stem += "_"
    return stem


def has_room(scop: Scop, more: Sequence[int]) -> bool:
    """Whether so many elements more are at most as many as the program touches anyway. Raises QuotaExceeded."""
    touched: dict[str, isl.Set] = {}
    for statement in scop.statements:
        for access in statement.accesses:
            if access.exact:
                elements = access.relation.intersect_domain(statement.domain).range()
                touched[access.array] = elements.union(touched.get(access.array, elements))
    boxes = (ends_of(elements) for elements in touched.values())
    return sum(more) <= sum(elements_of(ends) for ends in boxes if ends is not None)
