"""Whether integers stay within the range of their type, in iterations and for sizes for which they are computed.

Sums, products, negations and conversions to unsigned types are exact modulo 2^bits, whatever wraps on the way: nothing
has to be known for them. Only what observes the number itself asks for its range: comparisons, quotients, remainders,
shifts to the right, conversions to wider types and to floats, subscripts (A. Simon, A. King: "Taming the Wrapping of
Integer Arithmetic", SAS 2007). Signed integers that leave their range are undefined in C.
"""

from __future__ import annotations

from enum import Enum

from polydl.frontend.meaning.affine_terms import constant_aff, symbol_aff
from polydl.model import isl
from polydl.model.types import I32, ElementType

_FEW = 4
"""A subscript that wraps around where no size is larger than this one is not meant as a number that grows with it."""


class Fit(Enum):
    """What is known of an integer where it is computed."""

    SURE = "it lies in the range of its type"
    TAKEN = "it does so unless a size is very large"
    BELOW = "it may be less than the least value"
    BEYOND = "it may be more than the greatest value"


def least(ctype: ElementType) -> int:
    """The least value of an integer type."""
    return 0 if ctype.unsigned else -ctype.maximum - 1


def own_range(name: str, ctype: ElementType) -> isl.Set:
    """The values of a variable of this type."""
    at = symbol_aff(name)
    return at.ge_set(constant_aff(least(ctype))).intersect(at.le_set(constant_aff(ctype.maximum)))


def fit(
    pw: isl.PwAff,
    ctype: ElementType,
    where: isl.Set,
    variables: dict[str, ElementType],
    sizes: frozenset[str],
    *,
    subscript: bool,
) -> Fit:
    """Whether a function of symbols lies in the range of a type where `where` holds. `variables`: the types of symbols;
    `sizes`: those that no loop counts. A `subscript` is bounded by its array as well."""
    below, beyond = _sides(pw, ctype, where, variables)
    if ctype.unsigned and not below.is_empty():
        return Fit.BELOW
    if below.is_empty() and beyond.is_empty():
        return Fit.SURE
    beside = below.union(beyond)
    involved = sizes.intersection(isl.involved_parameters(beside))
    most = constant_aff(_FEW if subscript else 1 << (ctype.bits // 2 - 1))
    for name in involved:
        at = symbol_aff(name)
        beside = beside.intersect(at.le_set(most)).intersect(at.ge_set(most.neg()))
    if involved and ctype.bits >= I32.bits and beside.is_empty():
        return Fit.TAKEN
    return Fit.BEYOND if below.is_empty() else Fit.BELOW


def outside(pw: isl.PwAff, ctype: ElementType, where: isl.Set, variables: dict[str, ElementType]) -> isl.Set:
    """The values of symbols in `where` for which a function of them leaves the range of a type. `variables`: the types
    of those that loops count."""
    below, beyond = _sides(pw, ctype, where, variables)
    return below.union(beyond)


def _sides(
    pw: isl.PwAff, ctype: ElementType, where: isl.Set, variables: dict[str, ElementType]
) -> tuple[isl.Set, isl.Set]:
    """Where a function is less than the least value of a type, and where more than the greatest."""
    below = where.intersect(pw.lt_set(constant_aff(least(ctype))))
    beyond = where.intersect(pw.gt_set(constant_aff(ctype.maximum)))
    if below.is_empty() and beyond.is_empty():
        return below, beyond
    for name, own in variables.items():
        values = own_range(name, own)
        below, beyond = below.intersect(values), beyond.intersect(values)
    return below, beyond


def counted(pw: isl.PwAff, ctype: ElementType, where: isl.Set, sizes: frozenset[str]) -> bool:
    """Whether integers with which the output counts, `int` for types of up to 32 bits and `long` for others, hold a
    function of symbols: for sizes that are as large as those may be it is little more than one of them."""
    bits = 31 if ctype.bits <= I32.bits else 62
    most = constant_aff((1 << bits + 1) - 1 if involved(sizes, pw, where) else (1 << bits) - 1)
    outside = where.intersect(pw.gt_set(most).union(pw.lt_set(most.neg())))
    for name in sizes.intersection(isl.involved_parameters(outside)):
        at, large = symbol_aff(name), constant_aff(1 << min(bits, 32))
        outside = outside.intersect(at.le_set(large)).intersect(at.ge_set(large.neg()))
    return bool(outside.is_empty())


def involved(sizes: frozenset[str], pw: isl.PwAff, where: isl.Set) -> bool:
    """Whether sizes without a value decide about a function of symbols."""
    return not sizes.isdisjoint({*isl.involved_parameters(pw), *isl.involved_parameters(where)})
