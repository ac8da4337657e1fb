"""Checks the arguments of a kernel and finds their addresses: NumPy arrays, torch tensors, objects with a buffer.

Nothing is copied.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from polydl.base.errors import ArgumentTypeError, ArgumentValueError
from polydl.model.bfloat16 import narrowed
from polydl.model.layout import row_major
from polydl.model.types import BF16, F32
from polydl.native.signature import Parameter


class Memory(NamedTuple):
    """The memory of an array argument."""

    parameter: Parameter
    owner: Any
    """The object that owns the memory; while it is referred to, the memory stays."""
    address: int
    """Of the first element."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In bytes."""
    dtype: str
    """Name of the element type, as NumPy and torch spell it."""
    itemsize: int
    """Bytes of an element."""
    writable: bool

    @property
    def bytes(self) -> int:
        """Bytes of all elements of a contiguous array."""
        return math.prod(self.shape) * self.itemsize


def torch_tensor(value: object) -> bool:
    """Whether a value is a torch tensor. Does not import torch: there are no tensors before it is imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def memory(parameter: Parameter, value: Any) -> Memory:
    """The memory of an array argument. Raises ArgumentTypeError for what is no array in main memory."""
    if torch_tensor(value):
        return _tensor(parameter, value)
    array = _array(parameter, value)
    return Memory(
        parameter, array, array.__array_interface__["data"][0], array.shape, array.strides, _named(array.dtype),
        array.itemsize, array.flags.writeable,
    )  # fmt: skip


@cache
def _named(dtype: np.dtype[Any]) -> str:
    """The name of an element type, for comparison and for people."""
    return dtype.name if dtype.isnative else f"{dtype.name} of the other byte order"


def _array(parameter: Parameter, value: Any) -> np.ndarray[Any, np.dtype[Any]]:
    hint = "give a NumPy array, a torch tensor or another object with a buffer; numpy.asarray makes one of a list"
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentTypeError(f"argument '{parameter.name}' is a masked array", hint="give its .data, or .filled()")
    if isinstance(value, np.ndarray):
        return value
    try:
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
        return np.asarray(memoryview(value))
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        kind = type(value).__name__
        raise ArgumentTypeError(
            f"argument '{parameter.name}' is a {kind}; expected an array of {parameter.dtypes[0]}", hint=hint
        ) from error


def _tensor(parameter: Parameter, tensor: Any) -> Memory:
    torch = sys.modules["torch"]
    name = parameter.name
    if tensor.device.type != "cpu":
        raise ArgumentTypeError(
            f"argument '{name}' is on device {tensor.device}; expected memory of the processor", hint="give .cpu()"
        )
    if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
        raise ArgumentTypeError(
            f"argument '{name}' is no plain dense tensor", hint="give .to_dense(), .resolve_conj() or .resolve_neg()"
        )
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ArgumentTypeError(
            f"argument '{name}' requires a gradient, which a C kernel does not compute",
            hint="give .detach(), or call it inside of torch.no_grad()",
        )
    size = tensor.element_size()
    return Memory(
        parameter, tensor, tensor.data_ptr(), tuple(tensor.shape), tuple(s * size for s in tensor.stride()),
        str(tensor.dtype).removeprefix("torch."), size, True,
    )  # fmt: skip


def _conversion(given: str, expected: str) -> str:
    """What to do with elements of another type."""
    if given.startswith("complex") and not expected.startswith("complex"):
        return "the kernel computes with real numbers: pass copies of .real and .imag, one after the other"
    if expected == BF16.torch:  # NumPy has it where ml_dtypes is installed, once that is imported
        return f"convert it: .astype(ml_dtypes.{expected}), for a tensor .to(torch.{expected})"
    return f"convert it: .astype('{expected}'), for a tensor .to(torch.{expected})"


def check(found: Memory, extents: Sequence[int | None], *, sized: bool) -> None:
    """Check that an array has the element type, extents and layout that the C code relies on.

    `extents` are those declared, None for one that is not. `sized` says that the sizes are those that the kernel was
    made for, so that `Parameter.least` applies. Raises ArgumentTypeError, ArgumentValueError.
    """
    p = found.parameter
    if found.dtype not in p.dtypes:
        raise ArgumentTypeError(
            f"argument '{p.name}' has elements of {found.dtype}; expected {' or '.join(p.dtypes)} ({p.element})",
            hint=_conversion(found.dtype, p.dtypes[0]),
        )
    _check_shape(found, extents, sized)
    if not _contiguous(found):
        expected = _row_major(found)
        raise ArgumentValueError(
            f"argument '{p.name}' has strides of {_tuple(found.strides)} bytes; expected {_tuple(expected)} "
            "(row-major, without gaps)",
            hint="numpy.ascontiguousarray, for a tensor .contiguous(), makes a copy that has them",
        )
    if found.address % found.itemsize and found.bytes:
        raise ArgumentValueError(
            f"argument '{p.name}' starts at an address that is no multiple of {found.itemsize} bytes", hint="copy it"
        )
    if p.written and not found.writable:
        raise ArgumentValueError(f"argument '{p.name}' is read-only, and the kernel writes to it", hint="copy it")


def _check_shape(found: Memory, extents: Sequence[int | None], sized: bool) -> None:
    p = found.parameter
    if len(extents) == 1 and extents[0] is None:  # a pointer: any shape with enough elements
        _check_least(found, math.prod(found.shape), "elements", sized)
        return
    same = len(found.shape) == len(extents)
    if not same or any(e is not None and e != s for e, s in zip(extents, found.shape, strict=True)):
        expected = ", ".join("any" if e is None else str(e) for e in extents)
        expected = f"({expected},)" if len(extents) == 1 else f"({expected})"
        raise ArgumentValueError(f"argument '{p.name}' has shape {_tuple(found.shape)}; expected {expected}")
    if extents[0] is None:
        _check_least(found, found.shape[0], "rows", sized)


def _check_least(found: Memory, count: int, what: str, sized: bool) -> None:
    """Check that an array without a declared extent has as many elements or rows as the kernel reaches."""
    p = found.parameter
    if p.least is None:
        return
    if not sized:
        raise ArgumentValueError(
            f"how many {what} of '{p.name}' are reached is known only for the sizes that the kernel was made for",
            hint="compile it for these sizes, or declare the array with its extents",
        )
    if count < p.least:
        raise ArgumentValueError(f"argument '{p.name}' has {count} {what}; expected {p.least} or more")


def _contiguous(found: Memory) -> bool:
    """Whether an array is row-major without gaps. Strides do not matter for extents of 1 and empty arrays."""
    if 0 in found.shape:
        return True
    expected = _row_major(found)
    return found.strides == expected or all(
        s == 1 or a == b for s, a, b in zip(found.shape, found.strides, expected, strict=True)
    )


def _row_major(found: Memory) -> tuple[int, ...]:
    """The strides in bytes that C takes for granted."""
    return _row_strides(found.shape, found.itemsize)


@lru_cache(maxsize=256)
def _row_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    return tuple(stride * itemsize for stride in row_major(shape).strides or ())


def check_apart(found: Sequence[Memory], *, all_apart: bool) -> None:
    """Check that no array that is written shares memory with another one.

    Without `all_apart` only `restrict` forbids that; rearranged code forbids it always. Raises ArgumentValueError.
    """
    for a, b in combinations(found, 2):
        if not (a.parameter.written or b.parameter.written):
            continue
        if not (all_apart or a.parameter.restrict or b.parameter.restrict):
            continue
        if a.address < b.address + b.bytes and b.address < a.address + a.bytes:
            written = a if a.parameter.written else b
            raise ArgumentValueError(
                f"arguments '{a.parameter.name}' and '{b.parameter.name}' overlap, and the kernel writes to "
                f"'{written.parameter.name}'",
                hint="copy one of them",
            )


def scalar(parameter: Parameter, value: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """A scalar argument converted to its C type, as an array of shape (), of the bits where NumPy has not the type.
    Raises ArgumentTypeError, and ArgumentValueError for a value out of the range of the type."""
    bits = parameter.element.numpy is None
    name, dtype = parameter.name, np.dtype(F32.numpy if bits else parameter.element.numpy)
    if torch_tensor(value) or isinstance(value, np.ndarray):
        if value.ndim:
            raise ArgumentTypeError(
                f"argument '{name}' has shape {_tuple(value.shape)}; expected a number ({parameter.dtypes[0]})"
            )
        value = value.item()
    try:
        if dtype.kind == "b":
            return np.array(bool(operator.index(value)))
        if dtype.kind in "iu":
            return _integer(parameter, operator.index(value), dtype)
        if isinstance(value, str | bytes):
            raise TypeError("text is no number")
        if not isinstance(value, np.longdouble):
            value = complex(value) if dtype.kind == "c" else float(value)
        made = np.array(value, dtype=dtype)
        return narrowed(made) if bits else made
    except (TypeError, OverflowError) as error:
        expected = f"expected a number ({parameter.element})"
        raise ArgumentTypeError(f"argument '{name}' is {value!r}; {expected}") from error


def _integer(parameter: Parameter, value: int, dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if not low <= value <= high:
        raise ArgumentValueError(
            f"argument '{parameter.name}' is {value}; expected {low} to {high} ({parameter.element})"
        )
    return np.array(value, dtype=dtype)


def _tuple(values: Sequence[int]) -> str:
    return str(tuple(int(v) for v in values))
