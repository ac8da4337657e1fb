"""Triangles of sums in arrays that nobody reads afterwards, completed to boxes: a few terms too many, all of them in
microkernels.

    for i: for j <= i: { t[i][j] = 0;  for k: t[i][j] += A[i][k] * A[j][k]; }

Nobody reads the rest of `t` (the scores of causal attention), so the rows are cut into bands, and each band runs to the
end of its last row. With four bands that is a quarter more work than the triangle, without the tiles on its edge, which
are as much and slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.equations.step import Step, one_by_one
from polydl.model import isl
from polydl.model.counting import count
from polydl.model.isl import quota
from polydl.model.scop import Assignment, Scop, Statement, Storage
from polydl.rewrite.cut import InParts, Piece, in_pieces
from polydl.rewrite.new_statements import forms_of, on_instances
from polydl.rewrite.scratch_array import Box, box_of, elements_of, ends_of
from polydl.target.isa import has_register_blocks, kernel_contraction

_BANDS = 4
_LEAST = 16
"""Rows of a band: with fewer, blocks of registers are not filled."""
_MOST = 1.4
"""Instances afterwards, in parts of those before."""


@dataclass(frozen=True, slots=True)
class Completed(InParts):
    """Statements get further instances, which compute elements that nobody reads of an array of the program's own, so
    that they run in boxes.

    before:    for i: for j <= i: t[i][j] += A[i][k] * A[j][k]
    after:     for i in band: for j <= last row of band: t[i][j] += A[i][k] * A[j][k];  … for each band
    requires:  each instance is in one of the boxes; what the others write is written and read by nothing else, and
               they read what was read before
    """

    array: str

    def __str__(self) -> str:
        return (
            f"{self.array} is computed in boxes: {', '.join(name for name, _ in self.parts)} run further than they must"
        )


def staircase(scop: Scop) -> Iterator[Step]:
    """Complete the triangles of contractions into arrays of the program's own (`Completed`). Raises QuotaExceeded."""
    unseen = (
        n for n, a in scop.arrays.items() if not (a.is_scalar or n in scop.live_out) or a.storage is Storage.SCRATCH
    )

    def made(scop: Scop, array: str) -> Step | None:
        with quota(f"the boxes of {array}"):
            return _step(scop, array)

    yield from one_by_one(scop, unseen, made)


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
    further = {s.name: _everywhere(s, sum_) for s in writing}
    if None in further.values():
        return None
    pieces: dict[str, list[Piece]] = {}
    for s in writing:
        shared = (Box(box.first[: s.depth], box.extents[: s.depth]) for box in boxes)
        pieces[s.name] = [Piece(f"s{n}", box.points(s.domain), {-1: n}) for n, box in enumerate(shared)]
    everywhere = replace(scop, statements=tuple(further.get(s.name) or s for s in scop.statements))
    parts, after = in_pieces(everywhere, pieces, _BANDS)
    return Step(Completed(parts, array), scop, after)


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


def _everywhere(statement: Statement, sum_: Statement) -> Statement | None:
    """A statement that has instances everywhere in the loops that it shares with the sum; None where it is in others,
    or its accesses are no affine functions."""
    shared = statement.iterators == sum_.iterators[: statement.depth] and isinstance(statement.body, Assignment)
    forms = forms_of(statement) if shared and all(a.exact for a in statement.accesses) else None
    everywhere = isl.Set.universe(statement.domain.get_space())
    return None if forms is None else on_instances(statement, forms, everywhere, statement.name)
