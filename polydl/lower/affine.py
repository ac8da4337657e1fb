"""From a schedule tree of polydl.schedule to isl's, marked for the writer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from polydl.dependences.scalars import private_scalars
from polydl.lower import ctree
from polydl.lower.instance import Place
from polydl.lower.nest_plan import NestPlan, plan_nest
from polydl.lower.scratch import Scratch
from polydl.lower.tree import PARALLEL, SERIAL, SIMD, SUM, Part, insert_copies, union_pw_affs
from polydl.model import isl
from polydl.model.isl.trees import add_loop, add_mark, add_sequence, tree_of, union_set, unrolled
from polydl.model.scop import Scop, Statement
from polydl.schedule.tree import Band, Blocks, Kernel, Leaf, Member, Node, Order, Run, kernels, statements


@dataclass(frozen=True, slots=True)
class Piece:
    """Instances that stand for some of a statement's: its own, or calls that run many of them."""

    domain: isl.Set
    back: isl.PwMultiAff | None = None
    """{ call[…] -> S[i…] }: an instance that the call runs; None: they are the statement's own."""

    def at(self, aff: isl.Aff) -> isl.PwAff:
        """{ piece -> [t] } for { S[i…] -> [t] }."""
        value = isl.PwAff.from_aff(aff)
        return value if self.back is None else value.pullback_pw_multi_aff(self.back)


@dataclass(frozen=True, slots=True)
class AffinePlan:
    """What a tree needs beside its loops."""

    scop: Scop
    root: Node
    plans: Sequence[tuple[Kernel, NestPlan]]
    of: Mapping[str, Sequence[Piece]]
    """Per statement what stands for its instances."""

    @property
    def prologue(self) -> list[str]:
        """File-scope pieces."""
        return [text for _, plan in self.plans for text in plan.prologue]

    @property
    def printers(self) -> dict[str, Callable[[Place], ctree.Node]]:
        """Per isl tuple name, what prints its instances."""
        return {name: printer for _, plan in self.plans for name, printer in plan.printers.items()}

    @property
    def thread_lines(self) -> list[ctree.Node]:
        """Lines for each parallel loop."""
        return [line for _, plan in self.plans for line in plan.thread_lines]


def affine_plan(scop: Scop, root: Node, scratch: Scratch) -> AffinePlan:
    """The microkernels of a tree and their copies."""
    plans = [(kernel, plan_nest(kernel.structure, scratch, scop=scop)) for kernel, _, _ in kernels(root)]
    of: dict[str, list[Piece]] = {s.name: [Piece(s.domain)] for s in scop.statements}
    for kernel, plan in plans:
        (own,) = of[kernel.statement]
        of[kernel.statement] = [Piece(own.domain.subtract(kernel.whole).coalesce()), *_called(plan)]
    return AffinePlan(scop, root, plans, of)


def _called(plan: NestPlan) -> list[Piece]:
    assert plan.call is not None
    return [Piece(p.domain, p.corner) for p in plan.packs] + [Piece(plan.call.domain, plan.call.corner)]


def affine_tree(plan: AffinePlan) -> isl.Schedule:
    """isl's schedule tree for a tree: one band per loop, marks around the parallel ones."""
    names = statements(plan.root)
    node = tree_of(_everything(plan.of, names))
    height = node.get_tree_depth()
    node = _insert(node, plan.root, _Inside(plan, plan.of, private_scalars(plan.scop)))
    return node.ancestor(node.get_tree_depth() - height).get_schedule()


def _everything(of: Mapping[str, Sequence[Piece]], names: Sequence[str]) -> isl.UnionSet:
    return union_set(piece.domain for name in names for piece in of[name])


@dataclass(frozen=True, slots=True)
class _Inside:
    """Where in the tree the translation stands: the loops and copies around the place."""

    plan: AffinePlan
    of: Mapping[str, Sequence[Piece]]
    private: Collection[str]
    parallel: bool = field(default=False)
    """Inside of a parallel loop."""


def _insert(node: isl.ScheduleNode, tree: Node, at: _Inside) -> isl.ScheduleNode:
    match tree:
        case Leaf():
            return node
        case Band(members, child):
            names = statements(tree)
            for member in members:
                node = _loop(node, member, names, at)
            parallel = at.parallel or any(m.run is Run.PARALLEL for m in members)
            return _insert(node, child, _Inside(at.plan, at.of, at.private, parallel))
        case Order(children):
            return _sequence(node, [_everything(at.of, statements(c)) for c in children], children, at)
        case Blocks(child, found):
            names = statements(child)
            plain = _Inside(
                at.plan, {n: [p for p in at.of[n] if p.back is None] for n in names}, at.private, at.parallel
            )
            plans = [plan for kernel, plan in at.plan.plans if any(kernel is k for k in found)]
            calls = [union_set(p.domain for p in _called(plan)) for plan in plans]
            return _sequence(node, [_everything(plain.of, names), *calls], [child, *plans], plain)


def _sequence(
    node: isl.ScheduleNode, filters: Sequence[isl.UnionSet], children: Sequence[Node | NestPlan], at: _Inside
) -> isl.ScheduleNode:
    """Subtrees one after the other, each with the instances of its filter."""
    node = add_sequence(node, filters)
    height = node.get_tree_depth()
    for k, child in enumerate(children):
        inside = node.child(k).child(0)
        place = _calls(inside, child, at) if isinstance(child, NestPlan) else _insert(inside, child, at)
        node = place.ancestor(place.get_tree_depth() - height)
    return node


def _calls(node: isl.ScheduleNode, plan: NestPlan, at: _Inside) -> isl.ScheduleNode:
    """The copies of one tile and the calls of its blocks."""
    (kernel,) = (kernel for kernel, own in at.plan.plans if own is plan)
    assert plan.call is not None
    domain = plan.call.domain
    node = insert_copies(node, plan.packs, [domain], in_parallel=False)
    for loop, aff in zip(kernel.structure.loops, isl.coordinates(domain), strict=True):
        if loop.within is not None:
            node = add_loop(node, aff, domain)
    return node


def _loop(node: isl.ScheduleNode, member: Member, names: tuple[str, ...], at: _Inside) -> isl.ScheduleNode:
    of = {s.name: s for s in at.plan.scop.statements}
    if member.run is Run.SUM:
        node = add_mark(node, SUM)
    elif member.run is not Run.SERIAL:
        own = _written_inside(names, of, at.private)
        clauses = f" private({', '.join(own)})" if own else ""
        node = add_mark(node, (PARALLEL if member.run is Run.PARALLEL else SIMD) + clauses)
    parts = [Part(piece.domain, [piece.at(member.affs[name])]) for name in names for piece in at.of[name]]
    node = node.insert_partial_schedule(union_pw_affs(parts, 1))
    if member.unroll:
        node = unrolled(node)
    node = node.child(0)
    return add_mark(node, SERIAL) if member.run is Run.PARALLEL else node


def _written_inside(names: tuple[str, ...], of: Mapping[str, Statement], private: Collection[str]) -> list[str]:
    """The private scalars that a loop over some statements writes, and whose values thus live inside its iterations."""
    return sorted({a.array for name in names for a in of[name].accesses if a.write and a.array in private})
