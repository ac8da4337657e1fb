"""Counts the cache lines and pages that boxes of array elements lie in, from the strides of the arrays' layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from polydl.base.records import dataclass
from polydl.locality.boxes import BoolArray, BoxAccess, BoxNest, IntArray, LoopBatch
from polydl.locality.progressions import Sum, Term, image

_ROWS = 1 << 13
"""Boxes that are looked at together: enough that NumPy's calls cost little, and few enough for a core's own cache."""


@dataclass(frozen=True, slots=True)
class UnitFootprints:
    """Lines (or pages) touched by the loops at each depth and inside, with the outer ones at 0."""

    units: IntArray
    """(V, D + 1, A) lines or pages, when the first element of each array is at the start of one."""
    exact: BoolArray
    """(V, D + 1, A); elsewhere runs begin inside a unit, and `units` is the number for runs that begin at the start of
    one, or it is a bound for several accesses of one array (`units_of`)."""
    runs: IntArray
    """(V, D + 1, A) runs without a gap of a whole unit that these units are in."""


def unit_footprints(nest: BoxNest, batch: LoopBatch, unit_bytes: int) -> UnitFootprints:
    """Footprints in units of `unit_bytes`: cache lines, pages.

    From the axis of storage with the smallest stride on: elements whose distance leaves no gap of a whole unit make one
    run; at the first axis that leaves gaps, runs are counted apart. A dimension that the layout cuts into several axes
    counts as the product of the digits that its subscripts take.
    """
    variants, depths, iterators = batch.cover.shape
    units = np.zeros((variants, depths, len(nest.arrays)), dtype=np.int64)
    exact, runs = np.zeros(units.shape, dtype=np.bool_), np.zeros_like(units)
    own = [tuple({a.function: a for a in nest.accesses if a.array == array}.values()) for array in nest.arrays]
    step = max(1, _ROWS // depths)
    for first in range(0, variants, step):
        some = slice(first, min(first + step, variants))
        shape = (some.stop - first, depths)
        high = batch.cover[some].reshape(math.prod(shape), iterators) - 1
        for number, functions in enumerate(own):
            found = units_of(nest, images_of(functions, high), unit_bytes)
            for into, column in zip((units, exact, runs), found, strict=True):
                into[some, :, number] = column.reshape(shape)
    return UnitFootprints(units, exact, runs)


@dataclass(frozen=True, slots=True)
class Images:
    """What functions of one array touch in R boxes."""

    array: str
    shape: tuple[int, int]
    """Functions, boxes."""
    subscripts: tuple[_Subscript, ...]
    """Per dimension of the array, of functions * boxes."""


def images_of(functions: Sequence[BoxAccess], high: IntArray) -> Images:
    """What functions of one array touch in the boxes [0, high]. `high` (R, iterators)."""
    return Images(functions[0].array, (len(functions), len(high)), _subscripts(functions, high))


def units_of(nest: BoxNest, touched: Images, unit_bytes: int) -> tuple[IntArray, BoolArray, IntArray]:
    """(R,) units in which the elements lie that any of the functions touches, where that is exact, and the runs that
    they make.

    Several functions touch no more than the box around all of them, and no more than each by itself: the smaller of
    the two is taken. A stencil is the box, a row and a column are two runs.
    """
    array, shape, images = touched.array, touched.shape, touched.subscripts
    units, exact, runs = _units(nest, array, images, math.prod(shape), unit_bytes)
    if shape[0] == 1:
        return units, exact, runs
    seen = _seen_before(images, shape)
    each, apart = (np.where(seen, 0, values.reshape(shape)).sum(axis=0) for values in (units, runs))
    box = tuple(_around(values, shape) for values in images)
    around, _, together = _units(nest, array, box, shape[1], unit_bytes)
    smaller = np.where(around <= each, together, apart)
    return np.minimum(each, around), np.zeros(shape[1], dtype=np.bool_), smaller


@dataclass(frozen=True, slots=True)
class _Progression:
    """start, start + stride, …: `count` values, in each of R boxes."""

    start: IntArray
    stride: IntArray
    count: IntArray

    @property
    def last(self) -> IntArray:
        """The greatest value."""
        return np.asarray(self.start + self.stride * (self.count - 1))


@dataclass(frozen=True, slots=True)
class _Subscript:
    """The values of one subscript in R boxes."""

    values: _Progression
    regular: BoolArray
    """Elsewhere the values are no progression, and the interval around them stands for them."""


def _subscripts(functions: Sequence[BoxAccess], high: IntArray) -> tuple[_Subscript, ...]:
    """Per dimension of an array the subscripts of F functions in R boxes [0, high], as those of F * R boxes: all that
    is asked of them is asked of all at once."""
    known: dict[tuple[int, ...], _Subscript] = {}
    for row in (row for function in functions for row in function.rows):
        if row not in known:
            known[row] = _subscript(row, high)
    return tuple(
        _Subscript(
            _Progression(
                np.concatenate([known[f.rows[d]].values.start + f.offsets[d] for f in functions]),
                np.concatenate([known[f.rows[d]].values.stride for f in functions]),
                np.concatenate([known[f.rows[d]].values.count for f in functions]),
            ),
            np.concatenate([known[f.rows[d]].regular for f in functions]),
        )
        for d in range(len(functions[0].rows))
    )


def _subscript(row: tuple[int, ...], high: IntArray) -> _Subscript:
    """A subscript with these coefficients of the iterators, whose constant term is 0."""
    low = np.zeros(len(high), dtype=np.int64)
    terms = tuple(Term(c, low, high[:, i]) for i, c in enumerate(row) if c)
    values = image(Sum(0, terms), len(high))
    first = sum((t.coefficient * t.high for t in terms if t.coefficient < 0), low)
    last = sum((t.coefficient * t.high for t in terms if t.coefficient > 0), low)
    around = ~values.regular
    progression = _Progression(
        np.where(around, first, values.start),
        np.where(around, 1, values.stride),
        np.where(around, last - first + 1, values.count),
    )
    return _Subscript(progression, values.regular)


def _seen_before(images: Sequence[_Subscript], shape: tuple[int, int]) -> BoolArray:
    """(F, R) whether an image is the same elements as one before it: each is compared with all of them at once."""
    ends = [
        end.reshape(shape)
        for image_ in images
        for end in (image_.values.start, image_.values.count, image_.values.last)
    ]
    found = np.zeros(shape, dtype=np.bool_)
    for number in range(1, len(found)):
        found[number] = np.logical_and.reduce([end[:number] == end[number] for end in ends]).any(axis=0)
    return found


def _around(subscript: _Subscript, shape: tuple[int, int]) -> _Subscript:
    """The interval around the values of several functions, in R boxes."""
    first = subscript.values.start.reshape(shape).min(axis=0)
    last = subscript.values.last.reshape(shape).max(axis=0)
    return _Subscript(_Progression(first, np.ones_like(first), last - first + 1), np.zeros(len(first), dtype=np.bool_))


def _units(
    nest: BoxNest, array: str, subscripts: Sequence[_Subscript], rows: int, unit_bytes: int
) -> tuple[IntArray, BoolArray, IntArray]:
    """(R,) units of one image, where that is exact, and runs."""
    element = nest.element_bytes[array]
    span = np.full(rows, element, dtype=np.int64)
    apart = np.ones(rows, dtype=np.int64)
    exact = np.ones(rows, dtype=np.bool_)
    axes: list[tuple[int, int, _Progression]] = []
    layout = nest.layouts[array]
    for dimension, subscript in enumerate(subscripts):
        values = subscript.values
        from_front = _Progression(values.start + layout.before[dimension], values.stride, values.count)
        places = layout.digits_of(dimension)
        digits = _digits(from_front, [layout.axes[place].step for place in places])
        # With as many subscripts as combinations of digits, every combination occurs.
        exact &= subscript.regular & (math.prod(digit.count for digit in digits) == from_front.count)
        axes += [(_known(layout.axis_strides[p]), -p, digit) for p, digit in zip(places, digits, strict=True)]
    for stride, _, digit in sorted(axes, key=lambda axis: axis[:2]):
        pitch = stride * element
        distance = digit.stride * pitch
        joined = (apart == 1) & (distance - span < unit_bytes) | (digit.count == 1)
        exact &= (joined | (distance % unit_bytes == 0)) & (digit.start * pitch % unit_bytes == 0)
        span = np.where(joined, span + (digit.count - 1) * distance, span)
        apart = np.where(joined, apart, apart * digit.count)
    return apart * -(-span // unit_bytes), exact, apart


def _known(stride: int | None) -> int:
    assert stride is not None, "a box nest has layouts whose axes have known strides"
    return stride


def _digits(values: _Progression, steps: Sequence[int]) -> list[_Progression]:
    """The values of each digit, or the interval around them where they are no progression. `steps`: coarsest first."""
    found = []
    for step in steps[:-1]:
        found.append(_quotient(values, step))
        values = _remainder(values, step)
    return [*found, values]


def _quotient(values: _Progression, by: int) -> _Progression:
    """floor(v / by). Steps shorter than `by` leave out no quotient."""
    first, last = values.start // by, (values.start + values.stride * (values.count - 1)) // by
    whole = (values.stride % by == 0) | (values.count == 1)
    return _Progression(
        first, np.where(whole, np.maximum(values.stride // by, 1), 1), np.where(whole, values.count, last - first + 1)
    )


def _remainder(values: _Progression, by: int) -> _Progression:
    """v mod by."""
    first = values.start % by
    fixed = (values.stride % by == 0) | (values.count == 1)
    within = first + values.stride * (values.count - 1) < by
    around = (by % values.stride == 0) & (values.count * values.stride >= by)  # every one of the same remainder
    return _Progression(
        np.where(fixed | within, first, np.where(around, values.start % values.stride, 0)),
        np.where(fixed | ~(within | around), 1, values.stride),
        np.where(fixed, 1, np.where(within, values.count, np.where(around, by // values.stride, by))),
    )
