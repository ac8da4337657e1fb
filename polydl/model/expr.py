"""Right-hand sides of statements: a small typed expression tree. Subscripts are access relations instead."""

from __future__ import annotations

from dataclasses import dataclass

from polydl.model import isl
from polydl.model.types import ElementType


@dataclass(frozen=True, slots=True)
class Const:
    """A literal, as written: `0.5f`, `2`, `1e-3`."""

    text: str


@dataclass(frozen=True, slots=True)
class Load:
    """The value read through `Statement.accesses[access]` (0-D arrays, i.e. scalars, included)."""

    access: int


@dataclass(frozen=True, slots=True)
class AffineValue:
    """An integer value affine in iterators and parameters, as in `A[i] = i + N`. Domain: the statement's space."""

    value: isl.PwAff


@dataclass(frozen=True, slots=True)
class Unary:
    """`op operand`; op is a C prefix operator: - + ! ~."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """`left op right`, any C binary operator without side effects, `&&` and `||` included."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function without side effects (libm, or one the user vouches for)."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Conditional:
    """`condition ? then : otherwise`; the condition may depend on data."""

    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Cast:
    """`(element)operand`."""

    element: ElementType
    operand: Expr


Expr = Const | Load | AffineValue | Unary | Binary | Call | Conditional | Cast


def loads(value: Expr) -> list[int]:
    """The accesses that an expression reads, from left to right."""
    match value:
        case Load(access):
            return [access]
        case Unary(_, operand) | Cast(_, operand):
            return loads(operand)
        case Binary(_, left, right):
            return [*loads(left), *loads(right)]
        case Conditional(condition, then, otherwise):
            return [*loads(condition), *loads(then), *loads(otherwise)]
        case Call(_, arguments):
            return [i for a in arguments for i in loads(a)]
        case _:
            return []
