"""Scalars and rows expanded: an accumulator that ends in something else than an array element gets an array of its own.

    for i: for j: { s = 0; for k: s += A[i][k] * B[k][j]; C[i][j] = s > C[i][j] ? s : C[i][j]; }
    for i: { for j: { h[j] = 0; for k: h[j] += A[i][k] * B[k][j]; }  for j: A[i][j] = h[j]; }

`s` is private to each (i, j), the row `h` to each i. With elements for each of these, the sums are a contraction in
loops of their own, and what is made of them follows (scalar expansion: Padua and Wolfe, "Advanced compiler
optimizations for supercomputers", CACM 1986; the other way round: `rewrite.contract`). A row is expanded where it is
added up, or multiplied in a sum: the values between two layers of a network. Only done where a contraction comes of it
that a microkernel keeps in blocks of registers, and where the elements are no more than the program has anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.dependences.scalars import private_storage, users
from polydl.equations.step import Step, applied
from polydl.model.combiners import adds
from polydl.model.expr import loads
from polydl.model.isl import quota
from polydl.model.scop import Assignment, Scop, Statement
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.reroll import reroll
from polydl.rewrite.scratch_array import free_name, is_box
from polydl.rewrite.staircase import staircase
from polydl.rewrite.storage import Expanded, expanded, in_place
from polydl.rewrite.temporaries import forward, substituted_runs
from polydl.rewrite.terms import terms_apart
from polydl.rewrite.widen import widen
from polydl.target.isa import has_register_blocks


def expand(scop: Scop) -> Iterator[Step]:
    """Expand the accumulators of contractions that end in no array element (`Expanded`). Raises QuotaExceeded."""
    for name, depth in private_storage(scop).items():
        step = _step(scop, name, depth)
        if step is not None and _useful(step) and step.broken() is None:
            yield step
            scop = step.after


def results_of_sums(scop: Scop) -> Iterator[Step]:
    """Substitute the temporaries between a private accumulator that gets an array of its own by it, and the element
    that is made of it (`Substituted`). Raises QuotaExceeded."""

    def wanted(after: Scop, last: Statement) -> bool:
        assert isinstance(last.body, Assignment)
        read = {last.accesses[i].array for i in loads(last.body.value)}
        adding = {a.array for s in after.statements if _adds_inside(s, last) for a in s.accesses if a.write}
        if not read & adding:
            return False
        return any(isinstance(step.rewrite, Expanded) and step.rewrite.name in read for step in expand(after))

    yield from substituted_runs(scop, wanted)


def _adds_inside(statement: Statement, last: Statement) -> bool:
    """Whether a statement adds up in loops inside of those of another."""
    body = statement.body
    inside = statement.iterators[: last.depth] == last.iterators and statement.depth > last.depth
    return inside and isinstance(body, Assignment) and adds(body.op)


def _step(scop: Scop, name: str, depth: int) -> Step | None:
    using = users(scop, name)
    if not any(_adds(scop, s, name) for s in using) or not all(isinstance(s.body, Assignment) for s in using):
        return None
    array = free_name(scop, f"{PREFIX}{name}_each")
    with quota(f"the values of {name}"):
        made = expanded(scop, name, array, depth)
    return None if made is None else Step(Expanded(name, array, tuple(s.name for s in using)), scop, made)


def _adds(scop: Scop, statement: Statement, name: str) -> bool:
    """Whether a statement adds up in a scalar, or adds up elements of an array or in one."""
    body = statement.body
    if not isinstance(body, Assignment) or not adds(body.op):
        return False
    target = statement.target
    if scop.arrays[name].is_scalar:
        return target.array == name
    several = not target.relation.intersect_domain(statement.domain).is_injective()
    return several and any(access.array == name for access in statement.accesses)


def _useful(step: Step) -> bool:
    """Whether what is added to the scalar is a contraction in blocks of registers afterwards, alone in its loops, but
    none where the scalar becomes the array element that it may end in, or one in a triangle."""
    assert isinstance(step.rewrite, Expanded)
    tried = finished(step.after)
    adding = [s for s in tried.statements if _adds(tried, s, step.rewrite.array)]
    if not adding or not all(has_register_blocks(tried, s) for s in adding):
        return False
    return alone(tried, adding) and left(tried) < left(finished(step.before))


def alone(scop: Scop, statements: Sequence[Statement]) -> bool:
    """Whether each of the statements is in loops of its own. Raises QuotaExceeded."""
    parts = nests(scop, dependences(scop, reads=False))
    return {n.statements[0].name for n in parts if len(n.statements) == 1} >= {s.name for s in statements}


def finished(scop: Scop) -> Scop:
    """The program after the rewrites that contractions come of."""
    for rewrite in (in_place, forward, terms_apart, reroll, widen, staircase):
        scop = applied(scop, rewrite(scop))
    return scop


def left(scop: Scop, added: int = 0) -> tuple[int, int]:
    """How many sums are no contractions in blocks of registers, but for `added` ones, and how many of those that are
    have loops whose bounds change."""
    sums = [s for s in scop.statements if isinstance(s.body, Assignment) and adds(s.body.op)]
    blocks = [s for s in sums if has_register_blocks(scop, s)]
    return len(sums) - len(blocks) - added, sum(not is_box(s) for s in blocks)
