"""What programs are built of in Python (`model.build`): indices, which are affine in loop variables and sizes, values,
and conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from typing import NoReturn

from polydl.base.errors import InputError
from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.expr import AffineValue, Binary, Call, Conditional, Const, Convert, Expr, Load, Unary
from polydl.model.functions import FUNCTIONS, REAL
from polydl.model.types import F32, F64, I32, ElementType, common

Number = int | float
Place = Callable[["Read"], int]
"""The number of the access that a value is read through."""


class Term:
    """A value that statements may store, with the operators of Python."""

    __slots__ = ()

    @property
    def element(self) -> ElementType | None:
        """Its type; None for a number, which has that of what it is used with."""
        raise NotImplementedError

    def parts(self) -> tuple[Term, ...]:
        """What it is made of, from left to right."""
        return ()

    def expression(self, place: Place, wanted: ElementType) -> Expr:
        """As the model has it; `wanted`: the type that numbers are written in."""
        raise NotImplementedError

    def c(self, wanted: ElementType) -> str:
        """As C has it."""
        raise NotImplementedError

    def __add__(self, other: Term | Number) -> Term:
        return operation("+", self, other)

    def __radd__(self, other: Number) -> Term:
        return operation("+", other, self)

    def __sub__(self, other: Term | Number) -> Term:
        return operation("-", self, other)

    def __rsub__(self, other: Number) -> Term:
        return operation("-", other, self)

    def __mul__(self, other: Term | Number) -> Term:
        return operation("*", self, other)

    def __rmul__(self, other: Number) -> Term:
        return operation("*", other, self)

    def __truediv__(self, other: Term | Number) -> Term:
        return operation("/", self, other)

    def __rtruediv__(self, other: Number) -> Term:
        return operation("/", other, self)

    def __neg__(self) -> Term:
        return negated(self)

    def __lt__(self, other: Term | Number) -> Comparison:
        return compared("<", self, other)

    def __le__(self, other: Term | Number) -> Comparison:
        return compared("<=", self, other)

    def __gt__(self, other: Term | Number) -> Comparison:
        return compared(">", self, other)

    def __ge__(self, other: Term | Number) -> Comparison:
        return compared(">=", self, other)

    def __eq__(self, other: Term | Number) -> Comparison:  # type: ignore[override]
        return compared("==", self, other)

    def __ne__(self, other: Term | Number) -> Comparison:  # type: ignore[override]
        return compared("!=", self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise InputError(
            "whether this holds is known when the program runs, not while it is built",
            hint="use select(condition, then, otherwise), or with program.when(condition):",
        )


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Term):
    """A number of Python."""

    number: Number

    @property
    def element(self) -> ElementType | None:
        return None

    def expression(self, place: Place, wanted: ElementType) -> Expr:
        if self.number >= 0:
            return Const(self.text(wanted))
        if isinstance(self.number, int):
            return AffineValue(index(self.number).function)
        return Unary("-", Const(Literal(-self.number).text(wanted)))

    def c(self, wanted: ElementType) -> str:
        return self.text(wanted) if self.number >= 0 else f"-{Literal(-self.number).text(wanted)}"

    def text(self, wanted: ElementType) -> str:
        """Raises InputError for a number that C has no literal for, or the type no value."""
        if isinstance(self.number, int) or self.number != self.number or abs(self.number) == float("inf"):
            if not isinstance(self.number, int) or self.number > I32.maximum:
                raise InputError(f"{self.number} is no number that can be written here")
            return str(self.number)
        if wanted.is_int:
            raise InputError(f"{self.number} is used with integers", hint="write a whole number, or cast the other")
        return f"{self.number!r}{wanted.suffix or ''}"


@dataclass(frozen=True, slots=True, eq=False)
class Index(Term):
    """An integer that is affine in loop variables and sizes: a subscript, a bound, or a value."""

    function: isl.PwAff
    """{ [] -> [v] }, with loop variables and sizes as parameters."""
    text: str
    """In C."""
    atom: bool = True
    """Whether the text needs no parentheses."""

    @property
    def element(self) -> ElementType:
        return I32

    @property
    def names(self) -> tuple[str, ...]:
        """The loop variables and sizes that it depends on."""
        return isl.involved_parameters(self.function)

    def expression(self, place: Place, wanted: ElementType) -> Expr:
        return AffineValue(self.function)

    def c(self, wanted: ElementType) -> str:
        return self.text if self.atom else f"({self.text})"


@dataclass(frozen=True, slots=True, eq=False)
class Read(Term):
    """An element of an array, or a scalar."""

    program: object
    """That it belongs to."""
    array: str
    type: ElementType
    subscripts: tuple[Index, ...]

    @property
    def element(self) -> ElementType:
        return self.type

    def expression(self, place: Place, wanted: ElementType) -> Expr:
        return Load(place(self))

    def c(self, wanted: ElementType) -> str:
        return self.array + "".join(f"[{one.text}]" for one in self.subscripts)

    def same(self, other: Term) -> bool:
        """Whether it is the same element."""
        if not isinstance(other, Read) or other.array != self.array:
            return False
        pairs = zip(self.subscripts, other.subscripts, strict=True)
        return all(one.function.is_equal(two.function) for one, two in pairs)

    def __iadd__(self, value: Term | Number) -> Update:
        return Update(self, "+=", term(value))

    def __isub__(self, value: Term | Number) -> Update:
        return Update(self, "-=", term(value))

    def __imul__(self, value: Term | Number) -> Update:
        return Update(self, "*=", term(value))

    def __itruediv__(self, value: Term | Number) -> Update:
        return Update(self, "/=", term(value))


@dataclass(frozen=True, slots=True, eq=False)
class Update(Term):
    """What `A[i] += value` stores in `A[i]`, and is no value elsewhere."""

    target: Read
    op: str
    value: Term

    @property
    def element(self) -> ElementType | None:
        raise InputError(f"'{self.target.array}' is updated inside of a value", hint="make it a statement of its own")


@dataclass(frozen=True, slots=True, eq=False)
class Operation(Term):
    """What is computed of other values."""

    of: tuple[Term, ...]
    type: ElementType | None
    """Of the result; None: that of what it is used with."""
    inner: ElementType | None
    """That numbers among the operands are written in; None: as above."""
    form: str
    """In C, with `{}` for each operand."""
    model: Callable[..., Expr]
    """Makes the expression of those of the operands."""
    function: str = ""
    """That is called."""

    @property
    def element(self) -> ElementType | None:
        return self.type

    def parts(self) -> tuple[Term, ...]:
        return self.of

    def expression(self, place: Place, wanted: ElementType) -> Expr:
        own = self.inner or wanted
        return self.model(*(one.expression(place, own) for one in self.of))

    def c(self, wanted: ElementType) -> str:
        own = self.inner or wanted
        return self.form.format(*(one.c(own) for one in self.of))


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Operation):
    """Whether one value is less than another, equal, …: 1 or 0 as a value."""

    op: str = "<"

    def holds(self) -> isl.Set:
        """{ [] : it holds }. Raises InputError where data decide."""
        one, other = self.of
        if not (isinstance(one, Index) and isinstance(other, Index)):
            raise InputError(
                f"data decide whether {self.c(F64)} holds", hint="use select(condition, then, otherwise) in the value"
            )
        left, right = one.function, other.function
        compare = {
            "<": left.lt_set, "<=": left.le_set, ">": left.gt_set, ">=": left.ge_set, "==": left.eq_set,
            "!=": left.ne_set,
        }  # fmt: skip
        return compare[self.op](right).params()


def term(value: object) -> Term:
    """A value as a term. Raises InputError for what is none."""
    if isinstance(value, Term):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Literal(value)
    raise InputError(f"{type(value).__name__} is no value", hint="use elements of arrays, scalars, indices and numbers")


def index(value: object, what: str = "a subscript") -> Index:
    """A value as an index. Raises InputError for what is none."""
    if isinstance(value, Index):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        number = isl.PwAff.from_aff(isl.constant(isl.unnamed_space(0), value))
        return Index(number, str(value), value >= 0)
    raise InputError(
        f"{what} is made of loop variables, sizes and whole numbers",
        hint="use + and -, and * with a number; data cannot be subscripts here",
    )


def symbol(name: str) -> Index:
    """A loop variable or a size."""
    return Index(isl.PwAff.from_aff(isl.parameter(name)), name)


def joint(*values: Term) -> ElementType | None:
    """The type that C computes in with several values; None for numbers alone."""
    types = [one.element for one in values if one.element is not None]
    if not types:
        return None
    found = types[0]
    for one in types[1:]:
        found = common(found, one)
    real = any(isinstance(one, Literal) and isinstance(one.number, float) for one in values)
    return F64 if real and found.is_int else found


def operation(op: str, left: Term | Number, right: Term | Number) -> Term:
    """`left op right`; of indices and whole numbers an index, where it is one."""
    found = _affine(op, left, right)
    if found is not None:
        return found
    one, other = term(left), term(right)
    own = joint(one, other)
    if op == "/" and (own is None or own.is_int):
        raise InputError("a division of integers", hint="cast one of them: cast('double', value) / 2")
    return Operation((one, other), own, own, f"({{}} {op} {{}})", partial(Binary, op))


def _affine(op: str, left: object, right: object) -> Index | None:
    if not all(isinstance(one, Index | int) and not isinstance(one, bool) for one in (left, right)):
        return None
    one, other = index(left), index(right)
    if op in ("+", "-"):
        function = one.function.add(other.function) if op == "+" else one.function.sub(other.function)
        return Index(function, f"{one.text} {op} {other.text if other.atom else f'({other.text})'}", atom=False)
    if op == "*" and (one.function.is_cst() or other.function.is_cst()):
        return Index(one.function.mul(other.function), f"{one.c(I32)} * {other.c(I32)}", atom=False)
    return None


def compared(op: str, left: Term | Number, right: Term | Number) -> Comparison:
    """Whether `left op right` holds."""
    sides = [*map(term, (left, right))]
    if any(isinstance(one, Index) for one in sides):
        sides = [
            index(one.number) if isinstance(one, Literal) and isinstance(one.number, int) else one for one in sides
        ]
    inner = joint(*sides) or F64
    return Comparison(tuple(sides), I32, inner, f"({{}} {op} {{}})", partial(Binary, op), op=op)


def negated(value: Term) -> Term:
    """`-value`."""
    return Operation((value,), value.element, value.element, "(-{})", partial(Unary, "-"))


def reads(value: Term) -> Sequence[Read]:
    """The elements that a value is made of, from left to right."""
    return [value] if isinstance(value, Read) else [one for part in value.parts() for one in reads(part)]


def indices(value: Term) -> Sequence[Index]:
    """The indices that a value is made of, from left to right."""
    return [value] if isinstance(value, Index) else [one for part in value.parts() for one in indices(part)]


def functions(value: Term) -> Sequence[str]:
    """The functions that a value calls."""
    own = [value.function] if isinstance(value, Operation) and value.function else []
    return own + [name for part in value.parts() for name in functions(part)]


def select(condition: Comparison, then: Term | Number, otherwise: Term | Number) -> Term:
    """`then` where the condition holds, and else `otherwise`."""
    if not isinstance(condition, Comparison):
        raise InputError("select takes a comparison", hint="as in select(x > 0, x, 0.0)")
    one, other = term(then), term(otherwise)
    own = joint(one, other)
    typed = (one.element in (None, own), other.element in (None, own))
    return Operation(
        (condition, one, other), own, own, "({} ? {} : {})",
        lambda holds, this, that: Conditional(holds, this, that, typed),
    )  # fmt: skip


def call(function: str, *arguments: Term | Number) -> Term:
    """A function of <math.h> by its name for doubles: of floats it is the one for floats (`expf` for `exp`).

    Raises InputError for one that polydl does not know (`model.functions`), or with other arguments than it has.
    """
    known = {row.name: row for row in FUNCTIONS if row.names is REAL and not row.effect}
    if function not in known:
        near = get_close_matches(function, known, 1) or get_close_matches(function.rstrip("f"), known, 1)
        hint = f"is '{near[0]}' meant?" if near else "one of <math.h> by its name for doubles, as in call('exp', x)"
        raise InputError(f"there is no function '{function}' to call", hint=hint)
    if len(arguments) != known[function].arity:
        few = f"{known[function].arity} argument{'s' if known[function].arity > 1 else ''}"
        raise InputError(f"'{function}' takes {few}, not {len(arguments)}")
    values = tuple(map(term, arguments))
    own = F32 if joint(*values) is F32 else F64
    name = f"{function}{own.suffix}"
    form = f"{name}({', '.join('{}' for _ in values)})"
    return Operation(values, own, own, form, lambda *given: Call(name, given, own), name)


def cast(element: ElementType, value: Term | Number) -> Term:
    """A value in another type, as C converts it."""
    operand = term(value)
    source = operand.element or element
    return Operation((operand,), element, source, f"({element.c}){{}}", partial(Convert, source, element))
