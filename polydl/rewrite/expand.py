"""Scalars expanded: an accumulator that ends in something else than an array element gets an array of its own.

    for i: for j: { s = 0; for k: s += A[i][k] * B[k][j]; C[i][j] = s > C[i][j] ? s : C[i][j]; }

`s` is private to each (i, j). With an element for each of these, the sums are a contraction in loops of their own, and
what is made of them follows (scalar expansion: Padua and Wolfe, "Advanced compiler optimizations for supercomputers",
CACM 1986; the other way round: `rewrite.contract`). Only done where a contraction comes of it that a microkernel keeps
in blocks of registers, and where the elements are no more than the program has anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.dependences.scalars import private_scalars, users
from polydl.model.combiners import adds
from polydl.model.isl import quota
from polydl.model.scop import Assignment, Scop, Statement, without_scalar
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.lifetimes import Lifetimes, lifetimes, prefix
from polydl.rewrite.private_scalars import in_place
from polydl.rewrite.reroll import reroll
from polydl.rewrite.scratch_array import box_of, element_of, free_name, has_room, is_box, scratch_array
from polydl.rewrite.staircase import staircase
from polydl.rewrite.step import Step, applied
from polydl.rewrite.substitute import forward
from polydl.rewrite.terms import terms_apart
from polydl.rewrite.widen import widen
from polydl.target.isa import has_register_blocks


@dataclass(frozen=True, slots=True)
class Expanded:
    """A private scalar becomes an array with an element for each of its values.

    before:    for i: { s = …; … s …; }
    after:     for i: { S[i] = …; … S[i] …; }
    requires:  the scalar is private to the loops around all its statements: each value of it is read by these alone
    """

    scalar: str
    array: str
    """Its name afterwards."""
    statements: tuple[str, ...]
    """Those that use the scalar, in textual order."""

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `polydl.rewrite.step.Rewrite`."""
        using = users(before, self.scalar)
        if tuple(s.name for s in using) != self.statements:
            return f"other statements use {self.scalar}"
        if not all(isinstance(s.body, Assignment) for s in using):
            return f"the text of a statement names {self.scalar}"
        with quota(f"the lifetimes of {self.scalar}"):
            lives = lifetimes(before, self.scalar, self.statements)
            if isinstance(lives, str):
                return lives
            made = _made(before, lives, self.scalar, self.array)
        if made is None or self.array in before.arrays:
            return f"there is no array for the values of {self.scalar}"
        same = after.statements == made.statements and after.arrays[self.array] == made.arrays[self.array]
        return None if same else f"more than {self.scalar} was changed"

    def __str__(self) -> str:
        return f"{self.scalar} has an element for each of its values ({self.array})"


def expand(scop: Scop) -> Iterator[Step]:
    """Expand the accumulators of contractions that end in no array element (`Expanded`). Raises QuotaExceeded."""
    for name in private_scalars(scop):
        step = _step(scop, name)
        if step is not None and _useful(step) and step.broken() is None:
            yield step
            scop = step.after


def _step(scop: Scop, name: str) -> Step | None:
    using = users(scop, name)
    if not any(_adds(s, name) for s in using) or not all(isinstance(s.body, Assignment) for s in using):
        return None
    names = tuple(s.name for s in using)
    array = free_name(scop, f"{PREFIX}{name}_each")
    with quota(f"the lifetimes of {name}"):
        lives = lifetimes(scop, name, names)
        made = None if isinstance(lives, str) else _made(scop, lives, name, array)
    return None if made is None else Step(Expanded(name, array, names), scop, made)


def _adds(statement: Statement, name: str) -> bool:
    body = statement.body
    return isinstance(body, Assignment) and adds(body.op) and statement.accesses[body.target].array == name


def _useful(step: Step) -> bool:
    """Whether what is added to the scalar is a contraction in blocks of registers afterwards, alone in its loops, but
    none where the scalar becomes the array element that it may end in, or one in a triangle."""
    assert isinstance(step.rewrite, Expanded)
    tried = finished(step.after)
    adding = [s for s in tried.statements if _adds(s, step.rewrite.array)]
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


def _made(scop: Scop, lives: Lifetimes, scalar: str, array: str) -> Scop | None:
    """The program with an array in place of a scalar; None where the number of its values is not known, or large."""
    points = prefix(lives.members[0], lives.depth).range()
    box = box_of(points)
    if box is None or not has_room(scop, [box]):
        return None
    element = element_of(points, array, box)

    def redirected(statement: Statement) -> Statement:
        place = prefix(statement, lives.depth).apply_range(element)
        accesses = tuple(
            replace(a, array=array, relation=place) if a.array == scalar else a for a in statement.accesses
        )
        return replace(statement, accesses=accesses)

    names = {s.name for s in lives.members}
    statements = tuple(redirected(s) if s.name in names else s for s in scop.statements)
    arrays = {**scop.arrays, array: scratch_array(array, scop.arrays[scalar].element, box)}
    return without_scalar(replace(scop, arrays=arrays, statements=statements), scalar)
