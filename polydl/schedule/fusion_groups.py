"""Fusion in the nests of a variant: which nests are fused into which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from polydl.base.errors import IllegalVariant
from polydl.dependences.nests import Nest
from polydl.rewrite.chains import grown
from polydl.rewrite.conditions import Failure, Group, start_group
from polydl.schedule.ordered import Ordered


def groups_of(nests: Sequence[Ordered]) -> dict[int, Group]:
    """Per position of a heavy nest what is fused into it. Raises IllegalVariant where a condition of fusion fails."""
    into = {one.name: one.into.into for one in nests if one.into is not None}
    parts = [one.loops.nest for one in nests if one.loops is not None]
    assert len(parts) == len(nests), "regions are in no run of nests"

    def wanted(group: Group, nest: Nest) -> bool:
        return into.get(nest.name) == group.heavy.name

    found: dict[int, Group] = {}
    for place, heavy in enumerate(parts):
        if heavy.name not in into.values():
            continue
        group = start_group(heavy)
        if isinstance(group, Group):
            found[place], decided = grown(group, parts, place, wanted)
            group = next((d.failure for d in decided if d.failure is not None), group)
        if isinstance(group, Failure):
            raise IllegalVariant(f"nothing can be fused into {heavy.name}: {group}")
    missing = {*into.values()} - {heavy.name for heavy in parts}
    if missing:
        raise IllegalVariant(f"there is no nest {', '.join(sorted(missing))} to fuse into")
    return found


def groups_by_place(parts: Sequence[Ordered]) -> dict[int, Group]:
    """Per place among the parts of a program what is fused into the nest there: nothing is, past a region with a
    schedule of its own. Raises IllegalVariant where a condition of fusion fails."""
    found: dict[int, Group] = {}
    for run in runs(parts):
        found |= {run[at][0]: group for at, group in groups_of([nest for _, nest in run]).items()}
    return found


def runs(parts: Sequence[Ordered]) -> Iterator[list[tuple[int, Ordered]]]:
    """Nests between which no region with a schedule of its own stands, with their places among the parts."""
    for nests, run in groupby(enumerate(parts), lambda each: each[1].loops is not None):
        if nests:
            yield list(run)
