"""Other spellings of expressions: functions of the file as what they return, `s = fmaf(a, b, s)` as the sum that it is.

    y[i] = clamp(x[i], 0, n);          y[i] = x[i] < 0 ? 0 : x[i] > n ? n : x[i];

How a value is spelled decides nothing then: whether a product is a contraction, what a microkernel may end with, what
runs in vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.equations.lift import with_functions
from polydl.equations.step import RegroupingRule, Rule, Step
from polydl.equations.substitution import MOST, Rebuilt, expression_size, is_slow
from polydl.model.expr import Binary, Call, Expr, Load, loads
from polydl.model.functions import FMA
from polydl.model.scop import Assignment, Function, Scop, Statement
from polydl.model.types import F32, F64

_TYPES = {name: element for name, element in FMA.spellings.items() if element in (F32, F64)}
"""By function, the type that it computes in."""


@dataclass(frozen=True, slots=True)
class Returned(Rule):
    """Calls become what the functions return.

    before:    y[i] = relu(x[i])          float relu(float v) { return v > 0 ? v : 0; }
    after:     y[i] = x[i] > 0 ? x[i] : (float)0
    requires:  the functions are expressions of their parameters (`Scop.functions`); arguments are converted to the
               types of these
    """

    statements: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.statements)}: functions in place of their calls"


@dataclass(frozen=True, slots=True)
class MultiplyAdd(RegroupingRule):
    """A fused multiplication and addition becomes a sum of products, which the compiler may fuse again.

    before:    s = fma(a, b, s)
    after:     s += a * b
    requires:  leave to reassociate, for the product may be rounded; all of the function's type
    """

    statements: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.statements)} adds a product"


def returned(scop: Scop) -> Iterator[Step]:
    """Write functions of the file in place of their calls (`Returned`)."""
    if scop.functions:
        yield from _changed(scop, _without_calls, Returned)


def multiply_adds(scop: Scop) -> Iterator[Step]:
    """Write every accumulation by fma() as a sum (`MultiplyAdd`)."""
    yield from _changed(scop, _as_sum, MultiplyAdd)


def _changed(
    scop: Scop,
    change: Callable[[Scop, Statement, Assignment], Statement | None],
    rule: type[Returned] | type[MultiplyAdd],
) -> Iterator[Step]:
    """The step in which all assignments are changed for which `change` has another."""
    made = {s.name: new for s in scop.statements if isinstance(s.body, Assignment) and (new := change(scop, s, s.body))}
    if made:
        yield Step(
            rule(tuple(made)), scop, replace(scop, statements=tuple(made.get(s.name, s) for s in scop.statements))
        )


def _without_calls(scop: Scop, statement: Statement, body: Assignment) -> Statement | None:
    """The statement without calls of functions of the file; None where it has none, or where there would be more to
    compute."""

    def worth(function: Function, arguments: Sequence[Expr]) -> bool:
        used = loads(function.value)
        often = ((used.count(number), argument) for number, argument in enumerate(arguments))
        return all(times == 1 or (times > 1 and not is_slow(argument)) for times, argument in often)

    value = with_functions(scop, body.value, lambda i: scop.arrays[statement.accesses[i].array].element, worth)
    if value == body.value or expression_size(value) > MOST:
        return None
    return replace(statement, body=replace(body, value=value))


def _as_sum(scop: Scop, statement: Statement, body: Assignment) -> Statement | None:
    """`s += a * b` for `s = fma(a, b, s)`; None for another statement."""
    match body.value:
        case Call(function, (Load() as one, Load() as two, Load() as added)) if body.op == "=" and function in _TYPES:
            target = statement.target
            read = [statement.accesses[a.access] for a in (one, two, added)]
            if any(scop.arrays[a.array].element is not _TYPES[function] for a in (*read, target)):
                return None
            if read[2].array != target.array or not read[2].relation.is_equal(target.relation):
                return None
            made = Rebuilt()
            value = Binary("*", made.taken(one, statement.accesses), made.taken(two, statement.accesses))
            return made.statement(statement, target, "+=", value)
        case _:
            return None
