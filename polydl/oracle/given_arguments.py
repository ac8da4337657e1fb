"""Arguments and global data for a function of a C program, made of a filling and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from polydl.base.records import dataclass
from polydl.model.types import ElementType, spelled
from polydl.oracle.c_memory import Memory, Obj, Pointer, encoded
from polydl.oracle.c_program import CProgram
from polydl.oracle.c_types import Array, CType, Integer, PointerTo, Real, Record, Void, size_of
from polydl.oracle.fillings import Filling
from polydl.oracle.interpreter import objects
from polydl.oracle.overlaps import Overlap
from polydl.oracle.region_marks import EVENT, MEMORY, NUMBERS
from polydl.oracle.scop_numbers import Unsupported

Argument = int | float | Pointer | bytes


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run begins with."""

    filling: Filling
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Values of integer parameters, of integers of the file, and of members (`rows` of any structure)."""
    size: int = 3
    """Of all other integers of 32 and 64 bits that are passed by value, and of those in structures with pointers."""
    elements: int = 1024
    """Behind each pointer."""
    overlap: Overlap | None = None
    """How pointer parameters share memory; None: they don't."""

    def __str__(self) -> str:
        given = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        shared = "" if self.overlap is None or self.overlap.name == "apart" else f", {self.overlap.name}"
        return f"sizes {given or self.size}, data {self.filling.name}{shared}"

    def integer(self, name: str) -> int:
        return self.sizes.get(name, self.size)


def element_of(kind: CType) -> ElementType | None:
    """The row of polydl's table for a type of C; None for others."""
    return spelled(str(kind)) if isinstance(kind, Integer | Real) else None


def _innermost(kind: CType) -> CType:
    while isinstance(kind, Array):
        kind = kind.element
    return kind


def _data(kind: CType, count: int, name: str, setting: Setting, memory: Memory, depth: int = 0) -> bytes:
    """Bytes of some values of a type. Raises Unsupported."""
    kind = _innermost(kind)
    if isinstance(kind, Void):
        kind = Integer("unsigned char", 1, False, 1)
    element = element_of(kind)
    if element is not None:
        return setting.filling.values(element, count, name)
    if isinstance(kind, PointerTo) and depth < 4:
        rows = [pointed(kind.target, f"{name}[{i}]", setting, memory, depth + 1) for i in range(min(count, 12))]
        return b"".join(encoded("p8", (rows[i % len(rows)].obj, 0)) for i in range(count))
    if isinstance(kind, Record) and kind.members is not None and not kind.union:
        return b"".join(_record(kind, f"{name}.{i}" if i else name, setting, memory, depth) for i in range(count))
    raise Unsupported(f"data of type '{kind}'")


def _record(kind: Record, name: str, setting: Setting, memory: Memory, depth: int) -> bytes:
    data = bytearray(kind.size)
    members = kind.members or ()
    sized = any(isinstance(member.type, PointerTo) for member in members)
    for member in members:
        label = f"{name}.{member.name}"
        inner = _innermost(member.type)
        if sized and isinstance(inner, Integer) and inner is member.type and inner.size >= 4:
            value = setting.integer(str(member.name)).to_bytes(inner.size, "little", signed=True)
        else:
            count = size_of(member.type) // size_of(inner)
            value = _data(inner, count, label, setting, memory, depth)
        data[member.offset : member.offset + len(value)] = value
    return bytes(data)


def pointed(kind: CType, name: str, setting: Setting, memory: Memory, depth: int = 0) -> Pointer:
    """New memory that a pointer to a type leads to. Raises Unsupported."""
    inner = _innermost(kind)
    count = setting.elements if element_of(inner) is not None or isinstance(inner, Void) else 24
    data = _data(inner, count, name, setting, memory, depth)
    return Pointer(memory.new(name, len(data), fill=data, origin="argument"), 0)


def arguments(program: CProgram, function: str, setting: Setting, memory: Memory) -> list[Argument]:
    """Arguments for a function, in new objects of the memory; objects with static storage and no first value of their
    own get data, too. Raises Unsupported."""
    blocks: dict[int, Obj] = {}
    found: list[Argument] = []
    for name, kind in program.functions[function].parameters:
        shared = None if setting.overlap is None else next((p for p in setting.overlap.places if p[0] == name), None)
        if isinstance(kind, PointerTo) and shared is not None:
            _, block, offset = shared
            if block not in blocks:
                made = pointed(kind.target, name, setting, memory).obj
                assert made is not None, "it was just made"
                blocks[block] = made
            found.append(Pointer(blocks[block], offset))
        elif isinstance(kind, PointerTo):
            found.append(pointed(kind.target, name, setting, memory))
        else:
            found.append(_passed(kind, name, setting, memory))
    for name, obj in objects(program, memory).items():
        declared = program.globals[name]
        if name in (EVENT, MEMORY, NUMBERS) or "." in name or declared.node.init is not None or obj.elastic:
            continue
        inner = _innermost(declared.type)
        if isinstance(declared.type, Integer) and declared.type.size >= 4:
            obj.data[: obj.size] = setting.integer(name).to_bytes(obj.size, "little", signed=True)
        elif obj.size and not isinstance(inner, Record | PointerTo):
            obj.data[: obj.size] = _data(inner, obj.size // size_of(inner), name, setting, memory)
    return found


def _passed(kind: CType, name: str, setting: Setting, memory: Memory) -> Argument:
    if isinstance(kind, Record):
        return _data(kind, 1, name, setting, memory)
    element = element_of(kind)
    if element is None:
        raise Unsupported(f"an argument of type '{kind}'")
    if isinstance(kind, Integer) and (kind.size >= 4 or name in setting.sizes):
        return kind.wrapped(setting.integer(name))
    number: int | float = setting.filling.numbers(element, 1, name)[0]
    return number


def has_integers(program: CProgram, function: str) -> bool:
    """Whether the data of a function hold integers, which may be subscripts."""
    parameters = program.functions[function].parameters
    kinds: list[CType] = [kind for _, kind in parameters if isinstance(kind, PointerTo | Record)]
    kinds += [one.type for name, one in program.globals.items() if name not in (EVENT, MEMORY, NUMBERS)]
    return any(map(_holds_integers, kinds))


def _holds_integers(kind: CType) -> bool:
    while isinstance(kind, Array | PointerTo):
        kind = kind.element if isinstance(kind, Array) else kind.target
    if isinstance(kind, Record):
        return any(_holds_integers(member.type) for member in kind.members or () if member.type is not kind)
    return isinstance(kind, Integer)
