"""Operators that compute each element of few others: the type that they compute in, arguments broadcast to the result,
and formulas of their values."""

from __future__ import annotations

from collections.abc import Callable

import torch

from polydl.model.types import F64, ElementType
from polydl.torch_backend.formulas import mul
from polydl.torch_backend.loop_index import Index
from polydl.torch_backend.loop_program import Const, Expr
from polydl.torch_backend.operator_call import At, Call, Lowered, broadcast, cast, computed, constant, lowers

Formula = Callable[..., Expr]


def operand(c: Call, name: str, element: ElementType) -> At:
    """An argument, a tensor or a number, broadcast to the result, in a type."""
    if c.is_tensor(name):
        source = c.element(name)
    else:
        value = c[name]
        if not isinstance(value, bool | int | float):
            c.refuse(f"its argument '{name}' is {type(value).__name__}")
        source = constant(value, torch.float64 if isinstance(value, float) else torch.int64)
    at = broadcast(source, c.sizes())
    return lambda index: cast(at(index), element)


def common(c: Call, *names: str) -> ElementType:
    """The type that torch computes in with several arguments."""
    values = [c.meta(one) if c.is_tensor(one) else c[one] for one in names]
    found = values[0]
    dtype = torch.result_type(values[0], values[1]) if len(values) > 1 else found.dtype
    for one in values[2:]:
        dtype = torch.promote_types(dtype, torch.result_type(found, one))
    return type_of(c, dtype)


def type_of(c: Call, dtype: torch.dtype) -> ElementType:
    try:
        return computed(dtype)
    except KeyError:
        c.refuse(f"it computes in {dtype}")


def each(*names: str, take: tuple[str, ...] = ("self",)) -> Callable[[Formula], Formula]:
    """Registers operators whose result is a formula of tensors in the type of the result.

    The formula is given the call and a value for each argument in `take`; a value that it uses more than once stands
    in a variable.
    """

    def put(formula: Formula) -> Formula:
        def lower(c: Call) -> Lowered:
            element = type_of(c, c.out().dtype)
            sources = [operand(c, one, element) for one in take if c.given(one)]

            def at(index: tuple[Index, ...]) -> Expr:
                return formula(c, *(c.w.let(one(index)) for one in sources))

            return c.pointwise(at)

        lowers(*names)(lower)
        return formula

    return put


def unary(names: str, formula: Callable[[Expr], Expr]) -> None:
    """Registers operators of one tensor, their names separated by blanks, in the type of the result."""
    each(*(f"{one}.default" for one in names.split()))(lambda c, x: formula(x))


def scaled(c: Call, name: str, x: Expr) -> Expr:
    """`x` times an argument that is a number."""
    by = c[name]
    return x if by == 1 else mul(x, cast(Const(by, F64 if isinstance(by, float) else x.type), x.type))
