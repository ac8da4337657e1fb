"""Scops and structures as nests in time, for the locality analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polydl.model import isl
from polydl.model.nest import TimedAccess, TimedNest
from polydl.model.schedule import map_from_affs, original_affs
from polydl.model.scop import Scop, Statement
from polydl.schedule.structure import Structure, loop_aff, normalised, outer_affs, rest_affs


def _nest(
    scop: Scop,
    statements: Sequence[Statement],
    time: Mapping[str, Sequence[isl.Aff]],
    loops: Sequence[str],
    parallel: frozenset[str],
) -> TimedNest:
    """Drop the time dimensions that are the same constant for every instance, and put the accesses into time."""
    maps = {s.name: map_from_affs(s.domain, time[s.name]) for s in statements}
    domain: isl.Set | None = None
    for one in maps.values():
        domain = one.range() if domain is None else domain.union(one.range())
    assert domain is not None
    texts = [d for d, name in enumerate(loops) if name.startswith("@")]
    idle = [d for d in texts if len(set(isl.bounds(domain, d))) == 1]
    kept = [d for d in range(isl.arity(domain)) if d not in idle]
    domain = isl.project_onto(domain, kept)
    maps = {name: isl.range_onto(one, kept) for name, one in maps.items()}
    accesses = tuple(
        TimedAccess(s.name, a.array, a.write, maps[s.name].reverse().apply_range(a.relation))
        for s in statements
        for a in s.accesses
    )
    bytes_of = {a.array: scop.arrays[a.array].element.bytes for s in statements for a in s.accesses}
    return TimedNest(tuple(loops[d] for d in kept), domain.coalesce(), accesses, bytes_of, parallel)


def original_nest(scop: Scop) -> TimedNest:
    """The scop in its original order. Textual positions that order statements inside a loop are loops called `@d`."""
    depth = max((s.depth for s in scop.statements), default=0)
    time = {s.name: original_affs(s, depth) for s in scop.statements}
    deepest = max(scop.statements, key=lambda s: s.depth)
    loops = [name for d in range(depth) for name in (f"@{d}", deepest.iterators[d])] + [f"@{depth}"]
    return _nest(scop, scop.statements, time, loops, frozenset())


def timed(scop: Scop, structure: Structure) -> TimedNest:
    """A transformed nest, the loops inside the microkernel included as its innermost loops."""
    nest = structure.nest
    depth = max(s.depth for s in nest.statements)
    time: dict[str, list[isl.Aff]] = {}
    names = [loop.name for loop in structure.executed]
    rest: list[str] = []
    if structure.kernel is None:
        deepest = max(nest.statements, key=lambda s: s.depth)
        shared = len(nest.loops)
        rest = [n for d in range(shared, depth) for n in (f"@{d}", deepest.iterators[d])] + [f"@{depth}"]
    for statement in nest.statements:
        y = normalised(nest, statement)
        inside = [loop_aff(loop, y[loop.iterator]) for loop in structure.executed[len(structure.loops) :]]
        if structure.kernel is None:
            inside = rest_affs(structure, statement, depth)
        time[statement.name] = [*outer_affs(structure, statement), *inside]
    return _nest(scop, nest.statements, time, [*names, *rest], frozenset(structure.parallel))
