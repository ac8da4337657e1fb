"""The least affine functions of symbols: iterators and parameters alike are isl parameters (see affine.py)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from polydl.model import isl
from polydl.model.polynomials import Poly


def universe() -> isl.Set:
    """{ [] }: no constraint on any symbol."""
    return isl.Set.universe(isl.unnamed_space(0))


@lru_cache(maxsize=1024)
def symbol_aff(name: str) -> isl.PwAff:
    """The symbol itself, as a function of symbols."""
    return isl.PwAff.from_aff(isl.parameter(name))


@lru_cache(maxsize=1024)
def constant_aff(value: int) -> isl.PwAff:
    """A number."""
    return isl.PwAff.from_aff(isl.constant(isl.unnamed_space(0), value))


def poly_aff(poly: Poly, parts: Mapping[str, isl.PwAff] | None = None) -> isl.PwAff:
    """The affine function of a polynomial of degree <= 1; `parts`: as in Value."""
    result = constant_aff(poly.get((), 0))
    for monomial, coefficient in poly.items():
        if monomial:
            named = (parts or {}).get(monomial[0])
            function = symbol_aff(monomial[0]) if named is None else named
            result = result.add(function.scale_val(isl.value(coefficient)))
    return result
