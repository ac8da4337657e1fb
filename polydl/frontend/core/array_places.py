"""Places in arrays that pointers point at: what they count from, and how far."""

from __future__ import annotations

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.core.loop_forms import STEPS
from polydl.frontend.lower.inlined import Given
from polydl.frontend.meaning.symbols import mentions


def root_of(pointer: Node) -> str:
    """The name of the pointer that an expression is so far behind."""
    match pointer:
        case c_ast.ID(name=name):
            return str(name)
        case c_ast.BinaryOp(op="+" | "-", left=left, right=right):
            return root_of(left) or root_of(right)
        case c_ast.UnaryOp(op="&", expr=c_ast.ArrayRef(name=inner)):
            return root_of(inner)
        case c_ast.UnaryOp(op=op, expr=inner) if op in STEPS:
            return root_of(inner)
        case _:
            return ""


def read_by(place: Given) -> set[str]:
    """The names of whose values a place is made, but for the pointer or array that it counts from."""
    parts = [part for part in (place.base, place.at) if part is not None and not (part is place.base and _is_id(part))]
    return {name for part in parts for name in mentions(part)}


def _is_id(node: Node) -> bool:
    return isinstance(node, c_ast.ID)


def further(place: Given, by: Node | None, op: str, node: Node) -> Given:
    """A place so many elements behind another, or in front of it."""
    if by is None:
        return place
    if place.at is None:
        return Given(place.base, by if op == "+" else c_ast.UnaryOp("-", by, node.coord))
    return Given(place.base, c_ast.BinaryOp(op, place.at, by, node.coord))


def offset_of(place: Given, node: Node) -> Node:
    return c_ast.Constant("int", "0", node.coord) if place.at is None else place.at
