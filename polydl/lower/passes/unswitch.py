"""Takes conditions out of vector loops that don't change in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from polydl.lower.ctree import Binary, Block, Expr, For, If, Int, Marked, Node, Way, every, names, with_children


def unswitched(node: Node, *, marked: bool = False) -> Node:
    """Code with each such loop twice: where the conditions inside hold, without them, which compilers turn into
    vectors; and as it is. (Whole tiles and the rest, where small tiles are written out.) `marked`: the next loop runs
    in vectors."""
    match node:
        case Marked(way):
            return with_children(node, lambda child: unswitched(child, marked=way is Way.SIMD))
        case For() if marked and not node.once:
            conditions = tuple(dict.fromkeys(_invariant(node.body, node.variable)))
            rest = with_children(node, unswitched)
            if not conditions:
                return rest
            return If(every(_strongest(conditions)), replace(node, body=_without(node.body, conditions)), rest)
        case For():
            return with_children(node, lambda child: unswitched(child, marked=marked and node.once))
        case _:
            return with_children(node, lambda child: unswitched(child, marked=marked))


def _invariant(node: Node, variable: str) -> Iterator[Expr]:
    """Conditions in the body of a loop that do not depend on its variable."""
    match node:
        case Block(parts):
            for part in parts:
                yield from _invariant(part, variable)
        case Marked(_, body):
            yield from _invariant(body, variable)
        case If(condition, then, otherwise):
            if variable not in names(condition) and otherwise is None:
                yield condition
            yield from _invariant(then, variable)


def _without(node: Node, conditions: tuple[Expr, ...]) -> Node:
    if isinstance(node, If) and node.condition in conditions:
        return _without(node.then, conditions)
    return with_children(node, lambda child: _without(child, conditions))


def _strongest(conditions: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Conditions of which the others follow: of `n >= b + 2 && n >= b + 3` the second."""
    bounds: dict[tuple[str, Expr, Expr], tuple[int, Expr]] = {}
    found: list[Expr | tuple[str, Expr, Expr]] = []
    for one in (part for condition in conditions for part in conjuncts(condition)):
        match one:
            case Binary(">=" | "<=" as op, left, right):
                base, offset = offset_of(right)
                tighter = offset if op == ">=" else -offset
                key = (op, left, base)
                if key not in bounds:
                    found.append(key)
                if key not in bounds or tighter > bounds[key][0]:
                    bounds[key] = tighter, one
            case _:
                found.append(one)
    return tuple(dict.fromkeys(bounds[one][1] if isinstance(one, tuple) else one for one in found))


def conjuncts(condition: Expr) -> Iterator[Expr]:
    """The parts of a condition that hold together."""
    match condition:
        case Binary("&&", left, right):
            yield from conjuncts(left)
            yield from conjuncts(right)
        case _:
            yield condition


def offset_of(value: Expr) -> tuple[Expr, int]:
    """A value as another one and a constant."""
    match value:
        case Int(number):
            return Int(0), number
        case Binary("+" | "-" as op, left, Int(number)):
            base, offset = offset_of(left)
            return base, offset + (number if op == "+" else -number)
        case _:
            return value, 0
