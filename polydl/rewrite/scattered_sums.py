"""Sums that are added to array elements no vector could hold, gathered in a scratch array and added at the end.

    for i: for k: for j: c[2 * (i * n + j)] += a[i][k] * b[k][j];

The columns of the result are two elements apart. In an array of its own they are neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.equations.step import RegroupingRule, Step, applied
from polydl.model import isl
from polydl.model.combiners import SUM, adds
from polydl.model.expr import Const, Expr, Load
from polydl.model.isl import quota
from polydl.model.scop import Assignment, Scop, Statement, Storage
from polydl.model.strides import strides_of
from polydl.model.time import map_from_affs
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.cut import in_order, with_room
from polydl.rewrite.materialise import alone, finished, left
from polydl.rewrite.new_statements import assignment
from polydl.rewrite.scratch_array import box_of, element_of, free_name, has_room, scratch_array
from polydl.target.isa import has_register_blocks


@dataclass(frozen=True, slots=True)
class Beside(RegroupingRule):
    """What is added to array elements is added up in an array of its own first.

    before:    for i: for k: for j: C[f(i, j)] += x
    after:     for i: { for j: T[i, j] = 0;  for k: for j: T[i, j] += x;  for j: C[f(i, j)] += T[i, j]; }
    requires:  leave to reassociate; f leads to another element for each (i, j); in an iteration of the loops around all
               three nothing else touches these elements in the second
    """

    statement: str
    array: str
    """The one of its own."""

    def __str__(self) -> str:
        return f"{self.statement} adds up in an array of its own ({self.array}), which is added to the result"


def beside(scop: Scop) -> Iterator[Step]:
    """Gather the sums of which contractions come that a microkernel keeps in blocks of registers (`Beside`): all
    together, or else one after the other. Changes the order of sums. Raises QuotaExceeded."""
    names = [s.name for s in scop.statements if _apart(scop, s)]
    if not names:
        return
    for tried in (names, *([[name] for name in names] if len(names) > 1 else [])):
        steps: list[Step] = []
        for name in tried:
            step = _step(applied(scop, steps), name)
            steps += [step] if step is not None else []
        if steps and _useful(scop, steps) and all(step.broken() is None for step in steps):
            yield from steps
            scop = applied(scop, steps)
            if tried is names:
                return


def _apart(scop: Scop, statement: Statement) -> bool:
    """Whether no loop leads to the next element of what a statement adds to."""
    body = statement.body
    if not isinstance(body, Assignment) or not adds(body.op) or statement.depth < 3:
        return False
    target = statement.target
    if scop.arrays[target.array].is_scalar or scop.arrays[target.array].storage is Storage.SCRATCH:
        return False
    strides = strides_of(scop, statement, target)
    return strides is not None and 1 not in strides.values() and any(strides.values())


def _step(scop: Scop, name: str) -> Step | None:
    statement = scop.statement(name)
    array = free_name(scop, f"{PREFIX}{statement.target.array}_{name}")
    with quota(f"the sums of {name}"):
        made = _made(scop, statement, array)
    return None if made is None else Step(Beside(name, array), scop, made)


def _useful(scop: Scop, steps: Sequence[Step]) -> bool:
    tried = finished(applied(scop, steps))
    arrays = {step.rewrite.array for step in steps if isinstance(step.rewrite, Beside)}
    sums = [s for s in tried.statements if isinstance(s.body, Assignment) and adds(s.body.op)]
    adding = [s for s in sums if s.target.array in arrays]
    blocks = adding and all(has_register_blocks(tried, s) for s in adding)
    return bool(blocks) and alone(tried, adding) and left(tried, len(steps)) < left(finished(scop))


def _made(scop: Scop, statement: Statement, array: str) -> Scop | None:
    """The program after `Beside`; None where it is not known how many elements there are, or those are a lot."""
    body = statement.body
    assert isinstance(body, Assignment)
    target = statement.target
    strides = strides_of(scop, statement, target)
    assert strides is not None  # says `_apart`
    outputs = [dim for dim, name in enumerate(statement.iterators) if strides[name] != 0]
    depth = next((at for at, dim in enumerate(outputs) if at != dim), len(outputs))
    if len(outputs) == statement.depth or not outputs:
        return None
    places = isl.domain_onto(target.relation.intersect_domain(statement.domain), outputs)
    iterations = isl.project_onto(statement.domain, outputs)
    box = box_of(iterations)
    if box is None or not places.is_single_valued() or not has_room(scop, [box]):
        return None
    own = element_of(iterations, array, box)
    loops = isl.coordinates(statement.domain)
    held = map_from_affs(statement.domain, [loops[d] for d in outputs]).apply_range(isl.domain_named(own, None))
    element = scop.arrays[target.array].element
    iterators = tuple(statement.iterators[dim] for dim in outputs)
    around = statement.position

    def outer(suffix: str, at: int, touched: Sequence[isl.Map], value: Expr, op: str) -> Statement:
        position = (*(3 * p for p in around[:depth]), 3 * around[depth] + at, *[0] * (len(outputs) - depth))
        return assignment(statement, f"{statement.name}{suffix}", (iterators, iterations), position, touched, value, op)

    inner = replace(
        statement,
        accesses=tuple(
            replace(a, array=array, relation=held) if number in (body.target, body.target_read) else a
            for number, a in enumerate(statement.accesses)
        ),
    )
    statements = [outer("z", 0, [own], Const("0"), "="), outer("e", 2, [own, places], Load(0), SUM.op)]
    for s in with_room(scop, 3).statements:
        place = [p + (at == depth) for at, p in enumerate(s.position)]
        statements.append(replace(inner if s.name == statement.name else s, position=tuple(place)))
    arrays = {**scop.arrays, array: scratch_array(array, element, box)}
    return replace(in_order(scop, statements), arrays=arrays)
