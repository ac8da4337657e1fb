"""Index-set splitting: statements cut where a dependence begins or ends, so that what lies between is independent.

source:    Griebl, Feautrier, Lengauer, "Index set splitting", 2000; Bondhugula et al., TOPLAS 2014
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polydl.dependences.analysis import Dependence, dependences
from polydl.dependences.legality import conflicts
from polydl.equations.step import Step
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.scop import Assignment, Scop, Statement
from polydl.rewrite.cut import Piece, cut

_MOST_STATEMENTS = 4
"""Statements of a scop up to which it is split: each split triples one, and dependences are between pairs."""


WHERE = "where its dependences begin or end"


def split(scop: Scop, found: Sequence[Dependence]) -> Iterator[Step]:
    """Cut statements in three where that makes their loops independent, a step per depth (`Cut`).

    `found`: the dependences of the scop. Raises QuotaExceeded.
    """
    if len(scop.statements) > _MOST_STATEMENTS:
        return
    for depth in range(1, max((s.depth for s in scop.statements), default=0)):
        with quota(f"the index sets of {scop.function}"):
            cuts = {s.name: plane for s in scop.statements if (plane := _cut(s, found, depth)) is not None}
        if cuts:
            step = cut(scop, {name: _pieces(scop.statement(name), cuts[name]) for name in cuts}, WHERE)
            yield step
            scop = step.after
            found = dependences(scop, reads=False)


def _pieces(statement: Statement, plane: isl.Aff) -> list[Piece]:
    """What is below, on and above the plane on which a function is zero."""
    value = isl.PwAff.from_aff(plane)
    sides = value.neg().pos_set(), value.zero_set(), value.pos_set()
    return [Piece("abc"[n], statement.domain.intersect(side), {-1: n}) for n, side in enumerate(sides)]


def _cut(statement: Statement, found: Sequence[Dependence], depth: int) -> isl.Aff | None:
    """{ S[i…] -> [v] }, zero on the plane in which every dependence that the loop at `depth` carries begins or ends,
    growing with the loop; None when there is no such plane, or no dependence."""
    if depth >= statement.depth or not isinstance(statement.body, Assignment):
        return None
    carried = [
        d
        for d in conflicts(found)
        if d.source == statement.name and d.target == statement.name and d.depth == depth and not d.reduction
    ]
    planes: list[isl.Aff] = []
    for d in carried:
        for basic in d.relation.get_basic_maps():
            ends = [_plane(end, depth) for end in (basic.domain(), basic.range())]
            known = [plane for plane in ends if plane is not None]
            if not known:
                return None
            if not any(plane.plain_is_equal(other) for plane in known for other in planes):
                planes.append(known[0])
    return planes[0] if len(planes) == 1 else None


def _plane(end: isl.BasicSet, depth: int) -> isl.Aff | None:
    """The equality that fixes the loop at `depth` in terms of outer loops on one end of a dependence, if there is
    one, as an expression that grows with the loop."""
    for aff in isl.equalities(end.affine_hull()):
        factors = isl.coefficients(aff)
        if factors is None or abs(factors[depth]) != 1 or any(factors[depth + 1 :]):
            continue
        if not any(factors[:depth]):
            continue  # a fixed iteration: peeling it off is not what makes the rest independent
        return aff.neg() if factors[depth] < 0 else aff
    return None
