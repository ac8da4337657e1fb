"""Linear equations, solved in fractions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction


def solved(rows: Iterable[Sequence[Fraction]], unknowns: int) -> dict[int, Fraction] | None:
    """By number the unknowns that follow from equations (factors, right-hand side), where those that do not are 0;
    None: nothing solves them."""
    pivots: dict[int, Sequence[Fraction]] = {}
    for given in rows:
        row = given
        for column, pivot in pivots.items():
            row = _without(row, column, pivot)
        first = next((c for c in range(unknowns) if row[c]), None)
        if first is None:
            if row[unknowns]:
                return None
            continue
        row = [a / row[first] for a in row]
        for column, pivot in pivots.items():
            pivots[column] = _without(pivot, first, row)
        pivots[first] = row
    return {column: row[unknowns] for column, row in pivots.items()}


def _without(row: Sequence[Fraction], column: int, pivot: Sequence[Fraction]) -> Sequence[Fraction]:
    """An equation less so much of another one, which has 1 there, that it has 0 in a column."""
    factor = row[column]
    return [a - factor * b for a, b in zip(row, pivot, strict=True)] if factor else row
