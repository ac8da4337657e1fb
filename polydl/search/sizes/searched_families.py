"""Ways to run a program at every size: the best variant of each family that was searched for the tuned size, with its
sizes as parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from polydl.base.effort import Effort
from polydl.base.errors import InputError, QuotaExceeded
from polydl.base.records import dataclass
from polydl.dependences.analysis import Dependence
from polydl.dependences.equal_nests import first_equal
from polydl.dependences.nests import Nest, nests
from polydl.model.scop import Scop, Storage
from polydl.rewrite.canonical import canonical
from polydl.schedule.fused_scop import fuse
from polydl.schedule.ordered import Ordered, written
from polydl.schedule.program_tree import program_tree
from polydl.schedule.recipe import Recipe
from polydl.schedule.resized import (
    at_sizes as parts_at_sizes,
)
from polydl.schedule.resized import (
    long_when_written_out,
    on_one_thread,
    shared_anew,
    through_caches,
)
from polydl.schedule.tree import Sequence as InOrder
from polydl.search.sizes.code import Setting
from polydl.search.variant import Variant

_ROW = 1024
"""Iterations of a tile that one thread runs as a row."""


@dataclass(frozen=True)
class Base:
    """A program with its sizes as parameters."""

    scop: Scop
    dependences: tuple[Dependence, ...]
    nests: tuple[Nest, ...]

    @cached_property
    def equal(self) -> Mapping[str, str]:
        """By the name of each nest that of the first one that is equal to it at all sizes; its own where comparing them
        takes too long."""
        try:
            return {name: first.name for name, first in first_equal(self.scop, self.nests).items()}
        except QuotaExceeded:
            return {nest.name: nest.name for nest in self.nests}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to run the program at every size."""

    base: Base
    parts: tuple[Ordered, ...]
    original: bool = False
    """The original loops, of which `parts` are those that the estimates know."""
    chosen: bool = False
    """It is the variant that the program runs at the tuned sizes, or one of its twins."""

    @property
    def tree(self) -> InOrder:
        """Its schedule tree."""
        return program_tree(self.parts)

    @property
    def recipe(self) -> Recipe:
        return Recipe(()) if self.original else Recipe(tuple(part.recipe for part in self.parts))


def candidates_for(base: Base, variants: Sequence[Variant], setting: Setting) -> tuple[list[Candidate], list[str]]:
    """The original loops, then the best variants of each family with sizes as parameters, on all threads and on one;
    and why others were left out."""
    found: dict[Recipe, Candidate] = {}
    left_out: list[str] = []
    original = Candidate(base, tuple(written(nest) for nest in base.nests), original=True)
    fused: Base | str | None = None
    taken = 0
    for variant in _families(variants, setting.effort):
        if taken == setting.effort.families:
            break
        if _alike(variant, base):
            own: Base | str = base
        else:
            fused = fused if fused is not None else _fused(base, reassociate=setting.reassociate)
            own = fused if isinstance(fused, Base) and _alike(variant, fused) else _unlike(variant, base, fused)
        if isinstance(own, str):
            left_out.append(own)
            continue
        tuned = {nest.name: nest for nest in nests(variant.program, variant.origin.dependences)}
        try:
            for parts in _twins(parts_at_sizes(own.scop, variant.parts, own.nests), tuned, setting.threads):
                if any(map(_writes_long_loops_out, parts)):
                    raise InputError("a loop that is short for its sizes alone is written out")
                one = Candidate(own, parts, chosen=variant is variants[0])
                found.setdefault(one.recipe, one)
        except InputError as error:
            left_out.append(error.reason)
        else:
            taken += 1
    return [original, *found.values()], left_out


def _writes_long_loops_out(part: Ordered) -> bool:
    return bool(long_when_written_out(part.tree, {s.name: s for s in part.statements}))


def _families(variants: Sequence[Variant], effort: Effort) -> Iterator[Variant]:
    """The best variant of each family among the first ones."""
    seen: set[object] = set()
    for variant in variants[: effort.looked_at]:
        if not variant.as_written and variant.family not in seen:
            seen.add(variant.family)
            yield variant


def _unlike(variant: Variant, base: Base, fused: Base | str) -> str:
    """Why a variant is of another program than those whose sizes are parameters."""
    if {s.name for s in variant.program.statements} != {s.name for s in base.scop.statements}:
        return "the program has other statements where its sizes are parameters: loops are cut for known ones alone"
    return fused if isinstance(fused, str) else "nests are fused in another way where sizes are parameters"


def _alike(variant: Variant, base: Base) -> bool:
    """Whether a variant is of a program with the same statements and nests."""
    mine = [(s.name, s.iterators, s.position, s.descending) for s in variant.program.statements]
    if mine != [(s.name, s.iterators, s.position, s.descending) for s in base.scop.statements]:
        return False
    tuned = nests(variant.program, variant.origin.dependences)
    return [named(nest) for nest in tuned] == [named(nest) for nest in base.nests]


def named(nest: Nest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A nest's loops and statements by their names."""
    return nest.loops, tuple(s.name for s in nest.statements)


def _fused(base: Base, *, reassociate: bool) -> Base | str:
    """The program with its nests fused, as those are that variants with fused nests are made of."""
    made = fuse(base.scop, contractions=False)
    if not made.changed:
        return "nests are not fused where sizes are parameters"
    program = canonical(made.scop, reassociate=reassociate)
    if any(a.storage is Storage.SCRATCH and a.layout.size is None for a in program.scop.arrays.values()):
        return "memory is needed of which the size is not known"
    return Base(program.scop, program.dependences, nests(program.scop, program.dependences))


def _twins(made: tuple[Ordered, ...], tuned: Mapping[str, Nest], threads: int) -> Iterator[tuple[Ordered, ...]]:
    """A variant on one thread, and as it is, with rows through the caches, and with tiles for any number of threads."""

    def anew(row: int | None) -> tuple[Ordered, ...]:
        return tuple(shared_anew(p, tuned[p.name], threads, row) if p.name in tuned else p for p in usual)

    usual = tuple(map(through_caches, made))
    yield tuple(map(on_one_thread, anew(None)))
    streamed = tuple(through_caches(part) if _reads_what_it_streams(part) else part for part in made)
    yield from (usual, anew(None), anew(_ROW), streamed)


def _reads_what_it_streams(part: Ordered) -> bool:
    """Whether what a part stores past the caches is read in it: the estimates take tiles to keep it there for that."""
    stream = () if part.rows is None else part.rows.stream
    return any(not a.write and a.array in stream for s in part.statements for a in s.accesses)
