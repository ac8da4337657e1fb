"""Functions that may be called in a scop: no side effects, and results that depend on the arguments alone."""

from __future__ import annotations

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.meaning.library import LIBRARY_CONSTANTS
from polydl.frontend.meaning.symbols import Scope, parameters_of
from polydl.frontend.text.parse import Unit
from polydl.model.conversions import conversion_of
from polydl.model.functions import result_of
from polydl.model.types import ElementType


def result_type(name: str, unit: Unit, scope: Scope) -> ElementType | None:
    """Type of the result of a pure function; None when a function is not known to be pure.

    Pure: the conversions of polydl.h; the names of `model.functions` unless the file defines its own; functions
    declared `__attribute__((const))`, or assumed to be as if they were; functions of the file that use nothing but
    their parameters, variables of their own, constants that nothing can change and other pure functions.
    """
    return _result_type(name, unit, scope, frozenset())


def _result_type(name: str, unit: Unit, scope: Scope, visiting: frozenset[str]) -> ElementType | None:
    if name in visiting:
        return None
    conversion = conversion_of(name)
    if conversion is not None:
        return conversion[1]
    definition = unit.definition(name)
    declared = scope.find(name)
    ctype = declared.ctype if declared is not None and declared.is_function else None
    library = result_of(name)
    if definition is None and name not in unit.chunks and library is not None:
        return library
    returned = _returned(declared.node, scope) if ctype is not None and declared is not None else None
    if returned is None:
        return None
    if name in unit.const_functions or name in unit.assumed_pure:
        return returned
    if definition is not None and _pure_body(definition, unit, scope, visiting | {name}):
        return returned
    return None


def _returned(node: Node, scope: Scope) -> ElementType | None:
    """Arithmetic result type of a function declaration."""
    if not isinstance(node, c_ast.Decl) or not isinstance(node.type, c_ast.FuncDecl):
        return None
    return scope.arithmetic(node.type.type)


_PARTS = (
    c_ast.BinaryOp,
    c_ast.TernaryOp,
    c_ast.Cast,
    c_ast.ExprList,
    c_ast.DeclList,
    c_ast.Compound,
    c_ast.If,
    c_ast.For,
    c_ast.While,
    c_ast.DoWhile,
    c_ast.Return,
    c_ast.EmptyStatement,
    c_ast.Break,
    c_ast.Continue,
    c_ast.Typename,
    c_ast.TypeDecl,
    c_ast.IdentifierType,
)
"""What is pure when its parts are."""


def _pure_body(definition: c_ast.FuncDef, unit: Unit, scope: Scope, visiting: frozenset[str]) -> bool:
    """Whether a body computes its result from its parameters alone: it declares, assigns and reads scalars of its own
    and calls pure functions only. (That it ends is the program's promise, here as in the original.)"""
    names: set[str] = set()
    for parameter in parameters_of(definition):
        if isinstance(parameter, c_ast.Decl):
            if not _scalar(parameter, scope):
                return False
            names.add(parameter.name)

    def pure(node: Node | None) -> bool:
        match node:
            case None:
                return True
            case c_ast.Constant():
                return bool(node.type != "string")
            case c_ast.ID():
                found = scope.file.find(node.name)
                constant = found is not None and found.value is not None
                return node.name in names or node.name in LIBRARY_CONSTANTS or constant
            case c_ast.UnaryOp(op="sizeof"):
                return True
            case c_ast.UnaryOp(op="+" | "-" | "!" | "~"):
                return pure(node.expr)
            case c_ast.UnaryOp(op="p++" | "p--" | "++" | "--") | c_ast.Assignment():
                target = node.expr if isinstance(node, c_ast.UnaryOp) else node.lvalue
                own = isinstance(target, c_ast.ID) and target.name in names
                return own and (isinstance(node, c_ast.UnaryOp) or pure(node.rvalue))
            case c_ast.FuncCall(name=c_ast.ID(name=called)):
                if _result_type(called, unit, scope, visiting) is None:
                    return False
                return all(pure(argument) for argument in (node.args.exprs if node.args is not None else ()))
            case c_ast.Decl():
                if not _scalar(node, scope) or node.storage or not pure(node.init):
                    return False
                names.add(node.name)
                return True
        return isinstance(node, _PARTS) and all(pure(child) for _, child in node.children())

    return pure(definition.body)


def _scalar(node: c_ast.Decl, scope: Scope) -> bool:
    """Whether a declaration is that of an arithmetic scalar that is no volatile."""
    return scope.arithmetic(node.type) is not None and "volatile" not in (node.quals or [])
