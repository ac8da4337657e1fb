"""Integers that subscripts and conditions of a group are made of: affine in loop variables, with floors and remainders
by constants, and elements of arrays of indices. Sums are kept in one form, so that equal ones compare equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any


@dataclass(frozen=True, slots=True)
class Var:
    """A loop variable, which counts from 0."""

    number: int
    """Tells variables of a group apart, and orders them."""
    extent: int
    """One above its largest value."""
    axis: int = -1
    """Which axis of the domain it runs over, or a reduction's loop stands for; -1: none."""
    weight: int = 1
    """Of one of several loops that a loop is taken apart into: what it counts by."""


@dataclass(frozen=True, slots=True)
class Quotient:
    """floor(of / by)."""

    of: Index
    by: int


@dataclass(frozen=True, slots=True)
class Remainder:
    """of - by * floor(of / by)."""

    of: Index
    by: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """An integer that data choose: the value of an expression."""

    value: Any
    """A `loop_program.Expr` of an integer type."""
    most: int
    """It is between 0 and this."""
    variables: frozenset[Var]
    """On which it depends."""


Atom = Var | Quotient | Remainder | Chosen


def _order(atom: Atom) -> tuple[int, str]:
    return (0, f"{atom.number:09}") if isinstance(atom, Var) else (1, repr(atom))


@dataclass(frozen=True, slots=True)
class Index:
    """A sum of atoms times whole numbers, and of a number."""

    terms: tuple[tuple[Atom, int], ...]
    """In one order, without zeros."""
    constant: int = 0

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.constant + other)
        return _sum((*self.terms, *other.terms), self.constant + other.constant)

    def __sub__(self, other: Index | int) -> Index:
        return self + other * -1

    def __mul__(self, by: int) -> Index:
        return Index(tuple((atom, n * by) for atom, n in self.terms), self.constant * by) if by else ZERO

    def __floordiv__(self, by: int) -> Index:
        if by == 1:
            return self
        whole = Index(tuple((atom, n // by) for atom, n in self.terms if n % by == 0), self.constant // by)
        rest = Index(tuple((atom, n) for atom, n in self.terms if n % by), self.constant % by)
        low, high = rest.range
        if low // by == high // by:
            return whole + int(low // by)
        common = gcd(by, *(n for _, n in rest.terms))
        if common > 1:
            return whole + rest._scaled_down(common) // (by // common)
        (atom, n), *others = rest.terms
        if isinstance(atom, Quotient) and n == 1 and not others and rest.constant == 0:
            return whole + atom.of // (atom.by * by)
        below = -min(int(low // by), 0)  # C rounds quotients to 0: no negative ones
        return whole - below + Index(((Quotient(rest + below * by, by), 1),))

    def __mod__(self, by: int) -> Index:
        rest = Index(tuple((atom, n) for atom, n in self.terms if n % by), self.constant % by)
        low, high = rest.range
        if low // by == high // by:
            return rest - int(low // by) * by
        common = gcd(by, *(n for _, n in rest.terms))
        if common > 1:
            return rest._scaled_down(common) % (by // common) * common + rest.constant % common
        below = -min(int(low // by), 0)
        return Index(((Remainder(rest + below * by, by), 1),))

    def _scaled_down(self, by: int) -> Index:
        return Index(tuple((atom, n // by) for atom, n in self.terms), self.constant // by)

    @property
    def range(self) -> tuple[float, float]:
        """Bounds of its values."""
        low: float = self.constant
        high: float = self.constant
        for atom, n in self.terms:
            least, most = range_of(atom)
            low += n * least if n > 0 else n * most
            high += n * most if n > 0 else n * least
        return low, high

    @property
    def variables(self) -> frozenset[Var]:
        found: frozenset[Var] = frozenset()
        for atom, _ in self.terms:
            found |= variables_of(atom)
        return found

    @property
    def number(self) -> int | None:
        """The number that it is; None if it depends on something."""
        return None if self.terms else self.constant

    def replaced(self, by: Mapping[Var, Index], value: Callable[[Any], Any] = lambda expression: expression) -> Index:
        """With other indices in place of variables; `value` does the same to expressions that choose."""
        found = number(self.constant)
        for atom, n in self.terms:
            match atom:
                case Var():
                    one = by.get(atom) or Index(((atom, 1),))
                case Quotient(of, divisor):
                    one = of.replaced(by, value) // divisor
                case Remainder(of, divisor):
                    one = of.replaced(by, value) % divisor
                case Chosen(expression, most, variables):
                    inner: frozenset[Var] = frozenset()
                    for name in variables:
                        inner |= by[name].variables if name in by else {name}
                    one = Index(((Chosen(value(expression), most, inner), 1),))
            found += one * n
        return found


def _sum(terms: Iterable[tuple[Atom, int]], constant: int) -> Index:
    found: dict[Atom, int] = {}
    for atom, n in terms:
        found[atom] = found.get(atom, 0) + n
    return Index(tuple(sorted(((a, n) for a, n in found.items() if n), key=lambda term: _order(term[0]))), constant)


def range_of(atom: Atom) -> tuple[float, float]:
    """Bounds of its values."""
    match atom:
        case Var():
            return 0, max(atom.extent - 1, 0)
        case Quotient():
            low, high = atom.of.range
            return low // atom.by, high // atom.by
        case Remainder():
            return 0, atom.by - 1
        case Chosen():
            return 0, atom.most


def variables_of(atom: Atom) -> frozenset[Var]:
    """The loop variables on which it depends."""
    match atom:
        case Var():
            return frozenset({atom})
        case Quotient() | Remainder():
            return atom.of.variables
        case Chosen():
            return atom.variables


def number(value: int) -> Index:
    return Index((), value)


def of_var(var: Var) -> Index:
    """A variable as an index; 0 for one of a single iteration."""
    return Index(((var, 1),)) if var.extent > 1 else ZERO


ZERO = Index(())


def linear(index: Iterable[Index], strides: Iterable[int]) -> Index:
    """The sum of subscripts times strides."""
    found = ZERO
    for one, stride in zip(index, strides, strict=True):
        found += one * stride
    return found


def delinearized(place: Index, sizes: tuple[int, ...]) -> tuple[Index, ...]:
    """The subscripts of an element of a contiguous tensor by its place in memory."""
    found = []
    for size in reversed(sizes):
        found.append(place % size if size > 1 else ZERO)
        place //= size
    return tuple(reversed(found))
