"""Integer arithmetic of a program as PyTorch's: what a type cannot hold wraps around, after each operation.

before:    o[i] = (a[i] + a[i]) > 0                  t = x[i] + 1                       s += x[i]
after:     o[i] = (signed char)(a[i] + a[i]) > 0     t = (int)((unsigned)x[i] + 1U)     s += (unsigned)x[i]
           where a is of signed char, t, x and s of int, and s unsigned after it
requires:  nothing; an operation whose result its type holds, whatever the operands are, stays as it is

C promotes what is narrower than int, and what is as wide must not overflow where it has a sign (C11 6.5, 5): that is
computed in the unsigned type, where it wraps (6.2.5, 9), and comes back by a conversion that gcc and clang define so.
What sums are added to in place, and might overflow, is unsigned as a whole: a loop that adds up stays one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from polydl.model.types import I32, TYPES, ElementType
from polydl.torch_backend.loop_index import Index
from polydl.torch_backend.loop_program import (
    Array,
    At,
    Const,
    Declare,
    Expr,
    Inside,
    Load,
    Loop,
    Op,
    Program,
    Statement,
    Store,
    When,
)

_RING = ("+", "-", "*", "/", "%")
_TRUTHS = frozenset(("<", "<=", ">", ">=", "==", "!=", "&&", "||", "!"))
Range = tuple[int, int]


def wrapped(program: Program) -> Program:
    """The program with every conversion written that keeps integers within their types."""
    sums = _Sums()
    sums.look(program.body)
    turned = {one: replace(one, type=_unsigned(one.type)) for one in sums.overflowing}
    return replace(
        program,
        body=tuple(_Wrapper(turned).body(program.body)),
        outputs=tuple(turned.get(one, one) for one in program.outputs),
        scratch=tuple(turned.get(one, one) for one in program.scratch),
    )


def _unsigned(element: ElementType) -> ElementType:
    return next(one for one in TYPES if one.name == f"u{element.name[1:]}")


def _wide(element: ElementType) -> bool:
    """Whether it is a type with a sign that C does not promote."""
    return element.is_int and not element.unsigned and element.bits >= I32.bits


def range_of(value: Expr) -> Range | None:
    """Between what an integer lies, by its type and what it is made of; None of what is no integer."""
    if not value.type.is_int:
        return None
    whole = value.type.minimum, value.type.maximum
    found: Range | None = None
    match value:
        case Const(number, _):
            found = int(number), int(number)
        case At(index, _):
            low, high = index.range
            # What depends on sizes is known at one of them only.
            found = (int(low), int(high)) if _is_fixed(index) else None
        case Inside():
            found = 0, 1
        case Op(op, _, _) if op in _TRUTHS:
            found = 0, 1
        case Op("cast", (one,), _):
            found = range_of(one)
        case Op("?:", (_, one, other), _):
            found = _union(range_of(one), range_of(other))
        case Op(op, args, _) if op in _RING:
            found = _result(op, [range_of(one) for one in args])
    return found if found is not None and whole[0] <= found[0] <= found[1] <= whole[1] else whole


def _is_fixed(index: Index) -> bool:
    numbers = [index.constant, *(n for _, n in index.terms), *(one.extent for one in index.variables)]
    return all(type(one) is int for one in numbers)


def _union(one: Range | None, other: Range | None) -> Range | None:
    return None if one is None or other is None else (min(one[0], other[0]), max(one[1], other[1]))


def _result(op: str, given: Sequence[Range | None]) -> Range | None:
    """Of exact arithmetic on numbers of these ranges."""
    known = [one for one in given if one is not None]
    if len(known) < len(given):
        return None
    if len(known) == 1:
        return (-known[0][1], -known[0][0]) if op == "-" else None
    (low, high), (least, most) = known
    match op:
        case "+":
            return low + least, high + most
        case "-":
            return low - most, high - least
        case "*":
            ends = [one * other for one, other in product((low, high), (least, most))]
            return min(ends), max(ends)
        case "%" if least > 0:  # the sign is that of what is divided
            return max(low, 1 - most) if low < 0 else 0, min(high, most - 1) if high > 0 else 0
        case "/" if least > 0:
            return (low // least if low > 0 else -(-low // least)), (high // least if high > 0 else -(-high // most))
    return None


class _Sums:
    """What variables and arrays are added to at most, in all."""

    def __init__(self) -> None:
        self._begun: dict[Array, int] = {}
        """How often the block of a variable that begins at 0 runs."""
        self._most: dict[Array, int] = {}
        self.overflowing: set[Array] = set()
        """Those with a sign that may be more than they hold."""

    def look(self, body: Sequence[Statement], times: int | None = 1) -> None:
        """`times`: how often the body runs; None where sizes decide."""
        for one in body:
            match one:
                case Loop(var, _, _, inner):
                    self.look(inner, None if times is None or type(var.extent) is not int else times * var.extent)
                case When(_, inner):
                    self.look(inner, times)
                case Declare(array, Const(value, _)) if value == 0 and times is not None:
                    self._begun[array] = max(times, 1)
                case Store(array, _, value, op) if op != "=" and _wide(array.type):
                    self._added(array, range_of(value) if op == "+=" else None, times)

    def _added(self, array: Array, ends: Range | None, times: int | None) -> None:
        begun = self._begun.get(array)
        if ends is None or begun is None or times is None:
            self.overflowing.add(array)
            return
        self._most[array] = self._most.get(array, 0) + max(-ends[0], ends[1]) * -(-times // begun)
        if self._most[array] > array.type.maximum:
            self.overflowing.add(array)


class _Wrapper:
    """Writes statements again. `turned`: the arrays that are unsigned now."""

    def __init__(self, turned: Mapping[Array, Array]) -> None:
        self._turned = turned

    def body(self, many: Sequence[Statement]) -> list[Statement]:
        return [self._statement(one) for one in many]

    def _statement(self, one: Statement) -> Statement:
        match one:
            case Loop(var, begin, end, inner):
                return Loop(var, self._index(begin), self._index(end), self.body(inner))
            case When(condition, inner):
                return When(self.value(condition), self.body(inner))
            case Declare(array, None):
                return Declare(self._turned.get(array, array))
            case Declare(array, value) if value is not None:
                return Declare(*self._stored(array, value))
            case Store(array, index, value, op):
                new, made = self._stored(array, value)
                return Store(new, tuple(map(self._index, index)), made, op)
        return one

    def _stored(self, array: Array, value: Expr) -> tuple[Array, Expr]:
        made = self.value(value)
        new = self._turned.get(array)
        return (array, made) if new is None else (new, _in(made, new.type))

    def _index(self, index: Index) -> Index:
        """Data that choose an element were checked, and nothing of them overflows; but they may be read of what is
        unsigned now."""
        return index.replaced({}, self._read) if self._turned else index

    def _read(self, value: Expr) -> Expr:
        match value:
            case Load(array, index):
                return self._load(array, index)
            case Op(op, args, element):
                return Op(op, tuple(map(self._read, args)), element)
        return value

    def _load(self, array: Array, index: tuple[Index, ...]) -> Expr:
        return _in(Load(self._turned.get(array, array), tuple(map(self._index, index))), array.type)

    def value(self, value: Expr) -> Expr:
        match value:
            case Load(array, index):
                return self._load(array, index)
            case Op(op, args, element):
                inner = tuple(map(self.value, args))
                if op not in _RING or not element.is_int or not _leaves(value):
                    return Op(op, inner, element)
                if element.bits < I32.bits:
                    return Op("cast", (Op(op, inner, I32),), element)
                if not _wide(element) or op in ("/", "%"):
                    return Op(op, inner, element)
                other = _unsigned(element)
                terms = (Const(0, other), *inner) if len(inner) == 1 else inner
                return Op("cast", (Op(op, tuple(_in(one, other) for one in terms), other),), element)
        return value


def _leaves(value: Op) -> bool:
    """Whether arithmetic may give what the type does not hold."""
    found = _result(value.op, [range_of(one) for one in value.args])
    return found is None or found[0] < value.type.minimum or found[1] > value.type.maximum


def _in(value: Expr, element: ElementType) -> Expr:
    """An integer in a type of the same width."""
    if value.type is element:
        return value
    if isinstance(value, Const):
        return Const(int(value.value) % (1 << element.bits) if element.unsigned else value.value, element)
    if isinstance(value, Op) and value.op == "cast" and value.args[0].type is element:
        return value.args[0]  # there and back
    return Op("cast", (value,), element)
