"""What holds of every core: the check that runs behind whatever made one.

1. Every result is defined once, in front of its uses; every variable and object is the one that its number says.
2. Operands of an operation have its type: no conversion is left to be understood.
3. Memory is read by `Load` alone: values are made of values.
4. Variables are assigned, memory is stored to; what a parameter points to keeps its name only while it is not assigned.
5. Every effect has a place in the source.
6. `break` and `continue` stand in loops; what blocks yield is what their results are.
"""

from __future__ import annotations

from typing import NoReturn

from polydl.base.errors import Span
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
    Program,
    Return,
    Store,
)
from polydl.model.conversions import conversion_of
from polydl.model.functions import parameters_of
from polydl.model.types import I32, I64, U64, ElementType, promoted

_COMPARED = frozenset({"<", "<=", ">", ">=", "==", "!="})
_SHIFTED = frozenset({"<<", ">>"})
_WHOLE = frozenset({"%", "<<", ">>", "&", "|", "^"})
_OPERATORS = _COMPARED | _WHOLE | {"+", "-", "*", "/"}


class NotWellFormed(AssertionError):
    """A core that breaks its own rules: a mistake in polydl."""


def verify(program: Program) -> None:
    """Raises NotWellFormed."""
    file = _Verifier(program, None)
    file.block(program.first, frozenset(), loops=0)
    for function in program.functions.values():
        _Verifier(program, function).function(function)


class _Verifier:
    def __init__(self, program: Program, function: Function | None) -> None:
        self._program = program
        self._function = function
        self._defined: set[int] = set()
        """Results anywhere in the function."""
        self._known: dict[int, Var | Obj] = {}
        self._at: Span | None = None

    def _wrong(self, what: str) -> NoReturn:
        name = "file scope" if self._function is None else f"'{self._function.name}'"
        raise NotWellFormed(f"{self._at}: in the core of {name}: {what}")

    def _check(self, holds: bool, what: str) -> None:
        if not holds:
            self._wrong(what)

    def _same(self, one: Type, other: Type, where: str) -> None:
        self._check(_compatible(one, other), f"{where} has type '{one}' in place of '{other}'")

    # --- structure

    def function(self, function: Function) -> None:
        self._at = function.span
        visible = frozenset(self._define(one) for one in function.parameters if isinstance(one, Ref))
        self._parameters = {one for one in function.parameters if isinstance(one, Var)}
        self.block(function.body, visible, loops=0)

    def _define(self, ref: Ref) -> int:
        self._check(ref.number not in self._defined, f"%{ref.number} is defined twice")
        self._defined.add(ref.number)
        return ref.number

    def block(self, block: Block, visible: frozenset[int], *, loops: int) -> frozenset[int]:
        """The results that are visible behind a block's effects."""
        for node in block.items:
            visible |= self._node(node, visible, loops)
        for one in block.yields:
            self.value(one, visible)
        return visible

    def _node(self, node: Node, visible: frozenset[int], loops: int) -> frozenset[int]:
        """Checks a node, and gives the results that it defines."""
        self._check(node.span.line >= 1, f"a {type(node).__name__} without a place")
        self._at = node.span
        match node:
            case If(condition, then, other, results):
                self._condition(condition, visible)
                for one in (then, other):
                    self.block(one, visible, loops=loops)
                    self._at = node.span
                    self._check(len(one.yields) == len(results), "a block that yields another number of values")
                    for value, result in zip(one.yields, results, strict=True):
                        self._same(value.type, result.type, "what a block yields")
                return frozenset(map(self._define, results))
            case Loop(test, body, step, bottom):
                self._check(len(test.yields) == 1, "a test without a value")
                inner = self.block(test, visible, loops=loops + 1)
                self._condition(test.yields[0], inner)
                inner = visible if bottom else inner
                self.block(body, inner, loops=loops + 1)
                self.block(step, inner, loops=loops + 1)
                self._check(not (body.yields or step.yields), "a loop that yields values")
            case Break() | Continue():
                self._check(loops > 0, "a jump out of no loop")
            case Return(value):
                self._return(value, visible)
            case _:
                return self._effect(node, visible)
        return frozenset()

    def _return(self, value: Value | None, visible: frozenset[int]) -> None:
        returns = Void() if self._function is None else self._function.returns
        if value is not None:
            self.value(value, visible)
            self._same(value.type, returns, "what is returned")

    def _condition(self, value: Value, visible: frozenset[int]) -> None:
        self.value(value, visible)
        self._same(value.type, I32, "a condition")

    def _effect(self, node: Node, visible: frozenset[int]) -> frozenset[int]:
        match node:
            case Declare(what):
                self._meet(what)
            case Let(result, value):
                self.value(value, visible)
                self._same(value.type, result.type, "a definition")
                return frozenset({self._define(result)})
            case Assign(var, value):
                self._meet(var)
                self.value(value, visible)
                self._same(value.type, var.type, "what is assigned")
                pointees = [one for one in self._known.values() if isinstance(one, Obj) and one.of == var]
                self._check(not pointees, f"'{var.name}' is assigned, and stands for an object")
            case Load(result, place):
                self.place(place, visible)
                self._check(not isinstance(place.type, ArrayOf | Signature | Void), "a load of what has no value")
                self._same(place.type, result.type, "a load")
                return frozenset({self._define(result)})
            case Store(place, value):
                self.place(place, visible)
                self.value(value, visible)
                self._same(value.type, place.type, "what is stored")
            case Copy(to, source, size):
                self.place(to, visible)
                self.place(source, visible)
                self._typed(size, U64, visible)
            case Fill(to, byte, size):
                self.place(to, visible)
                self._typed(byte, I32, visible)
                self._typed(size, U64, visible)
            case Call(function, arguments, result):
                self._call(function, arguments, result, visible)
                return frozenset() if result is None else frozenset({self._define(result)})
            case Opaque(_, names):
                for one in names:
                    self._meet(one)
            case _:
                self._wrong(f"{type(node).__name__} is no effect")
        return frozenset()

    def _call(
        self, function: str | Value, arguments: tuple[Value, ...], result: Ref | None, visible: frozenset[int]
    ) -> None:
        for one in arguments:
            self.value(one, visible)
        if not isinstance(function, str):
            self.value(function, visible)
            return
        called = self._program.functions.get(function)
        if called is None:
            return
        for given, wanted in zip(arguments, called.parameters, strict=False):
            self._same(given.type, wanted.type, f"an argument of '{function}'")
        if result is not None:
            self._same(result.type, called.returns, f"the result of '{function}'")

    # --- values and places

    def _meet(self, one: Var | Obj) -> None:
        known = self._known.setdefault(one.number, one)
        if isinstance(one, Obj) and one.origin in (Origin.GLOBAL, Origin.FUNCTION):
            return
        self._check(known is one, f"two variables or objects have the number {one.number}")
        if isinstance(one, Obj) and one.origin is Origin.POINTEE:
            self._check(one.of in self._parameters, "an object of no parameter")

    def _typed(self, value: Value, kind: ElementType, visible: frozenset[int]) -> None:
        self.value(value, visible)
        self._same(value.type, kind, "an operand")

    def place(self, place: Place, visible: frozenset[int]) -> None:
        if isinstance(place.base, Obj):
            self._meet(place.base)
        else:
            self.value(place.base, visible)
            self._check(isinstance(place.base.type, Pointer), "a place behind what is no pointer")
        for part in place.path:
            match part:
                case Index(value, stride, count):
                    self.value(value, visible)
                    kind = value.type
                    whole = isinstance(kind, ElementType) and kind.is_int and promoted(kind) is kind
                    self._check(whole, "an index that is no promoted integer")
                    for one in (stride, count):
                        if one is not None:
                            self._typed(one, I64, visible)
                case Field(offset):
                    self._check(offset >= 0, "a member in front of its structure")

    def value(self, value: Value, visible: frozenset[int]) -> None:
        match value:
            case Const(number, kind):
                self._check(_fits(number, kind), f"{number} is no '{kind}'")
            case Read(var):
                self._meet(var)
            case Ref(number):
                self._check(number in visible, f"%{number} is used where it is not defined")
            case Bin():
                self._binary(value, visible)
            case Un(op, a, kind):
                self._typed(a, kind, visible)
                self._check(op in ("-", "~") and promoted(kind) is kind, f"'{op}' of '{kind}'")
                self._check(value.wraps == kind.unsigned, f"'{op}' wraps where its type does not, or the reverse")
            case Conv(a, kind):
                self.value(a, visible)
                self._check(a.type != kind, f"a conversion of '{kind}' to itself")
            case Select(condition, a, b, kind):
                self._condition(condition, visible)
                for one in (a, b):
                    self.value(one, visible)
                    self._same(one.type, kind, "an arm")
            case AddressOf(place):
                self.place(place, visible)
            case Distance(a, b, stride):
                self.value(a, visible)
                self.value(b, visible)
                pointers = isinstance(a.type, Pointer) and isinstance(b.type, Pointer)
                self._check(pointers, "a distance of what are no pointers")
                self._typed(stride, I64, visible)
            case Pure(function, arguments):
                self._pure(function, arguments, visible)
            case _:
                self._wrong(f"{type(value).__name__} is no value")

    def _pure(self, function: str, arguments: tuple[Value, ...], visible: frozenset[int]) -> None:
        conversion = conversion_of(function)
        kinds = parameters_of(function) if conversion is None else (conversion[0],)
        self._check(len(kinds) == len(arguments), f"'{function}' of {len(arguments)} arguments")
        for argument, wanted in zip(arguments, kinds, strict=True):
            self.value(argument, visible)
            if wanted is not None:
                self._same(argument.type, wanted, f"an argument of '{function}'")

    def _binary(self, value: Bin, visible: frozenset[int]) -> None:
        op, a, b, kind = value.op, value.a, value.b, value.type
        self.value(a, visible)
        self.value(b, visible)
        self._check(op in _OPERATORS, f"no operator '{op}'")
        if op in _COMPARED:
            self._same(a.type, b.type, f"the left side of '{op}'")
            self._same(kind, I32, f"'{op}'")
            return
        self._same(a.type, kind, f"the left side of '{op}'")
        sides = (a.type, b.type)
        for one in sides:
            self._check(isinstance(one, ElementType) and promoted(one) is one, f"'{op}' of '{one}'")
        if op not in _SHIFTED:
            self._same(b.type, kind, f"the right side of '{op}'")
        self._check(kind.is_int or op not in _WHOLE, f"'{op}' of '{kind}'")
        self._check(value.wraps == kind.unsigned, f"'{op}' of '{kind}' wraps where its type does not, or the reverse")


def _compatible(one: Type, other: Type) -> bool:
    """Whether types are one, but for numbers of elements that only one of them says, or that are computed."""
    match one, other:
        case Pointer(a), Pointer(b):
            return one.volatile == other.volatile and _compatible(a, b)
        case ArrayOf(a, count), ArrayOf(b, another):
            known = isinstance(count, Const) and isinstance(another, Const)
            return _compatible(a, b) and (count == another or not known)
    return one == other


def _fits(number: int | float | complex, kind: Type) -> bool:
    if isinstance(kind, ElementType) and kind.is_int:
        return isinstance(number, int) and kind.minimum <= number <= kind.maximum
    return True
