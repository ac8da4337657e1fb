"""Right-hand sides of statements as operations on vectors: for the epilogues of microkernels and for row kernels.

What comes out computes lane by lane what C computes from the expression, NaN, infinities and signed zeros included;
calls of the mathematical functions are within the bounds that their rows state (model.functions). What would need
another type in between (a double constant that makes C widen a float) is refused, not approximated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import cache
from typing import assert_never

import numpy as np

from polydl.base.records import dataclass
from polydl.kernels.microkernel import environment
from polydl.model.combiners import COMBINERS
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
    calls,
    constant_number,
)
from polydl.model.functions import Function, Vector, function_of
from polydl.model.types import F32, F64, ElementType, float_literal, literal_value
from polydl.target.isa import VECTOR_TYPES

SHORT_ULPS = 82
"""Largest error of the functions of fp32 by shorter polynomials (`Vector.short`), in units in the last place: less than
a hundredth of a unit of a half, so that a result that is rounded to one is within 0.51 units of the exact one."""

COMPARISONS: Mapping[str, str] = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


class NotVectorised(Exception):
    """An expression that has no exact vector form; the message says what."""


@cache
def math_prologue(element: ElementType) -> str:
    """The vector functions of one element type, with include guards; after `microkernel.isa_prologue`."""
    return environment().get_template("microkernel_math.c.j2").render(t=element, x86=VECTOR_TYPES[element])


@dataclass(frozen=True, slots=True)
class Vectors:
    """How one statement's right-hand side is printed."""

    element: ElementType
    load: Callable[[int], str]
    """C text of the vector that an access reads."""
    fast: bool = False
    """Whether fp32 may take functions in their quick forms (`SHORT_ULPS`), double literals and the double functions of
    <math.h> as if they had an f behind."""
    short: frozenset[Call] = frozenset()
    """Calls of functions that take them all the same (`kernels.short_functions`)."""
    operators: tuple[str, ...] = ("+", "-", "*", "/")
    """Of compound assignments, without the `=`."""
    names: Mapping[Expr, str] = field(default_factory=dict)
    """The variables of vectors that hold parts of the expression already."""
    uniform: Callable[[Expr], str | None] = lambda _: None
    """C of a condition that is the same in all lanes and is asked once for them; None: lanes are compared."""
    masked: Callable[[Expr], str | None] = lambda _: None
    """C of the lanes for which a condition on elements of another type holds; None: it is another condition."""

    @property
    def prefix(self) -> str:
        return f"polydl_{self.element.name}"

    def text(self, value: Expr) -> str:
        """C text of a vector. Raises NotVectorised."""
        match value:
            case Load(access):
                return self.load(access)
            case Const(text):
                return f"{self.prefix}_all({self._constant(text, arithmetic=True)})"
            case Unary("+", operand):
                return self.text(operand)
            case Unary("-", operand):
                return f"{self.prefix}_negative({self.text(operand)})"
            case Binary("/", left, right) if _is_integer(left) and _is_integer(right):
                raise NotVectorised("a division of integers")
            case Binary("+" | "-" | "*" | "/"):
                return self._arithmetic(value)
            case Call(function, arguments):
                return self._call(function, arguments, short=value in self.short)
            case Conditional(condition, then, otherwise):
                return self._conditional(condition, then, otherwise)
            case Convert(_, target, operand) if target is self.element or (self.fast and target is F64):
                return self.text(operand)
            case Convert(_, target, _):
                raise NotVectorised(f"a cast to {target} among {self.element}s")
            case AffineValue():
                number = constant_number(value)
                if number is None:
                    raise NotVectorised("a value made of loop variables")
                return f"{self.prefix}_all({number})"
            case Gather():
                raise NotVectorised("an element that data choose")
            case Unary(op, _) | Binary(op, _, _):
                raise NotVectorised(f"the operator {op}")
            case _:
                assert_never(value)

    def _arithmetic(self, value: Binary) -> str:
        call = beside_one(value) if self.element is F32 else None
        if call is None:
            return f"({self.text(value.left)} {value.op} {self.text(value.right)})"
        form = "{}_plus_one" if call is value.left else "one_plus_{}"
        return self._call(call.function, call.arguments, form, short=call in self.short)

    def _constant(self, text: str, *, arithmetic: bool) -> str:
        """A literal in the vectors' type. One that is a double would make C compute a float in double: allowed only
        where nothing is computed with it (`arithmetic` False) and a float holds it exactly."""
        literal = float_literal(text)
        if literal is None or self.element.holds(literal):
            return text
        try:
            number = float(text)
        except ValueError:
            raise NotVectorised(f"the literal {text}") from None
        if text.isidentifier():  # INFINITY or NAN, which have no suffix
            return text
        own = f"{text.rstrip('lL')}{self.element.suffix}"
        if self.fast:
            return own
        if arithmetic or float(np.dtype(self.element.numpy).type(number)) != number:
            raise NotVectorised(f"the {literal} literal {text} in an expression of {self.element}s (write {own})")
        return own

    def compared(self, value: Expr) -> str:
        """C text of an operand that is compared or chosen, not computed with. Raises NotVectorised."""
        match value:
            case Const(text):
                return f"{self.prefix}_all({self._constant(text, arithmetic=False)})"
            case Unary("-", Const(text)):
                return f"{self.prefix}_all(-{self._constant(text, arithmetic=False)})"
            case Conditional(condition, then, otherwise):
                return self._conditional(condition, then, otherwise)
            case _:
                return self.text(value)

    def _call(self, function: str, arguments: tuple[Expr, ...], form: str = "{}", *, short: bool) -> str:
        """`form`: what the name is of that of the function."""
        row = _row(function, self.element, fast=self.fast)
        vector = None if row is None else _vector(row, self.element)
        if row is None or vector is None or len(arguments) != row.arity:
            raise NotVectorised(f"the function {function} among {self.element}s")
        take = self.compared if row.chooses else self.text
        end = "_short" if (short or self.fast) and self.element is F32 and vector.short else ""
        return f"{self.prefix}_{form.format(vector.name)}{end}({', '.join(take(a) for a in arguments)})"

    def _conditional(self, condition: Expr, then: Expr, otherwise: Expr) -> str:
        then_text, otherwise_text = self.compared(then), self.compared(otherwise)
        if (same := self.uniform(condition)) is not None:
            return f"({same} ? {then_text} : {otherwise_text})"
        if isinstance(condition, Binary) and condition.op in "<>":
            sides = self.compared(condition.left), self.compared(condition.right)
            # x86's max(x, y) is x > y ? x : y, with NaN and zeros too.
            if sides == (then_text, otherwise_text):
                return f"{self.prefix}_{'max' if condition.op == '>' else 'min'}({then_text}, {otherwise_text})"
            if sides == (otherwise_text, then_text):
                return f"{self.prefix}_{'max' if condition.op == '<' else 'min'}({then_text}, {otherwise_text})"
        return f"{self.prefix}_select({self.test(condition)}, {then_text}, {otherwise_text})"

    def test(self, condition: Expr) -> str:
        """C text of the lanes in which a condition holds. Raises NotVectorised."""
        if (found := self.masked(condition)) is not None:
            return found
        match condition:
            case Binary(op, left, right) if op in COMPARISONS:
                return f"{self.prefix}_{COMPARISONS[op]}({self.compared(left)}, {self.compared(right)})"
            case Binary("&&" | "||" as op, left, right):
                name = "and" if op == "&&" else "or"
                return f"{self.prefix}_{name}({self.test(left)}, {self.test(right)})"
            case Unary("!", operand):
                return f"{self.prefix}_not({self.test(operand)})"
            case Call(function, (x,)) if (row := function_of(function)) is not None and row.itself:
                return f"{self.prefix}_{COMPARISONS[row.itself]}({self.compared(x)}, {self.compared(x)})"
            case _:
                raise NotVectorised("a condition that is no comparison")


def beside_one(value: Expr) -> Call | None:
    """The call of a function of floats to which 1 is added, where vectors have the sum (`Vector.plus_one`)."""
    if not isinstance(value, Binary) or value.op != "+":
        return None
    for call, number in ((value.left, value.right), (value.right, value.left)):
        if isinstance(call, Call) and _is_one(number):
            row = function_of(call.function)
            if row is not None and call.function == row.of(F32) and row.vector is not None and row.vector.plus_one:
                return call
    return None


def _is_one(value: Expr) -> bool:
    """Whether it is 1 as a float, or as an integer that becomes one; with a double, C would add doubles."""
    if isinstance(value, Convert):
        return value.target is F32 and isinstance(value.operand, Const) and literal_value(value.operand.text) == 1
    return isinstance(value, Const) and literal_value(value.text) == 1 and float_literal(value.text) in (None, F32)


def _row(function: str, element: ElementType, *, fast: bool) -> Function | None:
    """The row of the function of this type; `fast`: or of doubles."""
    row = function_of(function)
    return row if row is not None and (function == row.of(element) or (fast and function == row.name)) else None


def _vector(row: Function, element: ElementType) -> Vector | None:
    """How vectors of a type compute a function; None: they can't."""
    vector = row.vector
    return None if vector is None or (element is F64 and vector.ulps_double is None) else vector


def own_prologues(values: Iterable[Expr], element: ElementType, *, fast: bool) -> tuple[str, ...]:
    """The vector functions of templates of their own that expressions call, with include guards; after
    `math_prologue`."""
    rows = [_row(name, element, fast=fast) for value in values for name in calls(value)]
    vectors = [vector for row in rows if row is not None and (vector := _vector(row, element)) is not None]
    own = dict.fromkeys(name for vector in vectors for name in vector.templates)
    return tuple(environment().get_template(name).render(t=element) for name in own)


def _is_integer(value: Expr) -> bool:
    """Whether C computes an expression without arrays and loop variables in integers."""
    match value:
        case Const(text):
            return text.rstrip("uUlL").isdigit()
        case Unary(_, operand):
            return _is_integer(operand)
        case Binary(_, left, right):
            return _is_integer(left) and _is_integer(right)
        case AffineValue():
            return True
        case _:
            return False


def uses_functions(text: str, element: ElementType) -> bool:
    """Whether vector text needs `math_prologue`."""
    prefix = f"polydl_{element.name}_"
    basic = ("all", "zero", "load", "load_part", "store", "store_part", "fma", "max", "min")
    names = {piece.partition("(")[0] for piece in text.split(prefix)[1:]}
    return not names <= {*basic, "keep", *(row.gather for row in COMBINERS)}
