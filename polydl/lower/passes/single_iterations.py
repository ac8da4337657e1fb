"""Removes loops of one iteration."""

from __future__ import annotations

from polydl.lower.ctree import Declare, For, Node, Scope, mentions, with_children, with_value


def straight(node: Node) -> Node:
    """Code in which a loop of one iteration is its body, with a constant where that mentions the variable."""
    node = with_children(node, straight)
    if not isinstance(node, For) or not node.once:
        return node
    if not mentions(node.body, node.variable):
        return with_value(node.body, node.variable, node.first)
    return Scope((Declare(f"const {node.type}", ((node.variable, node.first),)), node.body))
