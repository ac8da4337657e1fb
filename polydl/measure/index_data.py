"""Values of integers that subscripts are made of: none leaves an array, those of a sparse matrix are in order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from polydl.base.errors import NotMeasurable
from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.scop import Array, IndexValues, Scop

_SPREAD = 4
"""Rows of a sparse matrix have up to so many times the average number of elements, about."""


@dataclass(frozen=True, slots=True)
class Values:
    """Which integers an array holds."""

    least: int
    most: int
    ordered: bool
    """They never decrease, and begin with `least` and end with `most`, about."""


def values_of(scop: Scop, extents: Mapping[str, Sequence[int]]) -> dict[str, Values]:
    """What the arrays hold of which subscripts are made; `extents` are the elements of arrays by dimension.

    Raises InputError where no values are possible.
    """
    found: dict[str, list[Values]] = {}
    for use in scop.indices:
        if use.array not in extents or use.rest.is_empty():
            continue
        for name, one in _of_use(use, extents[use.array][use.dimension]):
            if name in scop.arrays and not scop.arrays[name].is_scalar and scop.arrays[name].element.is_int:
                found.setdefault(name, []).append(one)
    return {name: _together(scop.arrays[name], several) for name, several in found.items()}


def _of_use(use: IndexValues, extent: int) -> list[tuple[str, Values]]:
    """Values with which a subscript stays inside of its dimension; each has an equal part in where that is made of
    several."""
    low, high = isl.bounds(use.rest, 0)
    share = len(use.factors)
    least, most = -low, extent - 1 + use.past - high
    result = []
    for name, factor in use.factors:
        ends = (least, most) if factor > 0 else (-most, -least)
        size = abs(factor) * share
        result.append((name, Values(-(-ends[0] // size), ends[1] // size, name in use.ordered)))
    return result


def _together(array: Array, several: Sequence[Values]) -> Values:
    """The values that meet all demands. Raises InputError where there are none."""
    whole = reduce(lambda a, b: Values(max(a.least, b.least), min(a.most, b.most), a.ordered or b.ordered), several)
    most = min(whole.most, array.element.maximum)
    if whole.least > most:
        raise NotMeasurable(
            f"subscripts are made of what '{array.name}' holds, and no values keep them inside of their arrays at "
            "these sizes",
            array.span,
            "give other sizes, or rank without running (--no-run)",
        )
    return Values(whole.least, most, whole.ordered)


_PER_ROW = 16
"""Elements of a row of a sparse matrix where the program does not say how many all rows have: of the order of those of
meshes (Davis and Hu, "The University of Florida sparse matrix collection", TOMS 2011)."""


def assumed_elements(scop: Scop, array: Array) -> int:
    """Elements of an array that the program leaves open: as many as the largest array has whose size is known, and more
    where loops whose bounds are data run over it."""
    most = 1
    for name, other in scop.arrays.items():
        regions = [a.relation.range() for s in scop.statements for a in s.accesses if a.array == name]
        lengths = []
        for d, extent in enumerate(other.layout.shape):
            ends = [isl.greatest(region, d) for region in regions]
            lengths.append(extent or max((1 + end for end in ends if end is not None), default=1))
        most = max(most, math.prod(lengths))
    rows = any(use.array == array.name and use.ordered for use in scop.indices)
    return most * (_PER_ROW if rows else 1)


def filled(of: Values, rng: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
    """Random values, `count` of them: all equally likely, or in order with steps of all sizes."""
    if not of.ordered:
        return rng.integers(of.least, of.most, count, endpoint=True)
    steps = rng.random(max(count - 1, 0)) ** _SPREAD
    ends = np.concatenate([[0.0], np.cumsum(steps)])
    whole = ends[-1] if ends[-1] > 0 else 1.0
    return (of.least + np.floor(ends / whole * (of.most - of.least))).astype(np.int64)


def neighbours(of: Values, rng: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
    """Values of which one after the other chooses near the one before it, as in a mesh that is numbered well; in order
    where they have to be.

    Value k is at about k / count of the range, or a step away from there in one, two or all of the directions of a cube
    of so many points, whose rows and planes are one after the other: the corners of a brick.
    """
    if of.ordered:
        return filled(of, rng, count)
    size = of.most - of.least + 1
    edge = max(1, round(size ** (1 / 3)))
    at = np.arange(count, dtype=np.int64) * size // max(count, 1)
    steps = rng.integers(0, 2, (3, count))
    near = np.minimum(at + steps[0] + steps[1] * edge + steps[2] * edge * edge, size - 1)
    return np.asarray(of.least + near, dtype=np.int64)
