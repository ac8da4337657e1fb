"""Copies of pycparser's trees with something else in some places. No tree is ever changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pycparser import c_ast


def mapped(node: Any, child: Callable[[Any], Any]) -> Any:
    """A copy of a node with what `child` makes of those in it."""
    made = object.__new__(type(node))
    for name in type(node).__slots__:
        if name == "__weakref__":
            continue
        value = getattr(node, name, None)
        if isinstance(value, c_ast.Node):
            value = child(value)
        elif isinstance(value, list):
            value = [child(one) if isinstance(one, c_ast.Node) else one for one in value]
        setattr(made, name, value)
    return made


def copied(node: Any) -> Any:
    """A tree with nodes of its own."""
    return mapped(node, copied)


def with_in_place(changed: Mapping[int, Any], node: Any) -> Any:
    """A copy of a tree with some nodes, by identity, in the place of others."""
    return changed[id(node)] if id(node) in changed else mapped(node, lambda inner: with_in_place(changed, inner))
