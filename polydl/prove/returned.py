"""Calls of the file's functions in printed code, where the program that a proof is about has what they return
(`polydl.rewrite.returned`)."""

from __future__ import annotations

from collections.abc import Mapping

from polydl.model import expr as e
from polydl.model.scop import Function
from polydl.model.types import ElementType
from polydl.prove.symbols import Operation, Symbol, conversion


def with_calls(found: Symbol, wanted: e.Expr, functions: Mapping[str, Function]) -> e.Expr:
    """An expression, with calls of the file's functions back where what is printed has them: where what stands there is
    what these return. `functions`: `Scop.functions`."""
    if not functions or not isinstance(found, Operation):
        return wanted
    function = functions.get(found.name) if found.call else None
    if function is not None and not (isinstance(wanted, e.Call) and wanted.function == found.name):
        given: dict[int, e.Expr] = {}
        if not _returns(function.value, wanted, given) or [*sorted(given)] != [*range(len(found.operands))]:
            return wanted
        arguments = [
            with_calls(printed, _as_given(printed, given[number], element), functions)
            for number, (printed, element) in enumerate(zip(found.operands, function.parameters, strict=True))
        ]
        return e.Call(found.name, tuple(arguments), function.element)
    if isinstance(wanted, e.Convert) and found.name != conversion(wanted.target.name):
        return e.on_operands(wanted, lambda operand: with_calls(found, operand, functions))
    if len(e.operands(wanted)) != len(found.operands):
        return wanted
    printed = iter(found.operands)
    return e.on_operands(wanted, lambda operand: with_calls(next(printed), operand, functions))


def _returns(value: e.Expr, made: e.Expr, given: dict[int, e.Expr]) -> bool:
    """Whether an expression is what a function returns, given something; what is noted in `given`, by parameter."""
    if isinstance(value, e.Load):
        return given.setdefault(value.access, made) == made
    nothing = e.Const("0")
    if e.on_operands(value, lambda _: nothing) != e.on_operands(made, lambda _: nothing):
        return False
    return all(_returns(v, m, given) for v, m in zip(e.operands(value), e.operands(made), strict=True))


def _as_given(printed: Symbol, argument: e.Expr, parameter: ElementType) -> e.Expr:
    """An argument without the conversion that C makes of itself where a function is called."""
    said = isinstance(printed, Operation) and printed.name == conversion(parameter.name)
    implicit = isinstance(argument, e.Convert) and argument.target is parameter and not said
    return argument.operand if implicit and isinstance(argument, e.Convert) else argument
