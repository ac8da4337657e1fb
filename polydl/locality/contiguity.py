"""Counts the cache lines and pages that boxes of array elements lie in, from the strides of the arrays' layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polydl.locality.boxes import BoolArray, BoxAccess, BoxNest, IntArray, LoopBatch
from polydl.locality.progressions import Sum, Term, image


@dataclass(frozen=True, slots=True)
class UnitFootprints:
    """Lines (or pages) touched by the loops at each depth and inside, with the outer ones at 0."""

    units: IntArray
    """(V, D + 1, A) lines or pages, when the first element of each array is at the start of one."""
    exact: BoolArray
    """(V, D + 1, A); elsewhere runs begin inside a unit, or several accesses of one array were taken for the box
    around them, and `units` is the number for runs that begin at the start of one."""


@dataclass(frozen=True, slots=True)
class _Progression:
    """start, start + stride, …: `count` values, in each of V variants."""

    start: IntArray
    stride: IntArray
    count: IntArray


def unit_footprints(nest: BoxNest, batch: LoopBatch, unit_bytes: int) -> UnitFootprints:
    """Footprints in units of `unit_bytes`: cache lines, pages.

    From the axis of storage with the smallest stride on: elements whose distance leaves no gap of a whole unit make one
    run; at the first axis that leaves gaps, runs are counted apart. A dimension that the layout cuts into several axes
    counts as the product of the digits that its subscripts take.
    """
    shape = (len(batch), batch.depth + 1, len(nest.arrays))
    units, exact = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.bool_)
    for number, array in enumerate(nest.arrays):
        functions = tuple({a.function: a for a in nest.accesses if a.array == array}.values())
        for d in range(batch.depth + 1):
            high = batch.cover[:, d, :] - 1
            units[:, d, number], exact[:, d, number] = _units(nest, functions, high, unit_bytes)
    return UnitFootprints(units, exact)


def _units(
    nest: BoxNest, functions: tuple[BoxAccess, ...], high: IntArray, unit_bytes: int
) -> tuple[IntArray, BoolArray]:
    """(V,) units in which the elements lie that any of the functions touches in the boxes [0, high]."""
    variants = len(high)
    array = functions[0].array
    element = nest.element_bytes[array]
    span = np.full(variants, element, dtype=np.int64)
    apart = np.ones(variants, dtype=np.int64)
    exact = np.full(variants, len(functions) == 1)
    axes: list[tuple[int, int, _Progression]] = []
    layout = nest.layouts[array]
    for dimension in range(layout.rank):
        subscripts, regular = _subscripts(functions, dimension, layout.before[dimension], high)
        places = layout.digits_of(dimension)
        digits = _digits(subscripts, [layout.axes[place].step for place in places])
        # With as many subscripts as combinations of digits, every combination occurs.
        exact &= regular & (math.prod(digit.count for digit in digits) == subscripts.count)
        axes += [(_known(layout.axis_strides[p]), -p, digit) for p, digit in zip(places, digits, strict=True)]
    for stride, _, digit in sorted(axes, key=lambda axis: axis[:2]):
        pitch = stride * element
        distance = digit.stride * pitch
        joined = (apart == 1) & (distance - span < unit_bytes) | (digit.count == 1)
        exact &= (joined | (distance % unit_bytes == 0)) & (digit.start * pitch % unit_bytes == 0)
        span = np.where(joined, span + (digit.count - 1) * distance, span)
        apart = np.where(joined, apart, apart * digit.count)
    return apart * -(-span // unit_bytes), exact


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


def _subscripts(
    functions: tuple[BoxAccess, ...], dimension: int, before: int, high: IntArray
) -> tuple[_Progression, BoolArray]:
    """The values of a subscript, counted from the padding in front, and whether they are a progression; elsewhere it is
    the interval around them."""
    variants = len(high)
    low = np.zeros(variants, dtype=np.int64)
    found = []
    for access in functions:
        row, offset = access.rows[dimension], access.offsets[dimension] + before
        terms = tuple(Term(c, low, high[:, i]) for i, c in enumerate(row) if c)
        values = image(Sum(offset, terms), variants)
        first = offset + sum((t.coefficient * t.high for t in terms if t.coefficient < 0), low)
        last = offset + sum((t.coefficient * t.high for t in terms if t.coefficient > 0), low)
        found.append((values, first, last))
    if len(found) == 1:
        values, first, last = found[0]
        around = ~values.regular
        progression = _Progression(
            np.where(around, first, values.start),
            np.where(around, 1, values.stride),
            np.where(around, last - first + 1, values.count),
        )
        return progression, values.regular
    first = np.minimum.reduce([each[1] for each in found])
    last = np.maximum.reduce([each[2] for each in found])
    ones = np.ones(variants, dtype=np.int64)
    return _Progression(first, ones, last - first + 1), np.zeros(variants, dtype=np.bool_)
