"""Turns loops that only accumulate into one element into sums with an accumulator for each lane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polydl.lower.ctree import (
    Assign,
    Block,
    Declare,
    For,
    If,
    Instance,
    Int,
    Marked,
    Name,
    Node,
    Pragma,
    Scope,
    Text,
    Way,
    names,
    with_children,
)
from polydl.model.combiners import of_assignment
from polydl.model.scop import Array


def summed(node: Node, arrays: Mapping[str, Array], prefix: str, *, marked: bool = False) -> Node:
    """Code with sums of their own in loops marked so; `marked`: the next loop is."""
    match node:
        case Marked(Way.SUM, body):
            return summed(body, arrays, prefix, marked=True)
        case Marked():
            return with_children(node, lambda child: summed(child, arrays, prefix))
        case For() if marked and not node.once:
            found = _sum(node, arrays, prefix)
            return found or with_children(node, lambda child: summed(child, arrays, prefix))
        case _:
            return with_children(node, lambda child: summed(child, arrays, prefix, marked=marked))


def _sum(loop: For, arrays: Mapping[str, Array], prefix: str) -> Node | None:
    user = loop.body
    if not isinstance(user, Instance) or user.row is None or not isinstance(user.body, Assign):
        return None
    target, op, value = user.body.target, user.body.op, user.body.value
    row = of_assignment(op)
    if row is None or row.neutral is None or loop.variable in names(target):
        return None
    statement = user.row.statement
    element = arrays[statement.target.array].element
    own = f"{prefix}sum"
    adding = Assign(Name(own), f"{row.symbol}=", value)
    lanes = (
        Declare(str(element), ((own, Text(row.neutral)),)),
        Pragma(f"omp simd reduction({row.symbol} : {own})"),
        replace(loop, body=replace(user, body=adding)),
        Assign(target, op, Name(own)),
    )
    match loop.first, loop.last:
        case Int(first), Int(last) if first <= last:
            return Scope(lanes)
    # An empty loop leaves its target alone, which may not even exist.
    return Scope((Declare(f"const {loop.type}", ((loop.variable, loop.first),)), If(loop.condition, Block(lanes))))
