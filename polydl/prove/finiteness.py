"""Loops that ask whether products of complex numbers are finite, read as the loop that they stand for.

int polydl_lost = 0;
for (…) { t = …; polydl_lost |= polydl_too_large(x, y); }
if (!polydl_lost) simd for (…) z = polydl_finite_product(x, y); else for (…) z = x * y;
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from pycparser import c_ast
from pycparser.c_generator import CGenerator

from polydl.prove.integers import Unreadable
from polydl.prove.syntax import line_of

_LOST = re.compile(r"polydl\d*(_n)?_lost")
_PRODUCT = re.compile(r"polydl\d*(_n)?_finite_productf?")
_QUESTION = re.compile(r"polydl\d*(_n)?_too_largef?")
_SAID = re.compile(r"polydl\d*_instance_\w+")
TRUST = "products of complex numbers that are not too large are those of C without its rules about infinities"


def asks(declaration: Any) -> bool:
    """Whether a declaration is that of the answer."""
    return bool(_LOST.fullmatch(declaration.name or ""))


def question(loop: Any, private: Sequence[str]) -> frozenset[str]:
    """The factors that a loop asks about which does nothing else: it assigns to the answer and to what is private in
    it. Empty for any other loop."""
    items = _items(loop.stmt)
    changed = [i.lvalue.name for i in items if isinstance(i, c_ast.Assignment) and isinstance(i.lvalue, c_ast.ID)]
    answers = [
        i
        for i in items
        if isinstance(i, c_ast.Assignment)
        and isinstance(i.rvalue, c_ast.FuncCall)
        and _QUESTION.fullmatch(i.rvalue.name.name)
        and i.op == "|="
    ]
    named = [name for name in changed if not _LOST.fullmatch(name)]
    if len(changed) < len(items) or not set(named) <= set(private):
        return frozenset()
    return frozenset(_factors(answer.rvalue) for answer in answers)


def answered(node: Any, asked: frozenset[str]) -> tuple[str, Any] | None:
    """What an `if` that looks at the answer stands for: the pragma of its first arm, and the loop as C has it. Raises
    Unreadable where the arms differ in more than how products are written, or others than these were asked about."""
    match node.cond:
        case c_ast.UnaryOp(op="!", expr=c_ast.ID(name=name)) if _LOST.fullmatch(name):
            pass
        case _:
            return None
    first, second = _items(node.iftrue), _items(node.iffalse)
    pragma = [i for i in first if isinstance(i, c_ast.FuncCall) and i.name.name == "polydl_omp"]
    loops = [i for i in first if isinstance(i, c_ast.For)]
    others = [i for i in second if isinstance(i, c_ast.For)]
    if len(pragma) != 1 or len(loops) != 1 or len(others) != 1 or len(first) != 2 or len(second) != 1:
        raise Unreadable(f"line {line_of(node)}: finite products in another form")
    if _text(loops[0]) != _text(others[0]) or not {_factors(p) for p in _products(loops[0])} <= asked:
        raise Unreadable(f"line {line_of(node)}: finite products of other numbers")
    said: Any = pragma[0].args.exprs[0]
    return said.value.strip('"'), others[0]


def _items(node: Any) -> list[Any]:
    return list(node.block_items or []) if isinstance(node, c_ast.Compound) else [node]


def _factors(call: Any) -> str:
    return str(CGenerator().visit(call.args))


def _products(node: Any) -> Iterator[Any]:
    """The calls for them in a piece of code."""
    if isinstance(node, c_ast.FuncCall) and _PRODUCT.fullmatch(getattr(node.name, "name", "")):
        yield node
    for _, child in node.children():
        yield from _products(child)


def _plain(node: Any) -> None:
    """Makes operators of products, and takes out what is said about instances."""
    for name, child in node.children():
        _plain(child)
        if isinstance(child, c_ast.FuncCall) and _PRODUCT.fullmatch(getattr(child.name, "name", "")):
            _replace(node, name, c_ast.BinaryOp("*", *child.args.exprs))
    if isinstance(node, c_ast.Assignment) and node.op == "*=":
        node.op, node.rvalue = "=", c_ast.BinaryOp("*", node.lvalue, node.rvalue)
    if isinstance(node, c_ast.Compound) and node.block_items:
        node.block_items = [item for item in node.block_items if not _is_said(item)]


def _is_said(item: Any) -> bool:
    return isinstance(item, c_ast.FuncCall) and bool(_SAID.fullmatch(getattr(item.name, "name", "")))


def _replace(node: Any, name: str, child: Any) -> None:
    """Put a node in place of a child; `name` is `rvalue`, or `exprs[1]`."""
    found = re.fullmatch(r"(\w+)\[(\d+)\]", name)
    if found is None:
        setattr(node, name, child)
    else:
        getattr(node, found.group(1))[int(found.group(2))] = child


def _text(loop: Any) -> str:
    copy = deepcopy(loop)
    _plain(copy)
    return str(CGenerator().visit(copy))
