"""Types of C as gcc lays them out on 64-bit Linux: sizes, alignments, members, and the types that operands get."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from typing import TypeAlias, TypeGuard

from pycparser import c_ast

from polydl.base.records import dataclass
from polydl.oracle.c_verdicts import Unsupported, place_of


@dataclass(frozen=True, slots=True)
class Void:
    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True, slots=True)
class Integer:
    name: str
    size: int
    signed: bool
    rank: int
    """The place in the order of conversions: 0 is _Bool, 3 is int."""
    least_alignment: int = field(default=0, compare=False)
    """What `aligned` of a typedef says, 0 where it is not there."""

    @property
    def bits(self) -> int:
        return 8 * self.size

    @property
    def least(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def most(self) -> int:
        return 1 if self.rank == 0 else (1 << (self.bits - self.signed)) - 1

    @property
    def code(self) -> str:
        """Names the view of an object's bytes that has such numbers."""
        return f"{'i' if self.signed else 'u'}{self.size}"

    def wrapped(self, value: int) -> int:
        """The number of this type that is equal modulo 2 to the width; of _Bool whether it is not 0."""
        if self.rank == 0:
            return int(value != 0)
        value &= (1 << self.bits) - 1
        return value - (1 << self.bits) if value > self.most else value

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Real:
    name: str
    size: int
    code: str
    rank: int
    least_alignment: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class PointerTo:
    target: CType
    restrict: bool = field(default=False, compare=False)
    readonly: bool = field(default=False, compare=False)
    """The target is `const`."""

    @property
    def size(self) -> int:
        return 8

    @property
    def code(self) -> str:
        return "p8"

    def __str__(self) -> str:
        return f"{self.target} *"


@dataclass(frozen=True, slots=True)
class Array:
    element: CType
    count: int | str | None
    """Elements; a text where a declaration computes it: in signatures C's, in translated functions Python's."""
    node: c_ast.Node | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.element}[{'' if self.count is None else self.count}]"


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector of GNU C."""

    element: Integer | Real
    lanes: int
    least_alignment: int = field(default=0, compare=False)
    """What `aligned` says, 0 where it is not there."""

    @property
    def size(self) -> int:
        return self.lanes * self.element.size

    def __str__(self) -> str:
        return f"vector of {self.lanes} {self.element}"


@dataclass(frozen=True, slots=True)
class Function:
    returns: CType
    parameters: tuple[CType, ...]
    variadic: bool
    prototype: bool
    """False for `f()`."""

    def __str__(self) -> str:
        return f"{self.returns} ({', '.join(map(str, self.parameters))})"


@dataclass(frozen=True, slots=True)
class Member:
    name: str | None
    """None of a structure or union without a name."""
    type: CType
    offset: int


@dataclass(eq=False, slots=True)
class Record:
    """A structure or union; two are the same type if they are the same object."""

    tag: str
    union: bool
    members: tuple[Member, ...] | None = None
    """None until it is declared whole."""
    size: int = 0
    alignment: int = 1
    refused: str = ""
    """Why it cannot be laid out here."""

    def complete(self, members: list[tuple[str | None, CType]], *, packed: bool, aligned: int) -> None:
        """Lays out the members."""
        offset, placed = 0, []
        for name, kind in members:
            here = 1 if packed else alignment_of(kind)
            self.alignment = max(self.alignment, here)
            offset = 0 if self.union else -(-offset // here) * here
            placed.append(Member(name, kind, offset))
            # The last member may be an array without a size: it takes no place.
            flexible = isinstance(kind, Array) and kind.count is None
            offset += 0 if flexible else size_of(kind)
            self.size = max(self.size, offset)
        self.alignment = max(self.alignment, aligned)
        self.size = -(-self.size // self.alignment) * self.alignment
        self.members = tuple(placed)

    def found(self, name: str) -> tuple[int, CType] | None:
        """Offset and type of a member, also of one in a member without a name."""
        for member in self.members or ():
            if member.name == name:
                return member.offset, member.type
            if member.name is None and isinstance(member.type, Record):
                inner = member.type.found(name)
                if inner is not None:
                    return member.offset + inner[0], inner[1]
        return None

    def __str__(self) -> str:
        return f"{'union' if self.union else 'struct'} {self.tag}"


CType: TypeAlias = Void | Integer | Real | PointerTo | Array | Vector | Function | Record
Arithmetic: TypeAlias = Integer | Real

VOID = Void()
BOOL = Integer("_Bool", 1, False, 0)
CHAR = Integer("char", 1, True, 1)
SCHAR, UCHAR = Integer("signed char", 1, True, 1), Integer("unsigned char", 1, False, 1)
SHORT, USHORT = Integer("short", 2, True, 2), Integer("unsigned short", 2, False, 2)
INT, UINT = Integer("int", 4, True, 3), Integer("unsigned int", 4, False, 3)
LONG, ULONG = Integer("long", 8, True, 4), Integer("unsigned long", 8, False, 4)
LLONG, ULLONG = Integer("long long", 8, True, 5), Integer("unsigned long long", 8, False, 5)
INT128, UINT128 = Integer("__int128", 16, True, 6), Integer("unsigned __int128", 16, False, 6)
FLOAT, DOUBLE = Real("float", 4, "f4", 2), Real("double", 8, "f8", 3)
HALF, BRAIN = Real("_Float16", 2, "f2", 0), Real("__bf16", 2, "b2", 1)

UNSIGNED = {one.rank: other for one, other in ((INT, UINT), (LONG, ULONG), (LLONG, ULLONG), (INT128, UINT128))}


def _spellings() -> Iterator[tuple[tuple[str, ...], CType]]:
    for name, signed, unsigned in (
        (("short",), SHORT, USHORT),
        (("short", "int"), SHORT, USHORT),
        (("int",), INT, UINT),
        ((), INT, UINT),
        (("long",), LONG, ULONG),
        (("int", "long"), LONG, ULONG),
        (("long", "long"), LLONG, ULLONG),
        (("int", "long", "long"), LLONG, ULLONG),
        (("__int128",), INT128, UINT128),
    ):
        yield from ((name, signed), ((*name, "signed"), signed), ((*name, "unsigned"), unsigned))
    yield from ((("char",), CHAR), (("char", "signed"), SCHAR), (("char", "unsigned"), UCHAR))
    yield from ((("void",), VOID), (("_Bool",), BOOL), (("bool",), BOOL), (("float",), FLOAT), (("double",), DOUBLE))
    yield from ((("_Float16",), HALF), (("__bf16",), BRAIN), (("_Float32",), FLOAT), (("_Float64",), DOUBLE))
    yield from ((("_Float32x",), DOUBLE),)


SPELLED: dict[tuple[str, ...], CType] = {tuple(sorted(words)): kind for words, kind in _spellings() if words}
"""Types by their sorted words; `__int128_t` and the like are typedefs of the text."""


def is_scalar(kind: CType) -> TypeGuard[Integer | Real | PointerTo]:
    return isinstance(kind, Integer | Real | PointerTo)


def size_of(kind: CType) -> int:
    """Bytes; raises Unsupported for types that have none, or that a declaration computes."""
    if isinstance(kind, Integer | Real | PointerTo | Vector):
        return kind.size
    if isinstance(kind, Array) and isinstance(kind.count, int):
        return kind.count * size_of(kind.element)
    if isinstance(kind, Record) and kind.members is not None:
        return kind.size
    if isinstance(kind, Void | Function):
        return 1  # GNU C
    if isinstance(kind, Record) and kind.refused:
        raise Unsupported(kind.refused, place_of(None))
    raise Unsupported(f"the size of '{kind}' is not known", place_of(None))


def is_variable(kind: CType) -> bool:
    """Whether a declaration computes the size."""
    return isinstance(kind, Array) and (isinstance(kind.count, str) or is_variable(kind.element))


def alignment_of(kind: CType) -> int:
    if isinstance(kind, Array):
        return alignment_of(kind.element)
    if isinstance(kind, Record):
        return kind.alignment
    if isinstance(kind, Vector | Integer | Real):
        return kind.least_alignment or kind.size
    return size_of(kind)


def promoted(kind: Integer) -> Integer:
    """C 6.3.1.1: what is smaller than int becomes int."""
    return INT if kind.rank < INT.rank else kind


def common(one: Arithmetic, other: Arithmetic) -> Arithmetic:
    """The usual arithmetic conversions, C 6.3.1.8."""
    if isinstance(one, Real) or isinstance(other, Real):
        reals = [kind for kind in (one, other) if isinstance(kind, Real)]
        return max(reals, key=lambda kind: kind.rank)
    one, other = promoted(one), promoted(other)
    if one == other:
        return one
    if one.signed == other.signed:
        return max(one, other, key=lambda kind: kind.rank)
    signed, unsigned = (one, other) if one.signed else (other, one)
    if unsigned.rank >= signed.rank:
        return unsigned
    return signed if signed.size > unsigned.size else UNSIGNED[signed.rank]


def unconstrained(pointer: PointerTo, target: CType) -> PointerTo:
    """The pointer with another target."""
    return replace(pointer, target=target)
