"""Addresses of the arguments of a usual call, in a microsecond or two.

A call of a small kernel takes less time than `call_arguments` needs to look at its arrays, whose checks say what is
wrong in words. What is asked here is the same, for NumPy arrays and tensors by position with the sizes that the kernel
was made for; whatever is not quite so is left to the other way, which takes it or says why not
(tests/api/test_quick_arguments.py holds both against each other).
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from polydl.model.types import BF16, F32, F64, U8
from polydl.native.signature import Parameter

_NUMBERS: Mapping[object, Any] = {F32: ctypes.c_float, F64: ctypes.c_double}
"""What holds a Python float for a parameter of these types."""


class _Wanted(NamedTuple):
    """What an array argument must be."""

    at: int
    """Index among the parameters."""
    shape: tuple[int, ...]
    """Empty where only the elements are counted; else of all dimensions but the first where `rows` counts these."""
    least: int | None
    """Elements or rows, at least."""
    rows: bool
    numpy: tuple[np.dtype[Any], ...]
    torch: tuple[str, ...]
    itemsize: int
    written: bool


class QuickArguments:
    """The usual arguments of one kernel."""

    def __init__(
        self,
        parameters: Sequence[Parameter],
        extents: Mapping[str, Sequence[int | None]],
        defaults: Mapping[str, int],
        *,
        all_apart: bool,
    ) -> None:
        """`extents`: those declared, at the sizes that the kernel was made for. `defaults`: the addresses of these
        sizes. `all_apart`: as `call_arguments.check_apart` takes it."""
        self._count = max(len(parameters), 1)
        self._fixed = [(i, defaults[p.name]) for i, p in enumerate(parameters) if p.name in defaults]
        self._given: list[tuple[int, Any, _Wanted | None]] = [
            (i, None, _wanted(i, p, extents[p.name])) if p.is_array else (i, _NUMBERS.get(p.element), None)
            for i, p in enumerate(parameters)
            if p.default is None
        ]
        arrays = [(i, p) for i, p in enumerate(parameters) if p.is_array]
        self._apart = [
            (i, j)
            for (i, a), (j, b) in combinations(arrays, 2)
            if (a.written or b.written) and (all_apart or a.restrict or b.restrict)
        ]
        self._torch: Any = None
        self._dtypes: dict[int, tuple[Any, ...]] = {}

    def pointers(self, args: Sequence[Any]) -> tuple[Any, list[Any]] | None:
        """(an array of the addresses of all arguments, what must live until the call has ended); None: unusual ones."""
        pointers = (ctypes.c_void_p * self._count)()
        alive: list[Any] = []
        written: list[Any] = []
        sizes: dict[int, int] = {}
        for (at, number, wanted), value in zip(self._given, args, strict=True):
            if wanted is None:
                if number is None or type(value) is not float:
                    return None
                alive.append(number(value))
                pointers[at] = ctypes.addressof(alive[-1])
                continue
            address = _array(wanted, value) if type(value) is np.ndarray else self._tensor(wanted, value, written)
            if address is None or address % wanted.itemsize:
                return None
            pointers[at], sizes[at] = address, value.nbytes
        for one, other in self._apart:
            a, b = pointers[one] or 0, pointers[other] or 0
            if a < b + sizes[other] and b < a + sizes[one]:
                return None
        for at, address in self._fixed:
            pointers[at] = address
        if written:
            alive.append(written)
        return pointers, alive

    def changed(self, alive: Sequence[Any]) -> None:
        """Raise torch's count of changes in place of the tensors that were written, as `pointers` gave them."""
        if alive and type(alive[-1]) is list:
            self._torch.autograd.graph.increment_version(alive[-1])

    def _tensor(self, wanted: _Wanted, tensor: Any, written: list[Any]) -> int | None:
        """The address of a tensor; it is put to those that are written if it is one."""
        torch = self._torch
        if torch is None:
            torch = self._torch = sys.modules.get("torch")
            if torch is None:
                return None
        if type(tensor) is not torch.Tensor and type(tensor) is not torch.nn.Parameter:
            return None
        dtypes = self._dtypes.get(wanted.at)
        if dtypes is None:
            dtypes = self._dtypes[wanted.at] = tuple(getattr(torch, name) for name in wanted.torch)
        if (
            not tensor.is_cpu
            or tensor.layout is not torch.strided
            or tensor.dtype not in dtypes
            or not tensor.is_contiguous()
            or tensor.is_neg()
            or tensor.is_conj()
            or (tensor.requires_grad and torch.is_grad_enabled())
            or not _fits(wanted, tensor.shape)
        ):
            return None
        if wanted.written and not tensor.is_inference():
            written.append(tensor)
        address: int = tensor.data_ptr()
        return address


def _wanted(at: int, p: Parameter, extents: Sequence[int | None]) -> _Wanted:
    known = tuple(e for e in extents if e is not None)
    numpy = [np.dtype(name) for name in p.dtypes if name != BF16.torch]
    counted = extents[0] is None
    return _Wanted(
        at, known, p.least if counted else None, counted and bool(known), tuple(numpy), _torch_names(p),
        p.element.bytes, p.written,
    )  # fmt: skip


def _torch_names(p: Parameter) -> tuple[str, ...]:
    """The names that torch has of a parameter's types."""
    return tuple(name for name in p.dtypes if name in (p.element.torch, U8.torch))


def _fits(wanted: _Wanted, shape: tuple[int, ...]) -> bool:
    """Whether an array of such a shape may be given: the shape declared, as far as it is, and enough elements."""
    if wanted.rows:
        return len(shape) > 0 and shape[1:] == wanted.shape and (wanted.least is None or shape[0] >= wanted.least)
    if wanted.shape or wanted.least is None:
        return shape == wanted.shape
    return math.prod(shape) >= wanted.least


def _array(wanted: _Wanted, array: np.ndarray[Any, np.dtype[Any]]) -> int | None:
    """The address of a NumPy array."""
    if (
        array.dtype not in wanted.numpy
        or not array.flags.c_contiguous
        or not array.size
        or not _fits(wanted, array.shape)
    ):
        return None
    if array.flags.writeable:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
    return None if wanted.written else array.ctypes.data
