"""Checks that a schedule tree is legal: exactly, against all dependences, whatever made the tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polydl.dependences.analysis import Dependence, Kind
from polydl.dependences.legality import InTime, backward, each_concurrent, ordering
from polydl.dependences.scalars import private_scalars
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.scop import Scop, Statement
from polydl.schedule.relations import elsewhere
from polydl.schedule.tree import Member, Node, Run, paths, times


def broken(
    scop: Scop, statements: Sequence[Statement], tree: Node, found: Sequence[Dependence], *, reassociate: bool
) -> str | None:
    """Why a tree is illegal, or None. `found`: all dependences of the scop. Raises QuotaExceeded."""
    of = {s.name: s for s in statements}
    inside = [d for d in found if d.kind is not Kind.RAR and d.source in of and d.target in of]
    schedule = times(tree, of)
    if set(schedule) != set(of):
        return f"the schedule has other statements than {', '.join(of)}"
    timed = [(d, InTime(d, schedule)) for d in inside]
    wrong = backward(one for d, one in timed if ordering([d], reassociate=reassociate))
    if wrong is not None:
        return str(wrong)
    ways = paths(tree)
    for d, one in timed:
        # Partial sums are added up after the loop.
        summed = d.reduction and reassociate
        shared = _concurrent(ways[d.source], ways[d.target])
        wrong = each_concurrent(one, (at for at, run in shared if not (run is Run.SUM and summed)))
        if wrong is not None:
            return str(wrong)
    return _mixed(scop, of, schedule, inside)


def _concurrent(source: Sequence[Member | int], target: Sequence[Member | int]) -> list[tuple[int, Run]]:
    """Positions of the parallel and vector loops that two statements share."""
    result: list[tuple[int, Run]] = []
    for position, (a, b) in enumerate(zip(source, target, strict=False)):
        if a is not b and a != b:
            break
        if isinstance(a, Member) and a.run is not Run.SERIAL:
            result.append((position, a.run))
    return result


def _mixed(
    scop: Scop, of: Mapping[str, Statement], schedule: Mapping[str, isl.Map], found: Sequence[Dependence]
) -> str | None:
    """Why the lives of a private scalar's values overlap, or None.

    The dependences have nothing between iterations that each write the scalar first; so between a write and the reads
    of its value no other iteration may write.
    """
    private = private_scalars(scop)
    with quota("the legality check"):
        for d in found:
            if d.array not in private or d.kind is not Kind.RAW:
                continue
            depth = private[d.array]
            life = d.relation.apply_domain(schedule[d.source]).apply_range(schedule[d.target])
            for writer in of.values():
                for access in writer.accesses:
                    if access.array != d.array or not access.write:
                        continue
                    time = schedule[writer.name]
                    source = schedule[d.source]
                    # { time of the write -> time of another iteration's write, not before it }
                    other = elsewhere(of[d.source], writer, depth)
                    between = other.apply_domain(source).apply_range(time)
                    space = life.get_space().domain()
                    later = between.intersect(isl.Map.lex_le(space))
                    # { write -> read } with another iteration's write w: write <= w <= read
                    to_read = later.apply_range(isl.Map.lex_le(space))
                    # Same write for both: w between that write and one of its own reads.
                    if not life.intersect(to_read).is_empty():
                        return f"the values of {d.array} of two iterations would overlap"
    return None
