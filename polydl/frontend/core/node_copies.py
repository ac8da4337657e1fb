"""Copies of pycparser's trees with something else in some places. No tree is ever changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from pycparser import c_ast
from pycparser.c_ast import Node

_Node = TypeVar("_Node", bound=Node)


def mapped(node: _Node, child: Callable[[Node], Node]) -> _Node:
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
    for name, value in getattr(node, "__dict__", {}).items():  # of nodes with something beside what pycparser has
        setattr(made, name, value)
    return made


def copied(node: _Node) -> _Node:
    """A tree with nodes of its own."""
    return mapped(node, lambda inner: copied(inner))


def with_in_place(changed: Mapping[int, Node], node: Node) -> Node:
    """A copy of a tree with some nodes, by identity, in the place of others."""
    return changed[id(node)] if id(node) in changed else mapped(node, lambda inner: with_in_place(changed, inner))
