"""Counting integer points of polytopes given as rows of integers: exact, in closed form where the shape allows it.

A row over n variables is a tuple of n + 1 integers (a0, …, an-1, c): the equality a·x + c = 0 or the inequality
a·x + c >= 0. Nothing here knows isl; `polydl.model.counting` turns isl sets into rows.

Method: equalities are removed by unimodular column operations (Hermite normal form, Schrijver 1986, section 4.1);
what is left falls apart into groups of variables that share no inequality, whose counts are multiplied. A group of
one variable is an interval; one of two is a polygon, summed by the Euclid-like floor sum (Graham, Knuth, Patashnik,
Concrete Mathematics, section 3.5) between the corners of its boundary; of a larger one the variable of least range
is enumerated, within a budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd

Row = tuple[int, ...]


class BudgetExhausted(Exception):
    """More values would have to be enumerated than the budget allows."""


class Unbounded(Exception):
    """The set has infinitely many points (or no bound could be found for a variable)."""


class Budget:
    """Number of enumerated values that a count may still take."""

    def __init__(self, remaining: int) -> None:
        self.remaining = remaining

    def spend(self, values: int) -> None:
        """Take `values` out of the budget. Raises BudgetExhausted when they are not there."""
        if values > self.remaining:
            raise BudgetExhausted
        self.remaining -= values


def count_points(
    width: int, equalities: Sequence[Sequence[int]], inequalities: Sequence[Sequence[int]], budget: Budget
) -> int:
    """Number of points of Z^width that satisfy every row. Rows: see the module's docstring.

    Raises Unbounded and BudgetExhausted.
    """
    reduced = remove_equalities(width, equalities, inequalities)
    return 0 if reduced is None else _count(*reduced, budget)


def remove_equalities(
    width: int, equalities: Sequence[Sequence[int]], inequalities: Sequence[Sequence[int]]
) -> tuple[int, list[Row]] | None:
    """Number of new variables, and inequalities over them with as many integer points as the system.

    None when the equalities alone have no integer solution.
    """
    pending = [list(row) for row in equalities]
    rows = [list(row) for row in inequalities]
    while pending:
        pivot_row = pending.pop()
        while True:
            nonzero = [j for j, a in enumerate(pivot_row[:-1]) if a]
            if len(nonzero) <= 1:
                break
            j = min(nonzero, key=lambda position: abs(pivot_row[position]))
            for i in nonzero:
                if i != j:
                    quotient = pivot_row[i] // pivot_row[j]
                    for row in (pivot_row, *pending, *rows):
                        row[i] -= quotient * row[j]
        if not nonzero:
            if pivot_row[-1]:
                return None
            continue
        j = nonzero[0]
        value, remainder = divmod(-pivot_row[-1], pivot_row[j])
        if remainder:
            return None
        for row in (*pending, *rows):
            row[-1] += row[j] * value
            del row[j]
        width -= 1
    return width, [tuple(row) for row in rows]


def floor_sum(n: int, a: int, b: int, m: int) -> int:
    """Sum of floor((a*i + b) / m) over 0 <= i < n, m > 0, in O(log m) steps."""
    if n <= 0:
        return 0
    total = 0
    sign = 1
    while True:
        total += sign * ((a // m) * (n * (n - 1) // 2) + (b // m) * n)
        a, b = a % m, b % m
        top = a * n + b
        if top < m:
            return total
        # Count the lattice points under the line the other way round, by columns of the transposed triangle.
        rows = top // m
        total += sign * rows * n
        n, a, b, m, sign = rows, m, m - b - 1 + a, a, -sign
        # sum over i < n of floor((a i + b)/m) = rows*n - sum over j < rows of floor((m j + m - b - 1 + a)/a)


def _normalise(rows: Sequence[Row]) -> list[Row] | None:
    """Tightened rows, one for each normal vector; None when one of them, or two opposite ones, cannot hold."""
    tightest: dict[Row, int] = {}
    for row in rows:
        normal, constant = row[:-1], row[-1]
        divisor = gcd(*normal)
        if divisor == 0:
            if constant < 0:
                return None
            continue
        if divisor > 1:
            normal, constant = tuple(a // divisor for a in normal), constant // divisor
        known = tightest.get(normal)
        if known is None or constant < known:
            tightest[normal] = constant
    for normal, constant in tightest.items():
        opposite = tightest.get(tuple(-a for a in normal))
        if opposite is not None and opposite + constant < 0:
            return None
    return [(*normal, constant) for normal, constant in tightest.items()]


def _groups(rows: Sequence[Row], width: int) -> list[list[int]]:
    """Variables partitioned into groups that share no row."""
    owner = list(range(width))

    def find(i: int) -> int:
        while owner[i] != i:
            owner[i] = owner[owner[i]]
            i = owner[i]
        return i

    for row in rows:
        first = -1
        for j in range(width):
            if row[j]:
                if first < 0:
                    first = find(j)
                else:
                    owner[find(j)] = first
    groups: dict[int, list[int]] = {}
    for j in range(width):
        groups.setdefault(find(j), []).append(j)
    return list(groups.values())


def _count(width: int, rows: Sequence[Row], budget: Budget) -> int:
    """Points of a system of inequalities: the product over its independent groups."""
    normalised = _normalise(rows)
    if normalised is None:
        return 0
    counts = []
    for group in _groups(normalised, width):
        part = [(*(row[j] for j in group), row[-1]) for row in normalised if any(row[j] for j in group)]
        # Small groups first: an empty one saves the work for the others.
        counts.append((len(group), part))
    total = 1
    for size, part in sorted(counts, key=lambda item: item[0]):
        total *= _count_group(part, size, budget)
        if total == 0:
            return 0
    return total


def _count_group(rows: list[Row], size: int, budget: Budget) -> int:
    """Points of one group of `size` variables that share inequalities."""
    if size == 1:
        low, high = _interval(rows)
        return max(0, high - low + 1)
    shifted = _straighten(rows, size)
    if shifted is not None:
        return _count(size, shifted, budget)
    if size == 2:
        return _polygon(rows)
    ranges = _ranges(rows, size)
    chosen = min(range(size), key=lambda j: ranges[j][1] - ranges[j][0])
    low, high = ranges[chosen]
    if high < low:
        return 0
    budget.spend(high - low + 1)
    total = 0
    for value in range(low, high + 1):
        fixed = [(*row[:chosen], *row[chosen + 1 : -1], row[-1] + row[chosen] * value) for row in rows]
        total += _count(size - 1, fixed, budget)
    return total


def _interval(rows: Sequence[Row]) -> tuple[int, int]:
    """Least and greatest value of the only variable. Raises Unbounded."""
    low: int | None = None
    high: int | None = None
    for a, c in rows:
        if a > 0:
            bound = -(c // a)
            low = bound if low is None else max(low, bound)
        elif a < 0:
            bound = c // -a
            high = bound if high is None else min(high, bound)
        elif c < 0:
            return 1, 0
    if low is None or high is None:
        raise Unbounded
    return low, high


def _straighten(rows: list[Row], size: int) -> list[Row] | None:
    """The same count with one variable made independent, when all its bounds move together: l <= x - f(y) <= u.

    x' = x - f(y) is a unimodular change of variables, so that tiles (0 <= i - 16*q <= 15) fall apart.
    """
    for j in range(size):
        form: Row | None = None
        for row in rows:
            a = row[j]
            if a == 0:
                continue
            if abs(a) != 1:
                break
            current = tuple(a * row[i] if i != j else 0 for i in range(size))
            if form is None:
                form = current
            elif form != current:
                break
        else:
            if form is None or not any(form):
                continue
            # Rows with x are ±(x + form·y) + c: they become ±x' + c.
            return [(*(row[j] if i == j else 0 for i in range(size)), row[-1]) if row[j] else row for row in rows]
    return None


def _polygon(rows: Sequence[Row]) -> int:
    """Integer points of a polygon { (x, y) }: for every x the y between its bounds, summed piece by piece."""
    lower = [(a, c, b) for a, b, c in rows if b > 0]  # b*y >= -(a*x + c)
    upper = [(a, c, -b) for a, b, c in rows if b < 0]  # -b*y <= a*x + c
    if not lower or not upper:
        raise Unbounded
    across = [(a, c) for a, b, c in rows if b == 0]
    # Where a real y exists (Fourier-Motzkin): the x that the sum runs over.
    across += [(a0 * b1 + a1 * b0, c0 * b1 + c1 * b0) for a0, c0, b0 in lower for a1, c1, b1 in upper]
    low, high = _interval(across)
    if high < low:
        return 0
    above = _sum_of_least(upper, low, high)
    below = _sum_of_least(lower, low, high)
    return above + below + (high - low + 1)


def _sum_of_least(lines: Sequence[tuple[int, int, int]], low: int, high: int) -> int:
    """Sum over low <= x <= high of the least floor((a*x + c) / b) of the lines (a, c, b), b > 0."""
    cuts = {high}
    for i, (a0, c0, b0) in enumerate(lines):
        for a1, c1, b1 in lines[:i]:
            slope = a0 * b1 - a1 * b0
            if slope:
                corner = (c1 * b0 - c0 * b1) // slope
                if low <= corner < high:
                    cuts.add(corner)
    total = 0
    start = low
    for end in sorted(cuts):
        # Between two corners one line is lowest throughout: look half way.
        middle = start + end
        a, c, b = min(lines, key=lambda line: Fraction(line[0] * middle + 2 * line[1], 2 * line[2]))
        total += floor_sum(end - start + 1, a, a * start + c, b)
        start = end + 1
    return total


def _ranges(rows: Sequence[Row], size: int) -> list[tuple[int, int]]:
    """Bounds on each variable, not always the tightest (bound propagation). Raises Unbounded."""
    low: list[int | None] = [None] * size
    high: list[int | None] = [None] * size
    # A chain of n variables needs n rounds to carry a bound through; more rounds only tighten.
    for _ in range(size + 1):
        for row in rows:
            for j in range(size):
                if row[j] == 0:
                    continue
                # row[j]*x_j >= -(c + the most that the others can give)
                most = row[-1]
                for i in range(size):
                    if i == j or row[i] == 0:
                        continue
                    extreme = high[i] if row[i] > 0 else low[i]
                    if extreme is None:
                        break
                    most += row[i] * extreme
                else:
                    if row[j] > 0:
                        bound = -(most // row[j])
                        known = low[j]
                        low[j] = bound if known is None else max(known, bound)
                    else:
                        bound = most // -row[j]
                        known = high[j]
                        high[j] = bound if known is None else min(known, bound)
    found = []
    for least, greatest in zip(low, high, strict=True):
        if least is None or greatest is None:
            raise Unbounded
        found.append((least, greatest))
    return found
