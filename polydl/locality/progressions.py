"""Sizes of unions of boxes seen through affine subscripts, many at once.

One array dimension of a box's image is { offset + sum of c_i * x_i : low_i <= x_i <= high_i }. It is nearly always an
arithmetic progression (a single iterator; a window whose inner extent covers the outer stride), and intersections of
progressions are progressions when one stride divides the other: both are computed for all rows together. Rows where
that fails are counted by listing values, each distinct case once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from polydl.base.records import dataclass
from polydl.locality.boxes import BoolArray, IntArray

LIST_LIMIT = 1_000_000
"""Values of one dimension that may be listed where it is no progression; an array dimension is rarely as long."""


class NotClosedForm(Exception):
    """A dimension is no progression and too long to list."""


@dataclass(frozen=True, slots=True)
class Term:
    """c * x for low <= x <= high, in each of R rows."""

    coefficient: int
    low: IntArray
    """(R,)"""
    high: IntArray
    """(R,); below `low` where the box is empty."""

    def take(self, rows: IntArray) -> Term:
        return Term(self.coefficient, self.low[rows], self.high[rows])


@dataclass(frozen=True, slots=True)
class Sum:
    """One dimension of one box's image, as it is defined."""

    offset: int
    terms: tuple[Term, ...]

    def take(self, rows: IntArray) -> Sum:
        return Sum(self.offset, tuple(term.take(rows) for term in self.terms))


@dataclass(frozen=True, slots=True)
class Values:
    """One dimension of an intersection of images, in each of R rows."""

    start: IntArray
    stride: IntArray
    """At least 1."""
    count: IntArray
    """Values; 0 where empty. Meaningless where not `regular`."""
    regular: BoolArray
    """The values are start, start + stride, …; elsewhere they are those that all `members` have."""
    members: tuple[Sum, ...]

    def take(self, rows: IntArray) -> Values:
        return Values(
            self.start[rows],
            self.stride[rows],
            self.count[rows],
            self.regular[rows],
            tuple(member.take(rows) for member in self.members),
        )


def image(total: Sum, rows: int) -> Values:
    """The values of one dimension of a box, in R rows.

    Terms are added from the smallest coefficient up: a progression of stride g and n values takes in c * x when g
    divides c and n * g >= c (no gap opens), or when either has one value only.
    """
    start = np.full(rows, total.offset, dtype=np.int64)
    stride = np.ones(rows, dtype=np.int64)
    count = np.ones(rows, dtype=np.int64)
    regular = np.ones(rows, dtype=np.bool_)
    for term in sorted(total.terms, key=lambda each: abs(each.coefficient)):
        size = abs(term.coefficient)
        extent = np.maximum(term.high - term.low + 1, 0)
        start = start + term.coefficient * (term.low if term.coefficient > 0 else term.high)
        single, alone = extent == 1, count == 1
        dense = (size % stride == 0) & (count * stride >= size)
        regular &= single | alone | dense | (extent == 0)
        grown = np.where(alone, extent, count + (extent - 1) * (size // stride))
        stride = np.where(single | ~alone, stride, size)
        count = np.where(single, count, grown)
        empty = (extent == 0) | (count == 0)
        count = np.where(empty, 0, count)
        regular |= empty
    return Values(start, stride, count, regular, (total,))


def intersect(left: Values, right: Values) -> Values:
    """Common values, row by row."""
    start, stride, count = right.start, right.stride, right.count
    # A single value has every stride: give it the other's, so that one divides the other.
    stride_left = np.where(left.count <= 1, stride, left.stride)
    stride_right = np.where(count <= 1, stride_left, stride)
    swap = stride_left > stride_right
    fine_start, fine_stride = np.where(swap, start, left.start), np.where(swap, stride_right, stride_left)
    fine_count = np.where(swap, count, left.count)
    coarse_start, coarse_stride = np.where(swap, left.start, start), np.where(swap, stride_left, stride_right)
    coarse_count = np.where(swap, left.count, count)
    divides = coarse_stride % fine_stride == 0
    in_phase = (coarse_start - fine_start) % fine_stride == 0
    last = np.minimum(fine_start + (fine_count - 1) * fine_stride, coarse_start + (coarse_count - 1) * coarse_stride)
    skipped = np.maximum(0, -((coarse_start - fine_start) // coarse_stride))
    first = coarse_start + skipped * coarse_stride
    found = np.where(in_phase, np.maximum(0, (last - first) // coarse_stride + 1), 0)
    nothing = left.regular & (left.count == 0) | right.regular & (count == 0)
    regular = left.regular & right.regular & divides | nothing
    return Values(first, coarse_stride, np.where(nothing, 0, found), regular, left.members + right.members)


def sizes(values: Values) -> IntArray:
    """Number of values in each row. Raises NotClosedForm past LIST_LIMIT."""
    if values.regular.all():
        return values.count
    result = values.count.copy()
    rows = np.flatnonzero(~values.regular)
    columns = [column[rows] for member in values.members for term in member.terms for column in (term.low, term.high)]
    cases, inverse = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    result[rows] = np.array([_listed(values.members, case) for case in cases.tolist()], dtype=np.int64)[
        inverse.reshape(-1)
    ]
    return result


def _listed(members: Sequence[Sum], bounds: list[int]) -> int:
    """Number of values that all members have, their terms' bounds being consecutive pairs of `bounds`."""
    common: IntArray | None = None
    for member in members:
        width = 2 * len(member.terms)
        found, bounds = _values(member, bounds[:width]), bounds[width:]
        common = found if common is None else np.intersect1d(common, found, assume_unique=True)
    return 0 if common is None else len(common)


def _values(total: Sum, bounds: list[int]) -> IntArray:
    """The values of a sum, sorted, its terms' bounds being consecutive pairs of `bounds`."""
    found = np.array([total.offset], dtype=np.int64)
    for term, low, high in zip(total.terms, bounds[::2], bounds[1::2], strict=True):
        if len(found) * max(0, high - low + 1) > LIST_LIMIT:
            raise NotClosedForm
        steps = term.coefficient * np.arange(low, high + 1, dtype=np.int64)
        found = np.unique(found[:, None] + steps[None, :])
    return found


Box = tuple[Sum, ...]
"""The image of one box: one Sum per array dimension. A 0-D array has none: then a box is one element or nothing."""


MASK_BITS = 52
"""Boxes that a bit mask summed in double precision can tell apart."""
FEW = 5
"""Boxes with elements in common that inclusion and exclusion is used for: at most 2**FEW terms."""


def union_sizes(boxes: Sequence[tuple[Box, BoolArray]], rows: int) -> IntArray:
    """(R,): elements in the union of the boxes' images; a box counts in the rows of its mask only.

    Raises NotClosedForm when a dimension that is no progression is too long to list.
    """
    result = np.zeros(rows, dtype=np.int64)
    if not boxes:
        return result
    present = np.stack([mask for _, mask in boxes])
    images = [box for box, _ in boxes]
    many = np.flatnonzero(present.sum(axis=0) > FEW)
    if len(many):
        some = [tuple(total.take(many) for total in box) for box in images]
        kept = _without_contained(some, present[:, many])
        present[:, many] = kept
        most = np.flatnonzero(kept.sum(axis=0) > FEW)
        if len(most):
            left = [tuple(total.take(most) for total in box) for box in some]
            result[many[most]] = _by_patterns(left, kept[:, most])
            present[:, many[most]] = False
    _by_inclusion(images, present, result)
    return result


def _by_inclusion(boxes: Sequence[Box], present: BoolArray, result: IntArray) -> None:
    """Adds the sizes of unions to `result`, following only sets of boxes, and rows, that have elements in common."""

    def account(position: int, values: tuple[Values, ...], chosen: IntArray, sign: int) -> None:
        product = np.ones(len(chosen), dtype=np.int64)
        for each in values:
            product *= sizes(each)
        alive = np.flatnonzero(product)
        if not len(alive):
            return
        result[chosen[alive]] += sign * product[alive]
        if len(alive) < len(chosen):
            values, chosen = tuple(each.take(alive) for each in values), chosen[alive]
        for later in range(position + 1, len(boxes)):
            both = np.flatnonzero(present[later, chosen])
            if len(both):
                subset = chosen[both]
                common = tuple(
                    intersect(known.take(both), image(total.take(subset), len(subset)))
                    for known, total in zip(values, boxes[later], strict=True)
                )
                account(later, common, subset, -sign)

    for position, box in enumerate(boxes):
        chosen = np.flatnonzero(present[position])
        if len(chosen):
            account(position, tuple(image(total.take(chosen), len(chosen)) for total in box), chosen, 1)


def _without_contained(boxes: Sequence[Box], present: BoolArray) -> BoolArray:
    """`present` less the boxes whose image lies in that of another one; of equal ones the first stays."""
    rows = present.shape[1]
    images = [tuple(image(total, rows) for total in box) for box in boxes]
    own = [_product(values, rows) for values in images]
    kept = present & (np.stack(own) > 0)
    for i in range(len(boxes)):
        for j in range(len(boxes)):
            chosen = np.flatnonzero(kept[i] & kept[j]) if i != j else np.zeros(0, dtype=np.int64)
            if len(chosen):
                common = tuple(
                    intersect(a.take(chosen), b.take(chosen)) for a, b in zip(images[i], images[j], strict=True)
                )
                inside = _product(common, len(chosen)) == own[j][chosen]
                kept[j, chosen[inside]] = False
    return kept


def _product(values: tuple[Values, ...], rows: int) -> IntArray:
    product = np.ones(rows, dtype=np.int64)
    for each in values:
        product *= sizes(each)
    return product


def _by_patterns(boxes: Sequence[Box], present: BoolArray) -> IntArray:
    """Sizes of unions of many boxes, each different row once.

    In each dimension the values are counted by the set of boxes that have them (a bit mask); an element is in the
    union when some box has all its coordinates, i.e. when the intersection of its masks isn't empty.
    """
    columns = [present.T.astype(np.int64)]
    for box in boxes:
        for total in box:
            for term in total.terms:
                columns += [term.low[:, None], term.high[:, None]]
    _, first, inverse = np.unique(np.concatenate(columns, axis=1), axis=0, return_index=True, return_inverse=True)
    chosen = [tuple(total.take(first) for total in box) for box in boxes]
    images = [[image(total, len(first)) for total in box] for box in chosen]
    ends = [
        [
            (
                each.start.tolist(),
                (each.start + each.count - 1).tolist(),
                (each.regular & ((each.stride == 1) | (each.count <= 1))).tolist(),
            )
            for each in box
        ]
        for box in images
    ]
    counts = []
    for row, there in enumerate(present[:, first].T.tolist()):
        numbers = [number for number, mask in enumerate(there) if mask]
        if len(numbers) > MASK_BITS:
            raise NotClosedForm
        patterns = {(1 << len(numbers)) - 1: 1}
        for dimension in range(len(boxes[0])):
            intervals = [(low[row], high[row]) for low, high, _ in (ends[n][dimension] for n in numbers)]
            if all(ends[number][dimension][2][row] for number in numbers):
                cells = _cells(intervals)
            else:
                cells = _listed_cells([chosen[number][dimension] for number in numbers], row)
            combined: dict[int, int] = {}
            for mask, length in cells.items():
                for pattern, count in patterns.items():
                    if mask & pattern:
                        combined[mask & pattern] = combined.get(mask & pattern, 0) + count * length
            patterns = combined
        counts.append(sum(patterns.values()))
    return np.array(counts, dtype=np.int64)[inverse.reshape(-1)]


def _cells(intervals: list[tuple[int, int]]) -> dict[int, int]:
    """Numbers of integers by the set of intervals (low, high) that they lie in, as a bit mask."""
    cuts = sorted({cut for low, high in intervals for cut in (low, high + 1)})
    cells: dict[int, int] = {}
    for low, end in itertools.pairwise(cuts):
        mask = sum(1 << bit for bit, (first, last) in enumerate(intervals) if first <= low <= last)
        cells[mask] = cells.get(mask, 0) + end - low
    return cells


def _listed_cells(totals: list[Sum], row: int) -> dict[int, int]:
    """As `_cells`, for sums that are no intervals."""
    found = []
    for total in totals:
        found.append(_values(total, [int(bound[row]) for term in total.terms for bound in (term.low, term.high)]))
    bits = np.concatenate([np.full(len(values), 1 << bit, dtype=np.int64) for bit, values in enumerate(found)])
    _, inverse = np.unique(np.concatenate(found), return_inverse=True)
    masks = np.bincount(inverse.reshape(-1), weights=bits.astype(np.float64)).astype(np.int64)
    kinds, numbers = np.unique(masks, return_counts=True)
    return dict(zip(kinds.tolist(), numbers.tolist(), strict=True))
