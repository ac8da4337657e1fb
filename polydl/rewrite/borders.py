"""Contractions with conditions at their borders, as an interior without conditions and a piece for each border.

    for y: for x: for ky: for kx: if (0 <= y + ky - 1 < H && 0 <= x + kx - 1 < W) out[y][x] += in[…] * w[ky][kx];

Inside, every tap is there. At the borders some are not, always the same ones: row 0 has no ky = 0. Each piece is a box
of outputs times a box of taps, so that a microkernel computes it; what would multiply a zero of the padding is in none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.schedule import map_from_affs
from polydl.model.scop import Scop, Statement
from polydl.rewrite.same import cut_broken
from polydl.rewrite.step import Step
from polydl.rewrite.terms import part_of
from polydl.target.isa import kernel_contraction

_MOST_PIECES = 25
"""Of a statement: those of a filter of five by five taps. Each is a nest of its own."""

_Range = tuple[int, int]
"""First and last value."""


@dataclass(frozen=True, slots=True)
class Borders:
    """Statements are cut into boxes: where all of the reduction's terms are there, and where some are not.

    before:    for y: for k: if (0 <= y + k - 1 < H) out[y] += in[y + k - 1] * w[k]
    after:     for 1 <= y < H - 1: for k: …;   for y = 0: for 1 <= k: …;   for y = H - 1: for k < 2: …
    requires:  the parts of a statement cover its instances and have none in common; two of them in one loop keep its
               order
    """

    parts: tuple[tuple[str, tuple[str, ...]], ...]
    """(statement, its parts), in textual order."""

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `polydl.rewrite.step.Rewrite`."""
        return cut_broken(before, after, self.parts)

    def __str__(self) -> str:
        return "; ".join(f"{name} is cut at its borders into {len(own)} boxes" for name, own in self.parts)


def borders(scop: Scop) -> Iterator[Step]:
    """Cut every contraction whose conditions are at its borders (`Borders`). Raises QuotaExceeded."""
    cut: dict[str, list[isl.Set]] = {}
    with quota(f"the borders of {scop.function}"):
        for statement in scop.statements:
            found = _boxes(scop, statement)
            if found:
                cut[statement.name] = found
    if not cut:
        return
    room = max(map(len, cut.values()))
    statements: list[Statement] = []
    for statement in scop.statements:
        # As much room at each depth: order and equality of positions stay as they are.
        position = tuple(room * p for p in statement.position)
        boxes = cut.get(statement.name, [])
        for which, box in enumerate(boxes):
            place = (*position[:-1], position[-1] + which)
            statements.append(part_of(statement, box, f"{statement.name}b{which}", place))
        if not boxes:
            statements.append(replace(statement, position=position))
    named = tuple((name, tuple(f"{name}b{which}" for which in range(len(boxes)))) for name, boxes in cut.items())
    yield Step(Borders(named), scop, replace(scop, statements=tuple(statements)))


def _boxes(scop: Scop, statement: Statement) -> list[isl.Set]:
    """The boxes that a contraction's instances are cut into, the interior first; empty where it is one, or where they
    are none or too many."""
    domain = statement.domain.coalesce()
    if domain.is_empty() or isl.involved_parameters(domain) or _is_box(domain, statement):
        return []
    found = kernel_contraction(scop, statement)
    if found is None or not found.reductions:
        return []
    reductions = [statement.iterators.index(name) for name in found.reductions]
    outputs = [i for i in range(statement.depth) if i not in reductions]
    ranges = [_ranges(domain, dim, reductions) for dim in outputs]
    count = 1
    for one in ranges:
        count *= len(one)
    if not all(ranges) or not 1 < count <= _MOST_PIECES:
        return []
    boxes = []
    for choice in product(*ranges):
        part = domain
        for dim, (first, last) in zip(outputs, choice, strict=True):
            part = isl.between(part, dim, first, last)
        part = part.coalesce()
        if part.is_empty():
            continue
        if not _is_box(part, statement):
            return []
        boxes.append(part)
    return boxes


def _ranges(domain: isl.Set, dim: int, reductions: Sequence[int]) -> list[_Range]:
    """The values of one of the outputs' loops: those for which every term of the reductions is there, then each other
    one by itself; empty where the former are none, or not more than the latter."""
    low, high = isl.bounds(domain, dim)
    at = isl.coordinates(domain)
    value, taps = map_from_affs(domain, [at[dim]]).range(), map_from_affs(domain, [at[r] for r in reductions]).range()
    there = map_from_affs(domain, [at[dim], *(at[r] for r in reductions)]).range()
    lacking = isl.project_onto(value.flat_product(taps).subtract(there), [0])
    first = next((v for v in range(low, min(high, low + _MOST_PIECES) + 1) if isl.fix(lacking, 0, v).is_empty()), None)
    if first is None:
        return []
    least = isl.least(isl.between(lacking, 0, first, high), 0)
    last = high if least is None else least - 1
    edges = [*range(low, first), *range(last + 1, high + 1)]
    # In a triangle every value lacks other terms: that is no border.
    return [(first, last), *((v, v) for v in edges)] if len(edges) <= last - first else []


def _is_box(of: isl.Set, statement: Statement) -> bool:
    """Whether a set is a range of values for each loop."""
    box = isl.Set.universe(of.get_space())
    for dim in range(statement.depth):
        box = isl.between(box, dim, *isl.bounds(of, dim))
    return bool(box.is_equal(of))
