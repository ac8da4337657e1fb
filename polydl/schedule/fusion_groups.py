"""Fusion in the nests of a variant: which nests are fused into which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from polydl.base.errors import IllegalVariant
from polydl.dependences.nests import Nest
from polydl.rewrite.conditions import Failure, Group, extend, start_group
from polydl.schedule.ordered import Ordered


def groups_of(nests: Sequence[Ordered]) -> dict[int, Group]:
    """Per position of a heavy nest what is fused into it. Raises IllegalVariant where a condition of fusion fails."""
    wanted = {one.into.into for one in nests if one.into is not None}
    found: dict[int, Group] = {}
    for place, heavy in enumerate(nests):
        if heavy.loops is None or heavy.name not in wanted:
            continue
        group = start_group(heavy.loops.nest)
        for before in (True, False):
            between: list[Nest] = []
            for other in nests[:place][::-1] if before else nests[place + 1 :]:
                if isinstance(group, Failure):
                    break
                assert other.loops is not None
                if other.into is None or other.into.into != heavy.name:
                    between.append(other.loops.nest)
                    continue
                group = extend(group, other.loops.nest, between, before=before)
        if isinstance(group, Failure):
            raise IllegalVariant(f"nothing can be fused into {heavy.name}: {group}")
        found[place] = group
        wanted.discard(heavy.name)
    if wanted:
        raise IllegalVariant(f"there is no nest {', '.join(sorted(wanted))} to fuse into")
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
