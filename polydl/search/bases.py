"""Where schedules start that polydl makes itself beside the order as written: skewed loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polydl.model import isl
from polydl.model.isl import context
from polydl.model.scop import Statement
from polydl.model.time import time_affs
from polydl.schedule.relations import Links, span
from polydl.schedule.tree import Band, Leaf, Member, Node, sequence

_MOST_SKEW = 3
"""Largest factor of the outer loop that is added to an inner one."""


def skewed(statements: Sequence[Statement], links: Links) -> Node | None:
    """One permutable band for loops in time: each inner loop skewed by the outer one and shifted per statement.

    before:    for t { for i: S(t, i);  for i: T(t, i) }
    after:     for t: for x: { S(t, x - a*t - c_S); T(t, x - a*t - c_T) }
    requires:  all statements share the outer loop
    source:    time skewing (Wonnacott, IPDPS 2000). Per loop the least `a` with shifts under which every link runs
               forward: a system of difference constraints. Much cheaper than the scheduler's integer programs, where
               a stencil has many dimensions.
    """
    first = statements[0]
    if first.depth < 2 or any(s.depth < 1 or s.position[0] != first.position[0] for s in statements):
        return None
    deepest = max(s.depth for s in statements)
    outer = Member({s.name: time_affs(s)[0] for s in statements})
    members = [outer]
    for back in range(deepest - 1, 0, -1):
        # Statements with fewer loops have their last ones in common with the others.
        own = {s.name: time_affs(s)[s.depth - back] if s.depth - back >= 1 else None for s in statements}
        found = _shifted(statements, links, outer, own)
        if found is None:
            return None
        members.append(found)
    leaves = tuple(Leaf(s.name) for s in statements)
    return Band(tuple(members), sequence(leaves))


def _shifted(
    statements: Sequence[Statement], links: Links, outer: Member, own: Mapping[str, isl.Aff | None]
) -> Member | None:
    for factor in range(_MOST_SKEW + 1):
        affs = {}
        for s in statements:
            aff, inner = outer.affs[s.name].scale_val(isl.Val.int_from_si(context(), factor)), own[s.name]
            affs[s.name] = aff if inner is None else aff.add(inner)
        shifts = _shifts([s.name for s in statements], links, Member(affs))
        if shifts is not None:
            return Member({n: a.add_constant_val(isl.Val.int_from_si(context(), shifts[n])) for n, a in affs.items()})
    return None


def _shifts(names: Sequence[str], links: Links, member: Member) -> dict[str, int] | None:
    """The least shifts >= 0 under which no link runs backwards along the loop; None when there are none (longest
    paths, Bellman and Ford)."""
    least = []
    for link in links:
        low = span(link, member)[0]
        if low is None:
            return None
        least.append((link.source, link.target, low))
    shifts = dict.fromkeys(names, 0)
    for _ in range(len(names) + 1):
        changed = False
        for source, target, low in least:
            if shifts[target] < shifts[source] - low:
                shifts[target] = shifts[source] - low
                changed = True
        if not changed:
            return shifts
    return None
