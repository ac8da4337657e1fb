"""Counts the cache lines and pages that boxes of array elements lie in, from the strides of the arrays' layouts."""

from __future__ import annotations

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


def unit_footprints(nest: BoxNest, batch: LoopBatch, unit_bytes: int) -> UnitFootprints:
    """Footprints in units of `unit_bytes`: cache lines, pages.

    From the dimension of the smallest stride on: elements whose distance leaves no gap of a whole unit make one run;
    at the first dimension that leaves gaps, runs are counted apart.
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
    strides = nest.layouts[array].strides
    assert strides is not None
    for dimension in sorted(range(len(strides)), key=lambda d: (strides[d], -d)):
        start, stride, count, regular = _extent(functions, dimension, high)
        pitch = strides[dimension] * element
        distance = stride * pitch
        joined = (apart == 1) & (distance - span < unit_bytes) | (count == 1)
        exact &= regular & (joined | (distance % unit_bytes == 0)) & (start * pitch % unit_bytes == 0)
        span = np.where(joined, span + (count - 1) * distance, span)
        apart = np.where(joined, apart, apart * count)
    return apart * -(-span // unit_bytes), exact


def _extent(
    functions: tuple[BoxAccess, ...], dimension: int, high: IntArray
) -> tuple[IntArray, IntArray, IntArray, BoolArray]:
    """Start, stride and count of the subscript's values; of the interval around them where they are no progression."""
    variants = len(high)
    low = np.zeros(variants, dtype=np.int64)
    found = []
    for access in functions:
        row, offset = access.rows[dimension], access.offsets[dimension]
        terms = tuple(Term(c, low, high[:, i]) for i, c in enumerate(row) if c)
        values = image(Sum(offset, terms), variants)
        first = offset + sum((t.coefficient * t.high for t in terms if t.coefficient < 0), low)
        last = offset + sum((t.coefficient * t.high for t in terms if t.coefficient > 0), low)
        found.append((values, first, last))
    if len(found) == 1:
        values, first, last = found[0]
        around = ~values.regular
        return (
            np.where(around, first, values.start),
            np.where(around, 1, values.stride),
            np.where(around, last - first + 1, values.count),
            values.regular,
        )
    first = np.minimum.reduce([each[1] for each in found])
    last = np.maximum.reduce([each[2] for each in found])
    return first, np.ones(variants, dtype=np.int64), last - first + 1, np.zeros(variants, dtype=np.bool_)
