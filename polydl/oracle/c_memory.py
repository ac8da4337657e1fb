"""Memory of a running C program: objects are bytes, pointers are an object and an offset.

Overlap needs no thought: two pointers into one object reach the same bytes. Pointers that are stored become numbers,
so that they can be copied as bytes, compared as `uintptr_t` and turned back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from pycparser import c_ast

from polydl.oracle.c_arithmetic import brain_bits, from_brain_bits, half_bytes
from polydl.oracle.c_verdicts import Undefined, place_of

Fill = bytes | int | Callable[[int, int], bytes]
"""Bytes of an object at first: these, this one everywhere, or a function that gives those of [low, high)."""

_VIEWS: dict[str, Any] = {
    "i1": "b",
    "u1": "B",
    "i2": "h",
    "u2": "H",
    "i4": "i",
    "u4": "I",
    "i8": "q",
    "u8": "Q",
    "f4": "f",
    "f8": "d",
}
_REGION = 40
"""Objects lie 2**40 bytes from each other, so that a number says which object it points to."""


class Pointer(NamedTuple):
    """A pointer; `Pointer(None, 0)` is null."""

    obj: Obj | None
    offset: int


class PartlyUnset(bytes):
    """Bytes of which some were never given a value."""

    unset: bytes
    """1 for each such byte."""


class Obj:
    """An object of memory.

    Translated functions read and write `f8` and the other views where an access lies in [begin, e8), by its size, and
    is aligned; whatever else they ask `load` and `store`.
    """

    __slots__ = (
        "_high",
        "_left",
        "_low",
        "address",
        "alive",
        "begin",
        "data",
        "below",
        "elastic",
        "e1",
        "e2",
        "e4",
        "e8",
        "fill",
        "memory",
        "name",
        "origin",
        "readonly",
        "size",
        "unset",
        *_VIEWS,
    )
    address: int
    i1: memoryview[int]
    u1: memoryview[int]
    i2: memoryview[int]
    u2: memoryview[int]
    i4: memoryview[int]
    u4: memoryview[int]
    i8: memoryview[int]
    u8: memoryview[int]
    f4: memoryview[float]
    f8: memoryview[float]

    def __init__(self, memory: Memory, name: str, size: int | None, fill: Fill | None, origin: str) -> None:
        self.memory, self.name, self.origin = memory, name, origin
        self.fill = fill
        self.elastic = size is None
        self.size = size or 0
        """Bytes; of an elastic object those from 0 to the end of what was touched."""
        self.readonly = False
        self.alive = True
        self.begin = 0
        self.below = bytearray()
        """An elastic object's bytes in front of offset 0, the nearest first."""
        self.unset: bytearray | None = None
        """1 for each byte of `data` that has no value yet; None when all have one."""
        self._low: int | None = None
        self._high: int | None = None
        self.data = bytearray(-(-self.size // 16) * 16)
        if size is not None and fill is not None:
            self.data[:size] = self._filled(0, size)
        self._left = 0
        """Bytes without a value."""
        if fill is None:
            self.unset = bytearray(b"\1" * len(self.data))
            self._left = self.size
        self._reach(0 if self.elastic or fill is None else self.size)

    def __getattr__(self, name: str) -> Any:
        """Views and the address are made when they are first asked for."""
        if name == "address":
            self.address = self.memory.placed(self)
            return self.address
        if name in _VIEWS:
            view = memoryview(self.data).cast("B").cast(_VIEWS[name])
            setattr(self, name, view)
            return view
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"<{self.origin} {self.name}>"

    @property
    def touched(self) -> tuple[int, int] | None:
        """Of an elastic object the bytes [low, high) within which all accesses lay; None if there was none."""
        return None if self._low is None or self._high is None else (self._low, self._high)

    def content(self, low: int = 0, high: int | None = None) -> bytes:
        """The bytes from `low` to `high`, for callers from outside; an elastic object is not touched by it."""
        high = self.size if high is None else high
        if self.elastic:
            self._grow(low, high)
        before = bytes(self.below[: max(0, -low)])[::-1][: high - low] if low < 0 else b""
        return before + bytes(self.data[max(0, low) : max(0, high)])

    def end_life(self) -> None:
        """What follows is an access behind the object's lifetime."""
        self.alive = False
        self._reach(0)

    def _reach(self, end: int) -> None:
        self.e1, self.e2, self.e4, self.e8 = end, end - 1, end - 3, end - 7

    def _filled(self, low: int, high: int) -> bytes:
        fill = self.fill
        if fill is None:
            return bytes(high - low)
        if isinstance(fill, int):
            return bytes([fill]) * (high - low)
        made = fill[low:high] if isinstance(fill, bytes | bytearray) else fill(low, high)
        if len(made) != high - low:
            raise ValueError(f"{high - low} bytes of '{self.name}' are needed, {len(made)} are given")
        return made

    def _grow(self, low: int, high: int) -> None:
        """Make room in an elastic object."""
        if high > len(self.data):
            old = len(self.data)
            new = -(-max(high, 2 * old, 64) // 16) * 16
            for name in _VIEWS:  # they hold the old bytes
                self._forget(name)
            self.data = self.data + self._filled(old, new)
            if self.unset is not None:
                self.unset += b"\1" * (new - old)
        if -low > len(self.below):
            old = len(self.below)
            new = max(-low, 2 * old, 64)
            self.below += self._filled(-new, -old)[::-1]

    def _forget(self, name: str) -> None:
        try:
            delattr(self, name)
        except AttributeError:
            return  # it was never made

    def check(self, offset: int, size: int, node: c_ast.Node, *, write: bool = False, alignment: int = 1) -> None:
        """Raises Undefined unless `size` bytes from `offset` may be accessed; an elastic object grows."""
        end = offset + size
        if self is NULL or self.origin == "function":
            where = "a null pointer" if self is NULL and offset == 0 else "what is no object"
            raise Undefined("null", f"access through {where}", place_of(node))
        if not self.alive:
            raise Undefined("lifetime", f"'{self.name}' is accessed after its lifetime", place_of(node))
        if offset % alignment:
            raise Undefined("alignment", f"byte {offset} of '{self.name}' is no place for this type", place_of(node))
        if write and self.readonly:
            raise Undefined("constant", f"'{self.name}' is constant and written", place_of(node))
        if self.elastic:
            if size == 0:
                return
            self._grow(offset, end)
            self._low = offset if self._low is None else min(self._low, offset)
            self._high = end if self._high is None else max(self._high, end)
            self.size = max(0, self._high)
            self.begin = max(0, self._low)
            if self.unset is None:
                self._reach(max(0, self._high))
        elif offset < 0 or end > self.size:
            bytes_ = f"bytes {offset} to {end - 1}" if size > 1 else f"byte {offset}"
            raise Undefined("bounds", f"{bytes_} of '{self.name}', which has {self.size}", place_of(node))

    def read(self, offset: int, size: int, node: c_ast.Node, alignment: int = 1) -> bytes:
        """Bytes, as structures and memcpy read them: some may have no value."""
        self.check(offset, size, node, alignment=alignment)
        if offset < 0:
            return self.content(offset, offset + size)
        data = bytes(self.data[offset : offset + size])
        if self.unset is not None and any(unset := self.unset[offset : offset + size]):
            data = PartlyUnset(data)
            data.unset = bytes(unset)
        return data

    def write(self, offset: int, data: bytes, node: c_ast.Node, alignment: int = 1) -> None:
        size = len(data)
        self.check(offset, size, node, write=True, alignment=alignment)
        if offset < 0:
            for number, byte in enumerate(data[:-offset]):
                self.below[-offset - number - 1] = byte
        first = max(0, offset)
        self.data[first : max(0, offset + size)] = data[first - offset :]
        if self.unset is not None:
            unset = data.unset if isinstance(data, PartlyUnset) else bytes(size)
            self._left += sum(unset) - sum(self.unset[offset : offset + size])
            self.unset[first : max(0, offset + size)] = unset[first - offset :]
            self._all_set()
        elif isinstance(data, PartlyUnset):
            self.unset = bytearray(len(self.data))
            self.unset[first : max(0, offset + size)] = data.unset[first - offset :]
            self._left = sum(self.unset)
            self._reach(0)

    def load(self, code: str, offset: int, node: c_ast.Node, alignment: int = 0) -> Any:
        """A number of the type with this code; raises Undefined for bytes without a value."""
        size = int(code[1:])
        if code in _VIEWS and self._plain(offset, size):
            if self.unset is None or self.unset.find(1, offset, offset + size) < 0:
                return getattr(self, code)[offset // size]
        data = self.read(offset, size, node, alignment or size)
        if isinstance(data, PartlyUnset):
            raise Undefined("uninitialised", f"'{self.name}' is read before it has a value", place_of(node))
        return decoded(code, data, self.memory)

    def store(self, code: str, offset: int, value: Any, node: c_ast.Node, alignment: int = 0) -> None:
        size = int(code[1:])
        if code in _VIEWS and not self.readonly and self._plain(offset, size) and self.unset is not None:
            getattr(self, code)[offset // size] = value
            self._left -= self.unset.count(1, offset, offset + size)
            self.unset[offset : offset + size] = bytes(size)
            self._all_set()
            return
        self.write(offset, encoded(code, value), node, alignment or size)

    def _plain(self, offset: int, size: int) -> bool:
        """Whether an access is what most are: aligned, within an object that lives and has a size."""
        return self.alive and not self.elastic and offset % size == 0 and 0 <= offset <= self.size - size

    def _all_set(self) -> None:
        if self._left == 0 and not self.elastic:
            self.unset = None
            self._reach(self.size)


def decoded(code: str, data: bytes, memory: Memory) -> Any:
    """The number that bytes are, of a pointer its object and offset."""
    if code in _VIEWS:
        return memoryview(data).cast(_VIEWS[code])[0]
    if code == "f2":
        return float(struct.unpack("<e", data)[0])
    if code == "b2":
        return from_brain_bits(int.from_bytes(data, "little"))
    if code == "p8":
        return memory.at(int.from_bytes(data, "little"))
    return int.from_bytes(data, "little", signed=code[0] == "i")


def encoded(code: str, value: Any) -> bytes:
    """The bytes of a number that is in the range of its type, or of a pointer."""
    if code in _VIEWS:
        data = bytearray(int(code[1:]))
        memoryview(data).cast(_VIEWS[code])[0] = value
        return bytes(data)
    if code == "f2":
        return half_bytes(value)
    if code == "b2":
        return brain_bits(value).to_bytes(2, "little")
    if code == "p8":
        return int((value[0].address + value[1]) % 2**64).to_bytes(8, "little")
    return int(value).to_bytes(16, "little", signed=code[0] == "i")


class Memory:
    """The objects of a run, and what its `static` objects hold from one call to the next."""

    def __init__(self) -> None:
        self._placed: list[Obj] = []
        self.environments: dict[int, Any] = {}
        """What interpreters keep here for each program: its objects with static storage."""

    def new(
        self,
        name: str,
        size_bytes: int | None,
        *,
        fill: Fill | None = None,
        origin: str = "argument",
        readonly: bool = False,
    ) -> Obj:
        """An object.

        `size_bytes` None: it grows to where it is touched, in front of offset 0 too. `fill` None: its bytes have no
        value until one is written. `origin` says where it comes from: argument, automatic, static, literal, heap.
        """
        made = Obj(self, name, size_bytes, fill, origin)
        if readonly:
            made.readonly = True
        return made

    def placed(self, obj: Obj) -> int:
        """A number for the first byte of an object; the object then lives as long as this memory."""
        if obj is NULL:
            return 0
        self._placed.append(obj)
        return len(self._placed) << _REGION

    def at(self, address: int) -> Pointer:
        """The pointer that a number is; one to no object can be compared, but not followed."""
        number = (address + (1 << (_REGION - 1))) >> _REGION
        if 1 <= number <= len(self._placed):
            return Pointer(self._placed[number - 1], address - (number << _REGION))
        return Pointer(NULL, address)


NULL = Obj(Memory(), "null", 0, b"", "null")
"""What null pointers point to inside of translated functions."""
