"""Members of structures in the printed C, as elements of the arrays that the program has in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pycparser import c_ast, c_generator

from polydl.model.scop import Array, Members


def without_members(node: Any, arrays: Mapping[str, Array]) -> Any:
    """The tree with `p[i].x` as `p[i][0]`, `p[i].pos[k]` as `p[i][k + 3]` and `*((float *)&p[i] + k)` as `p[i][k]`;
    anything else stays as it is. The tree is changed."""
    for name in type(node).__slots__:
        child = getattr(node, name, None)
        if isinstance(child, c_ast.Node):
            setattr(node, name, without_members(child, arrays))
        elif isinstance(child, list):
            setattr(node, name, [without_members(c, arrays) if isinstance(c, c_ast.Node) else c for c in child])
    match node:
        case c_ast.StructRef():
            found = _path(node)
            members = None if found is None else _members(found[0], arrays)
            if found is not None and members is not None:
                return _slot(node, *found, members)
        case c_ast.ArrayRef(name=c_ast.StructRef() | c_ast.ArrayRef() as inner, subscript=subscript):
            found = _path(inner)
            members = None if found is None else _members(found[0], arrays)
            if found is not None and members is not None:
                return _subscripted(node, found[0], found[1], subscript, members)
        case c_ast.UnaryOp(op="*", expr=c_ast.BinaryOp(op="+", left=c_ast.Cast(expr=address), right=place)):
            if isinstance(address, c_ast.UnaryOp) and address.op == "&" and _members(address.expr, arrays) is not None:
                return c_ast.ArrayRef(address.expr, place, node.coord)
    return node


def _members(element: Any, arrays: Mapping[str, Array]) -> Members | None:
    """Of what array of structures an expression names a whole element; None where of none."""
    depth = 0
    while isinstance(element, c_ast.ArrayRef):
        element, depth = element.name, depth + 1
    array = arrays.get(element.name) if isinstance(element, c_ast.ID) else None
    return array.members if array is not None and depth == len(array.extents) - 1 else None


def _path(node: Any) -> tuple[Any, str] | None:
    """(element, path) of `p[i].pos` and `p[i].m[1]`."""
    path = ""
    while True:
        match node:
            case c_ast.StructRef(type=".", name=inner, field=c_ast.ID(name=field)):
                path, node = f".{field}{path}", inner
            case c_ast.ArrayRef(name=inner, subscript=c_ast.Constant(value=value)) if "." not in str(value):
                path, node = f"[{value}]{path}", inner
            case _:
                return (node, path) if path.startswith(".") else None
        if path.startswith(".") and not isinstance(node, c_ast.StructRef):
            return node, path


def _slot(node: Any, element: Any, path: str, members: Members) -> Any:
    """The element at a path; the node itself where there is none, but may be deeper down."""
    if path not in members.paths:
        return node
    return c_ast.ArrayRef(element, c_ast.Constant("int", str(members.paths.index(path)), node.coord), node.coord)


def _subscripted(node: Any, element: Any, path: str, subscript: Any, members: Members) -> Any:
    """The element at a path and a subscript."""
    at = f"{path}[{c_generator.CGenerator().visit(subscript)!s}]"
    if at in members.paths:
        return _slot(node, element, at, members)
    if f"{path}[0]" not in members.paths:
        return node
    first = c_ast.Constant("int", str(members.paths.index(f"{path}[0]")), node.coord)
    return c_ast.ArrayRef(element, c_ast.BinaryOp("+", subscript, first, node.coord), node.coord)
