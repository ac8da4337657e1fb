"""Iterations that end early, as conditions.

if (a) { b; continue; } c;        if (a) { b; } else { c; }
if (a) continue; c;               if (!a) { c; }
"""

from __future__ import annotations

from collections.abc import Sequence

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.core.tree_parts import items_of
from polydl.frontend.meaning.liveness import leaves


def structured(body: Node) -> Node | None:
    """The body of a loop without `continue`; None where one stands elsewhere than at the end of an arm of an `if`, or
    where a `break` ends the loop. The parts are those of the body, not copies."""
    made = _structured(items_of(body))
    return None if made is None else c_ast.Compound(made, body.coord)


def _structured(items: Sequence[Node]) -> list[Node] | None:
    for place, item in enumerate(items):
        if isinstance(item, c_ast.Continue):
            return list(items[:place])
        if not leaves(item):
            continue
        if not isinstance(item, c_ast.If):
            return None
        then, otherwise = _arm(item.iftrue), _arm(item.iffalse)
        rest = items[place + 1 :]
        if then is None or otherwise is None:
            return None
        arms = [_structured([*arm, *([] if ends else rest)]) for arm, ends in (then, otherwise)]
        if None in arms or not (then[1] or otherwise[1]):
            return None
        return [*items[:place], _if(item, *(c_ast.Compound(arm, item.coord) for arm in arms if arm is not None))]
    return list(items)


def _arm(node: Node | None) -> tuple[list[Node], bool] | None:
    """The statements of an arm in front of a `continue` at its end, and whether there is one; None where it ends the
    iteration, or the loop, elsewhere."""
    items = items_of(node)
    ends = bool(items) and isinstance(items[-1], c_ast.Continue)
    items = items[:-1] if ends else items
    return None if any(leaves(item) for item in items) else (items, ends)


def _if(item: c_ast.If, then: c_ast.Compound, otherwise: c_ast.Compound) -> Node:
    if then.block_items:
        return c_ast.If(item.cond, then, otherwise if otherwise.block_items else None, item.coord)
    return c_ast.If(c_ast.UnaryOp("!", item.cond, item.coord), otherwise, None, item.coord)
