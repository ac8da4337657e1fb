"""Contractions with conditions at their borders, as an interior without conditions and a piece for each border.

    for y: for x: for ky: for kx: if (0 <= y + ky - 1 < H && 0 <= x + kx - 1 < W) out[y][x] += in[…] * w[ky][kx];

Inside, every tap is there. At the borders some are not, always the same ones: row 0 has no ky = 0. Each piece is a box
of outputs times a box of taps, so that a microkernel computes it; what would multiply a zero of the padding is in none.
Rows that lack the same taps are in one piece: where taps are four rows apart, these are four.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product

from polydl.equations.step import Step
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.scop import Scop, Statement
from polydl.model.time import map_from_affs
from polydl.rewrite.cut import Piece, cut
from polydl.rewrite.ranges import Range, Runs, runs_at_ends, whole_of
from polydl.rewrite.scratch_array import is_box
from polydl.target.isa import kernel_contraction

_MOST_PIECES = 25
"""Of a statement: those of a filter of five by five taps. Each is a nest of its own. Of larger filters what is at the
ends of several loops is one piece for each corner, with its conditions; of still larger ones what is at the ends of a
loop."""

WHERE = "at its borders"


def borders(scop: Scop) -> Iterator[Step]:
    """Cut every contraction whose conditions are at its borders: into a box where all of the reduction's terms are
    there, and pieces where some are not, boxes unless these would be too many (`Cut`). Raises QuotaExceeded.

    before:    for y: for k: if (0 <= y + k - 1 < H) out[y] += in[y + k - 1] * w[k]
    after:     for 1 <= y < H - 1: for k: …;   for y = 0: for 1 <= k: …;   for y = H - 1: for k < 2: …
    """
    with quota(f"the borders of {scop.function}"):
        found = {s.name: boxes for s in scop.statements if (boxes := _boxes(scop, s))}
    if found:
        yield cut(
            scop,
            {name: [Piece(f"b{n}", box, {-1: n}) for n, box in enumerate(boxes)] for name, boxes in found.items()},
            WHERE,
        )


def borders_stay(scop: Scop, statement: Statement) -> str | None:
    """Why a contraction is not cut at its borders; None for one without conditions there, and for other statements.
    Raises QuotaExceeded."""
    with quota(f"the borders of {statement.name}"):
        outputs = _outputs(scop, statement)
        boxes, cut_anyhow = _pieces(outputs), bool(_choices(statement.domain.coalesce(), outputs))
    many = boxes > _MOST_PIECES and not cut_anyhow
    return f"its borders are {boxes - 1} boxes, more than {_MOST_PIECES - 1}" if many else None


def _pieces(outputs: _Outputs) -> int:
    return math.prod(map(len, outputs.values()))


_Outputs = Mapping[int, Sequence[Range]]
"""Per output's loop of a contraction that is no box the ranges that it is cut into; empty for other statements."""


def _outputs(scop: Scop, statement: Statement) -> _Outputs:
    domain = statement.domain.coalesce()
    if domain.is_empty() or is_box(statement):
        return {}
    found = kernel_contraction(scop, statement)
    if found is None or not found.reductions:
        return {}
    reductions = [statement.iterators.index(name) for name in found.reductions]
    return {dim: _ranges(domain, dim, reductions) for dim in range(statement.depth) if dim not in reductions}


def _choices(domain: isl.Set, outputs: _Outputs) -> list[dict[int, Range]]:
    """By loop a range, for each of the pieces, the interior first; where they would be too many at sizes that are
    known, in fewer pieces. Empty where there are none, or too many."""

    def every(loops: _Outputs) -> list[dict[int, Range]]:
        return [dict(zip(loops, choice, strict=True)) for choice in product(*loops.values())]

    if not isl.involved_parameters(domain) and _pieces(outputs) > _MOST_PIECES:
        ends = {dim: _whole_ends(domain, dim, ranges) for dim, ranges in outputs.items()}
        borders_ = sum(len(ranges) - 1 for ranges in outputs.values())
        corners = [one for one in every(ends) if sum(one[dim] is not ends[dim][0] for dim in ends) > 1]
        if 1 + borders_ + len(corners) <= _MOST_PIECES:
            inside = {dim: ranges[0] for dim, ranges in outputs.items()}
            single = [{**inside, dim: one} for dim, ranges in outputs.items() for one in ranges[1:]]
            return [inside, *single, *corners]
        loops = dict(outputs)
        for dim in reversed(list(loops)):
            if _pieces(loops) > _MOST_PIECES:
                loops[dim] = ends[dim]
        outputs = loops
    return every(outputs) if 1 < _pieces(outputs) <= _MOST_PIECES else []


def _boxes(scop: Scop, statement: Statement) -> list[isl.Set]:
    """The pieces that a contraction's instances are cut into, the interior first, which is a box; empty where it is
    one, or where they are too many."""
    domain = statement.domain.coalesce()
    boxes: list[isl.Set] = []
    for choice in _choices(domain, _outputs(scop, statement)):
        part = domain
        for dim, values in choice.items():
            part = values.of(part, dim)
        if part.is_empty():
            continue
        if not boxes and not is_box(replace(statement, domain=part)):
            return []
        boxes.append(part)
    return boxes


def _ranges(domain: isl.Set, dim: int, reductions: Sequence[int]) -> list[Range]:
    """The values of one of the outputs' loops: those for which every term of the reductions is there, then the others,
    neighbours that lack the same terms together (of a dilated filter as many as taps are apart); empty where the former
    are none, or too few (`wide_enough`)."""
    found = _ends(domain, dim, reductions)
    if found is None or not domain.params().is_subset(wide_enough(*found)):
        return []
    whole, runs = found
    return whole.cut(*runs)


def _ends(domain: isl.Set, dim: int, others: Sequence[int]) -> tuple[Range, Runs] | None:
    """The values of a loop, and how many at its ends lack the same values of others; None where they have no such
    ends."""
    at = isl.coordinates(domain)
    value, across = (map_from_affs(domain, [at[d] for d in dims]).range() for dims in ([dim], others))
    there = map_from_affs(domain, [at[dim], *(at[d] for d in others)]).range()
    whole, runs = whole_of(value, 0), runs_at_ends(value, value.flat_product(across).subtract(there))
    return None if whole is None or runs is None else (whole, runs)


def _whole_ends(domain: isl.Set, dim: int, ranges: Sequence[Range]) -> list[Range]:
    """Of ranges as `_ranges` finds them the first one, and in place of the values before it, and of those behind it,
    all of them in one: the pieces are no boxes then, and their conditions stay."""
    if len(ranges) < 4:
        return list(ranges)
    inside, whole = ranges[0], whole_of(domain, dim)
    assert whole is not None, "it has ranges"
    below, above = inside.first.add_constant_val(isl.value(-1)), inside.last.add_constant_val(isl.value(1))
    return [inside, Range(whole.first, below), Range(above, whole.last)]


def wide_enough(values: Range, runs: Runs) -> isl.Set:
    """{ [parameters] } for which a range has more values between its ends than runs in them. In a triangle every value
    lacks other terms: that is no border."""
    least = sum(sum(lengths) + len(lengths) for lengths in runs) + 1
    return values.extent.ge_set(isl.PwAff.from_aff(isl.constant(isl.unnamed_space(0), least))).params()


def apart(scop: Scop) -> isl.Set:
    """{ [parameters] } for which the borders at both ends of every loop are apart: there some values of another loop
    are missing."""
    values = scop.context.params()
    for statement in scop.statements:
        domain = statement.domain
        if not isl.involved_parameters(domain) or is_box(statement):
            continue
        for dim, other in permutations(range(statement.depth), 2):
            found = _ends(domain, dim, [other])
            if found is not None and any(found[1]) and not _few(found[0].extent):
                enough = wide_enough(*found)
                # Loops that no parameter makes long enough (a triangle of known size) are not cut anywhere.
                values = values if enough.is_empty() else values.intersect(enough)
    return values


def _few(extent: isl.PwAff) -> bool:
    """Whether a loop has few values whatever the parameters are, as one over a filter has."""
    most = extent.max_val()
    return bool(most.is_int()) and isl.to_int(most) < 2 * _MOST_PIECES
