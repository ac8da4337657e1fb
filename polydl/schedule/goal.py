"""What the passes from a base tree to a schedule are told, and ask of its nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from graphlib import TopologicalSorter
from heapq import heappop, heappush

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.isl import to_int
from polydl.model.scop import Scop
from polydl.schedule.direction import Moving
from polydl.schedule.relations import Links
from polydl.schedule.tree import Band, Member, Node, restricted
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
    around: tuple[Member, ...] = ()
    """Loops around a node that are in no tiles: they stay while its loops run."""

    def inside(self, members: Sequence[Member]) -> Goal:
        """The same for what is inside of these loops."""
        return replace(self, around=(*self.around, *members))

    def moves(self, name: str, members: Sequence[Member], v: int) -> tuple[Fraction | None, ...]:
        """Per access of a statement the elements by which it moves along loop `v` of these; None: unknown."""
        return self.of[name].moves(self._loops(name, members), len(self.around) + v)

    def unit_score(self, name: str, members: Sequence[Member], v: int) -> float:
        """How well a statement runs in vectors along loop `v` of these (`Moving.unit_score`)."""
        return self.of[name].unit_score(self._loops(name, members), len(self.around) + v)

    def is_shared(self, name: str, members: Sequence[Member], v: int) -> bool:
        """Whether iterations of loop `v` of these access the same element of some array in a statement."""
        return self.of[name].is_shared(self._loops(name, members), len(self.around) + v)

    def _loops(self, name: str, members: Sequence[Member]) -> list[isl.Aff]:
        return [member.affs[name] for member in (*self.around, *members)]


def has_loops(node: Node) -> bool:
    """Whether there are loops in a node."""
    return isinstance(node, Band) or (isinstance(node, InOrder) and any(map(has_loops, node.children)))


def kept(node: Node, names: frozenset[str]) -> Node:
    """The part of a node with some of its statements."""
    part = restricted(node, names)
    assert part is not None
    return part


def _first_of_components(names: Sequence[str], edges: Collection[tuple[str, str]]) -> dict[str, str]:
    """Of each node of a graph the first one of its strongly connected component."""
    after: dict[str, list[str]] = {name: [] for name in names}
    before: dict[str, list[str]] = {name: [] for name in names}
    for a, b in edges:
        after[a].append(b)
        before[b].append(a)
    first: dict[str, str] = {}

    def reached(start: str, next_: Mapping[str, Sequence[str]]) -> set[str]:
        seen, left = {start}, [start]
        while left:
            new = [name for name in next_[left.pop()] if name not in seen and name not in first]
            seen.update(new)
            left += new
        return seen

    for name in names:
        if name not in first:
            first |= dict.fromkeys(reached(name, after) & reached(name, before), name)
    return first


def components(names: Sequence[str], links: Links) -> list[list[str]]:
    """Strongly connected components of the statements under the links, in an order that the links allow; of several
    that could come next, the one that comes first in `names`."""
    edges = {(link.source, link.target) for link in links}
    edges |= {(link.target, link.source) for link in links if link.apart is not None}
    first = _first_of_components(names, edges)
    order: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(first.values(), ()))
    for a, b in edges:
        if first[a] != first[b]:
            order.add(first[b], first[a])
    order.prepare()
    place = {name: number for number, name in enumerate(names)}
    members: dict[str, list[str]] = {}
    for name in names:
        members.setdefault(first[name], []).append(name)
    ready: list[tuple[int, str]] = []
    ordered: list[list[str]] = []
    while order.is_active():
        for name in order.get_ready():
            heappush(ready, (place[name], name))
        _, one = heappop(ready)
        ordered.append(members[one])
        order.done(one)
    return ordered


MANY = 1 << 20
"""Iterations of a loop without constant bounds."""


def extent(member: Member, goal: Goal) -> int:
    """Iterations of a loop, from its first to its last over all statements."""
    lows, highs = [], []
    for name, aff in member.affs.items():
        domain = goal.of[name].statement.domain
        if domain.is_empty():
            continue
        low, high = domain.min_val(aff), domain.max_val(aff)
        if not low.is_int() or not high.is_int():
            return MANY
        lows.append(to_int(low))
        highs.append(to_int(high))
    return max(highs) - min(lows) + 1 if lows else 0
