"""Turns loops that only accumulate into one element into sums with an accumulator for each lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from polydl.lower.ctree import (
    Assign,
    Binary,
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
    every,
    names,
    with_children,
)
from polydl.model.combiners import Regrouping, of_assignment
from polydl.model.scop import Array
from polydl.target.instructions import neighbour_sum

_LONG = 4096
"""Iterations from which on a clause gains with integers, too: gcc 12 has several vectors of sums with one, and keeps
them in memory around the loop, one without. Of 14 sums and counts on Zen 5, for AVX2 and AVX-512, it makes loops of
10^4 0.6 to 1.7 times as fast, of 10^3 0.2 to 1.3 times, of 4 to 32 0.01 to 1.5 times."""


def summed(node: Node, arrays: Mapping[str, Array], prefix: str, *, ways: Sequence[Way] = ()) -> Node:
    """Code with sums of their own in loops marked so; `ways`: how the next loops run, where a mark says it."""
    match node:
        case Marked(Way.SUM, body):
            return summed(body, arrays, prefix, ways=(Way.SUM,))
        case Marked(way):
            next_ways = (way,) * max(node.loops, 2 if way is Way.CURVE else 1) if way.takes_loops else ()
            return with_children(node, lambda child: summed(child, arrays, prefix, ways=next_ways))
        case For() if not node.once and (not ways or ways[0] is Way.SUM):
            found = _sum((node,) if ways else _nest(node), arrays, prefix)
            return found or with_children(node, lambda child: summed(child, arrays, prefix))
        case For() if not node.once:
            return with_children(node, lambda child: summed(child, arrays, prefix, ways=ways[1:]))
        case _:
            return with_children(node, lambda child: summed(child, arrays, prefix, ways=ways))


def _nest(loop: For) -> tuple[For, ...]:
    """The loops from one on that stand directly inside of each other, to one that adds up; none where none does."""
    match loop.body:
        case Marked(Way.SUM, For(once=False) as last):
            return loop, last
        case For(once=False) as inner if below := _nest(inner):
            return loop, *below
        case _:
            return ()


def _sum(loops: Sequence[For], arrays: Mapping[str, Array], prefix: str) -> Node | None:
    """The sum of loops inside of each other; None where it takes another form.

    before:    for i: for j: s += e
    after:     { int sum = 0; for i: for j: sum += e;  s += sum; }
    requires:  of several loops, a combiner to which order means nothing: of integers. Their target stays in all of
               them, and none of them decides whether another one is empty
    The compiler regroups integers without a clause, and then adds neighbours up in one instruction where there is one.
    """
    user = loops[-1].body if loops else None
    if not isinstance(user, Instance) or user.row is None or not isinstance(user.body, Assign):
        return None
    target, op, value = user.body.target, user.body.op, user.body.value
    row = of_assignment(op)
    variables = {loop.variable for loop in loops}
    if row is None or row.neutral is None or not variables.isdisjoint(names(target)):
        return None
    statement = user.row.statement
    array = statement.target.array
    element = arrays[array].element
    exact = row.regrouping(element) is Regrouping.EXACT
    bounds = {name for loop in loops for name in (*names(loop.first), *names(loop.condition)) if name != loop.variable}
    read = names(value, arrays=True)
    if len(loops) > 1 and not (exact and variables.isdisjoint(bounds) and arrays[array].name not in read):
        return None
    own = f"{prefix}sum"
    code: Node = replace(user, body=Assign(Name(own), f"{row.symbol}=", value))
    for loop in reversed(loops):
        code = replace(loop, body=code)
    before, after = Declare(str(element), ((own, Text(row.neutral)),)), Assign(target, op, Name(own))
    clause = Pragma(f"omp simd reduction({row.symbol} : {own})")
    alone, in_lanes = (before, code, after), (before, clause, code, after)
    lanes: tuple[Node, ...] = in_lanes
    if exact:
        far = None if len(loops) > 1 or neighbour_sum(statement, arrays) is not None else loops[0].distance
        match far:
            case None:
                lanes = alone
            case Int(iterations):
                lanes = in_lanes if iterations >= _LONG else alone
            case _:
                lanes = (If(Binary(">=", far, Int(_LONG)), Block(in_lanes), Block(alone)),)
    asked = [loop for loop in loops if not _runs(loop)]
    if not asked:
        return Scope(lanes)
    # An empty loop leaves its target alone, which may not even exist.
    starts = tuple(Declare(f"const {loop.type}", ((loop.variable, loop.first),)) for loop in asked)
    return Scope((*starts, If(every(tuple(loop.condition for loop in asked)), Block(lanes))))


def _runs(loop: For) -> bool:
    """Whether a loop is known to have an iteration."""
    match loop.first, loop.last:
        case Int(first), Int(last):
            return first <= last
        case _:
            return False
