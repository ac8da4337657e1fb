"""From a schedule tree of polydl.schedule to isl's, marked for the writer, with the copies and calls that run in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.dependences.scalars import by_iteration, on_stack, private_storage
from polydl.lower import ctree
from polydl.lower.instance import Place
from polydl.lower.marks import COPIED, CURVE, ENTRIES, INSIDE, PARALLEL, SERIAL, SHARE, SIMD, SUM, TEAM, WAIT
from polydl.lower.met_in_lanes import meet_sometimes
from polydl.lower.nest_plan import NestPlan
from polydl.lower.packed_ahead import Ahead
from polydl.lower.packing_plan import PackCall
from polydl.lower.whole_loops import is_whole
from polydl.model import isl
from polydl.model.isl.trees import (
    add_loop,
    add_mark,
    add_sequence,
    in_one_piece,
    partial_schedule,
    separated,
    tree_of,
    union_set,
    unrolled,
)
from polydl.model.scop import Scop, Statement
from polydl.model.time import map_from_affs
from polydl.schedule.goal import has_loops
from polydl.schedule.loops import BY_ENTRIES, outer_affs
from polydl.schedule.tree import Band, Copy, Kernel, Leaf, Member, Node, Run, Share, statements, subtrees
from polydl.schedule.tree import Sequence as InOrder


@dataclass(frozen=True, slots=True)
class Piece:
    """Instances that stand for some of a statement's: its own, or calls and copies that run for many of them."""

    statement: str
    domain: isl.Set
    loops: tuple[str, ...] = ()
    """Names of the loops whose values the dimensions are, where they are loops."""
    back: isl.PwMultiAff | None = None
    """{ call[…] -> S[i…] }: an instance that the call runs; None: they are the statement's own."""

    def at(self, member: Member) -> isl.PwAff:
        """{ piece -> [t] } the values of a loop."""
        name = member.called(self.statement)
        if name in self.loops:
            value = isl.PwAff.from_aff(isl.coordinate(self.domain, self.loops.index(name)))
        else:
            value = isl.PwAff.from_aff(member.affs[self.statement])
            value = value if self.back is None else value.pullback_pw_multi_aff(self.back)
        return value.intersect_domain(self.domain)


@dataclass(frozen=True, slots=True)
class TreePlan:
    """What a tree needs beside its loops."""

    scop: Scop
    root: Node
    plans: Mapping[Kernel, NestPlan]
    rest: Mapping[str, Piece]
    """Per statement the instances that no kernel runs."""

    @property
    def prologue(self) -> list[str]:
        """File-scope pieces."""
        return [text for plan in self.plans.values() for text in plan.prologue]

    @property
    def printers(self) -> dict[str, Callable[[Place], ctree.Node]]:
        """Per isl tuple name, what prints its instances."""
        return {name: printer for plan in self.plans.values() for name, printer in plan.printers.items()}

    @property
    def ahead(self) -> list[Ahead]:
        """Copies that are made by functions of their own."""
        return [one for plan in self.plans.values() for one in plan.ahead]

    @property
    def in_tiles(self) -> bool:
        """Whether a microkernel uses tiles."""
        return any(plan.in_tiles for plan in self.plans.values())

    @property
    def thread_lines(self) -> list[ctree.Node]:
        """Lines for each parallel loop."""
        return [line for plan in self.plans.values() for line in plan.thread_lines]

    def pieces(self, node: Node) -> list[Piece]:
        """What runs below a node."""
        match node:
            case Leaf(name):
                return [] if self.rest[name].domain.is_empty() else [self.rest[name]]
            case Kernel():
                return _calls(node, self.plans[node])
            case Copy(packs, kernel, child):
                due = [p for p in self.plans[kernel].packs if p.pack in packs]
                return [*self.pieces(child), *(_copy(p) for p in due)]
            case _:
                return [piece for child in subtrees(node) for piece in self.pieces(child)]


def _calls(kernel: Kernel, plan: NestPlan) -> list[Piece]:
    """The calls of a kernel's blocks, and of the rows of those that are no boxes."""
    names = tuple(loop.name for loop in kernel.use.loops)
    found = []
    if not plan.call.domain.is_empty():
        found.append(Piece(kernel.statement, plan.call.domain, names, plan.call.corner))
    if plan.edge is not None:
        rows = plan.edge.structure.loops[-1].name
        found.append(Piece(kernel.statement, plan.edge.call.domain, (*names, rows), plan.edge.call.corner))
    return found


def _copy(pack: PackCall) -> Piece:
    return Piece(pack.statement, pack.domain, tuple(loop.name for loop in pack.loops), pack.corner)


def tree_plan(scop: Scop, root: Node, plans: Mapping[Kernel, NestPlan]) -> TreePlan:
    """Which instances of each statement the kernels leave to it."""
    of = {s.name: s for s in scop.statements}
    rest = {name: of[name].domain for name in statements(root)}
    for kernel, plan in plans.items():
        rest[kernel.statement] = _left(rest[kernel.statement], of[kernel.statement], kernel, plan)
    return TreePlan(scop, root, plans, {name: Piece(name, domain) for name, domain in rest.items()})


def _left(domain: isl.Set, statement: Statement, kernel: Kernel, plan: NestPlan) -> isl.Set:
    """What the calls of a kernel do not run."""
    calls = [(kernel.use, plan.call)]
    if plan.edge is not None:
        calls.append((plan.edge.structure, plan.edge.call))
    for structure, call in calls:
        times = map_from_affs(domain, outer_affs(structure, replace(statement, domain=domain)))
        domain = domain.subtract(times.intersect_range(call.domain.reset_tuple_id()).domain())
    return domain


def isl_tree(plan: TreePlan) -> isl.Schedule:
    """isl's schedule tree for a tree: a band per loop, marks around the parallel ones, copies where they are due."""
    node = tree_of(_everything(plan.pieces(plan.root)))
    height = node.get_tree_depth()
    node = _insert(node, plan.root, _Inside(plan, private_storage(plan.scop)))
    return node.ancestor(node.get_tree_depth() - height).get_schedule()


def _everything(pieces: Sequence[Piece]) -> isl.UnionSet:
    return union_set(piece.domain for piece in pieces)


@dataclass(frozen=True, slots=True)
class _Inside:
    """Where in the tree the translation stands."""

    plan: TreePlan
    private: Mapping[str, int]
    """Scalars and arrays that are private to some loops, and to how many."""
    shared: int = 0
    """How many of the next loops are shared out together with one that is around them."""
    grid: bool = False
    """They run over one block of a thread grid."""
    team: bool = False
    """In what one team of threads runs."""
    around: tuple[Member, ...] = ()
    """The loops outside, each once."""


def _insert(node: isl.ScheduleNode, tree: Node, at: _Inside) -> isl.ScheduleNode:
    """The tree at a place of isl's; a place inside of all that was added is returned."""
    pieces = at.plan.pieces(tree)
    if not pieces:
        return node
    match tree:
        case Leaf():
            return node
        case Kernel():
            return _rows(node, tree, at)
        case Band(members, child):
            for member in members:
                node, at = _loop(node, member, tree, pieces, at)
            return _insert(node, child, at)
        case Copy(packs, kernel, child):
            plan = at.plan.plans[kernel]
            due = [p for p in plan.packs if p.pack in packs]
            rest = [piece.domain for piece in at.plan.pieces(child)]
            if due:
                node = _copies(node, due, rest, in_parallel=bool(kernel.use.parallel))
            return _insert(node, child, at)
        case InOrder(children):
            parts = [(child, _everything(own)) for child in children if (own := at.plan.pieces(child))]
            if len(parts) == 1:
                return _insert(node, parts[0][0], at)
            node = add_sequence(node, [instances for _, instances in parts])
            height = node.get_tree_depth()
            for k, (child, _) in enumerate(parts):
                place = _insert(node.child(k).child(0), child, at)
                node = place.ancestor(place.get_tree_depth() - height)
            return node


def _rows(node: isl.ScheduleNode, kernel: Kernel, at: _Inside) -> isl.ScheduleNode:
    """The calls of blocks, then a loop over the rows of those that are no boxes."""
    edge, parts = at.plan.plans[kernel].edge, at.plan.pieces(kernel)
    if edge is None:
        return node
    if len(parts) > 1:
        node = add_sequence(node, [_everything([part]) for part in parts])
    rows = node.child(len(parts) - 1).child(0) if len(parts) > 1 else node
    return add_loop(rows, isl.coordinates(edge.call.domain)[-1], edge.call.domain)


def _copies(
    node: isl.ScheduleNode, due: Sequence[PackCall], rest: Sequence[isl.Set], *, in_parallel: bool
) -> isl.ScheduleNode:
    """Copies first, then the rest; returns the place of the rest. Shared copies are made by all threads."""
    in_order = add_sequence(node, [*(union_set([pack.domain]) for pack in due), union_set(rest)])
    height = in_order.get_tree_depth()
    for k, pack in enumerate(due):
        place = in_order.child(k).child(0)
        shared = pack.shared and in_parallel and bool(pack.panels)
        if shared:
            place = add_mark(place, PARALLEL)
        for aff in isl.coordinates(pack.domain)[pack.depth :]:
            place = add_loop(place, aff, pack.domain)
        if shared:
            place = add_mark(place, COPIED)
        in_order = place.ancestor(place.get_tree_depth() - height)
    return in_order.child(len(due)).child(0)


def _loop(
    node: isl.ScheduleNode, member: Member, tree: Band, pieces: Sequence[Piece], at: _Inside
) -> tuple[isl.ScheduleNode, _Inside]:
    """One loop; the place inside of it."""
    shared, grid, team = at.shared, at.grid, at.team or member.team
    if member.team:
        node = add_mark(node, TEAM)
    if member.barrier and member.run is not Run.PARALLEL:
        node = add_mark(node, WAIT)
    if member.run is Run.SUM:
        node = add_mark(node, SUM)
    elif member.run is Run.SIMD and not meet_sometimes(at.plan.scop, tree, (*at.around, member), at.private):
        node = add_mark(node, SIMD + _private(tree, member, at))
    elif member.run is Run.PARALLEL and not shared:
        share = member.share
        mark = _in_team(member) if team else _shared(share)
        node, shared, grid = add_mark(node, mark + _private(tree, member, at)), share.loops, bool(share.grid)
        for cut in sorted(share.grid, key=lambda cut: "LRC".index(cut.axis)):
            # Layers outside of rows outside of columns, as PARLOOPER numbers its threads. The grid's loops, further
            # inside, run over one block each.
            blocks = [[isl.floor_div(piece.at(cut.loop), cut.chunk) for piece in pieces]]
            node = node.insert_partial_schedule(partial_schedule(blocks, pieces[0].domain.get_space())).child(0)
        if grid:
            node = add_mark(node, SERIAL)
    node = node.insert_partial_schedule(
        partial_schedule([[piece.at(member) for piece in pieces]], pieces[0].domain.get_space())
    )
    if member.unroll:
        node = unrolled(node)
    elif member.split:
        node = separated(node)
    elif is_whole(at.plan.scop, tree, tree.members.index(member), at.around, at.private):
        node = in_one_piece(node)
    node = node.child(0)
    if shared == 1 and not grid:
        node = add_mark(node, SERIAL)
    if member.run in (Run.SIMD, Run.SUM) and (member is not tree.members[-1] or has_loops(tree.child)):
        node = add_mark(node, INSIDE)
    return node, replace(at, shared=max(shared - 1, 0), grid=grid, team=team, around=(*at.around, member))


def _in_team(member: Member) -> str:
    """The mark of loops that threads of a team share out. What the default schedule is, OpenMP leaves to compilers."""
    schedule = "static, 1" if member.share.grid else member.share.schedule or "static"
    return f"{SHARE} schedule({schedule})" + ("" if member.barrier else " nowait")


def _shared(share: Share) -> str:
    """The mark of loops that threads share out."""
    if share.curve:
        return CURVE
    if share.grid:
        return f"{PARALLEL} schedule(static, 1)"  # thread t takes cell t of the grid; with fewer they take turns
    if share.schedule == BY_ENTRIES:
        return ENTRIES
    return f"{PARALLEL} schedule({share.schedule})" if share.schedule else PARALLEL


def _private(tree: Node, member: Member, at: _Inside) -> str:
    """The clause for private scalars and arrays that a loop writes, whose values thus live inside its iterations; of
    arrays for those on the stack."""
    scop = at.plan.scop
    of = {s.name: s for s in scop.statements}
    own = {
        a.array
        for name in statements(tree)
        for a in of[name].accesses
        if a.write and a.array in at.private and by_iteration(scop, a.array, at.private[a.array], member.affs[name])
        if on_stack(scop.arrays[a.array])
    }
    return f" private({', '.join(sorted(own))})" if own else ""
