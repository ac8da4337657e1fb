"""Floating-point operations of a program, counted from its statements."""

from __future__ import annotations

from polydl.model.counting import Count, count, total
from polydl.model.expr import Binary, Call, Conditional, Convert, Expr, Unary
from polydl.model.scop import Assignment, MicrokernelCall, Scop, Statement

_ARITHMETIC = frozenset("+-*/")


def operations(scop: Scop) -> Count | None:
    """Floating-point operations of the statements, each as often as it runs; None where the code does not say it.

    Raises QuotaExceeded.
    """
    found = []
    for statement in scop.statements:
        parts = statement.body.inner if isinstance(statement.body, MicrokernelCall) else (statement,)
        for part in parts:
            once = _of_one_instance(scop, part)
            if once is None:
                return None
            found.append(count(part.domain) * once)
    return total(found)


def _of_one_instance(scop: Scop, statement: Statement) -> int | None:
    body = statement.body
    if not isinstance(body, Assignment):
        return None
    if scop.arrays[statement.target.array].element.is_int:
        return 0
    return _in(body.value) + (body.op != "=")


def _in(value: Expr) -> int:
    match value:
        case Binary(op, left, right):
            return (op in _ARITHMETIC) + _in(left) + _in(right)
        case Unary(_, operand) | Convert(_, _, operand):
            return _in(operand)
        case Call(_, arguments):
            return 1 + sum(map(_in, arguments))
        case Conditional(_, then, otherwise):
            return max(_in(then), _in(otherwise))
        case _:
            return 0
