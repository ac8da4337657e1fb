"""Functions that may be called in a scop: no side effects, and results that depend on the arguments alone."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from polydl.frontend.ctypes import CType
from polydl.frontend.parse import Unit
from polydl.frontend.symbols import Scope
from polydl.frontend.values import LIBRARY_CONSTANTS, PURE


def result_type(name: str, unit: Unit, scope: Scope) -> CType | None:
    """Type of the result of a pure function; None when a function is not known to be pure.

    Pure: the libm names of `values.PURE` unless the file defines its own; functions declared
    `__attribute__((const))`; functions of the file that are one return of an expression of their parameters.
    """
    return _result_type(name, unit, scope, frozenset())


def _result_type(name: str, unit: Unit, scope: Scope, visiting: frozenset[str]) -> CType | None:
    if name in visiting:
        return None
    definition = next(
        (e for e in unit.externals if isinstance(e, c_ast.FuncDef) and e.decl.name == name and e.body is not None), None
    )
    declared = scope.find(name)
    ctype = declared.ctype if declared is not None and declared.is_function else None
    if definition is None and name not in unit.chunks and name in PURE:
        return PURE[name]
    returned = _returned(declared.node, scope) if ctype is not None and declared is not None else None
    if returned is None:
        return None
    if name in unit.const_functions:
        return returned
    if definition is not None and _one_return(definition, unit, scope, visiting | {name}):
        return returned
    return None


def _returned(node: Any, scope: Scope) -> CType | None:
    """Arithmetic result type of a function declaration."""
    if not isinstance(node.type, c_ast.FuncDecl):
        return None
    ctype, levels, _, _ = scope.resolve(node.type.type)
    return ctype if not levels and (ctype.is_int or ctype.is_float) else None


def _one_return(definition: Any, unit: Unit, scope: Scope, visiting: frozenset[str]) -> bool:
    """Whether a body is `return e;` with e made of parameters, constants, arithmetic and pure calls."""
    items = definition.body.block_items or []
    if len(items) != 1 or not isinstance(items[0], c_ast.Return) or items[0].expr is None:
        return False
    parameters = definition.decl.type.args
    names: set[str] = set()
    for parameter in parameters.params if parameters is not None else ():
        if isinstance(parameter, c_ast.Decl):
            _, levels, _, _ = scope.resolve(parameter.type)
            if levels:
                return False
            names.add(parameter.name)

    def pure(node: Any) -> bool:
        match node:
            case c_ast.Constant():
                return bool(node.type != "string")
            case c_ast.ID():
                return node.name in names or node.name in LIBRARY_CONSTANTS
            case c_ast.UnaryOp(op="+" | "-" | "!" | "~"):
                return pure(node.expr)
            case c_ast.BinaryOp():
                return pure(node.left) and pure(node.right)
            case c_ast.TernaryOp():
                return pure(node.cond) and pure(node.iftrue) and pure(node.iffalse)
            case c_ast.Cast():
                return pure(node.expr)
            case c_ast.FuncCall(name=c_ast.ID()):
                if _result_type(node.name.name, unit, scope, visiting) is None:
                    return False
                return all(pure(argument) for argument in (node.args.exprs if node.args is not None else ()))
        return False

    return pure(items[0].expr)
