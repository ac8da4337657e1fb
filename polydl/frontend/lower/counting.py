"""`while` and `do` loops that count, as `for` loops.

    int i = 0;                              for (i = 0; i < n; i++)
    while (i < n) { x[i] = 0; i++; }            x[i] = 0;

A loop is taken where its condition is on a variable that is set right in front of it, that the last statement of its
body (or the condition itself, as in `while (i-- > 0)`) steps, and that nothing else in it changes. The variable's value
behind the loop is nobody's concern here: that it is not read there is checked as for any loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pycparser import c_ast

from polydl.frontend.lower.member_nodes import Counted
from polydl.frontend.meaning.liveness import assigned_names, changed_names, jumps, leaves
from polydl.frontend.meaning.symbols import mentions, nodes

_PLAIN = (c_ast.Constant, c_ast.ID, c_ast.BinaryOp, c_ast.Cast, c_ast.TernaryOp, c_ast.Typename, c_ast.TypeDecl)
_STEPS = ("p++", "++", "p--", "--")


def count(body: Any) -> None:
    """Put `for` loops in the place of the loops in a function's body that count. The tree is changed."""
    blocks = [node for node in nodes(body) if isinstance(node, (c_ast.Compound, c_ast.Case, c_ast.Default))]
    for block in reversed(blocks):  # the inner ones first: a loop around them takes their statements over
        name = "block_items" if isinstance(block, c_ast.Compound) else "stmts"
        items = getattr(block, name) or []
        for at, item in enumerate(items):
            if isinstance(item, (c_ast.While, c_ast.DoWhile)):
                items[at] = _counted(item, items[:at]) or item


def _counted(loop: Any, before: Sequence[Any]) -> Any:
    """A `while` or `do` loop as one that counts; None where it is none."""
    if leaves(loop.stmt) or jumps(loop.stmt) or any(isinstance(node, c_ast.Return) for node in nodes(loop.stmt)):
        return None
    items = list(loop.stmt.block_items or []) if isinstance(loop.stmt, c_ast.Compound) else [loop.stmt]
    items = [item for item in items if not isinstance(item, c_ast.EmptyStatement)]
    variable = _judged(loop.cond) if isinstance(loop, c_ast.While) else None
    step = None
    if variable is None and items:
        step, items = items[-1], items[:-1]
        variable = _stepped(step)
    if variable is None or variable not in mentions(loop.cond):
        return None
    rest = c_ast.Compound(items, loop.stmt.coord)
    if variable in assigned_names(rest) or (step is not None and changed_names(loop.cond)):
        return None
    start = value_before(variable, before)
    if start is None:
        return None
    init = c_ast.Assignment("=", c_ast.ID(variable, loop.coord), start, loop.coord)
    made = Counted(init, loop.cond, step, rest, loop.coord)
    made.spelled, made.once = loop, isinstance(loop, c_ast.DoWhile)
    return made


def _judged(condition: Any) -> str | None:
    """The variable that a condition itself steps: `i` of `i-- > 0`."""
    steps = [node for node in nodes(condition) if isinstance(node, c_ast.UnaryOp) and node.op in _STEPS]
    return str(steps[0].expr.name) if len(steps) == 1 and isinstance(steps[0].expr, c_ast.ID) else None


def _stepped(statement: Any) -> str | None:
    """The variable that a statement changes, of the form of a step; None for other statements."""
    match statement:
        case c_ast.UnaryOp(op=op, expr=c_ast.ID(name=name)) if op in _STEPS:
            return str(name)
        case c_ast.Assignment(op="+=" | "-=", lvalue=c_ast.ID(name=name)):
            return str(name)
        case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=name), rvalue=c_ast.BinaryOp(op="+" | "-") as value):
            return str(name) if name in mentions(value) else None
        case _:
            return None


def value_before(variable: str, before: Sequence[Any]) -> Any:
    """The value that a variable is given in front of code, where it still is that value there; None where none is
    found. Between the two may stand declarations, and statements that set other variables."""
    changed: set[str] = set()
    for item in reversed(before):
        match item:
            case c_ast.Decl(name=name, init=value) if name == variable and not item.storage:
                found = value
            case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=name), rvalue=value) if name == variable:
                found = value
            case c_ast.Decl() | c_ast.Assignment(lvalue=c_ast.ID()):
                if variable in mentions(item) or any(isinstance(node, c_ast.FuncCall) for node in nodes(item)):
                    return None
                changed |= assigned_names(item)
                continue
            case c_ast.EmptyStatement() | c_ast.Pragma():
                continue
            case _:
                return None
        plain = found is not None and all(
            isinstance(node, (*_PLAIN, c_ast.IdentifierType))
            or (isinstance(node, c_ast.UnaryOp) and node.op in ("-", "+", "~"))
            for node in nodes(found)
        )
        return found if plain and not changed & {variable, *mentions(found)} else None
    return None
