"""Steps inside of expressions as statements of their own.

    *p++ = a * *q++;      *p = a * *q; p++; q++;
    y[++k] = x[i];        ++k; y[k] = x[i];
    float v = *p++;       float v = *p; p++;

A step is taken out where it surely happens and the statement names its variable nowhere else.
"""

from __future__ import annotations

import copy

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.core.loop_forms import sure_steps
from polydl.frontend.core.node_copies import with_in_place
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
    """An assignment, or a declaration, with the steps in it before and behind it."""
    steps = sure_steps(statement) if isinstance(statement, c_ast.Assignment | c_ast.Decl) else []
    if not steps:
        return [statement]
    before = [copy.copy(one) for one in steps if not one.op.startswith("p")]
    behind = [copy.copy(one) for one in steps if one.op.startswith("p")]
    return [*before, with_in_place({id(one): one.expr for one in steps}, statement), *behind]
