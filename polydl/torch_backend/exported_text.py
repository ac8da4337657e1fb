"""The files of an exported model that are not the C of its groups: from templates/torch_model.*.j2.

A weights file is a header of 64 bytes (the 8 letters `polydlW1`; the 32-bit number 0x01020304 in the byte order of the
data; 4 bytes of 0; three 64-bit numbers: tensors, bytes of data, sum of the data as 64-bit words modulo 2^64; 0 up to
64), then an entry of 256 bytes per tensor (`_ENTRY`), then the data, each tensor at the offset that its entry says.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polydl.base.version
from polydl.base.errors import InputError
from polydl.measure.unit import environment
from polydl.torch_backend.region_plan import Bound

_RANK = 7
"""Most dimensions of a tensor."""
_NAME = 96
"""Bytes of a name with the 0 behind it; longer ones lose their beginning."""
_ENTRY = struct.Struct(f"<{_NAME}s16sQQQ{_RANK}q{_RANK}qQ")
"""Name, dtype, offset in the data, bytes, dimensions, sizes, strides in elements, 0."""
assert _ENTRY.size == 256


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input, output or weight of an exported model."""

    name: str
    dtype: str
    """As PyTorch calls it, `float32`."""
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    offset: int
    """Of a weight: bytes from the first weight."""
    bytes: int

    spelled: tuple[int, ...] = ()
    """Its sizes, some of which may depend on those of the model."""

    @property
    def short(self) -> str:
        """The end of the name, in ASCII."""
        return self.name.encode("ascii", "replace").decode()[-_NAME + 1 :].replace('"', "'").replace("\\", "/")

    @property
    def padded(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Sizes and strides with zeros behind them. Raises InputError for more dimensions than a table has."""
        rank = len(self.sizes)
        if rank > _RANK:
            raise InputError(f"'{self.name}' has {rank} dimensions; an exported model's tensors have at most {_RANK}")
        zeros = (0,) * (_RANK - rank)
        return (*self.sizes, *zeros), (*self.strides, *zeros)


@dataclass(frozen=True, slots=True)
class Buffer:
    """Where a value lies."""

    base: str
    """`inputs`, `outputs`, `weights` or `arena`."""
    at: int
    """Number of the input or output; bytes from the beginning of weights or arena."""

    @property
    def text(self) -> str:
        """Its address in C."""
        return f"(void *){self.base}[{self.at}]" if self.base in ("inputs", "outputs") else f"{self.base} + {self.at}"


@dataclass(frozen=True, slots=True)
class ModelSize:
    """A size of inputs that each call of the model says."""

    of: str
    """Where it is, for people."""
    least: int
    most: int
    tested: int
    """What it is in the test."""


@dataclass(frozen=True, slots=True)
class Program:
    """All that the files say."""

    name: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    weights: Sequence[Tensor]
    sizes: Sequence[ModelSize]
    weights_bytes: int
    arena_bytes: int
    calls: Sequence[tuple[str, Sequence[Buffer], Sequence[tuple[Buffer, Bound]]]]
    """Name of the group, its arguments, and where indices lie that are checked before."""
    copies: Sequence[tuple[Buffer, Buffer, int]]
    """To, from, bytes: the model's tensors that a run changes."""
    changes: Sequence[int]
    """Numbers of the weights that a run changes."""
    sized: Mapping[str, bool]
    """Whether a group takes sizes, by its name."""
    groups: Mapping[str, str]
    """C of each group by its name."""
    cc: str
    cflags: Sequence[str]
    ldflags: Sequence[str]
    tolerances: Mapping[str, float]
    """Relative and absolute, by dtype; others must be equal."""


def files(program: Program) -> dict[str, str]:
    """Text by the name of the file."""
    values = {"p": program, "name": program.name, "rank": _RANK, "version": polydl.base.version.__version__}
    made = {f"{name}.c": text for name, text in program.groups.items()}
    for file, template in (
        (f"{program.name}.h", "torch_model.h.j2"), (f"{program.name}.c", "torch_model.c.j2"),
        (f"{program.name}_test.c", "torch_model_test.c.j2"), ("Makefile", "torch_model.mk.j2"),
    ):  # fmt: skip
        made[file] = environment().get_template(template).render(values)
    return made


def weights_file(weights: Sequence[Tensor], data: bytes) -> bytes:
    """A weights file. `data` has a multiple of 8 bytes."""
    total = sum(memoryview(data).cast("Q")) % 2**64 if data else 0
    head = struct.pack("<8sIIQQQ", b"polydlW1", 0x01020304, 0, len(weights), len(data), total).ljust(64, b"\0")
    entries = [
        _ENTRY.pack(one.short.encode(), one.dtype.encode(), one.offset, one.bytes, len(one.sizes), *sizes, *strides, 0)
        for one in weights
        for sizes, strides in (one.padded,)
    ]
    return b"".join((head, *entries, data))
