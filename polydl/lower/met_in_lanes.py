"""Whether the instances in one iteration of a vector loop meet in an element in some iterations only.

OpenMP says of `simd` that iterations are independent of each other; inside of one the order stays. GCC combines the
stores of an iteration whose addresses lie side by side into one behind the last of them, and asks of an access between
them only whether it always has the same address (12 to 14: of `a[i][3] = …; y[i] = a[i][i]; a[i][4] = …` the read is
the old value where i is 3). Such loops stay without vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from polydl.model import isl
from polydl.model.isl.trees import union_map
from polydl.model.scop import Access, Scop, Statement
from polydl.model.time import map_from_affs
from polydl.schedule.tree import Band, Member, paths


def meet_sometimes(scop: Scop, band: Band, around: Sequence[Member], private: Mapping[str, int]) -> bool:
    """`around`: the loops outside of a band and those of it up to the vector loop, which is the last one."""
    of = {s.name: s for s in scop.statements}
    ways = {name: tuple(m for m in way if isinstance(m, Member)) for name, way in paths(band).items()}
    by_array: dict[str, list[tuple[Statement, Access]]] = {}
    for name in ways:
        for access in of[name].accesses:
            if access.array not in private and not scop.arrays[access.array].is_scalar:
                by_array.setdefault(access.array, []).append((of[name], access))
    several = {
        array: found for array, found in by_array.items() if len(found) > 1 and any(access.write for _, access in found)
    }
    if not several:
        return False
    names = {statement.name for found in several.values() for statement, _ in found}
    inner = {name: [m for m in ways[name] if not any(m is one for one in around)] for name in names}
    now = union_map(map_from_affs(of[name].domain, [m.affs[name] for m in around]) for name in names)
    # What an instance is beside its iteration of the vector loop.
    which = union_map(
        isl.range_named(map_from_affs(of[name].domain, [m.affs[name] for m in (*around[:-1], *inner[name])]), name)
        for name in names
    )
    together = now.apply_range(now.reverse())
    apart = together.subtract(isl.UnionSet.identity(now.domain()))
    return any(_sometimes(found, apart, which) for found in several.values())


def _sometimes(found: Sequence[tuple[Statement, Access]], apart: isl.UnionMap, which: isl.UnionMap) -> bool:
    """Each two accesses on their own: two instances that always meet in one element may meet in another sometimes."""
    relations = [(access.write, union_map([access.relation])) for _, access in found]
    return any(
        _meet_sometimes(one, other, apart, which) for (write, one), (_, other) in product(relations, repeat=2) if write
    )


def _meet_sometimes(write: isl.UnionMap, other: isl.UnionMap, apart: isl.UnionMap, which: isl.UnionMap) -> bool:
    meeting = write.apply_range(other.reverse()).intersect(apart)
    if meeting.is_empty():
        return False
    always = which.apply_range(meeting.apply_domain(which).apply_range(which)).apply_range(which.reverse())
    return not bool(always.intersect(apart).is_subset(meeting))
