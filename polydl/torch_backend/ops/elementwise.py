"""Operators that compute each element of few others: arithmetic, comparisons, activations, their gradients, casts."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi, sqrt

import torch
from torch import fx

from polydl.model.functions import FUNCTIONS, REAL
from polydl.model.types import BOOL, F64, ElementType
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
    negated,
    position,
    select,
    sub,
)
from polydl.torch_backend.loop_index import Index
from polydl.torch_backend.loop_program import Const, Expr
from polydl.torch_backend.operator_call import (
    At,
    Call,
    Element,
    Lowered,
    broadcast,
    cast,
    computed,
    constant,
    lowers,
    stored_value,
)

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


def _unary(names: str, formula: Callable[[Expr], Expr]) -> None:
    each(*(f"{one}.default" for one in names.split()))(lambda c, x: formula(x))


def _function(name: str) -> None:
    _unary(name, lambda x: call(name, x))


for _row in FUNCTIONS:
    if _row.names is REAL and _row.arity == 1 and not (_row.whole or _row.effect):
        if "default" in getattr(getattr(torch.ops.aten, _row.name, None), "overloads", list)():
            _function(_row.name)


def _rounded(function: str) -> Callable[[Expr], Expr]:
    return lambda x: x if x.type.is_int else call(function, x)


_unary("ceil", _rounded("ceil"))
_unary("floor", _rounded("floor"))
_unary("trunc fix", _rounded("trunc"))
_unary("round", _rounded("nearbyint"))
_unary("frac", lambda x: sub(x, call("trunc", x)))
_unary("reciprocal", lambda x: div(1, x))
_unary("rsqrt", lambda x: div(1, call("sqrt", x)))
_unary("neg", lambda x: neg(x))
_unary("square", lambda x: mul(x, x))
_unary("sigmoid", lambda x: sigmoid(x))
_unary("silu", lambda x: div(x, add(1, call("exp", neg(x)))))
_unary("mish", lambda x: mul(x, call("tanh", call("log1p", call("exp", x)))))
_unary("hardsigmoid", lambda x: div(lesser(greater(add(x, 3), 0), 6), 6))
_unary("hardswish", lambda x: div(mul(x, lesser(greater(add(x, 3), 0), 6)), 6))
_unary("relu", lambda x: greater(x, 0))
_unary("deg2rad", lambda x: mul(x, pi / 180))
_unary("rad2deg", lambda x: mul(x, 180 / pi))
_unary("alias detach clone lift_fresh_copy", lambda x: x)


def sigmoid(x: Expr) -> Expr:
    return div(1, add(1, call("exp", neg(x))))


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


def scaled(c: Call, name: str, x: Expr) -> Expr:
    """`x` times an argument that is a number."""
    by = c[name]
    return x if by == 1 else mul(x, cast(Const(by, F64 if isinstance(by, float) else x.type), x.type))


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
        if mode == TO_ZERO:
            return div(x, y) if element.is_int else call("trunc", div(x, y))
        return floor_division(c, x, y) if mode == DOWN else div(x, y)

    return c.pointwise(at)


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


def _comparison(name: str, op: str) -> None:
    def lower(c: Call) -> Lowered:
        element = common(c, "self", "other")
        one, other = operand(c, "self", element), operand(c, "other", element)
        return c.pointwise(lambda index: compare(op, one(index), other(index)))

    lowers(f"{name}.Tensor", f"{name}.Scalar")(lower)


for _name, _op in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    _comparison(_name, _op)


def _logical(name: str, formula: Callable[[Expr, Expr], Expr]) -> None:
    def lower(c: Call) -> Lowered:
        one, other = operand(c, "self", BOOL), operand(c, "other", BOOL)
        return c.pointwise(lambda index: cast(formula(one(index), other(index)), type_of(c, c.out().dtype)))

    lowers(f"{name}.default")(lower)


_logical("logical_and", both)
_logical("logical_or", either)
_logical("logical_xor", lambda x, y: compare("!=", x, y))


@lowers("logical_not.default")
def _logical_not(c: Call) -> Lowered:
    source = operand(c, "self", BOOL)
    return c.pointwise(lambda index: cast(negated(source(index)), type_of(c, c.out().dtype)))


def _bitwise(name: str, op: str) -> None:
    names = [f"bitwise_{name}.{one}" for one in ("Tensor", "Scalar")]
    each(*names, take=("self", "other"))(lambda c, x, y: binary(op, x, y))


_bitwise("and", "&")
_bitwise("or", "|")
_bitwise("xor", "^")


@each("bitwise_not.default")
def _bitwise_not(c: Call, x: Expr) -> Expr:
    return negated(x) if x.type is BOOL else binary("^", x, -1 if not x.type.unsigned else x.type.maximum)


def _classified(name: str, formula: Callable[[Call, Expr], Expr]) -> None:
    def lower(c: Call) -> Lowered:
        source = operand(c, "self", type_of(c, c.meta("self").dtype))
        return c.pointwise(lambda index: formula(c, source(index)))

    lowers(f"{name}.default")(lower)


def _is_finite(c: Call, x: Expr) -> Expr:
    return compare("<", call("fabs", x), inf) if x.type.is_float else Const(True, BOOL)


_classified("isnan", lambda c, x: is_nan(c.w.let(x)) if x.type.is_float else Const(False, BOOL))
_classified("isinf", lambda c, x: compare("==", call("fabs", x), inf) if x.type.is_float else Const(False, BOOL))
_classified("isfinite", _is_finite)


@lowers("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(c: Call) -> Lowered:
    element = type_of(c, c.out().dtype)
    names = [operand(c, "condition", BOOL), operand(c, "self", element), operand(c, "other", element)]
    return c.pointwise(lambda index: chosen(c, names[0], names[1], names[2], index))


def chosen(c: Call, condition: At, one: At, other: At, index: tuple[Index, ...]) -> Expr:
    """`one` where the condition holds, else `other`: both can be had, whatever it is."""
    return select(condition(index), one(index), other(index))


@lowers("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(c: Call) -> Lowered:
    element = type_of(c, c.out().dtype)
    mask, value, source = operand(c, "mask", BOOL), operand(c, "value", element), operand(c, "self", element)
    return c.pointwise(lambda index: chosen(c, mask, value, source, index))


@lowers("_to_copy.default", "to.dtype")
def _to_copy(c: Call) -> Lowered:
    if c.out().device.type != "cpu":
        c.refuse("it leaves the processor's memory")
    dtype = c.out().dtype
    made = type_of(c, dtype)
    value = operand(c, "self", made)
    # A conversion that the program asks for rounds, wherever its result is computed with as a float.
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


@lowers("gelu.default")
def _gelu(c: Call) -> Lowered:
    element = type_of(c, c.out().dtype)
    source = operand(c, "self", element)
    tanh = c["approximate"] != "none"

    def at(index: tuple[Index, ...]) -> Expr:
        x = c.w.let(source(index))
        if not tanh:
            return mul(mul(0.5, x), add(1, call("erf", mul(x, sqrt(0.5)))))
        inner = mul(sqrt(2 / pi), add(x, mul(0.044715, mul(mul(x, x), x))))
        return mul(mul(0.5, x), add(1, call("tanh", inner)))

    return c.pointwise(at)


@each("leaky_relu.default")
def _leaky_relu(c: Call, x: Expr) -> Expr:
    return select(compare(">", x, 0), x, mul(x, float(c["negative_slope"])))


@each("elu.default")
def _elu(c: Call, x: Expr) -> Expr:
    alpha, scale, inner = float(c["alpha"]), float(c["scale"]), float(c["input_scale"])
    below = mul(alpha * scale, call("expm1", mul(x, inner)))
    return select(compare("<=", x, 0), below, mul(x, scale))


@each("softplus.default")
def _softplus(c: Call, x: Expr) -> Expr:
    beta, threshold = float(c["beta"]), float(c["threshold"])
    scaled_x = c.w.let(mul(x, beta))
    soft = div(call("log1p", call("exp", scaled_x)), beta)
    return select(compare(">", scaled_x, threshold), x, soft)


@each("threshold.default")
def _threshold(c: Call, x: Expr) -> Expr:
    return select(compare("<=", x, _number(c, "threshold", x)), _number(c, "value", x), x)


def _number(c: Call, name: str, like: Expr) -> Expr:
    value = c[name]
    return Const(int(value) if like.type.is_int else float(value), like.type)


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


# Gradients.


@each("threshold_backward.default", take=("grad_output", "self"))
def _threshold_backward(c: Call, g: Expr, x: Expr) -> Expr:
    return select(compare("<=", x, _number(c, "threshold", x)), Const(0, g.type), g)


@each("sigmoid_backward.default", take=("grad_output", "output"))
def _sigmoid_backward(c: Call, g: Expr, y: Expr) -> Expr:
    return mul(g, mul(sub(1, y), y))


@each("tanh_backward.default", take=("grad_output", "output"))
def _tanh_backward(c: Call, g: Expr, y: Expr) -> Expr:
    return mul(g, sub(1, mul(y, y)))


@each("silu_backward.default", take=("grad_output", "self"))
def _silu_backward(c: Call, g: Expr, x: Expr) -> Expr:
    s = c.w.let(sigmoid(x))
    return mul(mul(g, s), add(1, mul(x, sub(1, s))))


@each("gelu_backward.default", take=("grad_output", "self"))
def _gelu_backward(c: Call, g: Expr, x: Expr) -> Expr:
    if c["approximate"] != "none":
        beta, kappa = sqrt(2 / pi), 0.044715
        square = c.w.let(mul(x, x))
        inner = mul(beta, add(x, mul(kappa, mul(square, x))))
        t = c.w.let(call("tanh", inner))
        slope = mul(beta, add(1, mul(3 * kappa, square)))
        right = mul(mul(mul(0.5, x), sub(1, mul(t, t))), slope)
        return mul(g, add(mul(0.5, add(1, t)), right))
    cdf = mul(0.5, add(1, call("erf", mul(x, sqrt(0.5)))))
    pdf = mul(call("exp", mul(mul(x, x), -0.5)), 1 / sqrt(2 * pi))
    return mul(g, add(cdf, mul(x, pdf)))


@each("hardtanh_backward.default", take=("grad_output", "self"))
def _hardtanh_backward(c: Call, g: Expr, x: Expr) -> Expr:
    beyond = either(compare("<=", x, _number(c, "min_val", x)), compare(">=", x, _number(c, "max_val", x)))
    return select(beyond, Const(0, g.type), g)


@each("hardsigmoid_backward.default", take=("grad_output", "self"))
def _hardsigmoid_backward(c: Call, g: Expr, x: Expr) -> Expr:
    return select(both(compare(">", x, -3), compare("<", x, 3)), mul(g, 1 / 6), 0)


@each("hardswish_backward.default", take=("grad_output", "self"))
def _hardswish_backward(c: Call, g: Expr, x: Expr) -> Expr:
    middle = mul(g, add(div(x, 3), 0.5))
    return select(compare("<=", x, -3), Const(0, g.type), select(compare("<", x, 3), middle, g))


@each("leaky_relu_backward.default", take=("grad_output", "self"))
def _leaky_relu_backward(c: Call, g: Expr, x: Expr) -> Expr:
    return select(compare(">", x, 0), g, mul(g, float(c["negative_slope"])))


@each("elu_backward.default", take=("grad_output", "self_or_result"))
def _elu_backward(c: Call, g: Expr, x: Expr) -> Expr:
    alpha, scale, inner = float(c["alpha"]), float(c["scale"]), float(c["input_scale"])
    if c["is_result"]:
        below = mul(mul(g, inner), add(x, alpha * scale))
    else:
        below = mul(mul(g, inner * alpha * scale), call("exp", mul(x, inner)))
    return select(compare("<=", x, 0), below, mul(g, scale))


@each("softplus_backward.default", take=("grad_output", "self"))
def _softplus_backward(c: Call, g: Expr, x: Expr) -> Expr:
    beta, threshold = float(c["beta"]), float(c["threshold"])
    scaled_x = c.w.let(mul(x, beta))
    z = c.w.let(call("exp", scaled_x))
    return select(compare(">", scaled_x, threshold), g, div(mul(g, z), add(z, 1)))


@each("mish_backward.default", take=("grad_output", "self"))
def _mish_backward(c: Call, g: Expr, x: Expr) -> Expr:
    t = c.w.let(call("tanh", call("log1p", call("exp", x))))
    return mul(g, add(t, mul(mul(x, sigmoid(x)), sub(1, mul(t, t)))))


def element_of(source: Element, sizes: tuple[int, ...], element: ElementType) -> At:
    """A tensor broadcast to sizes, in a type."""
    at = broadcast(source, sizes)
    return lambda index: cast(at(index), element)
