"""The table of joint combiners: values that a loop carries, which only together can be combined in any grouping.

    for i: { d = x[i] - mean; mean += d / (i + 1); m2 += d * (x[i] - mean); }

is no sum of anything, but number, mean and squared deviations of two groups give those of both (Chan, Golub, LeVeque,
"Algorithms for computing the sample variance", The American Statistician 37, 1983). A row says how a state is made of
one element (`lift`), of two states (`join`), and of a whole block of elements by plain sums and extremes (`block`), for
which rows of vectors, threads and microkernels are there already. A joint combiner more is a row here
(docs/extending.md): whoever adds one vouches for it, and tests/model/test_joint_combiners.py tests its laws by algebra.

Formulas are written as in C, in terms of the names that their field's docstring says; they are about real numbers.
Where 0 / 0 is none, a block must be what its elements one by one are: weights of zero behind others change nothing, nor
do exponents of minus infinity.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import field
from functools import cache

from polydl.base.records import dataclass
from polydl.model.combiners import MAX, SUM, Combiner
from polydl.model.expr import Binary, Call, Const, Expr, Unary
from polydl.model.types import F64

_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Eq: "==", ast.NotEq: "!="}


@dataclass(frozen=True, slots=True)
class Pass:
    """A step in which the state of a block is made: a value of the whole block, or of each element."""

    name: str
    formula: str
    """In terms of elements and what was made before: what is combined, or the value itself."""
    combiner: Combiner | None = None
    """None: nothing is combined."""
    each: bool = False
    """Whether there is one for each element."""
    usable: str = ""
    """A condition; empty: one that always holds."""
    otherwise: str = ""
    """What stands for the value where that does not hold: in a block of weight zero, which changes no state."""


@dataclass(frozen=True, slots=True, eq=False)
class JointCombiner:
    """A row. There is one object for each."""

    name: str
    state: tuple[str, ...]
    """The fields of a state."""
    elements: Mapping[str, tuple[str, ...]]
    """What an element consists of, each with literals that may stand for it where a program has none: `w` of 1."""
    lift: Mapping[str, str]
    """The state of one element, by field."""
    join: Mapping[str, str]
    """The state of two groups by field, and what that needs before: in terms of `a.field`, `b.field` and what stands
    before."""
    block: tuple[Pass, ...]
    """The state of a block by field, and what that needs before."""
    identity: frozenset[str]
    """The fields that are zero in a state which, joined with any b, gives b. An extreme of b's block starts from what
    there is in the state."""
    constants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What is the same for all elements, with literals that may stand for it."""
    many: str = ""
    """A field of which a program may have several, each with a weight of its own, and whole arrays."""


def sums(name: str, formula: str) -> Pass:
    """A sum over the block."""
    return Pass(name, formula, SUM)


MOMENTS = JointCombiner(
    "moments",
    ("n", "mean", "m2"),
    {"x": (), "w": ("1",)},
    lift={"n": "w", "mean": "x", "m2": "0"},
    join={
        "n": "a.n + b.n",
        "part": "b.n / n",
        "off": "b.mean - a.mean",
        "mean": "a.mean + off * part",
        "m2": "a.m2 + b.m2 + off * off * part * a.n",
    },
    # Corrected in two passes, the second in cache: what is left of the mean is as exact as the deviations are.
    block=(
        sums("n", "w"),
        sums("total", "w * x"),
        Pass("weight", "n", usable="n != 0", otherwise="1"),
        Pass("near", "total / weight"),
        sums("left", "w * (x - near)"),
        sums("squares", "w * ((x - near) * (x - near))"),
        Pass("mean", "near + left / weight"),
        Pass("m2", "squares - left * left / weight"),
    ),
    identity=frozenset({"n", "m2"}),
)
"""Number (or sum of weights), mean, sum of squared deviations."""


def _rescaled(function: str) -> JointCombiner:
    return JointCombiner(
        f"sum rescaled by {function}",
        ("m", "s"),
        {"x": (), "w": ("1",)},
        lift={"m": "x", "s": "w"},
        join={
            "m": "fmax(a.m, b.m)",
            "old": f"{function}(c * (a.m - m))",
            "new": f"{function}(c * (b.m - m))",
            "s": "a.s * old + b.s * new",
        },
        block=(
            Pass("m", "x", MAX),
            Pass("finite", "m", usable="m - m == 0", otherwise="0"),
            Pass("e", f"{function}(c * (x - finite))", each=True),
            sums("s", "w * e"),
        ),
        identity=frozenset({"s"}),
        constants={"c": ("1",)},
        many="s",
    )


RESCALED = _rescaled("exp")
"""Greatest exponent and sums of weights times exponentials relative to it: softmax in one pass (Milakov, Gimelshein,
"Online normalizer calculation for softmax", 2018), attention with rows of values for weights."""

JOINT_COMBINERS: tuple[JointCombiner, ...] = (MOMENTS, RESCALED, _rescaled("exp2"))
"""Every row."""


@cache
def formula(text: str) -> Expr:
    """A formula as an expression whose names are `Const`. Raises ValueError for what is no formula."""
    return _expression(ast.parse(text, mode="eval").body)


def _expression(node: ast.expr) -> Expr:
    match node:
        case ast.Constant(int() | float() as number):
            return Const(str(number))
        case ast.Name(name):
            return Const(name)
        case ast.Attribute(ast.Name(group), field):
            return Const(f"{group}.{field}")
        case ast.UnaryOp(ast.USub(), operand):
            return Unary("-", _expression(operand))
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return Binary(_OPERATORS[type(op)], _expression(left), _expression(right))
        case ast.Compare(left, [op], [right]) if type(op) in _OPERATORS:
            return Binary(_OPERATORS[type(op)], _expression(left), _expression(right))
        case ast.Call(ast.Name(function), arguments, []):
            return Call(function, tuple(map(_expression, arguments)), F64)
    raise ValueError(f"no formula: {ast.unparse(node)}")
