"""The tiny language of the oracle: affine loop nests with C semantics, as frozen values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

# --- integer expressions: bounds, subscripts, conditions -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lit:
    value: int


@dataclass(frozen=True, slots=True)
class Var:
    """A loop variable, a parameter or an affine temporary."""

    name: str


@dataclass(frozen=True, slots=True)
class Sum:
    """`left + right` or `left - right`."""

    op: str
    left: Int
    right: Int


@dataclass(frozen=True, slots=True)
class Scale:
    """`factor * operand`."""

    factor: int
    operand: Int


@dataclass(frozen=True, slots=True)
class DivMod:
    """`operand / divisor` or `operand % divisor`, truncating towards zero as C does; divisor >= 1."""

    op: str
    operand: Int
    divisor: int


@dataclass(frozen=True, slots=True)
class MinMax:
    """`min(left, right)` or `max(left, right)`; printed as a ternary or a macro."""

    op: str
    left: Int
    right: Int


Int = Lit | Var | Sum | Scale | DivMod | MinMax


@dataclass(frozen=True, slots=True)
class Compare:
    op: str
    """< <= > >= == !="""
    left: Int
    right: Int


@dataclass(frozen=True, slots=True)
class Logic:
    """`left && right` or `left || right`."""

    op: str
    left: Cond
    right: Cond


@dataclass(frozen=True, slots=True)
class Not:
    operand: Cond


Cond = Compare | Logic | Not


# --- data expressions: right-hand sides ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Num:
    """An integral literal in the arithmetic of the data."""

    value: int


@dataclass(frozen=True, slots=True)
class Load:
    array: str
    subscripts: tuple[Int, ...]


@dataclass(frozen=True, slots=True)
class IntValue:
    """An affine integer used as data: `A[i] = i + N`."""

    value: Int


@dataclass(frozen=True, slots=True)
class Binary:
    """`left op right` with op one of + - *."""

    op: str
    left: Data
    right: Data


@dataclass(frozen=True, slots=True)
class Negate:
    operand: Data


Data = Num | Load | IntValue | Binary | Negate


# --- statements ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class For:
    """`for (var = start; var op bound; var += step)`; step may be negative, never 0."""

    var: str
    start: Int
    op: str
    bound: Int
    step: int
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class If:
    condition: Cond
    then: tuple[Node, ...]
    otherwise: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Temp:
    """An affine temporary: `name = value;`. No statement of the polyhedral program."""

    name: str
    value: Int


@dataclass(frozen=True, slots=True)
class Assign:
    """`array[subscripts] op value;` with op one of = += -= *=, and |= &= ^= on int."""

    array: str
    subscripts: tuple[Int, ...]
    op: str
    value: Data


Node = For | If | Temp | Assign


@dataclass(frozen=True, slots=True)
class ArrayDecl:
    """An array, or a scalar (read-only ones are passed by value, the others are locals copied in and out)."""

    ctype: str
    """int, float or double; scalars are never int, so that they are data and not parameters."""
    extents: tuple[int, ...]
    """Elements per dimension at the program's parameter values; () for a scalar."""
    spelled: tuple[str, ...] = ()
    """The extents in C, which may name parameters; as numbers when empty."""
    linear: bool = False
    """Passed as `T *restrict A` and subscripted as one dimension: `A[(s0) * e1 + s1]`."""


@dataclass(frozen=True, slots=True)
class Program:
    """A function with one region."""

    body: tuple[Node, ...]
    arrays: Mapping[str, ArrayDecl]
    parameters: Mapping[str, int] = field(default_factory=dict)
    """Integer arguments of the function with the values that the program is run with."""
    name: str = "kernel"
    declare_in_for: bool = True
    """`for (int i = …)`; otherwise loop variables are declared before the region, which leaks nothing."""
    macros: bool = False
    """min and max through macros; otherwise as ternaries."""


def assignments(nodes: tuple[Node, ...]) -> Iterator[Assign]:
    """Every assignment in textual order: the n-th is statement n."""
    for node in nodes:
        match node:
            case Assign():
                yield node
            case For():
                yield from assignments(node.body)
            case If():
                yield from assignments(node.then)
                yield from assignments(node.otherwise)
            case Temp():
                pass


def loads(value: Data) -> Iterator[Load]:
    """Loads of a right-hand side, left to right."""
    match value:
        case Load():
            yield value
        case Binary():
            yield from loads(value.left)
            yield from loads(value.right)
        case Negate():
            yield from loads(value.operand)
        case Num() | IntValue():
            pass


def written(program: Program) -> set[str]:
    """Names of the arrays that some statement writes."""
    return {a.array for a in assignments(program.body)}
