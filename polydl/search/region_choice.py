"""Decides which nests of a scop get schedules of isl's schedulers beside the space of loop transforms."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from polydl.dependences.analysis import Dependence
from polydl.dependences.legality import conflicts
from polydl.dependences.nests import Nest
from polydl.model import isl
from polydl.model.accumulation import accumulates
from polydl.model.scop import Assignment, MicrokernelCall, Scop, Statement
from polydl.schedule.innermost_passes import WRITTEN_OUT

_FEW_TERMS = 16
"""Terms of each element up to which a contraction may take less time than reading its operands does."""


def plain(nest: Nest, found: Sequence[Dependence], blocked: Collection[str], asking: Collection[str]) -> bool:
    """Whether the space of loop transforms is enough for a nest, without a schedule of its own: a contraction that has
    a microkernel (`blocked`), a microkernel call, or a rectangular nest with an independent outermost loop and no loop
    that could be written out, whole or in small tiles, nor products of complex numbers (`asking`), of which loops that
    are said to run in vectors are made differently (lower.passes.complex_products)."""
    if any(isinstance(s.body, MicrokernelCall) for s in nest.statements):
        return True
    if not nest.box or len(nest.statements) > 1:
        return False
    if nest.name in blocked or not nest.loops:
        return True
    if nest.name in asking:
        return False
    (statement,) = nest.statements
    if not _once(statement) and (statement.depth > 2 or (statement.depth > 1 and shortest(statement) <= WRITTEN_OUT)):
        return False
    if nest.contraction is not None:
        return True
    name = statement.name
    kept = conflicts(found)
    return not any(d.source == name and d.target == name and d.depth == 0 for d in kept)


def segments(
    nests: Sequence[Nest], found: Sequence[Dependence], blocked: Collection[str], asking: Collection[str] = ()
) -> list[tuple[bool, tuple[Nest, ...]]]:
    """The nests in order, each alone (False) or with neighbours as a region to be scheduled (True). Contractions stay
    alone: those that are no boxes may be scheduled or given to a microkernel. `blocked`: those that have one;
    `asking`: those that multiply complex numbers.

    What stands in one loop with a nest to be scheduled is scheduled with it: it shares data with it. So are
    contractions of few terms that read what others in their loop read: one after the other they would read it again."""
    sharing = {nest.name for nest in nests if nest.name in blocked and _reads_with_others(nest, nests)}
    wanting = {nest.name for nest in nests if nest.name in sharing or not plain(nest, found, blocked, asking)}
    loops = {_place(nest) for nest in nests if nest.name in wanting and nest.loops}
    result: list[tuple[bool, tuple[Nest, ...]]] = []
    open_ = False
    for nest in nests:
        fixed = nest.name in blocked or any(isinstance(s.body, MicrokernelCall) for s in nest.statements)
        wants = nest.name in wanting or (bool(nest.loops) and not fixed and _place(nest) in loops)
        joins = wants and (nest.name in sharing or nest.contraction is None or nest.name not in blocked)
        if joins and open_:
            result[-1] = (True, (*result[-1][1], nest))
        else:
            result.append((wants, (nest,)))
        open_ = joins
    return result


def _once(statement: Statement) -> bool:
    """Whether no two instances write the same element: there is nothing to keep in a register."""
    return all(access.relation.is_injective() for access in statement.accesses if access.write)


def _reads_with_others(nest: Nest, nests: Sequence[Nest]) -> bool:
    """Whether a nest is a contraction of few terms, an operand of which another one in the same loop reads."""
    if (
        nest.contraction is None
        or math.prod(nest.counts[i].extent or math.inf for i in nest.contraction.reductions) > _FEW_TERMS
    ):
        return False
    (statement,) = nest.statements
    operands = {statement.accesses[o.access].array for o in (nest.contraction.left, nest.contraction.right)}
    others = (n for n in nests if n is not nest and _place(n) == _place(nest))
    return any(not a.write and a.array in operands for n in others for s in n.statements for a in s.accesses)


def _place(nest: Nest) -> int:
    """Which of the scop's outermost loops a nest comes from."""
    return nest.statements[0].position[0]


def shortest(statement: Statement) -> float:
    """Iterations of the shortest of a statement's loops that have constant bounds."""
    extents = [math.inf]
    for iterator in statement.iterators:
        low, high = isl.least(statement.domain, iterator), isl.greatest(statement.domain, iterator)
        if low is not None and high is not None:
            extents.append(high - low + 1)
    return min(extents)


def chained(scop: Scop, statements: Sequence[Statement]) -> bool:
    """Whether each iteration of an innermost loop needs what the one before made of the same element, and does not only
    combine with it: `r = r * x + c[k]`. Nothing but the iterations of a loop around fills vectors then."""
    for writer in statements:
        body = writer.body
        if not isinstance(body, Assignment) or writer.depth < 2 or accumulates(scop, writer):
            continue
        target = writer.target
        if not isl.domain_onto(target.relation, range(writer.depth - 1)).is_single_valued():
            continue
        before = (s for s in statements if s.position[:-1] == writer.position[:-1] and s.position <= writer.position)
        if any(a.array == target.array and not a.write for s in before for a in s.accesses):
            return True
    return False
