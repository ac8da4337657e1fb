"""What may be computed again for each use of it."""

from __future__ import annotations

from polydl.model.expr import Call, Convert, Expr, operands
from polydl.model.functions import function_of

MOST = 1000
"""Operations in an expression at most. Each use of a temporary repeats what it holds, which compilers find, and search
for."""


def is_slow(value: Expr) -> bool:
    """Whether an expression calls a function that is more than a few instructions."""
    if isinstance(value, Call):
        row = function_of(value.function)
        if row is None or not row.cheap:
            return True
    return any(map(is_slow, operands(value)))


def expression_size(value: Expr) -> int:
    """Operations and operands, conversions apart."""
    if isinstance(value, Convert):
        return expression_size(value.operand)
    return 1 + sum(map(expression_size, operands(value)))
