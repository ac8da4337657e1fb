"""Loops that no statement may be taken out of.

    parallel for i: { s = f(i);  b[i] = s;  if (i == n - 1) x = s; }

isl's code generation puts what runs in the last iteration alone behind the loop where that keeps the order. Here each
thread has an `s` of its own, which nobody sees behind the loop. So such a loop is generated in one piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polydl.dependences.scalars import by_iteration, private_storage, users
from polydl.model import isl
from polydl.model.scop import Scop, Statement
from polydl.model.time import map_from_affs
from polydl.schedule.tree import Band, Member, Node, Run, bands, statements, subtrees

_OWN = (Run.PARALLEL, Run.SIMD)
"""Loops whose iterations have scalars and arrays of their own."""


def is_whole(scop: Scop, band: Band, place: int, around: Sequence[Member], private: Mapping[str, int]) -> bool:
    """Whether a loop of a band must be one in the code: it is one whose iterations have scalars or arrays of their own,
    or is around such a loop, and not all statements that use one of these run in the same iterations of it. `around`:
    the loops outside of it; `private`: what is private to some loops, and to how many."""
    of = {s.name: s for s in scop.statements}
    loops = [*around, band.members[place]]
    # What is fused into a microkernel runs in no loop of the code.
    inside = [of[name] for name in statements(band) if all(name in m.affs for m in loops)]
    using: dict[str, list[Statement]] = {}
    for s in inside:
        for name in {a.array for a in s.accesses if a.array in private}:
            using.setdefault(name, []).append(s)
    several = {name: found for name, found in using.items() if len(found) > 1}
    if not several:
        return False

    def ran(s: Statement) -> isl.Set:
        return map_from_affs(s.domain, [m.affs[s.name] for m in loops]).range()

    below = [*band.members[place:], *(m for one in bands(band.child) for m in one.members)]
    return any(
        not _alike(list(map(ran, found)))
        for name, found in several.items()
        if any(_has_own(scop, m, name, private[name]) for m in below if m.run in _OWN)
    )


def has_whole(scop: Scop, tree: Node, around: tuple[Member, ...] = ()) -> bool:
    """Whether a loop of a tree must be one in the code. `around`: the loops outside of it."""
    if isinstance(tree, Band):
        for place, member in enumerate(tree.members):
            if is_whole(scop, tree, place, around, private_storage(scop)):
                return True
            around = (*around, member)
    return any(has_whole(scop, below, around) for below in subtrees(tree))


def _alike(iterations: Sequence[isl.Set]) -> bool:
    first, *others = iterations
    return all(bool(one.is_equal(first)) for one in others)


def _has_own(scop: Scop, member: Member, name: str, depth: int) -> bool:
    """Whether iterations of a loop have a scalar or an array each, which is private to so many loops: all statements
    that use it are inside."""
    using = users(scop, name)
    return all(s.name in member.affs for s in using) and any(
        a.write and a.array == name and by_iteration(scop, name, depth, member.affs[s.name])
        for s in using
        for a in s.accesses
    )
