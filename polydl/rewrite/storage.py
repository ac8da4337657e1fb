"""Other places for values: a scalar for each value of one that holds several, and arrays in place of private scalars.

All of these leave what is computed as it is: the check compares values, which have no place. Where values are better
stored is decided in `rewrite.materialise`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise

from polydl.base.records import dataclass
from polydl.dependences.scalars import array_depth, private_depth, users
from polydl.equations.step import Rule, Step
from polydl.model import isl
from polydl.model.dataflow import last_writes
from polydl.model.isl import quota
from polydl.model.scop import Access, Assignment, MicrokernelCall, Scop, Statement, Storage, without_scalar
from polydl.model.time import prefix
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.scratch_array import (
    array_of_extents,
    box_of,
    element_of,
    free_name,
    has_room,
    scratch_array,
    stored_in,
)


@dataclass(frozen=True, slots=True)
class Lives(Rule):
    """A scalar that holds several values one after the other becomes one scalar for each; an array of the region alike.

    before:    for i: { w = …; … w …; }   for i: { w = …; … w …; }
    after:     for i: { w = …; … w …; }   for i: { v = …; … v …; }
    requires:  no value of one is read as another
    """

    name: str
    lives: tuple[tuple[str, tuple[str, ...]], ...]
    """(name afterwards, names of the statements that use it), in textual order."""
    scalar: bool = True

    def __str__(self) -> str:
        names = "; ".join(f"{', '.join(names)}: {scalar}" for scalar, names in self.lives)
        kind = "a scalar" if self.scalar else "an array"
        return f"{self.name} holds {len(self.lives)} values one after the other, each in {kind} of its own ({names})"


@dataclass(frozen=True, slots=True)
class Expanded(Rule):
    """A private scalar, or array, becomes an array with elements for each iteration of the loops around it.

    before:    for i: { s = …; … s …; }
    after:     for i: { S[i] = …; … S[i] …; }
    requires:  it is private to the loops around all its statements: each value of it is read by these alone
    """

    name: str
    array: str
    """Its name afterwards."""
    statements: tuple[str, ...]
    """Those that use it, in textual order."""

    def __str__(self) -> str:
        return f"{self.name} has elements for each iteration of the loops around it ({self.array})"


def expanded(scop: Scop, name: str, depth: int) -> Step | None:
    """The step to an array in place of a scalar, or of another array, that is private to so many loops and that
    assignments alone use: it has elements for each of their iterations. None where their number is not known, or
    large. Raises QuotaExceeded."""
    using, array, old = users(scop, name), free_name(scop, f"{PREFIX}{name}_each"), scop.arrays[name]
    with quota(f"the values of {name}"):
        touched = (_each(s, a, depth).range() for s in using for a in s.accesses if a.array == name)
        points = reduce(isl.Set.union, touched)
        box = box_of(points)
        if box is None or not has_room(scop, [box]):
            return None
        element = element_of(points, array, box)
        moved = {s.name: replace(s, accesses=_moved(s, name, array, depth, element)) for s in using}
    statements = tuple(moved.get(s.name, s) for s in scop.statements)
    made = replace(scop, arrays={**scop.arrays, array: scratch_array(array, old.element, box)}, statements=statements)
    if old.storage is not Storage.LOCAL or old.is_scalar:
        # The original loops still use any other array that is declared in front of them.
        made = without_scalar(made, name)
    return Step(Expanded(name, array, tuple(s.name for s in using)), scop, made)


def _each(statement: Statement, access: Access, depth: int) -> isl.Map:
    """{ S[i…] -> [p…, a…] } the iteration of the outer loops, and the element that is accessed."""
    relation = isl.range_named(access.relation, None).intersect_domain(statement.domain)
    return prefix(statement, depth).flat_range_product(relation)


def _moved(statement: Statement, name: str, array: str, depth: int, element: isl.Map) -> tuple[Access, ...]:
    """The accesses of a statement, those of one array in another one. `element`: { [p…, a…] -> array[…] }."""
    return tuple(
        replace(a, array=array, relation=_each(statement, a, depth).apply_range(element)) if a.array == name else a
        for a in statement.accesses
    )


RENAMED = "polydl_life_"
"""Begins the names of scalars that `split_live_ranges` makes."""


def split_live_ranges(scop: Scop) -> Iterator[Step]:
    """Give a scalar of its own to each value of a scalar that is used for several, one after the other (`Lives`), and
    arrays to what is in an array of the region in turn. Of arrays of one dimension, such as rows of scalars
    (`columns`), threads may as well take some elements each. Raises QuotaExceeded."""
    for name, array in list(scop.arrays.items()):
        several = array.storage is Storage.REGION and len(array.extents) > 1
        if not (array.is_scalar or several) or _is_private(scop, name):
            continue
        lives = _lives(scop, name)
        if len(lives) < 2 or not all(_is_private(replace(scop, statements=tuple(own)), name) for own in lives):
            continue
        arrays, statements = dict(scop.arrays), {s.name: s for s in scop.statements}
        named = [(name, tuple(s.name for s in lives[0]))]
        for number, life in enumerate(lives[1:], 2):
            own = f"{RENAMED}{name if array.is_scalar else name.removeprefix(PREFIX)}_{number}"
            if array.is_scalar:
                declaration = f"{array.element.c} {own}"
                arrays[own] = replace(array, name=own, storage=Storage.REGION, declaration=declaration, const=False)
                statements |= {s.name: stored_in(s, name, own, isl.range_named(prefix(s, 0), own)) for s in life}
            else:
                extents = [extent for extent in array.extents if extent is not None]
                arrays[own] = array_of_extents(own, array.element, extents)
                statements |= {s.name: _renamed(s, name, own) for s in life}
            named.append((own, tuple(s.name for s in life)))
        step = Step(
            Lives(name, tuple(named), array.is_scalar),
            scop,
            replace(scop, arrays=arrays, statements=tuple(statements.values())),
        )
        yield step
        scop = step.after


def _is_private(scop: Scop, name: str) -> bool:
    """Whether a scalar or an array is private to an iteration of some loops."""
    if scop.arrays[name].is_scalar:
        return private_depth(scop, name) is not None
    with quota(f"the values of {name}"):
        return array_depth(scop, name, users(scop, name)) is not None


def _renamed(statement: Statement, name: str, own: str) -> Statement:
    """A statement with the same elements of another array."""
    accesses = tuple(
        replace(a, array=own, relation=isl.range_named(a.relation, own)) if a.array == name else a
        for a in statement.accesses
    )
    return replace(statement, accesses=accesses)


def _lives(scop: Scop, name: str) -> Sequence[Sequence[Statement]]:
    """The users of a scalar in groups, in textual order, of which none reads a value that another one stores; none
    where a call names the scalar."""
    using = users(scop, name)
    if len(using) < 2 or any(isinstance(s.body, MicrokernelCall) for s in using):
        return []
    with quota(f"the values of {name}"):
        flow = last_writes(using, name, scop.context).relations
    pairs = [(isl.domain_name(relation), isl.range_name(relation)) for relation in flow]
    # What text stores, if it does, it stores in place of what was there.
    pairs += [(a.name, b.name) for a, b in pairwise(using) if not isinstance(b.body, Assignment)]
    life = {s.name: frozenset({s.name}) for s in using}
    for one, other in pairs:
        joined = life[one] | life[other]
        life |= dict.fromkeys(joined, joined)
    return [[s for s in using if s.name in own] for own in dict.fromkeys(life.values())]
