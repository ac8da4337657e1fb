"""Questions about pycparser's nodes that the proof asks of the printed C."""

from __future__ import annotations

import re
from typing import Any

from pycparser import c_ast

from polydl.prove.integers import Unreadable, affine


def generated_block(node: Any) -> Any:
    """The block of the generated code; None where there is none."""
    for _, child in node.children():
        found = generated_block(child)
        if found is not None:
            return found
    begins = isinstance(node, c_ast.Compound) and any(
        isinstance(i, c_ast.FuncCall) and re.fullmatch(r"polydl\d*_instance_begin", i.name.name)
        for i in node.block_items or []
        if isinstance(getattr(i, "name", None), c_ast.ID)
    )
    return node if begins else None


def line_of(item: Any) -> int:
    """Line of a node in the printed C; 0 where it has none."""
    return int(item.coord.line) if getattr(item, "coord", None) is not None else 0


def first_number(node: Any) -> int:
    """The constant that a sum begins with."""
    while isinstance(node, c_ast.BinaryOp):
        node = node.left
    return affine(node, {}).constant


def names_in(node: Any) -> list[str]:
    """The identifiers in an expression."""
    if node is None:
        return []
    own = [node.name] if isinstance(node, c_ast.ID) else []
    return own + [n for _, child in node.children() for n in names_in(child)]


def without_effect(item: Any) -> None:
    """Raise Unreadable for an expression statement that may do something."""
    parts = item.exprs if isinstance(item, c_ast.ExprList) else [item]
    if not all(isinstance(p, c_ast.Cast | c_ast.EmptyStatement) for p in parts):
        raise Unreadable(f"line {line_of(item)}: an expression as a statement")


def loop_start(item: Any) -> tuple[str, Any]:
    """Variable and first value of a loop. Raises Unreadable."""
    init = item.init
    if isinstance(init, c_ast.DeclList) and len(init.decls) == 1:
        return str(init.decls[0].name), init.decls[0].init
    raise Unreadable(f"line {line_of(item)}: a loop of another form")


def loop_step(item: Any, variable: str) -> int:
    """Step of a loop that counts upwards. Raises Unreadable."""
    after = item.next
    if isinstance(after, c_ast.UnaryOp) and after.op in ("p++", "++") and after.expr.name == variable:
        return 1
    if isinstance(after, c_ast.Assignment) and after.op == "+=" and after.lvalue.name == variable:
        value = affine(after.rvalue, {})
        if value.constant > 0 and not value.terms:
            return value.constant
    raise Unreadable(f"line {line_of(item)}: a loop of another form")
