"""Data on which errors show, for calls of an output beside its source: ties, zeros of both signs, NaN, infinities,
extremes that wrap, values that overflow and come back, zero weights. The same for the same name and array."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
_Make = Callable[[np.random.Generator, int, np.dtype[Any], int], Values]
"""By generator, how many, NumPy type, and the number of the array among those of the call."""


@dataclass(frozen=True, slots=True)
class Filling:
    """What arrays hold before a call."""

    name: str
    floats: _Make
    integers: _Make
    classes_only: bool = False
    """The values are of very different magnitudes: sums in another order may differ by as much as their terms. Where
    something was rounded, only which floats are finite, infinite or NaN may be compared."""

    finite: bool = True

    def values(self, array: str, number: int, kind: np.dtype[Any], count: int) -> Values:
        """`count` values of a NumPy type for the array called so, the `number`-th of a call."""
        rng = np.random.default_rng([zlib.crc32(f"{self.name} {array}".encode()), number, count])
        make = self.floats if kind.kind == "f" else self.integers
        with np.errstate(all="ignore"):
            return np.asarray(make(rng, count, kind, number)).astype(kind)


def _small(rng: np.random.Generator, count: int, kind: np.dtype[Any], number: int) -> Values:
    return rng.integers(-3 if kind.kind in "fi" else 0, 4, count)


def _positive(rng: np.random.Generator, count: int, kind: np.dtype[Any], number: int) -> Values:
    return rng.integers(1, 4, count)


def _distinct(rng: np.random.Generator, count: int, kind: np.dtype[Any], number: int) -> Values:
    at = np.arange(count, dtype=np.int64)
    return (at * at + 7 * at + number) % 61 - (30 if kind.kind in "fi" else 0)


def _ties(rng: np.random.Generator, count: int, kind: np.dtype[Any], number: int) -> Values:
    return np.full(count, 2)


def _zeros(rng: np.random.Generator, count: int, kind: np.dtype[Any], number: int) -> Values:
    return np.where(rng.random(count) < 0.5, -0.0, 0.0) if kind.kind == "f" else np.zeros(count)


def _runs(rng: np.random.Generator, count: int, kind: np.dtype[Any], number: int) -> Values:
    """Zeros in runs, as whole blocks of weights are; not at the beginning, where to divide by their sum is NaN."""
    quarter = np.arange(count) // max(1, count // 4)
    zero = quarter % 4 == 2 if number % 2 else quarter % 2 == 1
    return np.where(zero, 0, rng.integers(1, 4, count))


def _special(rng: np.random.Generator, count: int, kind: np.dtype[Any], number: int) -> Values:
    values = rng.integers(-3, 4, count).astype(np.float64)
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])
    chosen = rng.random(count) < 0.25
    values[chosen] = odd[rng.integers(0, len(odd), int(chosen.sum()))]
    return values


def _one_special(rng: np.random.Generator, count: int, kind: np.dtype[Any], number: int) -> Values:
    """Of many numbers one, and in half of the arrays: sums of some are finite. Zeros stand beside it."""
    values = rng.integers(-1, 2, count).astype(np.float64)
    if count and (count + number) % 2:
        values[rng.integers(0, count)] = (np.nan, np.inf, -np.inf)[(count + number) // 2 % 3]
    return values


def _huge(rng: np.random.Generator, count: int, kind: np.dtype[Any], number: int) -> Values:
    """Products of two are finite, with room for the sum of thousands of them times an integer, in any order; those of
    three may overflow or vanish, and come back with a fourth."""
    most = np.finfo(kind).maxexp
    power = min(most * 13 // 32, most // 2 - 4)
    signs = np.where(rng.random(count) < 0.5, -1.0, 1.0)
    return signs * np.exp2(np.where((np.arange(count) + number) % 2, power, -power).astype(np.float64))


def _tiny(rng: np.random.Generator, count: int, kind: np.dtype[Any], number: int) -> Values:
    return rng.integers(-3, 4, count) * np.float64(np.finfo(kind).smallest_subnormal)


def _reals(rng: np.random.Generator, count: int, kind: np.dtype[Any], number: int) -> Values:
    return rng.random(count) + 0.5


def _extremes(rng: np.random.Generator, count: int, kind: np.dtype[Any], number: int) -> Values:
    if kind.kind == "b":
        return rng.integers(0, 2, count)
    ends, half = np.iinfo(kind), 1 << (4 * kind.itemsize)
    odd = [ends.max, ends.min, ends.max - 1, 0, 1, half % ends.max, 2, 3]
    odd += [-1, -2] if ends.min < 0 else [ends.max // 2, ends.max // 2 + 1]
    return np.array(odd, kind)[rng.integers(0, len(odd), count)]


FILLINGS = (
    Filling("small numbers", _small, _small),
    Filling("special numbers", _special, _extremes, finite=False),
    Filling("one special number", _one_special, _distinct, finite=False),
    Filling("distinct numbers", _distinct, _distinct),
    Filling("zeros in runs", _runs, _runs),
    Filling("equal numbers", _ties, _ties),
    Filling("numbers around one", _reals, _positive),
    Filling("huge numbers", _huge, _positive, classes_only=True),
    Filling("zeros", _zeros, _zeros),
    Filling("denormal numbers", _tiny, _small, classes_only=True),
)
"""Most telling first."""
