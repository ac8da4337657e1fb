"""Reads from the printed loops whether the innermost ones form a row: its loops, bounds and statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polydl.kernels.vector_text import NotVectorised
from polydl.model import isl
from polydl.model.isl import to_int
from polydl.model.isl.trees import expression_kind, operands_of, operation
from polydl.model.scop import Access, Assignment, Statement


@dataclass(frozen=True, slots=True)
class RowStatement:
    """A statement in the body of a loop."""

    statement: Statement
    schedule: isl.Map
    """{ S[i…] -> [c…] } its instances in terms of the printed loops."""
    texts: tuple[str, ...]
    """C text of each access's element in the current iteration."""

    def text(self, access: Access) -> str:
        """C text of the element."""
        return self.texts[next(i for i, a in enumerate(self.statement.accesses) if a is access)]


def row_statement(
    statement: Statement, schedule: isl.Map, element: Callable[[str, isl.PwMultiAff], str]
) -> RowStatement:
    """A statement with its elements printed (`element` is `Instance.element`); none for a call of a microkernel."""
    texts: list[str] = []
    if isinstance(statement.body, Assignment):
        texts = [element(a.array, a.relation.as_pw_multi_aff()) for a in statement.accesses]
    return RowStatement(statement, schedule, tuple(texts))


@dataclass(frozen=True, slots=True)
class RowLoops:
    """The loops that become one row: the outermost first, in terms of the printed loops."""

    dims: tuple[int, ...]
    """Positions among the printed loops, neighbours."""
    extents: tuple[int, ...]
    """Iterations of all but the first."""


def row_loops(body: Sequence[RowStatement], inner: Sequence[tuple[int, int]]) -> RowLoops:
    """The innermost loops around a body as a row; `inner` holds the first and last value of all but the outermost.

    Raises NotVectorised where the printed loops are not the last dimensions of the schedule, all of them running.
    """
    depths = {isl.range_arity(at.schedule) for at in body}
    depth = depths.pop()
    first = depth - len(inner) - 1
    if depths or first < 0:
        raise NotVectorised("statements in different loops")
    for at in body:
        times = at.schedule.range()
        for d, (low, high) in enumerate(inner, first + 1):
            if (isl.least(times, d), isl.greatest(times, d)) != (low, high):
                raise NotVectorised("loops that are not the schedule's")
        within = isl.agree(isl.Map.from_domain_and_range(times, times), range(first))
        if isl.range_onto(within, [first]).is_single_valued():
            raise NotVectorised("a loop of one iteration")
    return RowLoops(tuple(range(first, depth)), tuple(high - low + 1 for low, high in inner))


def loop_bounds(loop: isl.AstNode) -> tuple[isl.AstExpr, isl.AstExpr] | None:
    """First and last value of a loop that counts upwards in steps of one; None of another."""
    condition, step = loop.for_get_cond(), loop.for_get_inc()
    if loop.for_is_degenerate() or expression_kind(step) != "int" or to_int(step.get_val()) != 1:
        return None
    if expression_kind(condition) != "op" or operation(condition) != "le":
        return None
    return loop.for_get_init(), operands_of(condition)[1]


def are_numbers(*expressions: isl.AstExpr) -> bool:
    """Whether all of them are literals."""
    return all(expression_kind(e) == "int" for e in expressions)
