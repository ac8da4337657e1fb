"""Whether what arrays of integers hold leads out of the arrays that they subscript: asked before a kernel runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from polydl.base.errors import ArgumentValueError
from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.scop import IndexValues, Scop
from polydl.native.call_arguments import Memory, torch_tensor


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """`0 <= factor * value + low` and `factor * value + high < extent` for each value that an array holds."""

    holder: str
    """The array of integers."""
    factor: int
    array: str
    """The array that is subscripted."""
    dimension: int
    extents: tuple[int | None, ...]
    """Of that array, as it is subscripted, which may be more than C declares; None for those that the sizes leave
    open."""
    low: int
    high: int
    """What is added, at least and at most."""
    past: int
    """1: the value may be one more, as the end of a row."""
    ordered: bool
    """Whether the values are where rows begin, and never decrease."""


def index_checks(scops: Iterable[Scop]) -> tuple[IndexCheck, ...]:
    """What can be asked of the arrays that kernels are given: of subscripts that are made of one value each."""
    found = [one for scop in scops for use in scop.indices for one in _of_use(scop, use)]
    return tuple(dict.fromkeys(found))


def _of_use(scop: Scop, use: IndexValues) -> Iterator[IndexCheck]:
    array = scop.arrays.get(use.array)
    if array is None or array.members is not None or len(use.factors) != 1 or use.rest.is_empty():
        return
    low, high = isl.least(use.rest, 0), isl.greatest(use.rest, 0)
    ((holder, factor),) = use.factors
    if low is None or high is None or holder not in scop.arrays:
        return
    ordered = holder in use.ordered
    yield IndexCheck(holder, factor, use.array, use.dimension, array.shape, low, high, use.past, ordered)


def check_indices(checks: Sequence[IndexCheck], found: Mapping[str, Memory]) -> None:
    """Raise ArgumentValueError for a value that leads out of an array, with its place, and for rows that are in no
    order. `found`: the arrays of a call by name."""
    for one in checks:
        if one.holder not in found or one.array not in found:
            continue
        extent = _extent(one, found[one.array].shape)
        values = _values(found[one.holder].owner)
        if extent is None or not values.size:
            continue
        ends = values.astype(np.int64) * one.factor
        wrong = np.flatnonzero((ends < -one.low) | (ends > extent - 1 - one.high + one.past))
        if wrong.size:
            where, least, most = int(wrong[0]), -one.low, extent - 1 - one.high + one.past
            limits = sorted((-(-least // one.factor), most // one.factor))
            raise ArgumentValueError(
                f"{one.holder}[{where}] is {values[where]}, which leads out of '{one.array}'",
                hint=f"values from {limits[0]} to {limits[1]} do not",
            )
        if one.ordered and (falls := np.flatnonzero(np.diff(ends) * np.sign(one.factor) < 0)).size:
            at = int(falls[0])
            raise ArgumentValueError(
                f"{one.holder}[{at + 1}] is {values[at + 1]}, less than {one.holder}[{at}], which is {values[at]}",
                hint="the values are where rows begin, one behind the other",
            )


def _extent(one: IndexCheck, shape: Sequence[int]) -> int | None:
    """How many elements the dimension has, of an array that is given in a shape; None where that does not show."""
    if len(shape) == len(one.extents):
        return shape[one.dimension]
    inner = one.extents[one.dimension + 1 :]
    if one.dimension > 0:
        return one.extents[one.dimension]
    sizes = [extent for extent in inner if extent is not None]
    return math.prod(shape) // math.prod(sizes) if len(sizes) == len(inner) and math.prod(sizes) > 0 else None


def _values(owner: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """The integers of an array or tensor, in their order."""
    array = owner.detach().numpy() if torch_tensor(owner) else np.asarray(owner)
    return array.reshape(-1)
