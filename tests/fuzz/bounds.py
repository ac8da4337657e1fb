"""Bounds of integers as polynomials of the sizes, none of which is negative: what is known of subscripts while a
program is generated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class Poly:
    """A polynomial of sizes."""

    terms: tuple[tuple[tuple[str, ...], int], ...] = ()
    """Of each product of sizes, in the order of their names, the factor, which is not zero."""

    @staticmethod
    def of(value: int | str) -> Poly:
        """A number, or a size by its name."""
        return _poly({((value,) if isinstance(value, str) else ()): 1 if isinstance(value, str) else value})

    def __add__(self, other: Poly | int) -> Poly:
        terms = dict(self.terms)
        for names, factor in _as_poly(other).terms:
            terms[names] = terms.get(names, 0) + factor
        return _poly(terms)

    def __neg__(self) -> Poly:
        return _poly({names: -factor for names, factor in self.terms})

    def __sub__(self, other: Poly | int) -> Poly:
        return self + -_as_poly(other)

    def __mul__(self, other: Poly | int) -> Poly:
        terms: dict[tuple[str, ...], int] = {}
        for a, x in self.terms:
            for b, y in _as_poly(other).terms:
                names = tuple(sorted(a + b))
                terms[names] = terms.get(names, 0) + x * y
        return _poly(terms)

    def join(self, other: Poly) -> Poly:
        """At least as large as both."""
        a, b = dict(self.terms), dict(other.terms)
        return _poly({names: max(a.get(names, 0), b.get(names, 0)) for names in a.keys() | b.keys()})

    @property
    def constant(self) -> int:
        return dict(self.terms).get((), 0)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for names, _ in self.terms for name in names)

    @property
    def never_negative(self) -> bool:
        return all(factor > 0 for _, factor in self.terms)

    def value(self, sizes: Mapping[str, int]) -> int:
        return sum(factor * prod(sizes[name] for name in names) for names, factor in self.terms)

    def most(self, sizes: Mapping[str, int]) -> int:
        """No value is larger where no size exceeds these."""
        return sum(
            factor * prod(sizes[name] for name in names) for names, factor in self.terms if factor > 0 or not names
        )

    def least(self, sizes: Mapping[str, int]) -> int:
        return -(-self).most(sizes)

    def text(self) -> str:
        """In C, without parentheses around a sum."""
        said = ""
        for names, factor in sorted(self.terms, key=lambda term: (-len(term[0]), -term[1], term[0])):
            size = " * ".join((*([str(abs(factor))] if abs(factor) != 1 or not names else []), *names))
            said += f" {'-' if factor < 0 else '+'} {size}" if said else f"{'-' if factor < 0 else ''}{size}"
        return said or "0"

    def factor(self) -> str:
        """In C, as an operand."""
        text = self.text()
        return f"({text})" if " " in text or text.startswith("-") else text


def _as_poly(value: Poly | int) -> Poly:
    return value if isinstance(value, Poly) else Poly.of(value)


def _poly(terms: Mapping[tuple[str, ...], int]) -> Poly:
    return Poly(tuple(sorted((names, factor) for names, factor in terms.items() if factor)))
