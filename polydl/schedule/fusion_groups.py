"""Which element-wise nests run inside of which heavy ones: chains of them that a program has, found by PolyDL's
algorithm 3 on each neighbour in turn, and those that a variant asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from polydl.base.errors import IllegalVariant
from polydl.base.records import dataclass
from polydl.dependences.nests import Nest
from polydl.model.isl import quota
from polydl.model.scop import Assignment
from polydl.schedule.fusion_conditions import Decision, Failure, Group, extend, start_group
from polydl.schedule.ordered import Ordered


@dataclass(frozen=True, slots=True)
class Plan:
    """The groups of a scop."""

    groups: tuple[Group, ...]
    """Those with something fused, in the order of their heavy nests."""
    decisions: tuple[Decision, ...]
    """Of every pair that was looked at, in textual order of the heavy nest."""


def is_heavy(nest: Nest) -> bool:
    """Whether a nest writes elements several times, that is, has a reduction loop, or adds up over segments."""
    if nest.contraction is not None and nest.contraction.within:
        return True
    if len(nest.statements) != 1 or not isinstance(nest.statements[0].body, Assignment):
        return False
    statement = nest.statements[0]
    target = statement.target
    with quota(f"the reductions of {nest.name}"):
        reads_itself = any(not a.write and a.array == target.array for a in statement.accesses)
        return bool(reads_itself and not target.relation.is_injective())


def plan(parts: Sequence[Nest]) -> Plan:
    """Chains before and after each heavy nest, as long as they get: conv, batch norm, ReLU, residual, …

    A nest belongs to one group: the first that takes it. Raises QuotaExceeded.
    """
    taken: set[str] = set()
    groups: list[Group] = []
    decisions: list[Decision] = []

    def wanted(group: Group, nest: Nest) -> bool:
        related = any(a.array in group.arrays for s in nest.statements for a in s.accesses)
        return nest.name not in taken and len(nest.statements) == 1 and related

    for place in [i for i, nest in enumerate(parts) if is_heavy(nest)]:
        group = start_group(parts[place])
        if isinstance(group, Failure):
            continue
        group, decided = _grown(group, parts, place, wanted)
        taken |= {decision.light for decision in decided if decision.failure is None}
        decisions += decided
        if group.members:
            groups.append(group)
    return Plan(tuple(groups), tuple(decisions))


def _grown(
    group: Group, parts: Sequence[Nest], place: int, wanted: Callable[[Group, Nest], bool]
) -> tuple[Group, list[Decision]]:
    """The group of the heavy nest at a place with all of the `wanted` ones on both sides that may be fused into it, one
    after the other, and what was decided about each. Raises QuotaExceeded."""
    heavy, decisions = parts[place], list[Decision]()
    for before in (True, False):
        between: list[Nest] = []
        for nest in parts[:place][::-1] if before else parts[place + 1 :]:
            made = extend(group, nest, between, before=before) if wanted(group, nest) else None
            if made is not None:
                failure = made if isinstance(made, Failure) else None
                lines = (heavy.statements[0].span.line, nest.statements[0].span.line)
                decisions.append(Decision(heavy.name, nest.name, before, failure, lines))
            if isinstance(made, Group):
                group = made
            else:
                between.append(nest)
    return group, decisions


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
            found[place], decided = _grown(group, parts, place, wanted)
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
