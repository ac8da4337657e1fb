"""C text of isl AST expressions and of statement bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

from polydl.model import isl
from polydl.model.expr import AffineValue, Binary, Call, Conditional, Const, Convert, Expr, Load, Unary
from polydl.model.isl import to_int
from polydl.model.isl.trees import expression_kind, operands_of, operation
from polydl.model.types import F32, F64

# C precedence levels, higher binds tighter.
_POSTFIX, _UNARY, _MUL, _ADD, _SHIFT, _REL, _EQ, _BAND, _XOR, _BOR, _AND, _OR, _TERNARY = range(13, 0, -1)

_INFIX: Mapping[str, tuple[str, int]] = {
    "and_": ("&&", _AND),
    "and_then": ("&&", _AND),
    "or_": ("||", _OR),
    "or_else": ("||", _OR),
    "add": ("+", _ADD),
    "sub": ("-", _ADD),
    "mul": ("*", _MUL),
    # isl asserts exactness or non-negative operands for these three, where C's truncation is right.
    "div": ("/", _MUL),
    "pdiv_q": ("/", _MUL),
    "pdiv_r": ("%", _MUL),
    "zdiv_r": ("%", _MUL),
    "eq": ("==", _EQ),
    "le": ("<=", _REL),
    "lt": ("<", _REL),
    "ge": (">=", _REL),
    "gt": (">", _REL),
}

_BINARY_LEVEL: Mapping[str, int] = {
    **dict.fromkeys(("*", "/", "%"), _MUL),
    **dict.fromkeys(("+", "-"), _ADD),
    **dict.fromkeys(("<<", ">>"), _SHIFT),
    **dict.fromkeys(("<", ">", "<=", ">="), _REL),
    **dict.fromkeys(("==", "!="), _EQ),
    "&": _BAND,
    "^": _XOR,
    "|": _BOR,
    "&&": _AND,
    "||": _OR,
}


@dataclass(slots=True)
class Helpers:
    """The integer helper functions that the printed text turned out to need."""

    prefix: str
    used: set[str]

    def name(self, helper: str) -> str:
        self.used.add(helper)
        return f"{self.prefix}{helper}"


class IslPrinter:
    """Prints isl AST expressions; `rename` gives the C name of an isl identifier."""

    def __init__(self, helpers: Helpers, rename: Callable[[str], str]) -> None:
        self._helpers = helpers
        self._rename = rename

    def __call__(self, expression: isl.AstExpr) -> str:
        return self._print(expression)[0]

    def function(self, name: str) -> str:
        """What to call for a function of the program: a helper that does the same, where there is one."""
        return self._helpers.name(name) if name in HELPER_TEXT else name

    def factor(self, expression: isl.AstExpr) -> str:
        """Text that may stand on the right of a multiplication."""
        return self._at(expression, _UNARY)

    def _at(self, expression: isl.AstExpr, level: int) -> str:
        text, own = self._print(expression)
        return text if own >= level else f"({text})"

    def _print(self, expression: isl.AstExpr) -> tuple[str, int]:
        kind = expression_kind(expression)
        if kind == "id":
            return self._rename(expression.get_id().get_name()), _POSTFIX
        if kind == "int":
            value = to_int(expression.get_val())
            return str(value), _POSTFIX if value >= 0 else _UNARY
        return self._operation(expression)

    def _negated(self, expression: isl.AstExpr) -> str | None:
        """Text of -expression, where expression is a product with a negative constant or a negation; else None."""
        if expression_kind(expression) != "op":
            return None
        operands = operands_of(expression)
        if operation(expression) == "minus":
            return self._at(operands[0], _MUL)
        if operation(expression) == "mul" and expression_kind(operands[0]) == "int":
            value = to_int(operands[0].get_val())
            if value < 0:
                return f"{-value} * {self._at(operands[1], _UNARY)}"
        return None

    def _operation(self, expression: isl.AstExpr) -> tuple[str, int]:
        op = operation(expression)
        operands = operands_of(expression)
        if op == "add" and self._negated(operands[0]) is not None:
            # isl writes `-4 * c0 + 99`; people write `99 - 4 * c0`.
            return f"{self._at(operands[1], _ADD)} - {self._negated(operands[0])}", _ADD
        if op in ("or_", "or_else"):
            # Compilers ask for parentheses around && inside ||.
            sides = [
                self(o) if expression_kind(o) == "op" and operation(o) == op else self._at(o, _AND + 1)
                for o in operands
            ]
            return f"{sides[0]} || {sides[1]}", _OR
        if op in _INFIX:
            symbol, level = _INFIX[op]
            text = f"{self._at(operands[0], level)} {symbol} {self._at(operands[1], level + 1)}"
            return text, level
        if op == "minus":
            return f"-{self._at(operands[0], _UNARY + 1)}", _UNARY
        if op in ("max", "min"):
            name = self._helpers.name("max" if op == "max" else "min")
            text = self(operands[0])
            for operand in operands[1:]:
                text = f"{name}({text}, {self(operand)})"
            return text, _POSTFIX
        if op == "fdiv_q":
            return f"{self._helpers.name('floord')}({self(operands[0])}, {self(operands[1])})", _POSTFIX
        if op in ("cond", "select"):
            a, b, c = operands
            return f"{self._at(a, _OR)} ? {self(b)} : {self._at(c, _TERNARY)}", _TERNARY
        if op == "access":
            subscripts = "".join(f"[{self(s)}]" for s in operands[1:])
            return f"{self(operands[0])}{subscripts}", _POSTFIX
        raise ValueError(f"isl AST operation {op} has no C form here")


HELPER_TEXT: Mapping[str, str] = {
    "min": "static inline {type} {prefix}min({type} a, {type} b) {{ return a < b ? a : b; }}",
    "max": "static inline {type} {prefix}max({type} a, {type} b) {{ return a > b ? a : b; }}",
    "floord": "static inline {type} {prefix}floord({type} a, {type} b) "
    "{{ return a >= 0 ? a / b : -((-a + b - 1) / b); }}",
    **{
        name: f"static inline {element.c} {{prefix}}{name}({element.c} a, {element.c} b) "
        f"{{{{ return (a {sign} b) || (b != b) ? a : b; }}}}"
        for element in (F32, F64)
        for name, sign in ((f"fmax{element.suffix}", ">"), (f"fmin{element.suffix}", "<"))
    },
}
"""C text of the helper functions. floord rounds towards minus infinity, for b > 0. Those named as functions of libm
return what these return (of a number and a NaN the number), but gcc can vectorise a loop with them inside."""


def expression_text(
    expr: Expr, load: Callable[[int], str], affine: Callable[[isl.PwAff], str], function: Callable[[str], str]
) -> str:
    """C text of a statement's right-hand side; `load` prints an access, `affine` an integer value, `function` the name
    of a function that is called."""
    return _expr(expr, load, affine, function)[0]


def _expr(
    expr: Expr, load: Callable[[int], str], affine: Callable[[isl.PwAff], str], function: Callable[[str], str]
) -> tuple[str, int]:
    def at(operand: Expr, level: int) -> str:
        text, own = _expr(operand, load, affine, function)
        return text if own >= level else f"({text})"

    match expr:
        case Const(text):
            return text, _UNARY if text.startswith(("-", "+")) else _POSTFIX
        case Load(access):
            return load(access), _POSTFIX
        case AffineValue(value):
            return f"({affine(value)})", _POSTFIX
        case Unary(op, operand):
            inner = at(operand, _UNARY)
            return f"{op}({inner})" if inner.startswith(("-", "+")) else f"{op}{inner}", _UNARY
        case Convert(_, target, operand):
            return f"({target}){at(operand, _UNARY)}", _UNARY
        case Binary(op, left, right):
            level = _BINARY_LEVEL[op]
            # gcc asks for parentheses where && meets || and where bit operators meet others.
            mixed = level in (_AND, _OR, _BAND, _XOR, _BOR, _SHIFT)
            return f"{at(left, _POSTFIX if mixed else level)} {op} {at(right, _POSTFIX if mixed else level + 1)}", level
        case Call(name, arguments):
            inside = ", ".join(_expr(a, load, affine, function)[0] for a in arguments)
            return f"{function(name)}({inside})", _POSTFIX
        case Conditional(condition, then, otherwise):
            text = f"{at(condition, _OR)} ? {at(then, _TERNARY)} : {at(otherwise, _TERNARY)}"
            return text, _TERNARY
        case _:
            assert_never(expr)
