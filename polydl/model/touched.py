"""Which part of an array's memory a program touches: from where to where, as functions of the parameters.

For an array in C's order of elements, and for a packed one, the first and the last element touched are the
lexicographic minimum and maximum of its access relations; these are exact where the relations are. Compared with those
of another array they tell whether the two share memory (LLVM's runtime checks, `RuntimePointerChecking`; Polly's
`createRTC` in Doerfert, Grosser and Hack, "Optimistic loop optimization", CGO 2017).
"""

from __future__ import annotations

from collections.abc import Sequence

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.scop import Array, Scop, Statement

_MOST_PIECES = 4
"""Pieces of a bound's coordinates that are still looked at together; beyond, each coordinate has its own bound."""


@dataclass(frozen=True, slots=True)
class Range:
    """Elements of an array between two, those included. Holds where there is one at all; elsewhere it says nothing."""

    first: tuple[isl.PwAff, ...]
    """{ [parameters] -> [a] } for each subscript."""
    last: tuple[isl.PwAff, ...]


def has_range(array: Array, statements: Sequence[Statement]) -> bool:
    """Whether what statements touch of an array has ends, which `touched` finds: data that choose among elements whose
    number is not known have none."""
    return (
        array.rows is None
        and (array.layout.packed is not None or _is_in_rows(array))
        and all(bool(one.is_bounded()) for one in _elements(array, statements))
    )


def _is_in_rows(array: Array) -> bool:
    return array.layout.is_row_major and all(extent is not None for extent in array.extents[1:])


def touched(scop: Scop, array: Array) -> tuple[Range, ...]:
    """What a program touches of an array that `has_range` holds for: all of it is in one of the ranges. There is one
    for each set of parameter values for which something is touched, where no other one has all of it."""
    groups: list[isl.Set] = []
    for elements in _elements(array, scop.statements):
        where = elements.params()
        for at, group in enumerate(groups):
            if group.params().is_equal(where):
                groups[at] = group.union(elements)
                break
        else:
            groups.append(elements)
    needed = list(groups)
    for group in groups:
        others = [other for other in needed if other is not group]
        if any(_is_inside(group, other) for other in others):
            needed = others
    return tuple(
        Range(*(_readable(group, array, greatest, scop.context) for greatest in (False, True)))
        for group in (group.coalesce() for group in needed)
    )


def _elements(array: Array, statements: Sequence[Statement]) -> list[isl.Set]:
    """{ A[a…] } of each access, those that never happen left out."""
    found = (a.relation.range() for s in statements for a in s.accesses if a.array == array.name)
    return [one for one in found if not one.is_empty()]


def _is_inside(part: isl.Set, whole: isl.Set) -> bool:
    """Whether the elements between the ends of a set are between those of another one, wherever there are any."""
    if not part.params().is_subset(whole.params()):
        return False
    there = whole.intersect_params(part.params())
    both = there.union(part)
    return all(
        all(one.is_equal(other) for one, other in zip(_end(there, end), _end(both, end), strict=True))
        for end in (False, True)
    )


def _end(elements: isl.Set, greatest: bool) -> list[isl.PwAff]:
    """Coordinates of the lexicographically least (greatest) element."""
    found: list[isl.PwAff] = []
    for place in range(isl.arity(elements)):
        bound = isl.symbolic_bounds(elements, place)[greatest].coalesce()
        found.append(bound)
        own = isl.PwAff.from_aff(isl.coordinate(elements, place))
        elements = elements.intersect(own.eq_set(bound.insert_domain(elements.get_space())))
    return found


def _readable(elements: isl.Set, array: Array, greatest: bool, context: isl.Set) -> tuple[isl.PwAff, ...]:
    """The same, without conditions that hold wherever there are elements."""
    known = elements.params().intersect(context.params())
    exact = [one.gist_params(known).coalesce() for one in _end(elements, greatest)]
    if array.layout.packed is not None or all(len(isl.pieces(one)) <= _MOST_PIECES for one in exact):
        return tuple(exact)
    box = (isl.symbolic_bounds(elements, place)[greatest] for place in range(isl.arity(elements)))
    return tuple(one.coalesce().gist_params(known).coalesce() for one in box)


def shown(scop: Scop, array: str) -> str:
    """How messages name an array: `m->data` for `m_data`."""
    name = scop.arrays[array].spelled
    return scop.views[name].member if name in scop.views else name


def asked(scop: Scop) -> tuple[str, ...]:
    """What the output asks of memory before it runs, for people."""
    if not scop.apart:
        return ()
    # Of members of several types there is a pair for each of them.
    every = ((shown(scop, one), shown(scop, other)) for one, other in scop.apart)
    pairs = {frozenset(pair): pair for pair in every}
    said = apart(list(pairs.values()))
    return (f"{said} (else the loops as they were written run)",)


def premises(scop: Scop) -> tuple[str, ...]:
    """What the output asks of memory before it runs, and what is assumed and not asked, a line each for people."""
    return (*(f"asked where it runs: {one}" for one in asked(scop)), *(f"assumed: {one}" for one in scop.assumptions))


def apart(pairs: Sequence[tuple[str, str]]) -> str:
    """That the two arrays of each pair do not overlap, in one line for people."""
    if len(pairs) == 1:
        return "'{}' and '{}' do not overlap".format(*pairs[0])
    parts: list[str] = []
    left = {frozenset(pair) for pair in pairs}
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    while left:
        others = {name: [other for other in names if frozenset((name, other)) in left] for name in names}
        most = max(map(len, others.values()))
        first = next(name for name in names if len(others[name]) == most)
        # Those that share its partners, one another included, are said in one breath.
        group = [n for n in names if {*others[n], n} == {*others[first], first}]
        rest = [n for n in others[first] if n not in group]
        left -= {frozenset((one, other)) for one in group for other in others[one]}
        beside = f"{'nor ' if len(group) > 1 else ''}{listed(rest, 'or')}" if rest else ""
        if len(group) > 1:
            parts.append(f"{listed(group, 'and')} do not overlap one another{', ' + beside if beside else ''}")
        else:
            parts.append(f"{listed(group, 'and')} does not overlap {beside}")
    return "; ".join(parts)


def listed(names: Sequence[str], word: str) -> str:
    """`'a', 'b' and 'c'`."""
    quoted = [f"'{name}'" for name in names]
    return " ".join([", ".join(quoted[:-1]), word, quoted[-1]]) if len(quoted) > 1 else quoted[0]
