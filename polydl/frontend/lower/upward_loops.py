"""Loops that count up by one, as they are written: those over entries of segments, and along rows, in kept code."""

from __future__ import annotations

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.records import dataclass
from polydl.frontend.core.loop_forms import listed
from polydl.frontend.core.tree_parts import integer, summands, text_of
from polydl.frontend.meaning.liveness import changed_names
from polydl.frontend.meaning.symbols import mentions, nodes
from polydl.model.functions import result_of

PREFETCH = "__builtin_prefetch"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of a loop that counts up by one."""

    loop: c_ast.For
    counter: str
    first: Node
    op: str
    last: Node

    @property
    def past(self) -> Node:
        """One past the last value."""
        return self.last if self.op == "<" else c_ast.BinaryOp("+", self.last, integer(1, self.last.coord))


def bounds_of(loop: Node) -> Bounds | None:
    """None for other code, for a loop that counts in another way, or whose header mentions its variable in other
    places."""
    if not isinstance(loop, c_ast.For):
        return None
    match listed(loop.init):
        case [c_ast.Decl(name=name, init=c_ast.Node() as first)]:
            pass
        case [c_ast.Assignment(op="=", lvalue=c_ast.ID(name=name), rvalue=first)]:
            pass
        case _:
            return None
    match loop.cond if _steps(loop.next, name) else None:
        case c_ast.BinaryOp(op="<" | "<=" as op, left=c_ast.ID(name=compared), right=last) if name == compared:
            return None if name in {*mentions(last), *mentions(first)} else Bounds(loop, name, first, op, last)
    return None


def _steps(step: Node | None, name: str) -> bool:
    """Whether a statement adds one to a variable."""
    match step:
        case c_ast.UnaryOp(op="++" | "p++", expr=c_ast.ID(name=own)):
            return bool(own == name)
        case c_ast.Assignment(op="+=", lvalue=c_ast.ID(name=own), rvalue=c_ast.Constant(value="1")):
            return bool(own == name)
        case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=own), rvalue=c_ast.BinaryOp(op="+") as value):
            return own == name and sorted(map(text_of, summands(value))) == ["1", name]
    return False


def counts_along(subscript: Node, counter: str) -> bool:
    """Whether a subscript leads from element to element as a variable counts."""
    moving = [term for term in summands(subscript) if counter in mentions(term)]
    return len(moving) == 1 and isinstance(moving[0], c_ast.ID)


def is_fetch(node: Node) -> bool:
    """Whether a statement only fetches, as those that `rows_ahead` makes."""
    match node:
        case c_ast.If(iftrue=c_ast.For(stmt=c_ast.FuncCall(name=c_ast.ID(name=name))), iffalse=None):
            return bool(name == PREFETCH)
    return False


def is_pure(node: Node) -> bool:
    """Whether code calls nothing but functions without effects."""
    calls = (one for one in nodes(node, is_fetch) if isinstance(one, c_ast.FuncCall))
    return all(isinstance(one.name, c_ast.ID) and result_of(one.name.name) is not None for one in calls)


def is_still(node: Node) -> bool:
    """Whether an expression changes nothing."""
    return is_pure(node) and not changed_names(node)
