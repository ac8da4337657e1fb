"""Steps inside of expressions as statements of their own, and pointers that move as subscripts that are stepped.

    *p++ = a * *q++;      *p = a * *q; p++; q++;        p[p_at] = a * q[q_at]; p_at++; q_at++;
    y[k++] = x[i];        y[k] = x[i]; k++;

A step is taken out where it surely happens and the statement names its variable nowhere else. A pointer becomes a
subscript where the region does nothing to it but to step it, and nobody reads it behind the region.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pycparser import c_ast

from polydl.frontend.lower.regions import Found
from polydl.frontend.meaning.liveness import has_address_taken, leaves
from polydl.frontend.meaning.symbols import mentions, nodes
from polydl.frontend.text.parse import Unit

_STEPS = ("p++", "p--", "++", "--")
_MAYBE = (c_ast.TernaryOp, c_ast.FuncCall)


def stepped_apart(body: Any) -> None:
    """Take the steps out of the assignments of a function, and out of the increments of its loops. The tree is
    changed."""
    for node in list(nodes(body)):
        match node:
            case c_ast.Compound():
                node.block_items = _several(node.block_items)
            case c_ast.Case() | c_ast.Default():
                node.stmts = _several(node.stmts)
            case c_ast.For():
                _only_step(node)
                node.stmt = _one(node.stmt)
            case c_ast.While() | c_ast.DoWhile() | c_ast.Label():
                node.stmt = _one(node.stmt)
            case c_ast.If():
                node.iftrue = _one(node.iftrue)
                node.iffalse = None if node.iffalse is None else _one(node.iffalse)


def _only_step(loop: Any) -> None:
    """`for (…; …; i++, p++) body` as `for (…; …; i++) { body p++; }`, where the loop starts `i` alone."""
    if not isinstance(loop.next, c_ast.ExprList) or loop.cond is None or leaves(loop.stmt):
        return
    started = _starts(loop.init)
    judged = set(mentions(loop.cond)) & started
    mine = [one for one in loop.next.exprs if _target(one) in judged]
    rest = [one for one in loop.next.exprs if one not in mine]
    if len(mine) == 1 and all(_target(one) not in (None, *started) for one in rest):
        loop.next = mine[0]
        loop.stmt = c_ast.Compound([loop.stmt, *rest], loop.stmt.coord)


def _starts(init: Any) -> set[str]:
    match init:
        case c_ast.DeclList():
            return {decl.name for decl in init.decls}
        case c_ast.Assignment(lvalue=c_ast.ID(name=name)):
            return {name}
        case c_ast.ExprList():
            return {name for one in init.exprs for name in _starts(one)}
        case _:
            return set()


def _target(node: Any) -> str | None:
    """The variable that a step steps."""
    match node:
        case c_ast.UnaryOp(op=op, expr=c_ast.ID(name=name)) if op in _STEPS:
            return str(name)
        case c_ast.Assignment(op="+=" | "-=", lvalue=c_ast.ID(name=name)):
            return str(name)
        case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=name), rvalue=c_ast.BinaryOp(op="+" | "-", left=left)):
            return str(name) if isinstance(left, c_ast.ID) and left.name == name else None
        case _:
            return None


def _several(items: Sequence[Any] | None) -> list[Any] | None:
    return None if items is None else [one for item in items for one in _apart(item)]


def _one(item: Any) -> Any:
    parts = _apart(item)
    return item if len(parts) == 1 else c_ast.Compound(parts, item.coord)


def _apart(statement: Any) -> list[Any]:
    """An assignment with the steps in it before and behind it."""
    if not isinstance(statement, c_ast.Assignment):
        return [statement]
    sure = list(nodes(statement, lambda n: isinstance(n, _MAYBE) or getattr(n, "op", "") in ("&&", "||", "sizeof")))
    named = list(mentions(statement))
    steps = [
        n
        for n in sure
        if isinstance(n, c_ast.UnaryOp)
        and n.op in _STEPS
        and isinstance(n.expr, c_ast.ID)
        and named.count(n.expr.name) == 1
    ]
    if not steps:
        return [statement]
    before = [one for one in steps if not one.op.startswith("p")]
    behind = [one for one in steps if one.op.startswith("p")]
    return [*map(copy.copy, before), _with({id(one): one.expr for one in steps}, statement), *map(copy.copy, behind)]


def _with(changed: Mapping[int, Any], node: Any) -> Any:
    """A copy of a tree with some nodes in the place of others."""
    if id(node) in changed:
        return changed[id(node)]
    made = copy.copy(node)
    for name in type(node).__slots__:
        child = getattr(node, name, None)
        if isinstance(child, c_ast.Node):
            setattr(made, name, _with(changed, child))
        elif isinstance(child, list):
            setattr(made, name, [_with(changed, c) if isinstance(c, c_ast.Node) else c for c in child])
    return made


def subscripted(found: Found, unit: Unit) -> Found:
    """The region with subscripts in the place of the pointers that move in it."""
    words = set(re.findall(r"[A-Za-z_]\w*", unit.source.text))
    outside = [name for name in _moving(found.items) if _is_pointer(found, name)]
    items = list(found.items)
    start: list[Any] = []
    for name in outside:
        if has_address_taken(found.function.body, name) or found.escapes(name):
            continue
        at = _free(f"{name}_at", words)
        changed = _subscripts(items, name, at)
        if changed is not None:
            start.append(_counter(at, items[0].coord))
            items = changed
    items = [_inside(item, words) for item in items]
    return replace(found, items=[*start, *items])


def _inside(node: Any, words: set[str]) -> Any:
    """A statement with subscripts in the place of the pointers that it declares and moves."""
    if not isinstance(node, c_ast.Node):
        return node
    made = copy.copy(node)
    for name in type(node).__slots__:
        child = getattr(node, name, None)
        if isinstance(child, c_ast.Node):
            setattr(made, name, _inside(child, words))
        elif isinstance(child, list):
            setattr(made, name, [_inside(c, words) for c in child])
    if isinstance(made, c_ast.Compound):
        items = list(made.block_items or [])
        for k in reversed(range(len(items))):  # what stands behind a declaration is rewritten with it
            decl, rest = items[k], items[k + 1 :]
            if not isinstance(decl, c_ast.Decl) or not isinstance(decl.type, c_ast.PtrDecl) or decl.init is None:
                continue
            if decl.name not in _moving(rest) or any(has_address_taken(one, decl.name) for one in rest):
                continue
            at = _free(f"{decl.name}_at", words)
            changed = _subscripts(rest, decl.name, at)
            if changed is not None:
                items[k + 1 :] = [_counter(at, decl.coord), *changed]
        made.block_items = items or None
    return made


def _moving(items: Sequence[Any]) -> list[str]:
    """Names that statements step."""
    return list(dict.fromkeys(name for item in items for node in nodes(item) if (name := _target(node)) is not None))


def _is_pointer(found: Found, name: str) -> bool:
    symbol = found.scope.find(name)
    return symbol is not None and bool(symbol.levels) and symbol.levels[0].pointer


def _free(name: str, words: set[str]) -> str:
    while name in words:
        name += "_"
    words.add(name)
    return name


def _counter(name: str, coord: Any) -> Any:
    type_ = c_ast.TypeDecl(name, [], None, c_ast.IdentifierType(["long"]))
    return c_ast.Decl(name, [], [], [], [], type_, c_ast.Constant("int", "0", coord), None, coord)


def _subscripts(items: Sequence[Any], name: str, at: str) -> list[Any] | None:
    """Statements with `name[at]` for `*name`, `at` stepped in the place of the pointer; None where more is done with
    it than to step it as a statement and to follow it."""
    steps = {id(node) for item in items for node in _statements(item) if _target(node) == name}
    for item in items:
        for node in nodes(item):
            target = node.lvalue if isinstance(node, c_ast.Assignment) else getattr(node, "expr", None)
            changes = isinstance(node, c_ast.Assignment) or (
                isinstance(node, c_ast.UnaryOp) and node.op in (*_STEPS, "&")
            )
            if changes and isinstance(target, c_ast.ID) and target.name == name and id(node) not in steps:
                return None
            if isinstance(node, c_ast.Decl) and node.name == name:
                return None
    return [_renamed(item, name, at, steps) for item in items]


def _statements(node: Any) -> list[Any]:
    """The statements of a subtree that are steps, those of the increments of loops included."""
    match node:
        case c_ast.Compound():
            return [one for item in node.block_items or [] for one in _statements(item)]
        case c_ast.For():
            return [*_statements(node.stmt), node.next]
        case c_ast.While() | c_ast.DoWhile():
            return _statements(node.stmt)
        case c_ast.If():
            return [*_statements(node.iftrue), *_statements(node.iffalse)]
        case _:
            return [node]


def _renamed(node: Any, name: str, at: str, steps: set[int]) -> Any:
    if id(node) in steps:
        made = copy.copy(node)
        own = c_ast.ID(at, node.coord)
        if isinstance(node, c_ast.UnaryOp):
            made.expr = own
        else:
            made.lvalue = own
            if node.op == "=":
                made.rvalue = c_ast.BinaryOp(node.rvalue.op, own, node.rvalue.right, node.coord)
        return made
    match node:
        case c_ast.UnaryOp(op="*", expr=c_ast.ID(name=found)) if found == name:
            return c_ast.ArrayRef(node.expr, c_ast.ID(at, node.coord), node.coord)
        case c_ast.ArrayRef(name=c_ast.ID(name=found)) if found == name:
            subscript = _renamed(node.subscript, name, at, steps)
            return c_ast.ArrayRef(
                node.name, c_ast.BinaryOp("+", c_ast.ID(at, node.coord), subscript, node.coord), node.coord
            )
        case c_ast.ID(name=found) if found == name:
            return c_ast.BinaryOp("+", node, c_ast.ID(at, node.coord), node.coord)
        case c_ast.StructRef():
            made = copy.copy(node)
            made.name = _renamed(node.name, name, at, steps)
            return made
    made = copy.copy(node)
    for part in type(node).__slots__:
        child = getattr(node, part, None)
        if isinstance(child, c_ast.Node):
            setattr(made, part, _renamed(child, name, at, steps))
        elif isinstance(child, list):
            setattr(made, part, [_renamed(c, name, at, steps) if isinstance(c, c_ast.Node) else c for c in child])
    return made
