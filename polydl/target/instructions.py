"""The instructions of a statement, and the cycles of neighbouring instances of it in vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.model.combiners import SUM
from polydl.model.expr import Binary, Call, Conditional, Convert, Expr, Load, operands
from polydl.model.functions import Vector, function_called, function_of
from polydl.model.scop import Array, Assignment, Statement

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
_UNKNOWN = Vector("", 0)
"""What a function without a vector form is taken to cost in a row that may turn out to be none."""
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
    """Those among them that libmvec has no vector forms of."""
    vector_instructions: float
    """Vector instructions that the calls take in a row of vectors."""


NOTHING = Arithmetic(0.0, 0.0, 0, 0, 0.0)
"""No instructions."""


def arithmetic(statement: Statement) -> Arithmetic:
    """Of one instance."""
    body = statement.body
    if not isinstance(body, Assignment):
        return Arithmetic(10.0, 0.0, 1, 1, _UNKNOWN.instructions)
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
        case Call(function):
            row = function_called(function)
            if row is not None and row.cycles is not None:
                return replace(inside, simple=inside.simple + 1.0, slow=inside.slow + row.cycles)
            scalar = row is None or row.libmvec is None
            vector = row.vector if row is not None and row.vector is not None else _UNKNOWN
            return replace(
                inside,
                calls=inside.calls + 1,
                scalar_calls=inside.scalar_calls + scalar,
                vector_instructions=inside.vector_instructions + vector.instructions,
            )
        case _:
            return inside


def _added(several: Sequence[Arithmetic]) -> Arithmetic:
    return Arithmetic(
        sum(one.simple for one in several),
        sum(one.slow for one in several),
        sum(one.calls for one in several),
        sum(one.scalar_calls for one in several),
        sum(one.vector_instructions for one in several),
    )


def vector_cycles(
    ops: Arithmetic, moves: Sequence[tuple[float | None, float]], lanes: int, calls: float, scattered: float = 0.0
) -> float:
    """Cycles of `lanes` neighbouring instances of a statement, in vectors of as many.

    `moves`: per access that does not stay in a register the elements from one instance to the next (None: not known),
    and the part of its loads and stores that is left. `calls`: of the functions that are no instructions, for all
    lanes. `scattered`: stores whose lanes go to memory one by one.
    """
    memory = scattered * (1.0 if lanes == 1 else 4.0 * lanes)
    for move, share in moves:
        steps = abs(move) if move is not None else math.inf
        memory += share * (1.0 if lanes == 1 or steps == 1 else steps if steps <= _NEAR else 2.0 * lanes)
    return (ops.simple + memory / _LOADS) / RATE + ops.slow / 2 * max(1.0, lanes / 2) + calls


_Bits = Callable[[Expr], float]
"""Bits of all values of an expression of integers as signed ones; infinite where that is not known."""


@dataclass(frozen=True, slots=True)
class NeighbourSum:
    """Instructions that add up what several neighbouring lanes come to, into one wider lane, which compilers find in
    loops of sums, unless a clause of OpenMP has them keep a sum for each lane."""

    bytes: int
    """Of each of the lanes."""
    sums: Callable[[Expr, _Bits], bool]
    """Whether the sum of this expression is one."""


def _is_distance_of_bytes(value: Expr, bits: _Bits) -> bool:
    match value:
        case Call(function, (Binary("-", left, right),)):
            row = function_of(function)
            return row is not None and row.magnitude and all(_narrow_load(one, bits) == _BYTE for one in (left, right))
        case _:
            return False


def _is_product_of_halves(value: Expr, bits: _Bits) -> bool:
    match value:
        case Binary("*", left, right):
            return _BYTE < max(bits(left), bits(right)) <= 16
        case _:
            return False


def _narrow_load(value: Expr, bits: _Bits) -> float:
    while isinstance(value, Convert):
        value = value.operand
    return bits(value) if isinstance(value, Load) else math.inf


_BYTE = 9
"""Bits of an unsigned byte as a signed number: products of two of them compilers make in another way."""

NEIGHBOUR_SUMS = (
    NeighbourSum(1, _is_distance_of_bytes),  # VPSADBW; UABAL
    NeighbourSum(2, _is_product_of_halves),  # VPMADDWD
)
"""Sums of 32 bits. gcc 12 on Zen 3: 6 times as fast as with a clause, and twice."""


def neighbour_sum(statement: Statement, arrays: Mapping[str, Array]) -> NeighbourSum | None:
    """The instructions that add up what a statement adds to an element; None: there are none for it."""
    body = statement.body
    if not isinstance(body, Assignment) or body.op != SUM.op:
        return None
    into = arrays[statement.target.array].element
    if not into.is_int or into.bits != 32:
        return None

    def bits(value: Expr) -> float:
        match value:
            case Load(access):
                element = arrays[statement.accesses[access].array].element
                return element.bits + element.unsigned if element.is_int else math.inf
            case Convert(source, target, operand):
                return bits(operand) if source.is_int and target.is_int and target.holds(source) else math.inf
            case Binary("+" | "-", left, right):
                return max(bits(left), bits(right)) + 1
            case _:
                return math.inf

    return next((one for one in NEIGHBOUR_SUMS if one.sums(body.value, bits)), None)
