"""Data that the user gives to arrays, as `.npy` files or arrays of NumPy, in place of invented ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from polydl.base.errors import InputError, one_of
from polydl.base.records import dataclass
from polydl.measure.index_data import Values
from polydl.model.layout import Layout
from polydl.model.scop import Array, Scop
from polydl.model.types import ElementType

AnyArray = npt.NDArray[Any]
Data = Mapping[str, str | Path | AnyArray]
"""By the name of an array of the program: a `.npy` file, or the values."""


@dataclass(frozen=True, slots=True)
class Given:
    """Values of an array."""

    values: AnyArray
    """As the file has them."""
    source: str
    """Where they are from, for people."""

    def fitting(self, array: Array, layout: Layout) -> AnyArray:
        """The values in the shape of an array, whose outermost extent they may exceed where the program leaves it open.
        Raises InputError."""
        shape = tuple(extent or 0 for extent in layout.shape)
        found, inner = self.values.shape, int(np.prod(shape[1:], dtype=np.int64))
        flat = len(found) == 1 and len(shape) > 1 and inner > 0 and found[0] % inner == 0
        shaped = self.values.reshape(-1, *shape[1:]) if flat else self.values
        if shaped.shape == shape:
            return shaped
        raise InputError(
            f"{self.source} holds an array of shape {found}, and '{array.spelled}' has {shape} at these sizes",
            array.span,
            f"give {int(np.prod(shape, dtype=np.int64))} elements in this shape, or in one dimension, or other sizes",
        )


def given_data(scop: Scop, data: Data) -> dict[str, Given]:
    """The values of the arrays of a scop among `data`, by the arrays' names. Raises InputError for a file that cannot
    be read, for another type of elements, and for what can have no data."""
    found: dict[str, Given] = {}
    for name, where in data.items():
        array = scop.arrays.get(name)
        if array is None:
            continue
        source = f"--data {name}={where}" if isinstance(where, str | Path) else f"data for '{name}'"
        if array.is_scalar or array.members is not None or array.spelled != name:
            what = "one number" if array.is_scalar else "of structures"
            raise InputError(f"{source}: '{name}' is {what}", array.span, "data can be given for arrays of numbers")
        values = _read(Path(where), source) if isinstance(where, str | Path) else np.asarray(where)
        dtype = _dtype(array.element)
        if values.dtype != dtype:
            raise InputError(
                f"{source}: the elements are {values.dtype}, and '{name}' has {array.element.c} ({dtype})",
                array.span,
                f'save it as numpy.save(FILE, array.astype("{dtype}"))',
            )
        found[name] = Given(values, source)
    return found


def check_names(scops: Sequence[Scop], data: Data) -> None:
    """Raise InputError for data of arrays that there are not."""
    known = sorted({a.name for scop in scops for a in scop.arrays.values() if not a.is_scalar and a.name == a.spelled})
    for name in data:
        if name not in known:
            raise InputError(f"--data {name}=…: no scop has an array '{name}'", hint=one_of(name, known))


def check_values(scop: Scop, array: Array, given: Given, of: Values) -> None:
    """Raise InputError for values that lead a subscript out of its array."""
    if not given.values.size:
        return
    least, most = int(given.values.min()), int(given.values.max())
    if least < of.least or most > of.most:
        wrong = least if least < of.least else most
        choose = sorted({use.array for use in scop.indices if array.name in use.holders})
        raise InputError(
            f"{given.source} holds {wrong}: as a subscript of '{choose[0]}' the values have to be in "
            f"{of.least}..{of.most} at these sizes",
            array.span,
            "give the data of a program of these sizes, or other sizes",
        )
    if of.ordered and np.any(np.diff(given.values.reshape(-1)) < 0):
        raise InputError(
            f"{given.source} decreases: values of '{array.name}' are where rows start", array.span, "sort the rows"
        )


def least_extents(scop: Scop, given: Mapping[str, Given]) -> dict[str, int]:
    """How many elements the outermost dimension of arrays has at least, by what the data choose from them."""
    found: dict[str, int] = {}
    for use in scop.indices:
        if use.dimension != 0 or use.array not in scop.arrays or any(name not in given for name in use.holders):
            continue
        ends = 0
        for name, factor in use.factors:
            values = given[name].values
            ends += max((factor * int(values.min()), factor * int(values.max()))) if values.size else 0
        found[use.array] = max(found.get(use.array, 0), ends + 1 - use.past)
    return found


def _read(path: Path, source: str) -> AnyArray:
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except FileNotFoundError:
        raise InputError(f"{source}: there is no such file", hint="check the path") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{source}: this is no .npy file: {error}", hint="write it with numpy.save") from None


def _dtype(element: ElementType) -> np.dtype[Any]:
    return np.dtype(np.uint16 if element.numpy is None else element.numpy)
