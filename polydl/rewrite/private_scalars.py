"""Private scalars rewritten: those with several values taken apart, accumulators made the array elements they end in.

    for i: for j: { s = 0; for k: s += A[i][k] * B[k][j]; C[i][j] = s; }

`s` is private to each (i, j), and since `C[i][j] = s` only copies it, the sum may be made in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from polydl.dependences.scalars import private_depth, private_scalars, users
from polydl.model import isl
from polydl.model.combiners import adds
from polydl.model.expr import Load, is_zero, loads
from polydl.model.scop import Access, Assignment, BlackBox, MicrokernelCall, Scop, Statement, Storage, without_scalar
from polydl.model.time import common_depth, map_from_affs
from polydl.rewrite.lifetimes import in_place_broken, lifetime_broken
from polydl.rewrite.step import Step


@dataclass(frozen=True, slots=True)
class Lives:
    """A scalar that holds several values one after the other becomes one scalar for each.

    before:    for i: { w = …; … w …; }   for i: { w = …; … w …; }
    after:     for i: { w = …; … w …; }   for i: { v = …; … v …; }
    requires:  each of the scalars is private by itself, and no value of one is read as another: within an iteration
               of the loops that one is private to, none of the others runs in between
    """

    scalar: str
    lives: tuple[tuple[str, tuple[str, ...]], ...]
    """(scalar afterwards, names of the statements that use it), in textual order."""

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `polydl.rewrite.step.Rewrite`."""
        named = [name for _, names in self.lives for name in names]
        if sorted(named) != sorted(s.name for s in users(before, self.scalar)):
            return f"other statements use {self.scalar}"
        own = {name: scalar for scalar, names in self.lives for name in names}
        calls = [s.name for s in users(before, self.scalar) if isinstance(s.body, MicrokernelCall)]
        if any(own[name] != self.scalar for name in calls):
            return f"{', '.join(calls)}: a call that names {self.scalar}"
        expected = tuple(_on_scalar(s, self.scalar, own.get(s.name, self.scalar)) for s in before.statements)
        if after.statements != expected:
            return f"more than the name of {self.scalar} was changed"
        return next((why for _, names in self.lives if (why := lifetime_broken(before, self.scalar, names))), None)

    def __str__(self) -> str:
        names = "; ".join(f"{', '.join(names)}: {scalar}" for scalar, names in self.lives)
        return (
            f"{self.scalar} holds {len(self.lives)} values one after the other, each in a scalar of its own ({names})"
        )


@dataclass(frozen=True, slots=True)
class InPlace:
    """A private accumulator becomes the array element that it ends up in.

    before:    s = e;  for k: s += …;  C[f(i)] = g(s)
    after:     C[f(i)] = e;  for k: C[f(i)] += …;  C[f(i)] = g(C[f(i)])
    requires:  s private to the last statement's iteration and of C's type; C[f(i)] not accessed between the two

    Where g(s) is s the last statement goes away, where e is C[f(i)] the first. With `C[f(i)] += s` and e zero the first
    statement goes away too; that changes the order of a sum, so it needs leave to reassociate.
    """

    scalar: str
    array: str
    statements: tuple[str, ...]
    """Those that use the scalar, in textual order."""
    left_out: tuple[str, ...]
    """Those of them that only copy."""

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `polydl.rewrite.step.Rewrite`."""
        return in_place_broken(before, after, self.scalar, self.array, self.statements, self.left_out)

    def __str__(self) -> str:
        copies = f"; {', '.join(self.left_out)} only copied it" if self.left_out else ""
        return f"{self.scalar} is the element of {self.array} that it ends in{copies}"


def in_place(scop: Scop, *, reassociate: bool = True) -> Iterator[Step]:
    """Make every private accumulator that ends up in an array element that element (`InPlace`)."""
    for name in private_scalars(scop):
        step = _in_place(scop, name, reassociate)
        if step is not None:
            yield step
            scop = step.after


def lives_apart(scop: Scop) -> Iterator[Step]:
    """Give a scalar of its own to each value of a scalar that is used for several, one after the other (`Lives`)."""
    for name in list(scop.arrays):
        if not scop.arrays[name].is_scalar or private_depth(scop, name) is not None:
            continue
        lives = _joined(scop, name, _lives(scop, name))
        if len(lives) < 2:
            continue
        parts = [replace(scop, statements=tuple(life)) for life in lives]
        if any(private_depth(part, name) is None for part in parts):
            continue
        arrays, statements = dict(scop.arrays), {s.name: s for s in scop.statements}
        named = [(name, tuple(s.name for s in lives[0]))]
        for number, life in enumerate(lives[1:], 2):
            own = f"{RENAMED}{name}_{number}"
            arrays[own] = replace(
                scop.arrays[name],
                name=own,
                storage=Storage.REGION,
                declaration=f"{scop.arrays[name].element.c} {own}",
                const=False,
            )
            statements |= {s.name: _on_scalar(s, name, own) for s in life}
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
        begins = isinstance(body, Assignment) and body.op == "=" and statement.accesses[body.target].array == name
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
    depths = [private_depth(replace(scop, statements=tuple(life)), name) for life in (first, second)]
    if None in depths:
        return True
    shared = max(common_depth(a, b) for a in first for b in second)
    return any(depth is not None and shared > depth for depth in depths)


def _on_scalar(statement: Statement, name: str, own: str) -> Statement:
    """The statement with a scalar under another name."""
    if name == own:
        return statement
    accesses = tuple(
        replace(a, array=own, relation=isl.range_named(a.relation, own)) if a.array == name else a
        for a in statement.accesses
    )
    body = statement.body
    if isinstance(body, BlackBox):
        # No name in a region hides another, and none is a member's: the word means the scalar wherever it stands.
        body = replace(body, text=re.sub(rf"\b{re.escape(name)}\b", own, body.text))
    return replace(statement, accesses=accesses, body=body)


def _in_place(scop: Scop, name: str, reassociate: bool) -> Step | None:
    using = users(scop, name)
    first, last = using[0], using[-1]
    target = _result(last, name)
    if len(using) < 3 or target is None or last.depth != first.depth or common_depth(first, last) != last.depth:
        return None
    if not last.domain.reset_tuple_id().is_equal(first.domain.reset_tuple_id()):
        return None
    if any(not (_accumulates(s, name) or _updates(s, name, first.depth)) for s in using[1:-1]) or not _same_type(
        scop, name, target.array
    ):
        return None
    assert isinstance(last.body, Assignment)
    copies = isinstance(last.body.value, Load)
    taken = _reads_only(first, target)
    between = [s for s in scop.statements if first.position <= s.position <= last.position]
    own = {last.body.target, last.body.target_read}
    if any(
        _touches(s, a, target, last.depth)
        for s in between
        for i, a in enumerate(s.accesses)
        if not (s is last and i in own) and not (s is first and taken)
    ):
        return None
    adding = last.body.op == "+="
    sums = all(isinstance(s.body, Assignment) and adds(s.body.op) for s in using[1:-1])
    if adding and not (
        reassociate and sums and isinstance(first.body, Assignment) and is_zero(first.body.value) and copies
    ):
        return None
    dropped = ({last.name} if copies else set()) | ({first.name} if adding or taken else set())
    statements = tuple(
        _redirected(s, name, target, last.depth) if s in using else s for s in scop.statements if s.name not in dropped
    )
    made = without_scalar(replace(scop, statements=statements), name)
    what = InPlace(name, target.array, tuple(s.name for s in using), tuple(s.name for s in using if s.name in dropped))
    return Step(what, scop, made)


def _result(statement: Statement, name: str) -> Access | None:
    """The write of `C[…] = g(s)` or `C[…] += s`; None for any other statement."""
    body = statement.body
    if not isinstance(body, Assignment) or body.op not in ("=", "+="):
        return None
    target = statement.accesses[body.target]
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


def _touches(statement: Statement, access: Access, target: Access, depth: int) -> bool:
    """Whether an access may be one to the element that the surrounding iteration (of `depth` loops) ends in."""
    if access.array != target.array:
        return False
    relation = isl.domain_onto(access.relation.intersect_domain(statement.domain), range(depth))
    return not isl.domain_named(relation, None).intersect(isl.domain_named(target.relation, None)).is_empty()


def _accumulates(statement: Statement, name: str) -> bool:
    """Whether a statement only accumulates into the scalar, and does not read it otherwise."""
    body = statement.body
    if not isinstance(body, Assignment) or body.op == "=" or statement.accesses[body.target].array != name:
        return False
    return all(statement.accesses[i].array != name for i in loads(body.value))


def _updates(statement: Statement, name: str, depth: int) -> bool:
    """Whether a statement gives the scalar another value, once for each time that it begins: s = s * 0.5 + R[i][j]."""
    body = statement.body
    return (
        isinstance(body, Assignment)
        and body.op == "="
        and statement.depth == depth
        and statement.accesses[body.target].array == name
        and any(statement.accesses[i].array == name for i in loads(body.value))
    )


def _same_type(scop: Scop, scalar: str, array: str) -> bool:
    return scop.arrays[scalar].element is scop.arrays[array].element


def _redirected(statement: Statement, scalar: str, target: Access, depth: int) -> Statement:
    """The statement with the scalar's accesses turned into the array element of the surrounding iteration."""
    to_prefix = map_from_affs(statement.domain, isl.coordinates(statement.domain)[:depth])
    relation = to_prefix.apply_range(isl.domain_named(target.relation, None))
    accesses = tuple(
        Access(target.array, a.write, relation, a.span) if a.array == scalar else a for a in statement.accesses
    )
    return replace(statement, accesses=accesses)
