"""The statements that the walk over a region finds, before array shapes are settled and isl spaces are named.

Sets and functions here are zero-dimensional with iterators as isl parameters (see affine.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.records import dataclass
from polydl.frontend.meaning.affine import Value
from polydl.frontend.meaning.data_subscripts import Form
from polydl.frontend.meaning.symbols import Symbol
from polydl.model import isl
from polydl.model.expr import Expr


@dataclass(frozen=True, slots=True)
class SourceLoop:
    """A loop around a statement."""

    name: str
    descending: bool


@dataclass(frozen=True, slots=True)
class RawAccess:
    """A read or write; `subscripts` as written: one for an array used linearly, otherwise one per dimension."""

    symbol: Symbol
    write: bool
    subscripts: tuple[Value | None, ...]
    """None: data choose it."""
    where: isl.Set
    """The iterations in which it happens: the statement's domain, or less inside a conditional expression."""
    node: Node
    exact: bool = True
    """False inside a data-dependent conditional: it may happen everywhere in `where`."""
    chosen: tuple[tuple[int, Form], ...] = ()
    """The subscripts that data choose, by their place."""


@dataclass(frozen=True, slots=True)
class RawAssignment:
    """`target op value`; see model.scop.Assignment."""

    target: int
    op: str
    value: Expr
    target_read: int | None


@dataclass(frozen=True, slots=True)
class RawArgument:
    """An argument of a microkernel call; `address` is the element pointed at, as an access."""

    text: str
    address: RawAccess | None = None
    value: isl.PwAff | None = None
    node: Node | None = None


@dataclass(frozen=True, slots=True)
class RawCall:
    """A microkernel call and the statements that say what it computes."""

    function: str
    arguments: tuple[RawArgument, ...]
    inner: tuple[RawStatement, ...]
    form: str
    pragma: int


@dataclass(frozen=True, slots=True)
class RawSegment:
    """A loop over a segment that adds up; see model.scop.Segment."""

    sum: RawStatement
    entry: str
    counter: str
    """The variable of the loop, which counts the entries from `first` on."""
    first: str
    last: str
    tables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RawEntries:
    """What a loop over `bounds[row] <= counter < bounds[row + 1]` runs through."""

    bounds: str
    """An array of integers that the region does not write."""
    row: isl.PwAff
    """A function of the loops around and of parameters."""
    counter: str


@dataclass(frozen=True, slots=True)
class RawBlackBox:
    """Code kept as written, and the statements that say what it may access; see model.scop.BlackBox."""

    text: str
    locals: tuple[tuple[str, isl.PwAff | None], ...]
    """Declarations that the text needs around it -> their value."""
    inner: tuple[RawStatement, ...]
    lanes: str = ""
    """See model.scop.BlackBox."""
    segment: RawSegment | None = None
    entries: RawEntries | None = None
    """Of a loop over a segment."""
    ahead: str = ""
    fetched: tuple[str, ...] = ()
    """See model.scop.BlackBox."""


@dataclass(frozen=True, slots=True)
class RawStatement:
    """A statement."""

    loops: tuple[SourceLoop, ...]
    domain: isl.Set
    position: tuple[int, ...]
    accesses: tuple[RawAccess, ...]
    body: RawAssignment | RawCall | RawBlackBox
    node: Node

    @property
    def parts(self) -> tuple[RawStatement, ...]:
        """What a call or kept code consists of; an assignment itself."""
        return (self.body.inner if not isinstance(self.body, RawAssignment) else ()) or (self,)


def every_access(statements: Sequence[RawStatement]) -> list[RawAccess]:
    """Accesses of statements, of those inside of calls and kept code, and the addresses that calls are given."""
    found: list[RawAccess] = []
    for one in statements:
        found += one.accesses if one.parts == (one,) else every_access(one.parts)
        if isinstance(one.body, RawCall):
            found += [argument.address for argument in one.body.arguments if argument.address is not None]
    return found


@dataclass(frozen=True, slots=True)
class Given:
    """A value of an integer scalar that is data, or an end of a loop variable whose bounds data decide."""

    name: str
    form: Form
    where: isl.Set
    """Values of symbols for which it is given."""
    end: str = ""
    """Of a loop variable: `begin` or `end`."""
    past: int = 0
    """1: what the loop variable is in the loop stays below the value, which may be one more."""


@dataclass(slots=True)
class Walked:
    """Everything that a walk found."""

    statements: list[RawStatement] = field(default_factory=list)
    parameters: dict[str, Node] = field(default_factory=dict)
    """Integer symbols left symbolic -> the node of their first use."""
    shaping: set[str] = field(default_factory=set)
    """Those of them that bounds, conditions, subscripts or extents mention: the others are data."""
    derived: dict[str, isl.PwAff] = field(default_factory=dict)
    """Parameters that are constant locals -> their initial value as an affine function of other parameters: `m` ->
    2n + 1 for `const int m = 2 * n + 1;`."""
    sized: dict[str, int] = field(default_factory=dict)
    """Symbols that took their value from `sizes`."""
    symbols: dict[str, Symbol] = field(default_factory=dict)
    """Arrays and data scalars that statements access."""
    constants: dict[str, tuple[Symbol, int]] = field(default_factory=dict)
    """Enumerators and constants whose value was used, with the value."""
    called: dict[str, c_ast.FuncDef] = field(default_factory=dict)
    """Functions of the file whose bodies were evaluated -> their definition."""
    hiding: dict[str, Node] = field(default_factory=dict)
    """Loop variables declared in their loop that hide another object -> their Decl."""
    begun: dict[str, Value] = field(default_factory=dict)
    """Variables of loops that count on the value they are given in front of the loop -> that value."""
    temporaries: dict[str, Symbol] = field(default_factory=dict)
    """Loop variables and affine temporaries."""
    private: dict[str, Symbol] = field(default_factory=dict)
    """Scalars that one piece of kept code declares itself."""
    given: list[Given] = field(default_factory=list)
    """What integers are given of which only data know the value."""
    granted: dict[str, isl.Set | None] = field(default_factory=dict)
    """What is taken for granted, for people, in the order of the text -> the values of symbols for which it does not
    hold; None where those are not known."""
    stores: dict[int, tuple[Node, c_ast.If]] = field(default_factory=dict)
    """id of an assignment that stores where the `if` that it was made of may not -> the two."""
