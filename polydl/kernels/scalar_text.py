"""Right-hand sides of statements as plain C, for the meanings of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from polydl.model import isl
from polydl.model.conversions import steps
from polydl.model.expr import (
    AffineValue,
    Binary,
    Call,
    Conditional,
    Const,
    Convert,
    Expr,
    Gather,
    Load,
    Unary,
    constant_number,
)


def scalar_text(value: Expr, load: Callable[[int], str], affine: Callable[[isl.PwAff], str] | None = None) -> str:
    """C text of a value, in parentheses wherever it has parts; `load` gives that of the element that an access reads,
    `affine` that of a value made of loop variables, which must not be there without it."""

    def of(part: Expr) -> str:
        return scalar_text(part, load, affine)

    match value:
        case Load(access):
            return load(access)
        case Const(text):
            return text
        case Unary(op, operand):
            return f"({op}{of(operand)})"
        case Binary(op, left, right):
            return f"({of(left)} {op} {of(right)})"
        case Call(function, arguments):
            return f"{function}({', '.join(of(a) for a in arguments)})"
        case Conditional(condition, then, otherwise):
            return f"({of(condition)} ? {of(then)} : {of(otherwise)})"
        case Convert(source, target, operand):
            inner = of(operand)
            for step in steps(source, target):
                inner = f"{step.name}({inner})" if step.call else f"(({step.name}){inner})"
            return inner
        case Gather():
            raise ValueError("an element that data choose has no text without its array")
        case AffineValue(made) if affine is not None:
            return affine(made)
        case AffineValue() if (number := constant_number(value)) is not None:
            return f"({number})" if number < 0 else str(number)
        case AffineValue():
            raise ValueError("a value made of loop variables has no text without them")
        case _:
            assert_never(value)
