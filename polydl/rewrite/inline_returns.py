"""Calls of functions of the file as what these return.

    y[i] = clamp(x[i], 0, n);          y[i] = x[i] < 0 ? 0 : x[i] > n ? n : x[i];

How a value is spelled decides nothing then: whether a product is a contraction, what a microkernel may end with, what
runs in vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from polydl.model.conversions import converted, explicit
from polydl.model.expr import Call, Expr, loads, on_operands
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.types import ElementType
from polydl.rewrite.repeating import MOST, expression_size, is_slow
from polydl.rewrite.step import Step


@dataclass(frozen=True, slots=True)
class Returned:
    """Calls become what the functions return.

    before:    y[i] = relu(x[i])          float relu(float v) { return v > 0 ? v : 0; }
    after:     y[i] = x[i] > 0 ? x[i] : (float)0
    requires:  the functions are expressions of their parameters (`Scop.functions`); arguments are converted to the
               types of these
    """

    statements: tuple[str, ...]

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `polydl.rewrite.step.Rewrite`."""
        made = _made(before)
        if {s.name for s in before.statements if s not in made.statements} != {*self.statements}:
            return f"{', '.join(self.statements)}: not those that call functions of the file"
        return None if after.statements == made.statements else f"more than {', '.join(self.statements)} was changed"

    def __str__(self) -> str:
        return f"{', '.join(self.statements)}: functions in place of their calls"


def returned(scop: Scop) -> Iterator[Step]:
    """Write functions of the file in place of their calls (`Returned`)."""
    made = _made(scop)
    changed = tuple(s.name for s, other in zip(scop.statements, made.statements, strict=True) if s is not other)
    if changed:
        yield Step(Returned(changed), scop, made)


def _made(scop: Scop) -> Scop:
    return replace(scop, statements=tuple(_in_place(scop, s) for s in scop.statements)) if scop.functions else scop


def _in_place(scop: Scop, statement: Statement) -> Statement:
    """The statement without calls of functions of the file; itself where it has none, or where there would be more to
    compute."""
    body = statement.body
    if not isinstance(body, Assignment):
        return statement

    def of_load(access: int) -> ElementType:
        return scop.arrays[statement.accesses[access].array].element

    def changed(one: Expr) -> Expr:
        one = on_operands(one, changed)
        function = scop.functions.get(one.function) if isinstance(one, Call) else None
        if function is None or not isinstance(one, Call) or len(one.arguments) != len(function.parameters):
            return one
        used = loads(function.value)
        given = []
        for number, (argument, element) in enumerate(zip(one.arguments, function.parameters, strict=True)):
            if used.count(number) == 0 or (used.count(number) > 1 and is_slow(argument)):
                return one
            made = explicit(argument, of_load)[1]
            if made.through is not element.through:
                return one
            given.append(converted(argument, made, element))
        return function.of(given)

    value = changed(body.value)
    if value == body.value or expression_size(value) > MOST:
        return statement
    return replace(statement, body=replace(body, value=value))
