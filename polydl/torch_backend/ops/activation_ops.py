"""Activations, element by element, and their gradients."""

from __future__ import annotations

from math import pi, sqrt

from polydl.torch_backend.formulas import add, both, call, compare, div, greater, lesser, mul, neg, select, sub
from polydl.torch_backend.loop_index import Index
from polydl.torch_backend.loop_program import Const, Expr
from polydl.torch_backend.operator_call import Call, Lowered, lowers
from polydl.torch_backend.ops.elementwise import each, operand, type_of, unary

unary("sigmoid", lambda x: sigmoid(x))
unary("silu", lambda x: div(x, add(1, call("exp", neg(x)))))
unary("mish", lambda x: mul(x, call("tanh", call("log1p", call("exp", x)))))
unary("hardsigmoid", lambda x: div(lesser(greater(add(x, 3), 0), 6), 6))
unary("hardswish", lambda x: div(mul(x, lesser(greater(add(x, 3), 0), 6)), 6))
unary("relu", lambda x: greater(x, 0))


def sigmoid(x: Expr) -> Expr:
    """1 / (1 + exp(-x))."""
    return div(1, add(1, call("exp", neg(x))))


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
    within = both(compare(">", x, _number(c, "min_val", x)), compare("<", x, _number(c, "max_val", x)))
    return select(within, g, Const(0, g.type))  # 0 where x is NaN


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
