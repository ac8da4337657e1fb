"""Values in place of the names that hold them: statements put together anew, from expressions of others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.equations.lift import stored_value
from polydl.model import isl
from polydl.model.expr import (
    AffineValue,
    Call,
    Convert,
    Expr,
    Gather,
    Load,
    every_part,
    loads,
    on_affine_values,
    on_operands,
    operands,
)
from polydl.model.functions import function_of
from polydl.model.scop import Access, Assignment, Scop, Statement, without_scalar
from polydl.model.time import prefix

MOST = 1000
"""Operations in an expression at most. Each use of a temporary repeats what it holds, which compilers find, and search
for."""


class Rebuilt:
    """Gathers the accesses of a statement that is being put together, in evaluation order."""

    def __init__(self, *, once: bool = False) -> None:
        self._accesses: list[Access] = []
        self._once = once
        """Whether what is read several times is one access."""

    def _number(self, access: Access) -> int:
        for number, known in enumerate(self._accesses if self._once and not access.write else ()):
            if known.array == access.array and known.relation.is_equal(access.relation):
                return number
        self._accesses.append(access)
        return len(self._accesses) - 1

    def taken(
        self,
        value: Expr,
        accesses: Sequence[Access],
        instead: Callable[[Access], Expr | None] | None = None,
        number: Callable[[AffineValue], Expr] | None = None,
    ) -> Expr:
        """An expression over `accesses`, as one of the statement; `instead` may give another for a load, `number`
        another for what is made of loop variables."""
        if isinstance(value, Load):
            access = accesses[value.access]
            other = instead(access) if instead is not None else None
            return Load(self._number(access)) if other is None else other
        if isinstance(value, AffineValue) and number is not None:
            return number(value)
        return on_operands(value, lambda one: self.taken(one, accesses, instead, number))

    @property
    def accesses(self) -> tuple[Access, ...]:
        """What has been taken so far."""
        return tuple(self._accesses)

    def statement(self, like: Statement, target: Access, op: str, value: Expr) -> Statement:
        """`target op value` in the loops and under the name of `like`; `value` is what `taken` returned."""
        self._once = False
        read = None if op == "=" else self._number(replace(target, write=False))
        body = Assignment(self._number(target), op, value, read)
        return replace(like, accesses=self.accesses, body=body)


@dataclass(frozen=True, slots=True)
class _Held:
    """What a scalar holds."""

    statement: Statement
    """Of which instances …"""
    value: Expr
    """… store this …"""
    accesses: tuple[Access, ...]
    """… of these."""


def inlined(scop: Scop, names: Collection[str]) -> Scop | str:
    """The program without the statements `names`, which store to scalars: whoever reads one of these next, in textual
    order, computes what it holds; or why there is none. Whether it computes the same is for the check to say.

    before:    v = s * scale;  v = v < 0 ? 0 : v;  C[i][j] = v;
    after:     C[i][j] = s * scale < 0 ? 0 : s * scale;
    """
    held: dict[str, _Held] = {}
    statements: list[Statement] = []
    for s in scop.statements:
        reads = [a.array for a in s.accesses if a.array in held]
        if not reads and s.name not in names:
            statements.append(s)
            continue
        body = s.body
        if not isinstance(body, Assignment):
            return f"the text of {s.name} names {', '.join(reads)}"
        target = s.target
        goes = s.name in names
        value = stored_value(scop, s) if goes else body.value
        if any(isinstance(one, Gather) for one in every_part(value)):
            return f"data choose what {s.name} reads"
        if target.array in held and body.op != "=" and not goes:
            return f"{s.name} changes {target.array}"
        made = Rebuilt(once=True)
        there = {array: _seen_from(held[array], s) for array in dict.fromkeys(reads)}
        slow = [
            a for a in there if is_slow(held[a].value) and _times_read(s, a) + (s.depth > held[a].statement.depth) > 1
        ]
        if None in there.values() or slow:
            return f"what {', '.join(slow or reads)} holds would be computed several times"

        def instead(access: Access, there: dict[str, _Held | None] = there, made: Rebuilt = made) -> Expr | None:
            seen = there.get(access.array)
            return None if seen is None else made.taken(seen.value, seen.accesses)

        value = made.taken(value, s.accesses, instead)
        if expression_size(value) > MOST:
            return f"{s.name} would compute more than {MOST} operations"
        if goes:
            held[target.array] = _Held(s, value, made.accesses)
        else:
            held.pop(target.array, None)
            statements.append(made.statement(s, target, body.op, value))
    result = replace(scop, statements=tuple(statements))
    for scalar in dict.fromkeys(a.array for s in scop.statements if s.name in names for a in s.accesses if a.write):
        if all(a.array != scalar for s in statements for a in s.accesses):
            result = without_scalar(result, scalar)
    return result


def _seen_from(held: _Held, statement: Statement) -> _Held | None:
    """The same for a statement in the loops of the one that stored it; None where it is in others."""
    own = held.statement
    if own.iterators != statement.iterators[: own.depth]:
        return None
    if own.domain.reset_tuple_id().is_equal(statement.domain.reset_tuple_id()):
        moved = [isl.domain_named(a.relation, statement.name, statement.iterators) for a in held.accesses]
    else:
        there = prefix(statement, own.depth).apply_range(prefix(own, own.depth).reverse())
        moved = [there.apply_range(a.relation) for a in held.accesses]

    def number(function: isl.PwAff) -> isl.PwAff:
        onto = prefix(statement, own.depth).apply_range(prefix(own, own.depth).reverse())
        return function.pullback_pw_multi_aff(isl.PwMultiAff.from_map(onto))

    accesses = tuple(replace(a, relation=one) for a, one in zip(held.accesses, moved, strict=True))
    return _Held(own, on_affine_values(held.value, number), accesses)


def _times_read(statement: Statement, array: str) -> int:
    body = statement.body
    assert isinstance(body, Assignment)
    numbers = [*loads(body.value), *([body.target_read] if body.target_read is not None else [])]
    return sum(statement.accesses[i].array == array for i in numbers)


def is_slow(value: Expr) -> bool:
    """Whether an expression calls a function that is more than a few instructions."""
    if isinstance(value, Call):
        row = function_of(value.function)
        if row is None or not row.cheap:
            return True
    return any(map(is_slow, operands(value)))


def expression_size(value: Expr) -> int:
    """Operations and operands, conversions apart."""
    if isinstance(value, Convert):
        return expression_size(value.operand)
    return 1 + sum(map(expression_size, operands(value)))
