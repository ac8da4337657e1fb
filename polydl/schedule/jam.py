"""Unroll-and-jam of the loops around rows: several of their iterations in one row, which load once what they share.

source:    Callahan, Carr, Kennedy: "Improving register allocation for subscripted variables", PLDI 1990
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polydl.model import isl
from polydl.schedule.tree import ALONE, Band, Copy, Kernel, Leaf, Member, Node, Run, sequence, subtrees
from polydl.schedule.tree import Sequence as InOrder


def jammed(node: Node, sizes: Sequence[int]) -> Node:
    """A tree with so many iterations of the loops around its innermost ones written out inside of these.

    before:    for i: { S(i);  for j: T(i, j) }
    after:     for i in steps of 2: { S(i); S(i + 1);  for j: { T(i, j); T(i + 1, j) } }
    `sizes`: iterations of the loop right around the innermost ones, then of the one around that, and so on; 1: that
    loop stays. Loops over tiles of a loop further in, and those that run in a way of their own inside of threads, stay
    as they are. Nothing here decides legality: `schedule.tree_check` decides about the result.
    """
    return _jammed(node, tuple(sizes))[0]


def _jammed(node: Node, sizes: tuple[int, ...]) -> tuple[Node, int, frozenset[int]]:
    """The node, how many loops are inside of each other in it, and the identities of the loops in it."""
    match node:
        case Leaf() | Kernel() | Copy():
            return node, 0, frozenset()
        case InOrder(children):
            found = [_jammed(child, sizes) for child in children]
            keys = frozenset(key for _, _, own in found for key in own)
            return InOrder(tuple(child for child, _, _ in found)), max(depth for _, depth, _ in found), keys
        case Band(members, child):
            below, depth, keys = _jammed(child, sizes)
            kept: list[Member] = []
            for member in reversed(members):
                if member.unroll:
                    kept.insert(0, member)
                    continue
                over_tiles = id(member.key) in keys
                size = sizes[depth - 1] if 0 < depth <= len(sizes) and not over_tiles else 1
                if size > 1 and member.tile == 1 and member.run in (Run.SERIAL, Run.PARALLEL):
                    inside = Band(tuple(kept), below) if kept else below
                    below, kept = _written_out(inside, _point(member)), [_over(member, size)]
                else:
                    kept.insert(0, member)
                depth += not over_tiles
                keys |= {id(member.key)}
            return (Band(tuple(kept), below) if kept else below), depth, keys


def _over(member: Member, size: int) -> Member:
    """The loop over so many iterations at a time."""
    affs = {name: isl.floor_div(aff, size) for name, aff in member.affs.items()}
    whole = None if member.whole is None else {n: isl.floor_div(aff, size) for n, aff in member.whole.items()}
    return replace(member, affs=affs, whole=whole, tile=size)


def _point(member: Member) -> Member:
    """The loop over the iterations of one of these."""
    return replace(member, run=Run.SERIAL, unroll=True, split=False, share=ALONE)


def _written_out(node: Node, point: Member) -> Node:
    """A node with a loop inside of all of its own."""
    match node:
        case Band(members, child) if not all(m.unroll for m in members) or _has_loops(child):
            return Band(members, _written_out(child, point))
        case InOrder(children) if _has_loops(node):
            return sequence([_written_out(child, point) for child in children])
        case _:
            return Band((point,), node)


def _has_loops(node: Node) -> bool:
    """Whether a node has loops that are not written out."""
    own = isinstance(node, Band) and not all(m.unroll for m in node.members)
    return own or (not isinstance(node, Copy) and any(map(_has_loops, subtrees(node))))
