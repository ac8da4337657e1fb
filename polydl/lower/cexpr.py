"""C expressions from those of isl's syntax trees and from those of statement bodies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import assert_never

from polydl.lower import ctree
from polydl.lower.cprint import AND, MUL, POSTFIX, level
from polydl.lower.ctree import Binary, Choice, Int, Invoke, Item, Name, Paren, Unary
from polydl.model import expr, isl
from polydl.model.conversions import steps
from polydl.model.functions import FUNCTIONS
from polydl.model.isl import to_int
from polydl.model.isl.trees import expression_kind, operands_of, operation
from polydl.model.types import F32, F64

_INFIX: Mapping[str, str] = {
    "and_": "&&",
    "and_then": "&&",
    "or_": "||",
    "or_else": "||",
    "add": "+",
    "sub": "-",
    "mul": "*",
    # isl asserts exactness or non-negative operands for these three, where C's truncation is right.
    "div": "/",
    "pdiv_q": "/",
    "pdiv_r": "%",
    "zdiv_r": "%",
    "eq": "==",
    "le": "<=",
    "lt": "<",
    "ge": ">=",
    "gt": ">",
}

_MIXED = ("&&", "||", "&", "^", "|", "<<", ">>")
"""Operators of whose operands gcc asks for parentheses, whatever the precedence."""


@dataclass(slots=True)
class Helpers:
    """The integer helper functions that the code turned out to need."""

    prefix: str
    used: set[str]

    def name(self, helper: str) -> str:
        self.used.add(helper)
        return f"{self.prefix}{helper}"

    def function(self, name: str) -> str:
        """What to call for a function of the program: a helper that does the same, where there is one."""
        own = name.removeprefix("polydl_")
        return self.name(own) if own in HELPER_TEXT else name


class FromIsl:
    """Turns expressions of isl's syntax trees into C; `rename` gives the C name of an isl identifier. `unsigned`: names
    of variables that C computes with modulo a power of two; they become signed first, so that `2 - n` may be negative.
    `short`: names of variables whose products and sums may be longer than their type; these are made in long.
    """

    def __init__(
        self,
        helpers: Helpers,
        rename: Callable[[str], str],
        unsigned: Collection[str] = (),
        short: Collection[str] = (),
    ) -> None:
        self.helpers = helpers
        self._rename = rename
        self._unsigned = unsigned
        self._short = frozenset(short) - {*unsigned}

    def renamed(self, name: str) -> str:
        """The C name of an isl identifier."""
        return self._rename(name)

    def __call__(self, expression: isl.AstExpr) -> ctree.Expr:
        match expression_kind(expression):
            case "id":
                name = expression.get_id().get_name()
                c = Name(self._rename(name))
                return ctree.Cast("long", c) if name in self._unsigned else c
            case "int":
                return Int(to_int(expression.get_val()))
            case _:
                return self._operation(operation(expression), [self(o) for o in operands_of(expression)])

    def _operation(self, op: str, operands: list[ctree.Expr]) -> ctree.Expr:
        if op == "add" and (less := _negated(operands[0])) is not None:
            # isl writes `-4 * c0 + 99`; people write `99 - 4 * c0`.
            return Binary("-", operands[1], less)
        if op in ("or_", "or_else"):
            # Compilers ask for parentheses around && inside ||.
            sides = [part for operand in operands for part in _alternatives(operand)]
            return reduce(lambda left, right: Binary("||", left, right), sides)
        if op in ("add", "mul"):
            operands = self._longer(operands)
        if op in _INFIX:
            return Binary(_INFIX[op], *operands)
        match op, operands:
            case "minus", [operand]:
                return Unary("-", operand)
            case "max" | "min", _:
                function = self.helpers.name(op)
                return reduce(lambda found, operand: Invoke(function, (found, operand)), operands)
            case "fdiv_q", _:
                return Invoke(self.helpers.name("floord"), tuple(operands))
            case "cond" | "select", [condition, then, otherwise]:
                return Choice(condition, then, otherwise)
            case "access", [Name(array), *subscripts]:
                return Item(array, tuple(subscripts))
            case _:
                raise ValueError(f"isl AST operation {op} has no C form here")

    def _longer(self, operands: list[ctree.Expr]) -> list[ctree.Expr]:
        """Operands of a sum or product, one of them in long where the result may be longer than all."""
        if not all(self._is_short(one) for one in operands):
            return operands
        at = next((at for at, one in enumerate(operands) if not isinstance(one, Int)), None)
        return [_in_long(one) if place == at else one for place, one in enumerate(operands)]

    def _is_short(self, value: ctree.Expr) -> bool:
        """Whether C computes a value in the type of short variables."""
        match value:
            case Name(name):
                return name in self._short
            case Binary(_, left, right):
                return self._is_short(left) and self._is_short(right)
            case Unary(_, operand) | Paren(operand):
                return self._is_short(operand)
        return isinstance(value, Int)


def _in_long(value: ctree.Expr) -> ctree.Expr:
    """A value whose first variable is converted, so that C computes all of it in long."""
    match value:
        case Binary(op, Int() as left, right):
            return Binary(op, left, _in_long(right))
        case Binary(op, left, right):
            return Binary(op, _in_long(left), right)
        case Unary(op, operand):
            return Unary(op, _in_long(operand))
        case Paren(operand):
            return Paren(_in_long(operand))
    return ctree.Cast("long", value)


def _negated(operand: ctree.Expr) -> ctree.Expr | None:
    """-operand, where it is a product with a negative constant or a negation; else None."""
    match operand:
        case Unary("-", inner):
            return inner if level(inner) >= MUL else Paren(inner)
        case Binary("*", Int(value), factor) if value < 0:
            return Binary("*", Int(-value), factor)
        case _:
            return None


def _alternatives(operand: ctree.Expr) -> list[ctree.Expr]:
    """The parts of a disjunction, each fit to stand in one."""
    if isinstance(operand, Binary) and operand.op == "||":
        return [*_alternatives(operand.left), *_alternatives(operand.right)]
    return [operand if level(operand) > AND else Paren(operand)]


HELPER_TEXT: dict[str, str] = {
    "min": "static inline {type} {prefix}min({type} a, {type} b) {{ return a < b ? a : b; }}",
    "max": "static inline {type} {prefix}max({type} a, {type} b) {{ return a > b ? a : b; }}",
    "floord": "static inline {type} {prefix}floord({type} a, {type} b) "
    "{{ return a >= 0 ? a / b : -((-a + b - 1) / b); }}",
    **{
        f"{row.of(element)}": f"static inline {element.c} {{prefix}}{row.of(element)}({element.c} a, {element.c} b) "
        f"{{{{ return {row.inline}; }}}}"
        for element in (F32, F64)
        for row in FUNCTIONS
        if row.inline
    },
    **{
        row.name.removeprefix("polydl_"): f"static inline {result} {{prefix}}{row.name.removeprefix('polydl_')}"
        f"({row.bits_of} x)\n{{{{\n  {result} y;\n  __builtin_memcpy(&y, &x, sizeof y);\n  return y;\n}}}}"
        for row in FUNCTIONS
        for result in row.spellings.values()
        if row.bits_of is not None
    },
}
"""C text of the helper functions. floord rounds towards minus infinity, for b > 0. Those named as functions of libm
return what these return (of a number and a NaN the number), but gcc can vectorise a loop with them inside."""


COMPLEX_TEXT: dict[str, str] = {
    **{
        f"finite_product{element.suffix}": f"static inline {element.c} _Complex "
        f"{{prefix}}finite_product{element.suffix}({element.c} _Complex x, {element.c} _Complex y)\n{{{{\n"
        f"  const {element.c} a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;\n"
        "  return __builtin_complex(a * c - b * d, a * d + b * c);\n}}"
        for element in (F32, F64)
    },
    **{
        f"too_large{element.suffix}": "/* Whether a part of x * y may not be made of finite numbers. */\n"
        f"static inline int {{prefix}}too_large{element.suffix}({element.c} _Complex x, {element.c} _Complex y)\n{{{{\n"
        + "".join(
            f"  const {element.c} {name} = __builtin_fabs{element.suffix}(__real__ {of}) + "
            f"__builtin_fabs{element.suffix}(__imag__ {of});\n"
            for name, of in (("a", "x"), ("b", "y"))
        )
        + f"  return !(a * b <= __{'FLT' if element is F32 else 'DBL'}_MAX__);\n}}}}"
        for element in (F32, F64)
    },
}
"""C text of helper functions for products of complex numbers. Where |re x| + |im x| times |re y| + |im y| is finite, so
is each of the four products of parts, fused with the next operation or not: no part of x * y is NaN, and C's rules
about infinities (C11 G.5.1) change nothing."""


def of_body(
    value: expr.Expr,
    load: Callable[[int], ctree.Expr],
    chosen: Callable[[int, Sequence[ctree.Expr]], ctree.Expr],
    affine: Callable[[isl.PwAff], ctree.Expr],
    function: Callable[[str], str],
    product: Callable[[expr.Binary, ctree.Expr, ctree.Expr], ctree.Expr | None] = lambda part, left, right: None,
) -> ctree.Expr:
    """A statement's right-hand side; `load` makes an access, `chosen` one whose subscripts data choose, `affine` an
    integer value, `function` the name of a function that is called, `product` a product of two values that is written
    in another way (None: as ever)."""

    def made(part: expr.Expr) -> ctree.Expr:
        match part:
            case expr.Const(text):
                return ctree.Text(text)
            case expr.Load(access):
                return load(access)
            case expr.Gather(element, subscripts):
                written = map(made, subscripts)
                return chosen(element.access, [s.inner if isinstance(s, Paren) else s for s in written])
            case expr.AffineValue(number):
                return Paren(affine(number))
            case expr.Unary(op, operand):
                return Unary(op, made(operand))
            case expr.Convert(source, target, operand):
                inner = made(operand)
                for step in steps(source, target):
                    inner = Invoke(step.name, (inner,)) if step.call else ctree.Cast(step.name, inner)
                return inner
            case expr.Binary(op, left, right):
                sides = [made(left), made(right)]
                if op == "*" and (other := product(part, sides[0], sides[1])) is not None:
                    return other
                if op in _MIXED:
                    sides = [side if level(side) == POSTFIX else Paren(side) for side in sides]
                return Binary(op, *sides)
            case expr.Call(name, arguments):
                return Invoke(function(name), tuple(map(made, arguments)))
            case expr.Conditional(condition, then, otherwise):
                return Choice(made(condition), made(then), made(otherwise))
            case _:
                assert_never(part)

    return made(value)
