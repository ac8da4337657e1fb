"""Fusion in the structures of a variant: which nests are fused, when each fused instance runs, the exact check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polydl.base.errors import IllegalVariant
from polydl.dependences.analysis import Dependence
from polydl.dependences.legality import violation
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.scop import Scop
from polydl.rewrite.conditions import Failure, Group, extend, start_group
from polydl.schedule.check import check as check_unfused
from polydl.schedule.structure import Structure, schedule


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


def fused_schedule(structure: Structure, group: Group) -> dict[str, isl.Map]:
    """Per statement of a group { S[i…] -> [t…, k] }: an element's fused instances run right after the last (before the
    first) of the heavy nest's instances on it, k keeping those of one time in order."""
    heavy = group.heavy.statements
    times = schedule(structure)
    result = {s.name: _at(times[s.name], 0) for s in heavy}
    for k, fused in (*((-n - 1, f) for n, f in enumerate(reversed(group.before))), *enumerate(group.after, 1)):
        instances: isl.Map | None = None
        for s in heavy:
            writes = next(a.relation for a in s.accesses if a.write)
            on_it = fused.element.reverse().apply_range(writes.reverse()).apply_range(times[s.name])
            instances = on_it if instances is None else instances.union(on_it)
        assert instances is not None
        result[fused.statement.name] = _at(instances.lexmin() if k < 0 else instances.lexmax(), k)
    return result


def _at(times: isl.Map, k: int) -> isl.Map:
    """The times with one more dimension, which is k."""
    return times.flat_range_product(isl.Map.from_aff(isl.constant(times.get_space().domain(), k)))


def check(
    scop: Scop, structures: Sequence[Structure], found: Sequence[Dependence], *, reassociate: bool = True
) -> str | None:
    """The exact legality check of a variant, fused nests included: why it is illegal, or None.

    Whatever `conditions` says: every dependence between the statements of a group is looked at in the fused order, and
    every dependence to or from a statement outside of it in the new order of the nests.
    """
    broken = check_unfused(scop, structures, found, reassociate=reassociate)
    if broken is not None or not any(s.fused for s in structures):
        return broken
    try:
        groups = groups_of(structures)
    except IllegalVariant as error:
        return error.reason
    home: dict[str, int] = {s.name: i for i, part in enumerate(structures) for s in part.nest.statements}
    for place, group in groups.items():
        for fused in (*group.before, *group.after):
            home[fused.statement.name] = place
        broken = _group_check(structures[place], group, found, reassociate)
        if broken is not None:
            return broken
    for d in found:
        if home[d.source] > home[d.target]:
            return f"{d.kind.value} dependence on {d.array}: {d.target} would run before {d.source}"
    return None


def _group_check(structure: Structure, group: Group, found: Sequence[Dependence], reassociate: bool) -> str | None:
    with quota("the order of a fused nest"):
        times: Mapping[str, isl.Map] = fused_schedule(structure, group)
    inside = [d for d in found if d.source in times and d.target in times]
    broken = violation(
        inside, times, parallel=structure.parallel_positions, reassociate=reassociate, grid=bool(structure.grid)
    )
    return None if broken is None else str(broken)
