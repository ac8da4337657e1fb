"""Statements taken apart: by their instances, or a sum by its terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.equations.step import RegroupingRule, Step
from polydl.equations.substitution import Rebuilt
from polydl.model.accumulation import addition
from polydl.model.combiners import subtracts
from polydl.model.expr import summands
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.time import common_depth
from polydl.rewrite.cut import in_order, part_of, with_room
from polydl.target.isa import kernel_contraction


@dataclass(frozen=True, slots=True)
class Terms(RegroupingRule):
    """A sum of products that is added to an element becomes one statement per product.

    before:    for k: C[i][j] += A[i][k] * B[j][k] + B[i][k] * A[j][k]
    after:     for k: C[i][j] += A[i][k] * B[j][k];  for k: C[i][j] += B[i][k] * A[j][k]
    requires:  leave to reassociate; no product reads what is written. The loops that each gets for itself hold no
               other statement.
    """

    parts: tuple[tuple[str, tuple[str, ...]], ...]
    """(statement, the statements that add one term each), in textual order."""

    def __str__(self) -> str:
        return "; ".join(f"{name} adds {len(own)} products: {', '.join(own)} add one each" for name, own in self.parts)


def reduction_fission(scop: Scop) -> Iterator[Step]:
    """Take apart every sum of products each of which is a contraction, for which a microkernel can be made (`Terms`).

    Changes the order of sums.
    """
    cut = {s.name: found for s in scop.statements if (found := products(scop, s))}
    if not cut:
        return
    apart = _cut(scop, cut, reductions=True)
    yield apart if apart.broken() is None else _cut(scop, cut, reductions=False)


def _cut(scop: Scop, cut: Mapping[str, Sequence[Statement]], *, reductions: bool) -> Step:
    """The step to the terms `cut`, each in loops of its own below those that its statement shares with others;
    `reductions`: each runs through the terms of the sum in loops of its own, whatever else is in these."""
    statements: list[Statement] = []
    for statement in with_room(scop, max(map(len, cut.values()))).statements:
        position = statement.position
        shared = max((common_depth(statement, o) for o in scop.statements if o.name != statement.name), default=0)
        if reductions and statement.name in cut:
            found = kernel_contraction(scop, cut[statement.name][0])
            assert found is not None  # says `products`
            shared = min(shared, *map(statement.iterators.index, found.reductions), statement.depth)
        for which, term in enumerate(cut.get(statement.name, ())):
            place = (*position[:shared], position[shared] + which, *position[shared + 1 :])
            statements.append(replace(term, position=place))
        statements += [statement] if statement.name not in cut else []
    named = tuple((name, tuple(s.name for s in found)) for name, found in cut.items())
    return Step(Terms(named), scop, in_order(scop, statements))


def products(scop: Scop, statement: Statement) -> list[Statement]:
    """The statements that add one product each, all contractions; empty where that is not what the statement does."""
    body = addition(statement)
    if body is None:
        return []
    values = summands(body.value, negative=subtracts(body.op))
    if len(values) < 2:
        return []
    target = statement.target.array
    if any(a.array == target for i, a in enumerate(statement.accesses) if i not in (body.target, body.target_read)):
        return []
    found = []
    for which, (value, negative) in enumerate(values):
        alone = replace(statement, body=replace(body, value=value))
        whole, made = part_of(alone, alone.domain, f"{alone.name}t{which}", alone.position), Rebuilt()
        assert isinstance(whole.body, Assignment)
        taken = made.taken(whole.body.value, whole.accesses)
        one = made.statement(whole, whole.target, "-=" if negative else "+=", taken)
        if kernel_contraction(scop, one) is None:
            return []
        found.append(one)
    return found
