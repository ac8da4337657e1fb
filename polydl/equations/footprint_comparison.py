"""What statements touch, and in which order, and statements that are no assignments: compared as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from polydl.model import isl
from polydl.model.scop import Array, Assignment, BlackBox, Scop, Statement


def touched(scop: Scop, array: str, known: isl.Set) -> isl.Set | None:
    """The elements of an array that a program touches; None: it touches none."""
    using = ((s, access) for s in scop.statements for access in s.accesses if access.array == array)
    found = isl.united(access.relation.intersect_domain(s.domain).range() for s, access in using)
    return None if found is None else found.intersect_params(known)


def elements_in(array: Array, like: isl.Set) -> isl.Set:
    """The elements that an array has."""
    found = isl.Set.universe(like.get_space())
    for at, extent in zip(isl.coordinates(like), array.extents, strict=True):
        place = isl.PwAff.from_aff(at)
        found = found.intersect(place.nonneg_set())
        if extent is not None:
            found = found.intersect(place.lt_set(isl.lifted(extent, like)))
    return found


def unchanged(before: Scop, after: Scop, array: str) -> bool:
    """Whether the same instances of statements of the same names touch the same elements of an array in the same
    order."""
    one, two = _users(before, array), _users(after, array)
    same = len(one) == len(two) and all(
        a.name == b.name and _same_touch(a, b, array) for a, b in zip(one, two, strict=True)
    )
    return same and ranks([s.position for s in one]) == ranks([s.position for s in two])


def _users(scop: Scop, array: str) -> list[Statement]:
    return [s for s in scop.statements if any(a.array == array for a in s.accesses)]


def _same_touch(one: Statement, two: Statement, array: str) -> bool:
    """Whether two statements touch the same elements in the same iterations."""
    if one is two:
        return True
    loops = ([name in s.descending for name in s.iterators] for s in (one, two))
    if next(loops) != next(loops) or not (one.domain is two.domain or one.domain.is_equal(two.domain)):
        return False
    first, second = ([a for a in s.accesses if a.array == array] for s in (one, two))
    return len(first) == len(second) and all(
        (a.write, a.exact) == (b.write, b.exact) and (a.relation is b.relation or a.relation.is_equal(b.relation))
        for a, b in zip(first, second, strict=True)
    )


def ranks(places: Sequence[Sequence[Any]]) -> list[tuple[int, ...]]:
    """Where what stands at these places stands relative to each other."""
    return [
        tuple(
            len({q[level] for q in places if len(q) > level and q[:level] == place[:level] and q[level] < number})
            for level, number in enumerate(place)
        )
        for place in places
    ]


def same_text(one: Statement, two: Statement) -> bool:
    """Whether two statements that are no assignments are the same, but for the names of arrays."""
    if one.iterators != two.iterators or len(one.accesses) != len(two.accesses):
        return False
    if any((a.write, a.exact) != (b.write, b.exact) for a, b in zip(one.accesses, two.accesses, strict=True)):
        return False
    arrays = {(a.array, b.array) for a, b in zip(one.accesses, two.accesses, strict=True)}
    names = dict(arrays)
    if len(names) < len(arrays) or len(set(names.values())) < len(arrays):
        return False  # two arrays are one
    if isinstance(one.body, BlackBox) and isinstance(two.body, BlackBox):
        # No name in a region hides another, and none is a member's.
        text = re.sub(r"\b\w+\b", lambda word: names.get(word[0], word[0]), one.body.text)
        return replace(one.body, text=text) == two.body
    return not isinstance(one.body, Assignment) and all(a == b for a, b in arrays) and one.body == two.body
