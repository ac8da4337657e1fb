"""Pointers that the function itself points into another array of the region: `float *p = a + 1;`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.errors import InputError
from polydl.frontend.lower.regions import Found
from polydl.frontend.meaning.symbols import Scope, Symbol, nodes
from polydl.frontend.text.places import Places
from polydl.model.scop import Statement

_SAME = ("__builtin_assume_aligned",)
"""Functions that return their first argument."""


def same_memory(
    found: Found, symbols: Mapping[str, Symbol], statements: Sequence[Statement], places: Places
) -> list[InputError]:
    """Pairs of arrays, one of them written, that are made from one address without `restrict`.

    That two pointers of unknown origin do not overlap may be assumed; of these the function says the opposite.
    """
    written = {access.array for statement in statements for access in statement.accesses if access.write}
    used = dict.fromkeys(access.array for statement in statements for access in statement.accesses)
    known = [symbols[name] for name in used if name in symbols and symbols[name].levels]
    between_rows, into_rows = _origins(found, rows=False), _origins(found, rows=True)
    errors: list[InputError] = []
    for one, other in combinations(known, 2):
        if one.spelled == other.spelled or not {one.name, other.name} & written:
            continue
        origins = into_rows if one.of_rows or other.of_rows else between_rows
        root = _root(one, origins)
        if root != _root(other, origins):
            continue
        derived = one if other.spelled == root else other
        # The pointer that others are made from may be restrict: through them it is its memory all the same.
        if any(at.decays and at.restrict and at.spelled != root for at in (one, other)):
            continue
        errors.append(
            places.error(
                f"'{one.spelled}' and '{other.spelled}' both point into '{root}'"
                if root not in (one.spelled, other.spelled)
                else f"'{derived.spelled}' points into '{root}', which the region uses too",
                derived.node,
                f"subscript '{root}' itself; or declare '{derived.spelled}' restrict, where they do not overlap",
                topic="overlap",
            )
        )
    return errors


def roots(found: Found, symbols: Mapping[str, Symbol]) -> dict[str, str]:
    """By array, the name of what it is made from in the function: its own where that is not known, or nothing."""
    origins = _origins(found, rows=True)
    return {name: _root(symbol, origins) for name, symbol in symbols.items()}


def _origins(found: Found, *, rows: bool) -> dict[str, set[str]]:
    """Pointer -> the names of what it is made from, in declarations and assignments; "" for what is not known.

    `rows`: an element of an array of pointers to rows is a part of that array. Otherwise it is an address of its own.
    """
    origins: dict[str, set[str]] = {}
    for node in nodes(found.function.body):
        if isinstance(node, c_ast.Decl) and node.init is not None:
            origins.setdefault(node.name, set()).add(_base(node.init, found.scope, rows))
        elif isinstance(node, c_ast.Assignment) and isinstance(node.lvalue, c_ast.ID) and node.op == "=":
            origins.setdefault(node.lvalue.name, set()).add(_base(node.rvalue, found.scope, rows))
    return origins


def _base(node: Node, scope: Scope, rows: bool) -> str:
    """The pointer or array that an address is computed from; "" where that is not plain."""
    match node:
        case c_ast.ID():
            return str(node.name)
        case c_ast.StructRef(name=c_ast.ID(name=structure)):
            return f"{structure}{node.type}{node.field.name}"
        case c_ast.Cast() | c_ast.UnaryOp(op="&"):
            return _base(node.expr, scope, rows)
        case c_ast.ArrayRef(name=c_ast.ID() | c_ast.ArrayRef()):
            name = _base(node.name, scope, rows)
            symbol = scope.find(name)
            elements = symbol is not None and not any(level.pointer for level in symbol.levels[1:])
            return name if elements or (rows and symbol is not None and symbol.of_rows) else ""
        case c_ast.BinaryOp(op="+" | "-", left=left, right=right):
            right_too = isinstance(left, c_ast.Constant)
            return _base(left, scope, rows) or (_base(right, scope, rows) if right_too else "")
        case c_ast.FuncCall(name=c_ast.ID(name=name), args=arguments) if name in _SAME and arguments is not None:
            return _base(arguments.exprs[0], scope, rows)
    return ""


def _root(symbol: Symbol, origins: Mapping[str, Iterable[str]]) -> str:
    """The name at the end of the chain of plain derivations that a pointer stands at the head of."""
    name, seen = symbol.spelled, {symbol.spelled}
    while True:
        (before, *others) = {*origins.get(name, ())} - {name} or {""}
        if others or not before or before in seen:
            return name
        name = before
        seen.add(name)
