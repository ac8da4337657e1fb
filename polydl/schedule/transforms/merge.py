"""Loops that several nests share: the parts of a program that run one after the other in each of their iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from polydl.base.errors import IllegalVariant
from polydl.model import isl
from polydl.schedule.tree import ALONE, Band, Copy, Member, Node, Run, TreeTransform, kernels, on_subtrees
from polydl.schedule.tree import Sequence as InOrder


class Merge(TreeTransform, frozen=True):
    """Share the outermost loops with the nests before it, whatever each of them does inside.

    before:    for i: for j: P(i, j);   for i: for k: C(i, k)
    after:     for i: { for j: P(i, j);   for k: C(i, k) }
    before:    for i: P(i);   for i: C(i), with sizes (16,)
    after:     for i in steps of 16: { for i in the tile: P(i);   for i in the tile: C(i) }
    requires:  every dependence between the nests stays inside one iteration of the loops, or goes to a later one of
               those that run in order (`schedule.tree_check`); all of them parallel or all of them serial, tiled alike
    source:    coarse-grain fusion and fusion anchors (Li et al., "oneDNN Graph Compiler", CGO 2024, sections IV, V);
               tile and fuse (Golin et al., TPP-MLIR, 2024, section 4.2)
    """

    first: str
    """Name of the first nest that shares the loops: the nest itself where it is that one."""
    loops: int
    """How many loops are shared, from the outermost one on."""
    sizes: tuple[int, ...] = ()
    """Iterations of each loop in a tile, the loops over tiles being those that are shared; 1: the loop itself; empty:
    the nest is tiled already."""

    def applied(self, tree: Node) -> Node:
        """The tree with tiled loops. Raises IllegalVariant where it has not as many loops, or they are not so tiled."""
        return _tiled(tree, self.sizes) if any(size > 1 for size in self.sizes) else tree


def merged(nodes: Sequence[Node], loops: int) -> Node:
    """Trees with their outermost `loops` loops in common. Copies that are made outside of a loop are made outside of
    the common one. Raises IllegalVariant where loops are missing, or run or are tiled in different ways."""
    if not loops:
        return InOrder(tuple(nodes))
    copies: list[Copy] = []
    firsts: list[Member] = []
    rests: list[Node] = []
    for node in nodes:
        while isinstance(node, Copy):
            copies.append(node)
            node = node.child
        if not isinstance(node, Band):
            raise IllegalVariant("a nest has not as many loops as are to be shared")
        first, *others = node.members
        firsts.append(first)
        rests.append(Band(tuple(others), node.child) if others else node.child)
    reference = next((m for m, rest in zip(firsts, rests, strict=True) if _calls(rest)), firsts[0])
    for member, rest in zip(firsts, rests, strict=True):
        _alike(reference, member, any_run=not _calls(rest))
    common = _common(reference, firsts)
    inside = [
        _within(rest, {id(m.key): common.key}, serial=common.run is Run.PARALLEL and not _calls(rest))
        for m, rest in zip(firsts, rests, strict=True)
    ]
    below = merged(inside, loops - 1)
    made: Node = Band((common,), below)
    if isinstance(below, Band):
        made = Band((common, *below.members), below.child)
    for copy in reversed(copies):
        made = Copy(copy.packs, copy.kernel, made)
    return made


def shareable(tree: Node) -> bool:
    """Whether another nest may have the outermost loops of a tree in common, as they are: there are no loops over
    tiles, and the first is not of a thread grid, along a curve, in vectors or written out."""
    while isinstance(tree, Copy):
        tree = tree.child
    return isinstance(tree, Band) and all(m.tile == 1 for m in tree.members) and not _fixed(tree.members[0])


def _fixed(member: Member) -> bool:
    shared = bool(member.share.grid) or member.share.curve or member.team
    return member.unroll or member.run in (Run.SIMD, Run.SUM) or shared


def _calls(node: Node) -> bool:
    """Whether there are microkernels in it, whose copies know which loops around them are parallel."""
    return any(True for _ in kernels(node))


def _alike(one: Member, other: Member, *, any_run: bool) -> None:
    """Raises IllegalVariant unless loops can be one. `any_run`: the other one may run as this one does."""
    if one.tile != other.tile:
        raise IllegalVariant(f"loops that are tiled differently cannot be shared: by {one.tile} and by {other.tile}")
    if _fixed(one) or _fixed(other):
        raise IllegalVariant(
            "a loop of a thread grid, along a curve, with nowait, in vectors or written out cannot be shared"
        )
    if not any_run and (one.run is not other.run or one.share != other.share):
        raise IllegalVariant("a loop that is parallel in one nest and not in another cannot be shared")


def _common(reference: Member, several: Sequence[Member]) -> Member:
    """The loop that several nests share; it runs as the reference does."""
    whole: Mapping[str, isl.Aff] | None = None
    if any(m.whole is not None for m in several):
        whole = {name: aff for m in several for name, aff in (m.affs if m.whole is None else m.whole).items()}
    return replace(
        reference,
        affs={name: aff for m in several for name, aff in m.affs.items()},
        whole=whole,
        names={name: m.called(name) for m in several for name in m.affs},
        split=any(m.split for m in several),
    )


def _within(node: Node, keys: Mapping[int, object], *, serial: bool) -> Node:
    """A tree with other identities of underlying loops. `serial`: without parallel loops."""
    match node:
        case Band(members, child):
            made = tuple(
                replace(
                    m,
                    key=keys.get(id(m.key), m.key),
                    run=Run.SERIAL if serial and m.run is Run.PARALLEL else m.run,
                    share=ALONE if serial else m.share,
                )
                for m in members
            )
            return Band(made, _within(child, keys, serial=serial))
        case _:
            return on_subtrees(node, lambda below: _within(below, keys, serial=serial))


def _tiled(tree: Node, sizes: Sequence[int]) -> Node:
    """The tree with loops over tiles of its outermost loops, outside of the loops inside of the tiles."""
    members: list[Member] = []
    node = tree
    while len(members) < len(sizes):
        if not isinstance(node, Band):
            raise IllegalVariant("a nest has not as many loops as are to be shared")
        members += node.members
        node = node.child
    tiles, points = [], []
    for member, size in zip(members, sizes, strict=False):
        if size == 1:
            tiles.append(member)
            continue
        if size % member.tile or member.unroll:
            raise IllegalVariant(f"a loop in steps of {member.tile} cannot be tiled by {size}")
        tiles.append(_over(member, size))
        points.append(replace(member, run=Run.SERIAL, share=ALONE, split=False))
    inside = (*points, *members[len(sizes) :])
    return Band(tuple(tiles), Band(inside, node) if inside else node)


def _over(member: Member, size: int) -> Member:
    """The loop over tiles of so many iterations."""
    by = size // member.tile

    def floored(affs: Mapping[str, isl.Aff]) -> dict[str, isl.Aff]:
        return {name: isl.floor_div(aff, by) if by > 1 else aff for name, aff in affs.items()}

    return replace(
        member,
        affs=floored(member.affs),
        whole=None if member.whole is None else floored(member.whole),
        tile=size,
        split=False,
    )
