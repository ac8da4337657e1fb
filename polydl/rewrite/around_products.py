"""Scalars that are used on both sides of a product in loops around it, and so keep it in one nest with everything else.

    for i: { m = …; for j: for d: s[j] += q[i][d] * k[j][d];  …;  for j: for d: o[i][d] += p[j] * v[j][d];  …; }

A microkernel takes products that are alone in their loops. What a scalar is before a product is set behind it where it
is a number; what it holds behind the last product that it is not needed in gets an array with an element for each of
its values (scalar expansion: Padua and Wolfe, "Advanced compiler optimizations for supercomputers", CACM 1986). Between
two products it stays a scalar, which keeps together what belongs together: the row of a softmax.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.dependences.scalars import private_scalars, users
from polydl.equations.step import Rule, Step, applied
from polydl.model import isl
from polydl.model.expr import Load, is_number
from polydl.model.isl import quota
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.time import common_depth, prefix
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.cut import in_order, with_room
from polydl.rewrite.materialise import alone
from polydl.rewrite.new_statements import assignment, free_statement_name
from polydl.rewrite.scratch_array import box_of, element_of, free_name, has_room, scratch_array, stored_in
from polydl.rewrite.storage import expanded
from polydl.target.isa import has_register_blocks


@dataclass(frozen=True, slots=True)
class Sinking(Rule):
    """A scalar is set to a number right in front of the statement that needs it.

    before:    for i: { m = 0; for j: for d: s[j] += …;  for j: m = max(m, s[j]); }
    after:     for i: { for j: for d: s[j] += …;  m = 0; for j: m = max(m, s[j]); }
    requires:  nothing in between touches the scalar
    """

    statement: str
    reader: str

    def __str__(self) -> str:
        return f"{self.statement} is done right in front of {self.reader}"


@dataclass(frozen=True, slots=True)
class Saved(Rule):
    """What a private scalar holds is kept in an array with an element for each of its values.

    before:    for i: { …; s += …;  for j: for d: o[d] += …;  for d: o[d] /= s; }
    after:     for i: { …; s += …; S[i] = s;  for j: for d: o[d] += …;  for d: o[d] /= S[i]; }
    requires:  the scalar is private to the loops around all its statements, and only read from there on
    """

    scalar: str
    array: str
    readers: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.readers)} reads {self.scalar} from an array with each of its values ({self.array})"


def around_products(scop: Scop) -> Iterator[Step]:
    """Part the scalars that are used both in front of a contraction and behind it, where it is alone in its loops
    afterwards (`Sinking`, `Saved`; `Expanded` where a scalar changes on both sides). Raises QuotaExceeded."""
    for name in [s.name for s in scop.statements if s.depth > 1]:
        heavy = scop.statement(name)
        around = _around(scop, heavy)
        if not around or not has_register_blocks(scop, heavy):
            continue
        steps: list[Step] = []
        with quota(f"the scalars around {name}"):
            for scalar in around:
                step = _parted(applied(scop, steps), scalar, name)
                if step is None:
                    break
                steps.append(step)
            tried = applied(scop, steps)
            fits = len(steps) == len(around) and alone(tried, [tried.statement(name)])
        if fits and all(step.broken() is None for step in steps):
            yield from steps
            scop = tried


def _around(scop: Scop, heavy: Statement) -> list[str]:
    """The private scalars that are used in front of a statement and behind it, but not in it, in loops around it."""
    found = []
    for name, depth in private_scalars(scop).items():
        using = users(scop, name)
        if 0 < depth <= common_depth(using[0], heavy) and using[0].position < heavy.position < using[-1].position:
            found += [] if heavy in using or not all(isinstance(s.body, Assignment) for s in using) else [name]
    return found


def _parted(scop: Scop, scalar: str, heavy: str) -> Step | None:
    """The step after which a private scalar is used on one side of a statement only, or is one no more; None where its
    values are too many."""
    at, depth = scop.statement(heavy).position, private_scalars(scop)[scalar]
    before = [s for s in users(scop, scalar) if s.position < at]
    behind = [s for s in users(scop, scalar) if s.position > at]
    first = before[0].body
    assert isinstance(first, Assignment)
    if len(before) == 1 and is_number(first.value):
        return _sunk(scop, before[0], behind[0], depth)
    changed = any(a.write for s in behind for a in s.accesses if a.array == scalar)
    if not changed and before[-1].position[: depth + 1] < at[: depth + 1]:
        return _saved(scop, scalar, before, behind, depth)
    return expanded(scop, scalar, depth)


def _sunk(scop: Scop, statement: Statement, reader: Statement, depth: int) -> Step:
    spread = with_room(scop, 2)
    place = spread.statement(reader.name).position
    position = (*place[:depth], place[depth] - 1)
    statements = [replace(s, position=position) if s.name == statement.name else s for s in spread.statements]
    return Step(Sinking(statement.name, reader.name), scop, in_order(scop, statements))


def _saved(
    scop: Scop, scalar: str, before: Sequence[Statement], behind: Sequence[Statement], depth: int
) -> Step | None:
    points = prefix(before[0], depth).range()
    box = box_of(points)
    if box is None or not has_room(scop, [box]):
        return None
    array, name = free_name(scop, f"{PREFIX}{scalar}_each"), free_statement_name(scop, f"{before[0].name}s")
    element = element_of(points, array, box)
    readers = {s.name for s in behind}
    statements = []
    for s in with_room(scop, 2).statements:
        there = prefix(s, depth).apply_range(element)
        statements.append(stored_in(s, scalar, array, there) if s.name in readers else s)
        if s.name == before[-1].name:
            position = (*s.position[:depth], s.position[depth] + 1)
            first = before[0]
            touched = [isl.range_named(prefix(first, 0), scalar), prefix(first, first.depth).apply_range(element)]
            statements.append(assignment(first, name, (first.iterators, first.domain), position, touched, Load(0)))
    made = replace(
        in_order(scop, statements),
        arrays={**scop.arrays, array: scratch_array(array, scop.arrays[scalar].element, box)},
    )
    return Step(Saved(scalar, array, tuple(s.name for s in behind)), scop, made)
