"""Runs a core: what its nodes mean. What C leaves undefined raises `Undefined`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field

from polydl.base.errors import Span
from polydl.base.records import dataclass
from polydl.frontend.typed import core_values as pure
from polydl.frontend.typed import nodes as core
from polydl.frontend.typed.byte_memory import Datum, Memory, NotRun, Undefined, Whole, decoded, encoded, rounded
from polydl.frontend.typed.core_values import Obj, Origin, Place, Pointer, Record, Type, Value, Var
from polydl.frontend.typed.nodes import Block
from polydl.frontend.typed.pure_functions import computed
from polydl.frontend.typed.pure_values import COMPARISONS, alignment, folded_integer, wrapped
from polydl.model.types import BOOL, ElementType, Kind

__all__ = ["Machine", "Memory", "NotRun", "Undefined"]

_STEPS = 400_000
_NOWHERE = Span("?", 1, 1)


@dataclass(frozen=True, slots=True)
class _Left:
    """How a block was left, where not by its end."""

    how: str
    value: Datum = None


_BREAK, _CONTINUE = _Left("break"), _Left("continue")


@dataclass(slots=True)
class _Frame:
    values: dict[int, Datum] = field(default_factory=dict)
    """Of variables and results, and the addresses of local objects, by number."""
    objects: set[int] = field(default_factory=set)
    """The numbers of local objects."""


class Machine:
    """A program in a memory. `at`: addresses of objects with static storage, by name, that have their values; the
    others are made here."""

    def __init__(self, program: core.Program, memory: Memory, at: Mapping[str, int], steps: int = _STEPS) -> None:
        self.program, self.memory, self.steps = program, memory, steps
        self._globals: dict[int, int] = {}
        self._code: dict[str, int] = {}
        self._span = _NOWHERE
        made = set()
        for one in program.objects:
            if one.name in at:
                self._globals[one.number] = at[one.name]
            else:
                self._globals[one.number] = memory.new(one.name, self._size(one.type, _Frame()), zero=True)
                made.add(one.number)
        first = [node for node in program.first.items if _object(node) in made]
        self._block(Block(tuple(first)), _Frame())

    def call(self, name: str, arguments: Sequence[Datum]) -> Datum:
        """The result of a function: numbers, addresses, `Whole` of structures. Raises Undefined, NotRun."""
        function = self.program.functions.get(name)
        if function is None:
            return self._library(name, arguments)
        frame = _Frame()
        for parameter, value in zip(function.parameters, arguments, strict=True):
            frame.values[parameter.number] = value
        before, self._span = self._span, function.span
        left = self._block(function.body, frame)
        self._span = before
        for number in frame.objects:
            self.memory.end(frame.values[number])
        return left.value if left is not None else None

    def _library(self, name: str, arguments: Sequence[Datum]) -> Datum:
        match name.removeprefix("__builtin_"), *arguments:
            case "malloc", size:
                return self.memory.new(name, size)
            case "calloc", count, size:
                return self.memory.new(name, count * size, zero=True)
            case "free", address:
                return self.memory.end(address) if address else None
            case "assert", held, *_:
                return None if held else self._undefined("assertion", "an assertion does not hold")
            case "prefetch", *_:
                return None
        raise NotRun(f"'{name}' is called")

    def _undefined(self, kind: str, what: str) -> Datum:
        raise Undefined(kind, what, self._span)

    # --- control

    def _block(self, block: Block, frame: _Frame) -> _Left | None:
        for node in block.items:
            self._span = node.span
            left = self._node(node, frame)
            if left is not None:
                return left
        return None

    def _node(self, node: core.Node, frame: _Frame) -> _Left | None:
        match node:
            case core.If(condition, then, other, results):
                taken = then if self._value(condition, frame) else other
                if (left := self._block(taken, frame)) is not None:
                    return left
                for result, value in zip(results, taken.yields, strict=True):
                    frame.values[result.number] = self._value(value, frame)
            case core.Loop():
                return self._loop(node, frame)
            case core.Break():
                return _BREAK
            case core.Continue():
                return _CONTINUE
            case core.Return(given):
                return _Left("return", None if given is None else self._value(given, frame))
            case _:
                self._effect(node, frame)
        return None

    def _effect(self, node: core.Effect, frame: _Frame) -> None:
        match node:
            case core.Assign(var, value):
                frame.values[var.number] = self._value(value, frame)
            case core.Load(result, place):
                frame.values[result.number] = self._load(place, frame)
            case core.Store(place, value):
                self._store(place, self._value(value, frame), frame)
            case core.Let(result, value):
                frame.values[result.number] = self._value(value, frame)
            case core.Declare(what):
                self._declare(what, frame)
            case core.Call(function, arguments, result):
                given = [self._value(one, frame) for one in arguments]
                done = self.call(self._called(function, frame), given)
                if result is not None:
                    frame.values[result.number] = done
            case core.Copy(to, source, size, may_overlap):
                bytes_ = self._value(size, frame)
                target, origin = self._address(to, frame), self._address(source, frame)
                if not may_overlap and bytes_ and abs(target - origin) < bytes_:
                    self._undefined("argument", "memcpy between places that overlap")
                self.memory.write(target, self.memory.read(origin, bytes_, self._span), self._span)
            case core.Fill(to, byte, size):
                data = bytes([self._value(byte, frame) & 255]) * self._value(size, frame)
                self.memory.write(self._address(to, frame), Whole(data), self._span)
            case core.Opaque(why):
                raise NotRun(f"text that is kept: {why}")

    def _loop(self, loop: core.Loop, frame: _Frame) -> _Left | None:
        test, first = loop.test, not loop.bottom
        while True:
            if first:
                left = self._block(test, frame)
                if left is not None or not self._value(test.yields[0], frame):
                    return left
            first = True
            self.steps -= 1
            if self.steps < 0:
                raise NotRun("more steps than allowed")
            left = self._block(loop.body, frame)
            if left is _BREAK:
                return None
            if left is not None and left is not _CONTINUE:
                return left
            self._block(loop.step, frame)

    def _declare(self, what: Var | Obj, frame: _Frame) -> None:
        before = frame.values.pop(what.number, None)
        if isinstance(what, Obj):
            if before is not None:
                self.memory.end(before)
            frame.objects.add(what.number)
            frame.values[what.number] = self.memory.new(what.name, self._size(what.type, frame))

    def _size(self, kind: Type, frame: _Frame) -> int:
        match kind:
            case pure.ArrayOf(element, count):
                if count is None:
                    raise NotRun("an array of unknown size")
                number = self._value(count, frame)
                if number <= 0 and not isinstance(count, pure.Const):
                    self._undefined("bounds", f"an array of {number} elements")
                return int(number * self._size(element, frame))
            case ElementType():
                return kind.bytes
            case Record():
                return kind.size
        return 8 if isinstance(kind, Pointer) else 1

    # --- places

    def _address(self, place: Place, frame: _Frame, *, access: bool = False) -> int:
        if isinstance(place.base, Obj):
            address = self._start(place.base, frame)
        else:
            address = self._value(place.base, frame)
        for part in place.path:
            if isinstance(part, pure.Field):
                address += part.offset
                continue
            index = self._value(part.value, frame)
            if part.count is not None:
                count = self._value(part.count, frame)
                if not 0 <= index < count + (not access):
                    self._undefined("bounds", f"element {index} of an array of {count}")
            address += index * self._value(part.stride, frame)
        return int(address)

    def _start(self, obj: Obj, frame: _Frame) -> int:
        match obj.origin:
            case Origin.GLOBAL:
                return self._globals[obj.number]
            case Origin.POINTEE:
                assert obj.of is not None, "it is of a parameter"
                return int(frame.values[obj.of.number])
            case Origin.FUNCTION:
                if obj.name not in self._code:
                    self._code[obj.name] = self.memory.new(obj.name, 0)
                return self._code[obj.name]
        if obj.number not in frame.values:
            self._undefined("lifetime", f"'{obj.name}' is used outside of its block")
        return int(frame.values[obj.number])

    def _called(self, function: str | Value, frame: _Frame) -> str:
        if isinstance(function, str):
            return function
        address = self._value(function, frame)
        found = next((name for name, at in self._code.items() if at == address), None)
        return found if found is not None else str(self._undefined("null", "a call of what is no function"))

    def _load(self, place: Place, frame: _Frame) -> Datum:
        address = self._address(place, frame, access=True)
        kind = place.type
        self._aligned(address, kind)
        if isinstance(kind, Record):
            return self.memory.read(address, kind.size, self._span)
        data = self.memory.read(address, self._size(kind, frame), self._span)
        if data.unset is not None:
            self._undefined("uninitialised", "memory is read before it has a value")
        return decoded(data.data, kind)

    def _store(self, place: Place, value: Datum, frame: _Frame) -> None:
        address = self._address(place, frame, access=True)
        self._aligned(address, place.type)
        whole = value if isinstance(value, Whole) else Whole(encoded(value, place.type))
        self.memory.write(address, whole, self._span)

    def _aligned(self, address: int, kind: Type) -> None:
        if address % alignment(kind):
            self._undefined("alignment", f"no place for '{kind}'")

    # --- values

    def _value(self, value: Value, frame: _Frame) -> Datum:
        match value:
            case pure.Const(number):
                return number
            case pure.Read(var):
                if var.number not in frame.values:
                    self._undefined("uninitialised", f"'{var.name}' is read before it has a value")
                return frame.values[var.number]
            case pure.Ref(number):
                return frame.values[number]
            case pure.Bin():
                return self._binary(value, self._value(value.a, frame), self._value(value.b, frame))
            case pure.Conv(a, kind):
                return self._converted(self._value(a, frame), a.type, kind)
            case pure.Un(op, a, kind):
                number = self._value(a, frame)
                return self._fitting(-number if op == "-" else ~number, kind, value.wraps)
            case pure.Select(condition, a, b):
                return self._value(a if self._value(condition, frame) else b, frame)
            case pure.AddressOf(place):
                return self._address(place, frame)
            case pure.Distance(a, b, stride):
                first, second = self._value(a, frame), self._value(b, frame)
                if not self.memory.together(first, second):
                    self._undefined("pointer", "pointers into two objects")
                return (first - second) // self._value(stride, frame)
            case pure.Pure(function, arguments):
                return computed(function, [self._value(one, frame) for one in arguments], self._span)

    def _fitting(self, number: Datum, kind: ElementType, wraps: bool) -> Datum:
        if not kind.is_int:
            return number
        if wraps:
            return wrapped(number, kind)
        if not kind.minimum <= number <= kind.maximum:
            self._undefined("overflow", f"{number} does not fit in '{kind}'")
        return number

    def _binary(self, value: pure.Bin, a: Datum, b: Datum) -> Datum:
        op, kind = value.op, value.a.type
        if op in COMPARISONS:
            if isinstance(kind, Pointer) and op not in ("==", "!=") and not self.memory.together(a, b):
                self._undefined("pointer", "pointers into two objects are compared")
            return int(_compared(op, a, b))
        if not isinstance(kind, ElementType) or kind.kind is Kind.COMPLEX:
            raise NotRun("complex numbers")
        if not kind.is_int:
            return rounded(_real(op, a, b), kind)
        result = folded_integer(op, a, b, kind)
        if result is None:
            return self._undefined("division" if op in ("/", "%") else "shift", f"{a} {op} {b}")
        return self._fitting(result, value.type, value.wraps)

    def _converted(self, number: Datum, source: Type, kind: Type) -> Datum:
        if isinstance(kind, Pointer) or isinstance(source, Pointer):
            return number if not isinstance(kind, ElementType) else wrapped(number, kind)
        assert isinstance(kind, ElementType)
        if kind is BOOL:
            return int(number != 0)
        if not kind.is_int:
            return rounded(number, kind)
        if isinstance(number, int):
            return wrapped(number, kind)
        if not kind.minimum - 1 < number < kind.maximum + 1:
            self._undefined("conversion", f"{number} is outside of '{kind}'")
        return int(number)


def _compared(op: str, a: Datum, b: Datum) -> bool:
    match op:
        case "<":
            return bool(a < b)
        case "<=":
            return bool(a <= b)
        case ">":
            return bool(a > b)
        case ">=":
            return bool(a >= b)
        case "==":
            return bool(a == b)
    return bool(a != b)


def _real(op: str, a: float, b: float) -> float:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _object(node: core.Node) -> int | None:
    """The object that a store of a first value is to."""
    place = node.place if isinstance(node, core.Store) else node.to if isinstance(node, core.Fill) else None
    return place.base.number if place is not None and isinstance(place.base, Obj) else None
