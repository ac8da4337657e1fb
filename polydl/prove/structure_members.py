"""Members of structures in the printed C, as elements of the arrays that the program has in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pycparser import c_ast, c_generator

from polydl.model.scop import Array


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
            for array in () if found is None else _of_element(found[0], arrays):
                if found is not None and (made := _slot(node, found[0], found[1], array)) is not node:
                    return made
        case c_ast.ArrayRef(name=c_ast.StructRef() | c_ast.ArrayRef() as inner, subscript=subscript):
            found = _path(inner)
            for array in () if found is None else _of_element(found[0], arrays):
                if found is not None and (made := _subscripted(node, found[0], found[1], subscript, array)) is not node:
                    return made
        case c_ast.UnaryOp(op="*", expr=c_ast.BinaryOp(op="+", left=c_ast.Cast(to_type=to, expr=address), right=place)):
            if isinstance(address, c_ast.UnaryOp) and address.op == "&":
                pointed = c_generator.CGenerator().visit(to).removesuffix("*").strip()
                for array in _of_element(address.expr, arrays):
                    if array.element.c == pointed:
                        return c_ast.ArrayRef(_named(address.expr, array), place, node.coord)
    return node


def _of_element(element: Any, arrays: Mapping[str, Array]) -> list[Array]:
    """The arrays of members, one of each type, of which an expression names a whole structure."""
    depth = 0
    while isinstance(element, c_ast.ArrayRef):
        element, depth = element.name, depth + 1
    name = element.name if isinstance(element, c_ast.ID) else ""
    alike = (array for array in arrays.values() if array.spelled == name and array.members is not None)
    return [array for array in alike if depth == array.subscripts - 1]


def _named(element: Any, array: Array) -> Any:
    """The same element, of the array of one type."""
    if array.spelled == array.name:
        return element
    if isinstance(element, c_ast.ArrayRef):
        return c_ast.ArrayRef(_named(element.name, array), element.subscript, element.coord)
    return c_ast.ID(array.name, element.coord)


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


def _slot(node: Any, element: Any, path: str, array: Array) -> Any:
    """The element at a path; the node itself where there is none, but may be deeper down."""
    assert array.members is not None
    paths = array.members.paths
    if path not in paths:
        return node
    place = c_ast.Constant("int", str(paths.index(path)), node.coord)
    return c_ast.ArrayRef(_named(element, array), place, node.coord)


def _subscripted(node: Any, element: Any, path: str, subscript: Any, array: Array) -> Any:
    """The element at a path and a subscript; the node itself where there is none."""
    assert array.members is not None
    paths = array.members.paths
    at = f"{path}[{c_generator.CGenerator().visit(subscript)!s}]"
    if at in paths:
        return _slot(node, element, at, array)
    if f"{path}[0]" not in paths:
        return node
    first = c_ast.Constant("int", str(paths.index(f"{path}[0]")), node.coord)
    return c_ast.ArrayRef(_named(element, array), c_ast.BinaryOp("+", subscript, first, node.coord), node.coord)
