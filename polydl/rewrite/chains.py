"""Finds chains of element-wise nests to fuse into heavy nests: PolyDL's algorithm 3 on each neighbour in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polydl.dependences.nests import Nest
from polydl.model.expr import is_zero
from polydl.model.isl import quota
from polydl.model.scop import Assignment
from polydl.rewrite.conditions import Decision, Failure, Group, extend, start_group


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
    heavy = [i for i, nest in enumerate(parts) if is_heavy(nest)]
    for place in heavy:
        group = start_group(parts[place])
        if isinstance(group, Failure):
            continue
        for before in (True, False):
            group = _grown(parts, place, group, taken, decisions, before=before)
        if group.before or group.after:
            groups.append(group)
    return Plan(tuple(groups), tuple(decisions))


def _grown(
    parts: Sequence[Nest],
    place: int,
    group: Group,
    taken: set[str],
    decisions: list[Decision],
    *,
    before: bool,
) -> Group:
    """The group with all neighbours on one side that may be fused into it, one after the other."""
    between: list[Nest] = []
    for index in range(place - 1, -1, -1) if before else range(place + 1, len(parts)):
        nest = parts[index]
        candidate = nest.name not in taken and len(nest.statements) == 1
        if candidate and _related(group, nest):
            made = extend(group, nest, between, before=before)
            failure = made if isinstance(made, Failure) else None
            lines = (parts[place].statements[0].span.line, nest.statements[0].span.line)
            decisions.append(Decision(group.heavy.name, nest.name, before, failure, lines))
            if isinstance(made, Group):
                group = made
                taken.add(nest.name)
                continue
        between.append(nest)
    return group


def _related(group: Group, nest: Nest) -> bool:
    return any(a.array in group.arrays for s in nest.statements for a in s.accesses)


def is_zeroing(nest: Nest) -> bool:
    """Whether a nest only writes zeros: what the microkernel does by itself (beta = 0)."""
    body = nest.statements[0].body
    if len(nest.statements) != 1 or not isinstance(body, Assignment):
        return False
    return body.op == "=" and is_zero(body.value, signed=False)
