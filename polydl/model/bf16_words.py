"""Brain floats that a program keeps in arrays of `unsigned short`, and makes floats of by their bits."""

from __future__ import annotations

from polydl.model.expr import Binary, Call, Const, Convert, Expr, Load, operands
from polydl.model.functions import function_called, result_of
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.types import F32, U16, U32


def bf16_word(scop: Scop, statement: Statement, value: Expr) -> Load | None:
    """The element of which a value of a statement is the float with its bits in the upper half; None for another
    value."""
    match value:
        case Call(name, (bits,)) if _makes_float(name) and (element := _in_upper_half(bits)) is not None:
            array = scop.arrays[statement.accesses[element.access].array]
            return element if array.element is U16 and not array.is_scalar else None
        case _:
            return None


def _makes_float(name: str) -> bool:
    """Whether a function gives the float with the bits of its argument."""
    row = function_called(name)
    return row is not None and row.bits_of is U32 and result_of(name) is F32


def _in_upper_half(bits: Expr) -> Load | None:
    """The element of which 32 bits have the 16 in their upper half, and zeros in the lower; None for others."""
    match bits:
        case Convert(source, target, operand) if source is target:
            return _in_upper_half(operand)
        case Binary("<<", Convert(_, _, Load() as element), Const("16")):
            return element
        case _:
            return None


def is_part_of_word(value: Expr) -> bool:
    """Whether a value is what programs make such a float of, step by step: the bits, or the float with some bits."""
    match value:
        case Call(name, (bits,)) if _makes_float(name):
            return isinstance(bits, Load) or _in_upper_half(bits) is not None
        case _:
            return _in_upper_half(value) is not None


def arrays_of_words(scop: Scop) -> frozenset[str]:
    """The arrays of which a program takes elements for such numbers, whatever else it does with them."""
    return frozenset(
        statement.accesses[at].array
        for statement in scop.statements
        if isinstance(statement.body, Assignment)
        for at in _words(scop, statement, statement.body.value)
    )


def _words(scop: Scop, statement: Statement, value: Expr) -> list[int]:
    found = bf16_word(scop, statement, value)
    if found is not None:
        return [found.access]
    return [at for one in operands(value) for at in _words(scop, statement, one)]
