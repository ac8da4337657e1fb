"""Right-hand sides over one integer type, as operations on vectors of it: rows of bytes have 64 lanes where C computes
each in an int.

C promotes what is narrower than an int. A lane has the lower bits of what C has then: that is all that a store to the
type keeps, and that sums, products and bits made of it need. Comparisons, and what is chosen by them, are of the values
themselves: of elements, and literals of the type.
"""

from __future__ import annotations

from polydl.base.records import dataclass
from polydl.kernels.narrow_values import is_truth
from polydl.kernels.vector_text import COMPARISONS, NotVectorised, Vectors
from polydl.model.combiners import Combiner
from polydl.model.conversions import explicit
from polydl.model.expr import AffineValue, Binary, Conditional, Const, Convert, Expr, Load, Unary, constant_number
from polydl.model.types import I32, ElementType, common, integer_literal
from polydl.target.isa import lanes_name

_OPERATORS = ("+", "-", "*", "&", "|", "^")


@dataclass(frozen=True, slots=True)
class Whole(Vectors):
    """How a right-hand side is printed."""

    operators: tuple[str, ...] = _OPERATORS

    @property
    def prefix(self) -> str:
        return f"polydl_{lanes_name(self.element)}"

    def text(self, value: Expr) -> str:
        """C text of a vector with the lower bits of what C computes. Raises NotVectorised."""
        self.check_type(value)
        number = None if isinstance(value, Unary) and value.op == "~" else _number(value)
        if isinstance(value, Const) and number is not None and number <= self.element.maximum:
            return f"{self.prefix}_all({value.text})"
        if number is not None:
            wrapped = number % (1 << self.element.bits)
            return self.constant(wrapped if wrapped <= self.element.maximum else wrapped - (1 << self.element.bits))
        match value:
            case Unary("~", operand):
                return f"(~{self.text(operand)})"
            case Binary(op, left, right) if op in _OPERATORS:
                return f"({self.text(left)} {op} {self.text(right)})"
            case Load() | Unary("+" | "-", _):
                return Vectors.text(self, value)
            case Conditional(condition, then, otherwise):
                return self._conditional(condition, then, otherwise)
            case Convert(_, target, operand) if target is self.element:
                return self.text(operand)
            case Binary() | Unary() if is_truth(value):
                return f"{self.prefix}_truth({self.test(value)})"
        raise NotVectorised("an operation on integers")

    def constant(self, number: int) -> str:
        """C of a vector with a number of the type in all lanes."""
        return f"{self.prefix}_all({number_text(number, self.element)})"

    def check_type(self, value: Expr) -> None:
        """C computes in the type of the lanes, or, where that is narrower, in an int. Raises NotVectorised."""
        made = explicit(value, lambda access: self.element)[1]
        if made is not self.element and made is not I32 and _number(value) is None:
            raise NotVectorised(f"arithmetic in {made}")

    def check_sides(self, left: Expr, right: Expr) -> None:
        """C compares the values that lanes have: none becomes another in the type that both are made, as -1 does beside
        1u. Raises NotVectorised."""
        types = [explicit(one, lambda access: self.element)[1] for one in (left, right)]
        meant = common(*types)
        if any(_number(one) is None and not meant.holds(t) for one, t in zip((left, right), types, strict=True)):
            raise NotVectorised(f"a comparison of {meant}s")

    def is_exact(self, value: Expr) -> bool:
        """Whether lanes hold the very value that C has, not its lower bits alone."""
        number = _number(value)
        if number is not None:
            return self.element.minimum <= number <= self.element.maximum
        match value:
            case Load():
                return True
            case Binary() | Unary() if is_truth(value):
                return True
            case Conditional(_, then, otherwise):
                return self.is_exact(then) and self.is_exact(otherwise)
            case Unary("+", operand):
                return self.is_exact(operand)
        return common(self.element, I32) is self.element and self.element.bits >= I32.bits

    def compared(self, value: Expr) -> str:
        if not self.is_exact(value):
            raise NotVectorised("a comparison of what an int has more bits for")
        return self.text(value)

    def test(self, condition: Expr) -> str:
        """C text of the lanes in which a condition holds. Raises NotVectorised."""
        if self.masked(condition) is not None:
            return Vectors.test(self, condition)
        if is_truth(condition):
            if isinstance(condition, Binary) and condition.op in COMPARISONS:
                self.check_sides(condition.left, condition.right)
            return Vectors.test(self, condition)
        return f"{self.prefix}_ne({self.compared(condition)}, {self.prefix}_zero())"


def number_text(number: int, element: ElementType) -> str:
    """C of a number of a type. The least one of a signed type is no literal."""
    if number == element.minimum < 0:
        return f"{number + 1} - 1"
    return f"{number}{'u' if number > I32.maximum and element.unsigned else ''}"


def worst_text(how: Combiner, element: ElementType) -> str:
    """C of the value of a type that no other one is worse than."""
    worst = how.worst(element)
    return number_text(int(worst), element) if element.is_int else f"{'-' * (worst < 0)}__builtin_inf()"


def _number(value: Expr) -> int | None:
    """The number that a literal stands for, with its sign."""
    match value:
        case Const(text):
            found = integer_literal(text)
            return None if found is None else found[0]
        case AffineValue():
            return constant_number(value)
        case Unary("-" | "~" as op, operand):
            inner = _number(operand)
            return None if inner is None else -inner if op == "-" else ~inner
        case _:
            return None
