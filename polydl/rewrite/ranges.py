"""Ranges of a loop's iterations, of which parameters may say where they begin and end, and what is special at ends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.time import map_from_affs
from polydl.rewrite.scratch_array import box_of

MOST_EDGE = 64
"""Iterations at either end of a loop that may be special."""
Runs = tuple[tuple[int, ...], tuple[int, ...]]
"""How many iterations each at the beginning and at the end of a loop are special in the same way, from the ends inward.
"""


@dataclass(frozen=True, slots=True)
class Range:
    """Iterations of a loop from a first to a last one; those that stay together, where others are cut off."""

    first: isl.PwAff
    """{ [parameters] -> [v] }"""
    last: isl.PwAff

    @property
    def extent(self) -> isl.PwAff:
        """How many there are."""
        return self.last.sub(self.first).add_constant_val(isl.value(1))

    def common(self, other: Range) -> Range:
        """What is in both."""
        return Range(self.first.max(other.first).coalesce(), self.last.min(other.last).coalesce())

    def around(self, other: Range) -> Range:
        """The least one that has both in it."""
        return Range(self.first.min(other.first).coalesce(), self.last.max(other.last).coalesce())

    def cut(self, below: Sequence[int], above: Sequence[int]) -> list[Range]:
        """What stays where so many of the first and of the last ones are cut off, one part after the other from the
        ends inward; and then these parts, in order."""
        lows = [self.first.add_constant_val(isl.value(n)) for n in accumulate(below, initial=0)]
        highs = [self.last.add_constant_val(isl.value(-n)) for n in accumulate(above, initial=0)]
        first = [Range(low, end.add_constant_val(isl.value(-1))) for low, end in pairwise(lows)]
        last = [Range(end.add_constant_val(isl.value(1)), high) for high, end in pairwise(highs)]
        return [Range(lows[-1], highs[-1]), *first, *reversed(last)]

    def of(self, points: isl.Set, dim: int) -> isl.Set:
        """The points of a set with a coordinate in it."""
        at = isl.PwAff.from_aff(isl.coordinate(points, dim))
        inside = at.ge_set(isl.lifted(self.first, points)).intersect(at.le_set(isl.lifted(self.last, points)))
        return points.intersect(inside).coalesce()


def whole_of(points: isl.Set, dim: int) -> Range | None:
    """The values of a coordinate; None where they have no end."""
    box = box_of(isl.project_onto(points, [dim]).reset_tuple_id())
    return (
        None if box is None else Range(box.first[0], box.first[0].add(box.extents[0]).add_constant_val(isl.value(-1)))
    )


def edges(value: isl.Set, lacking: isl.Set) -> tuple[int, int] | None:
    """{ [v] }: how many values at either end of a range have some in front of them that lack something, for all values
    of the parameters; None where there is no such number, or a large one."""
    whole = whole_of(value, 0)
    if whole is None:
        return None
    at = isl.PwAff.from_aff(isl.coordinate(lacking, 0))
    before, behind = at.sub(isl.lifted(whole.first, lacking)), isl.lifted(whole.last, lacking).sub(at)
    found: list[int] = []
    for distance, other, strictly in ((before, behind, False), (behind, before, True)):
        near = distance.lt_set(other) if strictly else distance.le_set(other)
        here = lacking.intersect(near)
        # Where a coordinate is said by parameters, isl may write halves of them, which have no greatest value for it.
        most = distance.intersect_domain(here).floor().max_val() if not here.is_empty() else isl.value(-1)
        if not most.is_int() or isl.to_int(most) >= MOST_EDGE:
            return None
        found.append(isl.to_int(most) + 1)
    return found[0], found[1]


def runs_at_ends(value: isl.Set, lacking: isl.Set) -> Runs | None:
    """How many neighbours each lack the same, at either end of a range { [v] }, from there inward, for all values of
    the parameters for which the ends are apart. `lacking`: { [v, …] } what values lack. None where `edges` has no such
    numbers."""
    whole, ends = whole_of(value, 0), edges(value, isl.project_onto(lacking, [0]))
    if whole is None or ends is None:
        return None
    wide = whole.extent.ge_set(isl.PwAff.from_aff(isl.constant(isl.unnamed_space(0), sum(ends)))).params()
    lacking = lacking.intersect_params(wide)
    at = isl.coordinates(lacking)
    before = map_from_affs(lacking, [at[0].add_constant_val(isl.value(1)), *at[1:]]).range()
    begins = isl.project_onto(before.subtract(lacking).union(lacking.subtract(before)), [0])
    begin = isl.PwAff.from_aff(isl.coordinate(begins, 0)).intersect_domain(begins)
    place = begin.sub(isl.lifted(whole.first, begins))
    left = isl.lifted(whole.extent, begins).sub(place)

    def runs(most: int, distance: isl.PwAff) -> tuple[int, ...]:
        cuts = [n for n in range(1, most) if not distance.add_constant_val(isl.value(-n)).zero_set().is_empty()]
        return tuple(b - a for a, b in pairwise([0, *cuts, most])) if most else ()

    return runs(ends[0], place), runs(ends[1], left)
