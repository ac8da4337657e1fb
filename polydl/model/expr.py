"""Right-hand sides of statements: a small typed expression tree. Subscripts are access relations instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.types import ElementType, literal_value


@dataclass(frozen=True, slots=True)
class Const:
    """A literal, as written: `0.5f`, `2`, `1e-3`."""

    text: str


@dataclass(frozen=True, slots=True)
class Load:
    """The value read through `Statement.accesses[access]` (0-D arrays, i.e. scalars, included)."""

    access: int


@dataclass(frozen=True, slots=True)
class Gather:
    """The value of an array element that data choose: `x[col[k]]`, `table[ids[t]][d]`."""

    element: Load
    """Its access relates an instance to every element that it may read; `subscripts` say which it is."""
    subscripts: tuple[Expr, ...]
    """One for each subscript of the C text, as it is written there: a single one for a linear array."""


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
    element: ElementType
    """What it returns."""


@dataclass(frozen=True, slots=True)
class Conditional:
    """`condition ? then : otherwise`; the condition may depend on data."""

    condition: Expr
    then: Expr
    otherwise: Expr
    typed: tuple[bool, bool] = (False, False)
    """Of `then` and `otherwise`, whether it is known to have the type of the whole: it may stand in its place."""


@dataclass(frozen=True, slots=True)
class Convert:
    """A value in another type, as C converts it: `(float)x`.

    The casts of the source stand in a statement's expression; `model.conversions` adds those that C does by itself.
    """

    source: ElementType
    target: ElementType
    operand: Expr

    @property
    def exact(self) -> bool:
        """Whether it changes no value. Else it rounds to the nearest (to a float) or cuts off (to an integer)."""
        return self.target.holds(self.source)


Expr = Const | Load | Gather | AffineValue | Unary | Binary | Call | Conditional | Convert


def operands(value: Expr) -> tuple[Expr, ...]:
    """What an operation is done on, from left to right; empty for values that are no operations."""
    match value:
        case Unary(_, operand) | Convert(_, _, operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Conditional(condition, then, otherwise):
            return (condition, then, otherwise)
        case Call(_, arguments):
            return arguments
        case Gather(element, subscripts):
            return (element, *subscripts)
        case _:
            return ()


def every_part(value: Expr) -> Iterator[Expr]:
    """An expression and all that it is made of."""
    yield value
    for operand in operands(value):
        yield from every_part(operand)


def factors_of(value: Expr, through: Callable[[Convert], bool] = lambda one: False) -> list[Expr]:
    """What a product is of, from left to right; `through`: of which conversions the operand is looked at instead."""
    match value:
        case Binary("*", left, right):
            return [*factors_of(left, through), *factors_of(right, through)]
        case Convert(_, _, operand) if through(value):
            return factors_of(operand, through)
        case _:
            return [value]


def summands(value: Expr, held: Set[int] = frozenset(), *, negative: bool = False) -> list[tuple[Expr, bool]]:
    """The terms of a sum, and whether they are subtracted; factors are multiplied into sums that load one of the
    accesses `held`."""
    match value:
        case Binary("+" | "-" as op, left, right):
            right_negative = negative != (op == "-")
            return [*summands(left, held, negative=negative), *summands(right, held, negative=right_negative)]
        case Unary("+" | "-" as op, operand):
            return summands(operand, held, negative=negative != (op == "-"))
        case Binary("*", left, right):
            one, two = (summands(side, held) if held & {*loads(side)} else [(side, False)] for side in (left, right))
            if len(one) == len(two) == 1 and not (one[0][1] or two[0][1]):
                return [(value, negative)]
            return [(Binary("*", a, b), negative != (first != second)) for a, first in one for b, second in two]
        case _:
            return [(value, negative)]


def on_operands(value: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The same operation on changed operands."""
    match value:
        case Unary(_, operand) | Convert(_, _, operand):
            return replace(value, operand=change(operand))
        case Binary(_, left, right):
            return replace(value, left=change(left), right=change(right))
        case Conditional(condition, then, otherwise):
            return Conditional(change(condition), change(then), change(otherwise), value.typed)
        case Call(_, arguments):
            return replace(value, arguments=tuple(change(a) for a in arguments))
        case Gather(element, subscripts):
            changed = change(element)
            assert isinstance(changed, Load), "an element that data choose is of an array, which nothing stands for"
            return Gather(changed, tuple(change(s) for s in subscripts))
        case _:
            return value


def loads(value: Expr) -> list[int]:
    """The accesses that an expression reads, from left to right."""
    return [value.access] if isinstance(value, Load) else [i for one in operands(value) for i in loads(one)]


def joined(condition: Expr, op: str) -> Iterator[Expr]:
    """The conditions that `&&`, or that `||`, joins, from left to right."""
    if isinstance(condition, Binary) and condition.op == op:
        yield from joined(condition.left, op)
        yield from joined(condition.right, op)
    else:
        yield condition


def repeated(value: Expr) -> list[Expr]:
    """The operations that an expression has in several places, those inside of others first."""
    places: dict[Expr, int] = {}
    order: list[Expr] = []

    def visit(one: Expr) -> None:
        places[one] = places.get(one, 0) + 1
        if places[one] == 1:
            for part in operands(one):
                visit(part)
            order.append(one)

    visit(value)
    return [one for one in order if places[one] > 1 and any(map(operands, operands(one)))]


def calls(value: Expr) -> list[str]:
    """The functions that an expression calls, from left to right."""
    own = [value.function] if isinstance(value, Call) else []
    return own + [name for one in operands(value) for name in calls(one)]


def affine_values(value: Expr) -> list[AffineValue]:
    """The values made of loop variables in an expression, from left to right."""
    return [value] if isinstance(value, AffineValue) else [v for one in operands(value) for v in affine_values(one)]


def on_affine_values(value: Expr, change: Callable[[isl.PwAff], isl.PwAff]) -> Expr:
    """The expression with other functions for those of loop variables in it, from left to right."""
    if isinstance(value, AffineValue):
        return AffineValue(change(value.value))
    return on_operands(value, lambda one: on_affine_values(one, change))


def constant_number(value: AffineValue) -> int | None:
    """The number that it always is; None where loop variables or parameters change it."""
    found = {isl.offset(aff) if aff.is_cst() else None for _, aff in isl.pieces(value.value)}
    return found.pop() if len(found) == 1 else None


def is_zero(value: Expr, *, signed: bool = True) -> bool:
    """Whether an expression is a literal zero; `signed`: with a sign or none."""
    if not isinstance(value, Const) or literal_value(value.text) != 0:
        return False
    return signed or not value.text.startswith("-")


def is_number(value: Expr) -> bool:
    """Whether an expression is a literal or a constant of the library, with a sign or none."""
    return isinstance(value, Const) or (
        isinstance(value, Unary) and value.op in ("+", "-") and isinstance(value.operand, Const)
    )


def sure_loads(value: Expr) -> frozenset[int]:
    """The accesses that an expression reads whatever the data are: none behind a `?`, `&&` or `||`."""
    found: set[int] = set()
    left = [value]
    while left:
        match one := left.pop():
            case Load(access):
                found.add(access)
            case Conditional(first, _, _) | Binary("&&" | "||", first, _):
                left.append(first)
            case _:
                left += operands(one)
    return frozenset(found)
