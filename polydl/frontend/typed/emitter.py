"""Effects are put in order here: what a resolver of C writes to, and what it knows of effects without an order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import NoReturn, TypeAlias

from pycparser import c_ast

from polydl.base.errors import InputError, Span
from polydl.frontend.text.parse import Unit
from polydl.frontend.typed.core_values import (
    AddressOf,
    ArrayOf,
    Bin,
    Const,
    Conv,
    Distance,
    Index,
    Obj,
    Place,
    Pure,
    Read,
    Record,
    Ref,
    Select,
    Type,
    Un,
    Value,
    Var,
)
from polydl.frontend.typed.nodes import Assign, Block, Let, Load, Node, Store
from polydl.frontend.typed.scopes import Scope

Key: TypeAlias = Var | Place
"""What an effect is on. Two places are one key where they are written alike: others may be the same, too."""


class NotUnderstood(Exception):
    """C that the core does not express; the statement that it stands in is kept as text."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(slots=True)
class Touched:
    """What evaluating an expression reads and writes."""

    reads: set[Key] = field(default_factory=set)
    done: set[Key] = field(default_factory=set)
    """Writes that a sequence point within the expression ended."""
    pending: set[Key] = field(default_factory=set)

    def add(self, other: Touched) -> None:
        self.reads |= other.reads
        self.done |= other.done
        self.pending |= other.pending

    def sequence_point(self) -> None:
        self.done |= self.pending
        self.pending = set()


class Emitter:
    """Writes the effects of one function, block by block."""

    def __init__(self, unit: Unit, scope: Scope, numbers: count[int], spans: dict[tuple[str, int, int], Span]) -> None:
        self.unit, self.scope = unit, scope
        self.items: list[Node] = []
        """Of the block that is being written."""
        self.touched = Touched()
        """By the expression that is being resolved."""
        self.steady: set[Var] = set()
        """Variables that nothing assigns after their declaration."""
        self._numbers = numbers
        self._spans = spans

    def fresh(self) -> int:
        return next(self._numbers)

    def span(self, node: c_ast.Node) -> Span:
        coord = node.coord
        if coord is None:
            inner = next((child for _, child in node.children()), None)
            return self.unit.source.line_span(1) if inner is None else self.span(inner)
        key = (str(coord.file), int(coord.line), int(coord.column or 1))
        if key not in self._spans:
            found = self.unit.places.span(node)
            assert found is not None, "it has coordinates"
            self._spans[key] = found
        return self._spans[key]

    # --- blocks and scopes

    @contextmanager
    def block(self) -> Iterator[list[Node]]:
        """What is emitted within goes to a list of its own."""
        outer, self.items = self.items, []
        try:
            yield self.items
        finally:
            self.items = outer

    @contextmanager
    def names(self) -> Iterator[None]:
        """Declarations within end behind it."""
        outer, self.scope = self.scope, Scope(self.scope)
        try:
            yield
        finally:
            self.scope = outer

    # --- order

    @contextmanager
    def unsequenced(self, node: c_ast.Node) -> Iterator[Operands]:
        """Operands that C evaluates in no order. Raises InputError where that matters."""
        outer = self.touched
        operands = Operands(self)
        try:
            yield operands
            for number, one in enumerate(operands.each):
                for other in operands.each[number + 1 :]:
                    writes, others = one.done | one.pending, other.done | other.pending
                    clash = (writes & (others | other.reads)) | (others & one.reads)
                    if clash:
                        self.no_order(clash, node)
            for one in operands.each:
                outer.add(one)
        finally:
            self.touched = outer

    def no_order(self, keys: set[Key], node: c_ast.Node) -> NoReturn:
        named = sorted(key.name if isinstance(key, Var) else "memory" for key in keys)
        raise InputError(
            f"'{named[0]}' is written and used in one expression, in no order",
            self.span(node),
            "write it as two statements",
            topic="reading-c",
        )

    def assign(self, to: Var | Place, value: Value, node: c_ast.Node) -> None:
        """The effect of an assignment, whose operands were evaluated."""
        if to in self.touched.pending:
            self.no_order({to}, node)
        self.touched.pending.add(to)
        if isinstance(to, Var):
            self.items.append(Assign(to, value, self.span(node)))
        else:
            self.items.append(Store(to, value, self.span(node)))

    def load(self, place: Place, node: c_ast.Node) -> Ref:
        result = Ref(self.fresh(), place.type)
        self.touched.reads.add(place)
        self.items.append(Load(result, place, self.span(node)))
        return result

    def let(self, value: Value, node: c_ast.Node) -> Value:
        """The value, computed here."""
        if isinstance(value, Const | Ref):
            return value
        result = Ref(self.fresh(), value.type)
        self.items.append(Let(result, value, self.span(node)))
        return result

    def kept(self, value: Value, node: c_ast.Node) -> Value:
        """A value that stays what it is now, wherever it is used."""
        return value if all(var in self.steady for var in variables(value)) else self.let(value, node)


class Operands:
    """Operands of one operator, each with what it touches."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self.each: list[Touched] = []

    def next(self) -> None:
        """What follows is the next operand."""
        self._emitter.touched = Touched()
        self.each.append(self._emitter.touched)


def parts(value: Value) -> tuple[Value, ...]:
    """The values that a value is made of directly."""
    match value:
        case Bin(_, a, b):
            return (a, b)
        case Distance(a, b, stride):
            return (a, b, stride)
        case Un(_, a) | Conv(a):
            return (a,)
        case Select(condition, a, b):
            return (condition, a, b)
        case AddressOf(place):
            return place_parts(place)
        case Pure(_, arguments):
            return arguments
    return ()


def place_parts(place: Place) -> tuple[Value, ...]:
    """The values that a place is made of directly."""
    base = () if isinstance(place.base, Obj) else (place.base,)
    indices = [part for part in place.path if isinstance(part, Index)]
    return (*base, *(v for one in indices for v in (one.value, one.stride, one.count) if v is not None))


def variables(value: Value) -> set[Var]:
    """The variables that a value reads."""
    if isinstance(value, Read):
        return {value.var}
    return {var for part in parts(value) for var in variables(part)}


def can_trap(value: Value) -> bool:
    """Whether computing a value where C would not may end the program: it divides integers."""
    if isinstance(value, Bin) and value.op in ("/", "%") and value.type.is_int:
        if not isinstance(value.b, Const) or value.b.number in (0, -1):
            return True
    return any(can_trap(part) for part in parts(value))


def as_block(items: list[Node], *yields: Value) -> Block:
    return Block(tuple(items), yields)


def is_variable(kind: Type) -> bool:
    """Whether a declaration computes the size of a type."""
    return isinstance(kind, ArrayOf) and (
        (kind.count is not None and not isinstance(kind.count, Const)) or is_variable(kind.element)
    )


def is_whole(kind: Type) -> bool:
    """Whether values of a type are bytes, not numbers."""
    return isinstance(kind, Record)
