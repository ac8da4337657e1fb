"""The instructions of a statement, and the cycles of neighbouring instances of it in vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from polydl.model.expr import Binary, Call, Conditional, Expr, Load, operands
from polydl.model.scop import Assignment, Statement

RATE = 2.0
"""Simple arithmetic instructions, scalar or vector, that a core completes per cycle."""
_LOADS = 1.5
"""Loads and stores it completes for one arithmetic instruction."""
SLOW = {"/": 13.0, "%": 25.0}
"""Cycles from operands to the result of the operators that are not pipelined well (uops.info: 13 to 15 for doubles)."""
CALL = 20.0
"""Cycles of a call of libm."""
LIBRARY_VECTOR_CALL = 45.0
"""Cycles of a call of a function's vector form in libm's vector library, which keeps no register (six of them and a
square root in 330 cycles, Zen 4: tests/everyday/black_scholes.c)."""
VECTOR_CALL = 20.0
"""Vector instructions of a mathematical function in a row (templates/microkernel_math.c.j2)."""
INLINE = {
    "sqrt": 15.0,
    **dict.fromkeys(("fabs", "fmax", "fmin", "floor", "ceil", "trunc", "rint", "nearbyint"), 0.0),
}
"""Functions that are instructions, and their cycles."""
VECTOR_FORMS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("cos", "exp", "log", "pow", "sin"), (2, 22)),
    **dict.fromkeys(
        (
            "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cosh", "erf", "erfc", "exp2", "expm1",
            "hypot", "log10", "log1p", "log2", "sinh", "tan", "tanh",
        ),
        (2, 35),
    ),
}  # fmt: skip
"""Functions of <math.h>, in double, that glibc's libmvec has for vectors of doubles and floats on x86, and the version
since which it has."""
_NEAR = 4
"""Elements of a step after which a vector is still put together from neighbouring ones."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The instructions of one instance of a statement."""

    simple: float
    """Instructions that are pipelined."""
    slow: float
    """Cycles of divisions, square roots and remainders, each by itself."""
    calls: int
    """Calls of functions that are no instructions."""
    scalar_calls: int
    """Those among them that have no vector forms."""


NOTHING = Arithmetic(0.0, 0.0, 0, 0)
"""No instructions."""


def arithmetic(statement: Statement) -> Arithmetic:
    """Of one instance."""
    body = statement.body
    if not isinstance(body, Assignment):
        return Arithmetic(10.0, 0.0, 1, 1)
    found = _arithmetic(body.value)
    own = _arithmetic(Binary(body.op[:-1], Load(0), Load(0))) if body.op != "=" else NOTHING
    return _added([found, own])


def _arithmetic(value: Expr) -> Arithmetic:
    inside = _added([_arithmetic(one) for one in operands(value)])
    match value:
        case Binary(op) if op in SLOW:
            return replace(inside, slow=inside.slow + SLOW[op])
        case Binary() | Conditional():
            return replace(inside, simple=inside.simple + 1.0)
        case Call(function) if (own := INLINE.get(function.removesuffix("f"))) is not None:
            return replace(inside, simple=inside.simple + 1.0, slow=inside.slow + own)
        case Call(function):
            scalar = int(not {function, function.removesuffix("f")} & VECTOR_FORMS.keys())
            return replace(inside, calls=inside.calls + 1, scalar_calls=inside.scalar_calls + scalar)
        case _:
            return inside


def _added(several: Sequence[Arithmetic]) -> Arithmetic:
    return Arithmetic(
        sum(one.simple for one in several),
        sum(one.slow for one in several),
        sum(one.calls for one in several),
        sum(one.scalar_calls for one in several),
    )


def vector_cycles(ops: Arithmetic, moves: Sequence[tuple[float | None, float]], lanes: int, call: float) -> float:
    """Cycles of `lanes` neighbouring instances of a statement, in vectors of as many.

    `moves`: per access that does not stay in a register the elements from one instance to the next (None: not known),
    and the part of its loads and stores that is left. `call`: of one function that is no instruction, for all lanes.
    """
    memory = 0.0
    for move, share in moves:
        steps = abs(move) if move is not None else math.inf
        memory += share * (1.0 if lanes == 1 or steps == 1 else steps if steps <= _NEAR else 2.0 * lanes)
    return (ops.simple + memory / _LOADS) / RATE + ops.slow / 2 * max(1.0, lanes / 2) + ops.calls * call
