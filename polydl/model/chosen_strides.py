"""Strides of elements that data choose: `table[ids[i]][j]` moves by one element along j, and by an unknown number along
i."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polydl.model import isl
from polydl.model.expr import AffineValue, Binary, Const, Convert, Expr, Gather, Load, Unary, every_part, operands
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.strides import affine_rows, distances
from polydl.model.types import literal_value

Moves = tuple[int | None, ...]
"""By how much a value moves along each loop; None where that is not known."""


def chosen_strides(scop: Scop, statement: Statement) -> Mapping[int, Moves]:
    """The strides of a statement's reads that data choose, in elements along each of its loops, by the number of the
    access."""
    if not isinstance(statement.body, Assignment):
        return {}
    gathers = [one for one in every_part(statement.body.value) if isinstance(one, Gather)]
    found: dict[int, Moves] = {}
    for one in gathers:
        access = statement.accesses[one.element.access]
        rows = [_moves(scop, statement, subscript) for subscript in one.subscripts]
        array = scop.arrays[access.array]
        if len(rows) == array.layout.rank:
            known = distances(array, [[move or 0 for move in row] for row in rows], statement.depth)
            each = zip(*rows, strict=True)
            found[one.element.access] = tuple(
                None if None in moves or not isinstance(distance, int) else distance
                for moves, distance in zip(each, known, strict=True)
            )
    return found


def _moves(scop: Scop, statement: Statement, value: Expr) -> Moves:
    match value:
        case Const():
            return (0,) * statement.depth
        case AffineValue(function):
            pieces = isl.pieces(function.gist(statement.domain))
            factors = isl.coefficients(pieces[0][1]) if len(pieces) == 1 else None
            return (None,) * statement.depth if factors is None else tuple(factors)
        case Convert(_, _, operand) | Unary("+", operand):
            return _moves(scop, statement, operand)
        case Unary("-", operand):
            return tuple(None if move is None else -move for move in _moves(scop, statement, operand))
        case Binary("+" | "-" as op, left, right):
            sign = 1 if op == "+" else -1
            both = zip(_moves(scop, statement, left), _moves(scop, statement, right), strict=True)
            return tuple(None if a is None or b is None else a + sign * b for a, b in both)
        case Binary("*", left, right):
            for one, other in ((left, right), (right, left)):
                factor = _number(other)
                if factor is not None:
                    return tuple(None if m is None else factor * m for m in _moves(scop, statement, one))
        case Load(access):
            return _stays(scop, statement, access)
        case Gather(Load(access), subscripts) if not _is_written(scop, statement.accesses[access].array):
            return _all_stay([_moves(scop, statement, one) for one in subscripts], statement.depth)
    return _all_stay([_moves(scop, statement, one) for one in operands(value)], statement.depth)


def _stays(scop: Scop, statement: Statement, number: int) -> Moves:
    """0 for each loop along which an access reads the same element, of an array that the program does not write."""
    access = statement.accesses[number]
    rows = affine_rows(statement, access) if access.exact else None
    if rows is None or _is_written(scop, access.array):
        return (None,) * statement.depth
    return tuple(None if any(row[name] for row, _ in rows) else 0 for name in statement.iterators)


def _is_written(scop: Scop, array: str) -> bool:
    return any(a.array == array and a.write for s in scop.statements for a in s.accesses)


def _all_stay(several: Sequence[Moves], depth: int) -> Moves:
    return tuple(0 if all(moves[d] == 0 for moves in several) else None for d in range(depth))


def _number(value: Expr) -> int | None:
    match value:
        case AffineValue(function):
            return isl.to_int(function.max_val()) if function.is_cst() else None
        case Const(text):
            number = literal_value(text)
            return int(number) if number is not None and number == int(number) else None
    return None
