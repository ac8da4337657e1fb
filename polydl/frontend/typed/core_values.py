"""Types, variables, places and values of the core (`typed.nodes` says what a core is).

A value has no effects and never reads memory: what it is made of are constants, variables (`Read`) and results of
effects (`Ref`).
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import TypeAlias

from polydl.base.errors import Span
from polydl.base.records import dataclass
from polydl.model.types import ElementType

# --- types


@dataclass(frozen=True, slots=True)
class Void:
    """`void`: of what a pointer may point to, and of functions that return nothing."""

    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True, slots=True)
class Pointer:
    target: Type
    volatile: bool = False
    """Whether what it points to is volatile."""
    restrict: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.target}*"


@dataclass(frozen=True, slots=True)
class ArrayOf:
    element: Type
    count: Value | None
    """Elements: an I64, computed at the declaration; None where the declaration does not say."""

    def __str__(self) -> str:
        number = self.count.number if isinstance(self.count, Const) else "" if self.count is None else "_"
        return f"{self.element}[{number}]"


@dataclass(frozen=True, slots=True)
class Member:
    name: str | None
    """None of a structure or union without a name."""
    type: Type
    offset: int
    """In bytes."""
    volatile: bool = False


@dataclass(eq=False, slots=True)
class Record:
    """A structure or union; there is one object for each declaration. It is laid out once, after it is made, since it
    may point to itself."""

    tag: str
    union: bool
    members: tuple[Member, ...] | None = None
    """None until it is declared whole."""
    size: int = 0
    alignment: int = 1

    def __str__(self) -> str:
        return f"{'union' if self.union else 'struct'} {self.tag}"


@dataclass(frozen=True, slots=True)
class Signature:
    returns: Type
    parameters: tuple[Type, ...] | None
    """None: nothing is said of them (`f()`)."""
    variadic: bool = False

    def __str__(self) -> str:
        return f"{self.returns}()"


Type: TypeAlias = ElementType | Pointer | ArrayOf | Record | Signature | Void
Scalar: TypeAlias = ElementType | Pointer

# --- variables and memory


class Storage(Enum):
    PARAMETER = "parameter"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Var:
    """A scalar variable of a function whose address nothing takes: only `Assign` changes it."""

    number: int
    """Its identity."""
    name: str = field(compare=False)
    """For printing alone."""
    type: Scalar = field(compare=False)
    storage: Storage = field(compare=False)
    span: Span = field(compare=False)


class Origin(Enum):
    """What memory an object is."""

    POINTEE = "pointee"
    """What a pointer parameter that is never assigned points to. It may overlap others, unless it is restrict."""
    LOCAL = "local"
    """An array, structure or addressed variable of a function: new at each `Declare`."""
    GLOBAL = "global"
    """With static storage, of the file or of a function."""
    FUNCTION = "function"
    """Code: only its address is used."""


@dataclass(frozen=True, slots=True)
class Obj:
    """Memory that has a name in C."""

    number: int
    """Its identity."""
    name: str = field(compare=False)
    type: Type = field(compare=False)
    """Of all of it; of a pointee, what the parameter points to."""
    origin: Origin = field(compare=False)
    span: Span = field(compare=False)
    restrict: bool = field(default=False, compare=False)
    of: Var | None = field(default=None, compare=False)
    """Of a pointee: the parameter."""
    rows: Value | None = field(default=None, compare=False)
    """Of a pointee declared as an array: the first dimension, `n` of `a[n][m]`; the others are in its type."""
    volatile: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Index:
    """`value * stride` bytes further. The value counts as the integer that it is: an address does not wrap."""

    value: Value
    stride: Value
    """Bytes, an I64."""
    count: Value | None = None
    """Of an array whose type says its size: elements. C leaves an index outside of it undefined."""


@dataclass(frozen=True, slots=True)
class Field:
    """A member: some bytes further."""

    offset: int
    name: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes in memory, which are read and written as one type."""

    base: Obj | Value
    """An object, or the value of a pointer."""
    path: tuple[Index | Field, ...]
    type: Type
    volatile: bool = False


# --- values


class Why(Enum):
    """Which rule of C converts a value."""

    PROMOTION = "promotion"
    USUAL = "usual"
    ASSIGN = "assign"
    ARGUMENT = "argument"
    EXPLICIT = "explicit"
    TRUTH = "truth"


@dataclass(frozen=True, slots=True)
class Const:
    number: int | float | complex
    type: Scalar


@dataclass(frozen=True, slots=True)
class Read:
    """The value that a variable has where the effect stands that this is part of."""

    var: Var

    @property
    def type(self) -> Scalar:
        return self.var.type


@dataclass(frozen=True, slots=True)
class Ref:
    """The result of an effect in front of this."""

    number: int
    type: Type = field(compare=False)


@dataclass(frozen=True, slots=True)
class Bin:
    """An operation on two values of one type; of a shift, each has its own. Comparisons give an int."""

    op: str
    a: Value
    b: Value
    type: ElementType
    wraps: bool = False
    """Whether an integer result is taken modulo 2^bits; otherwise one outside of the type is undefined."""
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Un:
    """`-` or `~`."""

    op: str
    a: Value
    type: ElementType
    wraps: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Conv:
    a: Value
    type: Scalar
    why: Why = field(compare=False)
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Select:
    """One of two values; what the other one would be is not asked."""

    condition: Value
    a: Value
    b: Value
    type: Scalar


@dataclass(frozen=True, slots=True)
class AddressOf:
    place: Place

    @property
    def type(self) -> Pointer:
        return Pointer(self.place.type, self.place.volatile)


@dataclass(frozen=True, slots=True)
class Distance:
    """`a - b` of pointers into one array, in elements."""

    a: Value
    b: Value
    stride: Value
    type: ElementType


@dataclass(frozen=True, slots=True)
class Pure:
    """A call of a function of `model.functions`, which reads nothing but its arguments."""

    function: str
    arguments: tuple[Value, ...]
    type: ElementType
    span: Span | None = field(default=None, compare=False)


Value: TypeAlias = Const | Read | Ref | Bin | Un | Conv | Select | AddressOf | Distance | Pure
