"""What may be computed again for each use of it."""

from __future__ import annotations

from polydl.model.expr import Call, Convert, Expr, operands

_CHEAP = frozenset(
    {"fmin", "fmax", "fabs", "rint", "nearbyint", "lrint", "round", "lround", "floor", "ceil", "trunc"}
)  # fmt: skip
"""Functions of <math.h>, those with an f behind too, that are an instruction or a few: computed again for each use."""
MOST = 1000
"""Operations in an expression at most. Each use of a temporary repeats what it holds, which compilers find, and search
for."""


def is_slow(value: Expr) -> bool:
    """Whether an expression calls a function that is more than a few instructions."""
    call = isinstance(value, Call) and value.function.removesuffix("f") not in _CHEAP
    return call or any(map(is_slow, operands(value)))


def expression_size(value: Expr) -> int:
    """Operations and operands, conversions apart."""
    if isinstance(value, Convert):
        return expression_size(value.operand)
    return 1 + sum(map(expression_size, operands(value)))
