"""Rows of a block that go over the same segment are added up together (unroll-and-jam of the loop over the rows, into
the loop over the entries)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from polydl.kernels.segment_sum import MOST_ROWS
from polydl.lower.ctree import (
    Assign,
    Binary,
    Block,
    Declare,
    Evaluate,
    Expr,
    For,
    If,
    Instance,
    Int,
    Invoke,
    Item,
    Marked,
    Name,
    Node,
    Scope,
    Text,
    Through,
    Way,
    children,
    linear_terms,
    names,
    rewritten,
    segments,
    substituted,
    with_children,
)


def rows_together(node: Node, marked: int = 0) -> Node:
    """Code in which the sums of all iterations of a loop are made by one call in front of it.

    before:    for (r = 0; r < 8; r++) { bounds; if (entries > 0) y[i][r] += sum(entries, &val[0][r][0] + …, …); }
    after:     bounds; float sums[8]; sum_of_rows(entries, sums, &val[0][0][0] + …, …);
               for (r = 0; r < 8; r++) { if (entries > 0) y[i][r] += sums[r]; }
    requires:  a loop of a constant number of iterations, which do not move the bounds, and move each factor by a
               constant distance; nothing in it writes what the sums are made of

    `marked`: so many of the next loops run in a way of their own, and stay.
    """
    match node:
        case Marked(way):
            return with_children(node, lambda child: rows_together(child, _loops(node) if way.takes_loops else marked))
        case For():
            inside = replace(node, body=rows_together(node.body, max(marked - 1, 0)))
            return inside if marked or node.once else _together(inside) or inside
        case _:
            return with_children(node, lambda child: rows_together(child, marked))


def _loops(mark: Marked) -> int:
    """That run as a mark says."""
    return max(mark.loops, 2 if mark.way is Way.CURVE else 1)


def _together(loop: For) -> Node | None:
    parts = _parts(loop.body)
    sums = [one for one in parts if isinstance(one, Instance) and one.through is not None]
    if len(sums) != 1 or len(list(segments(loop.body))) != 1:
        return None
    one = sums[0]
    through, rows = one.through, _iterations(loop)
    assert through is not None
    if rows is None or not isinstance(one.body, Scope):
        return None
    match one.body.parts:
        case (*before, If(condition, Block((Assign(target, op, Invoke(function, (entries, *given))),)), None)) if (
            through.function is not None and through.function.name == function and through.function.depth > 1
        ):
            pass
        case _:
            return None
    steps = _steps(through, loop.variable)
    bounds = [value for each in before if isinstance(each, Declare) for _, value in each.objects if value is not None]
    moved = any(loop.variable in names(value) for value in bounds)
    written = _written([part for part in parts if part is not one])
    read = {name for value in (*bounds, *given) for name in _arrays(value)}
    if steps is None or moved or written is None or read & {*written, *_target(target)}:
        return None
    of_rows = through.function.of_rows(rows, steps)
    sums_name = _name_of_sums(entries)
    call = Invoke(of_rows.name, (entries, Name(sums_name), *(_first(value, loop) for value in given)))
    row = Name(loop.variable) if loop.first == Int(0) else Binary("-", Name(loop.variable), loop.first)
    adding = If(condition, Block((Assign(target, op, Item(sums_name, (row,))),)))
    inner = replace(one, body=Scope((adding,)), through=replace(through, function=of_rows))
    memory = Declare(of_rows.element.c, ((f"{sums_name}[{rows}]", None),))
    return Scope((*before, memory, Evaluate(call), replace(loop, body=_in_place(loop.body, one, inner))))


def _parts(node: Node) -> tuple[Node, ...]:
    """The statements of a loop's body, without marks that say whose they are."""
    match node:
        case Marked(way, body) if not way.takes_loops:
            return _parts(body)
        case Block(parts):
            return tuple(inner for part in parts for inner in _parts(part))
    return (node,)


def _in_place(node: Node, one: Node, other: Node) -> Node:
    """Code with another statement in place of one."""
    return other if node is one else with_children(node, lambda child: _in_place(child, one, other))


def _name_of_sums(entries: Expr) -> str:
    """What the sums of a segment are called, by the name of the number of its entries."""
    assert isinstance(entries, Name), "says `summed_segment`"
    return entries.name.replace("_entries_", "_sums_", 1)


def _iterations(loop: For) -> int | None:
    """Of a loop with constant bounds, where they are few, but more than one."""
    match loop.first, loop.last:
        case Int(first), Int(last) if 1 < last - first + 1 <= MOST_ROWS:
            return last - first + 1
    return None


def _steps(through: Through, variable: str) -> list[int] | None:
    """Per factor, elements from one iteration to the next; None where a distance is not constant, or a factor that is
    passed as a value moves."""
    found: list[int] = []
    assert through.function is not None
    for factor, moves in zip(through.function.factors, through.moves, strict=True):
        step = 0
        for integer, stride in moves:
            further = substituted(integer, {variable: Binary("+", Name(variable), Int(1))})
            difference = linear_terms(Binary("-", further, integer))
            by = difference.pop(None, 0)
            if any(difference.values()) or (by and stride is None):
                return None
            step += by * (stride or 0)
        if step < 0 or (step and not factor.pointer):
            return None
        found.append(step)
    return found


def _written(parts: Sequence[Node]) -> set[str] | None:
    """The arrays and scalars that statements assign to; None where one may write others."""
    found: set[str] = set()
    for part in parts:
        match part:
            case Assign(target):
                found |= _target(target)
            case Instance() | Block() | If() | For():
                inside = _written([one for one in children(part) if one not in getattr(part, "hints", ())])
                if inside is None:
                    return None
                found |= inside
            case _:
                return None
    return found


def _target(expr: Expr) -> set[str]:
    """The array or scalar of what is assigned to."""
    return {expr.array} if isinstance(expr, Item) else set(names(expr, arrays=True))


def _arrays(expr: Expr) -> set[str]:
    """All names in an expression, and in what was copied from the file."""
    found = set(names(expr, arrays=True))

    def seen(part: Expr) -> Expr:
        if isinstance(part, Text):
            found.update(re.findall(r"[A-Za-z_]\w*", part.text))
        return part

    rewritten(expr, seen)
    return found


def _first(value: Expr, loop: For) -> Expr:
    """A value in the first iteration."""
    return substituted(value, {loop.variable: loop.first})
