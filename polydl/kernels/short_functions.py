"""Which functions in a value that is stored as a half or bfloat16 may be computed by shorter polynomials.

Such a function is wrong by less than a hundredth of a unit in the last place of a half (`vector_text.SHORT_ULPS`), and
the result is within 0.51 units of the exact one where that is all that comes through: products, quotients and signs
pass a relative error on as it is, and the sum of something positive and a positive number makes it smaller. Where more
comes together, and in all other operations, functions stay as exact as for floats:

    1 / (1 + exp(-x)), x * (1 + tanh(y)), c ? x : a * exp(x)      but not      1 - tanh(x), exp(x) - 1, exp(x) / tanh(y)

(1 + tanh(x) has a function of its own, `Vector.plus_one`.)
"""

from __future__ import annotations

from polydl.kernels.narrow_values import number_of
from polydl.kernels.vector_text import beside_one
from polydl.model.expr import Binary, Call, Conditional, Convert, Expr, Unary, every_part
from polydl.model.functions import Function, function_of
from polydl.model.types import F32


def shortened(value: Expr) -> frozenset[Call]:
    """The calls in a float that is rounded to 16 bits next."""
    parts = list(every_part(value))
    return frozenset(call for call in _passed_on(value) if parts.count(call) == 1)


def _passed_on(value: Expr) -> frozenset[Call]:
    """The calls whose relative error the value has at most; of what it is made of, each part has one of them."""
    match value:
        case Call() if (row := _row(value)) is not None and row.vector is not None and row.vector.short:
            return frozenset({value})
        case Unary("-" | "+", operand):
            return _passed_on(operand)
        case Convert(source, target, operand) if source is target is F32:
            return _passed_on(operand)
        case Binary("*" | "/", left, right):
            one, other = _passed_on(left), _passed_on(right)
            return one | other if not (one and other) else frozenset()
        case Binary("+") if (call := beside_one(value)) is not None:
            return _passed_on(call)
        case Binary("+", left, right):
            for number, positive in ((number_of(left), right), (number_of(right), left)):
                if number is not None and number >= 0 and _is_positive(positive):
                    return _passed_on(positive)
            return frozenset()
        case Conditional(_, then, otherwise):
            return _passed_on(then) | _passed_on(otherwise)
        case _:
            return frozenset()


def _is_positive(value: Expr) -> bool:
    row = _row(value) if isinstance(value, Call) else None
    return row is not None and row.powers


def _row(call: Call) -> Function | None:
    row = function_of(call.function)
    return row if row is not None and call.function == row.of(F32) else None
