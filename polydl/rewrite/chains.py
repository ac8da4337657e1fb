"""Finds chains of element-wise nests to fuse into heavy nests: PolyDL's algorithm 3 on each neighbour in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    def wanted(group: Group, nest: Nest) -> bool:
        related = any(a.array in group.arrays for s in nest.statements for a in s.accesses)
        return nest.name not in taken and len(nest.statements) == 1 and related

    for place in [i for i, nest in enumerate(parts) if is_heavy(nest)]:
        group = start_group(parts[place])
        if isinstance(group, Failure):
            continue
        group, decided = grown(group, parts, place, wanted)
        taken |= {decision.light for decision in decided if decision.failure is None}
        decisions += decided
        if group.members:
            groups.append(group)
    return Plan(tuple(groups), tuple(decisions))


def grown(
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


def is_zeroing(nest: Nest) -> bool:
    """Whether a nest only writes zeros: what the microkernel does by itself (beta = 0)."""
    body = nest.statements[0].body
    if len(nest.statements) != 1 or not isinstance(body, Assignment):
        return False
    return body.op == "=" and is_zero(body.value, signed=False)
