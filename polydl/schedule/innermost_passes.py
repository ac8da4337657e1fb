"""Passes over the loops inside of tiles and parallel loops: vectors, sums in vectors, loops written out, diagonals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from polydl.model import isl
from polydl.model.accumulation import accumulation
from polydl.model.combiners import Regrouping
from polydl.model.scop import Assignment
from polydl.model.types import Kind
from polydl.schedule.goal import MANY, Goal, components, extent, has_loops, kept
from polydl.schedule.relations import Links, after, among, coincident, forward
from polydl.schedule.tree import (
    Band,
    Copy,
    Kernel,
    Leaf,
    Member,
    Node,
    Run,
    bands,
    on_subtrees,
    paths,
    sequence,
    statements,
)
from polydl.schedule.tree import Sequence as InOrder


def innermost(node: Node, links: Links, goal: Goal) -> Node:
    """Vector loops inside of tiles and parallel loops."""
    match node:
        case Leaf() | Kernel() | Copy():
            return node
        case InOrder(children):
            return InOrder(tuple(innermost(c, among(links, frozenset(statements(c))), goal) for c in children))
        case Band(members, child):
            if goal.unroll and (vector := unrolled(node, links, goal)) is not None:
                return vector
            if has_loops(child):
                return Band(members, innermost(child, after(links, members), goal.inside(members)))
            return _vectorised(node, links, goal)


_NO_TILES: Mapping[int, int] = MappingProxyType({})

WRITTEN_OUT = 64
"""Instances of a statement that are written out, at most."""
_TOGETHER = 1024
"""Instances of all statements of a loop that are written out, at most: a compiler takes seconds for more."""


def unrolled(node: Band, links: Links, goal: Goal, tiles: Mapping[int, int] = _NO_TILES) -> Node | None:
    """The band's loop with the best strides in vectors, around the shorter ones written out; None when there is no such
    loop, or nothing to write out. `tiles`: by identity of a loop, its iterations inside of a tile.

    before:    for i: { S(i);  for k in [0, 3): T(i, k) }
    after:     simd i: { S(i); T(i, 0); T(i, 1); T(i, 2) }
    requires:  a permutable band; loops that are written out have constant bounds, or are those of a small tile
    Of longer loops inside one stays, where that suits the lanes (`_one_loop`).
    A compiler vectorises hardly any loop that has loops inside; written out, sums stay in registers. Small tiles
    written out are unroll-and-jam: what the iterations of an outer loop share is loaded once.
    """
    members = node.members
    if len(members) > 1 and not all(forward(links, m) for m in members):
        return None
    names = statements(node)
    room = min(WRITTEN_OUT, _TOGETHER // len(names)) // max(_instances(node.child, goal), 1)
    extents = {id(m): min(extent(m, goal), tiles.get(id(m.key), MANY)) for m in members}
    best: tuple[float, Node] | None = None
    for v, vector in enumerate(members):
        left_over, short = room, []
        for m in sorted(members, key=lambda m: extents[id(m)]):
            # What is short only in a tile is worth it where its iterations share something.
            worth = extent(m, goal) <= left_over or _shared(goal, names, members, m)
            if m is not vector and extents[id(m)] <= left_over and worth:
                left_over //= max(extents[id(m)], 1)
                short.append(m)
        outer = tuple(m for m in members if m is not vector and not any(m is s for s in short))
        if (not short and not has_loops(node.child)) or not coincident(after(links, outer), vector):
            continue
        if extent(vector, goal) < 2:
            continue  # it has no lanes
        if _put_together(goal, names, members, v) > _PUT_TOGETHER:
            continue
        score = sum(goal.unit_score(n, members, v) for n in names)
        inside = _all_unrolled(node.child) if room else _lanes(node, (*outer, vector), links, goal)
        if inside is None:
            continue
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
    return any(goal.is_shared(n, members, place) for n in names)


def vector_last(node: Band, goal: Goal) -> Band:
    """A permutable band with the loop of the best strides as its last one, which gets the largest tiles."""
    members = node.members
    scores = [sum(goal.unit_score(n, members, v) for n in statements(node)) for v in range(len(members))]
    best = max(range(len(members)), key=lambda v: (scores[v], v))
    return Band((*members[:best], *members[best + 1 :], members[best]), node.child)


def _instances(node: Node, goal: Goal) -> int:
    """Most instances of one statement in one iteration of the loops around a node."""
    match node:
        case Leaf():
            return 1
        case Kernel() | Copy():
            return MANY
        case InOrder(children):
            return max(_instances(c, goal) for c in children)
        case Band(members, child):
            product = _instances(child, goal)
            for m in members:
                product *= max(extent(m, goal), 1)
            return product


def _all_unrolled(node: Node) -> Node:
    match node:
        case Kernel() | Copy():
            return node
        case Band(members, child):
            return Band(tuple(replace(m, unroll=True) for m in members), _all_unrolled(child))
        case _:
            return on_subtrees(node, _all_unrolled)


def _lanes(node: Band, loops: Sequence[Member], links: Links, goal: Goal) -> Node | None:
    """What is inside of a band's loops, the last of them in vectors, for lanes that run a loop each; None where that
    does not suit them, or a loop further in runs in vectors itself."""
    within = goal.inside(loops)
    found = _one_loop(node.child, within)
    if found is None or any(
        m.run is Run.SIMD for b in bands(innermost(node.child, after(links, loops), within)) for m in b.members
    ):
        return None
    return found


def _one_loop(node: Node, goal: Goal) -> Node | None:
    """A node inside of a vector loop with one loop left, all others written out; None where that does not suit lanes.

    before:    simd i: { S(i);  for k: { T(i, k);  for j in [0, 16): U(i, k, j) } }
    after:     simd i: { S(i);  for k: { T(i, k); U(i, k, 0); …; U(i, k, 15) } }
    requires:  a loop of as many iterations in each lane, of assignments; what moves in it moves by one element, or not
               at all, from lane to lane. What stays while it runs is loaded once in front of it, however it lies.
    Each lane runs the loop by itself: nothing is added up across lanes. Compilers vectorise a loop around one other.
    """
    match node:
        case Leaf():
            return node
        case InOrder(children):
            parts = [_all_unrolled(c) if _instances(c, goal) == 1 else _one_loop(c, goal) for c in children]
            kept_parts = [part for part in parts if part is not None]
            if len(kept_parts) < len(parts) or sum(map(has_loops, children)) > 1:
                return None
            return InOrder(tuple(kept_parts))
        case Band((first, *rest), child):
            inside = Band(tuple(rest), child) if rest else child
            if _instances(inside, goal) > WRITTEN_OUT or not _suits_lanes(node, goal):
                return None
            return Band((first,), _all_unrolled(inside))
        case _:
            return None


def _suits_lanes(loop: Band, goal: Goal) -> bool:
    """Whether what a loop inside of the vector loop does, the last one around, can be done in lanes."""
    changed = {a.array for n in statements(loop) for a in goal.of[n].statement.accesses if a.write}
    for name, path in paths(loop).items():
        statement = goal.of[name].statement
        if not isinstance(statement.body, Assignment) or not all(map(isl.is_box, statement.domain.get_basic_sets())):
            return False
        affs = [m.affs[name] for m in (*goal.around, *path) if isinstance(m, Member)]
        first = len(goal.around)
        across, along = (goal.of[name].moves(affs, v) for v in (first - 1, first))
        for access, lane, step in zip(statement.accesses, across, along, strict=True):
            array = goal.scop.arrays[access.array]
            if array.element.kind is Kind.COMPLEX:
                return False
            stays = step == 0 and access.array not in changed
            if not (array.is_scalar or lane == 1 or (not access.write and (lane == 0 or stays))):
                return False
    return True


_FAR = 8
"""Elements from one iteration to the next from which on a compiler puts each vector together element by element."""
_PUT_TOGETHER = 32
"""Accesses of a loop that move so far, up to which it is to run in vectors. They are no faster than without, and gcc
takes seconds for each hundred of them in a loop: it combines instructions pair by pair over the whole body."""
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
        sums = not independent and _accumulates(goal, group, node.members, v)
        way = Run.SIMD if independent else Run.SUM if sums else Run.SERIAL
        if way is Run.SIMD and _put_together(goal, group, node.members, v) > _PUT_TOGETHER:
            way = Run.SERIAL
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
            below = kept(node.child, frozenset(group))
            member = replace(members[v], affs={s: members[v].affs[s] for s in group})
            for name in group:
                depth = goal.of[name].statement.depth
                score += _GAIN[way] * goal.unit_score(name, members, v) * 30.0**depth
            parts.append(Band((replace(member, run=way),), below))
        inner: Node = sequence(parts)
        result: Node = Band(outer, inner) if outer else inner
        if best is None or score > best[0]:
            best = score, result
    assert best is not None
    inner_loops = [b.members[-1] for b in bands(best[1]) if not has_loops(b.child)]
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


def _put_together(goal: Goal, group: Sequence[str], members: Sequence[Member], v: int) -> int:
    """Accesses of statements whose vectors along a loop are put together element by element."""
    moves = (move for name in group for move in goal.moves(name, members, v))
    return sum(move is not None and abs(move) > _FAR for move in moves)


def _accumulates(goal: Goal, group: Sequence[str], members: Sequence[Member], v: int) -> bool:
    """Whether a loop only adds up into one element, reading along memory: one statement, a reduction, whose target
    stays while the loop runs."""
    statement = goal.of[group[0]].statement
    found = accumulation(goal.scop, statement) if len(group) == 1 else None
    if found is None or not isinstance(statement.body, Assignment) or not found.combiner.symbol:
        return False
    if found.regrouping is Regrouping.FIRST or (found.regrouping is Regrouping.ROUNDS and not goal.reassociate):
        return False
    if goal.scop.arrays[statement.target.array].element.kind is Kind.COMPLEX:
        return False  # compilers have no lanes for the products of complex numbers
    return goal.moves(statement.name, members, v)[statement.body.target] == 0
