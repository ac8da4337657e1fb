"""Loop nests of a group of operators, as a small typed language: what `loop_text` prints as C.

Statements stand in blocks. A value has an element type of polydl's table; arithmetic is of operands of one type, and
every conversion is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from polydl.model.types import I32, ElementType
from polydl.torch_backend.loop_index import Index, Var


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """What has elements: a parameter of the function, or a variable of its own."""

    name: str
    type: ElementType
    shape: tuple[int, ...]
    """() for a scalar."""


@dataclass(frozen=True, slots=True)
class Const:
    """A number of a type."""

    value: int | float | bool
    type: ElementType


@dataclass(frozen=True, slots=True)
class Load:
    """An element of an array."""

    array: Array
    index: tuple[Index, ...]

    @property
    def type(self) -> ElementType:
        return self.array.type


@dataclass(frozen=True, slots=True)
class At:
    """An index as a value."""

    index: Index
    type: ElementType = I32


@dataclass(frozen=True, slots=True)
class Inside:
    """Whether all of several indices are at least 0."""

    tests: tuple[Index, ...]
    type: ElementType = I32


@dataclass(frozen=True, slots=True)
class Op:
    """What is computed of other values."""

    op: str
    """An operator of C of one or two operands, `?:`, `cast` (to the type), or the name of a function of C's library."""
    args: tuple[Expr, ...]
    type: ElementType


Expr = Const | Load | At | Inside | Op


@dataclass(slots=True)
class Loop:
    """Runs its body for a variable from `begin` to below `end`."""

    var: Var
    begin: Index
    end: Index
    body: list[Statement] = field(default_factory=list)


@dataclass(slots=True)
class Declare:
    """A variable of the block that it stands in, with its first value (a scalar) or without."""

    array: Array
    value: Expr | None = None


@dataclass(slots=True)
class Store:
    """`array[index] op value`, where op is `=`, `+=` or `*=`."""

    array: Array
    index: tuple[Index, ...]
    value: Expr
    op: str = "="


@dataclass(slots=True)
class When:
    """Runs its body where a condition holds."""

    condition: Expr
    body: list[Statement] = field(default_factory=list)


@dataclass(slots=True)
class Comment:
    """A line for people."""

    text: str


Statement = Loop | Declare | Store | When | Comment
_WIDE = 64
"""Sizes up to which variants are compared in any case: a batch of two says little about the next one."""


@dataclass(frozen=True, slots=True)
class SizeName:
    """A size that the caller gives."""

    number: int
    least: int
    most: int
    usual: int = 0
    """A value that code is to be good at; 0: a quarter of the greatest one."""

    @property
    def compared(self) -> tuple[int, int]:
        """The least and the greatest value at which variants are compared; they are searched at a quarter of this."""
        return self.least, min(self.most, max(4 * self.usual, _WIDE)) if self.usual else self.most

    @property
    def name(self) -> str:
        """In C."""
        return f"n{self.number}"


@dataclass(frozen=True, slots=True)
class Program:
    """A function: arrays that it reads, arrays that it writes, and what it does."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    body: tuple[Statement, ...]
    scratch: tuple[Array, ...] = ()
    """Memory that the caller gives behind the outputs; nobody reads what is left there."""
    sizes: tuple[SizeName, ...] = ()
    """Parameters in front of the inputs, on which numbers of the program depend."""


def statements(body: tuple[Statement, ...] | list[Statement]) -> Iterator[Statement]:
    """Every statement, those of inner blocks behind the one that they stand in."""
    for one in body:
        yield one
        if isinstance(one, Loop | When):
            yield from statements(one.body)


def values(one: Statement) -> tuple[Expr, ...]:
    """What a statement computes, without what inner blocks do."""
    match one:
        case Store(_, _, value, _) | When(value, _):
            return (value,)
        case Declare(_, value) if value is not None:
            return (value,)
    return ()


def parts(value: Expr) -> Iterator[Expr]:
    """A value and everything that it is made of."""
    yield value
    if isinstance(value, Op):
        for one in value.args:
            yield from parts(one)


def indices(value: Expr) -> Iterator[Index]:
    """The indices that a value is made of."""
    for one in parts(value):
        if isinstance(one, Load):
            yield from one.index
        elif isinstance(one, At):
            yield one.index
        elif isinstance(one, Inside):
            yield from one.tests


def variables(value: Expr) -> frozenset[Var]:
    """The loop variables on which a value depends, those of scalars that it reads left out."""
    found: frozenset[Var] = frozenset()
    for one in indices(value):
        found |= one.variables
    return found
