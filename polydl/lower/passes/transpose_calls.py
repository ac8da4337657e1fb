"""Turns two innermost loops that read along one and write along the other into a call of a function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from polydl.kernels.families import rectangle_function
from polydl.kernels.innermost import RowOptions
from polydl.kernels.row_loops import together
from polydl.kernels.transposes import TransposeFunction, rectangle
from polydl.kernels.vector_text import NotVectorised
from polydl.lower.ctree import (
    Block,
    Declare,
    Evaluate,
    Expr,
    For,
    Hint,
    If,
    Instance,
    Int,
    Invoke,
    Name,
    Node,
    Scope,
    Unary,
    every,
    names,
    substituted,
)
from polydl.lower.instance_marks import row_mark
from polydl.lower.passes.row_lengths import length, product, runs
from polydl.model.scop import Scop


def transposed(
    scop: Scop, chain: Sequence[For], instance: Instance, options: RowOptions, integer: str
) -> tuple[Node, TransposeFunction] | None:
    """The call in place of a chain of loops, and its function; None where they are of another form. `integer`: the type
    of loop variables."""
    variables = {loop.variable for loop in chain}
    bounds = [(loop.first, loop.last) for loop in chain]
    if instance.row is None or len(chain) < 2:
        return None
    for first, last in bounds:
        if last is None or variables & {*names(first), *names(last)}:
            return None  # no rectangle
    counts = [_count(first, last) for first, last in bounds if last is not None]
    for inner in range(1, len(chain)):
        try:
            (at,) = together([instance.row])
            made = rectangle_function(rectangle(scop.arrays, at, counts, inner, options))
        except NotVectorised:
            continue
        if made is not None:
            return _call(chain, len(chain) - inner, instance, made, integer), made
    return None


def _count(first: Expr, last: Expr) -> int | None:
    return last.value - first.value + 1 if isinstance(first, Int) and isinstance(last, Int) else None


def _call(chain: Sequence[For], cut: int, instance: Instance, made: TransposeFunction, integer: str) -> Node:
    groups = (chain[:cut], chain[cut:])
    lengths = [reduce(product, map(length, group)) for group in groups]
    begins: dict[str, Expr] = {}
    for group, back in zip(groups, made.backwards, strict=True):
        for loop in group:
            start = loop.last if back else loop.first
            assert start is not None
            begins[loop.variable] = start
    given: list[Expr] = []
    for one in made.arguments:
        if isinstance(one, int):
            given.append(Int(one))
        else:
            element = instance.elements[one.access]
            given.append(Unary("&", element) if one.pointer else element)
    call: Expr = Invoke(made.name, (lengths[made.along], lengths[1 - made.along], *given))
    known = {name: start for name, start in begins.items() if isinstance(start, Int) and start.value >= 0}
    if known:
        call = substituted(call, known)
    used = set(names(call))
    declared = tuple((name, start) for name, start in begins.items() if name in used)
    hinted = (*_marks(groups, begins, made), *instance.hints) if instance.hints else ()
    code = Block((*hinted, Evaluate(call)))
    if declared:
        code = Block((Declare(f"const {integer}", declared), *code.parts))
    asked = [condition for loop in chain if (condition := runs(loop)) is not None] if made.always_touches else []
    if asked:
        return If(every(tuple(asked)), code)
    return Scope(code.parts) if declared else code


def _marks(groups: Sequence[Sequence[For]], begins: Mapping[str, Expr], made: TransposeFunction) -> list[Hint]:
    """Of the loops that its first and second length count."""
    marks = []
    for which in (made.along, 1 - made.along):
        loops = []
        for loop in groups[which]:
            assert loop.last is not None
            extent = _count(loop.first, loop.last)
            loops.append((Name(loop.variable), begins[loop.variable], Int(1 if extent is None else extent)))
        marks.append(row_mark(loops, back=made.backwards[which]))
    return marks
