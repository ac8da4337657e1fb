"""Sums in loops whose bounds data decide: such a loop is kept as it is written, but may add up in lanes."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.lower.member_nodes import written
from polydl.frontend.meaning.liveness import changed_names
from polydl.frontend.meaning.symbols import Symbol, mentions
from polydl.model.combiners import of_assignment
from polydl.model.functions import result_of
from polydl.model.types import F32, F64

_UPWARDS = ("++", "p++")
_OWN = "polydl_sum{}"
"""Names of the scalars that stand for elements while the loop runs."""


def in_lanes(loop: Node, find: Callable[[str], Symbol | None]) -> str:
    """C text of a loop that adds up in vector lanes: each iteration declares what it needs and adds to scalars or
    elements of floating point that nothing else in the loop reads or writes. Empty where it is no such loop, or may
    not be.

    before:    for (int k = ptr[i]; k < ptr[i + 1]; k++) y[i] += a[k];
    after:     if (ptr[i] < ptr[i + 1]) {
                 float sum = 0;
                 #pragma omp simd reduction(+ : sum)
                 for (int k = ptr[i]; k < ptr[i + 1]; k++) sum += a[k];
                 y[i] += sum;
               }

    `find`: what a name outside of the loop denotes.
    """
    parts = _parts(loop)
    if not isinstance(loop, c_ast.For):
        return ""
    bounds = _bounds(loop) if parts is not None else None
    if parts is None or bounds is None:
        return ""
    declared, sums = parts
    targets = [_target(one.lvalue, find) for one in sums]
    places = [each for one in sums for each in _subscripts(one.lvalue)]
    inside = [*(d.init for d in declared if d.init is not None), *(one.rvalue for one in sums), *places]
    fixed = {bounds.counter, *(d.name for d in declared)}
    named = [t.name for t in targets if t is not None]
    read = set().union(*(mentions(each) for each in (*inside, loop.cond, loop.init) if each is not None))
    moved = set().union(*map(mentions, places))
    still = all(not changed_names(each) and _pure(each) for each in (*inside, bounds.first, bounds.last))
    if None in targets or len(set(named)) < len(named) or read & set(named) or moved & fixed or not still:
        return ""
    return _text(loop, declared, sums, [t for t in targets if t is not None], bounds)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Of a loop that counts up by one."""

    counter: str
    first: Node
    op: str
    last: Node


def _parts(loop: Node) -> tuple[list[c_ast.Decl], list[c_ast.Assignment]] | None:
    """What an iteration declares, and its accumulations behind; None where there is anything else."""
    if not isinstance(loop, c_ast.For):
        return None
    parts = loop.stmt.block_items or [] if isinstance(loop.stmt, c_ast.Compound) else [loop.stmt]
    declared = [part for part in parts if isinstance(part, c_ast.Decl)]
    sums = [part for part in parts if isinstance(part, c_ast.Assignment) and of_assignment(part.op)]
    scalars = all(isinstance(d.type, c_ast.TypeDecl) and not d.storage and d.init is not None for d in declared)
    return (declared, sums) if sums and scalars and parts == [*declared, *sums] else None


def _bounds(loop: c_ast.For) -> _Bounds | None:
    init, cond, step = loop.init, loop.cond, loop.next
    if isinstance(init, c_ast.DeclList) and len(init.decls) == 1 and init.decls[0].init is not None:
        name, first = init.decls[0].name, init.decls[0].init
    elif isinstance(init, c_ast.Assignment) and init.op == "=" and isinstance(init.lvalue, c_ast.ID):
        name, first = init.lvalue.name, init.rvalue
    else:
        return None
    if not (isinstance(step, c_ast.UnaryOp) and step.op in _UPWARDS and getattr(step.expr, "name", None) == name):
        return None
    if not (isinstance(cond, c_ast.BinaryOp) and cond.op in ("<", "<=") and getattr(cond.left, "name", None) == name):
        return None
    return None if name in {*mentions(cond.right), *mentions(first)} else _Bounds(name, first, cond.op, cond.right)


def _subscripts(place: Node) -> list[Node]:
    """Of an element; none of a scalar."""
    return [*_subscripts(place.name), place.subscript] if isinstance(place, c_ast.ArrayRef) else []


def _target(place: Node, find: Callable[[str], Symbol | None]) -> Symbol | None:
    """The scalar or the array of the element that is added to; None where it is neither, or not of floating point."""
    while isinstance(place, c_ast.ArrayRef):
        place = place.name
    symbol = find(place.name) if isinstance(place, c_ast.ID) else None
    return symbol if symbol is not None and symbol.ctype in (F32, F64) and not symbol.pinned else None


def _text(
    loop: c_ast.For, declared: list[c_ast.Decl], sums: list[c_ast.Assignment], targets: list[Symbol], bounds: _Bounds
) -> str:
    before, after, reductions, inside = [], [], [], []
    for number, (one, target) in enumerate(zip(sums, targets, strict=True)):
        row = of_assignment(one.op)
        assert row is not None
        name = target.name
        if _subscripts(one.lvalue):
            name = _OWN.format(number)
            before.append(f"{target.ctype} {name} = {row.neutral};")
            after.append(f"{written(one.lvalue)} {row.symbol}= {name};")
        reductions.append(f" reduction({row.symbol} : {name})")
        inside.append(c_ast.Assignment(one.op, c_ast.ID(name), one.rvalue))
    made = copy(loop)
    made.stmt = c_ast.Compound([*declared, *inside])
    lines = [*before, f"#pragma omp simd{''.join(reductions)}", written(made), *after]
    if before:
        lines = [f"if (({written(bounds.first)}) {bounds.op} ({written(bounds.last)})) {{", *lines, "}"]
    return "\n".join(lines)


def _pure(node: Node) -> bool:
    """Whether nothing but functions without effects is called."""
    if isinstance(node, c_ast.FuncCall) and not (isinstance(node.name, c_ast.ID) and result_of(node.name.name)):
        return False
    return all(_pure(child) for _, child in node.children())
