"""Sums that end in a linear expression, made in place: `C = alpha * s + beta * C`, `C = s0 + s1`.

    for i: for j: { s = 0; for k: s += A[i][k] * B[k][j]; C[i][j] = alpha * s + beta * C[i][j]; }

The rest of the expression, `beta * C[i][j]`, may come first; then each product is added to the element, times alpha.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.dependences.scalars import private_scalars, users
from polydl.equations.step import RegroupingRule, Step, one_by_one
from polydl.equations.substitution import Rebuilt
from polydl.model.accumulation import addition, same_elements
from polydl.model.combiners import SUM, subtracts, taken_away
from polydl.model.expr import Binary, Const, Expr, Load, Unary, factors_of, is_zero, loads, summands
from polydl.model.scop import Assignment, Scop, Statement, without_scalar
from polydl.model.time import prefix
from polydl.rewrite.materialise import forward, in_blocks, in_place, through


@dataclass(frozen=True, slots=True)
class LinearSums(RegroupingRule):
    """Private accumulators become the array element that a linear expression of them ends up in.

    before:    s = 0;  for k: s += x;  C[f(i)] = a * s + r
    after:     C[f(i)] = r;  for k: C[f(i)] += a * x
    requires:  leave to reassociate; each accumulator s private to the last statement's iteration and of C's type, a the
               same all the time; nothing else reads C[f(i)] or writes what r reads while the accumulators live
    """

    scalars: tuple[str, ...]
    last: str
    """The statement that writes the element."""

    def __str__(self) -> str:
        return f"{', '.join(self.scalars)}: {self.last} is done to the terms of the sum instead"


def linear_sums(scop: Scop) -> Iterator[Step]:
    """Make accumulators that end up in linear expressions the elements these are stored in, where contractions come of
    it that a microkernel keeps in blocks of registers (`LinearSums`). Changes the order of sums.

    Raises QuotaExceeded.
    """
    return one_by_one(scop, scop.statements, _step)


def _step(scop: Scop, statement: Statement) -> Step | None:
    private = private_scalars(scop)
    written = {a.array for a in statement.accesses if a.write}
    read = [a.array for a in statement.accesses if not a.write and a.array in private and a.array not in written]
    scalars = tuple(dict.fromkeys(name for name in read if len(users(scop, name)) > 2))
    copied = len(scalars) == 1 and not _reads_target(statement)
    if not scalars or (copied and not any(scop.arrays[name].is_scalar for name in written)):
        return None  # `materialise.in_place` is for the latter: it needs no other order of a sum
    sum_ = _linear(scop, statement, scalars)
    if sum_ is None:
        return None
    made = _made(scop, statement, sum_)
    adding = [s.name for scalar in scalars for s in users(scop, scalar)[1:-1]]
    if not in_blocks(through(made, in_place, forward), adding):
        return None
    return Step(LinearSums(scalars, statement.name), scop, made)


def _reads_target(statement: Statement) -> bool:
    body = statement.body
    if not isinstance(body, Assignment):
        return False
    target = statement.target.array
    added = subtracts(body.op) or (body.op == SUM.op and not isinstance(body.value, Load))
    return added or any(statement.accesses[i].array == target for i in loads(body.value))


def _is_sum(scop: Scop, scalar: str, last: Statement) -> bool:
    """Whether a scalar begins at zero, is added to and ends in `last`, in the loops of that."""
    first, *adding, end = users(scop, scalar)
    begins = isinstance(first.body, Assignment) and first.body.op == "=" and is_zero(first.body.value)
    adds = all(addition(s) is not None and s.target.array == scalar for s in adding)
    return begins and adds and end is last and first.depth == last.depth


@dataclass(frozen=True, slots=True)
class _Sum:
    """A linear expression of accumulators."""

    op: str
    """`=`, `+=` or `-=`: what is done with the rest. `C = C + …` is an addition."""
    factors: Mapping[str, tuple[bool, tuple[Expr, ...]]]
    """By accumulator: whether it is subtracted, and what it is multiplied by."""
    rest: Expr | None
    """The other terms."""


def _linear(scop: Scop, last: Statement, scalars: Sequence[str]) -> _Sum | None:
    """What a statement makes of accumulators; None where that is no sum that is linear in each, once, with factors that
    are the same all the time."""
    body = last.body
    if not isinstance(body, Assignment) or (body.op != "=" and addition(last) is None):
        return None
    array = scop.arrays[last.target.array]
    if not all(scop.arrays[x].element is array.element and _is_sum(scop, x, last) for x in scalars):
        return None
    written = {a.array for s in scop.statements for a in s.accesses if a.write}

    def fixed(factor: Expr) -> bool:
        if not isinstance(factor, Load):
            return isinstance(factor, Const)
        one = scop.arrays[last.accesses[factor.access].array]
        return one.is_scalar and one.element is array.element and one.name not in written

    factors: dict[str, tuple[bool, tuple[Expr, ...]]] = {}
    rest: Expr | None = None
    op, terms = body.op, summands(body.value, {i for i, a in enumerate(last.accesses) if a.array in scalars})
    itself = [Load(i) for i in loads(body.value) if last.accesses[i].array == array.name]
    same = len(itself) == 1 and itself[0].access in same_elements(last, body.target)
    if op == "=" and same and (itself[0], False) in terms:
        op = SUM.op
        terms.remove((itself[0], False))
    for term, negative in terms:
        parts = factors_of(term)
        held = [p for p in parts if isinstance(p, Load) and last.accesses[p.access].array in scalars]
        if not held:
            if any(last.accesses[i].array in scalars for i in loads(term)):
                return None
            signed = Unary("-", term) if negative and rest is None else term
            rest = signed if rest is None else Binary("-" if negative else "+", rest, term)
            continue
        scalar = last.accesses[held[0].access].array
        others = tuple(p for p in parts if p is not held[0])
        if len(held) > 1 or scalar in factors or not all(map(fixed, others)):
            return None
        factors[scalar] = negative != subtracts(op), others
    return _Sum(op, factors, rest)


def _made(scop: Scop, last: Statement, sum_: _Sum) -> Scop:
    """The program after `LinearSums`."""
    begins = [users(scop, scalar)[0] for scalar in sum_.factors]
    first = min(begins, key=scop.statements.index)
    statements: list[Statement] = []
    for statement in scop.statements:
        if statement is first:
            statements += _beginning(last, sum_, first.position)
        if statement in begins or statement is last:
            continue
        adds_to = next((x for x in sum_.factors if any(a.array == x and a.write for a in statement.accesses)), None)
        statements.append(statement if adds_to is None else _adding(statement, last, *sum_.factors[adds_to]))
    made = replace(scop, statements=tuple(statements))
    for scalar in sum_.factors:
        made = without_scalar(made, scalar)
    return made


def _beginning(last: Statement, sum_: _Sum, position: tuple[int, ...]) -> list[Statement]:
    """The last statement with the rest of its sum, at the place of the first; none where the element stays as it is."""
    if sum_.rest is None and sum_.op != "=":
        return []
    made = Rebuilt()
    value = Const("0") if sum_.rest is None else made.taken(sum_.rest, last.accesses)
    return [made.statement(replace(last, position=position), last.target, sum_.op, value)]


def _adding(statement: Statement, last: Statement, negative: bool, factors: Sequence[Expr]) -> Statement:
    """`s += x` as `C[f(i)] += a * x`."""
    body, end = statement.body, last.body
    assert isinstance(body, Assignment)
    assert isinstance(end, Assignment)
    there = prefix(statement, last.depth).apply_range(prefix(last, last.depth).reverse())
    lifted = [replace(a, relation=there.apply_range(a.relation)) for a in last.accesses]
    made = Rebuilt()
    value = made.taken(body.value, statement.accesses)
    for factor in factors:
        value = Binary("*", made.taken(factor, lifted), value)
    op = taken_away(body.op) if negative else body.op
    return made.statement(statement, lifted[end.target], op, value)
