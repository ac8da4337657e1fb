"""From a base tree to a schedule: tiles, wavefronts, parallel loops, vector loops. Nothing here decides legality: the
passes use the direct dependences to find what should be legal, `schedule.tree_check` decides about the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from types import MappingProxyType

from polydl.dependences.analysis import is_reduction
from polydl.model import isl
from polydl.model.isl import to_int
from polydl.model.scop import Assignment, Scop
from polydl.schedule.blocks import blocked, packed
from polydl.schedule.direction import Moving
from polydl.schedule.relations import Links, after, among, coincident, forward, left
from polydl.schedule.tree import Band, Copy, Kernel, Leaf, Member, Node, Run, bands, restricted, sequence, statements
from polydl.schedule.tree import Sequence as InOrder


@dataclass(frozen=True, slots=True)
class Goal:
    """What is wanted of the schedule."""

    scop: Scop
    of: Mapping[str, Moving]
    """Statements by their names."""
    sizes: tuple[int, ...]
    """Tile sizes of a band, outermost loop first; the last holds for the loops further in; empty: no tiles."""
    parallel: bool
    simd: bool
    reassociate: bool
    """Sums may be added up in another order."""
    diagonal: bool = False
    """Innermost loops that wait for their own results run along diagonals."""
    outer: int = 1
    """Tiles of a second level hold this many tiles in each direction."""
    block: tuple[int, ...] = ()
    """Rows and columns of the microkernel that takes whole tiles of contractions; empty: none does."""
    unroll: bool = False
    """Short innermost loops are written out, and the loop around them runs in vectors."""


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
    return packed(_outer(node, links, goal, not goal.parallel))


def _outer(node: Node, links: Links, goal: Goal, done: bool) -> Node:
    """`done`: a loop further out is parallel already."""
    match node:
        case Leaf() | Kernel() | Copy():
            return node
        case InOrder(children):
            return InOrder(tuple(_outer(c, among(links, frozenset(statements(c))), goal, done) for c in children))
        case Band(members, child):
            if len(members) > 1 and goal.sizes and all(forward(links, m) for m in members):
                return _tiled(node, links, goal, done)
            if goal.unroll and len(members) == 1 and (vector := _unrolled(node, links, goal)) is not None:
                strip = replace(_tile(members[0], _STRIP), run=Run.SERIAL if done else Run.PARALLEL)
                return Band((strip,), vector)
            if not done:
                independent = [m for m in members if coincident(links, m)]
                legal = len(members) == 1 or all(forward(links, m) for m in members)
                if independent and legal:
                    first = independent[0]
                    rest = tuple(m for m in members if m is not first)
                    inner = Band(rest, child) if rest else child
                    top = replace(first, run=Run.PARALLEL)
                    return Band((top,), _inner(inner, left(links, first), goal))
                apart = _distributed(node, links, goal) if legal else None
                if apart is not None:
                    return _outer(apart, links, goal, done)
                head = members[0]
                if len(members) > 1:
                    return Band((head,), _outer(Band(members[1:], child), left(links, head), goal, done))
                if _deep(child):
                    return Band((head,), _outer(child, left(links, head), goal, done))
            return _inner(node, links, goal)


def _deep(node: Node) -> bool:
    match node:
        case Leaf() | Kernel() | Copy():
            return False
        case Band():
            return True
        case InOrder(children):
            return any(_deep(c) for c in children)


def _distributed(node: Band, links: Links, goal: Goal) -> InOrder | None:
    """The band taken apart into several, each with an independent first loop; None when that doesn't work out."""
    head = node.members[0]
    names = statements(node)
    if len(names) < 2:
        return None
    groups = clusters(names, links, head)
    if groups is None or len(groups) < 2:
        return None
    parts = [_kept(node, frozenset(group)) for group in groups]
    good = [coincident(among(links, frozenset(group)), head) for group in groups]
    if not any(good):
        return None
    return InOrder(tuple(parts))


def _kept(node: Node, names: frozenset[str]) -> Node:
    part = restricted(node, names)
    assert part is not None
    return part


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


def components(names: Sequence[str], links: Links) -> list[list[str]]:
    """Strongly connected components of the statements under the links, in an order that the links allow; of several
    that could come next, the one that comes first in `names`."""
    edges = {(link.source, link.target) for link in links}
    edges |= {(link.target, link.source) for link in links if link.apart is not None}
    reach = {n: {n} for n in names}
    for _ in names:
        for a, b in edges:
            reach[a] |= reach[b]
    first = {n: next(m for m in names if m in reach[n] and n in reach[m]) for n in names}
    order: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(first.values(), ()))
    for a, b in edges:
        if first[a] != first[b]:
            order.add(first[b], first[a])
    order.prepare()
    ready: list[str] = []
    ordered: list[list[str]] = []
    while order.is_active():
        ready = sorted((*ready, *order.get_ready()), key=names.index)
        ordered.append([n for n in names if first[n] == ready[0]])
        order.done(ready.pop(0))
    return ordered


def _size(goal: Goal, position: int) -> int:
    return goal.sizes[min(position, len(goal.sizes) - 1)]


def _tile(member: Member, size: int) -> Member:
    return replace(member, affs={s: isl.floor_div(a, size) for s, a in member.affs.items()}, tile=size)


def _tiled(node: Band, links: Links, goal: Goal, done: bool) -> Node:
    if goal.unroll:
        node = _vector_last(node, goal)
    small = [_tile(m, _size(goal, i)) for i, m in enumerate(node.members) if _size(goal, i) > 1]
    if goal.outer > 1:
        large = replace(goal, sizes=tuple(size * goal.outer if size > 1 else size for size in goal.sizes), outer=1)
        return _tiles(node, small, links, large, done)
    return _tiles(node, (), links, goal, done)


def _tiles(node: Band, below: Sequence[Member], links: Links, goal: Goal, done: bool) -> Node:
    """The band with loops over tiles around it; `below`: loops over smaller tiles inside of those."""
    cut = [(m, _tile(m, _size(goal, i))) for i, m in enumerate(node.members) if _size(goal, i) > 1]
    tiles = [tile for _, tile in cut]
    if not done:
        independent = next((tile for member, tile in cut if coincident(links, member)), None)
        if independent is not None:
            tiles = [replace(independent, run=Run.PARALLEL), *(t for t in tiles if t is not independent)]
        elif len(tiles) > 1:
            tiles = _wavefront(tiles, goal)
        else:
            return _inner(node, links, goal)
    inside = {id(m.key): m.tile for m in (below or [tile for _, tile in cut])}
    jammed = _unrolled(node, links, goal, inside) if goal.unroll else None
    body = jammed or _inner(node, links, goal)
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
    counts = [_extent(tile, goal) for tile in tiles]
    pairs = [(i, j) for j in range(len(tiles)) for i in range(j)]
    first, second = max(pairs, key=lambda pair: (min(counts[pair[0]], counts[pair[1]]), -pair[0], -pair[1]))
    total = replace(tiles[first], affs={s: a.add(tiles[second].affs[s]) for s, a in tiles[first].affs.items()})
    rest = [tile for k, tile in enumerate(tiles) if k not in (first, second)]
    return [total, replace(tiles[second], run=Run.PARALLEL), *rest]


_MANY = 1 << 20
"""Iterations of a loop without constant bounds."""


def _extent(member: Member, goal: Goal) -> int:
    """Iterations of a loop, from its first to its last over all statements."""
    lows, highs = [], []
    for name, aff in member.affs.items():
        domain = goal.of[name].statement.domain
        if domain.is_empty():
            continue
        low, high = domain.min_val(aff), domain.max_val(aff)
        if not low.is_int() or not high.is_int():
            return _MANY
        lows.append(to_int(low))
        highs.append(to_int(high))
    return max(highs) - min(lows) + 1 if lows else 0


def _inner(node: Node, links: Links, goal: Goal) -> Node:
    """Vector loops inside of tiles and parallel loops."""
    match node:
        case Leaf() | Kernel() | Copy():
            return node
        case InOrder(children):
            return InOrder(tuple(_inner(c, among(links, frozenset(statements(c))), goal) for c in children))
        case Band(members, child):
            if goal.unroll and (vector := _unrolled(node, links, goal)) is not None:
                return vector
            if _deep(child):
                return Band(members, _inner(child, after(links, members), goal))
            return _vectorised(node, links, goal)


_NO_TILES: Mapping[int, int] = MappingProxyType({})

_STRIP = 2048
"""Iterations of a vector loop that a thread takes at once."""

WRITTEN_OUT = 64
"""Instances of a statement that are written out, at most."""


def _unrolled(node: Band, links: Links, goal: Goal, tiles: Mapping[int, int] = _NO_TILES) -> Node | None:
    """The band's loop with the best strides in vectors, around the shorter ones written out; None when there is no such
    loop, or nothing to write out. `tiles`: by identity of a loop, its iterations inside of a tile.

    before:    for i: { S(i);  for k in [0, 3): T(i, k) }
    after:     simd i: { S(i); T(i, 0); T(i, 1); T(i, 2) }
    requires:  a permutable band; loops that are written out have constant bounds, or are those of a small tile
    A compiler vectorises hardly any loop that has loops inside; written out, sums stay in registers. Small tiles
    written out are unroll-and-jam: what the iterations of an outer loop share is loaded once.
    """
    members = node.members
    if len(members) > 1 and not all(forward(links, m) for m in members):
        return None
    names = statements(node)
    room = WRITTEN_OUT // max(_instances(node.child, goal), 1)
    extents = {id(m): min(_extent(m, goal), tiles.get(id(m.key), _MANY)) for m in members}
    best: tuple[float, Node] | None = None
    for v, vector in enumerate(members):
        left_over, short = room, []
        for m in sorted(members, key=lambda m: extents[id(m)]):
            # What is short only in a tile is worth it where its iterations share something.
            worth = _extent(m, goal) <= left_over or _shared(goal, names, members, m)
            if m is not vector and extents[id(m)] <= left_over and worth:
                left_over //= max(extents[id(m)], 1)
                short.append(m)
        outer = tuple(m for m in members if m is not vector and not any(m is s for s in short))
        if room == 0 or (not short and not _deep(node.child)) or not coincident(after(links, outer), vector):
            continue
        score = sum(goal.of[n].unit_score([m.affs[n] for m in members], v) for n in names)
        inside = _all_unrolled(node.child)
        if short:
            # In the order of the text, for the order of sums.
            inside = Band(tuple(replace(m, unroll=True) for m in members if any(m is s for s in short)), inside)
        result = Band((*outer, replace(vector, run=Run.SIMD)), inside)
        if best is None or score > best[0]:
            best = score, result
    return best[1] if best is not None else None


def _shared(goal: Goal, names: Sequence[str], members: Sequence[Member], member: Member) -> bool:
    """Whether the iterations of a loop access the same element."""
    place = members.index(member)
    return any(goal.of[n].is_shared([m.affs[n] for m in members], place) for n in names)


def _vector_last(node: Band, goal: Goal) -> Band:
    """A permutable band with the loop of the best strides as its last one, which gets the largest tiles."""
    members = node.members
    scores = [
        sum(goal.of[n].unit_score([m.affs[n] for m in members], v) for n in statements(node))
        for v in range(len(members))
    ]
    best = max(range(len(members)), key=lambda v: (scores[v], v))
    return Band((*members[:best], *members[best + 1 :], members[best]), node.child)


def _instances(node: Node, goal: Goal) -> int:
    """Most instances of one statement in one iteration of the loops around a node."""
    match node:
        case Leaf():
            return 1
        case Kernel() | Copy():
            return _MANY
        case InOrder(children):
            return max(_instances(c, goal) for c in children)
        case Band(members, child):
            product = _instances(child, goal)
            for m in members:
                product *= max(_extent(m, goal), 1)
            return product


def _all_unrolled(node: Node) -> Node:
    match node:
        case Leaf() | Kernel() | Copy():
            return node
        case InOrder(children):
            return InOrder(tuple(_all_unrolled(c) for c in children))
        case Band(members, child):
            return Band(tuple(replace(m, unroll=True) for m in members), _all_unrolled(child))


_GAIN = {Run.SIMD: 1.0, Run.SUM: 0.6, Run.SERIAL: 0.05}
"""What a way to run an innermost loop is worth."""


def _groups(node: Band, names: Sequence[str], inside: Links, v: int, goal: Goal) -> list[tuple[list[str], Run]]:
    """The statements of an innermost loop in the groups that get a loop of their own, and how that runs. Neighbours
    that run one iteration after the other stay together: they hide each other's latencies."""
    found: list[tuple[list[str], Run]] = []
    for group in components(names, inside):
        independent = coincident(
            among(inside, frozenset(group)), replace(node.members[v], affs={s: node.members[v].affs[s] for s in group})
        )
        sums = not independent and goal.reassociate and _accumulates(goal, group, node.members, v)
        way = Run.SIMD if independent else Run.SUM if sums else Run.SERIAL
        if found and way is Run.SERIAL and found[-1][1] is Run.SERIAL:
            found[-1] = ([*found[-1][0], *group], way)
        else:
            found.append((group, way))
    return found


def _vectorised(node: Band, links: Links, goal: Goal) -> Node:
    """The loop with the best strides moved innermost, taken apart into one per group of statements where needed."""
    if not goal.simd:
        return node
    members = node.members
    movable = len(members) == 1 or all(forward(links, m) for m in members)
    choices = range(len(members)) if movable else [len(members) - 1]
    best: tuple[float, Node] | None = None
    names = statements(node)
    for v in choices:
        outer = tuple(m for i, m in enumerate(members) if i != v)
        inside = after(links, outer)
        parts: list[Node] = []
        score = 0.0
        for group, way in _groups(node, names, inside, v, goal):
            below = _kept(node.child, frozenset(group))
            member = replace(members[v], affs={s: members[v].affs[s] for s in group})
            for name in group:
                steps = [m.affs[name] for m in members]
                depth = goal.of[name].statement.depth
                score += _GAIN[way] * goal.of[name].unit_score(steps, v) * 30.0**depth
            parts.append(Band((replace(member, run=way),), below))
        inner: Node = sequence(parts)
        result: Node = Band(outer, inner) if outer else inner
        if best is None or score > best[0]:
            best = score, result
    assert best is not None
    inner_loops = [b.members[-1] for b in bands(best[1]) if not _deep(b.child)]
    if goal.diagonal and len(members) > 1 and movable and all(m.run is Run.SERIAL for m in inner_loops):
        return _diagonal(node)
    return best[1]


def _diagonal(node: Band) -> Band:
    """The two innermost loops of a permutable band along diagonals: a processor works on several iterations of the
    innermost loop at once, where it waited for one after the other before.

    before:    for a: for b
    after:     for w = a + b: for a
    """
    *outer, a, b = node.members
    total = replace(b, affs={s: aff.add(a.affs[s]) for s, aff in b.affs.items()})
    return Band((*outer, total, a), node.child)


def _accumulates(goal: Goal, group: Sequence[str], members: Sequence[Member], v: int) -> bool:
    """Whether a loop only adds up into one element, reading along memory: one statement, a reduction, whose target
    stays while the loop runs."""
    moving = goal.of[group[0]]
    statement = moving.statement
    if len(group) > 1 or not is_reduction(statement) or not isinstance(statement.body, Assignment):
        return False
    if statement.body.op not in ("+=", "-=", "*="):
        return False
    rows = [m.affs[statement.name] for m in members]
    return moving.moves(rows, v)[statement.body.target] == 0
