"""Polynomials over identifiers, with integer coefficients."""

from __future__ import annotations

from collections.abc import Mapping

Poly = Mapping[tuple[str, ...], int]
"""Monomial (sorted names) -> coefficient; zero coefficients are left out."""


def poly_add(left: Poly, right: Poly, factor: int = 1) -> Poly:
    """left + factor * right."""
    out = dict(left)
    for monomial, coefficient in right.items():
        out[monomial] = out.get(monomial, 0) + factor * coefficient
    return {monomial: c for monomial, c in out.items() if c}


def poly_mul(left: Poly, right: Poly) -> Poly:
    """left * right."""
    out: dict[tuple[str, ...], int] = {}
    for a, x in left.items():
        for b, y in right.items():
            monomial = tuple(sorted((*a, *b)))
            out[monomial] = out.get(monomial, 0) + x * y
    return {monomial: c for monomial, c in out.items() if c}
