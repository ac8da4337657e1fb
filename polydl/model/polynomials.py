"""Polynomials: sums of monomials, by what these are, with their factors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from typing import Any, TypeVar

Poly = Mapping[tuple[str, ...], int]
"""Over identifiers: monomial (sorted names) -> coefficient; zero coefficients are left out."""
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
