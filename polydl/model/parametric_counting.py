"""Numbers of integer points as polynomials of some of the dimensions: of a relation's targets, for each source.

A system is rows of integers over columns, the known ones first, then the variables, then a constant: equalities
`row = 0` and inequalities `row >= 0`. Variables are summed over one after the other. For one of them the rows are
lower and upper bounds; the cases which of these is the greatest, and the least, are disjoint, and in each of them

    sum over low <= x <= high of x^k  =  S_k(high) - S_k(low - 1),    S_k(n) = 0^k + 1^k + … + n^k

with Faulhaber's polynomials S_k (Knuth, "Johann Faulhaber and sums of powers", 1993). A bound whose factor m isn't 1
is the floor of a quotient, which is a polynomial of the variables in it where their factors are multiples of m: others
are cut into residues, y = m*q + r, each a case of its own. The quotients may have no integer between them; the sum is 0
there, since floor(b) >= ceil(a) - 1 whenever b >= a.

barvinok (GPL) counts every such system, by generating functions; this counts those of loop nests in integers alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import comb, gcd

from polydl.base.records import dataclass
from polydl.model import isl

Row = tuple[int, ...]
Symbol = tuple[Row, int]
"""(row, m): floor(row / m) of a row over known columns; a column itself is a row with one 1, and m = 1."""
Monomial = tuple[tuple[Symbol, int], ...]
"""Symbols with their powers, sorted."""
Polynomial = Mapping[Monomial, Fraction]

MOST_CASES = 1000
"""Cases of one count, those on the way to others included; more are of no use to anybody."""

MOST_RESIDUES = 16
"""Residues into which a variable is cut."""


class NotClosedForm(Exception):
    """The number of points is no polynomial that this method finds."""


@dataclass(frozen=True, slots=True)
class Case:
    """Where the count is one polynomial."""

    rows: tuple[Row, ...]
    """Inequalities over the known columns (and the constant) that hold there, beside those of the system."""
    size: Polynomial
    """Of symbols over the known columns; rows as long as those of the system."""


def constant(number: Fraction | int) -> Polynomial:
    """A polynomial without symbols."""
    return {(): Fraction(number)} if number else {}


def affine(row: Row) -> Polynomial:
    """The value of a row."""
    found: dict[Monomial, Fraction] = {}
    for column, factor in enumerate(row[:-1]):
        if factor:
            unit = tuple(int(i == column) for i in range(len(row)))
            found[(((unit, 1), 1),)] = Fraction(factor)
    return {**found, **constant(row[-1])}


def floor_of(row: Row, by: int) -> Polynomial:
    """floor(row / by), by >= 1: what is divisible stands outside of the floor."""
    whole = tuple(a // by for a in row)
    rest = tuple(a % by for a in row)
    divisor = gcd(by, *rest[:-1])
    # floor((g*e + c) / (g*m)) = floor((e + floor(c / g)) / m)
    rest, by = (*(a // divisor for a in rest[:-1]), rest[-1] // divisor), by // divisor
    if not any(rest[:-1]):
        return affine(whole)
    return add(affine(whole), {(((rest, by), 1),): Fraction(1)})


def add(one: Polynomial, other: Polynomial, factor: Fraction | int = 1) -> Polynomial:
    """one + factor * other."""
    found = dict(one)
    for monomial, number in other.items():
        value = found.get(monomial, Fraction(0)) + factor * number
        if value:
            found[monomial] = value
        else:
            found.pop(monomial, None)
    return found


def multiply(one: Polynomial, other: Polynomial) -> Polynomial:
    """one * other."""
    found: dict[Monomial, Fraction] = {}
    for first, a in one.items():
        for second, b in other.items():
            powers = dict(first)
            for symbol, power in second:
                powers[symbol] = powers.get(symbol, 0) + power
            monomial = tuple(sorted(powers.items()))
            found[monomial] = found.get(monomial, Fraction(0)) + a * b
    return {monomial: number for monomial, number in found.items() if number}


def raised(base: Polynomial, power: int) -> Polynomial:
    """base ** power."""
    result = constant(1)
    for _ in range(power):
        result = multiply(result, base)
    return result


def by_powers(of: Polynomial, column: int) -> dict[int, Polynomial]:
    """The factors of each power of a column."""
    found: dict[int, dict[Monomial, Fraction]] = {}
    for monomial, number in of.items():
        power, others = 0, []
        for symbol, exponent in monomial:
            if symbol[1] == 1 and symbol[0][column] == 1:
                power = exponent
            else:
                others.append((symbol, exponent))
        found.setdefault(power, {})[tuple(others)] = number
    return dict(found)


def substituted(of: Polynomial, column: int, value: Polynomial) -> Polynomial:
    """The polynomial with a value in the place of a column."""
    result = constant(0)
    for power, factor in by_powers(of, column).items():
        result = add(result, multiply(factor, raised(value, power)))
    return result


@lru_cache(maxsize=64)
def bernoulli(count: int) -> tuple[Fraction, ...]:
    """The first `count` Bernoulli numbers, that of 1 being +1/2."""
    found: list[Fraction] = []
    for n in range(count):
        total = sum((comb(n + 1, k) * found[k] for k in range(n)), Fraction(0))
        found.append(Fraction(1) if n == 0 else -total / (n + 1))
    return tuple(-b if n == 1 else b for n, b in enumerate(found))


def power_sum(power: int, last: Polynomial) -> Polynomial:
    """S_power(last): 0^power + … + last^power (0^0 is 1)."""
    result = constant(1) if power == 0 else constant(0)
    for k, number in enumerate(bernoulli(power + 1)):
        result = add(result, raised(last, power + 1 - k), Fraction(comb(power + 1, k), power + 1) * number)
    return result


def count(known: int, equalities: Sequence[Row], inequalities: Sequence[Row]) -> list[Case]:
    """The number of values that the variables take for each value of the `known` first columns.

    Cases are disjoint but for the points where the count is 0. Raises NotClosedForm.
    """
    rows = [*equalities, *inequalities]
    if not rows:
        return [Case((), constant(1))]
    work = _Work(known, len(rows[0]) - 1)
    variables = frozenset(range(known, work.width))
    return list(work.summed(variables, list(equalities), list(inequalities), constant(1)))


class _Work:
    """One count: its columns, and the cases made so far."""

    def __init__(self, known: int, width: int) -> None:
        self.known = known
        self.width = width
        self.cases = 0

    def summed(
        self, variables: frozenset[int], equalities: list[Row], inequalities: list[Row], weight: Polynomial
    ) -> Iterator[Case]:
        """Cases of the sum of `weight` over the variables."""
        self.cases += 1
        if self.cases > MOST_CASES:
            raise NotClosedForm(f"more than {MOST_CASES} cases")
        points = isl.basic_set(self.width, equalities, inequalities)
        if points.is_empty():
            return
        equalities, inequalities = isl.rows(points.detect_equalities().remove_redundancies())
        solved = self._solved(variables, equalities, inequalities, weight)
        if solved is not None:
            yield from self.summed(*solved)
            return
        inequalities += [row for one in equalities for row in (one, tuple(-a for a in one))]
        if not variables:
            yield Case(tuple(inequalities), weight)
            return
        column = self._chosen(variables, inequalities)
        if column is None:
            cut, modulus = self._cut(variables, inequalities)
            for residue in range(modulus):
                parts = [
                    (*row[:cut], row[cut] * modulus, *row[cut + 1 : -1], row[-1] + row[cut] * residue)
                    for row in inequalities
                ]
                value = tuple(modulus * int(i == cut) for i in range(self.width))
                yield from self.summed(variables, [], parts, substituted(weight, cut, affine((*value, residue))))
            return
        lower = [row for row in inequalities if row[column] > 0]
        upper = [row for row in inequalities if row[column] < 0]
        others = [row for row in inequalities if not row[column]]
        powers = by_powers(weight, column)
        for i, low in enumerate(lower):
            greatest = [_apart(low, other, column, k < i) for k, other in enumerate(lower) if k != i]
            below = self._quotient(tuple(-a for a in _without(low, column)), low[column], up=True)
            for j, high in enumerate(upper):
                least = [_apart(high, other, column, k < j) for k, other in enumerate(upper) if k != j]
                last = self._quotient(_without(high, column), -high[column], up=False)
                size = constant(0)
                for power, factor in powers.items():
                    between = add(power_sum(power, last), power_sum(power, below), -1)
                    size = add(size, multiply(factor, between))
                room = _combined(low, -high[column], high, low[column])
                yield from self.summed(variables - {column}, [], [*others, *greatest, *least, room], size)

    def _quotient(self, row: Row, by: int, *, up: bool) -> Polynomial:
        """floor(row / by); with `up`, ceil(row / by) - 1: the last value in front of a lower bound."""
        if by == 1:
            return add(affine(row), constant(-1)) if up else affine(row)
        # ceil(e / m) - 1 = floor((e - 1) / m)
        return floor_of((*row[:-1], row[-1] - 1) if up else row, by)

    def _solved(
        self, variables: frozenset[int], equalities: list[Row], inequalities: list[Row], weight: Polynomial
    ) -> tuple[frozenset[int], list[Row], list[Row], Polynomial] | None:
        """The sum without a variable that an equality gives, or with an equality in simpler variables; None where
        none of this is to be done."""
        for place, row in enumerate(equalities):
            own = [x for x in variables if row[x]]
            unit = next((x for x in own if abs(row[x]) == 1), None)
            rest = equalities[:place] + equalities[place + 1 :]
            if unit is not None:
                # x = -sign * (the rest of the row)
                value = tuple(-row[unit] * a for a in _without(row, unit))
                put = [
                    tuple(a + one[unit] * v for a, v in zip(_without(one, unit), value, strict=True)) for one in rest
                ]
                more = [
                    tuple(a + one[unit] * v for a, v in zip(_without(one, unit), value, strict=True))
                    for one in inequalities
                ]
                return variables - {unit}, put, more, substituted(weight, unit, affine(value))
            if len(own) > 1:
                if any(set(by_powers(weight, x)) - {0} for x in own):
                    raise NotClosedForm("an equality between variables of a polynomial")
                return variables, *_reduced(place, own, equalities, inequalities), weight
        return None

    def _chosen(self, variables: frozenset[int], rows: Sequence[Row]) -> int | None:
        """The variable that is summed over next: that of the fewest cases; None where none has bounds that are
        polynomials of the others. Raises NotClosedForm for a variable without bounds."""
        found = []
        for column in sorted(variables):
            own = [row for row in rows if row[column]]
            if all(row[x] % row[column] == 0 for row in own for x in variables):
                lower = sum(row[column] > 0 for row in own)
                found.append((lower * (len(own) - lower), -column))
        if not found:
            return None
        cases, column = min(found)
        if not cases:
            raise NotClosedForm("a variable has no bound")
        return -column

    def _cut(self, variables: frozenset[int], rows: Sequence[Row]) -> tuple[int, int]:
        """The variable, and the modulus, by whose residues the bounds of another become polynomials: the fewest.
        Raises NotClosedForm."""
        found = []
        for column in sorted(variables):
            needed = {
                (abs(row[column]) // gcd(row[column], row[x]), x)
                for row in rows
                for x in variables
                if row[column] and row[x] % row[column]
            }
            found.append((sum(modulus for modulus, _ in needed), min(needed)))
        _, (modulus, cut) = min(found)
        if modulus > MOST_RESIDUES:
            raise NotClosedForm(f"a variable would be cut into {modulus} residues")
        return cut, modulus


def _without(row: Row, column: int) -> Row:
    return (*row[:column], 0, *row[column + 1 :])


def _combined(one: Row, a: int, other: Row, b: int) -> Row:
    """a * one + b * other."""
    return tuple(a * x + b * y for x, y in zip(one, other, strict=True))


def _apart(tightest: Row, other: Row, column: int, strictly: bool) -> Row:
    """That a bound is at least as tight as another one, or tighter: a row without the column."""
    row = _combined(other, abs(tightest[column]), tightest, -abs(other[column]))
    return (*row[:-1], row[-1] - int(strictly))


def _reduced(
    place: int, own: Sequence[int], equalities: Sequence[Row], inequalities: Sequence[Row]
) -> tuple[list[Row], list[Row]]:
    """The system in other variables, as many values of which there are, where an equality has one of them only
    (unimodular column operations; Schrijver 1986, section 4.1)."""
    lists = [list(row) for row in (*equalities, *inequalities)]
    pivot = lists[place]
    while len(left := [x for x in own if pivot[x]]) > 1:
        least = min(left, key=lambda x: abs(pivot[x]))
        for x in left:
            if x != least:
                quotient = pivot[x] // pivot[least]
                for row in lists:
                    row[x] -= quotient * row[least]
    made = [tuple(row) for row in lists]
    return made[: len(equalities)], made[len(equalities) :]
