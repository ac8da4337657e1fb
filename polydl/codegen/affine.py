"""From a schedule tree of polydl.scheduling to isl's, marked for the writer."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import islpy as isl

from polydl.codegen.tree import PARALLEL, SERIAL, SIMD, SUM, Part, union_pw_affs
from polydl.dependences.scalars import private_scalars
from polydl.model.isl import context
from polydl.model.scop import Scop, Statement
from polydl.scheduling.tree import Band, Leaf, Member, Node, Order, Run, statements


def affine_tree(scop: Scop, root: Node) -> isl.Schedule:
    """isl's schedule tree for a tree: a band a loop, marks around the parallel ones."""
    of = {s.name: s for s in scop.statements}
    everything = isl.UnionSet.empty(scop.context.get_space())
    for name in statements(root):
        everything = everything.union(isl.UnionSet.from_set(of[name].domain))
    node = isl.Schedule.from_domain(everything).get_root().child(0)
    height = node.get_tree_depth()
    node = _insert(node, root, of, private_scalars(scop))
    return node.ancestor(node.get_tree_depth() - height).get_schedule()


def _insert(
    node: isl.ScheduleNode, tree: Node, of: Mapping[str, Statement], private: Collection[str]
) -> isl.ScheduleNode:
    match tree:
        case Leaf():
            return node
        case Band(members, child):
            names = statements(tree)
            for member in members:
                node = _loop(node, member, names, of, private)
            return _insert(node, child, of, private)
        case Order(children):
            filters = isl.UnionSetList.alloc(context(), len(children))
            for child in children:
                one = isl.UnionSet.empty(of[statements(child)[0]].domain.params().get_space())
                for name in statements(child):
                    one = one.union(isl.UnionSet.from_set(of[name].domain))
                filters = filters.add(one)
            node = node.insert_sequence(filters)
            height = node.get_tree_depth()
            for k, child in enumerate(children):
                place = _insert(node.child(k).child(0), child, of, private)
                node = place.ancestor(place.get_tree_depth() - height)
            return node


def _loop(
    node: isl.ScheduleNode,
    member: Member,
    names: tuple[str, ...],
    of: Mapping[str, Statement],
    private: Collection[str],
) -> isl.ScheduleNode:
    if member.run is Run.SUM:
        node = _mark(node, SUM)
    elif member.run is not Run.SERIAL:
        own = _written_inside(names, of, private)
        clauses = f" private({', '.join(own)})" if own else ""
        node = _mark(node, (PARALLEL if member.run is Run.PARALLEL else SIMD) + clauses)
    column = union_pw_affs([Part(of[name].domain, [member.affs[name]]) for name in names], 1)
    node = node.insert_partial_schedule(column)
    if member.unroll:
        node = node.band_member_set_ast_loop_type(0, isl.ast_loop_type.unroll)
    node = node.child(0)
    return _mark(node, SERIAL) if member.run is Run.PARALLEL else node


def _mark(node: isl.ScheduleNode, name: str) -> isl.ScheduleNode:
    return node.insert_mark(isl.Id(name, context=context())).child(0)


def _written_inside(names: tuple[str, ...], of: Mapping[str, Statement], private: Collection[str]) -> list[str]:
    """The private scalars that a loop over some statements writes, and whose values thus live inside its iterations."""
    return sorted({a.array for name in names for a in of[name].accesses if a.write and a.array in private})
