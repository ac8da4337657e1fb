"""Checks that threads of a team which do not wait for each other share nothing between their iterations.

    #pragma omp parallel
    { for k: { #pragma omp for schedule(static) nowait
               for i: … } }

Two accesses of one element, one of which writes it, must have a place between them at which all threads wait (the end
of a loop without `nowait`, a barrier), or be of one thread: in one iteration, or in equal ones of a loop that has the
same each time, which OpenMP's static schedule gives to the same thread (OpenMP 5.2, section 11.5.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from polydl.model import isl
from polydl.prove.counter_examples import pair
from polydl.prove.dependence_order import Order, Touch, elements_at, is_own, touched_by
from polydl.prove.integers import Unreadable, Wrong
from polydl.prove.printed_program import ConcurrentLoop, Printed, Team

_Inside = tuple[ConcurrentLoop, Sequence[Touch]]
"""A loop of a team, and what it touches."""


def check_teams(order: Order, statements: Sequence[Printed]) -> None:
    """Raises Wrong with a pair of accesses that threads may make at the same time; Unreadable."""
    teams: dict[Team, dict[ConcurrentLoop, list[Touch]]] = {}
    for printed in statements:
        for one in printed.loops:
            if one.team is not None:
                teams.setdefault(one.team, {}).setdefault(one, []).extend(touched_by(printed))
    for team, loops in teams.items():
        waits = _waits(order)
        for first, second in product(loops.items(), repeat=2):
            for base in dict.fromkeys(touch.at.base for touch in first[1] if touch.write):
                if base in order.program.parts:
                    raise Unreadable(f"line {team.line}: a part of {base} in a team whose threads do not wait")
                if not (is_own(order, first[0], base) and is_own(order, second[0], base)):
                    _check(order, team, waits, _of(first, base), _of(second, base))


def _of(inside: _Inside, base: str) -> _Inside:
    return inside[0], [touch for touch in inside[1] if touch.at.base == base]


def _waits(order: Order) -> isl.Set | None:
    """{ [t…] } when threads wait."""
    return isl.united(order.time(one).range() for one in order.program.waits)


def _check(order: Order, team: Team, waits: isl.Set | None, writing: _Inside, other: _Inside) -> None:
    one, touches = writing
    written = elements_at(order, [touch for touch in touches if touch.write], order.length)
    everything = elements_at(order, other[1], order.length)
    if written is None or everything is None:
        return
    either = written.apply_range(everything.reverse())
    later = isl.Map.lex_lt(either.get_space().domain())
    pairs = isl.agree(either.union(either.reverse()), range(team.begin)).intersect(later)
    if waits is not None:
        pairs = pairs.subtract(later.intersect_range(waits).apply_range(later))
    if one is other[0]:
        # An iteration is one thread's, and its next ones where it has the same each time.
        pairs = isl.differ(pairs, one.times if one.stays else range(max(one.times) + 1))
    if not pairs.is_empty():
        a, b, where = pair(pairs)
        raise Wrong(
            f"line {one.line}: threads do not wait between {list(a)} and {list(b)}, which touch the same element of "
            f"{touches[0].at.base}, and one of them writes it{where}"
        )
