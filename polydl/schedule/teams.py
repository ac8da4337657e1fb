"""Parallel loops of one team of threads, which do not wait for each other at the end of each (`Parallelize.nowait`).

    #pragma omp parallel
    for k: { #pragma omp for schedule(static) nowait
             for i: … }

Iterations of the loops around the parallel ones, from the one with which the team begins, overlap: what one of these
loops carries must be covered by a barrier at the end of a loop further in, or never leave a thread. A thread keeps an
iteration of the parallel loops where these have the same iterations whenever they are reached and OpenMP's schedule is
static (OpenMP 5.2, section 11.5.3: the same assignment, in loops of as many iterations in the same parallel region).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polydl.dependences.analysis import Dependence
from polydl.dependences.legality import InTime, Violation, apart_in_time
from polydl.dependences.scalars import by_iteration, private_storage
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.scop import Scop, Statement
from polydl.schedule.tree import Member, Node, Run, Step, bands, kernels

WAY_OUT = "a barrier covers it, `|` behind a loop inside of the one that carries it, as does leaving nowait out"


def crossed(
    scop: Scop,
    of: Mapping[str, Statement],
    tree: Node,
    ways: Mapping[str, Sequence[Step]],
    schedule: Mapping[str, isl.Map],
    timed: Sequence[tuple[Dependence, InTime]],
) -> str | None:
    """Why threads of a team would have to wait where they do not, or None. `ways`: the loops and places above each
    statement; `timed`: the dependences between the tree's statements. Raises QuotaExceeded."""
    if not any(member.team for band in bands(tree) for member in band.members):
        return None
    with quota("the legality check"):
        kept = False
        for dependence, one in timed:
            found = _crossing(one, _in_common(ways[dependence.source], ways[dependence.target]))
            if isinstance(found, Violation):
                return f"{found}; {WAY_OUT}"
            kept = kept or found
        if kept and not _same_iterations(of, tree, ways, schedule):
            return (
                "threads of one team would not have the same iterations each time that they come to the parallel "
                f"loops, and one may read what another is to write; {WAY_OUT}"
            )
        return _private_storage(scop, of, ways)


def _in_common(source: Sequence[Step], target: Sequence[Step]) -> Sequence[Step]:
    shared = []
    for a, b in zip(source, target, strict=False):
        if a is not b and a != b:
            break
        shared.append(a)
    return shared


def _place(path: Sequence[Step]) -> tuple[int, range] | None:
    """Where among the loops and places above a statement a team begins, and its parallel loops; None: in no team."""
    begin = next((p for p, step in enumerate(path) if isinstance(step, Member) and step.team), None)
    if begin is None:
        return None
    first = next(
        p for p, step in enumerate(path) if p > begin and isinstance(step, Member) and step.run is Run.PARALLEL
    )
    step = path[first]
    assert isinstance(step, Member)
    return begin, range(first, first + step.share.loops)


def _crossing(one: InTime, path: Sequence[Step]) -> Violation | bool:
    """A pair of a dependence that no barrier covers and that may be on two threads; else whether it stays in order for
    being on one thread only. `path`: the loops and places that its ends have in common."""
    place = _place(path)
    if place is None:
        return False
    begin, parallel = place
    first = path[parallel[0]]
    assert isinstance(first, Member)
    static = first.share.schedule.partition(",")[0] in ("", "static")
    threads = [p for p in parallel if isinstance(step := path[p], Member) and step.run is Run.PARALLEL]
    kept = False
    for carrier in range(begin, parallel[0]):
        inside = path[carrier + 1 : parallel[0] + 1]
        if any(isinstance(step, Member) and step.barrier for step in inside):
            continue
        pairs = isl.differ(one.together(carrier), [carrier])
        if pairs.is_empty():
            continue
        moved = isl.differ(pairs, threads) if static else pairs
        if not moved.is_empty():
            return apart_in_time(one, moved)
        kept = True
    return kept


def _same_iterations(
    of: Mapping[str, Statement],
    tree: Node,
    ways: Mapping[str, Sequence[Step]],
    schedule: Mapping[str, isl.Map],
) -> bool:
    """Whether every statement of a team runs in the same iterations of the parallel loops, a box, in each iteration of
    the loops around them: whatever code is made of it then has these loops, from the same first to the same last."""
    whole: isl.Set | None = None
    for name, path in ways.items():
        place = _place(path)
        if place is None:
            continue
        begin, parallel = place
        times = schedule[name].range()
        around, inside = (isl.project_onto(times, places) for places in (range(begin, parallel[0]), parallel))
        both = isl.project_onto(times, range(begin, parallel[-1] + 1))
        whole = inside.coalesce() if whole is None else whole
        pairs = isl.Map.from_domain_and_range(around, whole)
        if isl.piece_count(whole) > 1 or not both.is_equal(pairs.wrap().flatten()):
            return False
    # Of blocks that are no boxes the rest has loops of its own.
    return all(kernel.whole.is_equal(of[kernel.statement].domain) for kernel in kernels(tree))


def _private_storage(scop: Scop, of: Mapping[str, Statement], ways: Mapping[str, Sequence[Step]]) -> str | None:
    """Which private array threads would have in common in two iterations of the loops around the parallel ones."""
    private = private_storage(scop)
    for name, path in ways.items():
        place = _place(path)
        if place is None:
            continue
        loops = [path[p] for p in place[1]]
        for array in dict.fromkeys(access.array for access in of[name].accesses if access.array in private):
            if not any(
                isinstance(m, Member) and by_iteration(scop, array, private[array], m.affs[name]) for m in loops
            ):
                return f"threads of one team would use {array} for two iterations at the same time"
    return None
