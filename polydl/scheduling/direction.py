"""How a loop of a schedule moves through memory."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import islpy as isl

from polydl.model.contraction import linear_strides
from polydl.model.isl import to_int
from polydl.model.scop import Scop, Statement


def coefficients(aff: isl.Aff, depth: int) -> list[int] | None:
    """Coefficient of each iterator; None for an expression with divisions."""
    if aff.dim(isl.dim_type.div) != 0:
        return None
    values = [aff.get_coefficient_val(isl.dim_type.in_, d) for d in range(depth)]
    return [to_int(v) for v in values] if all(v.is_int() for v in values) else None


def direction(rows: Sequence[Sequence[int]], v: int, depth: int) -> list[Fraction] | None:
    """The step in the iteration space that moves row `v` by one and the other rows not at all; None when the rows do
    not say (fewer than the iterators, or dependent ones)."""
    matrix = [[Fraction(x) for x in row] + [Fraction(int(i == v))] for i, row in enumerate(rows)]
    at = 0
    pivots = []
    for column in range(depth):
        pivot = next((i for i in range(at, len(matrix)) if matrix[i][column]), None)
        if pivot is None:
            return None
        matrix[at], matrix[pivot] = matrix[pivot], matrix[at]
        matrix[at] = [x / matrix[at][column] for x in matrix[at]]
        for i in range(len(matrix)):
            if i != at and matrix[i][column]:
                factor = matrix[i][column]
                matrix[i] = [x - factor * y for x, y in zip(matrix[i], matrix[at], strict=True)]
        pivots.append(column)
        at += 1
    if any(row[-1] for row in matrix[at:]):
        return None
    return [matrix[i][-1] for i in range(depth)]


def unit_score(scop: Scop, statement: Statement, affs: Sequence[isl.Aff], v: int) -> float:
    """How well a statement runs in vectors along a loop: the mean over its accesses of 1 (unit stride, or no move) or
    less (gathers); a store that does not move counts as bad. 0 when nothing is known."""
    rows = [coefficients(aff, statement.depth) for aff in affs]
    known = [row for row in rows if row is not None]
    if len(known) != len(rows):
        return 0.0
    step = direction(known, v, statement.depth)
    if step is None:
        return 0.0
    total = 0.0
    count = 0
    for access in statement.accesses:
        if scop.arrays[access.array].is_scalar:
            continue
        strides = linear_strides(scop, statement, access)
        count += 1
        if strides is None:
            continue
        moved = sum(s * strides[name] for s, name in zip(step, statement.iterators, strict=True))
        total += 1.0 if moved == 1 else (0.1 if access.write else 0.9) if moved == 0 else 0.3 if moved == -1 else 0.02
    return total / count if count else 1.0
