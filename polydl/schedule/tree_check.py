"""Checks that a schedule tree is legal: exactly, against all dependences, whatever made the tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from polydl.base.records import dataclass
from polydl.dependences.analysis import Dependence, Kind
from polydl.dependences.legality import (
    InTime,
    backward,
    block_violation,
    concurrent,
    each_concurrent,
    ordering,
    reversed_order,
)
from polydl.dependences.scalars import by_iteration, private_storage
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.scop import Scop, Statement
from polydl.schedule import tree as schedule_tree
from polydl.schedule.loops import registers
from polydl.schedule.part_storage import overlapping, part_storage, without_memory
from polydl.schedule.teams import crossed
from polydl.schedule.transforms.start_from_zero import no_start
from polydl.schedule.tree import Copy, Member, Node, Run, Share, Step, kernels, paths, statements, times

Checked = dict[int, tuple[Node, str | None]]
"""Why parts of trees are illegal, or None, by the identity of their trees, which are kept: variants of a program have
most of their parts in common."""


def broken(
    scop: Scop,
    statements: Sequence[Statement],
    tree: Node,
    found: Sequence[Dependence],
    *,
    reassociate: bool,
    checked: Checked | None = None,
) -> str | None:
    """Why a tree is illegal, or None. `found`: all dependences of the scop; `checked`: what is known of parts of trees
    of the same program, to which more is added. Raises QuotaExceeded."""
    of = {s.name: s for s in statements}
    inside = [d for d in found if d.kind is not Kind.RAR and d.source in of and d.target in of]
    if set(schedule_tree.statements(tree)) != set(of):
        return f"the schedule has other statements than {', '.join(of)}"
    return _broken(scop, of, tree, inside, {} if checked is None else checked, reassociate=reassociate)


def _broken(
    scop: Scop,
    of: Mapping[str, Statement],
    tree: Node,
    found: Sequence[Dependence],
    checked: Checked,
    *,
    reassociate: bool,
) -> str | None:
    """`of`, `found`: the tree's own statements and the dependences between them."""
    if parts := _apart(scop, tree, found):
        return _broken_parts(scop, of, parts, found, checked, reassociate=reassociate)
    schedule = times(tree, of)
    timed = [(d, InTime(d, schedule)) for d in found]
    wrong_pair = backward(one for d, one in timed if ordering([d], reassociate=reassociate))
    for array in sorted(_copied(tree)):
        frozen = times(tree, of, array)
        kept = ordering((d for d in found if d.array == array), reassociate=reassociate)
        wrong_pair = wrong_pair or backward(InTime(d, frozen) for d in kept)
    calls = times(tree, of, at_once=True) if any(kernel.use.steps for kernel in kernels(tree)) else schedule
    for kernel in kernels(tree):
        wrong_pair = wrong_pair or block_violation(found, calls, registers(kernel.use))
    if wrong_pair is not None:
        return str(wrong_pair)
    ways = paths(tree)
    for kernel in kernels(tree):
        ways |= {s.name: ways[kernel.statement] for s in kernel.inside}
    for d, one in timed:
        for loops in _concurrent(ways[d.source], ways[d.target]):
            if loops.run is Run.SUM and d.movable(reassociate=reassociate):
                continue  # partial sums are added up after the loop
            if loops.share.loops == 1 and not loops.share.grid:
                wrong_pair = each_concurrent(one, loops.positions)
            else:
                wrong_pair = concurrent(
                    [d], schedule, loops.positions, reassociate=reassociate,
                    grid=bool(loops.share.grid), summed=loops.summed,
                )  # fmt: skip
            if wrong_pair is not None:
                return str(wrong_pair)
    return (
        crossed(scop, of, tree, ways, schedule, timed)
        or _split_sums(tree)
        or _starts(tree, of)
        or _mixed(scop, of, schedule, timed)
        or _handed_on(scop, of, ways, timed)
        or _in_common(scop, of, ways, schedule)
        or without_memory(scop, tree)
        or overlapping(scop, tree, part_storage(scop, tree))
    )


def _broken_parts(
    scop: Scop,
    of: Mapping[str, Statement],
    parts: Sequence[Node],
    found: Sequence[Dependence],
    checked: Checked,
    *,
    reassociate: bool,
) -> str | None:
    """As `_broken`, of parts one after the other, each by itself."""
    home = {name: place for place, part in enumerate(parts) for name in statements(part)}
    for d in found:
        if home[d.source] > home[d.target]:
            return str(reversed_order(d))
    for place, part in enumerate(parts):
        if id(part) not in checked:
            own = {name: of[name] for name in statements(part)}
            both = [d for d in found if home[d.source] == place == home[d.target]]
            checked[id(part)] = part, _broken(scop, own, part, both, checked, reassociate=reassociate)
        wrong = checked[id(part)][1]
        if wrong is not None:
            return wrong
    return None


def _apart(scop: Scop, tree: Node, found: Sequence[Dependence]) -> tuple[Node, ...]:
    """The parts of a sequence, where each can be checked by itself; none where a value of a private scalar would pass
    from one to another, or a statement is in two."""
    if not isinstance(tree, schedule_tree.Sequence):
        return ()
    names = [statements(part) for part in tree.children]
    home = {name: place for place, own in enumerate(names) for name in own}
    private = private_storage(scop)
    if len(home) < sum(map(len, names)):
        return ()
    if any(home[d.source] != home[d.target] and d.array in private for d in found):
        return ()
    return tree.children


def _copied(node: Node) -> frozenset[str]:
    """Arrays of which kernels read copies."""
    own = node.arrays if isinstance(node, Copy) else frozenset[str]()
    return own.union(*map(_copied, schedule_tree.subtrees(node)))


@dataclass(frozen=True, slots=True)
class _Loops:
    """Loops whose iterations run at the same time, together."""

    positions: tuple[int, ...]
    """Among the times of the statements."""
    run: Run
    share: Share = schedule_tree.ALONE
    summed: tuple[int, int] | None = None
    """Position of the loop that is summed up in blocks, and iterations of a block."""


def _concurrent(source: Sequence[Step], target: Sequence[Step]) -> Iterator[_Loops]:
    """The parallel and vector loops that two statements share."""
    position, shared = 0, []
    for a, b in zip(source, target, strict=False):
        if a is not b and a != b:
            break
        shared.append(a)
    while position < len(shared):
        first = shared[position]
        if not isinstance(first, Member) or first.run is Run.SERIAL:
            position += 1
            continue
        share = first.share if first.run is Run.PARALLEL else schedule_tree.ALONE
        group = range(position, min(position + share.loops, len(shared)))
        loops = [(p, one) for p in group if isinstance(one := shared[p], Member) and one.run is not Run.SERIAL]
        chunk = {cut.loop.name: cut.chunk for cut in share.grid}
        summed = next(((p, chunk[one.name]) for p, one in loops if share.summed and one.name == share.summed), None)
        yield _Loops(tuple(p for p, _ in loops), first.run, share, summed)
        position += share.loops


def _handed_on(
    scop: Scop,
    of: Mapping[str, Statement],
    ways: Mapping[str, Sequence[Step]],
    timed: Sequence[tuple[Dependence, InTime]],
) -> str | None:
    """Which value of a private scalar would pass from one iteration of a parallel loop to another, or None.

    Where a parallel or vector loop writes such a scalar, each of its iterations has one of its own: a value of an
    earlier run of the whole loop is lost, though the order is kept.
    """
    private = private_storage(scop)
    together: dict[tuple[Step, ...], set[str]] = {}
    for name in of:
        for position in range(len(ways[name])):
            together.setdefault(tuple(ways[name][: position + 1]), set()).add(name)
    writing: dict[str, set[str]] = {}
    for name, statement in of.items():
        for access in statement.accesses:
            if access.write:
                writing.setdefault(access.array, set()).add(name)
    with quota("the legality check"):
        for d, one in timed:
            if d.array not in private or d.kind is not Kind.RAW:
                continue
            for end, other in ((d.source, d.target), (d.target, d.source)):
                for position, step in enumerate(ways[end]):
                    if not isinstance(step, Member) or step.run not in (Run.PARALLEL, Run.SIMD):
                        continue
                    if not by_iteration(scop, d.array, private[d.array], step.affs[end]):
                        continue
                    inside = together[tuple(ways[end][: position + 1])]
                    if inside.isdisjoint(writing[d.array]):
                        continue
                    if other in inside and position < one.agreed:
                        continue
                    if not _one_iteration([one.schedule[name].range() for name in inside], position):
                        return f"a value of {d.array} would pass from one iteration of a parallel loop to another"
    return None


def _in_common(
    scop: Scop, of: Mapping[str, Statement], ways: Mapping[str, Sequence[Step]], schedule: Mapping[str, isl.Map]
) -> str | None:
    """Which element of a private array threads would use for two iterations of the loops that it is private to at the
    same time, or None.

    The dependences have nothing between these iterations. Where a parallel loop is none of those loops, its threads
    have the array in common.
    """
    private = {name: depth for name, depth in private_storage(scop).items() if not scop.arrays[name].is_scalar}
    touched = [(s, a) for s in of.values() for a in s.accesses if a.array in private]
    for source, write in touched:
        for target, other in touched:
            if not write.write or other.array != write.array:
                continue
            depth = private[write.array]
            for loops in _concurrent(ways[source.name], ways[target.name]):
                shared = [(ways[end.name][p], end.name) for p in loops.positions for end in (source, target)]
                if any(isinstance(m, Member) and by_iteration(scop, write.array, depth, m.affs[n]) for m, n in shared):
                    continue
                with quota("the legality check"):
                    pairs = isl.differ(write.relation.apply_range(other.relation.reverse()), range(depth))
                    pairs = pairs.apply_domain(schedule[source.name]).apply_range(schedule[target.name])
                    pairs = isl.agree(pairs, range(loops.positions[0]))
                    if not isl.differ(pairs, loops.positions).is_empty():
                        return f"threads would use {write.array} for two iterations at the same time"
    return None


def _one_iteration(instances: Iterable[isl.Set], position: int) -> bool:
    """Whether a loop has the same only value throughout: it does not show in the code.

    `instances`: the times of each statement in it.
    """
    ends = {end for at in instances for end in (isl.least(at, position), isl.greatest(at, position))}
    return len(ends) == 1 and None not in ends


def _split_sums(tree: Node) -> str | None:
    """What would see a part of a sum that blocks of a grid add up by themselves, or None."""
    for kernel in kernels(tree):
        if kernel.use.summed and kernel.group is not None:
            return f"what is fused into {kernel.statement} would see a part of its sums"
    return None


def _starts(tree: Node, of: Mapping[str, Statement]) -> str | None:
    """Why a microkernel cannot start from the zeros that it is to do away with, or None."""
    for kernel in kernels(tree):
        if kernel.zeroing is not None:
            if not kernel.whole.is_equal(of[kernel.statement].domain):
                return f"not all of {kernel.statement} runs in the microkernel that is to start from zero"
            if (reason := no_start(kernel)) is not None:
                return reason
    return None


def _mixed(
    scop: Scop,
    of: Mapping[str, Statement],
    schedule: Mapping[str, isl.Map],
    timed: Sequence[tuple[Dependence, InTime]],
) -> str | None:
    """Why the lives of a private scalar's values overlap, or None.

    The dependences have nothing between iterations that each write the scalar first; so between a write and the reads
    of its value no other iteration may write.
    """
    private = private_storage(scop)
    writers: dict[str, list[Statement]] = {name: [] for name in private}
    for statement in of.values():
        for access in statement.accesses:
            if access.write and access.array in writers:
                writers[access.array].append(statement)
    later: dict[tuple[str, str, int, int], isl.Map | None] = {}
    with quota("the legality check"):
        for d, one in timed:
            if d.array not in private or d.kind is not Kind.RAW:
                continue
            for writer in writers[d.array]:
                what = d.source, writer.name, private[d.array], one.agreed
                if what not in later:
                    later[what] = _written_later(
                        schedule[d.source], schedule[writer.name], private[d.array], one.agreed
                    )
                if (found := later[what]) is None:
                    continue
                read, time = (
                    isl.range_onto(schedule[name], range(one.agreed, isl.range_arity(schedule[name])))
                    for name in (d.target, writer.name)
                )
                # { w -> read of the value, not before it }
                to_read = found.reverse().apply_range(d.relation).intersect(time.lex_le_map(read))
                if not to_read.is_empty():
                    return f"the values of {d.array} of two iterations would overlap"
    return None


def _written_later(source: isl.Map, time: isl.Map, depth: int, agreed: int) -> isl.Map | None:
    """{ write -> another iteration's write, not before it }, whose first `agreed` times are equal; None: there is none.
    What lies between two times that begin alike begins like them: mostly nothing is left of it. `depth`: the loops
    that tell iterations apart."""
    head, tail = range(agreed), range(agreed, isl.range_arity(source))
    other = isl.differ(isl.range_onto(source, head).apply_range(isl.range_onto(time, head).reverse()), range(depth))
    if other.is_empty():
        return None
    return other.intersect(isl.range_onto(source, tail).lex_le_map(isl.range_onto(time, tail)))
