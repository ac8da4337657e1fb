"""Memory of a core that runs: objects of bytes, far from each other, so that an address says which one it is of."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

from polydl.base.errors import Span
from polydl.base.records import dataclass
from polydl.frontend.typed.core_values import Pointer, Type
from polydl.frontend.typed.literals import as_float, nearest_float
from polydl.model.types import BF16, F16, F32, F64, ElementType

_APART = 40
"""Objects begin 2^40 bytes from each other."""
_OWN = 1 << 20
"""The number of the first object that is made here; callers have lower ones."""

Datum = Any
"""What the interpreter of the core computes with: an int, a float, a pointer, bytes of a structure."""


class Undefined(Exception):
    """C says nothing of what the program does."""

    def __init__(self, kind: str, what: str, span: Span) -> None:
        super().__init__(f"{span}: {what}")
        self.kind = kind


class NotRun(Exception):
    """What the interpreter does not know."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Bytes, some of which may have no value yet."""

    data: bytes
    unset: bytes | None = None
    """1 for each such byte; None: all have one."""


@dataclass(slots=True)
class _Object:
    name: str
    data: bytearray
    unset: bytearray
    alive: bool = True


class Memory:
    def __init__(self) -> None:
        self._objects: dict[int, _Object] = {}
        self._next = _OWN

    def new(self, name: str, size: int, *, zero: bool = False) -> int:
        """The address of a new object."""
        self._next += 1
        self._objects[self._next] = _Object(name, bytearray(size), bytearray(b"\0" if zero else b"\1") * size)
        return self._next << _APART

    def put(self, address: int, data: bytes, unset: bytes | None = None) -> None:
        """An object of the caller, which begins at a multiple of 2^40."""
        number = address >> _APART
        self._objects[number] = _Object(f"object {number}", bytearray(data), bytearray(unset or bytes(len(data))))

    def content(self, address: int) -> bytes:
        """All bytes of an object."""
        return bytes(self._objects[address >> _APART].data)

    def end(self, address: int) -> None:
        """The end of an object's lifetime."""
        self._objects[address >> _APART].alive = False

    @staticmethod
    def together(one: int, other: int) -> bool:
        """Whether two pointers are into one object, or in front of or behind it."""
        half = 1 << (_APART - 1)
        return (one + half) >> _APART == (other + half) >> _APART

    def _found(self, address: int, size: int, span: Span) -> tuple[_Object, int]:
        number = (address + (1 << (_APART - 1))) >> _APART
        offset = address - (number << _APART)
        found = self._objects.get(number)
        if found is None:
            raise Undefined("null", "access through what points to no object", span)
        if not found.alive:
            raise Undefined("lifetime", f"'{found.name}' is used after its lifetime", span)
        if offset < 0 or offset + size > len(found.data):
            raise Undefined("bounds", f"bytes {offset} to {offset + size} of {len(found.data)} of '{found.name}'", span)
        return found, offset

    def read(self, address: int, size: int, span: Span) -> Whole:
        found, at = self._found(address, size, span)
        unset = bytes(found.unset[at : at + size])
        return Whole(bytes(found.data[at : at + size]), unset if any(unset) else None)

    def write(self, address: int, whole: Whole, span: Span) -> None:
        size = len(whole.data)
        found, at = self._found(address, size, span)
        found.data[at : at + size] = whole.data
        found.unset[at : at + size] = bytes(size) if whole.unset is None else whole.unset


# --- numbers as bytes


def _format(kind: ElementType) -> str:
    found = {F32: "<f", F64: "<d", F16: "<e"}.get(kind)
    if found is None:
        raise NotRun(f"numbers of type '{kind}'")
    return found


def decoded(data: bytes, kind: Type) -> Datum:
    """The number that bytes are, or the address."""
    if isinstance(kind, Pointer):
        return int.from_bytes(data, "little")
    assert isinstance(kind, ElementType), "it is a number"
    if kind.is_int:
        return int.from_bytes(data, "little", signed=not kind.unsigned)
    if kind is BF16:
        return struct.unpack("<f", b"\0\0" + data)[0]
    return struct.unpack(_format(kind), data)[0]


def encoded(value: Datum, kind: Type) -> bytes:
    if isinstance(kind, Pointer):
        return int(value % 2**64).to_bytes(8, "little")
    assert isinstance(kind, ElementType), "it is a number"
    if kind.is_int:
        return int(value).to_bytes(kind.bytes, "little", signed=not kind.unsigned)
    if kind is BF16:
        return struct.pack("<f", value)[2:]
    return struct.pack(_format(kind), value)


def rounded(number: int | float, kind: ElementType) -> float:
    """The nearest number of a type that rounds."""
    if kind is F64:
        return float(number)
    if kind is F32:
        return nearest_float(float(number), Fraction(number)) if isinstance(number, int) else as_float(number)
    if kind is F16:
        try:
            return float(struct.unpack("<e", struct.pack("<e", float(number)))[0])
        except OverflowError:
            return math.copysign(math.inf, number)
    if kind is BF16:
        return _rounded_to_bf16(as_float(float(number)))
    raise NotRun(f"numbers of type '{kind}'")


def _rounded_to_bf16(number: float) -> float:
    if math.isnan(number):
        return number
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    bits += 0x7FFF + ((bits >> 16) & 1)
    return float(struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0])
