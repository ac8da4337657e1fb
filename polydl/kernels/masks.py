"""Conditions on integers of another type than the lanes', `use[j] != 0` among doubles, and such integers as long as the
lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from polydl.base.records import dataclass
from polydl.kernels.microkernel import environment
from polydl.kernels.vector_text import COMPARISONS
from polydl.model.expr import Binary, Const, Expr, Load, Unary
from polydl.model.types import I32, ElementType, common, integer_literal
from polydl.target.isa import WHOLE_TYPES, lanes_name


@dataclass(frozen=True, slots=True)
class Mask:
    """An integer of another type than the lanes' that is compared with a literal."""

    access: int
    element: ElementType
    op: str
    than: str
    """A literal that the type holds."""

    def text(self, lanes: ElementType, address: str) -> str:
        """C of the lanes for which it holds, in a step of a row: whole, or `cut` to a `part`."""
        name = f"polydl_{lanes_name(lanes)}_{COMPARISONS[self.op]}_{self.element.name}"
        return f"{name}({address}, {self.than}, part, cut)"


def mask_of(condition: Expr, lanes: ElementType, held: Callable[[int], ElementType]) -> Mask | None:
    """A condition as a mask; None: it is another one. `held`: the type of what an access reads."""
    match condition:
        case Load(access):
            op, than = "!=", "0"
        case Binary(op, Load(access), Const(than)) if op in COMPARISONS:
            pass
        case _:
            return None
    element = held(access)
    number = integer_literal(than) if element.is_int else None
    if number is None or element is lanes or (lanes is I32 and element.bytes < I32.bytes):
        return None  # shorter than an int, it is made one as C does
    # Beside 1u C compares unsigned numbers, and -1 is the greatest of them.
    exact = element.minimum <= number[0] <= element.maximum and common(element, number[1]).holds(element)
    fits = element.bytes < lanes.bytes or (element.bytes == lanes.bytes and not element.unsigned)
    return Mask(access, element, op, than) if exact and fits else None


def joined_by(condition: Expr) -> Iterator[Expr]:
    """The conditions that one is made of by `&&`, `||` and `!`."""
    match condition:
        case Binary("&&" | "||", left, right):
            yield from (*joined_by(left), *joined_by(right))
        case Unary("!", operand):
            yield from joined_by(operand)
        case _:
            yield condition


def widening(
    lanes: ElementType, widened: Iterable[ElementType], masks: Iterable[tuple[str, ElementType]]
) -> Iterator[str]:
    """The functions that make integers of other types as long as the lanes, and that compare those, with include
    guards."""
    signed = next(row.c for row in WHOLE_TYPES if row.bytes == lanes.bytes and not row.unsigned)
    known = {"t": lanes, "lanes": lanes_name(lanes), "signed": signed}
    for of in widened:
        yield environment().get_template("row_widened.c.j2").render(m=of, **known)
    for op, of in masks:
        yield environment().get_template("row_masks.c.j2").render(m=of, op=op, name=COMPARISONS[op], **known)
