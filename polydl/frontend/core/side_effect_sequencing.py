"""Statements of functions taken apart, in place.

    *p++ = a * *q++;      *p = a * *q; p++; q++;
    y[++k] = x[i];        ++k; y[k] = x[i];
    float v = *p++;       float v = *p; p++;
    if (++k == n) k = 0;  ++k; if (k == n) k = 0;

A step is taken out where it surely happens and the statement names its variable nowhere else.

    if (y >= 0 && y < H && in[y][x] > most) most = in[y][x];
    if (y >= 0 && y < H) { if (in[y][x] > most) most = in[y][x]; }

An `if` whose conditions test both bounds and data is two. The outer one may say for which iterations the statement
runs, as loops do; the inner one is for data to decide. Where data decide both, they are read as one again
(`lower.conditional_assignments`).
"""

from __future__ import annotations

import copy
from functools import reduce

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.core.loop_forms import condition_apart, sure_steps
from polydl.frontend.core.node_copies import with_in_place
from polydl.frontend.core.tree_parts import summands
from polydl.frontend.meaning.symbols import nodes


def stepped_apart(body: Node) -> None:
    """Take the steps out of the assignments and declarations of a function. The tree is changed."""
    for node in list(nodes(body)):
        match node:
            case c_ast.Compound() if node.block_items is not None:
                node.block_items = [one for item in node.block_items for one in _apart(item)]
            case c_ast.Case() | c_ast.Default() if node.stmts is not None:
                node.stmts = [one for item in node.stmts for one in _apart(item)]
            case c_ast.For() | c_ast.While() | c_ast.DoWhile() | c_ast.Label():
                node.stmt = _one(node.stmt)
            case c_ast.If():
                node.iftrue = _one(node.iftrue)
                node.iffalse = None if node.iffalse is None else _one(node.iffalse)


def _one(item: Node) -> Node:
    parts = _apart(item)
    return item if len(parts) == 1 else c_ast.Compound(parts, item.coord)


def _apart(statement: Node) -> list[Node]:
    """An assignment, or a declaration, with the steps in it before and behind it; an `if` with those of its condition
    before it."""
    if isinstance(statement, c_ast.If):
        done, condition = condition_apart(statement.cond, once=True)
        statement.cond = condition
        return [*map(copy.copy, done), statement]
    steps = sure_steps(statement) if isinstance(statement, c_ast.Assignment | c_ast.Decl) else []
    if not steps:
        return [statement]
    before = [copy.copy(one) for one in steps if not one.op.startswith("p")]
    behind = [copy.copy(one) for one in steps if one.op.startswith("p")]
    return [*before, with_in_place({id(one): one.expr for one in steps}, statement), *behind]


def conditions_apart(body: Node) -> None:
    """Split each `if` without `else` of a function in two, in place: the conditions before the first that reads memory
    stand in the outer one."""
    for node in list(nodes(body)):
        if isinstance(node, c_ast.If) and node.iffalse is None:
            conditions = summands(node.cond, "&&")
            before = next((n for n, one in enumerate(conditions) if _reads(one)), 0)
            if before:
                inner = c_ast.If(_all(conditions[before:]), node.iftrue, None, node.coord)
                node.cond, node.iftrue = _all(conditions[:before]), c_ast.Compound([inner], node.coord)


def _all(conditions: list[Node]) -> Node:
    return reduce(lambda one, other: c_ast.BinaryOp("&&", one, other, one.coord), conditions)


def _reads(condition: Node) -> bool:
    """Whether it reads memory, or calls what may."""
    return any(
        isinstance(node, c_ast.ArrayRef | c_ast.StructRef | c_ast.FuncCall)
        or (isinstance(node, c_ast.UnaryOp) and node.op == "*")
        for node in nodes(condition)
    )
