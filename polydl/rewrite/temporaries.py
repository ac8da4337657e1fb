"""Temporaries of one iteration as the expressions that they hold.

    for k: { int a = A[i][k] - za; int b = B[k][j] - zb; s += a * b; }
    float v = s * scale; v = v < 0 ? 0 : v; C[i][j] = (int8_t)v;

Only done around sums that a microkernel keeps in blocks of registers: what they add is a product of array elements
then, and what follows them is one assignment, which a microkernel may end with. Elsewhere a scalar is as good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from polydl.dependences.scalars import private_depth, private_scalars, users
from polydl.model import isl
from polydl.model.combiners import adds
from polydl.model.conversions import converted, explicit
from polydl.model.expr import (
    AffineValue,
    Binary,
    Const,
    Convert,
    Expr,
    Gather,
    Load,
    Unary,
    constant_number,
    loads,
    on_operands,
    operands,
)
from polydl.model.isl import quota
from polydl.model.scop import Access, Assignment, Scop, Statement, without_scalar
from polydl.model.types import I32
from polydl.rewrite.expand import Expanded, expand
from polydl.rewrite.repeating import MOST, expression_size, is_slow
from polydl.rewrite.step import Step
from polydl.rewrite.substitute import forwarded
from polydl.rewrite.zero_points import ZeroPoints, useful, zero_points
from polydl.target.isa import has_register_blocks


@dataclass(frozen=True, slots=True)
class Substituted:
    """Assignments to scalars become part of the assignment that they end in.

    before:    v = s * scale;  v = v < 0 ? 0 : v;  C[i][j] = v;
    after:     C[i][j] = s * scale < 0 ? 0 : s * scale;
    requires:  the statements follow each other in the same iteration; all but the last write scalars that are private
               to it, and that nothing uses behind them
    """

    statements: tuple[str, ...]
    """In textual order."""

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `polydl.rewrite.step.Rewrite`."""
        with quota(f"the temporaries of {self.statements[-1]}"):
            made = _made(before, [before.statement(name) for name in self.statements])
        if isinstance(made, str):
            return made
        return None if after.statements == made.statements else f"more than {', '.join(self.statements)} was changed"

    def __str__(self) -> str:
        *others, last = self.statements
        return f"{last} computes what {', '.join(others)} held for it"


def factors_in_place(scop: Scop) -> Iterator[Step]:
    """Substitute the temporaries of sums of integers that become contractions in blocks of registers by it, perhaps
    with zero points (`Substituted`). Raises QuotaExceeded."""

    def wanted(after: Scop, last: Statement) -> bool:
        body = last.body
        assert isinstance(body, Assignment)
        if not adds(body.op) or after.arrays[last.accesses[body.target].array].element is not I32:
            return False
        if any(
            isinstance(step.rewrite, ZeroPoints) and step.rewrite.statement == last.name for step in zero_points(after)
        ):
            return True
        return useful(after, last.name)

    for name in private_scalars(scop):
        step = _forwarded(scop, name)
        reading = () if step is None else [s.name for s in users(scop, name)[1:]]
        if step is not None and any(wanted(step.after, step.after.statement(s)) for s in reading):
            yield step
            scop = step.after
    yield from _steps(scop, wanted)


def _forwarded(scop: Scop, name: str) -> Step | None:
    """The step that reads an integer where it is used, and not before the loops that use it; None where a scalar holds
    something else."""
    first, *others = users(scop, name)
    body = first.body
    value = body.value if isinstance(body, Assignment) and body.op == "=" else Const("0")
    while isinstance(value, Convert):
        value = value.operand
    plain = all(
        isinstance(s.body, Assignment) and all(a.array != name or not a.write for a in s.accesses) for s in others
    )
    deeper = any(s.depth > first.depth for s in others)
    if not (isinstance(value, Load) and plain and deeper and scop.arrays[name].element.is_int):
        return None
    step = forwarded(scop, name)
    return step if step is not None and step.broken() is None else None


def results_of_sums(scop: Scop) -> Iterator[Step]:
    """Substitute the temporaries between a private accumulator that gets an array of its own by it (`rewrite.expand`),
    and the element that is made of it (`Substituted`). Raises QuotaExceeded."""

    def wanted(after: Scop, last: Statement) -> bool:
        read = {last.accesses[i].array for i in _loads(last)}
        adding = {a.array for s in after.statements if _adds_inside(s, last) for a in s.accesses if a.write}
        if not read & adding:
            return False
        return any(isinstance(step.rewrite, Expanded) and step.rewrite.scalar in read for step in expand(after))

    yield from _steps(scop, wanted)


def results_of_blocks(scop: Scop) -> Iterator[Step]:
    """Substitute the temporaries between an array that holds sums in blocks of registers, and the element that is made
    of one of them (`Substituted`). Raises QuotaExceeded."""
    sums = {
        s.accesses[s.body.target].array
        for s in scop.statements
        if isinstance(s.body, Assignment) and has_register_blocks(scop, s)
    }

    def wanted(after: Scop, last: Statement) -> bool:
        return not _adds(last) and any(last.accesses[i].array in sums for i in _loads(last))

    yield from _steps(scop, wanted)


def _adds(statement: Statement) -> bool:
    return isinstance(statement.body, Assignment) and adds(statement.body.op)


def _adds_inside(statement: Statement, last: Statement) -> bool:
    """Whether a statement adds up in loops inside of those of another."""
    return _adds(statement) and statement.iterators[: last.depth] == last.iterators and statement.depth > last.depth


def _loads(statement: Statement) -> list[int]:
    assert isinstance(statement.body, Assignment)
    return loads(statement.body.value)


def _steps(scop: Scop, wanted: Callable[[Scop, Statement], bool]) -> Iterator[Step]:
    for name in [s.name for s in scop.statements]:
        run = _run(scop, name)
        if len(run) < 2:
            continue
        made = _made(scop, run)
        if not isinstance(made, str) and wanted(made, made.statement(name)):
            yield Step(Substituted(tuple(s.name for s in run)), scop, made)
            scop = made


def _run(scop: Scop, name: str) -> list[Statement]:
    """The longest run of statements that may be substituted into one, with it; alone where there is none, and nothing
    where it is gone."""
    place = next((i for i, s in enumerate(scop.statements) if s.name == name), None)
    if place is None or not isinstance(scop.statements[place].body, Assignment):
        return []
    last, least = scop.statements[place], place
    while least > 0 and _joins(scop, scop.statements[least - 1], last, place):
        least -= 1
    for first in range(least, place):
        run = list(scop.statements[first : place + 1])
        if _broken(scop, run) is None:
            return run
    return [last]


def _joins(scop: Scop, statement: Statement, last: Statement, place: int) -> bool:
    """Whether a statement may be in a run that ends in another, whatever else is in it."""
    if not isinstance(statement.body, Assignment) or not _same_loops(statement, last):
        return False
    target = statement.accesses[statement.body.target].array
    used = any(a.array == target for s in scop.statements[place + 1 :] for a in s.accesses)
    return not used and private_depth(scop, target) == last.depth and _same_instances(statement, last)


def _same_loops(one: Statement, other: Statement) -> bool:
    places = (
        (one.position[:-1], one.iterators, one.descending),
        (other.position[:-1], other.iterators, other.descending),
    )
    return places[0] == places[1]


def _same_instances(one: Statement, other: Statement) -> bool:
    return one.domain.reset_tuple_id().is_equal(other.domain.reset_tuple_id())


def _broken(scop: Scop, run: Sequence[Statement]) -> str | None:
    """Why the statements are no run of assignments to temporaries that ends in an assignment."""
    last = run[-1]
    names = [s.name for s in run]
    place = next(i for i, s in enumerate(scop.statements) if s is run[0])
    if [s.name for s in scop.statements[place : place + len(run)]] != names:
        return f"other statements run between {', '.join(names)}"
    written = set()
    for s in run:
        if not isinstance(s.body, Assignment) or not _same_loops(s, last):
            return f"{s.name} is no assignment in the loops of {last.name}"
        if not _same_instances(s, last):
            return f"{s.name} has other instances than {last.name}"
        target = s.accesses[s.body.target].array
        if s is not last:
            written.add(target)
        elif target in written:
            return f"{target} is what {last.name} ends in"
    for scalar in written:
        if private_depth(scop, scalar) != last.depth:
            return f"{scalar} is not private to an iteration of {last.name}"
        later = scop.statements[place + len(run) :]
        if any(a.array == scalar for s in later for a in s.accesses):
            return f"{scalar} is used behind {last.name}"
        if not any(a.array == scalar and not a.write for s in run for a in s.accesses):
            return f"{scalar} is no temporary of {last.name}"
    return None


class _Values:
    """What scalars hold while a run is gone through, over the accesses of its last statement."""

    def __init__(self, scop: Scop, last: Statement) -> None:
        self.scop = scop
        self.last = last
        self.accesses: list[Access] = []
        self.held: dict[str, Expr] = {}

    def _read(self, access: Access) -> Load:
        relation = isl.domain_named(access.relation, self.last.name, self.last.iterators)
        for number, known in enumerate(self.accesses):
            if known.array == access.array and known.relation.is_equal(relation):
                return Load(number)
        self.accesses.append(replace(access, relation=relation))
        return Load(len(self.accesses) - 1)

    def of(self, statement: Statement) -> Expr:
        """What a statement stores, its operator included, in the type of what it stores it in."""
        body = statement.body
        assert isinstance(body, Assignment)
        value = body.value
        if body.op != "=":
            assert body.target_read is not None, "a compound assignment reads what it changes"
            value = Binary(body.op[:-1], Load(body.target_read), value)
        return self.taken(statement, value)

    def taken(self, statement: Statement, value: Expr) -> Expr:
        """An expression of a statement, with what scalars hold in place of them."""
        body = statement.body
        assert isinstance(body, Assignment)

        def changed(one: Expr) -> Expr:
            match one:
                case Load(access):
                    read = statement.accesses[access]
                    return self.held[read.array] if read.array in self.held else self._read(read)
                case AffineValue():
                    number = constant_number(one)
                    if number is None:
                        return AffineValue(isl.function_named(one.value, self.last.name))
                    return Unary("-", Const(str(-number))) if number < 0 else Const(str(number))
                case _:
                    return on_operands(one, changed)

        whole, made = explicit(value, lambda i: self.scop.arrays[statement.accesses[i].array].element)
        if value is body.value and body.op != "=":
            return changed(whole)  # what is added may have more digits than the sum
        return changed(converted(whole, made, self.scop.arrays[statement.accesses[body.target].array].element))


def _made(scop: Scop, run: Sequence[Statement]) -> Scop | str:
    """The program after `Substituted`, or why there is none."""
    why = _broken(scop, run)
    if why is not None:
        return why
    *others, last = run
    body = last.body
    assert isinstance(body, Assignment)
    if any(_gathers(s.body.value) for s in run if isinstance(s.body, Assignment)):
        return f"data choose what is read for {last.name}"
    values = _Values(scop, last)
    for number, s in enumerate(others):
        assert isinstance(s.body, Assignment)
        scalar = s.accesses[s.body.target].array
        values.held[scalar] = values.of(s)
        if _uses(run[number + 1 :], scalar) > 1 and is_slow(values.held[scalar]):
            return f"what {scalar} holds would be computed several times"
    op = body.op
    value = values.taken(last, body.value)
    if expression_size(value) > MOST:
        return f"{last.name} would compute more than {MOST} operations"
    target = last.accesses[body.target]
    accesses = [*values.accesses]
    read = None
    if body.target_read is not None:
        read = len(accesses)
        accesses.append(last.accesses[body.target_read])
    accesses.append(target)
    made = replace(last, accesses=tuple(accesses), body=Assignment(len(accesses) - 1, op, value, read))
    gone = {s.name for s in others}
    statements = tuple(made if s is last else s for s in scop.statements if s.name not in gone)
    result = replace(scop, statements=statements)
    for scalar in values.held:
        if all(a.array != scalar for s in statements for a in s.accesses):
            result = without_scalar(result, scalar)
    return result


def _gathers(value: Expr) -> bool:
    return isinstance(value, Gather) or any(map(_gathers, operands(value)))


def _uses(statements: Sequence[Statement], scalar: str) -> int:
    """How often statements load a scalar, up to the next that gives it another value."""
    count = 0
    for s in statements:
        assert isinstance(s.body, Assignment)
        count += sum(s.accesses[i].array == scalar for i in loads(s.body.value))
        count += s.body.target_read is not None and s.accesses[s.body.target_read].array == scalar
        if s.accesses[s.body.target].array == scalar:
            break
    return count
