"""The first (or last) iteration of a loop by itself, where it alone is another case of what the loop finds.

    for i: if (x[i] > m || i == 0) { m = x[i]; at = i; }

An extreme that starts from the first element: what is left of the loop is the extreme that every other one is.
"""

from __future__ import annotations

from collections.abc import Iterator

from polydl.equations.decided import decided_parts
from polydl.equations.step import Step
from polydl.model import isl
from polydl.model.accumulation import accumulates, keeps
from polydl.model.expr import Conditional
from polydl.model.isl import quota
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.time import inside_of
from polydl.rewrite.cut import Piece, cut


def first_iterations(scop: Scop) -> Iterator[Step]:
    """Cut loops behind their first or before their last iteration, where what is left accumulates (`Cut`). Raises
    QuotaExceeded."""
    with quota(f"the conditions on loop variables of {scop.function}"):
        while step := next((one for s in scop.statements if (one := _step(scop, s)) is not None), None):
            yield step
            scop = step.after


def _step(scop: Scop, statement: Statement) -> Step | None:
    body = statement.body
    if not isinstance(body, Assignment) or not isinstance(body.value, Conditional):
        return None
    if accumulates(scop, statement) or keeps(statement):
        return None
    for holds in decided_parts(body.value.condition, statement.domain):
        for few in (holds, statement.domain.subtract(holds)):
            for depth in range(statement.depth):
                ends = isl.least(statement.domain, depth), isl.greatest(statement.domain, depth)
                for end in ends:
                    if end is not None and few.is_equal(isl.fix(statement.domain, depth, end)):
                        step = _apart(scop, statement, depth, end, first=end == ends[0])
                        if step is not None:
                            return step
    return None


def _apart(scop: Scop, statement: Statement, depth: int, end: int, *, first: bool) -> Step | None:
    """The step to a program in which an iteration of a loop around a statement stands by itself, where what is left of
    the statement combines, or keeps something of what does."""
    inside = inside_of(scop, statement.position[: depth + 1])
    if not all(isinstance(s.body, Assignment) for s in inside):
        return None
    backwards = statement.iterators[depth] in statement.descending
    pieces: dict[str, list[Piece]] = {}
    for s in inside:
        alone = isl.fix(s.domain, depth, end)
        parts = [("e", alone), ("r", s.domain.subtract(alone).coalesce())]
        order = parts if first != backwards else parts[::-1]
        pieces[s.name] = [Piece(suffix, domain, {depth: n}) for n, (suffix, domain) in enumerate(order)]
    step = cut(scop, pieces, "where a condition on its loop changes")
    left = next((s for s in step.after.statements if s.name == f"{statement.name}r"), None)
    return step if left is not None and (accumulates(step.after, left) or keeps(left)) else None
