"""Statements as they are written, and the structure of a nest, as schedule trees."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.model.isl import floor_div
from polydl.model.schedule import time_affs
from polydl.model.scop import Statement
from polydl.schedule.structure import Structure
from polydl.schedule.tree import Band, Blocks, Kernel, Leaf, Member, Node, Order, Run


def written(statements: Sequence[Statement], depth: int = 0) -> Node:
    """The order as it is written: a band for each loop inside of the outer `depth` ones."""
    if len(statements) == 1 and statements[0].depth == depth:
        return Leaf(statements[0].name)
    groups: dict[int, list[Statement]] = {}
    for statement in statements:
        groups.setdefault(statement.position[depth], []).append(statement)
    children: list[Node] = []
    for _, group in sorted(groups.items()):
        if group[0].depth == depth:
            children.append(Leaf(group[0].name))
            continue
        member = Member({s.name: time_affs(s)[depth] for s in group})
        children.append(Band((member,), written(group, depth + 1)))
    return children[0] if len(children) == 1 else Order(tuple(children))


def as_tree(structure: Structure, instances: float) -> Node:
    """The tree that runs a structure's statements in the same order. A microkernel's nest, of so many instances, is
    one kernel outside of all loops."""
    nest = structure.nest
    if structure.kernel is not None:
        (statement,) = nest.statements
        return Blocks(Leaf(statement.name), (Kernel(structure, statement.domain, instances),))
    keys = {iterator: object() for iterator in nest.loops}
    members = []
    for loop in structure.loops:
        size = loop.step * nest.counts[loop.iterator].stride if loop.step > 1 else 1
        affs = {s.name: time_affs(s)[nest.loops.index(loop.iterator)] for s in nest.statements}
        if size > 1:
            affs = {name: floor_div(aff, size) for name, aff in affs.items()}
        run = Run.PARALLEL if loop.name in structure.parallel else Run.SERIAL
        members.append(Member(affs, run, tile=size, key=keys[loop.iterator]))
    below = written(nest.statements, len(nest.loops))
    return Band(tuple(members), below) if members else below
