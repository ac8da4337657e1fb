"""Values substituted forward: a product whose factors went through scalars is one of array elements again.

    for i: for k: { t = alpha * A[i][k]; for j: C[i][j] += t * B[k][j]; }

`t` is private to each (i, k) and nothing changes what it was made of, so each use may compute it anew. Only done where
a contraction comes of it: elsewhere the scalar saves work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from polydl.dependences.scalars import private_scalars, users
from polydl.model.conversions import converted, explicit
from polydl.model.expr import Binary, Const, Convert, Expr, Load, loads, operands
from polydl.model.isl import quota
from polydl.model.scop import Assignment, Scop, Statement, without_scalar
from polydl.rewrite.lifetimes import Lifetimes, lifetimes, prefix, written_meanwhile
from polydl.rewrite.rebuilt import Rebuilt
from polydl.rewrite.step import Step
from polydl.rewrite.terms import products
from polydl.target.isa import has_register_blocks, kernel_contraction


@dataclass(frozen=True, slots=True)
class Forward:
    """Every use of a scalar becomes the expression that it was given.

    before:    t = e;  … for j: C[j] += t * B[j]
    after:     … for j: C[j] += e * B[j]
    requires:  each use reads the value that the first statement wrote in the same iteration of its loops; nothing in
               between writes what e reads
    """

    scalar: str
    statements: tuple[str, ...]
    """The one that writes it, and those that read it, in textual order."""

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `polydl.rewrite.step.Rewrite`."""
        with quota(f"the lifetimes of {self.scalar}"):
            if tuple(s.name for s in users(before, self.scalar)) != self.statements:
                return f"other statements use {self.scalar}"
            lives = lifetimes(before, self.scalar, self.statements)
            if isinstance(lives, str):
                return lives
            first, *reading = lives.members
            assert isinstance(first.body, Assignment)  # says `lifetimes`
            if any(a.write and a.array == self.scalar for s in reading for a in s.accesses):
                return f"{self.scalar} is written more than once"
            why = written_meanwhile(before, lives, [(first, i) for i in loads(first.body.value)])
            if why is not None:
                return why
            expected = tuple(_substituted(before, s, lives) for s in before.statements if s is not first)
            return None if after.statements == expected else f"more than {self.scalar} was changed"

    def __str__(self) -> str:
        return f"{self.scalar} is computed where it is used ({', '.join(self.statements[1:])})"


def forward(scop: Scop) -> Iterator[Step]:
    """Substitute the scalars between array elements and the products that they are factors of, where these become
    contractions that a microkernel keeps in blocks of registers (`Forward`). Raises QuotaExceeded."""
    steps = {name: forwarded(scop, name) for name in _candidates(scop)}
    names = [name for name, step in steps.items() if step is not None and step.broken() is None]
    while names:
        made: list[Step] = []
        for name in names:
            last = made[-1].after if made else scop
            step = forwarded(last, name)
            assert step is not None  # as before, of the program as it was read
            made.append(step)
        useful = _useful(scop, names, made[-1].after)
        if useful == names:
            yield from made
            return
        names = useful


def _candidates(scop: Scop) -> list[str]:
    """Scalars that hold a product of elements and literals, those that others are made of first."""
    found = []
    for name in private_scalars(scop):
        first, *reading = users(scop, name)
        body = first.body
        product = isinstance(body, Assignment) and body.op == "=" and _is_product(body.value) and loads(body.value)
        plain = all(isinstance(s.body, Assignment) and not _writes(s, name) for s in reading)
        if product and plain and reading and scop.arrays[name].element.is_float:
            found.append(name)
    return found


def _writes(statement: Statement, name: str) -> bool:
    return any(a.write and a.array == name for a in statement.accesses)


def _is_product(value: Expr) -> bool:
    match value:
        case Load() | Const():
            return True
        case Binary(op, _, _):
            return op == "*" and all(map(_is_product, operands(value)))
        case Convert(_, _, operand):
            return value.exact and _is_product(operand)
        case _:
            return False


def _useful(scop: Scop, names: list[str], made: Scop) -> list[str]:
    """Those of the scalars whose every use ends in a statement that is a contraction now and was none."""
    useful = list(names)
    while True:
        holding = {users(scop, name)[0].name for name in useful}
        good = {
            s.name
            for s in made.statements
            if _in_blocks(made, s) and kernel_contraction(scop, scop.statement(s.name)) is None
        }
        kept = [name for name in useful if all(s.name in good | holding for s in users(scop, name)[1:])]
        if kept == useful:
            return useful
        useful = kept


def _in_blocks(scop: Scop, statement: Statement) -> bool:
    """Whether a microkernel keeps blocks of what a statement adds in registers: a product, or products one by one."""
    terms = products(scop, statement)
    return all(has_register_blocks(scop, one) for one in terms) if terms else has_register_blocks(scop, statement)


def forwarded(scop: Scop, name: str) -> Step | None:
    """The step that computes a private scalar where it is used; None where its values do not live for its own uses
    alone. Its check is still to be made."""
    using = users(scop, name)
    lives = lifetimes(scop, name, [s.name for s in using])
    if isinstance(lives, str):
        return None
    first = using[0]
    statements = tuple(_substituted(scop, s, lives) for s in scop.statements if s is not first)
    made = without_scalar(replace(scop, statements=statements), name)
    return Step(Forward(name, tuple(s.name for s in using)), scop, made)


def _substituted(scop: Scop, statement: Statement, lives: Lifetimes) -> Statement:
    """A statement with a scalar's expression in place of its loads."""
    first, body = lives.members[0], statement.body
    assert isinstance(first.body, Assignment)
    scalar = first.accesses[first.body.target].array
    if statement.name not in (s.name for s in lives.members[1:]):
        return statement
    assert isinstance(body, Assignment)
    given, element = explicit(first.body.value, lambda i: scop.arrays[first.accesses[i].array].element)
    given = converted(given, element, scop.arrays[scalar].element)
    there = prefix(statement, lives.depth).apply_range(prefix(first, lives.depth).reverse())
    lifted = [replace(a, relation=there.apply_range(a.relation)) for a in first.accesses]
    made = Rebuilt()
    value = made.taken(
        body.value, statement.accesses, lambda access: made.taken(given, lifted) if access.array == scalar else None
    )
    return made.statement(statement, statement.accesses[body.target], body.op, value)
