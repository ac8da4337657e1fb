"""Strides of a schedule's loops: how far each access moves per iteration, and how well it would run in vectors."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from polydl.model import isl
from polydl.model.contraction import linear_strides
from polydl.model.scop import Access, Scop, Statement


def direction(rows: Sequence[Sequence[int]], v: int, depth: int) -> list[Fraction] | None:
    """The step in the iteration space that changes the value of row `v` by one and of no other row; None when the rows
    do not determine it (fewer rows than iterators, or dependent ones)."""
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


def moves(scop: Scop, statement: Statement, access: Access, affs: Sequence[isl.Aff], v: int) -> Fraction | None:
    """Elements by which an access moves when loop `v` advances by one and the others stay; None when unknown."""
    rows = [isl.coefficients(aff) for aff in affs]
    known = [row for row in rows if row is not None]
    step = direction(known, v, statement.depth) if len(known) == len(rows) else None
    strides = linear_strides(scop, statement, access) if step is not None else None
    if step is None or strides is None:
        return None
    return sum((s * strides[name] for s, name in zip(step, statement.iterators, strict=True)), Fraction(0))


_STRIDED = 0.15
"""What is left of the speed of vectors where an access jumps from line to line."""

_NEAR = 4
"""Elements of a step after which a vector is still put together from neighbouring ones."""


def unit_score(scop: Scop, statement: Statement, affs: Sequence[isl.Aff], v: int) -> float:
    """How well a statement runs in vectors along a loop: the mean over its accesses of 1 (unit stride), or less (no
    move; a store that does not move counts as bad), and a fraction of that where any of them jumps. 0 when nothing is
    known."""
    scores = []
    jumps = False
    for access in statement.accesses:
        if scop.arrays[access.array].is_scalar:
            continue
        moved = moves(scop, statement, access, affs, v)
        if moved is None or abs(moved) > _NEAR:
            jumps = True
            scores.append(0.0)
        else:
            scores.append(1.0 if moved == 1 else (0.1 if access.write else 0.9) if moved == 0 else 0.3)
    if not scores:
        return 1.0
    return sum(scores) / len(scores) * (_STRIDED if jumps else 1.0)
