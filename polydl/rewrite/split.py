"""Index-set splitting: statements cut where a dependence begins or ends, so that what lies between is independent.

source:    Griebl, Feautrier, Lengauer, "Index set splitting", 2000; Bondhugula et al., TOPLAS 2014
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from polydl.dependences.analysis import Dependence, dependences
from polydl.dependences.legality import ordering
from polydl.equations.equality import Instances
from polydl.equations.step import Rule, Step, parts_of
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.scop import Assignment, Scop, Statement
from polydl.rewrite.terms import part_of

_MOST_STATEMENTS = 4
"""Statements of a scop up to which it is split: each split triples one, and dependences are between pairs."""


@dataclass(frozen=True, slots=True)
class Cut(Rule):
    """Statements are cut in three: below, on and above a plane in which a loop's dependences begin or end.

    before:    for k: for i: for j: S                  (Floyd and Warshall: row k is read by every other row)
    after:     for k: for i < k: …;  for i = k: …;  for i > k: …
    requires:  the parts of a statement cover its instances and have none in common; two of them in one loop keep its
               order
    """

    parts: tuple[tuple[str, tuple[str, ...]], ...]
    """(statement, its parts), in textual order."""

    def instances(self, before: Scop) -> Instances:
        """See `Rule.instances`."""
        return parts_of(before, self.parts)

    def __str__(self) -> str:
        texts = [f"{name} is cut where its dependences begin or end: {', '.join(own)}" for name, own in self.parts]
        return "; ".join(texts)


def split(scop: Scop, found: Sequence[Dependence]) -> Iterator[Step]:
    """Cut statements in three where that makes their loops independent, a step per depth (`Cut`).

    `found`: the dependences of the scop. Raises QuotaExceeded.
    """
    if len(scop.statements) > _MOST_STATEMENTS:
        return
    for depth in range(1, max((s.depth for s in scop.statements), default=0)):
        with quota(f"the index sets of {scop.function}"):
            cuts = {s.name: cut for s in scop.statements if (cut := _cut(s, found, depth)) is not None}
        if cuts:
            step = _split(scop, cuts)
            yield step
            scop = step.after
            found = dependences(scop, reads=False)


def _cut(statement: Statement, found: Sequence[Dependence], depth: int) -> isl.Aff | None:
    """{ S[i…] -> [v] }, zero on the plane in which every dependence that the loop at `depth` carries begins or ends,
    growing with the loop; None when there is no such plane, or no dependence."""
    if depth >= statement.depth or not isinstance(statement.body, Assignment):
        return None
    carried = [
        d
        for d in ordering(found, reassociate=False)
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


def _split(scop: Scop, cuts: dict[str, isl.Aff]) -> Step:
    statements: list[Statement] = []
    parts: dict[str, tuple[str, ...]] = {}
    for statement in scop.statements:
        # Three times as much room at each depth: order and equality of positions stay as they are.
        position = tuple(3 * p for p in statement.position)
        if statement.name not in cuts:
            statements.append(replace(statement, position=position))
            continue
        value = isl.PwAff.from_aff(cuts[statement.name])
        below, on, above = value.neg().pos_set(), value.zero_set(), value.pos_set()
        for which, (suffix, part) in enumerate((("a", below), ("b", on), ("c", above))):
            domain = statement.domain.intersect(part)
            if not domain.is_empty():
                place = (*position[:-1], position[-1] + which)
                statements.append(part_of(statement, domain, statement.name + suffix, place))
                parts[statement.name] = (*parts.get(statement.name, ()), statement.name + suffix)
    made = replace(scop, statements=tuple(sorted(statements, key=lambda s: s.position)))
    return Step(Cut(tuple(parts.items())), scop, made)
