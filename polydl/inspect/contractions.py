"""Why sums of products get no microkernel: what `polydl explain` says of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from polydl.base.errors import Span
from polydl.base.records import dataclass
from polydl.dependences.analysis import Dependence
from polydl.dependences.nests import Nest, nests
from polydl.model.combiners import adds
from polydl.model.contraction import Contraction, Lack, NoContraction
from polydl.model.expr import Binary, Expr, every_part, loads
from polydl.model.scop import Assignment, BlackBox, Scop, Statement
from polydl.rewrite.canonical import kept_as_written
from polydl.schedule.transforms.register_block import unit_columns
from polydl.target.isa import kernel_judged


@dataclass(frozen=True, slots=True)
class Missed:
    """A statement that adds products, without a microkernel."""

    statement: str
    """Its name in the program as it is searched."""
    span: Span
    """What shows the reason, or else the statement."""
    reason: str

    def __str__(self) -> str:
        return f"no microkernel: {self.span}: {self.statement}: {self.reason}"

    def to_data(self) -> dict[str, Any]:
        """The statement's entry in the document of `polydl explain --json`."""
        return {
            "statement": self.statement,
            "line": self.span.line,
            "column": self.span.column,
            "reason": self.reason,
        }


def missed(scop: Scop, found: Sequence[Dependence]) -> tuple[Missed, ...]:
    """The statements of a program that add products and get no microkernel, with the first condition that fails.

    `found`: the dependences of the program. Raises QuotaExceeded.
    """
    return tuple(one for nest in nests(scop, found) for one in _of_nest(scop, nest))


def _of_nest(scop: Scop, nest: Nest) -> Iterator[Missed]:
    for statement in nest.statements:
        if not _adds_products(scop, statement):
            continue
        judged = kernel_judged(scop, statement)
        if isinstance(judged, Contraction):
            reason = _in_nest(scop, nest, statement)
            if reason is not None:
                yield Missed(statement.name, statement.span, reason)
        else:
            access = None if judged.access is None else statement.accesses[judged.access]
            span = statement.span if access is None or access.span is None else access.span
            yield Missed(statement.name, span, kept_as_written(scop, statement) or _text(scop, statement, judged))


def _adds_products(scop: Scop, statement: Statement) -> bool:
    """Whether a statement adds products of array elements, as far as it shows."""
    match statement.body:
        case Assignment(op=op, value=value) if adds(op):
            return any(_is_product(scop, statement, one) for one in every_part(value))
        case BlackBox():
            # What it may do to elements is known, and not what it does with them.
            read = {a.array for a in statement.accesses if not a.write and not scop.arrays[a.array].is_scalar}
            written = {a.array for a in statement.accesses if a.write}
            return bool(read & written) and len(read) > 2
        case _:
            return False


def _is_product(scop: Scop, statement: Statement, value: Expr) -> bool:
    if not isinstance(value, Binary) or value.op != "*":
        return False
    sides = ([scop.arrays[statement.accesses[i].array] for i in loads(side)] for side in (value.left, value.right))
    return all(any(not array.is_scalar for array in side) for side in sides)


def _in_nest(scop: Scop, nest: Nest, statement: Statement) -> str | None:
    """Why a contraction gets no microkernel in its nest; None: it gets one."""
    others = [f"{s.name} (line {s.span.line})" for s in nest.statements if s is not statement]
    if others:
        return f"dependences, or a scalar that they share, keep it in one loop with {', '.join(others)}"
    if nest.contraction is not None and unit_columns(nest):
        return None
    columns = kernel_judged(scop, statement)
    assert isinstance(columns, Contraction)
    loops = ", ".join(columns.columns())
    return f"the loop over {loops} runs downwards, leaves out values, or has other bounds in other iterations"


def _text(scop: Scop, statement: Statement, found: NoContraction) -> str:
    """The reason with the names and types that it is about."""
    if found.access is None:
        return found.lack.value
    array = scop.arrays[statement.accesses[found.access].array]
    if found.lack is Lack.OPERANDS and isinstance(statement.body, Assignment):
        total = scop.arrays[statement.target.array]
        factors = sorted({scop.arrays[statement.accesses[i].array].element.c for i in loads(statement.body.value)})
        return (
            f"{found.lack.value}: {total.name} is of type {total.element.c}, they are of type {' and '.join(factors)}"
        )
    if found.lack in (Lack.TYPES, Lack.ELEMENT):
        return f"{found.lack.value}: {array.name} is of type {array.element.c}"
    if found.lack is Lack.ITSELF:
        return f"{found.lack.value}, {array.name}: only whole tiles of a schedule may go to microkernels"
    return f"{found.lack.value}: {array.name}"
