"""What a loop's header does: the variables that it gives values to, steps and compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pycparser import c_ast

UPWARDS = ("++", "p++")
DOWNWARDS = ("--", "p--")
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!="}


@dataclass(frozen=True, slots=True)
class Header:
    """What a `for` loop's header says of the variables that it names."""

    first: dict[str, Any]
    """What they are given, in order."""
    declares: bool
    steps: dict[str, int]
    written: dict[str, Any]
    """The same steps as expressions."""
    name: str
    """The variable that is compared."""
    op: str
    last: Any


def stepped(node: Any) -> tuple[str, int] | None:
    """What an expression steps, and by how much; None for one that does something else."""
    match node:
        case c_ast.UnaryOp(op=op, expr=c_ast.ID(name=name)) if op in (*UPWARDS, *DOWNWARDS):
            return name, 1 if op in UPWARDS else -1
        case c_ast.Assignment(op="+=" | "-=" as op, lvalue=c_ast.ID(name=name), rvalue=c_ast.Constant(value=value)):
            by = int(value) if value.isdecimal() and value[0] != "0" else 0
            return None if by == 0 else (name, by if op == "+=" else -by)
        case _:
            return None


def header_of(node: Any) -> Header | None:
    """The header of a loop, where it does nothing but give values to variables, step them by constants and compare one
    of them."""
    declares = isinstance(node.init, c_ast.DeclList)
    first: dict[str, Any] = {}
    for one in listed(node.init):
        match one:
            case c_ast.Decl(name=name, init=c_ast.Node() as value):
                first[name] = value
            case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=name), rvalue=value):
                first[name] = value
            case _:
                return None
    steps: dict[str, int] = {}
    expressions: dict[str, Any] = {}
    for one in listed(node.next):
        found = stepped(one)
        if found is None or found[0] in steps:
            return None
        steps[found[0]] = found[1]
        expressions[found[0]] = one
    match node.cond:
        case c_ast.BinaryOp(op=op, left=c_ast.ID(name=name), right=last) if op in _MIRRORED and name in steps:
            return Header(first, declares, steps, expressions, name, op, last)
        case c_ast.BinaryOp(op=op, left=last, right=c_ast.ID(name=name)) if op in _MIRRORED and name in steps:
            return Header(first, declares, steps, expressions, name, _MIRRORED[op], last)
        case c_ast.BinaryOp(op=">" | "!=", left=c_ast.UnaryOp(op="p--", expr=c_ast.ID(name=name)), right=last):
            if name in steps or name not in first:
                return None
            # What runs behind the condition sees it stepped.
            first[name] = c_ast.BinaryOp("-", first[name], c_ast.Constant("int", "1"))
            return Header(first, declares, {**steps, name: -1}, expressions, name, ">=", last)
        case _:
            return None


def listed(node: Any) -> list[Any]:
    """The parts of what stands in a header between two semicolons."""
    match node:
        case None:
            return []
        case c_ast.DeclList(decls=parts) | c_ast.ExprList(exprs=parts):
            return list(parts)
        case _:
            return [node]


def one_of(parts: list[Any], node: Any) -> Any:
    """What stands in a header between two semicolons, of its parts."""
    return parts[0] if len(parts) == 1 else c_ast.ExprList(parts, node.coord) if parts else None
