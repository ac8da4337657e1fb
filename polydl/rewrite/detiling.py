"""Loops whose order was chosen by hand: those that were tiled in one piece again, and downward ones turned round.

    for (ii = 0; ii < n; ii += 32)
        for (i = ii; i < min(ii + 32, n); i++) …

What a loop over tiles counts follows from the loop inside of it, so the statement needs only that one. Tiles are the
search's to choose, and a microkernel needs whole rows and columns.

    for (int j = n - 1; j >= 0; j--) C[i][j] += A[i][k] * B[k][j];

Vectors hold neighbours in the order of memory, so the search looks at loops that run upwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.equations.equality import Instances
from polydl.equations.footprint_comparison import ranks
from polydl.equations.step import RegroupingOnLeave, Step, itself, together
from polydl.model import isl
from polydl.model.expr import affine_values
from polydl.model.isl import quota
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.time import inside_of
from polydl.rewrite.moved import moved

_Strip = tuple[str, tuple[str, ...]]
"""(statement, its loops over tiles, outermost first)."""
_Loop = tuple[tuple[int, ...], str]
"""Where a loop stands, and its variable: all statements in it have these positions up to its depth."""


@dataclass(frozen=True, slots=True)
class Joined(RegroupingOnLeave):
    """Loops over tiles are left out.

    before:    for ii = 0, 32, …: for i = ii … ii + 31: S(ii, i)
    after:     for i = 0, 1, …: Su(i)
    requires:  the loops that stay say which iteration of the others it is; every dependence is kept; with leave to
               reassociate, those between the terms of a sum need not be
    """

    strips: tuple[_Strip, ...]

    def instances(self, before: Scop) -> Instances:
        """See `Rule.instances`."""
        return {_new_name(n): [(n, _place(before.statement(n), gone).reverse())] for n, gone in self.strips}

    def __str__(self) -> str:
        loops = dict.fromkeys(loop for _, names in self.strips for loop in names)
        return f"{', '.join(loops)} run over tiles of the loops inside, which run in one piece instead"


def strips(scop: Scop, *, reassociate: bool = True) -> Iterator[Step]:
    """Leave every loop over tiles out (`Joined`), as many together as hold. Raises QuotaExceeded."""
    with quota(f"the tiles of {scop.function}"):
        found = _found(scop)

    def made(scop: Scop, some: Sequence[_Strip]) -> Step:
        with quota(f"the tiles of {scop.function}"):
            return Step(Joined(tuple(some), reassociate=reassociate), scop, _after(scop, dict(some)))

    yield from together(scop, found, lambda one: scop.statement(one[0]).position[0], made)


def _found(scop: Scop) -> list[_Strip]:
    """The loops over tiles, of all statements inside of each."""
    gone: dict[str, tuple[str, ...]] = {}
    loops = dict.fromkeys((s.position[: d + 1], name) for s in scop.statements for d, name in enumerate(s.iterators))
    for where, name in sorted(loops, key=lambda one: len(one[0])):
        inside = inside_of(scop, where)
        if all(_is_over_tiles(s, len(where) - 1, gone.get(s.name, ())) for s in inside):
            gone |= {s.name: (*gone.get(s.name, ()), name) for s in inside}
    return [(s.name, gone[s.name]) for s in scop.statements if s.name in gone]


def _is_over_tiles(statement: Statement, depth: int, gone: Sequence[str]) -> bool:
    """Whether the other loops that stay say which iteration of this one it is, of several, those inside run on, and
    nothing else is made of it: an element of each tile would be `c[i / 32]` afterwards."""
    if not isinstance(statement.body, Assignment) or depth + 1 == statement.depth:
        return False
    exact = [a.relation for a in statement.accesses if a.exact]
    if not all(relation.is_single_valued() for relation in exact):
        return False
    functions = [one for relation in exact for one in isl.components(relation.as_pw_multi_aff())]
    functions += [one.value for one in affine_values(statement.body.value)]
    if any(isl.uses(one, depth) for one in functions):
        return False
    name, loops = statement.iterators[depth], statement.iterators
    here = itself(statement)
    others = [loop for loop in loops if loop != name and loop not in gone]
    known = isl.range_onto(isl.domain_onto(here, others), [name])
    if not known.is_single_valued() or isl.project_onto(statement.domain, [name]).is_singleton():
        return False
    inner = isl.range_onto(isl.domain_onto(here, loops[: depth + 1]), loops[depth + 1 :])
    return not inner.is_single_valued()


def _new_name(name: str) -> str:
    return f"{name}u"


def _place(statement: Statement, gone: Sequence[str]) -> isl.Map:
    """{ S[…] -> Su[…] }: every instance, and what is left of it."""
    kept = [name for name in statement.iterators if name not in gone]
    name = _new_name(statement.name) if gone else statement.name
    return isl.range_named(isl.range_onto(itself(statement), kept), name, kept)


def _after(scop: Scop, gone: dict[str, tuple[str, ...]]) -> Scop:
    positions = _positions(scop, gone)
    made = []
    for old, position in zip(scop.statements, positions, strict=True):
        loops = gone.get(old.name, ())
        kept = tuple(name for name in old.iterators if name not in loops)
        if loops:
            named = replace(old, name=_new_name(old.name))
            there = moved(named, _place(old, loops), kept, position, old.descending - set(loops))
            made.append(_plainer(there.statement))
        else:
            made.append(replace(old, position=position))
    return replace(scop, statements=tuple(made))


def _plainer(statement: Statement) -> Statement:
    """The same instances and accesses without what is left of the tiles' ends, where they need none."""
    hull = isl.Set.from_basic_set(statement.domain.simple_hull())
    domain = isl.named(hull, statement.iterators) if hull.is_subset(statement.domain) else statement.domain
    accesses = tuple(
        replace(a, relation=a.relation.gist_domain(domain).intersect_domain(domain)) for a in statement.accesses
    )
    return replace(statement, domain=domain, accesses=accesses)


def _positions(scop: Scop, gone: dict[str, tuple[str, ...]]) -> list[tuple[int, ...]]:
    """Where the statements stand in the loops that stay: what stood in a loop that goes stands where it stood."""
    places: list[list[tuple[int, ...]]] = []
    for s in scop.statements:
        place = [s.position[:1]]
        for name, inner in zip(s.iterators, s.position[1:], strict=True):
            if name in gone.get(s.name, ()):
                place[-1] = (*place[-1], inner)
            else:
                place.append((inner,))
        places.append(place)
    return ranks(places)


@dataclass(frozen=True, slots=True)
class Upwards(RegroupingOnLeave):
    """Loops run through the same values in the opposite order.

    before:    for j = n - 1 … 0: S(j)
    after:     for j = 0 … n - 1: S(j)
    requires:  every dependence is kept; with leave to reassociate, those between the terms of a sum need not be
    """

    loops: tuple[_Loop, ...]

    def __str__(self) -> str:
        return f"{', '.join(dict.fromkeys(name for _, name in self.loops))} may run upwards"


def upwards(scop: Scop, *, reassociate: bool = True) -> Iterator[Step]:
    """Turn round every loop that runs downwards and may as well run upwards (`Upwards`), as many together as hold.
    Raises QuotaExceeded."""
    loops = list(dict.fromkeys(one for s in scop.statements for one in _downwards(s)))

    def made(scop: Scop, some: Collection[_Loop]) -> Step:
        turned = tuple(_turned(s, some) for s in scop.statements)
        return Step(Upwards(tuple(some), reassociate=reassociate), scop, replace(scop, statements=turned))

    yield from together(scop, loops, lambda one: one[0][0], made)


def _downwards(statement: Statement) -> list[_Loop]:
    return [
        (statement.position[: depth + 1], name)
        for depth, name in enumerate(statement.iterators)
        if name in statement.descending
    ]


def _turned(statement: Statement, loops: Collection[_Loop]) -> Statement:
    turned = {one[1] for one in _downwards(statement) if one in loops}
    return replace(statement, descending=statement.descending - turned) if turned else statement
