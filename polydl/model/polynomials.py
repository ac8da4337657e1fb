"""Polynomials: sums of monomials, by what these are, with their factors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from itertools import product as every_of
from typing import Any, TypeVar

Poly = Mapping[tuple[str, ...], int]
"""Over identifiers: monomial (sorted names) -> coefficient; zero coefficients are left out."""
Rational = Mapping[tuple[str, ...], Fraction]
"""The same with fractions: n/2 + n*n/2."""
_M = TypeVar("_M", bound=Hashable)
_N = TypeVar("_N", int, Fraction)


def poly_number(value: int) -> Poly:
    """A constant."""
    return {(): value} if value else {}


def poly_add(left: Mapping[_M, _N], right: Mapping[_M, _N], factor: _N | int = 1) -> Mapping[_M, _N]:
    """left + factor * right."""
    out = dict(left)
    for monomial, coefficient in right.items():
        out[monomial] = out.get(monomial, 0) + factor * coefficient
    return {monomial: c for monomial, c in out.items() if c}


def _sorted(one: Any, two: Any) -> Any:
    return tuple(sorted((*one, *two)))


def poly_mul(
    left: Mapping[_M, _N], right: Mapping[_M, _N], product: Callable[[_M, _M], _M] = _sorted
) -> Mapping[_M, _N]:
    """left * right; `product`: of two monomials, which are sorted factors if it is not given."""
    out: dict[_M, _N] = {}
    for a, x in left.items():
        for b, y in right.items():
            monomial = product(a, b)
            out[monomial] = out.get(monomial, 0) + x * y
    return {monomial: c for monomial, c in out.items() if c}


def rational(poly: Mapping[tuple[str, ...], int | Fraction]) -> Rational:
    """A polynomial as one with fractions."""
    return {monomial: Fraction(coefficient) for monomial, coefficient in poly.items()}


def whole(poly: Rational) -> Poly | None:
    """A polynomial whose coefficients are whole numbers; None for others."""
    if any(coefficient.denominator != 1 for coefficient in poly.values()):
        return None
    return {monomial: int(coefficient) for monomial, coefficient in poly.items()}


def degree(poly: Mapping[tuple[str, ...], object]) -> int:
    """The number of factors of the longest monomial; 0 of zero."""
    return max(map(len, poly), default=0)


def substituted(poly: Rational, values: Mapping[str, Rational]) -> Rational:
    """The polynomial with others in the place of some of its names."""
    total: Rational = {}
    for monomial, coefficient in poly.items():
        term: Rational = {tuple(name for name in monomial if name not in values): coefficient}
        for name in monomial:
            if name in values:
                term = poly_mul(term, values[name])
        total = poly_add(total, term)
    return total


_MOST_POINTS = 2048
"""Points at which a polynomial is evaluated: 4^5 and some more."""


def is_integer_valued(poly: Rational) -> bool:
    """Whether a polynomial is a whole number for all whole numbers: it is where it is one for 0, 1, …, d of each name,
    d the degree in that name, as its differences there are its coefficients of products of binomials (Polya 1915).
    False where these are too many numbers to try."""
    degrees: Counter[str] = Counter()
    for monomial in poly:
        degrees |= Counter(monomial)
    if math.prod(most + 1 for most in degrees.values()) > _MOST_POINTS:
        return False
    for point in every_of(*(range(most + 1) for most in degrees.values())):
        at = dict(zip(degrees, point, strict=True))
        if evaluated(poly, at).denominator != 1:
            return False
    return True


def evaluated(poly: Rational, at: Mapping[str, int]) -> Fraction:
    """The value of a polynomial for numbers in the place of all of its names."""
    return sum((c * math.prod(at[name] for name in monomial) for monomial, c in poly.items()), Fraction(0))


def summed(poly: Rational, over: str) -> Rational:
    """The polynomial s(t) = p(0) + p(1) + … + p(t - 1) of p(t), `over` being t (Faulhaber): of t the sum is
    t*(t - 1)/2."""
    powers: dict[int, Rational] = {}
    for monomial, coefficient in poly.items():
        rest = tuple(name for name in monomial if name != over)
        power = len(monomial) - len(rest)
        powers[power] = poly_add(powers.get(power, {}), {rest: coefficient})
    total: Rational = {}
    for power, factor in powers.items():
        total = poly_add(total, poly_mul(factor, _sum_of_powers(power, over)))
    return total


def _sum_of_powers(power: int, over: str) -> Rational:
    """0^p + 1^p + … + (t - 1)^p: as t^(p+1) is the sum of (x + 1)^(p+1) - x^(p+1) over x < t, it is what the sums of
    lower powers leave of that, by p + 1."""
    found: Rational = {(over,) * (power + 1): Fraction(1)}
    for lower in range(power):
        found = poly_add(found, _sum_of_powers(lower, over), Fraction(-math.comb(power + 1, lower)))
    return {monomial: c / (power + 1) for monomial, c in found.items()}
