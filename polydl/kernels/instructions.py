"""The instructions of a statement, and the cycles of neighbouring instances of it in vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
VECTOR_CALL = 20.0
"""Vector instructions of a mathematical function in a row (templates/microkernel_math.c.j2)."""
INLINE = {"sqrt": 15.0, "fabs": 0.0, "fmax": 0.0, "fmin": 0.0}
"""Functions that are instructions, and their cycles."""
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


def arithmetic(statement: Statement) -> Arithmetic:
    """Of one instance."""
    body = statement.body
    if not isinstance(body, Assignment):
        return Arithmetic(10.0, 0.0, 1)
    found = _arithmetic(body.value)
    own = _arithmetic(Binary(body.op[:-1], Load(0), Load(0))) if body.op != "=" else Arithmetic(0.0, 0.0, 0)
    return Arithmetic(found.simple + own.simple, found.slow + own.slow, found.calls + own.calls)


def _arithmetic(value: Expr) -> Arithmetic:
    inside = [_arithmetic(one) for one in operands(value)]
    simple, slow, calls = sum(i.simple for i in inside), sum(i.slow for i in inside), sum(i.calls for i in inside)
    match value:
        case Binary(op) if op in SLOW:
            return Arithmetic(simple, slow + SLOW[op], calls)
        case Binary() | Conditional():
            return Arithmetic(simple + 1.0, slow, calls)
        case Call(function):
            own = INLINE.get(function.removesuffix("f"))
            return Arithmetic(simple, slow, calls + 1) if own is None else Arithmetic(simple + 1.0, slow + own, calls)
        case _:
            return Arithmetic(simple, slow, calls)


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
