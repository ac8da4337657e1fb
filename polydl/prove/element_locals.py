"""Elements that the printed C keeps in locals, put back where they stand for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pycparser import c_ast

from polydl.model.scop import Array
from polydl.model.types import spelled
from polydl.prove.integers import Affine, Unreadable, Wrong, affine
from polydl.prove.syntax import line_of, names_in

_KEPT = re.compile(r"polydl\d*_kept\d+")


class _Names(dict[str, Any]):
    """Every identifier as an integer that is not known."""

    def get(self, name: str, default: Any = None) -> Affine:
        return Affine(((f"n_{name}", 1),))


def without_kept(node: Any, arrays: Mapping[str, Array]) -> Any:
    """The tree with `y[i] = 0; y[i] += a;` in place of `float kept0 = 0; kept0 += a; y[i] = kept0;`. The tree is
    changed. Raises Unreadable for a local of another form; Wrong for one whose element something else touches."""
    if isinstance(node, c_ast.Compound):
        items = list(node.block_items or [])
        for local in [i for i in items if isinstance(i, c_ast.Decl) and _KEPT.fullmatch(i.name or "")]:
            items = _put_back(items, local, arrays)
        node.block_items = items
    for _, child in node.children():
        without_kept(child, arrays)
    return node


def _put_back(items: Sequence[Any], local: Any, arrays: Mapping[str, Array]) -> list[Any]:
    begin = next(at for at, item in enumerate(items) if item is local)
    stores = [at for at, item in enumerate(items) if _stores(item, local.name)]
    if len(stores) != 1 or stores[0] < begin:
        raise Unreadable(f"line {line_of(local)}: {local.name} is not stored once")
    end = stores[0]
    element = items[end].lvalue
    name = _array(element)
    array = arrays.get(name)
    if array is None or array.element != spelled(" ".join(local.type.type.names)):
        raise Unreadable(f"line {line_of(local)}: the type of {local.name}")
    if any(local.name in names_in(item) for item in (*items[:begin], *items[end + 1 :])):
        raise Wrong(f"line {line_of(local)}: {local.name} is used outside of the statements that keep it")
    first: list[Any] = []
    if local.init is not None and not _same(local.init, element):
        first = [c_ast.Assignment("=", element, local.init, local.coord)]
    inside = [*first, *items[begin + 1 : end]]
    for item in inside:
        _check_apart(item, element, name, local)
    return [*items[:begin], *(_replaced(item, local.name, element) for item in inside), *items[end + 1 :]]


def _stores(item: Any, name: str) -> bool:
    match item:
        case c_ast.Assignment(op="=", lvalue=c_ast.ArrayRef(), rvalue=c_ast.ID(name=value)):
            return bool(value == name)
        case _:
            return False


def _array(element: Any) -> str:
    while isinstance(element, c_ast.ArrayRef):
        element = element.name
    return str(element.name) if isinstance(element, c_ast.ID) else ""


def _subscripts(element: Any) -> list[Any]:
    found: list[Any] = []
    while isinstance(element, c_ast.ArrayRef):
        found.insert(0, element.subscript)
        element = element.name
    return found


def _same(one: Any, other: Any) -> bool:
    if not isinstance(one, c_ast.ArrayRef) or _array(one) != _array(other):
        return False
    return [_value(s) for s in _subscripts(one)] == [_value(s) for s in _subscripts(other)]


def _value(subscript: Any) -> Affine:
    return affine(subscript, _Names())


def _check_apart(node: Any, element: Any, name: str, local: Any) -> None:
    """Raise Wrong where code that keeps an element in a local may touch it otherwise, or may choose another one."""
    own = set(names_in(element)) - {name}
    for part in _parts(node):
        match part:
            case c_ast.Decl(name=declared) if declared in own:
                raise Wrong(f"line {line_of(part)}: {declared} changes while {local.name} stands for an element")
            case c_ast.Assignment(lvalue=c_ast.ID(name=assigned)) if assigned in own:
                raise Wrong(f"line {line_of(part)}: {assigned} changes while {local.name} stands for an element")
            case c_ast.ID(name=whole) if whole == name:
                raise Wrong(f"line {line_of(local)}: {local.name} stands for an element of an array that is used")
            case c_ast.ArrayRef() if _array(part) == name and part is not element:
                pairs = zip(_subscripts(part), _subscripts(element), strict=False)
                differ = [_value(one).plus(_value(other), -1) for one, other in pairs]
                if not any(one.constant and not one.terms for one in differ):
                    raise Wrong(f"line {line_of(local)}: {local.name} stands for an element that may be touched")


def _parts(node: Any) -> Iterator[Any]:
    """Every node, but of an element only the outermost reference and what its subscripts hold."""
    yield node
    for child in _subscripts(node) or [child for _, child in node.children()]:
        yield from _parts(child)


def _replaced(node: Any, name: str, element: Any) -> Any:
    if isinstance(node, c_ast.ID) and node.name == name:
        return element
    for slot in type(node).__slots__:
        child = getattr(node, slot, None)
        if isinstance(child, c_ast.Node):
            setattr(node, slot, _replaced(child, name, element))
        elif isinstance(child, list):
            setattr(node, slot, [_replaced(c, name, element) if isinstance(c, c_ast.Node) else c for c in child])
    return node
