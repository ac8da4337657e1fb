"""The core: C with its meaning resolved. Names are identities, conversions are written down, effects stand in order.

A value has no effects and never reads memory: what it is made of are constants, variables (`Read`) and results of
effects (`Ref`). Memory is read by `Load` alone. `typed.verified` says what holds of a core, `typed.interpret` what it
means.
"""

from __future__ import annotations

from typing import TypeAlias

from polydl.base.errors import Span
from polydl.base.records import dataclass
from polydl.frontend.typed.core_values import Obj, Place, Ref, Type, Value, Var

# --- effects


@dataclass(frozen=True, slots=True)
class Declare:
    """A local object, or a variable without a first value, begins: it holds nothing yet."""

    what: Obj | Var
    span: Span


@dataclass(frozen=True, slots=True)
class Let:
    """A value, computed here once."""

    result: Ref
    value: Value
    span: Span


@dataclass(frozen=True, slots=True)
class Assign:
    var: Var
    value: Value
    span: Span


@dataclass(frozen=True, slots=True)
class Load:
    result: Ref
    place: Place
    span: Span


@dataclass(frozen=True, slots=True)
class Store:
    place: Place
    value: Value
    span: Span


@dataclass(frozen=True, slots=True)
class Copy:
    """`memcpy`, or `memmove` where the places may overlap."""

    to: Place
    source: Place
    size: Value
    """Bytes, an unsigned long."""
    may_overlap: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Fill:
    """`memset`."""

    to: Place
    byte: Value
    """An int."""
    size: Value
    span: Span


@dataclass(frozen=True, slots=True)
class Call:
    """A call with effects: of a function of the file, or of one that is not known, which may change all memory that it
    can reach."""

    function: str | Value
    """Its name, or a pointer to it."""
    arguments: tuple[Value, ...]
    result: Ref | None
    span: Span


@dataclass(frozen=True, slots=True)
class Opaque:
    """Text that is kept as it is written. It may read and write all memory, and the variables that it names."""

    why: str
    names: tuple[Var | Obj, ...]
    leaves: bool
    """Whether it may jump out: `return`, `break`, `goto`."""
    text: str | None
    """As it stands in the source; None where macros make more than it."""
    span: Span


# --- control


@dataclass(frozen=True, slots=True)
class Block:
    items: tuple[Node, ...]
    yields: tuple[Value, ...] = ()
    """What it gives, behind its effects."""


@dataclass(frozen=True, slots=True)
class If:
    condition: Value
    then: Block
    other: Block
    results: tuple[Ref, ...]
    """What the block that runs yields."""
    span: Span


@dataclass(frozen=True, slots=True)
class Loop:
    """`test`, `body`, `step` again and again, until the test yields zero. `continue` goes on with the step."""

    test: Block
    """Yields one value."""
    body: Block
    step: Block
    bottom: bool
    """The test comes behind the step, as in `do`."""
    span: Span


@dataclass(frozen=True, slots=True)
class Break:
    span: Span


@dataclass(frozen=True, slots=True)
class Continue:
    span: Span


@dataclass(frozen=True, slots=True)
class Return:
    value: Value | None
    span: Span


Effect: TypeAlias = Declare | Let | Assign | Load | Store | Copy | Fill | Call | Opaque
Node: TypeAlias = Effect | If | Loop | Break | Continue | Return

# --- functions


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    parameters: tuple[Var | Ref, ...]
    """A structure is a Ref, which the body stores."""
    returns: Type
    body: Block
    span: Span


@dataclass(frozen=True, slots=True)
class Program:
    functions: dict[str, Function]
    objects: tuple[Obj, ...]
    """With static storage."""
    first: Block
    """Stores their first values; all other bytes are zero, but of arrays of the file with an initialiser: the parser
    leaves these out."""
    refused: dict[str, Exception]
    """Functions that have no core, and why."""
