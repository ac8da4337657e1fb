"""`Region`, `SizedRegion` and `Watch` in Python: the slow twins of those in templates/torch_call.c, for where that
cannot be compiled.

A region's values are numbered: inputs, outputs, then inner values, which lie in an arena.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from polydl.native.forked import usable_threads

Call = tuple[int, tuple[int, ...]]
"""The address of a C function that takes an array of addresses, and the numbers of the values it is given."""
Bound = tuple[int, int, tuple[int, ...], tuple[int, ...], int, int]
"""Number of an input of signed integers, bytes of an element, sizes, strides, and what its elements may be: from the
least to the greatest."""
Made = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]
"""Sizes, strides (elements) and dtype of an output."""


class Region:
    """Runs C functions on tensors.

    `region(*inputs)` makes the outputs, runs `calls` in order, and returns the output, or a tuple of several. The lock
    of the interpreter is released (here always; in C if `release`). `owners` are kept alive as long as the region is.
    Inputs with `bounds` are indices: one that is out of them is an IndexError, and nothing runs.
    """

    def __init__(
        self, inputs: int, outputs: Sequence[Made], offsets: Sequence[int], arena_bytes: int, calls: Sequence[Call],
        release: bool, bounds: Sequence[Bound], owners: object,
    ) -> None:  # fmt: skip
        total = inputs + len(outputs) + len(offsets)
        missing = [i for _, indices in calls for i in indices if not 0 <= i < total]
        if missing:
            raise ValueError(f"no value {missing[0]} in a region of {total}")
        missing = [bound[0] for bound in bounds if not 0 <= bound[0] < inputs]
        if missing:
            raise ValueError(f"no input {missing[0]} in a region of {inputs}")
        self._inputs, self._outputs, self._offsets = inputs, tuple(outputs), tuple(offsets)
        self._bytes, self._owners = arena_bytes, owners
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self._calls = [(kind(address), (ctypes.c_void_p * max(1, len(i)))(), i) for address, i in calls]
        self._bounds = tuple(bounds)
        self._arenas: list[Any] = []
        self.arenas = 0

    def __call__(self, *inputs: torch.Tensor) -> Any:
        """Raises TypeError for another number of tensors or something else than tensors."""
        if len(inputs) != self._inputs:
            raise TypeError(f"this region takes {self._inputs} tensors, not {len(inputs)}")
        addresses = [_address(t) for t in inputs]
        for number, _, _, _, least, most in self._bounds:
            wrong = inputs[number][(inputs[number] < least) | (inputs[number] > most)]
            if wrong.numel():
                raise IndexError(f"index {wrong.flatten()[0].item()} is not between {least} and {most}")
        made = [self.made(sizes, strides, dtype) for sizes, strides, dtype in self._outputs]
        addresses += [t.data_ptr() for t in made]
        threads = torch.get_num_threads()  # also gives a new thread torch's number of OpenMP threads
        arena = None
        if self._bytes:
            arena = self._arenas.pop() if self._arenas else None
            if arena is None or arena.numel() < self._bytes:
                room = self._bytes // 4 if arena is not None else 0  # sizes that grow go on growing
                arena = self.made((self._bytes + room,), (1,), torch.uint8)  # aligned to 64 bytes
                self.arenas += 1
            addresses += [arena.data_ptr() + offset for offset in self._offsets]
        usable = usable_threads(threads)
        if usable != threads:
            torch.set_num_threads(usable)
        for function, _, indices in self._calls:
            function((ctypes.c_void_p * max(1, len(indices)))(*(addresses[i] for i in indices)))
        if usable != threads:
            torch.set_num_threads(threads)
        if arena is not None:
            self._arenas.append(arena)
        return made[0] if len(made) == 1 else tuple(made)

    def take_arenas(self, other: Region) -> None:
        """Take the memory of a region that is called no more."""
        self._arenas, other._arenas = other._arenas, []
        self.arenas = other.arenas

    def made(self, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Memory for an output or an arena, which holds anything."""
        return torch.empty_strided(sizes, strides, dtype=dtype)


class SizedRegion:
    """A `Region` at any sizes: the last input holds these, 64-bit integers.

    Numbers in `outputs`, `stack` and `bounds` may be lists of terms (factor, numbers of sizes that it is multiplied
    by). `stack` says how values lie in the arena, from the lowest up: number, bytes, numbers of those that it lies
    above. The region of the last sizes is kept, and its arenas serve others.
    """

    def __init__(
        self, inputs: int, outputs: Sequence[Any], stack: Sequence[Any], calls: Sequence[Call], release: bool,
        bounds: Sequence[Any], owners: object,
    ) -> None:  # fmt: skip
        self._inputs, self._arguments = inputs, (tuple(outputs), tuple(stack), tuple(calls), release, tuple(bounds))
        self._owners = owners
        self._current: tuple[list[int], Region] | None = None

    @property
    def arenas(self) -> int:
        """Arenas that were made: one for each call at a time, another where sizes grew."""
        return 0 if self._current is None else self._current[1].arenas

    def __call__(self, *inputs: torch.Tensor) -> Any:
        """Raises TypeError for another number of tensors or something else than tensors."""
        if len(inputs) != self._inputs:
            raise TypeError(f"this region takes {self._inputs} tensors, not {len(inputs)}")
        _address(inputs[-1])
        sizes = inputs[-1].tolist()
        current = self._current
        if current is None or current[0] != sizes:
            current = self._current = (sizes, self._made(sizes, current))
        return current[1](*inputs)

    def _made(self, sizes: list[int], before: tuple[list[int], Region] | None) -> Region:
        made, stack, calls, release, bounds = self._arguments
        offsets, ends = [0] * len(stack), [0] * len(stack)
        for number, size, below in at_sizes(stack, sizes):
            offsets[number] = max((ends[one] for one in below), default=0)
            ends[number] = offsets[number] + -(-size // 64) * 64
        region = Region(
            self._inputs, at_sizes(made, sizes), offsets, max(ends, default=0), calls, release,
            at_sizes(bounds, sizes), self._owners,
        )  # fmt: skip
        if before is not None:
            region.take_arenas(before[1])
        return region


def at_sizes(value: Any, sizes: Sequence[int]) -> Any:
    """Tuples with numbers in place of lists of terms."""
    if isinstance(value, list):
        return sum(factor * prod(sizes[n] for n in each) for factor, each in value)
    return tuple(at_sizes(one, sizes) for one in value) if isinstance(value, tuple) else value


class Watch:
    """Keeps what was computed of tensors until one of them changes.

    `watch(*tensors)` returns `compute(*tensors)`, computed anew only if one of the tensors is another object, has other
    memory, another layout or version, or differs in an element that is looked at: PyTorch does not count every change.
    The record holds the tensors and their storages, so that no address that it compares is used again. Tensors without
    a version counter (those of inference mode) are computed anew each time.
    """

    def __init__(self, compute: Callable[..., Any]) -> None:
        self._compute = compute
        self._record: tuple[tuple[Any, ...], tuple[Any, ...], Any] | None = None
        self.computed = 0

    def __call__(self, *tensors: torch.Tensor) -> Any:
        key = tuple(
            (_address(t), None if t.is_inference() else t._version, t.dtype, tuple(t.shape), t.stride(), _sample(t))
            for t in tensors
        )
        record = self._record
        if (
            record is not None
            and record[1] == key
            and all(a is b for (a, _), b in zip(record[0], tensors, strict=True))
        ):
            return record[2]
        owners = tuple((t, t.untyped_storage()) for t in tensors)
        result = self._compute(*tensors)
        self.computed += 1
        if all(one[1] is not None for one in key):
            self._record = owners, key, result
        return result

    def forget(self) -> None:
        """Forget the result, so that the next call computes it."""
        self._record = None

    def forget_changed(self, tensors: set[int]) -> None:
        """Forget the result if it was computed of a tensor of these id()s."""
        if self._record is not None and any(id(one) in tensors for one, _ in self._record[0]):
            self._record = None


_ALL, _SAMPLES = 256, 32
"""Elements of a tensor that are all looked at, and how many of a larger one."""


def _sample(tensor: torch.Tensor) -> bytes:
    """The elements that are looked at: spread over the tensor, the first and the last among them."""
    elements = tensor.numel()
    if tensor.device.type != "cpu" or not elements:
        return b""
    count = elements if elements <= _ALL else _SAMPLES
    places = torch.linspace(0, elements - 1, count, dtype=torch.float64).long()
    with torch.no_grad():
        found = tensor.detach()[torch.unravel_index(places, tensor.shape)] if tensor.shape else tensor.detach()
        return found.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _address(tensor: object) -> int:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"a compiled graph takes tensors, not {type(tensor).__name__}")
    return tensor.data_ptr()
