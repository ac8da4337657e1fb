"""Sums as the terms that they consist of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.model import isl


class NotShown(Exception):
    """Why two values are not shown to be the same."""


@dataclass(frozen=True, slots=True)
class Term:
    """A product that is added, for each of some points."""

    points: isl.Set
    back: isl.Map | None
    """{ [d…] -> [p…] } what it is added to; None: the points are that."""
    sign: int
    factors: tuple[tuple[str, tuple[isl.Map, ...]], ...]
    """(what it is, the instances, elements and numbers { [d…] -> … } that it is made of)."""


def compare(points: isl.Set, one: Sequence[Term], two: Sequence[Term]) -> None:
    """Raises NotShown where two sums have not the same terms for all points."""
    left, right = (_tables(points, terms) for terms in (one, two))
    if {key: len(tables) for key, tables in left.items()} != {key: len(tables) for key, tables in right.items()}:
        raise NotShown("other products are added")
    for key, tables in left.items():
        if not all(mine.is_equal(other) for mine, other in zip(tables, right[key], strict=True)):
            raise NotShown("products of other values are added")


def _tables(points: isl.Set, terms: Sequence[Term]) -> dict[tuple[int, tuple[str, ...]], list[isl.Set]]:
    """By what is added, { [p…, i…] } all that it is made of: what is added at least once, at least twice, …"""
    found: dict[tuple[int, tuple[str, ...]], list[isl.Set]] = {}
    for term in terms:
        factors = sorted(term.factors, key=lambda one: one[0])
        back = isl.Map.identity(points.get_space().map_from_set()) if term.back is None else term.back
        whole = back.intersect_domain(term.points).flatten_range()
        for _, maps in factors:
            for one in maps:
                whole = whole.flat_range_product(one.flatten_range())
        whole = isl.range_named(whole, None)
        if whole.is_empty():
            continue
        if not whole.is_injective():
            raise NotShown("the same product is added several times")
        more, tables = whole.range(), found.setdefault((term.sign, tuple(kind for kind, _ in factors)), [])
        for number, table in enumerate(tables):
            tables[number], more = table.union(more), table.intersect(more)
        if not more.is_empty():
            tables.append(more)
    return found


def times(one: Term, two: Term) -> Term:
    """The product of two terms that are added to the same points."""
    if two.back is not None and one.back is None:
        one, two = two, one
    if one.back is None:
        points = one.points.intersect(two.points)
        first, second = one, two
        back = None
    elif two.back is None:
        points = one.points.intersect(one.back.intersect_range(two.points).domain())
        first, second, back = one, _before(two, one.back), one.back
    else:
        pairs = one.back.intersect_domain(one.points).apply_range(two.back.intersect_domain(two.points).reverse())
        points = pairs.wrap()
        first, second = _before(one, pairs.domain_map()), _before(two, pairs.range_map())
        back = pairs.domain_map().apply_range(one.back)
    factors = tuple(
        (kind, tuple(m.intersect_domain(points) for m in maps)) for kind, maps in (*first.factors, *second.factors)
    )
    return Term(points, back, one.sign * two.sign, factors)


def _before(term: Term, to: isl.Map) -> Term:
    """A term whose factors start from other points, which lead to its own."""
    return replace(term, factors=tuple((kind, tuple(to.apply_range(m) for m in maps)) for kind, maps in term.factors))
