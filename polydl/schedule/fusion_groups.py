"""Fusion in the structures of a variant: which nests are fused into which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from polydl.base.errors import IllegalVariant
from polydl.rewrite.conditions import Failure, Group, extend, start_group
from polydl.schedule.plan import Part
from polydl.schedule.structure import Structure


def groups_of(structures: Sequence[Structure]) -> dict[int, Group]:
    """Per position of a heavy nest what is fused into it. Raises IllegalVariant where a condition of fusion fails."""
    wanted = {s.fused for s in structures if s.fused}
    found: dict[int, Group] = {}
    for place, structure in enumerate(structures):
        if structure.nest.name not in wanted:
            continue
        group = start_group(structure.nest)
        for before in (True, False):
            between = []
            for other in structures[:place][::-1] if before else structures[place + 1 :]:
                if isinstance(group, Failure):
                    break
                if other.fused != structure.nest.name:
                    between.append(other.nest)
                    continue
                group = extend(group, other.nest, between, before=before)
        if isinstance(group, Failure):
            raise IllegalVariant(f"nothing can be fused into {structure.nest.name}: {group}")
        found[place] = group
        wanted.discard(structure.nest.name)
    if wanted:
        raise IllegalVariant(f"there is no nest {', '.join(sorted(wanted))} to fuse into")
    return found


def groups_by_place(parts: Sequence[Part]) -> dict[int, Group]:
    """Per place among the parts of a program what is fused into the nest there: nothing is, past a region with a
    schedule of its own. Raises IllegalVariant where a condition of fusion fails."""
    found: dict[int, Group] = {}
    for run in runs(parts):
        found |= {run[at][0]: group for at, group in groups_of([structure for _, structure in run]).items()}
    return found


def runs(parts: Sequence[Part]) -> Iterator[list[tuple[int, Structure]]]:
    """Nests between which no region with a schedule of its own stands, with their places among the parts."""
    for nests, run in groupby(enumerate(parts), lambda each: each[1].how is None):
        if nests:
            yield [(place, part) for place, part in run if isinstance(part, Structure)]
