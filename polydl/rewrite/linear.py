"""Sums that end in a linear expression, made in place: `C = alpha * s + beta * C`, `C = s0 + s1`.

    for i: for j: { s = 0; for k: s += A[i][k] * B[k][j]; C[i][j] = alpha * s + beta * C[i][j]; }

The rest of the expression, `beta * C[i][j]`, may come first; then each product is added to the element, times alpha.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from polydl.dependences.scalars import private_scalars, users
from polydl.model.combiners import adds, taken_away
from polydl.model.expr import Binary, Const, Expr, Load, Unary, is_zero, loads
from polydl.model.isl import quota
from polydl.model.scop import Assignment, Scop, Statement, without_scalar
from polydl.rewrite.lifetimes import Lifetimes, lifetimes, prefix, touched_meanwhile, written_meanwhile
from polydl.rewrite.private_scalars import in_place
from polydl.rewrite.rebuilt import Rebuilt
from polydl.rewrite.step import Step, applied
from polydl.rewrite.substitute import forward
from polydl.target.isa import has_register_blocks


@dataclass(frozen=True, slots=True)
class LinearSums:
    """Private accumulators become the array element that a linear expression of them ends up in.

    before:    s = 0;  for k: s += x;  C[f(i)] = a * s + r
    after:     C[f(i)] = r;  for k: C[f(i)] += a * x
    requires:  leave to reassociate; each accumulator s private to the last statement's iteration and of C's type, a the
               same all the time; nothing else touches C[f(i)] or writes what r reads while the accumulators live, but
               what adds to C[f(i)] where the last statement only adds to it
    """

    scalars: tuple[str, ...]
    last: str
    """The statement that writes the element."""

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `polydl.rewrite.step.Rewrite`."""
        with quota(f"the lifetimes of {', '.join(self.scalars)}"):
            last = before.statement(self.last)
            sum_ = _linear(before, last, self.scalars)
            if isinstance(sum_, str):
                return sum_
            body = last.body
            assert isinstance(body, Assignment)  # says `_linear`
            own = {i for i in (body.target, body.target_read, *loads(body.value)) if i is not None}
            own = {i for i in own if _same_element(last, i, body.target)}
            allowed = {(last.name, i) for i in own} | _additions(before, last, sum_.op)
            others = [
                (last, i) for i in loads(body.value) if i not in own and last.accesses[i].array not in self.scalars
            ]
            for scalar in self.scalars:
                lives = _lives(before, scalar, last)
                if isinstance(lives, str):
                    return lives
                why = touched_meanwhile(before, lives, (last, body.target), allowed)
                why = why or written_meanwhile(before, lives, others)
                if why is not None:
                    return why
            same = after.statements == _made(before, last, sum_).statements
            return None if same else f"more than {', '.join(self.scalars)} was changed"

    def __str__(self) -> str:
        return f"{', '.join(self.scalars)}: {self.last} is done to the terms of the sum instead"


def linear_sums(scop: Scop) -> Iterator[Step]:
    """Make accumulators that end up in linear expressions the elements these are stored in, where contractions come of
    it that a microkernel keeps in blocks of registers (`LinearSums`). Changes the order of sums.

    Raises QuotaExceeded.
    """
    for statement in scop.statements:
        private = private_scalars(scop)
        written = {a.array for a in statement.accesses if a.write}
        read = [a.array for a in statement.accesses if not a.write and a.array in private and a.array not in written]
        scalars = tuple(dict.fromkeys(name for name in read if len(users(scop, name)) > 2))
        copied = len(scalars) == 1 and not _reads_target(statement)
        if not scalars or (copied and not any(scop.arrays[name].is_scalar for name in written)):
            continue  # `scalars.in_place` is for the latter: it needs no other order of a sum
        sum_ = _linear(scop, statement, scalars)
        if isinstance(sum_, str):
            continue
        step = Step(LinearSums(scalars, statement.name), scop, _made(scop, statement, sum_))
        if step.broken() is not None:
            continue
        adding = [s.name for scalar in scalars for s in users(scop, scalar)[1:-1]]
        tried = applied(step.after, in_place(step.after))
        tried = applied(tried, forward(tried))
        if all(has_register_blocks(tried, tried.statement(name)) for name in adding):
            yield step
            scop = step.after


def _reads_target(statement: Statement) -> bool:
    body = statement.body
    if not isinstance(body, Assignment):
        return False
    target = statement.accesses[body.target].array
    added = body.op == "-=" or (body.op == "+=" and not isinstance(body.value, Load))
    return added or any(statement.accesses[i].array == target for i in loads(body.value))


def _additions(scop: Scop, last: Statement, op: str) -> set[tuple[str, int | None]]:
    """(statement, number) of the accesses to the array that `last` adds to, and does not read otherwise, by statements
    that do the same: the order of all these may change."""
    found: set[tuple[str, int | None]] = set()
    assert isinstance(last.body, Assignment)  # says `_linear`
    array = last.accesses[last.body.target].array
    read = [i for i in loads(last.body.value) if last.accesses[i].array == array]
    if op == "=" or len(read) > (last.body.op == "="):
        return found  # the one read of `C = C + …` is not counted
    for s in scop.statements:
        body = s.body
        if isinstance(body, Assignment) and adds(body.op) and s.accesses[body.target].array == array:
            if all(s.accesses[i].array != array for i in loads(body.value)):
                found |= {(s.name, body.target), (s.name, body.target_read)}
    return found


def _same_element(statement: Statement, one: int, two: int) -> bool:
    a, b = statement.accesses[one], statement.accesses[two]
    return a.array == b.array and bool(a.relation.is_equal(b.relation))


def _lives(scop: Scop, scalar: str, last: Statement) -> Lifetimes | str:
    """The lives of an accumulator that begins at zero, is added to and ends in `last`; else why it is none."""
    first, *adding, end = users(scop, scalar)
    body = first.body
    if end is not last or not isinstance(body, Assignment) or not is_zero(body.value):
        return f"{scalar} does not begin at zero and end in {last.name}"
    for s in adding:
        own = s.body
        if not isinstance(own, Assignment) or not adds(own.op) or s.accesses[own.target].array != scalar:
            return f"{s.name} does not add to {scalar}"
        if any(s.accesses[i].array == scalar for i in loads(own.value)):
            return f"{s.name} reads {scalar}, to which it adds"
    lives = lifetimes(scop, scalar, [s.name for s in (first, *adding, end)])
    if isinstance(lives, str):
        return lives
    same = last.depth == lives.depth and prefix(last, lives.depth).range().is_equal(prefix(first, lives.depth).range())
    return lives if same else f"{last.name} does not run once for each value of {scalar}"


@dataclass(frozen=True, slots=True)
class _Sum:
    """A linear expression of accumulators."""

    op: str
    """`=`, `+=` or `-=`: what is done with the rest. `C = C + …` is an addition."""
    factors: Mapping[str, tuple[bool, tuple[Expr, ...]]]
    """By accumulator: whether it is subtracted, and what it is multiplied by."""
    rest: Expr | None
    """The other terms."""


def _linear(scop: Scop, last: Statement, scalars: Sequence[str]) -> _Sum | str:
    """What a statement makes of accumulators, or why that is no sum that is linear in each, once, with factors that are
    the same all the time."""
    body = last.body
    if not isinstance(body, Assignment) or (body.op != "=" and not adds(body.op)):
        return f"{last.name} does not store a sum"
    array = scop.arrays[last.accesses[body.target].array]
    if array.name in scalars or any(scop.arrays[scalar].element is not array.element for scalar in scalars):
        return f"{', '.join(scalars)}: not of the type of {array.name}"
    for scalar in scalars:
        lives = _lives(scop, scalar, last)
        if isinstance(lives, str):
            return lives
    written = {a.array for s in scop.statements for a in s.accesses if a.write}

    def fixed(factor: Expr) -> bool:
        if not isinstance(factor, Load):
            return isinstance(factor, Const)
        one = scop.arrays[last.accesses[factor.access].array]
        return one.is_scalar and one.element is array.element and one.name not in written

    factors: dict[str, tuple[bool, tuple[Expr, ...]]] = {}
    rest: Expr | None = None
    op, terms = body.op, _terms(body.value, {i for i, a in enumerate(last.accesses) if a.array in scalars})
    itself = [i for i in loads(body.value) if last.accesses[i].array == array.name]
    if (
        op == "="
        and len(itself) == 1
        and (Load(itself[0]), False) in terms
        and _same_element(last, itself[0], body.target)
    ):
        op = "+="
        terms.remove((Load(itself[0]), False))
    for term, negative in terms:
        parts = _product(term)
        held = [p for p in parts if isinstance(p, Load) and last.accesses[p.access].array in scalars]
        if not held:
            if any(last.accesses[i].array in scalars for i in loads(term)):
                return f"{last.name} is not linear in {', '.join(scalars)}"
            signed = Unary("-", term) if negative and rest is None else term
            rest = signed if rest is None else Binary("-" if negative else "+", rest, term)
            continue
        scalar = last.accesses[held[0].access].array
        others = tuple(p for p in parts if p is not held[0])
        if len(held) > 1 or scalar in factors or not all(map(fixed, others)):
            return f"{last.name} is not linear in {scalar}"
        factors[scalar] = negative != (op == "-="), others
    return _Sum(op, factors, rest)


def _terms(value: Expr, held: Set[int], *, negative: bool = False) -> list[tuple[Expr, bool]]:
    """The terms of a sum, and whether they are subtracted; factors are multiplied into sums that load one of the
    accesses `held`."""
    match value:
        case Binary("+" | "-" as op, left, right):
            return [*_terms(left, held, negative=negative), *_terms(right, held, negative=negative != (op == "-"))]
        case Unary("-", operand):
            return _terms(operand, held, negative=not negative)
        case Binary("*", left, right):
            one, two = (_terms(side, held) if held & {*loads(side)} else [(side, False)] for side in (left, right))
            if len(one) == len(two) == 1 and not (one[0][1] or two[0][1]):
                return [(value, negative)]
            return [(Binary("*", a, b), negative != (first != second)) for a, first in one for b, second in two]
        case _:
            return [(value, negative)]


def _product(value: Expr) -> list[Expr]:
    match value:
        case Binary("*", left, right):
            return [*_product(left), *_product(right)]
        case _:
            return [value]


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
    assert isinstance(last.body, Assignment)
    if sum_.rest is None and sum_.op != "=":
        return []
    made = Rebuilt()
    value = Const("0") if sum_.rest is None else made.taken(sum_.rest, last.accesses)
    return [made.statement(replace(last, position=position), last.accesses[last.body.target], sum_.op, value)]


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
