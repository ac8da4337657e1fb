"""Linear subscripts back to dimensions: `A[i*N + j]` is A[i][j] when 0 <= j < N is proven.

For an array used through one subscript, strides are read off the coefficients of the loop variables (numbers, or
products of parameters and of functions of them, as D / 2), every divisibility chain of them is tried, longest first,
and one is taken when for every access all inner subscripts provably lie inside their dimension. Then the mapping is a
bijection between the linear index and the subscripts, so that dependences are the same ones. Cf. Grosser et al.,
'Optimistic delinearization of parametrically sized arrays' (ICS 2015), whose assumptions are proven here instead of
assumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise

from polydl.base.records import dataclass
from polydl.frontend.lower.raw import RawAccess
from polydl.frontend.meaning.affine_terms import constant_aff, poly_aff
from polydl.model import isl
from polydl.model.polynomials import Poly, poly_add, poly_mul, poly_number

_MAX_STRIDES = 7
"""Distinct strides considered: the chains tried are at most 2^7."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A recovered shape."""

    extents: tuple[isl.PwAff | None, ...]
    """First unknown; functions of symbols."""
    subscripts: tuple[tuple[isl.PwAff, ...], ...]
    """For each access, in the order given."""
    polynomials: tuple[tuple[Poly, ...], ...] = ()
    """The same as polynomials; none of an access that walks over rows as one line."""


def recover(
    accesses: Sequence[tuple[RawAccess, isl.Set]], iterators: frozenset[str], unbounded: frozenset[str] = frozenset()
) -> Shape | None:
    """Dimensions for a linearly subscripted array; None when none are proven.

    `accesses` are all of the scop's, each with where it happens and what is known about the parameters. `unbounded`
    are those of the iterators that may have any value, which no range of an inner dimension has then.
    """
    polys, parts = _polynomials(accesses)
    if len(polys) < len(accesses):
        return None
    for known, named in ((polys, parts), _with_sums(polys, parts, iterators)):
        for chain in _chains(_strides(known, iterators | _moving(named, iterators))):
            shape = _try(chain, known, [where for _, where in accesses], named, unbounded)
            if shape is not None:
                return shape
    return None


def fitting(
    accesses: Sequence[tuple[RawAccess, isl.Set]], iterators: frozenset[str], unbounded: frozenset[str] = frozenset()
) -> isl.Set | None:
    """For which values of parameters dimensions are proven, { [] : … }: those for which every inner subscript lies
    inside its dimension, as `lda >= k` for `A[i*lda + p]` with p < k, or `m >= 0` for `d[0]` among rows of m + 1. None
    where there are none. Of the longest chain of strides; subscripts that are not proven where all extents are positive
    are taken as they stand."""
    known, named = _with_sums(*_polynomials(accesses), iterators)
    chain = next(_chains(_strides(known, iterators | _moving(named, iterators))), None)
    if len(known) < len(accesses) or chain is None:
        return None
    sizes = _sizes(chain)
    if sizes is None:
        return None
    found = isl.Set.universe(accesses[0][1].get_space())
    positive = found
    for size in sizes[1:]:
        positive = positive.intersect(poly_aff(size, named).ge_set(constant_aff(1)))
    for poly, (_, where) in zip(known, accesses, strict=True):
        parts = _split(poly, chain, where, named)
        if parts is None or _mentions(parts[1:], unbounded, named):
            return None
        if _into_range(list(parts), sizes, where, named):
            continue
        if _into_range(list(parts), sizes, where.intersect(positive), named):
            found = found.intersect(positive)
            continue
        for part, size in zip(parts[1:], sizes[1:], strict=True):
            subscript = poly_aff(part, named)
            outside = subscript.lt_set(constant_aff(0)).union(subscript.ge_set(poly_aff(size, named)))
            found = found.subtract(isl.some_values(where.intersect(outside), iterators))
    return None if found.is_empty() else isl.some_values(found, iterators).coalesce()


def _polynomials(accesses: Sequence[tuple[RawAccess, isl.Set]]) -> tuple[list[Poly], dict[str, isl.PwAff]]:
    """Those of the subscripts that are known, and the functions that names in them stand for."""
    values = [value for access, _ in accesses if (value := access.subscripts[0]) is not None]
    parts = {name: function for value in values for name, function in value.parts.items()}
    return [value.poly for value in values if value.poly is not None], parts


def _with_sums(
    polys: Sequence[Poly], parts: Mapping[str, isl.PwAff], iterators: frozenset[str]
) -> tuple[list[Poly], dict[str, isl.PwAff]]:
    """The polynomials, and the functions that names in them stand for, with a name for each sum of parameters that an
    iterator is multiplied by: `i * (m + 1) + j` has rows of m + 1."""
    named, found = dict(parts), list[Poly]()
    for poly in polys:
        factors: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}
        for monomial, number in poly.items():
            moving = tuple(name for name in monomial if name in iterators)
            factors.setdefault(moving, {})[tuple(name for name in monomial if name not in iterators)] = number
        made: dict[tuple[str, ...], int] = {}
        for moving, factor in factors.items():
            if moving and len(factor) > 1 and all(len(rest) <= 1 for rest in factor):
                function = poly_aff(factor, parts)
                named[f"({function})"] = function
                factor = {(f"({function})",): 1}
            made |= {tuple(sorted((*moving, *rest))): number for rest, number in factor.items()}
        found.append(made)
    return found, named


def _moving(parts: Mapping[str, isl.PwAff], iterators: frozenset[str]) -> frozenset[str]:
    """The names of functions that change from iteration to iteration: those of parameters alone are sizes."""
    return frozenset(name for name, of in parts.items() if not iterators.isdisjoint(isl.involved_parameters(of)))


def _strides(polys: Sequence[Poly], iterators: frozenset[str]) -> list[tuple[tuple[str, ...], int]]:
    """Candidate strides > 1, largest first: (product of parameters, number)."""
    found: set[tuple[tuple[str, ...], int]] = set()
    for poly in polys:
        for monomial, coefficient in poly.items():
            if any(name in iterators for name in monomial):
                rest = tuple(name for name in monomial if name not in iterators)
                if rest or abs(coefficient) > 1:
                    found.add((rest, abs(coefficient)))
    return sorted(found, key=lambda stride: (len(stride[0]), stride[1]), reverse=True)[:_MAX_STRIDES]


def _chains(strides: list[tuple[tuple[str, ...], int]]) -> Iterator[tuple[tuple[tuple[str, ...], int], ...]]:
    for length in range(len(strides), 0, -1):
        for chain in combinations(strides, length):
            if all(_ratio(a, b) is not None for a, b in pairwise(chain)):
                yield chain


def _ratio(
    large: tuple[tuple[str, ...], int], small: tuple[tuple[str, ...], int]
) -> tuple[tuple[str, ...], int] | None:
    """large / small when it is a number > 1 or one parameter times a number."""
    rest = list(large[0])
    for name in small[0]:
        if name not in rest:
            return None
        rest.remove(name)
    if large[1] % small[1] or len(rest) > 1:
        return None
    ratio = (tuple(rest), large[1] // small[1])
    return ratio if rest or ratio[1] > 1 else None


def _try(
    chain: Sequence[tuple[tuple[str, ...], int]],
    polys: Sequence[Poly],
    wheres: Sequence[isl.Set],
    named: Mapping[str, isl.PwAff],
    unbounded: frozenset[str],
) -> Shape | None:
    """The shape with these strides (and 1), when every inner subscript is proven to be inside its dimension."""
    sizes = _sizes(chain)
    if sizes is None:
        return None
    found: list[tuple[Poly, ...]] = []
    subscripts: list[tuple[isl.PwAff, ...]] = []
    for poly, where in zip(polys, wheres, strict=True):
        parts = _split(poly, chain, where, named)
        if parts is None or _mentions(parts[1:], unbounded, named) or not _into_range(parts, sizes, where, named):
            digits = _digits(poly, chain, where, unbounded)
            if digits is None:
                return None
            found.append(())
            subscripts.append(digits)
            continue
        found.append(tuple(parts))
        subscripts.append(tuple(poly_aff(part, named) for part in parts))
    return Shape((None, *(poly_aff(size, named) for size in sizes[1:])), tuple(subscripts), tuple(found))


def _digits(
    poly: Poly, chain: Sequence[tuple[tuple[str, ...], int]], where: isl.Set, unbounded: frozenset[str]
) -> tuple[isl.PwAff, ...] | None:
    """The subscripts of an access of a loop that walks over whole rows as one line, `for (l = 0; l < 200; l++) A[l]`:
    quotients and remainders. None for other accesses: what leaves its row need not be meant as one line."""
    moving = [monomial for monomial in poly if monomial]
    if any(names for names, _ in chain) or len(moving) != 1 or len(moving[0]) != 1 or poly[moving[0]] != 1:
        return None
    if moving[0][0] in unbounded:
        return None
    rest = poly_aff(poly)
    values = isl.Map.from_pw_aff(rest.intersect_domain(where)).range()
    ends = None if values.is_empty() else (isl.least(values, 0), isl.greatest(values, 0))
    if ends is None or ends[0] is None or ends[1] is None or ends[0] % chain[0][1] or (ends[1] + 1) % chain[0][1]:
        return None
    found = []
    for _, number in chain:
        found.append(rest.scale_down_val(isl.value(number)).floor())
        rest = rest.mod_val(isl.value(number))
    return (*found, rest)


def _mentions(parts: Sequence[Poly], names: frozenset[str], named: Mapping[str, isl.PwAff]) -> bool:
    """Whether some of the subscripts depend on one of these iterators."""
    return any(names.intersection(isl.involved_parameters(poly_aff(part, named))) for part in parts) if names else False


def _sizes(chain: Sequence[tuple[tuple[str, ...], int]]) -> list[Poly] | None:
    """The extent of each dimension, the first one unknown; None when a stride is no multiple of the next."""
    sizes: list[Poly] = [{}]
    for large, small in pairwise((*chain, ((), 1))):
        ratio = _ratio(large, small)
        if ratio is None:
            return None
        sizes.append({ratio[0]: ratio[1]})
    return sizes


def _into_range(parts: list[Poly], sizes: Sequence[Poly], where: isl.Set, named: Mapping[str, isl.PwAff]) -> bool:
    """Carry multiples of a dimension's size outwards until every inner subscript is proven to be inside.

    Parameters in a constant offset may belong to either side: C - 1 - c, with c < C, is inside a row of C.
    """
    for at in range(len(parts) - 1, 0, -1):
        extent = poly_aff(sizes[at], named)
        for carry in (0, -1, 1):
            candidate = poly_add(parts[at], sizes[at], -carry)
            subscript = poly_aff(candidate, named)
            outside = subscript.lt_set(constant_aff(0)).union(subscript.ge_set(extent))
            if where.is_disjoint(outside):
                parts[at] = candidate
                parts[at - 1] = poly_add(parts[at - 1], poly_number(carry))
                break
        else:
            return False
    return True


def _split(
    poly: Poly, chain: Sequence[tuple[tuple[str, ...], int]], where: isl.Set, named: Mapping[str, isl.PwAff]
) -> list[Poly] | None:
    """The subscripts of one access; None when one is not affine. Their weighted sum is `poly` by construction."""
    parts: list[Poly] = []
    rest = dict(poly)
    for names, number in chain:
        part: dict[tuple[str, ...], int] = {}
        for monomial, coefficient in list(rest.items()):
            left = list(monomial)
            if any(left.count(name) < names.count(name) for name in names):
                continue
            for name in names:
                left.remove(name)
            # the quotient of a constant is found by range below
            if not monomial and not names:
                continue
            quotient = abs(coefficient) // number * (1 if coefficient > 0 else -1)
            if quotient:
                part[tuple(left)] = part.get(tuple(left), 0) + quotient
        rest = dict(poly_add(rest, poly_mul(part, {names: number}), -1))
        if not names and all(len(monomial) <= 1 for monomial in rest):
            shift = _floor_of_minimum(poly_aff(rest, named), where, number)
            if shift:
                part = dict(poly_add(part, poly_number(shift)))
                rest = dict(poly_add(rest, poly_number(shift * number), -1))
        parts.append(part)
    parts.append(rest)
    if any(len(monomial) > 1 for part in parts for monomial in part):
        return None
    return parts


def _floor_of_minimum(function: isl.PwAff, where: isl.Set, number: int) -> int:
    """floor(min over where / number); 0 when there is no constant minimum."""
    values = isl.Map.from_pw_aff(function.intersect_domain(where)).range()
    if values.is_empty():
        return 0
    least = isl.least(values, 0)  # isl's minimum of a function fails on some with integer divisions in their domain
    return 0 if least is None else least // number
