"""Memory of a Scop's run: copies of the objects that the source has where its region begins.

The Scop runs when the source stands in front of the region. What it reads and writes there goes into a trace, in
numbers of objects, which are the source's; its own arrays are objects without a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from pycparser import c_ast

from polydl.base.records import dataclass
from polydl.model.scop import Array, Scop, Statement
from polydl.model.types import ElementType, Kind
from polydl.oracle import c_verdicts
from polydl.oracle.c_memory import Memory, Obj, Pointer
from polydl.oracle.c_program import CProgram
from polydl.oracle.interpreter import call
from polydl.oracle.region_marks import KeptText
from polydl.oracle.scop_numbers import Number, Undefined, Unsupported, decoded, encoded, is_nan
from polydl.oracle.scop_run import Instance, Place, Watched, Where, row_major
from polydl.oracle.traces import Access


@dataclass(slots=True)
class Objects:
    """Numbers of the source's objects, and what types the Scop has there."""

    all: list[Obj] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    """By the identity of an object."""
    types: dict[int, set[ElementType]] = field(default_factory=dict)
    """By number."""

    def number(self, obj: Obj) -> int:
        if id(obj) not in self.numbers:
            self.numbers[id(obj)] = len(self.all)
            self.all.append(obj)
        return self.numbers[id(obj)]

    def plain(self, number: int, data: bytes) -> bytes:
        """The bytes, of a NaN always the same."""
        for element in self.types.get(number, ()):
            if element.bytes == len(data) and element.rounds and is_nan(value := decoded(data, element)):
                if element.kind is Kind.COMPLEX:
                    return encoded(tuple(float("nan") if is_nan(part) else part for part in value), element)
                return encoded(float("nan"), element)
        return data


@dataclass(slots=True)
class _Copy:
    data: bytearray
    unset: bytearray | None


@dataclass(slots=True)
class Copies:
    """The memory that a Scop runs on: `scop_run.Memory`."""

    objects: Objects
    watched: Watched
    trace: list[Access[Instance | None]] = field(default_factory=list)
    private: set[int] = field(default_factory=set)
    """Numbers of objects that the source does not have."""
    _copies: dict[int, _Copy] = field(default_factory=dict)

    def copy(self, number: int) -> _Copy:
        if number not in self._copies:
            obj = self.objects.all[number]
            if obj.elastic:
                raise Unsupported(f"'{obj.name}', whose size is not known")
            unset = None if obj.unset is None else bytearray(obj.unset[: obj.size])
            self._copies[number] = _Copy(bytearray(obj.content()), unset)
        return self._copies[number]

    def load(self, place: Place, size: int) -> bytes:
        there = self._there(place, size)
        if there.unset is not None and any(there.unset[place.offset : place.offset + size]):
            raise Undefined(f"'{self.objects.all[place.object].name}' is read before it has a value")
        data = bytes(there.data[place.offset : place.offset + size])
        before = self.trace[-1] if self.trace and self.watched.copies else None
        stored = before is not None and before.write and (before.object, before.offset) == (place.object, place.offset)
        if not stored:  # `a = b = e`: what b has just been given
            self.traced(place, data, write=False, own=self.watched.target == place)
        return data

    def store(self, place: Place, data: bytes) -> None:
        there = self._there(place, len(data))
        there.data[place.offset : place.offset + len(data)] = data
        if there.unset is not None:
            there.unset[place.offset : place.offset + len(data)] = bytes(len(data))
        self.traced(place, data, write=True)

    def traced(self, place: Place, data: bytes, *, write: bool, own: bool = False) -> None:
        if place.object not in self.private:
            plain = self.objects.plain(place.object, data)
            self.trace.append(Access(place.object, place.offset, plain, write, self.watched.instance, own))

    def _there(self, place: Place, size: int) -> _Copy:
        there = self.copy(place.object)
        if not 0 <= place.offset <= len(there.data) - size:
            name = self.objects.all[place.object].name
            raise Undefined(
                f"bytes {place.offset} to {place.offset + size - 1} of '{name}', which has {len(there.data)}"
            )
        return there

    def value(self, number: int, offset: int) -> int | None:
        """What the Scop leaves in a byte; None for no value, and where it touched nothing of the object."""
        there = self._copies.get(number)
        return None if there is None or (there.unset is not None and there.unset[offset]) else there.data[offset]


def places(scop: Scop, given: Mapping[str, Pointer], memory: Memory, copies: Copies) -> dict[str, Where]:
    """Where the arrays and scalars of a Scop lie; `given`: the addresses of those that the source has. Raises
    Unsupported."""
    found: dict[str, Where] = {}
    own: dict[str, tuple[Obj, int]] = {}
    for name, array in scop.arrays.items():
        if name in given:
            found[name] = _where(array, given[name], copies)
            continue
        count = 1
        for extent in array.layout.shape:
            if extent is None:
                raise Unsupported(f"the size of '{name}' is not known")
            count *= max(extent, 0)
        size = count * array.element.bytes
        if array.spelled not in own or own[array.spelled][1] < size:
            obj = memory.new(array.spelled, size, origin="automatic")
            own[array.spelled] = obj, size
        number = copies.objects.number(own[array.spelled][0])
        copies.private.add(number)
        found[name] = row_major(array, Place(number, 0))
    return found


def _where(array: Array, pointer: Pointer, copies: Copies) -> Where:
    if pointer.obj is None or pointer.obj.origin == "null":

        def nowhere(subscripts: tuple[int, ...]) -> Place:
            raise Undefined(f"an element of '{array.name}', which is null")

        return nowhere
    number = copies.objects.number(pointer.obj)
    start = Place(number, pointer.offset)
    if array.rows is None:
        copies.objects.types.setdefault(number, set()).add(array.element)
        return row_major(array, start)
    memory = pointer.obj.memory

    def row(subscripts: tuple[int, ...]) -> Place:
        data = copies.copy(number).data
        at = pointer.offset + 8 * subscripts[0]
        if not 0 <= at <= len(data) - 8:
            raise Undefined(f"row {subscripts[0]} of '{array.name}'")
        there = memory.at(int.from_bytes(data[at : at + 8], "little"))
        if there.obj is None or len(subscripts) != 2:
            raise Unsupported("rows of more than one dimension behind pointers")
        own = copies.objects.number(there.obj)
        copies.objects.types.setdefault(own, set()).add(array.element)
        return Place(own, there.offset + subscripts[1] * array.element.bytes)

    return row


class _KeptTracer:
    """Hears what text that is kept reads and writes, in copies of the copies."""

    def __init__(self, copies: Copies, clones: dict[int, int], quiet: set[int]) -> None:
        self.copies, self.clones, self.quiet = copies, clones, quiet
        self.loads: dict[tuple[int, int, int], int] = {}
        """By the identity of the place in the text, object and offset the last read in the trace."""

    def load(self, obj: Obj, offset: int, size: int, node: c_ast.Node) -> None:
        number = self.clones.get(id(obj))
        if number is not None and number not in self.quiet:
            data = obj.content(offset, offset + size)
            self.loads[id(node), number, offset] = len(self.copies.trace)
            self.copies.traced(Place(number, offset), data, write=False)

    def store(self, obj: Obj, offset: int, size: int, node: c_ast.Node) -> None:
        number = self.clones.get(id(obj))
        if number is not None:
            before = self.loads.pop((id(node), number, offset), None)
            if before is not None and before < len(self.copies.trace):
                # A compound assignment: one place in the text that is read, then written.
                self.copies.trace[before] = replace(self.copies.trace[before], own=True)
            place, data = Place(number, offset), obj.content(offset, offset + size)
            if number not in self.quiet or data != self.copies.copy(number).data[offset : offset + size]:
                self.copies.store(place, data)

    def statement(self, node: c_ast.Node) -> None:
        return


@dataclass(frozen=True, slots=True)
class KeptRun:
    """Runs text that is kept with the interpreter of C: `scop_run.Kept`."""

    program: CProgram
    functions: Mapping[str, KeptText]
    scop: Scop
    memory: Memory
    copies: Copies
    where: Mapping[str, Where]
    numbers: Mapping[str, int]
    """Of the Scop's parameters."""

    def run(self, statement: Statement, text: str, variables: Mapping[str, int | None]) -> None:
        function = self.functions[statement.name]
        clones: dict[int, Obj] = {}
        quiet: set[int] = set()
        given: list[int | Pointer] = [self.numbers[name] for name in function.numbers]
        for name in function.memory:
            array = self.scop.arrays[name]
            if array.rows is not None:
                raise Unsupported("text that is kept with rows behind pointers")
            place = self.where[name]((0,) * len(array.extents))
            if place.object not in clones:
                clones[place.object] = self._clone(place.object)
            if array.is_scalar:
                quiet.add(place.object)
            given.append(Pointer(clones[place.object], place.offset))
        for declaration in function.variables:
            value = variables[declaration]
            assert value is not None, "it has one"
            given.append(value)
        tracer = _KeptTracer(self.copies, {id(obj): number for number, obj in clones.items()}, quiet)
        try:
            call(self.program, function.name, given, self.memory, tracer=tracer)
        except c_verdicts.Undefined as error:
            raise Undefined(f"in text that is kept: {error.message}") from error
        except c_verdicts.Unsupported as error:
            raise Unsupported(f"text that is kept: {error.reason}") from error

    def _clone(self, number: int) -> Obj:
        copy, name = self.copies.copy(number), self.copies.objects.all[number].name
        if copy.unset is None or not any(copy.unset):
            return self.memory.new(name, len(copy.data), fill=bytes(copy.data), origin="argument")
        made = self.memory.new(name, len(copy.data), origin="argument")
        made.data[: made.size] = copy.data
        assert made.unset is not None, "nothing has a value yet"
        made.unset[: made.size] = copy.unset
        return made

    def call(self, function: str, arguments: list[tuple[Number, ElementType]], element: ElementType) -> Number:
        try:
            return call(self.program, function, [value for value, _ in arguments], self.memory).value
        except c_verdicts.Undefined as error:
            raise Undefined(f"in '{function}': {error.message}") from error
        except c_verdicts.Unsupported as error:
            raise Unsupported(f"the function '{function}': {error.reason}") from error
        except ValueError as error:
            raise Unsupported(f"arguments of '{function}': {error}") from error
