"""Counts the loops that threads share out together."""

from __future__ import annotations

from dataclasses import replace

from polydl.lower.ctree import For, Marked, Node, Way, names, with_children


def collapsed(node: Node) -> Node:
    """Code in which each mark of parallel loops says how many can be collapsed: directly nested, rectangular."""
    node = with_children(node, collapsed)
    if isinstance(node, Marked) and node.way in (Way.PARALLEL, Way.CURVE, Way.SHARE):
        return replace(node, loops=max(1, _rectangular(node.body)))
    return node


def _rectangular(node: Node) -> int:
    outer: set[str] = set()
    while isinstance(node, For) and not node.once:
        if outer & {*names(node.first), *names(node.condition)}:
            break
        outer.add(node.variable)
        node = node.body
    return len(outer)
