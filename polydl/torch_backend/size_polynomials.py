"""Numbers that depend on the sizes of a graph's inputs, as polynomials: what regions are laid out with at each size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from polydl.torch_backend.sized_programs import Size


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of products of sizes."""

    terms: tuple[tuple[int, tuple[int, ...]], ...]
    """Of each product its factor, and the numbers of the sizes in it, one for each time that it is there."""

    def at(self, sizes: Sequence[int]) -> int:
        """Its value where the sizes have these."""
        return sum(factor * prod(sizes[n] for n in each) for factor, each in self.terms)

    def most(self, sizes: Sequence[int]) -> int:
        """What it is at most where no size is negative or more than these."""
        return sum(factor * prod(sizes[n] for n in each) for factor, each in self.terms if factor > 0 or not each)


Number = int | Polynomial


def number(value: int) -> Number:
    """An integer or a `Size` as a number."""
    if not isinstance(value, Size):
        return int(value)
    *factors, constant = value.factors
    return _made(Counter({(n,): factor for n, factor in enumerate(factors)} | {(): constant}))


def numbers(values: Any) -> Any:
    """Tuples of integers, sizes and others, with numbers in place of sizes."""
    if isinstance(values, tuple):
        return tuple(map(numbers, values))
    return number(values) if isinstance(values, Size) else values


def plus(one: Number, other: Number) -> Number:
    """The sum."""
    found = Counter(_terms(one))
    for each, factor in _terms(other).items():
        found[each] += factor
    return _made(found)


def times(one: Number, other: Number) -> Number:
    """The product."""
    found: Counter[tuple[int, ...]] = Counter()
    for a, p in _terms(one).items():
        for b, q in _terms(other).items():
            found[tuple(sorted((*a, *b)))] += p * q
    return _made(found)


def elements(sizes: Sequence[int], strides: Sequence[int]) -> Number:
    """Elements from the first to behind the last of a tensor that is not empty: `graph_values.Value.elements`."""
    found: Number = 1
    for size, stride in zip(sizes, strides, strict=True):
        found = plus(found, times(plus(number(size), -1), number(stride)))
    return found


def product(values: Sequence[int]) -> Number:
    """The product of integers and sizes."""
    found: Number = 1
    for one in values:
        found = times(found, number(one))
    return found


def _terms(value: Number) -> dict[tuple[int, ...], int]:
    if isinstance(value, Polynomial):
        return {each: factor for factor, each in value.terms}
    return {(): value} if value else {}


def _made(found: Counter[tuple[int, ...]]) -> Number:
    terms = tuple((factor, each) for each, factor in sorted(found.items()) if factor)
    if not terms:
        return 0
    return terms[0][0] if len(terms) == 1 and not terms[0][1] else Polynomial(terms)
