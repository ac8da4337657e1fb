"""Arithmetic, element by element: functions of one number, sums, quotients, powers, extremes, bounds."""

from __future__ import annotations

from collections.abc import Callable
from math import pi

import torch

from polydl.model.functions import FUNCTIONS, REAL
from polydl.model.types import BOOL, ElementType
from polydl.torch_backend.formulas import (
    add,
    binary,
    both,
    call,
    compare,
    div,
    either,
    greater,
    is_nan,
    lesser,
    mul,
    neg,
    select,
    sub,
)
from polydl.torch_backend.loop_index import Index
from polydl.torch_backend.loop_program import Const, Expr
from polydl.torch_backend.operator_call import Call, Lowered, cast, lowers
from polydl.torch_backend.ops.elementwise import Formula, each, operand, scaled, type_of, unary


def _function(name: str) -> None:
    unary(name, lambda x: call(name, x))


for _row in FUNCTIONS:
    if _row.names is REAL and _row.arity == 1 and not (_row.whole or _row.effect):
        if "default" in getattr(getattr(torch.ops.aten, _row.name, None), "overloads", list)():
            _function(_row.name)


def _rounded(function: str) -> Callable[[Expr], Expr]:
    return lambda x: x if x.type.is_int else call(function, x)


unary("ceil", _rounded("ceil"))
unary("floor", _rounded("floor"))
unary("trunc fix", _rounded("trunc"))
unary("round", _rounded("nearbyint"))
unary("frac", lambda x: sub(x, call("trunc", x)))
unary("reciprocal", lambda x: div(1, x))
unary("rsqrt", lambda x: div(1, call("sqrt", x)))
unary("neg", lambda x: neg(x))
unary("square", lambda x: mul(x, x))
unary("deg2rad", lambda x: mul(x, pi / 180))
unary("rad2deg", lambda x: mul(x, 180 / pi))


@each("abs.default")
def _abs(c: Call, x: Expr) -> Expr:
    if x.type is BOOL or x.type.unsigned:
        return x
    return select(compare("<", x, 0), neg(x), x) if x.type.is_int else call("fabs", x)


@each("sign.default", "sgn.default")
def _sign(c: Call, x: Expr) -> Expr:
    if x.type is BOOL:
        return x
    number = float if x.type.is_float else int
    one, zero = Const(number(1), x.type), Const(number(0), x.type)
    below = zero if x.type.unsigned else select(compare("<", x, 0), neg(one), zero)
    return select(compare(">", x, 0), one, below)


@each("add.Tensor", "add.Scalar", take=("self", "other"))
def _add(c: Call, x: Expr, y: Expr) -> Expr:
    y = scaled(c, "alpha", y)
    return either(x, y) if x.type is BOOL else add(x, y)


@each("sub.Tensor", "sub.Scalar", take=("self", "other"))
def _sub(c: Call, x: Expr, y: Expr) -> Expr:
    return sub(x, scaled(c, "alpha", y))


@each("rsub.Tensor", "rsub.Scalar", take=("self", "other"))
def _rsub(c: Call, x: Expr, y: Expr) -> Expr:
    return sub(y, scaled(c, "alpha", x))


@each("mul.Tensor", "mul.Scalar", take=("self", "other"))
def _mul(c: Call, x: Expr, y: Expr) -> Expr:
    return both(x, y) if x.type is BOOL else mul(x, y)


def _divisor(c: Call, element: ElementType) -> None:
    if element.is_int and (c.is_tensor("other") or c["other"] == 0):
        c.refuse("a division of integers stops at 0")


@lowers("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode", "true_divide.Tensor")
def _div(c: Call) -> Lowered:
    return divided(c, c.raw("rounding_mode") or "")


@lowers("floor_divide.default", "floor_divide.Scalar")
def _floor_divide(c: Call) -> Lowered:
    return divided(c, DOWN)


DOWN = "floor"
TO_ZERO = "trunc"
"""How quotients are rounded, in torch's words."""


def divided(c: Call, mode: str) -> Lowered:
    """A quotient, rounded if a mode says how."""
    element = type_of(c, c.out().dtype)
    if mode:
        _divisor(c, element)
        if c.out().dtype in (torch.float16, torch.bfloat16):
            c.refuse("its quotient is rounded to 16 bits before it is rounded to a whole number")
    one, other = operand(c, "self", element), operand(c, "other", element)

    def at(index: tuple[Index, ...]) -> Expr:
        x, y = c.w.let(one(index)), c.w.let(other(index))
        if mode and _negates(y):
            return neg(x)
        if mode == TO_ZERO:
            return div(x, y) if element.is_int else call("trunc", div(x, y))
        return floor_division(c, x, y) if mode == DOWN else div(x, y)

    return c.pointwise(at)


def _negates(divisor: Expr) -> bool:
    """Whether it is -1 of integers: the processor has no quotient of the least one."""
    return isinstance(divisor, Const) and divisor.type.is_int and divisor.value == -1


def floor_division(c: Call, x: Expr, y: Expr) -> Expr:
    """Rounded down, as Python's `//`: of the quotient that the remainder leaves, which is nearly whole."""
    if x.type.unsigned:
        return div(x, y)
    if x.type.is_int:
        rest = c.w.let(binary("%", x, y))
        opposite = both(compare("!=", rest, 0), compare("!=", compare("<", rest, 0), compare("<", y, 0)))
        return sub(div(x, y), cast(opposite, x.type))
    rest = c.w.let(call("fmod", x, y))
    near = div(sub(x, rest), y)
    opposite = both(compare("!=", rest, 0), compare("!=", compare("<", rest, 0), compare("<", y, 0)))
    near = c.w.let(sub(near, cast(opposite, x.type)))
    down = c.w.let(call("floor", near))
    whole = add(down, cast(compare(">", sub(near, down), 0.5), x.type))
    zero = call("copysign", Const(0.0, x.type), div(x, y))
    return select(compare("==", y, 0), div(x, y), select(compare("==", near, 0), zero, whole))


@lowers("remainder.Tensor", "remainder.Scalar")
def _remainder(c: Call) -> Lowered:
    return rest_of(c, python=True)


@lowers("fmod.Tensor", "fmod.Scalar")
def _fmod(c: Call) -> Lowered:
    return rest_of(c, python=False)


def rest_of(c: Call, python: bool) -> Lowered:
    """What a division leaves, with the sign of the divisor as in Python, or of what is divided as in C."""
    element = type_of(c, c.out().dtype)
    _divisor(c, element)
    one, other = operand(c, "self", element), operand(c, "other", element)

    def at(index: tuple[Index, ...]) -> Expr:
        x, y = c.w.let(one(index)), c.w.let(other(index))
        if _negates(y):
            return Const(0, element)
        rest = binary("%", x, y) if element.is_int else call("fmod", x, y)
        if not python or element.unsigned:
            return rest
        rest = c.w.let(rest)
        opposite = both(compare("!=", rest, 0), compare("!=", compare("<", rest, 0), compare("<", y, 0)))
        return select(opposite, add(rest, y), rest)

    return c.pointwise(at)


@lowers("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def _pow(c: Call) -> Lowered:
    element = type_of(c, c.out().dtype)
    exponent = None if c.is_tensor("exponent") else c["exponent"]
    if element.is_int and (not isinstance(exponent, int) or not 0 <= exponent <= 8 or element is BOOL):
        c.refuse("powers of integers have a lowering for small numbers as exponents only")
    one, other = operand(c, "self", element), operand(c, "exponent", element)

    def at(index: tuple[Index, ...]) -> Expr:
        if element.is_int and isinstance(exponent, int):
            x = c.w.let(one(index))
            found: Expr = Const(1, element)
            for _ in range(exponent):
                found = mul(found, x)
            return found
        x = c.w.let(one(index))
        match exponent:
            case 0:
                return Const(1.0, element)
            case 1:
                return x
            case 2:
                return mul(x, x)
            case 3:
                return mul(mul(x, x), x)
            case 0.5:
                return call("sqrt", x)
            case -0.5:
                return div(1, call("sqrt", x))
            case -1:
                return div(1, x)
            case -2:
                return div(1, mul(x, x))
        return call("pow", x, other(index))

    return c.pointwise(at)


def _extreme(op: str) -> Formula:
    """NaN where one of both is."""

    def formula(c: Call, x: Expr, y: Expr) -> Expr:
        better = compare(op, x, y)
        return select(either(is_nan(x), better) if x.type.is_float else better, x, y)

    return formula


each("maximum.default", take=("self", "other"))(_extreme(">"))
each("minimum.default", take=("self", "other"))(_extreme("<"))


def _binary_function(name: str, function: str) -> None:
    each(f"{name}.default", take=("self", "other"))(lambda c, x, y: call(function, x, y))


_binary_function("atan2", "atan2")
_binary_function("hypot", "hypot")
_binary_function("nextafter", "nextafter")


@each("fmax.default", take=("self", "other"))
def _fmax(c: Call, x: Expr, y: Expr) -> Expr:
    return call("fmax", x, y) if x.type.is_float else greater(x, y)


@each("fmin.default", take=("self", "other"))
def _fmin(c: Call, x: Expr, y: Expr) -> Expr:
    return call("fmin", x, y) if x.type.is_float else lesser(x, y)


@each("copysign.Tensor", "copysign.Scalar", take=("self", "other"))
def _copysign(c: Call, x: Expr, y: Expr) -> Expr:
    return call("copysign", x, y)


@lowers("clamp.default", "clamp.Tensor", "clamp_min.default", "clamp_min.Tensor", "clamp_max.default",
        "clamp_max.Tensor", "hardtanh.default")  # fmt: skip
def _clamp(c: Call) -> Lowered:
    hard = "hardtanh" in c.node.target._schema.name  # type: ignore[union-attr]
    names = ("min_val", "max_val") if hard else ("min", "max")
    element = type_of(c, c.out().dtype)
    source = operand(c, "self", element)
    least, most = (operand(c, one, element) if c.given(one) else None for one in names)
    tensors = any(c.is_tensor(one) for one in names)

    def at(index: tuple[Index, ...]) -> Expr:
        x = source(index)
        for bound, op in ((least, "<"), (most, ">")):
            if bound is None:
                continue
            x, limit = c.w.let(x), c.w.let(bound(index))
            beyond = compare(op, x, limit)
            if tensors and element.is_float:
                beyond = either(beyond, is_nan(limit))
                x = select(is_nan(x), x, select(beyond, limit, x))
            else:
                x = select(beyond, limit, x)
        return x

    return c.pointwise(at)


@each("addcmul.default", take=("self", "tensor1", "tensor2"))
def _addcmul(c: Call, x: Expr, y: Expr, z: Expr) -> Expr:
    return add(x, mul(scaled(c, "value", y), z))


@each("addcdiv.default", take=("self", "tensor1", "tensor2"))
def _addcdiv(c: Call, x: Expr, y: Expr, z: Expr) -> Expr:
    return add(x, div(scaled(c, "value", y), z))


@each("lerp.Scalar", "lerp.Tensor", take=("self", "end", "weight"))
def _lerp(c: Call, x: Expr, y: Expr, w: Expr) -> Expr:
    near = add(x, mul(w, sub(y, x)))
    far = sub(y, mul(sub(y, x), sub(1, w)))
    return select(compare("<", call("fabs", w), 0.5), near, far)
