"""Whether two expressions are equal over the real numbers: by exact arithmetic on rational functions.

What is no arithmetic is an unknown. An exponential of a sum is a product of powers of unknowns, so that
`exp(a - m) * exp(m - n)` is `exp(a - n)`; a comparison makes two cases, in each of which all is a rational function
again. Expressions name unknowns by `Const`, and are equal where numerators and denominators multiplied crosswise are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from math import isfinite

from polydl.base.records import dataclass
from polydl.model.combiners import FMAX, FMIN, of_function
from polydl.model.expr import Binary, Call, Conditional, Const, Convert, Expr, Unary, every_part
from polydl.model.functions import FMA, function_of
from polydl.model.polynomials import poly_add, poly_mul
from polydl.model.types import literal_value

Monomial = frozenset[tuple[str, Fraction]]
"""Unknowns with their powers, none of which is 0."""
Polynomial = Mapping[Monomial, Fraction]
"""Factors of monomials, none of which is 0."""
_ONE: Monomial = frozenset()
_UNIT: Polynomial = {_ONE: Fraction(1)}


class NoAlgebra(Exception):
    """An expression is no rational function of unknowns and exponentials."""


class _Undecided(Exception):
    """A comparison whose outcome makes two cases."""

    def __init__(self, difference: Polynomial) -> None:
        self.difference = difference


@dataclass(frozen=True, slots=True)
class Ratio:
    """A rational function."""

    above: Polynomial
    below: Polynomial

    def __add__(self, other: Ratio) -> Ratio:
        if self.below == other.below:
            return Ratio(poly_add(self.above, other.above), self.below)
        one, two = _product(self.above, other.below), _product(other.above, self.below)
        return Ratio(poly_add(one, two), _product(self.below, other.below))

    def __mul__(self, other: Ratio) -> Ratio:
        return Ratio(_product(self.above, other.above), _product(self.below, other.below))

    def __neg__(self) -> Ratio:
        return Ratio(_negative(self.above), self.below)

    def __truediv__(self, other: Ratio) -> Ratio:
        if not other.above:
            raise NoAlgebra
        if len(other.above) == 1:
            ((monomial, factor),) = other.above.items()
            inverse = {frozenset((name, -power) for name, power in monomial): 1 / factor}
            return self * Ratio(_product(inverse, other.below), _UNIT)
        return self * Ratio(other.below, other.above)

    @property
    def polynomial(self) -> Polynomial:
        """Itself, where nothing but a monomial is below. Raises NoAlgebra."""
        whole = Ratio(self.above, _UNIT) / Ratio(self.below, _UNIT)
        if whole.below != _UNIT:
            raise NoAlgebra
        return whole.above

    def same(self, other: Ratio) -> bool:
        """Whether both are one function."""
        return _product(self.above, other.below) == _product(other.above, self.below)


def unknown(name: str) -> Ratio:
    """An unknown."""
    return Ratio({frozenset({(name, Fraction(1))}): Fraction(1)}, _UNIT)


def number(value: int | Fraction) -> Ratio:
    """A constant."""
    return Ratio({_ONE: Fraction(value)} if value else {}, _UNIT)


@dataclass(slots=True)
class Case:
    """Expressions where some differences are known to be positive, or zero."""

    values: Mapping[str, Expr | Ratio]
    """What stands for unknowns."""
    positive: list[Polynomial]

    def value(self, of: Expr) -> Ratio:
        """The rational function that an expression is in this case. Raises NoAlgebra."""
        match of:
            case Const(text):
                if text in self.values:
                    known = self.values[text]
                    return known if isinstance(known, Ratio) else self.value(known)
                literal = literal_value(text)
                if literal is not None and not isfinite(literal):
                    raise NoAlgebra
                return unknown(text) if literal is None else number(Fraction(literal))
            case Unary("+", operand) | Convert(_, _, operand):
                return self.value(operand)
            case Unary("-", operand):
                return -self.value(operand)
            case Binary("+", left, right):
                return self.value(left) + self.value(right)
            case Binary("-", left, right):
                return self.value(left) + -self.value(right)
            case Binary("*", left, right):
                return self.value(left) * self.value(right)
            case Binary("/", left, right):
                return self.value(left) / self.value(right)
            case Conditional(condition, then, otherwise):
                return self.value(then if self.holds(condition) else otherwise)
            case Call(function, arguments):
                return self._called(function, arguments)
        raise NoAlgebra

    def _called(self, function: str, arguments: tuple[Expr, ...]) -> Ratio:
        row, combiner = function_of(function), of_function(function)
        if row is not None and row.powers:
            found = number(1)
            for monomial, power in self.value(arguments[0]).polynomial.items():
                base = f"{row.name}({sorted(monomial, key=str)})"
                found = found * Ratio({frozenset({(base, power)}): Fraction(1)}, _UNIT)
            return found
        if combiner is FMAX or combiner is FMIN:
            one, two = arguments
            return self.value(one if self.holds(Binary(">" if combiner is FMAX else "<", one, two)) else two)
        if row is FMA:
            first, second, third = map(self.value, arguments)
            return first * second + third
        raise NoAlgebra

    def holds(self, condition: Expr) -> bool:
        """Whether a comparison holds: where both sides are equal, either answer is given."""
        match condition:
            case Unary("!", operand):
                return not self.holds(operand)
            case Binary(">" | ">=", left, right):
                return self._is_more(left, right)
            case Binary("<" | "<=", left, right):
                return self._is_more(right, left)
        raise NoAlgebra

    def _is_more(self, left: Expr, right: Expr) -> bool:
        difference = (self.value(left) + -self.value(right)).polynomial
        if not difference or self._known(difference):
            return True
        if self._known(_negative(difference)):
            return False
        raise _Undecided(difference)

    def _known(self, difference: Polynomial) -> bool:
        return difference in self.positive or any(
            poly_add(one, two) == difference for one in self.positive for two in self.positive
        )


def cases(values: Mapping[str, Expr | Ratio], tried: Callable[[Case], bool]) -> bool:
    """Whether something holds in all cases that it makes by comparing. Raises NoAlgebra."""
    todo: list[list[Polynomial]] = [[]]
    while todo:
        positive = todo.pop()
        try:
            if not tried(Case(values, positive)):
                return False
        except _Undecided as asked:
            todo += [[*positive, asked.difference], [*positive, _negative(asked.difference)]]
    return True


def equal(pairs: Mapping[str, tuple[Expr, Expr]], values: Mapping[str, Expr | Ratio]) -> bool:
    """Whether expressions are equal pair by pair, with values for some unknowns; False where one is no algebra.

    Where the sides of a comparison are equal, either outcome is taken: of expressions that are continuous there, and of
    which at least one side of a pair is, that is no other function.
    """
    try:
        return cases(values, lambda case: all(case.value(a).same(case.value(b)) for a, b in pairs.values()))
    except NoAlgebra:
        return False


def unknowns(value: Expr) -> Iterator[str]:
    """The names in an expression."""
    return (one.text for one in every_part(value) if isinstance(one, Const) and literal_value(one.text) is None)


def _negative(of: Polynomial) -> Polynomial:
    return poly_add({}, of, -1)


def _product(one: Polynomial, two: Polynomial) -> Polynomial:
    return poly_mul(one, two, lambda a, b: frozenset(poly_add(dict(a), dict(b)).items()))
