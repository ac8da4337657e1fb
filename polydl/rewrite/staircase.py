"""Triangles of sums in arrays that nobody reads afterwards, completed to boxes: a few terms too many, all of them in
microkernels.

    for i: for j <= i: { t[i][j] = 0;  for k: t[i][j] += A[i][k] * A[j][k]; }

Nobody reads the rest of `t` (the scores of causal attention), so the rows are cut into bands, and each band runs to the
end of its last row. With four bands that is a quarter more work than the triangle, without the tiles on its edge, which
are as much and slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from polydl.equations.equality import Instances
from polydl.equations.step import Rule, Step
from polydl.model import isl
from polydl.model.counting import count
from polydl.model.isl import quota
from polydl.model.scop import Access, Scop, Statement, Storage
from polydl.model.time import map_from_affs
from polydl.rewrite.cut import parts_of, with_room
from polydl.rewrite.scratch_array import Box, box_of, elements_of, ends_of
from polydl.target.isa import has_register_blocks, kernel_contraction

_BANDS = 4
_LEAST = 16
"""Rows of a band: with fewer, blocks of registers are not filled."""
_MOST = 1.4
"""Instances afterwards, in parts of those before."""


@dataclass(frozen=True, slots=True)
class Completed(Rule):
    """Statements get further instances, which compute elements that nobody reads of an array of the program's own, so
    that they run in boxes.

    before:    for i: for j <= i: t[i][j] += A[i][k] * A[j][k]
    after:     for i in band: for j <= last row of band: t[i][j] += A[i][k] * A[j][k];  … for each band
    requires:  each instance is in one of the boxes; what the others write is written and read by nothing else, and
               they read what was read before
    """

    array: str
    parts: tuple[tuple[str, tuple[str, ...]], ...]
    """(statement, its parts), in textual order."""

    def instances(self, before: Scop) -> Instances:
        """See `Rule.instances`."""
        return parts_of(before, self.parts)

    def __str__(self) -> str:
        return (
            f"{self.array} is computed in boxes: {', '.join(name for name, _ in self.parts)} run further than they must"
        )


def staircase(scop: Scop) -> Iterator[Step]:
    """Complete the triangles of contractions into arrays of the program's own (`Completed`). Raises QuotaExceeded."""
    for name, array in scop.arrays.items():
        if array.storage is Storage.SCRATCH or not (array.is_scalar or name in scop.live_out):
            with quota(f"the boxes of {name}"):
                step = _step(scop, name)
                if step is not None and step.broken() is None:
                    yield step
                    scop = step.after


def _step(scop: Scop, array: str) -> Step | None:
    writing = [s for s in scop.statements if any(a.array == array and a.write for a in s.accesses)]
    adding = [s for s in writing if has_register_blocks(scop, s)]
    if len(adding) != 1 or adding != writing[1:2]:
        return None
    (sum_,) = adding
    writing = writing[:2]
    found = kernel_contraction(scop, sum_)
    assert found is not None  # says `has_register_blocks`
    along = (i for i in sum_.iterators if i not in found.reductions)
    boxes = next((boxes for i in along if (boxes := _boxes(sum_, i)) is not None), None)
    if boxes is None:
        return None
    cut: dict[str, list[Statement]] = {}
    for statement in writing:
        made = [_part(statement, sum_, box, f"{statement.name}s{which}") for which, box in enumerate(boxes)]
        cut[statement.name] = [part for part in made if part is not None]
        if len(cut[statement.name]) < len(boxes):
            return None
    statements: list[Statement] = []
    for s in with_room(scop, _BANDS).statements:
        places = ((*s.position[:-1], s.position[-1] + which) for which in range(_BANDS))
        statements += [replace(part, position=place) for part, place in zip(cut.get(s.name, ()), places, strict=False)]
        statements += [s] if s.name not in cut else []
    named = tuple((name, tuple(part.name for part in parts)) for name, parts in cut.items())
    return Step(Completed(array, named), scop, replace(scop, statements=tuple(statements)))


def _boxes(statement: Statement, along: str) -> list[Box] | None:
    """A box of all loops for each band of one; None where there are none, or hardly better ones. Parameters may say how
    long other loops are than those of the triangle."""
    domain, whole = statement.domain, box_of(statement.domain)
    if whole is None:
        return None
    ranges = zip(statement.iterators, whole.first, whole.extents, strict=True)
    fixed = [i for i, *range_ in ranges if not any(map(isl.involved_parameters, range_))]
    triangle = isl.without_parameters(isl.project_onto(domain, fixed))
    ends = ends_of(triangle)
    if ends is None or along not in fixed:
        return None
    low, high = dict(zip(fixed, ends, strict=True))[along]
    rows = -(-(high - low + 1) // _BANDS)
    if rows < _LEAST:
        return None
    boxes: list[Box] = []
    size = 0
    for first in range(low, high + 1, rows):
        last = min(high, first + rows - 1)
        box = box_of(isl.between(domain, along, first, last))
        band = ends_of(isl.between(triangle, along, first, last))
        if box is None or band is None:
            return None
        boxes.append(box)
        size += elements_of(band)
    wanted = count(triangle)
    return boxes if wanted.exact and wanted.lower < size <= _MOST * wanted.lower else None


def _part(statement: Statement, sum_: Statement, box: Box, name: str) -> Statement | None:
    """The instances of a statement in a box of loops that it shares with the sum, and all that are missing there; None
    where its accesses are no affine functions."""
    shared = len(statement.iterators)
    if statement.iterators != sum_.iterators[:shared]:
        return None
    points = Box(box.first[:shared], box.extents[:shared]).points(statement.domain)
    domain = isl.named(points.set_tuple_name(name), statement.iterators)
    accesses: list[Access] = []
    for access in statement.accesses:
        if not access.exact or not access.relation.is_single_valued():
            return None
        subscripts: list[isl.Aff] = []
        for one in isl.components(access.relation.as_pw_multi_aff()):
            pieces = isl.pieces(isl.function_named(one.gist(statement.domain), name))
            if len(pieces) != 1:
                return None
            subscripts.append(pieces[0][1])
        relation = isl.range_named(map_from_affs(domain, subscripts), access.array)
        accesses.append(replace(access, relation=relation))
    return replace(statement, name=name, domain=domain, accesses=tuple(accesses))
