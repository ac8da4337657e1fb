"""How many iterations of the loops around rows are taken together: by estimate, among those that are legal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from polydl.base.errors import QuotaExceeded
from polydl.dependences.analysis import Dependence
from polydl.model import isl
from polydl.model.accumulation import accumulates
from polydl.model.isl import quota
from polydl.model.scop import Scop, Statement
from polydl.rank.estimator import Estimator
from polydl.schedule.innermost_passes import WRITTEN_OUT
from polydl.schedule.ordered import Ordered
from polydl.schedule.transforms import Vectorize
from polydl.schedule.tree import bands
from polydl.schedule.tree_check import broken

JAMS: tuple[tuple[int, ...], ...] = ((2,), (4,), (8,), (2, 2), (4, 2), (4, 4), (1, 4))
"""Iterations that are tried: of the loop right around a row, then of the one around that."""
PROMISE = 0.95
"""Part of the time without to which it must bring a part of a program."""
_CHECKED = 2
"""Of these, the best by estimate, that are checked until one is legal."""
_STEP = 2_000_000
"""isl operations that a check may take."""


def best_jam(part: Ordered, found: Sequence[Dependence], estimator: Estimator, *, reassociate: bool) -> tuple[int, ...]:
    """The iterations of the loops around its rows that a part had better take together; empty: one. Raises
    QuotaExceeded.

    Only where something accumulates, which stays in registers then, and where rows are as long in all of them: a row is
    of statements that run in each of its columns. Parts of which loops are written out already stay as they are.
    """
    if not any(_accumulates_here(estimator.scop, statement) for statement in part.statements):
        return ()
    if _written_out(part) or not all(_rectangular(s) for s in part.statements):
        return ()
    order = 0 if reassociate else 1
    least = estimator.alone(part.after(Vectorize((), order))).score * PROMISE
    made = {jam: part.after(Vectorize((), order, jam)) for jam in JAMS}
    most = WRITTEN_OUT // len(part.statements)
    other = [jam for jam in JAMS if math.prod(jam) <= most and _written_out(made[jam]) == sum(n > 1 for n in jam)]
    promising = sorted(
        (one for one in ((estimator.alone(made[jam]).score, jam) for jam in other) if one[0] < least),
        key=lambda one: one[0],
    )
    for _, jam in promising[:_CHECKED]:
        try:
            with quota(f"rows of {part.name} together", _STEP):
                if broken(estimator.scop, part.statements, made[jam].tree, found, reassociate=reassociate) is None:
                    return jam
        except QuotaExceeded:
            return ()  # the row of one iteration is there as well
    return ()


def _written_out(part: Ordered) -> int:
    """Loops that are, each once."""
    return len({id(member.key) for band in bands(part.tree) for member in band.members if member.unroll})


def _rectangular(statement: Statement) -> bool:
    pieces = statement.domain.get_basic_sets()
    return len(pieces) == 1 and isl.is_box(pieces[0])


def _accumulates_here(scop: Scop, statement: Statement) -> bool:
    """Whether several iterations of a statement combine values in one element."""
    return accumulates(scop, statement) and not statement.target.relation.is_injective()
