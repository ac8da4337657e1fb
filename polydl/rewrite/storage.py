"""Where values are stored: other places for those of private scalars, and an array element for those that end in one.

    for i: for j: { s = 0; for k: s += A[i][k] * B[k][j]; C[i][j] = s; }

`s` is private to each (i, j), and since `C[i][j] = s` only copies it, the sum may be made in place. All of these leave
what is computed as it is: the check compares values, which have no place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from polydl.dependences.scalars import private_depth, private_scalars, users
from polydl.equations.step import RegroupingRule, Rule, Step, applied
from polydl.model import isl
from polydl.model.accumulation import accumulation
from polydl.model.combiners import adds
from polydl.model.expr import Load, is_zero, loads
from polydl.model.scop import Access, Assignment, BlackBox, MicrokernelCall, Scop, Statement, Storage, without_scalar
from polydl.model.time import common_depth, prefix
from polydl.rewrite.scratch_array import box_of, element_of, has_room, scratch_array
from polydl.rewrite.temporaries import forward
from polydl.target.isa import has_register_blocks


@dataclass(frozen=True, slots=True)
class Lives(Rule):
    """A scalar that holds several values one after the other becomes one scalar for each.

    before:    for i: { w = …; … w …; }   for i: { w = …; … w …; }
    after:     for i: { w = …; … w …; }   for i: { v = …; … v …; }
    requires:  no value of one is read as another
    """

    scalar: str
    lives: tuple[tuple[str, tuple[str, ...]], ...]
    """(scalar afterwards, names of the statements that use it), in textual order."""

    def __str__(self) -> str:
        names = "; ".join(f"{', '.join(names)}: {scalar}" for scalar, names in self.lives)
        return (
            f"{self.scalar} holds {len(self.lives)} values one after the other, each in a scalar of its own ({names})"
        )


@dataclass(frozen=True, slots=True)
class InPlace(Rule):
    """A private accumulator becomes the array element that it ends up in.

    before:    s = e;  for k: s += …;  C[f(i)] = g(s)
    after:     C[f(i)] = e;  for k: C[f(i)] += …;  C[f(i)] = g(C[f(i)])
    requires:  s private to the last statement's iteration and of C's type; C[f(i)] not accessed between the two

    Where g(s) is s the last statement goes away, where e is C[f(i)] the first.
    """

    scalar: str
    array: str
    statements: tuple[str, ...]
    """Those that use the scalar, in textual order."""
    left_out: tuple[str, ...]
    """Those of them that only copy."""

    def __str__(self) -> str:
        copies = f"; {', '.join(self.left_out)} only copied it" if self.left_out else ""
        return f"{self.scalar} is the element of {self.array} that it ends in{copies}"


@dataclass(frozen=True, slots=True)
class AddedInPlace(RegroupingRule, InPlace):
    """A private sum is added to the array element that it ends up in, term by term.

    before:    s = 0;  for k: s += …;  C[f(i)] += s
    after:     for k: C[f(i)] += …
    requires:  as `InPlace`, and leave to reassociate
    """


@dataclass(frozen=True, slots=True)
class Expanded(Rule):
    """A private scalar, or array, becomes an array with elements for each iteration of the loops around it.

    before:    for i: { s = …; … s …; }
    after:     for i: { S[i] = …; … S[i] …; }
    requires:  it is private to the loops around all its statements: each value of it is read by these alone
    """

    name: str
    array: str
    """Its name afterwards."""
    statements: tuple[str, ...]
    """Those that use it, in textual order."""

    def __str__(self) -> str:
        return f"{self.name} has elements for each iteration of the loops around it ({self.array})"


def stored_in(statement: Statement, name: str, array: str, place: isl.Map) -> Statement:
    """A statement with elements of `array`, { S[i…] -> array[a…] }, in place of what it touches of another one."""
    if all(a.array != name for a in statement.accesses):
        return statement
    accesses = tuple(replace(a, array=array, relation=place) if a.array == name else a for a in statement.accesses)
    body = statement.body
    if isinstance(body, BlackBox):
        # No name in a region hides another, and none is a member's: the word means the scalar wherever it stands.
        body = replace(body, text=re.sub(rf"\b{re.escape(name)}\b", array, body.text))
    return replace(statement, accesses=accesses, body=body)


def expanded(scop: Scop, name: str, array: str, depth: int) -> Scop | None:
    """The program with an array in place of a scalar, or of another array, that is private to so many loops and that
    assignments alone use: it has elements for each of their iterations. None where their number is not known, or
    large."""
    using = users(scop, name)
    points = reduce(isl.Set.union, [_each(s, a, depth).range() for s in using for a in s.accesses if a.array == name])
    box = box_of(points)
    if box is None or not has_room(scop, [box]):
        return None
    element = element_of(points, array, box)
    moved = {s.name: replace(s, accesses=_moved(s, name, array, depth, element)) for s in using}
    statements = tuple(moved.get(s.name, s) for s in scop.statements)
    arrays = {**scop.arrays, array: scratch_array(array, scop.arrays[name].element, box)}
    made = replace(scop, arrays=arrays, statements=statements)
    old = scop.arrays[name]
    # The original loops still use what is declared in front of them.
    return made if old.storage is Storage.LOCAL and not old.is_scalar else without_scalar(made, name)


def _each(statement: Statement, access: Access, depth: int) -> isl.Map:
    """{ S[i…] -> [p…, a…] } the iteration of the outer loops, and the element that is accessed."""
    relation = isl.range_named(access.relation, None).intersect_domain(statement.domain)
    return prefix(statement, depth).flat_range_product(relation)


def _moved(statement: Statement, name: str, array: str, depth: int, element: isl.Map) -> tuple[Access, ...]:
    """The accesses of a statement, those of one array in another one. `element`: { [p…, a…] -> array[…] }."""
    return tuple(
        replace(a, array=array, relation=_each(statement, a, depth).apply_range(element)) if a.array == name else a
        for a in statement.accesses
    )


def in_place(scop: Scop, *, reassociate: bool = True) -> Iterator[Step]:
    """Make every private accumulator that ends up in an array element that element (`InPlace`). Raises
    QuotaExceeded."""
    for name in private_scalars(scop):
        step = _in_place(scop, name, reassociate)
        if step is not None and step.broken() is None:
            yield step
            scop = step.after


def _in_place(scop: Scop, name: str, reassociate: bool) -> Step | None:
    using = users(scop, name)
    first, last = using[0], using[-1]
    target = _result(last, name)
    if target is None or scop.arrays[target.array].storage is Storage.SCRATCH:
        return None  # a rewrite has put it there, and in a scalar it keeps its loops together (`around_products`)
    if len(using) < 3 or last.depth != first.depth or common_depth(first, last) != last.depth:
        return None
    stepping = [s for s in using[1:-1] if _steps(scop, s, name)]
    if not all(_accumulates(s, name) or s in stepping or _updates(s, name, first.depth) for s in using[1:-1]):
        return None
    assert isinstance(last.body, Assignment) and isinstance(first.body, Assignment)
    copies, adding = isinstance(last.body.value, Load), last.body.op == "+="
    sums = all(isinstance(s.body, Assignment) and adds(s.body.op) for s in using[1:-1])
    if adding and not (reassociate and sums and copies and is_zero(first.body.value)):
        return None
    dropped = ({last.name} if copies else set()) | ({first.name} if adding or _reads_only(first, target) else set())
    element = isl.domain_named(target.relation, None)
    moved = {s.name: stored_in(s, name, target.array, prefix(s, last.depth).apply_range(element)) for s in using}
    statements = tuple(moved.get(s.name, s) for s in scop.statements if s.name not in dropped)
    made = without_scalar(replace(scop, statements=statements), name)
    tried = applied(made, forward(made)) if stepping else made
    if not all(has_register_blocks(tried, tried.statement(s.name)) for s in stepping):
        return None
    what = (AddedInPlace if adding else InPlace)(
        name, target.array, tuple(s.name for s in using), tuple(s.name for s in using if s.name in dropped)
    )
    return Step(what, scop, made)


def _result(statement: Statement, name: str) -> Access | None:
    """The write of `C[…] = g(s)` or `C[…] += s`; None for any other statement."""
    body = statement.body
    if not isinstance(body, Assignment) or body.op not in ("=", "+="):
        return None
    target = statement.target
    reads = [i for i in loads(body.value) if statement.accesses[i].array == name]
    return target if reads and target.array != name and not statement.domain.is_empty() else None


def _reads_only(first: Statement, target: Access) -> bool:
    """Whether a statement takes the value of the element, and nothing else: s = C[f(i)]."""
    body = first.body
    if not isinstance(body, Assignment) or not isinstance(body.value, Load):
        return False
    read = first.accesses[body.value.access]
    if read.array != target.array:
        return False
    return bool(isl.domain_named(read.relation, None).is_equal(isl.domain_named(target.relation, None)))


def _accumulates(statement: Statement, name: str) -> bool:
    """Whether a statement only accumulates into the scalar, and does not read it otherwise."""
    body = statement.body
    if not isinstance(body, Assignment) or body.op == "=" or statement.target.array != name:
        return False
    return all(statement.accesses[i].array != name for i in loads(body.value))


def _steps(scop: Scop, statement: Statement, name: str) -> bool:
    """Whether a statement accumulates into the scalar in another way: m = e > m ? e : m."""
    body = statement.body
    if not isinstance(body, Assignment) or body.op != "=" or statement.target.array != name:
        return False
    return accumulation(scop, statement) is not None


def _updates(statement: Statement, name: str, depth: int) -> bool:
    """Whether a statement gives the scalar another value, once for each time that it begins: s = s * 0.5 + R[i][j]."""
    body = statement.body
    return (
        isinstance(body, Assignment)
        and body.op == "="
        and statement.depth == depth
        and statement.target.array == name
        and any(statement.accesses[i].array == name for i in loads(body.value))
    )


def lives_apart(scop: Scop) -> Iterator[Step]:
    """Give a scalar of its own to each value of a scalar that is used for several, one after the other (`Lives`)."""
    for name in list(scop.arrays):
        if not scop.arrays[name].is_scalar or private_depth(scop, name) is not None:
            continue
        lives = _joined(scop, name, _lives(scop, name))
        if len(lives) < 2 or any(_depth_of(scop, life, name) is None for life in lives):
            continue
        arrays, statements = dict(scop.arrays), {s.name: s for s in scop.statements}
        named = [(name, tuple(s.name for s in lives[0]))]
        for number, life in enumerate(lives[1:], 2):
            own = f"{RENAMED}{name}_{number}"
            declaration = f"{scop.arrays[name].element.c} {own}"
            arrays[own] = replace(
                scop.arrays[name], name=own, storage=Storage.REGION, declaration=declaration, const=False
            )
            statements |= {s.name: stored_in(s, name, own, isl.range_named(prefix(s, 0), own)) for s in life}
            named.append((own, tuple(s.name for s in life)))
        step = Step(
            Lives(name, tuple(named)), scop, replace(scop, arrays=arrays, statements=tuple(statements.values()))
        )
        yield step
        scop = step.after


RENAMED = "polydl_life_"
"""Begins the names of scalars that `lives_apart` makes."""


def _lives(scop: Scop, name: str) -> list[list[Statement]]:
    """The users of a scalar in groups of which each begins with a plain write of it; none where a call names it."""
    lives: list[list[Statement]] = []
    if any(isinstance(s.body, MicrokernelCall) for s in users(scop, name)):
        return []
    for statement in users(scop, name):
        body = statement.body
        begins = isinstance(body, Assignment) and body.op == "=" and statement.target.array == name
        if begins and not any(a.array == name and not a.write for a in statement.accesses):
            lives.append([])
        if not lives:
            return []
        lives[-1].append(statement)
    return lives


def _joined(scop: Scop, name: str, lives: list[list[Statement]]) -> list[list[Statement]]:
    """The groups, neighbours joined where they share more loops than one of them is private to: there the value of a
    later group comes round to an earlier one.

    for j: { use(w); w = …; }   after w = 0, say: the second write is of the same scalar as the first
    """
    joined: list[list[Statement]] = []
    for life in lives:
        joined.append(life)
        while len(joined) > 1 and any(_comes_round(scop, name, earlier, joined[-1]) for earlier in joined[:-1]):
            last = joined.pop()
            joined[-1] = [*joined[-1], *last]
    return joined


def _comes_round(scop: Scop, name: str, first: Sequence[Statement], second: Sequence[Statement]) -> bool:
    shared = max(common_depth(a, b) for a in first for b in second)
    return any((depth := _depth_of(scop, life, name)) is None or shared > depth for life in (first, second))


def _depth_of(scop: Scop, life: Sequence[Statement], name: str) -> int | None:
    """Loops to which a scalar would be private if there were no other users."""
    return private_depth(replace(scop, statements=tuple(life)), name)
