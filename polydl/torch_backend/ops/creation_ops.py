"""Tensors that are copied, converted, or made of numbers."""

from __future__ import annotations

from torch import fx

from polydl.model.types import F64
from polydl.torch_backend.formulas import add, mul, position
from polydl.torch_backend.operator_call import Call, Lowered, cast, constant, lowers, stored_value
from polydl.torch_backend.ops.elementwise import operand, type_of, unary

unary("alias detach clone lift_fresh_copy", lambda x: x)


@lowers("_to_copy.default", "to.dtype")
def _to_copy(c: Call) -> Lowered:
    if c.out().device.type != "cpu":
        c.refuse("it leaves the processor's memory")
    dtype = c.out().dtype
    made = type_of(c, dtype)
    value = operand(c, "self", made)
    # A conversion that the program asks for rounds, wherever its result is computed with as a float.
    return c.pointwise(lambda index: cast(stored_value(value(index), dtype), made))


@lowers("copy.default", "fill.Tensor")
def _copy(c: Call) -> Lowered:
    """The second tensor in the sizes and the type of the first, whose elements are not read."""
    dtype = c.out().dtype
    made = type_of(c, dtype)
    value = operand(c, "src" if c.name == "copy" else "value", made)
    return c.pointwise(lambda index: cast(stored_value(value(index), dtype), made))


@lowers("full.default", "full_like.default", "scalar_tensor.default", "new_full.default", "fill.Scalar")
def _full(c: Call) -> Lowered:
    value = c["value"] if c.given("value") else c["s"] if c.given("s") else c["fill_value"]
    if not isinstance(value, bool | int | float):
        c.refuse(f"it is full of a {type(value).__name__}")
    return c.pointwise(constant(value, c.out().dtype).at)


@lowers("zeros.default", "zeros_like.default", "new_zeros.default")
def _zeros(c: Call) -> Lowered:
    return c.pointwise(constant(0, c.out().dtype).at)


@lowers("ones.default", "ones_like.default", "new_ones.default")
def _ones(c: Call) -> Lowered:
    return c.pointwise(constant(1, c.out().dtype).at)


@lowers("arange.default", "arange.start", "arange.start_step")
def _arange(c: Call) -> Lowered:
    start, step = c.raw("start") or 0, c.raw("step") or 1
    element = type_of(c, c.out().dtype)
    if any(isinstance(one, fx.Node) for one in (start, step)):
        c.refuse("its bounds are computed")
    if element.is_int:
        return c.pointwise(lambda index: position(index[0] * int(step) + int(start), element))
    return c.pointwise(lambda index: cast(add(mul(position(index[0], F64), float(step)), float(start)), element))
