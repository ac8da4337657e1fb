"""Arrays that each iteration of a loop fills before it reads them: each iteration gets one of its own.

    for i: { cp[0] = T[0][i];  for k: cp[k] = f(cp[k - 1], T[k][i]);  for k: T[k][i] = cp[k]; }

`cp` is a parameter, a member of a structure, or an array of the file: it is there once, so that no two iterations of i
may run at the same time, though none reads what another one stored. With an array of the region in its place, of which
each thread has one (`dependences.scalars`), they may. What the last iterations leave in `cp` is stored by them alone
(array privatisation with copy-out: Tu and Padua, "Automatic array privatization", LCPC 1993; decided here by the exact
source of every read: Maydan, Amarasinghe, Lam, "Array data-flow analysis and its use in array privatization", POPL
1993).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import reduce

from polydl.base.errors import QuotaExceeded
from polydl.base.records import dataclass
from polydl.dependences.analysis import Kind, dependences
from polydl.dependences.scalars import HELD_BYTES, array_depth, private_storage
from polydl.equations.step import Rule, Step
from polydl.model import isl
from polydl.model.expr import Load
from polydl.model.isl import quota
from polydl.model.scop import Scop, Statement, Storage
from polydl.model.time import inside_of, map_from_affs, prefix, time_affs
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.new_statements import assignment, free_statement_name
from polydl.rewrite.scratch_array import Box, array_of_extents, box_of, element_of, free_name, known_size

OWN = f"{PREFIX}own_"
"""Begins the names of the arrays that are made."""

Loop = tuple[int, ...]
"""A loop by where it stands: all statements in it have these positions up to its depth."""


@dataclass(frozen=True, slots=True)
class OwnCopy(Rule):
    """Iterations of a loop get an array each in place of one that they all use.

    before:    for i: { for k: x[k] = …;  … x[k] … }
    after:     for i: { for k: own[k] = …;  … own[k] …;  for k: if no later i stores x[k]: x[k] = own[k] }
    requires:  what an iteration reads of the array it has stored itself

    Where nobody reads the array behind the loop, nothing is stored to it.
    """

    loop: str
    """Its iterator."""
    arrays: tuple[str, ...]
    copies: tuple[str, ...]
    """The arrays in their places."""

    def __str__(self) -> str:
        return f"each iteration of {self.loop} has its own {', '.join(self.arrays)} ({', '.join(self.copies)})"


def own_copies(scop: Scop) -> Iterator[Step]:
    """Give iterations of a loop their own arrays where these are all that orders them (`OwnCopy`), and those of no loop
    around it are independent of each other."""
    loops = dict.fromkeys(s.position[:depth] for s in scop.statements for depth in range(1, s.depth + 1))
    for loop in sorted(loops, key=lambda one: (len(one), one)):
        try:
            with quota(f"the arrays that iterations of loops in {scop.function} share"):
                step = _step(scop, loop)
            held = step is not None and step.broken() is None
        except QuotaExceeded:
            continue  # it is as it was
        if step is not None and held:
            yield step
            scop = step.after


def _step(scop: Scop, loop: Loop) -> Step | None:
    """The step that gives iterations of a loop arrays of their own; None where they are independent of each other, or
    are not by that."""
    inside = inside_of(scop, loop)
    shared = {name: one for name in scop.arrays if (one := _shared(scop, name, loop, inside)) is not None}
    if not shared or not all(_ordering(scop, loop[:depth]) for depth in range(1, len(loop))):
        return None
    orders = _ordering(scop, loop)
    if not orders or not orders <= shared.keys():
        return None
    own = {name: one for name, one in shared.items() if name in orders}
    if sum((one.elements or 0) * scop.arrays[name].element.bytes for name, one in own.items()) > HELD_BYTES:
        return None
    copies, after = dict[str, str](), scop
    for name, one in own.items():
        copies[name] = free_name(after, f"{OWN}{name}")
        after = _with_copy(after, name, copies[name], one, loop)
    if _ordering(after, loop):
        return None
    return Step(OwnCopy(inside[0].iterators[len(loop) - 1], tuple(copies), tuple(copies.values())), scop, after)


@dataclass(frozen=True, slots=True)
class _Shared:
    """An array of which several iterations of a loop use the same elements, and no iteration a value of another."""

    using: tuple[str, ...]
    """The statements of the loop that do."""
    depth: int
    """How many loops there are whose iterations use values of their own alone."""
    box: Box
    """Around the elements that they use."""

    @property
    def elements(self) -> int | None:
        """How many there are in it; None where parameters say so."""
        sizes = [known_size(extent) for extent in self.box.extents]
        return None if None in sizes else math.prod(size or 0 for size in sizes)


def _shared(scop: Scop, name: str, loop: Loop, inside: Sequence[Statement]) -> _Shared | None:
    """None of an array that iterations of the loop have each for themselves already, or of which they use values of
    each other."""
    array = scop.arrays[name]
    inner = array.storage in (Storage.REGION, Storage.SCRATCH)
    if array.is_scalar or inner or name in private_storage(scop):
        return None
    using = [s for s in inside if any(a.array == name for a in s.accesses)]
    accesses = [(s, a) for s in using for a in s.accesses if a.array == name]
    if not all(a.exact for _, a in accesses) or {a.write for _, a in accesses} != {True, False}:
        return None
    touched = [a.relation.apply_domain(prefix(s, len(loop))) for s, a in accesses]
    several = reduce(isl.Map.union, touched)
    if several.is_injective():
        return None
    depth, box = array_depth(scop, name, using), box_of(several.range())
    if depth is None or depth < len(loop) or box is None:
        return None
    return _Shared(tuple(s.name for s in using), depth, box)


def _ordering(scop: Scop, loop: Loop) -> set[str]:
    """The arrays whose elements several iterations of a loop touch, so that they run one after the other."""
    found = dependences(scop, reads=False, among={s.name for s in inside_of(scop, loop)})
    return {d.array for d in found if d.depth == len(loop) - 1 and d.kind is not Kind.RAR}


def _with_copy(scop: Scop, name: str, own: str, shared: _Shared, loop: Loop) -> Scop:
    """The program with an array of the region in place of another one in a loop, and with a statement that stores what
    is read behind it."""
    array, box = scop.arrays[name], shared.box
    element = element_of(box.points(isl.Set.universe(isl.unnamed_space(len(array.extents)))), own, box)
    changed = {}
    for statement in map(scop.statement, shared.using):
        accesses = tuple(
            replace(a, array=own, relation=isl.range_named(a.relation, None).apply_range(element))
            if a.array == name
            else a
            for a in statement.accesses
        )
        changed[statement.name] = replace(statement, accesses=accesses)
    made = replace(
        scop,
        arrays={**scop.arrays, own: array_of_extents(own, array.element, box.extents)},
        statements=tuple(changed.get(s.name, s) for s in scop.statements),
    )
    others = [a for s in made.statements for a in s.accesses if a.array == name]
    if name not in scop.live_out and all(a.write for a in others):
        return made
    around = len(loop) - 1 if others else 0  # others may read it each time behind the loop
    behind = inside_of(scop, scop.statement(shared.using[0]).position[: shared.depth])[-1]
    return _with_statement(made, _copy_out(scop, behind, name, element, shared, around), behind)


def _with_statement(scop: Scop, new: Statement, behind: Statement) -> Scop:
    """The program with a statement more, behind one that there is."""
    place = [s.name for s in scop.statements].index(behind.name) + 1
    return replace(scop, statements=(*scop.statements[:place], new, *scop.statements[place:]))


def _copy_out(scop: Scop, behind: Statement, name: str, element: isl.Map, shared: _Shared, around: int) -> Statement:
    """The statement at the end of loops that stores what is left in an array: each element in the last of the
    iterations that store it, of those with the same iteration of the loops `around`. `element`: { [e…] -> own[…] }."""
    depth = shared.depth
    stored = [
        isl.range_named(a.relation, None).apply_domain(map_from_affs(s.domain, time_affs(s)[:depth]))
        for s in map(scop.statement, shared.using)
        for a in s.accesses
        if a.array == name and a.write
    ]
    written = reduce(isl.Map.union, stored)
    times = written.domain()
    at = isl.coordinates(times)
    itself = map_from_affs(times, at)
    # { [t…] -> [those of the loops around, e…] } and back to the last t
    storing = isl.range_onto(itself, range(around)).flat_range_product(written)
    last = isl.range_onto(isl.latest(storing.reverse()).reverse(), range(around, isl.range_arity(storing)))
    signs = [name in behind.descending for name in behind.iterators[:depth]]
    iterations = map_from_affs(times, [t.neg() if down else t for t, down in zip(at, signs, strict=True)])
    domain = last.apply_domain(iterations).wrap().flatten().coalesce()
    taken = {*behind.iterators[:depth], *scop.parameters, *scop.arrays}
    subscripts = range(isl.arity(domain) - depth)
    names = (*behind.iterators[:depth], *(_free(f"e{d}", taken) for d in subscripts))
    places = map_from_affs(domain, isl.coordinates(domain)[depth:])
    position = (*behind.position[:depth], behind.position[depth] + 1, *(0 for _ in subscripts))
    new = free_statement_name(scop, f"{behind.name}o")
    touched = [places.apply_range(element), isl.range_named(places, name)]
    return assignment(behind, new, (names, domain), position, touched, Load(0))


def _free(stem: str, taken: Collection[str]) -> str:
    """A name that is not taken."""
    while stem in taken:
        stem += "_"
    return stem
