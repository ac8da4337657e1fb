"""When the values of a scalar live: whether each is read by its own statements alone, and whether an array element is
free to hold it.

A value belongs to one iteration of the loops that all its statements share. It lives from the time of the first of
them, which writes it, to that of the last. The checks look at the times of instances, not at how loops are nested.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from polydl.dependences.scalars import users
from polydl.model import isl
from polydl.model.combiners import adds
from polydl.model.expr import Load, is_zero, loads
from polydl.model.isl import quota
from polydl.model.scop import Assignment, Scop, Statement, Storage
from polydl.model.time import common_depth, map_from_affs, original_schedule


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The lives of the values of a scalar, by the iteration p of the shared loops."""

    members: tuple[Statement, ...]
    """In textual order; the first writes the value."""
    depth: int
    """Number of loops that they share."""
    inside: dict[str, isl.Map]
    """Per statement of the scop { [p…] -> S[i…] }: the instances that run while the value of p lives."""

    def own(self, name: str) -> isl.Map | None:
        """{ [p…] -> S[i…] } the instances of a member that belong to the value; None for another statement."""
        return next((prefix(s, self.depth).reverse() for s in self.members if s.name == name), None)


def prefix(statement: Statement, depth: int) -> isl.Map:
    """{ S[i…] -> [p…] } the iteration of the outer loops."""
    return map_from_affs(statement.domain, isl.coordinates(statement.domain)[:depth])


def lifetime_broken(scop: Scop, scalar: str, names: Sequence[str]) -> str | None:
    """Why the statements `names` do not keep the values of a scalar to themselves; None: whatever they read of it, one
    of them wrote in the same iteration of their shared loops, and nothing else touches it meanwhile or afterwards.

    Raises QuotaExceeded.
    """
    with quota(f"the lifetimes of {scalar}"):
        found = lifetimes(scop, scalar, names)
        return found if isinstance(found, str) else None


def lifetimes(scop: Scop, scalar: str, names: Sequence[str]) -> Lifetimes | str:
    """The lives of the values of a scalar that the first of the statements `names` writes, or why they are not its own
    (`lifetime_broken`)."""
    array = scop.arrays[scalar]
    if not array.is_scalar or (scalar in scop.live_out and array.storage is not Storage.REGION):
        return f"{scalar} is read after the program"
    members = [s for s in scop.statements if s.name in names]
    first = members[0]
    depth = min((common_depth(first, s) for s in members), default=0) if len(members) > 1 else first.depth
    body = first.body
    if not isinstance(body, Assignment) or body.op != "=" or first.accesses[body.target].array != scalar:
        return f"{first.name} does not write {scalar}"
    if first.depth != depth or any(a.array == scalar and not a.write for a in first.accesses):
        return f"{first.name} does not begin each value of {scalar}"
    times = original_schedule(scop)
    opens = prefix(first, depth).reverse().apply_range(times[first.name])
    closes = opens
    for s in members[1:]:
        closes = closes.union(prefix(s, depth).reverse().apply_range(times[s.name]))
    closes = closes.lexmax()
    inside = {name: opens.lex_le_map(time).intersect(time.lex_le_map(closes).reverse()) for name, time in times.items()}
    found = Lifetimes(tuple(members), depth, inside)
    for s in members:
        own = found.own(s.name)
        assert own is not None
        if not own.is_subset(inside[s.name]):
            return f"{s.name} reads {scalar} before {first.name} has written it"
    for s in users(scop, scalar):
        own = found.own(s.name)
        foreign = inside[s.name] if own is None else inside[s.name].subtract(own)
        if not foreign.is_empty():
            return f"{s.name} uses {scalar} while a value of {first.name} lives"
    return found


def written_meanwhile(before: Scop, lives: Lifetimes, reads: Iterable[tuple[Statement, int]]) -> str | None:
    """Which statement writes an element while a value lives that one of the accesses `reads`, of members that run once
    for each value, reads for it; None: none does."""
    for member, number in reads:
        read = member.accesses[number]
        elements = prefix(member, lives.depth).reverse().apply_range(read.relation)
        for s in before.statements:
            for access in s.accesses:
                if access.write and access.array == read.array:
                    touching = elements.apply_range(access.relation.reverse()).intersect(lives.inside[s.name])
                    if not touching.is_empty():
                        return f"{s.name} writes what {member.name} reads of {read.array}"
    return None


def in_place_broken(
    before: Scop, after: Scop, scalar: str, array: str, names: Sequence[str], left_out: Sequence[str]
) -> str | None:
    """Why `scalar` cannot be the element of `array` that the last of the statements `names` writes, or `after` is not
    that program; None: it can, and it is. Raises QuotaExceeded."""
    with quota(f"the lifetimes of {scalar}"):
        if [s.name for s in users(before, scalar)] != list(names):
            return f"other statements use {scalar}"
        lives = lifetimes(before, scalar, names)
        if isinstance(lives, str):
            return lives
        return _not_accumulated(before, lives, scalar, array, left_out) or _not_that(
            before, after, lives, scalar, left_out
        )


def _not_accumulated(before: Scop, lives: Lifetimes, scalar: str, array: str, left_out: Sequence[str]) -> str | None:
    """Why a value of the scalar does not end up in an element that nothing else touches while it lives."""
    first, *between, last = lives.members
    body, begin = last.body, first.body
    if not isinstance(body, Assignment) or body.op not in ("=", "+="):
        return f"{last.name} does not store {scalar}"
    assert isinstance(begin, Assignment)
    target = last.accesses[body.target]
    if target.array != array or before.arrays[array].element is not before.arrays[scalar].element:
        return f"{last.name} does not store {scalar} in an element of {array} of its type"
    if last.depth != lives.depth or not prefix(last, lives.depth).range().is_equal(prefix(first, lives.depth).range()):
        return f"{last.name} does not run once for each value of {scalar}"
    kept = [s.name for s in between if not isinstance(s.body, Assignment)]
    if kept:
        return f"{', '.join(kept)}: the text names {scalar}"
    sums = [s.body.op if isinstance(s.body, Assignment) else "" for s in between]
    copies = body.value == Load(next((i for i in loads(body.value) if last.accesses[i].array == scalar), -1))
    taken = first.name in left_out and body.op == "="
    if (last.name in left_out) != copies or (taken and not isinstance(begin.value, Load)):
        return f"{', '.join(left_out) or 'nothing'} is left out"
    if body.op == "+=" and not (copies and first.name in left_out and is_zero(begin.value) and all(map(adds, sums))):
        return f"what {last.name} adds is not a sum from zero"
    if any(s.name in left_out for s in between):
        return f"a statement between {first.name} and {last.name} is left out"
    element = prefix(last, lives.depth).reverse().apply_range(target.relation)
    allowed: set[tuple[str, int | None]] = {(last.name, body.target), (last.name, body.target_read)}
    if taken and isinstance(begin.value, Load):
        allowed.add((first.name, begin.value.access))
        if (
            not prefix(first, lives.depth)
            .reverse()
            .apply_range(first.accesses[begin.value.access].relation)
            .is_equal(element)
        ):
            return f"{first.name} copies another element"
    return touched_meanwhile(before, lives, (last, body.target), allowed)


def touched_meanwhile(
    before: Scop, lives: Lifetimes, element: tuple[Statement, int], allowed: Container[tuple[str, int | None]]
) -> str | None:
    """Which statement touches the element that an access of a member, which runs once for each value, touches while the
    value lives, but for the accesses `allowed`, (statement, number); None: none does."""
    member, target = element
    access_of = member.accesses[target]
    elements = prefix(member, lives.depth).reverse().apply_range(access_of.relation)
    for s in before.statements:
        for number, access in enumerate(s.accesses):
            if access.array == access_of.array and (s.name, number) not in allowed:
                touching = elements.apply_range(access.relation.reverse()).intersect(lives.inside[s.name])
                if not touching.is_empty():
                    return f"{s.name} touches the element of {access_of.array} that {member.name} ends in"
    return None


def _not_that(before: Scop, after: Scop, lives: Lifetimes, scalar: str, left_out: Sequence[str]) -> str | None:
    """Why `after` is not `before` with the array element in place of the scalar; None: it is."""
    last = lives.members[-1]
    assert isinstance(last.body, Assignment)
    target = last.accesses[last.body.target]
    element = prefix(last, lives.depth).reverse().apply_range(target.relation)
    kept = [s for s in before.statements if s.name not in left_out]
    if len(kept) != len(after.statements):
        return f"more than {', '.join(left_out)} is left out"
    for old, new in zip(kept, after.statements, strict=True):
        same = (old.name, old.iterators, old.position, old.descending, old.body) == (
            new.name, new.iterators, new.position, new.descending, new.body
        )  # fmt: skip
        if not same or not old.domain.is_equal(new.domain) or len(old.accesses) != len(new.accesses):
            return f"{new.name} is not what {old.name} was"
        for a, b in zip(old.accesses, new.accesses, strict=True):
            place = target.array if a.array == scalar else a.array
            relation = prefix(old, lives.depth).apply_range(element) if a.array == scalar else a.relation
            if (b.array, b.write) != (place, a.write) or not b.relation.is_equal(relation):
                return f"{new.name} touches something else than {old.name}"
    return None
