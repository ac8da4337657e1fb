"""Polynomial subscripts back to dimensions: `p[i*(i + 1)/2 + j]` is P[i][j] where that is shown to be one to one.

Rows are the iterators that a subscript is no affine function of; what is left of it is the column. Of the other
subscripts of the array rows are found such that the same polynomial of rows and column gives them: two functions of
degree two are equal where their second differences are. The polynomial is then shown to grow from each element that is
used to the next one in lexicographic order, so that no two have the same address: from the last element of each row to
the first of the next row it grows by a number of lower degree, which isl judges where it is affine. (It is the rank of
an element, the number of those in front of it: Clauss and Meister, "Automatic memory layout transformations to optimize
spatial locality in parameterized loop nests", ACM Computer Architecture News 28, 2000. Nothing is counted here, so that
rows may have room for more than is used, and triangles may lie beside one another.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product

from polydl.base.records import dataclass
from polydl.frontend.meaning.affine import Value, as_rational
from polydl.frontend.meaning.affine_terms import constant_aff, poly_aff, symbol_aff, universe
from polydl.model import isl
from polydl.model.packed import Packed, subscript
from polydl.model.polynomials import Rational, degree, poly_add, poly_mul, rational, whole

_MOST_ROWS = 3
"""Rows whose orders are tried."""
_SHIFTS = (0, -1, 1)
"""Rows of a subscript may begin earlier or later than those of another one."""
_ROW = "__polydl_row_"
"""Begins the symbols for subscripts."""
_NEXT = "__polydl_next"


@dataclass(frozen=True, slots=True)
class PackedShape:
    """Dimensions of a packed array."""

    layout: Packed
    subscripts: tuple[tuple[isl.PwAff, ...], ...]
    """For each access, in the order given: functions of symbols."""


def packed(accesses: Sequence[tuple[Value, isl.Set]], iterators: frozenset[str]) -> PackedShape | None:
    """Dimensions of an array whose only subscripts are these, each with where it happens; None when none are proven,
    and where rows could all have the same length (`delinearize`)."""
    if any(value.parts or (value.poly is None and value.rational is None) for value, _ in accesses):
        return None
    if not any(is_bent(value, iterators) for value, _ in accesses):
        return None
    addresses = [as_rational(value) for value, _ in accesses]
    regions = [where for _, where in accesses]
    tried: list[Rational] = []
    by_rows = sorted(addresses, key=lambda one: -len({n for m in one for n in m} & iterators))
    for address in by_rows:
        rows = sorted({name for monomial in address if len(monomial) > 1 for name in monomial} & iterators)
        if address in tried or not 0 < len(rows) <= _MOST_ROWS:
            continue
        tried.append(address)
        for order in permutations(rows):
            template = _template(address, order, iterators)
            subscripts = None if template is None else _matched(template, addresses, regions, iterators)
            if template is not None and subscripts is not None:
                functions = tuple(tuple(poly_aff(whole(one) or {}) for one in several) for several in subscripts)
                return PackedShape(template, functions)
    return None


def is_bent(value: Value, iterators: frozenset[str]) -> bool:
    """Whether a subscript is of a degree of two or more in iterators, or has fractions."""
    monomials = value.poly or {}
    return value.rational is not None or any(sum(name in iterators for name in one) > 1 for one in monomials)


def _template(address: Rational, rows: Sequence[str], iterators: frozenset[str]) -> Packed | None:
    """The address as a polynomial of rows and of a column that is added."""
    named = {name: subscript(d) for d, name in enumerate(rows)}
    found: dict[tuple[str, ...], Fraction] = {}
    for monomial, coefficient in address.items():
        own = coefficient if len(monomial) > 1 else coefficient - math.floor(coefficient)
        if own:
            found[tuple(sorted(named.get(name, name) for name in monomial))] = own
    if any(name in iterators for monomial in found for name in monomial):
        return None  # a fraction of an iterator that is no row
    return Packed.of(len(rows) + 1, {**found, (subscript(len(rows)),): Fraction(1)})


def _matched(
    template: Packed, addresses: Sequence[Rational], regions: Sequence[isl.Set], iterators: frozenset[str]
) -> list[tuple[Rational, ...]] | None:
    """Subscripts of each address for which the template gives it, if all elements of all are shown to be apart."""
    found: list[tuple[Rational, ...]] = []
    used = isl.Set.empty(universe().get_space())
    done: list[tuple[Rational, isl.Set, tuple[Rational, ...]]] = []
    for address, where in zip(addresses, regions, strict=True):
        same = next((own for one, there, own in done if one == address and where.is_subset(there)), None)
        for own in [same] if same is not None else _candidates(template, address, iterators):
            more = used if same is not None else tidied(used.union(_elements(own, where, iterators)))
            if same is not None or _is_increasing(template, more):
                found.append(own)
                done.append((address, where, own))
                used = more
                break
        else:
            return None
    return found


def tidied(of: isl.Set) -> isl.Set:
    """The same set in fewer pieces."""
    return of.coalesce() if of.n_basic_set() > 1 else of


def _candidates(template: Packed, address: Rational, iterators: frozenset[str]) -> Iterator[tuple[Rational, ...]]:
    """Affine rows and columns of an address, those without a shift first."""
    for shift in _SHIFTS:
        for rows in _rows(template, address, iterators):
            moved = [poly_add(one, rational({(): shift} if shift else {})) for one in rows]
            rest = poly_add(address, template.at([*moved, {}]), -1)
            if degree(rest) <= 1 and whole(rest) is not None:
                yield (*moved, rest)


def _rows(template: Packed, address: Rational, iterators: frozenset[str]) -> Iterator[tuple[Rational, ...]]:
    bent = sorted({name for monomial in address if len(monomial) > 1 for name in monomial} & iterators)
    if template.rank == 2:
        yield from ((row,) for row in _row(template, address, bent))
    elif len(bent) == template.rank - 1:
        for order in permutations(bent):
            yield tuple({(name,): Fraction(1)} for name in order)


def _row(template: Packed, address: Rational, bent: Sequence[str]) -> Iterator[Rational]:
    """Rows r = a + b + … for which a template c*r*r + d*n*r + … has the terms of degree two of an address."""
    own, terms = subscript(0), template.address
    square = terms.get((own, own), Fraction(0))
    if not bent:
        yield {}
    if not square or degree(terms) > 2:
        for name in bent:
            yield {(name,): Fraction(1)}
        return
    anchor = next((name for name in bent if (name, name) in address), None)
    if anchor is None:
        return
    ratio = address[anchor, anchor] / square
    root = math.isqrt(abs(ratio.numerator))
    if ratio.denominator != 1 or ratio <= 0 or root * root != ratio:
        return
    for factor in (root, -root):
        row: dict[tuple[str, ...], Fraction] = {(anchor,): Fraction(factor)}
        for name in {name for monomial in (*address, *terms) for name in monomial} - {anchor, own, subscript(1)}:
            mixed = address.get(_pair(anchor, name), Fraction(0)) - factor * terms.get(_pair(own, name), Fraction(0))
            if mixed:
                row[name,] = mixed / (2 * square * factor)
        if whole(row) is not None:
            yield row


def _pair(one: str, other: str) -> tuple[str, ...]:
    return tuple(sorted((one, other)))


def _elements(subscripts: Sequence[Rational], where: isl.Set, iterators: frozenset[str]) -> isl.Set:
    """The elements that are reached, as values of symbols for their subscripts."""
    for d, one in enumerate(subscripts):
        where = where.intersect(symbol_aff(f"{_ROW}{d}").eq_set(poly_aff(whole(one) or {})))
    return isl.some_values(where, iterators)


def _is_increasing(template: Packed, elements: isl.Set) -> bool:
    """Whether the address grows in lexicographic order of the elements, or of more than these: of those between them,
    and of those that a step leaves out."""
    wider = (isl.Set.from_basic_set(one.simple_hull()) for one in (elements, elements.remove_divs()))
    return _increases(template, elements) or any(_increases(template, one) for one in wider)


def _increases(template: Packed, elements: isl.Set) -> bool:
    names = [f"{_ROW}{d}" for d in range(template.rank)]
    try:
        return all(_grows_from(template, elements, names, d) for d in range(template.rank - 1))
    except isl.Error:  # no extreme: a row without an end
        return False


def _grows_from(template: Packed, elements: isl.Set, names: Sequence[str], level: int) -> bool:
    """Whether the address of the first element of each row at this level is greater than that of the last element of
    the row before, and no row between others is empty. Raises Error."""
    inner = names[level + 1 :]
    rows = isl.some_values(elements, inner)
    earlier = isl.rename_parameter(rows, names[level], _NEXT)
    at, other = symbol_aff(names[level]), symbol_aff(_NEXT)
    behind = isl.some_values(earlier.intersect(other.le_set(at)), [_NEXT])
    before = isl.some_values(earlier.intersect(other.ge_set(at)), [_NEXT])
    if not behind.intersect(before).is_subset(rows):
        return False
    following = isl.rename_parameter(elements, names[level], _NEXT)
    following = isl.some_values(following.intersect(other.eq_set(at.add_constant_val(isl.value(1)))), [_NEXT])
    here: list[Rational] = [{(name,): Fraction(1)} for name in names[: level + 1]]
    there = [*here[:-1], poly_add(here[-1], {(): Fraction(1)})]
    for (one, last), (two, first) in product(_ends(elements, inner, True), _ends(following, inner, False)):
        both = one.intersect(two)
        if both.is_empty():
            continue
        growth = poly_add(template.at([*there, *first]), template.at([*here, *last]), -1)
        scale = math.lcm(*(c.denominator for c in growth.values()))
        scaled = whole(poly_mul(growth, {(): Fraction(scale)}))
        if scaled is None or degree(growth) > 1:
            return False
        if not both.is_disjoint(poly_aff(scaled).lt_set(constant_aff(scale))):
            return False
    return True


def _ends(elements: isl.Set, inner: Sequence[str], greatest: bool) -> list[tuple[isl.Set, list[Rational]]]:
    """The last (first) element of each row, as functions of what is around: pieces with polynomials of degree one.
    Raises Error."""
    rows = isl.some_values(elements, inner)
    values = isl.Map.from_domain_and_range(rows, isl.as_dimensions(elements, inner).coalesce())
    extreme = values.lexmax() if greatest else values.lexmin()
    found: list[tuple[isl.Set, list[Rational]]] = [(rows, [])]
    for function in isl.components(extreme.as_pw_multi_aff()):
        several = found
        found = []
        for (where, before), (piece, aff) in product(several, isl.pieces(function)):
            terms = None if isl.divisors(aff) else isl.parameter_terms(aff)
            if terms is None:
                raise isl.Error("an element is found by a division")
            there = where.intersect(piece)
            if not there.is_empty():
                found.append((there, [*before, rational(terms)]))
    return found
