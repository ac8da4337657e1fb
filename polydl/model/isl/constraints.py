"""Constraints: made from linear expressions, and read as rows of integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from polydl.model.isl.affine_functions import linear
from polydl.model.isl.isl_types import (
    DEFAULT_CONTEXT,
    DIV,
    IN,
    OUT,
    PARAM,
    SET,
    Aff,
    BasicMap,
    BasicSet,
    Constraint,
    Dim,
    Factors,
    Map,
    Mat,
    Set,
    dim_type,
    to_int,
    unnamed_space,
    value,
)
from polydl.model.isl.positions import position_of

Rows: TypeAlias = Sequence[Sequence[int]]


def interval(low: int, high: int) -> Set:
    """{ [x] : low <= x <= high }."""
    of = Set.universe(unnamed_space(1)).lower_bound_val(SET, 0, value(low))
    return of.upper_bound_val(SET, 0, value(high))


def not_negative(of: BasicSet, factors: Factors, number: int = 0) -> BasicSet:
    """The points where the sum of dimensions times factors, plus a number, is at least 0."""
    return of.add_constraint(Constraint.inequality_from_aff(linear(of.get_space(), factors, number)))


def meet(of: Map, source: Aff, target: Aff) -> Map:
    """The pairs for which a function of the source has the value of a function of the target."""
    return of.intersect(Map.from_aff(source).apply_range(Map.from_aff(target).reverse()))


def divisions(of: BasicSet | Aff) -> int:
    """Number of integer divisions, or other existential variables, in the description of a set or function."""
    return int(of.dim(DIV))


def equalities(of: BasicSet) -> list[Aff]:
    """The affine expressions without integer divisions that are 0 in the whole set, as it is given."""
    return [c.get_aff() for c in of.get_constraints() if c.is_equality() and not c.dim(DIV)]


def is_box(of: BasicSet) -> bool:
    """Whether no constraint has an integer division or bounds more than one dimension: a product of intervals."""
    return not of.dim(DIV) and all(
        sum(constraint.involves_dims(SET, i, 1) for i in range(of.dim(SET))) <= 1 for constraint in of.get_constraints()
    )


def is_apart(of: Set, dim: Dim) -> bool:
    """Whether a set is one interval of values of a dimension for each point of the others, the same one for all."""
    found = of.coalesce().get_basic_sets()
    at = position_of(of, SET, dim)
    others = [i for i in range(of.dim(SET)) if i != at]
    return len(found) == 1 and not any(
        c.dim(DIV) or any(c.involves_dims(SET, i, 1) for i in others) or c.involves_dims(PARAM, 0, c.dim(PARAM))
        for c in found[0].get_constraints()
        if c.involves_dims(SET, at, 1)
    )


def _rows(matrix: Mat) -> list[tuple[int, ...]]:
    columns = range(matrix.cols())
    return [tuple(to_int(matrix.get_element_val(r, c)) for c in columns) for r in range(matrix.rows())]


def rows(of: BasicSet) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Equalities (= 0) and inequalities (>= 0) of a set without parameters: the factors of its dimensions, of its
    existential variables, the constant.

    For every existential variable q = floor(e / m), m*q <= e <= m*q + m - 1 is among them, which isl leaves out when
    it finds it implied by the definition of q.
    """
    inequalities = _rows(of.inequalities_matrix(*_COLUMNS))
    for at, (numerator, modulus) in enumerate(definitions(of)):
        lower = list(numerator)
        lower[of.dim(SET) + at] -= modulus
        inequalities += [tuple(lower), (*(-a for a in lower[:-1]), modulus - 1 - lower[-1])]
    return _rows(of.equalities_matrix(*_COLUMNS)), inequalities


_COLUMNS = (SET, DIV, PARAM, dim_type.cst)


def definitions(of: BasicSet) -> list[tuple[tuple[int, ...], int]]:
    """(e, m) of every existential variable floor(e / m): e as a row of `rows`."""
    dimensions, divisions = of.dim(SET), of.dim(DIV)
    found = []
    for at in range(divisions):
        definition = of.get_div(at)
        modulus = definition.get_denominator_val()
        scaled = definition.scale_val(modulus)
        numerator = (
            *(to_int(scaled.get_coefficient_val(IN, i)) for i in range(dimensions)),
            *(to_int(scaled.get_coefficient_val(DIV, i)) for i in range(divisions)),
            to_int(scaled.get_constant_val()),
        )
        found.append((numerator, to_int(modulus)))
    return found


def basic_set(size: int, equalities: Rows, inequalities: Rows) -> BasicSet:
    """{ [x0, …] } of `size` dimensions from rows of their factors and a constant: equal to 0, at least 0."""
    equal, at_least = (_matrix(rows_, size + 1) for rows_ in (equalities, inequalities))
    return BasicSet.from_constraint_matrices(unnamed_space(size), equal, at_least, *_COLUMNS)


def _matrix(numbers: Rows, columns: int) -> Mat:
    matrix = Mat.alloc(DEFAULT_CONTEXT, len(numbers), columns)
    for r, row in enumerate(numbers):
        for c, number in enumerate(row):
            matrix = matrix.set_element_val(r, c, value(number))
    return matrix


def openscop_rows(of: BasicMap) -> tuple[tuple[int, int, int], list[tuple[int, ...]]]:
    """(output, input, existential dimensions), and a row for each constraint as OpenScop has it: 1 for an inequality,
    the factors of these dimensions and of the parameters, the constant."""
    columns = (OUT, IN, DIV, PARAM, dim_type.cst)
    equal = [(0, *row) for row in _rows(of.equalities_matrix(*columns))]
    return (of.dim(OUT), of.dim(IN), of.dim(DIV)), [
        *equal,
        *((1, *row) for row in _rows(of.inequalities_matrix(*columns))),
    ]
