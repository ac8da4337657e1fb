"""Programs of a group at several sizes of a model as one program whose sizes are parameters.

The loops of a group are made for numbers. At other sizes they are the same loops with other numbers, and those that
differ are affine in the sizes: n of them and one are found from n + 1 points and must agree at all others that are
looked at. Where anything else differs (a loop that is there at some sizes only, a remainder that depends on whether a
size is even) there is no such program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

from polydl.model.types import I32, ElementType
from polydl.torch_backend.loop_index import Index
from polydl.torch_backend.loop_program import At, Const, Expr, Op


class DiffersError(Exception):
    """Why programs are not one, as a sentence about a group."""


class Size(int):
    """An affine function of sizes. As a number, what it is at the first point; as text, C."""

    names: tuple[str, ...]
    factors: tuple[int, ...]
    """Of each name, and what is added."""

    @classmethod
    def of(cls, value: int, names: tuple[str, ...], factors: tuple[int, ...]) -> Size:
        made = cls(value)
        made.names, made.factors = names, factors
        return made

    def at(self, values: Sequence[int]) -> int:
        """Its value where the sizes have these."""
        *factors, constant = self.factors
        return sum(n * value for n, value in zip(factors, values, strict=True)) + constant

    def __bool__(self) -> bool:
        return True

    def __neg__(self) -> Size:
        return Size.of(-int(self), self.names, tuple(-n for n in self.factors))

    def __abs__(self) -> Size:
        return -self if int(self) < 0 else self

    def __add__(self, other: int) -> Size:
        *factors, constant = self.factors
        return Size.of(int(self) + int(other), self.names, (*factors, constant + int(other)))

    def __str__(self) -> str:
        *factors, constant = self.factors
        named = [(n, name) for n, name in zip(factors, self.names, strict=True) if n]
        words = [f"{'-' if n < 0 else '+'} {f'{abs(n)} * ' if abs(n) != 1 else ''}{name}" for n, name in named]
        words += [f"{'-' if constant < 0 else '+'} {abs(constant)}"] if constant else []
        text = " ".join(words)
        text = text.removeprefix("+ ") if text.startswith("+") else text.replace("- ", "-", 1)
        return text if text in self.names else f"({text})"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


def at_sizes(value: Any, values: Sequence[int]) -> Any:
    """Tuples with numbers in the place of sizes."""
    if isinstance(value, Size):
        return value.at(values)
    return tuple(at_sizes(one, values) for one in value) if isinstance(value, tuple) else value


Fit = Callable[[Sequence[int]], Size]
"""The affine function that gives these numbers at the points, one of them for each. Raises DiffersError."""


def fit_of(names: tuple[str, ...], points: Sequence[tuple[int, ...]]) -> Fit:
    """Points: values of the sizes; the first ones, one more than there are sizes, must be in general position."""
    rows = [[Fraction(value) for value in (*point, 1)] for point in points]

    def fit(values: Sequence[int]) -> Size:
        needed = len(names) + 1
        factors = _solved(rows[:needed], [Fraction(int(one)) for one in values[:needed]])
        found = [sum(a * b for a, b in zip(row, factors, strict=True)) for row in rows]
        if found != list(values) or any(one.denominator != 1 for one in factors):
            raise DiffersError(f"it has numbers that are not affine in sizes: {', '.join(map(str, values))}")
        return Size.of(int(values[0]), names, tuple(int(one) for one in factors))

    return fit


def _solved(rows: Sequence[Sequence[Fraction]], values: Sequence[Fraction]) -> list[Fraction]:
    """The solution of as many linear equations as there are unknowns (Gauss, Jordan)."""
    left = [[*row, value] for row, value in zip(rows, values, strict=True)]
    for k in range(len(left)):
        pivot = next(i for i in range(k, len(left)) if left[i][k])
        left[k], left[pivot] = left[pivot], left[k]
        left[k] = [one / left[k][k] for one in left[k]]
        for i, row in enumerate(left):
            if i != k:
                left[i] = [a - row[k] * b for a, b in zip(row, left[k], strict=True)]
    return [row[-1] for row in left]


def united(samples: Sequence[Any], fit: Fit) -> Any:
    """One of several values of the same form, numbers that differ as functions of the sizes. Raises DiffersError."""
    return _United(fit).of(samples)


class _United:
    def __init__(self, fit: Fit) -> None:
        self._fit = fit
        self._made: dict[tuple[int, ...], Any] = {}
        """What has an identity: arrays."""

    def of(self, samples: Sequence[Any]) -> Any:
        first = samples[0]
        if any(type(one) is not type(first) for one in samples):
            raise DiffersError("it has other loops at other sizes")
        if isinstance(first, Const):
            return self._constant(samples)
        if isinstance(first, ElementType):
            return self._same(samples)
        if is_dataclass(first) and not isinstance(first, type):
            identity = tuple(map(id, samples))
            if identity not in self._made:
                parts = {one.name: self.of([getattr(s, one.name) for s in samples]) for one in fields(first)}
                self._made[identity] = replace(first, **parts)
            return self._made[identity]
        if isinstance(first, tuple | list):
            if any(len(one) != len(first) for one in samples):
                raise DiffersError("it has other loops at other sizes")
            return type(first)(self.of(each) for each in zip(*samples, strict=True))
        if isinstance(first, frozenset):
            return frozenset(self.of([sorted(one, key=repr) for one in samples]))
        if type(first) is int and any(one != first for one in samples):
            return self._fit(samples)
        return self._same(samples)

    def _same(self, samples: Sequence[Any]) -> Any:
        if any(one != samples[0] for one in samples):
            raise DiffersError("it has other loops at other sizes")
        return samples[0]

    def _constant(self, samples: Sequence[Const]) -> Expr:
        """A number of an expression; one that differs is computed of sizes."""
        first = samples[0]
        values = [one.value for one in samples]
        if any(one.type is not first.type for one in samples):
            raise DiffersError("it has other loops at other sizes")
        if all(repr(one) == repr(first.value) for one in values):
            return first
        if any(int(one) != one for one in values):
            raise DiffersError(f"it has numbers that are not affine in sizes: {', '.join(map(str, values))}")
        size = At(Index((), self._fit([int(one) for one in values])))
        return size if first.type is I32 else Op("cast", (size,), first.type)
