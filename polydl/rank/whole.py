"""The estimate of a whole program: its parts one after the other, each with what those before left in the caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from polydl.dependences.nests import Nest
from polydl.model.scop import Scop, Statement
from polydl.rank.estimate import Estimate
from polydl.rank.footprints import Footprints, Part
from polydl.rank.program import Far, footprints_of, inside_estimate, part_estimate, tree_estimate
from polydl.rewrite.chains import is_zeroing
from polydl.schedule.fused import groups_of
from polydl.schedule.plan import Scheduled
from polydl.schedule.structure import Structure
from polydl.schedule.tree import Node
from polydl.target import Machine

Known = dict[tuple[str, ...], Footprints]
"""Footprints of statements of a program by their names, kept from variant to variant."""


def distances(
    scop: Scop, parts: Sequence[Sequence[Statement]], machine: Machine, known: Known | None = None
) -> list[Far]:
    """Per part of a program by array the bytes that are touched from its last use before the part to the end of the
    part: in a cache of more than that it is still there. The program is taken to run again and again."""
    size = machine.caches[-1].line_bytes
    kept: Known = {} if known is None else known
    touched: list[Mapping[str, float]] = []
    for part in parts:
        footprints = _footprints(scop, part, kept)
        box = tuple(Part(name, tuple(round(r) for r in work.ranges)) for name, work in footprints.works.items())
        touched.append(dict(zip(footprints.arrays, footprints.touched([box], size)[0], strict=True)))
    found: list[Far] = []
    for place, own in enumerate(touched):
        since = dict(own)
        far: dict[str, float] = {}
        for back in range(1, len(parts) + 1):
            earlier = touched[place - back]
            for name, bytes_ in earlier.items():
                since[name] = max(since.get(name, 0.0), bytes_)
            whole = sum(since.values())
            far |= {name: whole for name in own if name in earlier and name not in far}
        found.append(far)
    return found


def tree_estimator(
    scop: Scop, nests: Sequence[Nest], together: Sequence[Nest], machine: Machine, threads: int
) -> Callable[[Node], Estimate]:
    """Estimates of schedule trees of neighbouring nests. `nests`: all of the program's, in their order."""
    names = {nest.name for nest in together}
    region = [s for nest in together for s in nest.statements]
    parts: list[Sequence[Statement]] = []
    for nest in nests:
        if nest.name not in names:
            parts.append(nest.statements)
        elif nest is together[0]:
            parts.append(region)
    far = distances(scop, parts, machine)[parts.index(region)]
    footprints = footprints_of(scop, region)
    return lambda tree: tree_estimate(footprints, tree, machine, threads, far)


def program_estimate(
    scop: Scop,
    parts: Sequence[Structure | Scheduled],
    machine: Machine,
    threads: int,
    known: Known | None = None,
) -> Estimate:
    """Predicted seconds of all parts of a program, in their order."""
    structures = [part for part in parts if isinstance(part, Structure)]
    groups = {structures[place].nest.name: group for place, group in groups_of(structures).items()}
    zeroed = absorbed(structures)
    run = [part for part in parts if not (isinstance(part, Structure) and (part.fused or part.nest.name in zeroed))]
    inside: dict[str, list[Statement]] = {
        name: [f.statement for f in (*group.before, *group.after)] for name, group in groups.items()
    }
    statements = [
        [*part.nest.statements, *inside.get(part.nest.name, ())] if isinstance(part, Structure) else part.statements
        for part in run
    ]
    kept: Known = {} if known is None else known
    total = Estimate({})
    for part, far in zip(run, distances(scop, statements, machine, kept), strict=True):
        total += part_estimate(_footprints(scop, part.statements, kept), part, machine, threads, far)
        if isinstance(part, Structure) and part.nest.name in inside:
            total += inside_estimate(_footprints(scop, inside[part.nest.name], kept), part, machine, threads, far)
    return total


def _footprints(scop: Scop, some: Sequence[Statement], known: Known) -> Footprints:
    names = tuple(statement.name for statement in some)
    if names not in known:
        known[names] = footprints_of(scop, some)
    return known[names]


def absorbed(structures: Sequence[Structure]) -> set[str]:
    """Names of nests whose zeros a later microkernel starts from by itself (as lower.initial decides, but for blocks
    that are left to plain loops)."""
    found: set[str] = set()
    for later, structure in enumerate(structures):
        if structure.kernel is None or not structure.nest.box or structure.summed:
            continue
        output = _written(structure.nest)
        for earlier in reversed(structures[:later]):
            if is_zeroing(earlier.nest) and _written(earlier.nest) == output:
                found.add(earlier.nest.name)
            if any(a.array == output for s in earlier.nest.statements for a in s.accesses):
                break
    return found


def _written(nest: Nest) -> str:
    return next(a.array for s in nest.statements for a in s.accesses if a.write)
