"""What the translator of C knows while it writes Python: values, places, names, and the effects of expressions."""

from __future__ import annotations

from dataclasses import field, replace
from typing import NamedTuple, TypeAlias

from pycparser import c_ast

from polydl.base.records import dataclass
from polydl.oracle.c_types import CType, Function, Integer, Record


class Touched(NamedTuple):
    """A variable or bytes of memory that an expression reads or writes, as names in the Python that is written."""

    obj: str
    """Of a variable that Python keeps its name."""
    offset: str | None
    """None of a variable that Python keeps."""
    size: int
    condition: str | None = None
    """A name that says whether it happened; None: it did."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What evaluating an expression reads and writes, to find effects that C leaves without an order."""

    reads: tuple[Touched, ...] = ()
    done: tuple[Touched, ...] = ()
    """Writes that a sequence point ended within the expression."""
    pending: tuple[Touched, ...] = ()

    @property
    def writes(self) -> tuple[Touched, ...]:
        return self.done + self.pending

    def __add__(self, other: Effects) -> Effects:
        if self is NO_EFFECTS:
            return other
        if other is NO_EFFECTS:
            return self
        return Effects(self.reads + other.reads, self.done + other.done, self.pending + other.pending)

    def ended(self) -> Effects:
        """After a sequence point."""
        return Effects(self.reads, self.writes, ()) if self.pending else self

    def under(self, condition: str) -> Effects:
        """What happens only where a branch is taken."""

        def all_of(touched: tuple[Touched, ...]) -> tuple[Touched, ...]:
            return tuple(one if one.condition else one._replace(condition=condition) for one in touched)

        return Effects(all_of(self.reads), all_of(self.done), all_of(self.pending))


NO_EFFECTS = Effects()


@dataclass(frozen=True, slots=True)
class Value:
    """A value, as the Python expression that gives it: it has no effects and reads only names that stay as they are
    until the C expression ends."""

    type: CType
    code: str
    """Of a pointer the object."""
    offset: str = "0"
    """Of a pointer the bytes from the object's start."""
    constant: int | float | None = None
    """Known while translating; None of pointers."""
    raw: bool = False
    """A double that still has to be rounded to float."""
    excess: bool = False
    """Of _Float16 and __bf16: computed as float, not yet rounded to the type."""
    bounds: tuple[int, int] | None = None
    """What an integer lies between, where that is less than its type's range."""
    effects: Effects = NO_EFFECTS

    @property
    def range(self) -> tuple[int, int]:
        if isinstance(self.constant, int):
            return self.constant, self.constant
        if self.bounds is not None:
            return self.bounds
        assert isinstance(self.type, Integer)
        return self.type.least, self.type.most

    def after(self, effects: Effects) -> Value:
        """The value, with effects in place of its own."""
        return replace(self, effects=effects)


@dataclass(eq=False, slots=True)
class Variable:
    """An object that a declaration names."""

    name: str
    type: CType
    code: str
    """The Python name: of the value, of a pointer without its last letter, or of the object where memory holds it."""
    in_memory: bool
    checked: bool = False
    """May have no value when it is read (Python's None)."""
    link: str = ""
    """Of an object with static storage the Python that finds it."""


@dataclass(frozen=True, slots=True)
class Named:
    """A function."""

    name: str
    type: Function


@dataclass(frozen=True, slots=True)
class Enumerated:
    """An enumeration constant."""

    value: int
    type: Integer


Symbol: TypeAlias = Variable | Named | Enumerated | CType


@dataclass(slots=True)
class Scope:
    """The names of a block."""

    parent: Scope | None = None
    names: dict[str, Symbol] = field(default_factory=dict)
    tags: dict[str, Record | Integer] = field(default_factory=dict)

    def symbol(self, name: str) -> Symbol | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def tag(self, name: str) -> Record | Integer | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.tags:
                return scope.tags[name]
            scope = scope.parent
        return None


@dataclass(frozen=True, slots=True)
class Place:
    """What an lvalue designates: a variable that Python keeps, or bytes of an object."""

    type: CType
    node: c_ast.Node
    variable: Variable | None = None
    obj: str = ""
    offset: str = "0"
    alignment: int = 0
    """Where it is not the type's own."""
    effects: Effects = NO_EFFECTS

    def touched(self, size: int) -> Touched:
        if self.variable is not None:
            return Touched(self.variable.code, None, size)
        return Touched(self.obj, self.offset, size)


def total(*parts: str | int) -> str:
    """Python for a sum of atoms, products and numbers."""
    number = sum(int(part) for part in parts if isinstance(part, int) or part.lstrip("-").isdigit())
    names = [part for part in parts if isinstance(part, str) and not part.lstrip("-").isdigit()]
    if not names:
        return str(number)
    if number == 0 and len(names) == 1:
        return names[0]
    return f"({' + '.join([*names, *([str(number)] if number else [])])})"


def times(code: str, factor: int | str) -> str:
    """Python for a product."""
    if code.lstrip("-").isdigit() and isinstance(factor, int):
        return str(int(code) * factor)
    return code if factor in (1, "1") else f"{code} * {factor}"
