"""From a base tree to a schedule: tiles, wavefronts, parallel loops. Nothing here decides legality: the passes use the
direct dependences to find what should be legal, `schedule.tree_check` decides about the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polydl.model import isl
from polydl.schedule.goal import Goal, components, extent, has_loops, kept
from polydl.schedule.innermost_passes import innermost, unrolled, vector_last
from polydl.schedule.kernels_in_tiles import blocked, packed
from polydl.schedule.loops import BY_ENTRIES, over_rows
from polydl.schedule.relations import Links, after, among, coincident, forward, left
from polydl.schedule.tree import Band, Copy, Kernel, Leaf, Member, Node, Run, Share, statements
from polydl.schedule.tree import Sequence as InOrder
from polydl.schedule.uneven import shared_evenly

_STRIP = 2048
"""Iterations of a vector loop that a thread takes at once."""


def merged(node: Node, links: Links) -> Node:
    """Directly nested bands joined into one where all their loops run forward: such a band may be tiled."""
    match node:
        case Leaf() | Kernel() | Copy():
            return node
        case InOrder(children):
            return InOrder(tuple(merged(c, among(links, frozenset(statements(c)))) for c in children))
        case Band(members, child):
            below = merged(child, after(links, members))
            if isinstance(below, Band) and all(forward(links, m) for m in (*members, *below.members)):
                return Band((*members, *below.members), below.child)
            return Band(members, below)


def scheduled(node: Node, links: Links, goal: Goal) -> Node:
    """The tree with parallel, tiled and vector loops, and whole tiles in microkernels."""
    tree = packed(_outer(node, links, goal))
    return shared_evenly(tree, {name: one.statement.domain for name, one in goal.of.items()})


def _outer(node: Node, links: Links, goal: Goal) -> Node:
    match node:
        case Leaf() | Kernel() | Copy():
            return node
        case InOrder(children):
            return InOrder(tuple(_outer(c, among(links, frozenset(statements(c))), goal) for c in children))
        case Band(members, child):
            if len(members) > 1 and goal.sizes and all(forward(links, m) for m in members):
                return _tiled(node, links, goal)
            if goal.unroll and len(members) == 1 and (vector := unrolled(node, links, goal)) is not None:
                strip = _on_threads(_tile(members[0], _STRIP), goal)
                return Band((strip,), vector)
            independent = [m for m in members if coincident(links, m)]
            legal = len(members) == 1 or all(forward(links, m) for m in members)
            if independent and legal:
                first = independent[0]
                rest = tuple(m for m in members if m is not first)
                inner = Band(rest, child) if rest else child
                if not goal.parallel and not has_loops(inner):
                    return innermost(node, links, goal)  # no threads: it is left for vectors
                top = _on_threads(first, goal)
                if over_rows((goal.of[s].statement for s in first.affs), first.affs) and goal.parallel:
                    top = replace(top, share=Share(schedule=BY_ENTRIES))
                return Band((top,), innermost(inner, left(links, first), goal.inside((top,))))
            apart = _distributed(node, links, goal) if legal else None
            if apart is not None:
                return _outer(apart, links, goal)
            head = members[0]
            if len(members) > 1:
                return Band((head,), _outer(Band(members[1:], child), left(links, head), goal.inside((head,))))
            if has_loops(child):
                return Band((head,), _outer(child, left(links, head), goal.inside((head,))))
            return innermost(node, links, goal)


def _on_threads(member: Member, goal: Goal) -> Member:
    """A loop that all threads share, if there are several."""
    return replace(member, run=Run.PARALLEL) if goal.parallel else member


def _distributed(node: Band, links: Links, goal: Goal) -> InOrder | None:
    """The band taken apart into several, each with an independent first loop; None when that doesn't work out."""
    head = node.members[0]
    names = statements(node)
    if len(names) < 2:
        return None
    groups = clusters(names, links, head)
    if groups is None or len(groups) < 2:
        return None
    parts = [kept(node, frozenset(group)) for group in groups]
    good = [coincident(among(links, frozenset(group)), head) for group in groups]
    if not any(good):
        return None
    return InOrder(tuple(parts))


def clusters(names: Sequence[str], links: Links, member: Member) -> list[list[str]] | None:
    """Statements in an order in which the loop can be distributed over them, neighbours together as long as the
    loop's iterations stay independent in the group."""
    result: list[list[str]] = []
    for component in components(names, links):
        if result:
            joint = [*result[-1], *component]
            if coincident(among(links, frozenset(joint)), member):
                result[-1] = joint
                continue
        result.append(list(component))
    return result


def _size(goal: Goal, position: int) -> int:
    return goal.sizes[min(position, len(goal.sizes) - 1)]


def _tile(member: Member, size: int) -> Member:
    return replace(member, affs={s: isl.floor_div(a, size) for s, a in member.affs.items()}, tile=size)


def _tiled(node: Band, links: Links, goal: Goal) -> Node:
    if goal.unroll:
        node = vector_last(node, goal)
    small = [_tile(m, _size(goal, i)) for i, m in enumerate(node.members) if _size(goal, i) > 1]
    if goal.outer > 1:
        large = replace(goal, sizes=tuple(size * goal.outer if size > 1 else size for size in goal.sizes), outer=1)
        return _tiles(node, small, links, large)
    return _tiles(node, (), links, goal)


def _tiles(node: Band, below: Sequence[Member], links: Links, goal: Goal) -> Node:
    """The band with loops over tiles around it; `below`: loops over smaller tiles inside of those."""
    cut = [(m, _tile(m, _size(goal, i))) for i, m in enumerate(node.members) if _size(goal, i) > 1]
    tiles = [tile for _, tile in cut]
    independent = next((tile for member, tile in cut if coincident(links, member)), None)
    if independent is not None:
        tiles = [_on_threads(independent, goal), *(t for t in tiles if t is not independent)]
    elif len(tiles) < 2:
        return innermost(node, links, goal)
    elif goal.parallel:
        tiles = _wavefront(tiles, goal)
    inside = {id(m.key): m.tile for m in (below or [tile for _, tile in cut])}
    jammed = unrolled(node, links, goal, inside) if goal.unroll else None
    body = jammed or innermost(node, links, goal)
    if len(goal.block) == 2 and len(tiles) == len(node.members):
        sizes = [_size(goal, i) for i in range(len(node.members))]
        block = goal.block[0], goal.block[1]
        body = blocked(body, node.members, sizes, goal.scop, {n: goal.of[n].statement for n in statements(node)}, block)
    return Band((*tiles, *below), body) if tiles else body


def _wavefront(tiles: Sequence[Member], goal: Goal) -> list[Member]:
    """Tiles on a diagonal run at the same time: the sum of two tile loops comes first, then one of the two.

    before:    for a: for b: for …            (loops over tiles)
    after:     for w = a + b: parallel for b: for …
    requires:  a permutable band. Tiles whose sum is equal differ in both loops, in opposite directions, and no
               dependence runs backwards along either.
    The two are those with the most tiles, so that a diagonal has work for many threads.
    """
    counts = [extent(tile, goal) for tile in tiles]
    pairs = [(i, j) for j in range(len(tiles)) for i in range(j)]
    first, second = max(pairs, key=lambda pair: (min(counts[pair[0]], counts[pair[1]]), -pair[0], -pair[1]))
    affs = {s: a.add(tiles[second].affs[s]) for s, a in tiles[first].affs.items()}
    total = replace(tiles[first], affs=affs, diagonal=True)
    rest = [tile for k, tile in enumerate(tiles) if k not in (first, second)]
    return [total, replace(tiles[second], run=Run.PARALLEL), *rest]
