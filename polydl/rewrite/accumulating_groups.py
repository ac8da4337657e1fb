"""Groups of statements that combine into one element, or one row of elements, in all iterations of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polydl.model import isl
from polydl.model.accumulation import Accumulation, Place, accumulation, places
from polydl.model.conversions import explicit
from polydl.model.expr import (
    AffineValue,
    Call,
    Const,
    Expr,
    Gather,
    Load,
    loads,
    on_operands,
    operands,
)
from polydl.model.functions import function_of
from polydl.model.scop import Assignment, MicrokernelCall, Scop, Statement
from polydl.model.time import inside_of
from polydl.model.types import F32, F64, common


def last_of(points: isl.Set, depth: int) -> isl.Set:
    """Values of the loop at this depth."""
    return isl.project_onto(points, [depth]).reset_tuple_id()


def points_of(inside: Sequence[Statement], depth: int) -> isl.Set:
    """Iterations of the loops up to this depth in which any of the statements runs, without a name."""
    whole = isl.united(isl.project_onto(s.domain, range(depth + 1)).reset_tuple_id() for s in inside)
    assert whole is not None, "there is a statement"
    return whole.coalesce()


@dataclass(frozen=True, slots=True)
class Combined:
    """What a group of statements combines into."""

    like: Statement
    """The first that accumulates."""
    how: Accumulation
    kept: tuple[tuple[Statement, Place], ...]
    """What is kept beside an extreme."""


def combined(scop: Scop, names: Sequence[str]) -> Combined | str:
    """What statements combine into one element, or why they do not."""
    group = [scop.statement(name) for name in names]
    found = [(s, one) for s in group if (one := splitting(scop, s)) is not None]
    if not found:
        return f"{', '.join(names)} does not accumulate"
    first, how = found[0]
    if any(s.iterators != first.iterators for s in group):
        return f"{', '.join(names)} are in different loops"
    if any(one.combiner is not how.combiner for _, one in found):
        return f"{', '.join(names)} does not accumulate in one way"
    if not all(_same_element(first, target_number(first), s, target_number(s)) for s, _ in found):
        return f"{', '.join(names)} accumulate into several elements"
    kept = []
    for s in group:
        if any(s is one for one, _ in found):
            continue
        element = scop.arrays[first.target.array].element
        fits = (
            one
            for one in places(s)
            if len(found) == 1
            and _goes_with(first, how, s, one)
            and _held_as_compared(scop, first, how)
            and not (one.last and (element.is_float or how.guards))
        )
        place = next(fits, None)
        if place is None:
            return f"{s.name} keeps nothing beside what {first.name} finds"
        kept.append((s, place))
    return Combined(first, how, tuple(kept))


def _goes_with(best: Statement, how: Accumulation, keeper: Statement, place: Place) -> bool:
    """Whether a statement keeps something of the very instance whose value `best` takes."""
    target = best.target.array
    guards = [one for one, holds in how.guards if holds]
    return (
        place.extreme == target
        and place.combiner is how.combiner
        and len(guards) == len(how.guards) == len(place.guards)
        and keeper.position < best.position
        and bool(keeper.domain.set_tuple_name(best.name).is_equal(best.domain))
        and all(
            _same_element(best, target_number(best), keeper, i)
            for i, a in enumerate(keeper.accesses)
            if a.array == target
        )
        and all(
            _same_value(best, a, keeper, b) for a, b in zip((how.value, *guards), (place.x, *place.guards), strict=True)
        )
    )


def _held_as_compared(scop: Scop, statement: Statement, how: Accumulation) -> bool:
    """Whether an extreme is compared as what is kept of it. `float m; if (x > m) { m = x; at = j; }` with a double x
    takes an x that is more than what another was rounded to: which x that is, the order says."""
    of = [scop.arrays[a.array].element for a in statement.accesses]
    element, value = scop.arrays[statement.target.array].element, how.value
    made = explicit(value, of.__getitem__)[1]
    match value:
        case Call(name, (x,)) if (row := function_of(name)) is not None and row.magnitude:
            argument = explicit(x, of.__getitem__)[1]
            made = argument if argument.is_float else made  # fabs of a float is a float
    return element.is_int or common(made, element) is element


def _same_element(old: Statement, one: int, new: Statement, two: int) -> bool:
    """Whether two accesses, whatever they do, touch the same elements for the instances of `new`."""
    a, b = old.accesses[one], new.accesses[two]
    there = isl.domain_named(a.relation, new.name).intersect_domain(new.domain)
    return a.array == b.array and bool(there.is_equal(b.relation.intersect_domain(new.domain)))


def _same_value(old: Statement, one: Expr, new: Statement, two: Expr) -> bool:
    """Whether two expressions compute the same from the same elements for the instances of `new`."""
    match one, two:
        case Load(a), Load(b):
            return _same_element(old, a, new, b)
        case Gather(), _:
            return False
        case AffineValue(a), AffineValue(b):
            there = isl.Map.from_pw_aff(isl.function_named(a, new.name)).intersect_domain(new.domain)
            return bool(there.is_equal(isl.Map.from_pw_aff(b).intersect_domain(new.domain)))
    inside = operands(one), operands(two)
    empty = [on_operands(value, lambda _: Const("operand")) for value in (one, two)]
    return empty[0] == empty[1] and all(_same_value(old, a, new, b) for a, b in zip(*inside, strict=True))


def has_rows(scop: Scop, names: Sequence[str], depth: int) -> bool:
    """Whether statements combine into several elements in an iteration of the loop at this depth."""
    targets = [scop.statement(name).target for name in names]
    return not all(isl.domain_onto(one.relation, range(depth)).is_single_valued() for one in targets)


def _same_subscripts(one: Statement, two: Statement) -> bool:
    """Whether two statements in loops alike store to elements of the same subscripts, each to one in an instance."""
    a, b = (isl.range_named(isl.domain_named(s.target.relation, ""), "") for s in (one, two))
    return bool(a.is_equal(b)) and bool(a.is_single_valued())


def not_apart(scop: Scop, names: Sequence[str], depth: int) -> str | None:
    """Why statements do not combine into elements that nothing else in their loop touches; None: they do."""
    found = combined(scop, names)
    if isinstance(found, str):
        return found
    group = [scop.statement(name) for name in names]
    inside = inside_of(scop, found.like.position[: depth + 1])
    if any(s not in inside for s in group):
        return f"{', '.join(names)} are not in one loop"
    if any(isinstance(s.body, MicrokernelCall) for s in inside):
        return "a microkernel is called in the loop"
    if len({found.like.iterators[depth] in s.descending for s in inside}) > 1:
        return "the loop runs both ways"
    rows = has_rows(scop, names, depth)
    for s in (found.like, *(s for s, _ in found.kept)):
        target = s.target
        if rows and not (target.exact and _same_subscripts(found.like, s)):
            return f"{s.name} does not store to elements of the same subscripts as {found.like.name}"
        mine = [one for one in group if one.target.array == target.array]
        users = [one for one in inside if any(a.array == target.array for a in one.accesses)]
        if any(one not in group for one in users):
            return f"another statement in the loop touches {target.array}"
        if s is not found.like and (len(mine) > 1 or users != [s]):
            return f"another statement in the loop touches {target.array}"
        for one in users:
            own = {i for i, a in enumerate(one.accesses) if a.array == target.array}
            if not all(_same_element(s, target_number(s), one, i) for i in own):
                return f"{target.array} is read beside"
            if one in mine and own & _beside(scop, one):
                return f"{target.array} is read beside"
    return None


def _beside(scop: Scop, statement: Statement) -> frozenset[int]:
    """The accesses that are read for what a statement combines or keeps."""
    how = accumulation(scop, statement)
    if how is not None:
        return frozenset(i for one in (how.value, *(guard for guard, _ in how.guards)) for i in loads(one))
    return frozenset()


def target_number(statement: Statement) -> int:
    assert isinstance(statement.body, Assignment)
    return statement.body.target


def splitting(scop: Scop, statement: Statement) -> Accumulation | None:
    """How a statement combines what it computes with what there is, where parts of that can be put together; None:
    it does not. Halves are rounded each time, which shows."""
    if not isinstance(statement.body, Assignment):
        return None
    element = scop.arrays[statement.target.array].element
    return accumulation(scop, statement) if element in (F32, F64) or element.is_int else None
