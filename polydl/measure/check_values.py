"""Whether two runs left the same in memory: bits where nothing rounded, else within what other orders of the same
roundings make of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from polydl.base.records import dataclass
from polydl.model.bfloat16 import widened
from polydl.model.types import F64, ElementType

Values = npt.NDArray[Any]

_SPREADS = 16.0
"""How far results may be apart, in how far those of the source are with all operations rounded up and down. Between
these lie the results of one order of the sums; another order has other partial sums, of the same magnitude."""
_SHARE = 2.0**10
"""And in units of roundoff of the greatest value of the array: other functions than those of libm (4 of them at most),
whose errors later operations magnify, and sums whose partial sums cancel."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A number in each element of an object: a member of a structure, or the element itself."""

    path: str
    """How it is written behind the element: `.x`, `.pos[1]`; empty for the element itself."""
    offset: int
    """Bytes from the beginning of the element."""
    type: ElementType
    """Of the number: not a complex one."""


@dataclass(frozen=True, slots=True)
class Different:
    """The first number that differs."""

    place: str
    """`[3].x`, behind the name of the object."""
    source: str
    """What the source leaves there."""
    output: str


@dataclass(frozen=True, slots=True)
class Runs:
    """What an object holds after each run."""

    source: bytes
    output: bytes
    rounded: tuple[bytes, bytes] | None
    """After the source with all operations rounded up and down; None: no operation rounded, bits are compared."""
    classes_only: bool = False
    """Whether of floats no more is compared than which are finite, infinite with which sign, or NaN."""
    zeros_signed: bool = True
    """Whether 0.0 and -0.0 differ: a sum that begins with 0.0 in another place makes one of the other."""
    only_finite: bool = False
    """Whether no number is compared that is infinite or NaN in the source: it was made of finite ones, by a sum that
    overflows or a divisor that is zero on the way, where another order of sums need not come by."""


def first_difference(runs: Runs, element: int, cells: Sequence[Cell]) -> Different | None:
    """The first number in which runs differ. `element`: bytes of one."""
    if runs.source == runs.output:
        return None
    for cell in cells:
        mine, theirs = _numbers(runs.source, element, cell), _numbers(runs.output, element, cell)
        wrong = _wrong(mine, theirs, runs, element, cell)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            return Different(f"[{at}]{cell.path}", _shown(mine[at]), _shown(theirs[at]))
    return None


def _numbers(data: bytes, element: int, cell: Cell) -> Values:
    count = len(data) // element
    raw = np.frombuffer(data, np.uint8, count * element).reshape(count, element)
    part = np.ascontiguousarray(raw[:, cell.offset : cell.offset + cell.type.bytes])
    if cell.type.numpy is None:
        return widened(part.view(np.uint16).reshape(count))
    return part.view(cell.type.numpy).reshape(count)


def _wrong(mine: Values, theirs: Values, runs: Runs, element: int, cell: Cell) -> npt.NDArray[np.bool_]:
    if mine.dtype.kind != "f":
        return np.asarray(mine != theirs)
    with np.errstate(all="ignore"):
        both_nan = np.isnan(mine) & np.isnan(theirs)
        equal = (mine == theirs) & ((np.signbit(mine) == np.signbit(theirs)) | (not runs.zeros_signed))
        equal |= both_nan | (~np.isfinite(mine) if runs.only_finite else False)
        if runs.rounded is None:
            return np.asarray(~equal)
        up, down = (_numbers(one, element, cell).astype(np.float64) for one in runs.rounded)
        one, other = mine.astype(np.float64), theirs.astype(np.float64)
        # Where directions of rounding decide whether there is a number, an order of sums may, too.
        undecided = (_class(up) != _class(down)) | (_class(up) != _class(one))
        wrong = _class(one) != _class(other)
        if not runs.classes_only:
            wrong |= np.isfinite(one) & np.isfinite(other) & (np.abs(one - other) > _allowed(one, up, down, cell))
        return np.asarray(wrong & ~undecided & ~equal)


def _allowed(one: Values, up: Values, down: Values, cell: Cell) -> Values:
    # The widest of the array: where an algorithm magnifies what it rounds, some elements are near by chance.
    spread = np.maximum(np.abs(up - one), np.abs(down - one))
    spread = np.max(spread, initial=0.0, where=np.isfinite(spread))
    greatest = np.max(np.abs(one), initial=0.0, where=np.isfinite(one))
    return np.asarray(_SPREADS * spread + _SHARE * max(cell.type.roundoff, F64.roundoff) * greatest)


def _class(values: Values) -> Values:
    """0 for finite numbers, 1 and -1 for infinite ones, 2 for NaN."""
    return np.where(np.isnan(values), 2.0, np.where(np.isinf(values), np.sign(values), 0.0))


def _shown(value: Any) -> str:
    return repr(value.item())
