"""A core as text, for tests and for debugging. Two functions that differ in names alone have one text without names."""

from __future__ import annotations

from collections.abc import Iterator

from polydl.frontend.typed.core_values import (
    AddressOf,
    ArrayOf,
    Bin,
    Const,
    Conv,
    Distance,
    Field,
    Index,
    Obj,
    Origin,
    Place,
    Pointer,
    Pure,
    Read,
    Record,
    Ref,
    Select,
    Signature,
    Type,
    Un,
    Value,
    Var,
    Void,
)
from polydl.frontend.typed.nodes import (
    Assign,
    Block,
    Break,
    Call,
    Continue,
    Copy,
    Declare,
    Fill,
    Function,
    If,
    Let,
    Load,
    Loop,
    Node,
    Opaque,
    Return,
    Store,
)
from polydl.model.types import F64, I32, ElementType


def shown(function: Function, *, names: bool = True) -> str:
    """The text of a function; without `names`, variables are numbered as they are first met."""
    return "\n".join(_Shower(names).function(function)) + "\n"


class _Shower:
    def __init__(self, names: bool) -> None:
        self._names = names
        self._called: dict[tuple[str, int], str] = {}
        self._taken: set[str] = set()

    def _name(self, letter: str, number: int, name: str) -> str:
        key = (letter, number)
        if key not in self._called:
            known = sum(one == letter for one, _ in self._called)
            chosen = name if self._names and name and letter != "%" else f"{letter}{known}"
            if chosen in self._taken:
                chosen = f"{chosen}.{sum(one.split('.')[0] == chosen for one in self._taken)}"
            self._taken.add(chosen)
            self._called[key] = chosen
        return self._called[key]

    def _variable(self, one: Var | Obj) -> str:
        return self._name("v" if isinstance(one, Var) else "o", one.number, one.name)

    def _ref(self, one: Ref) -> str:
        return self._name("%", one.number, "")

    # --- types and values

    def type(self, kind: Type) -> str:
        match kind:
            case ElementType():
                return kind.name
            case Pointer(target, volatile):
                return f"{self.type(target)}{' volatile' if volatile else ''}*"
            case ArrayOf(element, count):
                return f"{self.type(element)}[{'' if count is None else self.value(count, False)}]"
            case Record():
                return f"{'union' if kind.union else 'struct'}<{kind.size}>"
            case Signature(returns):
                return f"{self.type(returns)}()"
            case Void():
                return "void"

    def value(self, value: Value, typed: bool = True) -> str:
        match value:
            case Const(number, kind):
                text = repr(number)
                return text if not typed or kind in (I32, F64) else f"{text}:{self.type(kind)}"
            case Read(var):
                return self._variable(var)
            case Ref():
                return self._ref(value)
            case Bin(op, a, b):
                return f"({self.value(a, typed)} {op}{self.type(a.type)} {self.value(b, typed)})"
            case Un(op, a, kind):
                return f"{op}{self.type(kind)} {self.value(a, typed)}"
            case Conv(a, kind):
                return f"{self.type(kind)}({self.value(a, typed)})"
            case Select(condition, a, b):
                return f"({self.value(condition)} ? {self.value(a)} : {self.value(b)})"
            case AddressOf(place):
                return f"&{self.place(place)}"
            case Distance(a, b, stride):
                return f"({self.value(a)} - {self.value(b)})/{self.value(stride, False)}"
            case Pure(function, arguments):
                return f"{function}({', '.join(map(self.value, arguments))})"

    def place(self, place: Place) -> str:
        base = self._variable(place.base) if isinstance(place.base, Obj) else f"*{self.value(place.base)}"
        parts = [base]
        for part in place.path:
            if isinstance(part, Field):
                parts.append(f".{part.offset}")
            else:
                parts.append(self._index(part))
        return f"{''.join(parts)}:{self.type(place.type)}{' volatile' if place.volatile else ''}"

    def _index(self, index: Index) -> str:
        limit = "" if index.count is None else f" < {self.value(index.count, False)}"
        typed = not isinstance(index.value, Const)
        return f"[{self.value(index.value, typed)} * {self.value(index.stride, False)}{limit}]"

    # --- effects and control

    def function(self, function: Function) -> Iterator[str]:
        given = []
        for one in function.parameters:
            name = self._variable(one) if isinstance(one, Var) else self._ref(one)
            given.append(f"{name}: {self.type(one.type)}")
        name = function.name if self._names else "f"
        yield f"{name}({', '.join(given)}) -> {self.type(function.returns)}"
        yield from self._block(function.body, "  ")

    def _block(self, block: Block, indent: str) -> Iterator[str]:
        for node in block.items:
            yield from self._node(node, indent)
        for one in block.yields:
            yield f"{indent}yield {self.value(one)}"

    def _node(self, node: Node, indent: str) -> Iterator[str]:
        match node:
            case If(condition, then, other, results):
                named = f"{', '.join(map(self._ref, results))} = " if results else ""
                yield f"{indent}{named}if {self.value(condition)}"
                yield from self._block(then, indent + "  ")
                if other.items or other.yields:
                    yield f"{indent}else"
                    yield from self._block(other, indent + "  ")
            case Loop(test, body, step, bottom):
                yield f"{indent}{'do' if bottom else 'loop'}"
                for one in () if bottom else test.items:
                    yield from self._node(one, indent + "  ")
                if not bottom:
                    yield f"{indent}  while {self.value(test.yields[0])}"
                yield from self._block(body, indent + "  ")
                if step.items and continues(body):
                    yield f"{indent} step"
                yield from self._block(step, indent + "  ")
                for one in test.items if bottom else ():
                    yield from self._node(one, indent + "  ")
                if bottom:
                    yield f"{indent}  while {self.value(test.yields[0])}"
            case _:
                yield indent + self._line(node)

    def _line(self, node: Node) -> str:
        match node:
            case Declare(what):
                return f"declare {self._variable(what)}: {self.type(what.type)}"
            case Let(result, value):
                return f"{self._ref(result)} = {self.value(value)}"
            case Assign(var, value):
                return f"{self._variable(var)} = {self.value(value)}"
            case Load(result, place):
                return f"{self._ref(result)} = load {self.place(place)}"
            case Store(place, value):
                return f"store {self.place(place)} = {self.value(value)}"
            case Copy(to, source, size, may_overlap):
                verb = "move" if may_overlap else "copy"
                return f"{verb} {self.place(to)} = {self.place(source)}, {self.value(size, False)} bytes"
            case Fill(to, byte, size):
                return f"fill {self.place(to)} = {self.value(byte)}, {self.value(size, False)} bytes"
            case Call(function, arguments, result):
                called = function if isinstance(function, str) else f"*{self.value(function)}"
                given = f"call {called}({', '.join(map(self.value, arguments))})"
                return given if result is None else f"{self._ref(result)} = {given}"
            case Opaque(why, named, leaves):
                told = ", ".join(map(self._variable, named))
                return f"opaque {why} of {told or 'nothing'}{', may leave' if leaves else ''}"
            case Break():
                return "break"
            case Continue():
                return "continue"
            case Return(value):
                return "return" if value is None else f"return {self.value(value)}"
        raise AssertionError(f"no effect: {node!r}")


def continues(block: Block) -> bool:
    """Whether a loop with this body may go on from its middle."""
    return any(
        isinstance(node, Continue)
        or (isinstance(node, If) and (continues(node.then) or continues(node.other)))
        or (isinstance(node, Opaque) and node.leaves)
        for node in block.items
    )


def objects_shown(objects: tuple[Obj, ...]) -> str:
    """Objects, one a line."""
    shower = _Shower(True)
    return "".join(f"{one.name}: {shower.type(one.type)}\n" for one in objects if one.origin is Origin.GLOBAL)
