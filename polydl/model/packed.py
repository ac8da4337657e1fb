"""Addresses that are polynomials of subscripts: `i*(i + 1)/2 + j`, of a triangle that is packed row by row.

Such an address is the place of an element among all those that come before it in lexicographic order of subscripts,
so that different elements have different addresses; who makes a `Packed` proves that. Everything but memory itself
(dependences, domains) sees the subscripts alone, which are affine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from polydl.base.records import dataclass
from polydl.model.polynomials import Rational, evaluated, poly_add, rational, substituted


def subscript(dimension: int) -> str:
    """The name of a subscript in the terms of an address; no identifier of C."""
    return f"#{dimension}"


@dataclass(frozen=True, slots=True)
class Packed:
    """An address as a polynomial of subscripts and parameters, which grows in lexicographic order of the subscripts
    that are used, and is that of the last one plus others."""

    rank: int
    """Dimensions of the array."""
    terms: tuple[tuple[tuple[str, ...], Fraction], ...]
    """Monomials over `subscript(d)` and parameters, with their coefficients, in elements of the array."""

    @classmethod
    def of(cls, rank: int, address: Rational) -> Packed:
        """An address, with its terms in one order."""
        return cls(rank, tuple(sorted(address.items())))

    @property
    def address(self) -> Rational:
        """The polynomial."""
        return dict(self.terms)

    def sized(self, sizes: Mapping[str, int]) -> Packed:
        """With numbers in the place of parameters."""
        values = {name: rational({(): size} if size else {}) for name, size in sizes.items()}
        return Packed.of(self.rank, substituted(self.address, values))

    def at(self, subscripts: Sequence[Rational]) -> Rational:
        """The address of an element, elements from the start of the array."""
        return substituted(self.address, {subscript(d): one for d, one in enumerate(subscripts)})

    def offset(self, subscripts: Sequence[int]) -> int | None:
        """The same for numbers; None where parameters have no values."""
        values = {subscript(d): one for d, one in enumerate(subscripts)}
        if any(name not in values for monomial, _ in self.terms for name in monomial):
            return None
        return int(evaluated(self.address, values))

    def distance(self, moves: Sequence[int]) -> int | None:
        """Elements between a place and the one whose subscripts are `moves` further; None where that depends on the
        place."""
        here: list[Rational] = [{(subscript(d),): Fraction(1)} for d in range(self.rank)]
        there = [poly_add(one, rational({(): move} if move else {})) for one, move in zip(here, moves, strict=True)]
        found = poly_add(self.at(there), self.at(here), -1)
        return int(found.get((), 0)) if all(monomial == () for monomial in found) else None
