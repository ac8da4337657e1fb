"""Split `if`s whose conditions test both bounds and data: an `if` on bounds around one on data.

    if (y >= 0 && y < H && in[y][x] > most) most = in[y][x];
    if (y >= 0 && y < H) { if (in[y][x] > most) most = in[y][x]; }

The outer one may say for which iterations the statement runs, as loops do; the inner one is for data to decide. Where
data decide both, they are read as one again (`lower.conditional_assignments`).
"""

from __future__ import annotations

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.meaning.symbols import nodes


def conditions_apart(body: Node) -> None:
    """Split each `if` without `else` of a function in two, in place: the conditions before the first that reads memory
    stand in the outer one."""
    for node in list(nodes(body)):
        if isinstance(node, c_ast.If) and node.iffalse is None:
            conditions = _joined(node.cond)
            before = next((n for n, one in enumerate(conditions) if _reads(one)), 0)
            if before:
                inner = c_ast.If(_all(conditions[before:]), node.iftrue, None, node.coord)
                node.cond, node.iftrue = _all(conditions[:before]), c_ast.Compound([inner], node.coord)


def _joined(condition: Node) -> list[Node]:
    """What `&&` joins, in order."""
    if isinstance(condition, c_ast.BinaryOp) and condition.op == "&&":
        return [*_joined(condition.left), *_joined(condition.right)]
    return [condition]


def _all(conditions: list[Node]) -> Node:
    first, *rest = conditions
    for one in rest:
        first = c_ast.BinaryOp("&&", first, one, first.coord)
    return first


def _reads(condition: Node) -> bool:
    """Whether it reads memory, or calls what may."""
    return any(
        isinstance(node, c_ast.ArrayRef | c_ast.StructRef | c_ast.FuncCall)
        or (isinstance(node, c_ast.UnaryOp) and node.op == "*")
        for node in nodes(condition)
    )
