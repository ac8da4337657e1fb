"""A loop that has parts of its results: the program with them, and when it computes the same (`Partial`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from polydl.model import isl
from polydl.model.accumulation import Accumulation, Place, accumulation, places
from polydl.model.expr import (
    AffineValue,
    Binary,
    Call,
    Conditional,
    Const,
    Expr,
    Gather,
    Load,
    Unary,
    loads,
    on_operands,
    operands,
)
from polydl.model.isl import quota
from polydl.model.scop import Access, Array, Assignment, BlackBox, MicrokernelCall, Scop, Statement, Storage
from polydl.model.time import map_from_affs
from polydl.model.types import F32, F64, ElementType
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.scratch_array import Box, element_of, ends_of, free_name, scratch_array


@dataclass(frozen=True, slots=True)
class Partial:
    """A loop that is in order only because it adds up, or finds an extreme and where that is, has a part of the result
    for each iteration.

    before:    for i: { …; s += e(i); … }
    after:     for i: { m = 0; …; m += e(i); …; part[i] = m; }  for i: s += part[i]
    requires:  in the loop nothing but these statements touches what they combine into (model.accumulation), which is
               one element for all iterations; leave to reassociate. What has no neutral value begins with the old one
               in each part: an extreme takes another value only where that is more (less), so that it is found in any
               grouping, and not a number as well. What is kept beside an extreme goes with it from the first part that
               has the best value
    """

    statements: tuple[str, ...]
    """Those that accumulate into one element, and those that keep something beside it."""
    depth: int
    """Of the loop."""
    chunk: int
    """Iterations of it that have one part; 1: each has its own."""
    ways: int = 0
    """Parts that there are at a time, after which they are put together; 0: all."""

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `polydl.equations.step.Rewrite`."""
        with quota(f"the parts of {', '.join(self.statements)}"):
            why = not_apart(before, self.statements, self.depth)
            if why is not None:
                return why
            made = made_of(before, self)
        if made is None:
            return "there is no array for the parts"
        same = after.statements == made.statements and after.arrays == made.arrays
        return None if same else f"more than {', '.join(self.statements)} was changed"

    def __str__(self) -> str:
        pieces = f"{self.chunk} iterations" if self.chunk > 1 else "iteration"
        rounds = f", {self.ways} at a time" if self.ways else ""
        return f"{', '.join(self.statements)} has a part of its result for each {pieces}{rounds}"


def inside_of(scop: Scop, loop: tuple[int, ...]) -> list[Statement]:
    return [s for s in scop.statements if s.depth >= len(loop) and s.position[: len(loop)] == loop]


def last_of(points: isl.Set, depth: int) -> isl.Set:
    """Values of the loop at this depth."""
    return isl.project_onto(points, [depth]).reset_tuple_id()


def points_of(inside: Sequence[Statement], depth: int) -> isl.Set:
    """Iterations of the loops up to this depth in which any of the statements runs, without a name."""
    found = [isl.project_onto(s.domain, range(depth + 1)).reset_tuple_id() for s in inside]
    whole = found[0]
    for one in found[1:]:
        whole = whole.union(one)
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
        element = scop.arrays[target_of(first).array].element
        fits = (
            one
            for one in places(s)
            if len(found) == 1
            and _goes_with(first, how, s, one)
            and not (one.last and (element.is_float or how.guards))
        )
        place = next(fits, None)
        if place is None:
            return f"{s.name} keeps nothing beside what {first.name} finds"
        kept.append((s, place))
    return Combined(first, how, tuple(kept))


def _goes_with(best: Statement, how: Accumulation, keeper: Statement, place: Place) -> bool:
    """Whether a statement keeps something of the very instance whose value `best` takes."""
    target = target_of(best).array
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


def not_apart(scop: Scop, names: Sequence[str], depth: int) -> str | None:
    """Why statements do not combine into one element that nothing else in their loop touches; None: they do."""
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
    for s in (found.like, *(s for s, _ in found.kept)):
        target = target_of(s)
        if not isl.domain_onto(target.relation, range(depth)).is_single_valued():
            return f"{target.array} has an element for each iteration"
        mine = [one for one in group if target_of(one).array == target.array]
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


def target_of(statement: Statement) -> Access:
    """What an assignment writes."""
    return statement.accesses[target_number(statement)]


def splitting(scop: Scop, statement: Statement) -> Accumulation | None:
    """How a statement combines what it computes with what there is, where parts of that can be put together; None:
    it does not. Halves are rounded each time, which shows."""
    if not isinstance(statement.body, Assignment):
        return None
    element = scop.arrays[target_of(statement).array].element
    return accumulation(scop, statement) if element in (F32, F64) or element.is_int else None


def made_of(scop: Scop, plan: Partial) -> Scop | None:
    """The program with parts; None where the number of parts is not known."""
    depth = plan.depth
    scop = _upwards(scop, plan.statements[0], depth)
    if plan.ways:
        scop = _chunked(scop, plan.statements[0], depth, plan.chunk * plan.ways)
        depth += 1
    if plan.chunk > 1:
        scop = _chunked(scop, plan.statements[0], depth, plan.chunk)
    group = [scop.statement(name) for name in plan.statements]
    found = combined(scop, plan.statements)
    assert not isinstance(found, str), found
    loop = found.like.position[: depth + 1]
    inside = inside_of(scop, loop)
    points = points_of(group, depth)
    ends = ends_of(last_of(points, depth))
    if ends is None:
        return None
    box, arrays, parts = Box.between(ends), dict(scop.arrays), list[_Parts]()
    for like in (found.like, *(s for s, _ in found.kept)):
        array = scop.arrays[target_of(like).array]
        own, part = (free_name(scop, f"{PREFIX}{array.name}_{name}") for name in ("own", "part"))
        arrays[own] = Array(own, array.element, (), Storage.REGION, f"{array.element.c} {own}", restrict=True)
        arrays[part] = scratch_array(part, array.element, box)
        element = element_of(last_of(points, depth), part, box)
        parts.append(_Parts(scop, like, points, depth, own, part, element, parts[0] if parts else None))
    parts.reverse()  # what is kept beside an extreme asks for it before it changes
    last, own_names = max(s.position[depth + 1] for s in inside), {target_of(p.like).array: p.own for p in parts}
    many = len(parts)
    statements: list[Statement] = []
    for statement in scop.statements:
        if statement is inside[0]:
            statements += [one.begun((*loop, place), found) for place, one in enumerate(parts)]
        moved = _placed(statement, loop, many)
        statements.append(_redirected(moved, own_names) if statement in group else moved)
        if statement is inside[-1]:
            statements += [one.ended((*loop, last + many + 1 + place)) for place, one in enumerate(parts)]
            behind = (*loop[:-1], loop[-1] + 1)
            statements += [one.joined((*behind, place), found) for place, one in enumerate(parts)]
    return replace(scop, arrays=arrays, statements=tuple(statements))


def _placed(statement: Statement, loop: tuple[int, ...], many: int) -> Statement:
    """The statement with room for so many more at the begin of the loop, and for a loop behind."""
    depth, at = len(loop) - 1, list(statement.position)
    if statement.depth < depth or tuple(at[:depth]) != loop[:depth]:
        return statement
    if at[depth] > loop[depth]:
        at[depth] += 1
    elif at[depth] == loop[depth] and statement.depth > depth:
        at[depth + 1] += many
    return replace(statement, position=tuple(at))


def _redirected(statement: Statement, own: Mapping[str, str]) -> Statement:
    """The statement with scalars in place of what it accumulates into. `own`: the scalar for each array."""
    accesses = tuple(
        replace(a, array=own[a.array], relation=isl.range_named(map_from_affs(statement.domain, []), own[a.array]))
        if a.array in own
        else a
        for a in statement.accesses
    )
    return replace(statement, accesses=accesses)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a loop with parts consists of beside its own statements."""

    scop: Scop
    like: Statement
    points: isl.Set
    """Iterations that have a part."""
    depth: int
    own: str
    """The scalar that an iteration accumulates into."""
    part: str
    element: isl.Map
    """{ [i] -> part[…] } of an iteration."""
    best: _Parts | None = None
    """Of the extreme, where this is kept beside it."""

    def begun(self, position: tuple[int, ...], found: Combined) -> Statement:
        """`m = 0`; where there is no neutral value, `m = x`; where the last of equal ones counts, the worst value of
        the type, which any other replaces: with x, a part that has none of its own would count as the last."""
        target = target_of(self.like)
        element = self.scop.arrays[target.array].element
        if self.best is None and any(place.last for _, place in found.kept):
            return self._assigned("b", position, (self.own,), "=", _worst(found.how.combiner.better, element))
        start = found.how.combiner.start(element)
        if start is None:
            return self._assigned("b", position, (target.array, self.own), "=", Load(0))
        sign = start[0] if start[0] in "-~" else ""
        value: Expr = Const(start.removeprefix(sign))
        return self._assigned("b", position, (self.own,), "=", Unary(sign, value) if sign else value)

    def ended(self, position: tuple[int, ...]) -> Statement:
        """`part[i] = m`."""
        return self._assigned("e", position, (self.own, self.part), "=", Load(0))

    def joined(self, position: tuple[int, ...], found: Combined) -> Statement:
        """`x += part[i]`, `x = part[i] > x ? part[i] : x`; of what is kept beside an extreme, `at = part[i] > x ?
        at_part[i] : at`."""
        target, row, best = target_of(self.like).array, found.how.combiner, self.best or self
        if row.compounds:
            return self._assigned("j", position, (self.part, target), row.compounds[0].op, Load(0))
        if row.better:
            extreme = target_of(best.like).array
            last = any(place.last for s, place in found.kept if s.name == self.like.name)
            test = Binary(f"{row.better}{'=' if last else ''}", Load(0), Load(1))
            names = (best.part, extreme, self.part, target, target)
            return self._assigned("j", position, names, "=", Conditional(test, Load(2), Load(3)))
        element = self.scop.arrays[target].element
        both = Call(row.called(element), (Load(0), Load(1)), element)
        return self._assigned("j", position, (target, self.part, target), "=", both)

    def _assigned(
        self, suffix: str, position: tuple[int, ...], touched: Sequence[str], op: str, value: Expr
    ) -> Statement:
        """An assignment in the loop. `touched`: the arrays of its reads, in order, and of its write."""
        name = f"{self.like.name}{suffix}"
        while any(s.name == name for s in self.scop.statements):
            name += suffix
        iterators = self.like.iterators[: self.depth + 1]
        domain = isl.named(self.points.set_tuple_name(name), iterators)
        accesses = [Access(array, False, self._place(domain, array), self.like.span) for array in touched]
        accesses[-1] = replace(accesses[-1], write=True)
        read = None
        if op != "=":
            read = len(accesses)
            accesses.append(replace(accesses[-1], write=False))
        body = Assignment(len(touched) - 1, op, value, read)
        descending = self.like.descending & {*iterators}
        return Statement(name, iterators, domain, position, descending, tuple(accesses), body, self.like.span)

    def _place(self, domain: isl.Set, array: str) -> isl.Map:
        if array == self.own:
            return isl.range_named(map_from_affs(domain, []), array)
        coordinates = isl.coordinates(domain)
        if array == self.part:
            return map_from_affs(domain, [coordinates[self.depth]]).apply_range(self.element)
        if array != target_of(self.like).array:
            assert self.best is not None, array
            return self.best._place(domain, array)
        fixed = isl.domain_onto(target_of(self.like).relation, range(self.depth))
        outer = map_from_affs(domain, coordinates[: self.depth])
        return outer.apply_range(isl.domain_named(fixed, None))


def _worst(better: str, element: ElementType) -> Expr:
    """The value of an integer type that every other one is better than."""
    most = Const(str(element.maximum))
    if better == "<":
        return most
    return Const("0") if element.unsigned else Binary("-", Unary("-", most), Const("1"))


PIECE = f"{PREFIX}piece"
"""The loop over the pieces of another one."""


def _chunked(scop: Scop, within: str, depth: int, chunk: int) -> Scop:
    """The program with a loop around another one, at this depth around a statement, over pieces of so many
    iterations."""
    loop = scop.statement(within).position[: depth + 1]
    inside = inside_of(scop, loop)
    used = {name for s in scop.statements for name in s.iterators}
    name = PIECE
    while name in used:
        name += "_"
    ends = ends_of(last_of(points_of(inside, depth), depth))
    first = ends[0][0] if ends is not None else 0
    changed = {s.name: _in_pieces(s, depth, chunk, first, name) for s in inside}
    return replace(scop, statements=tuple(changed.get(s.name, s) for s in scop.statements))


def _in_pieces(statement: Statement, depth: int, chunk: int, first: int, name: str) -> Statement:
    """`first`: the least value of the loop. In a piece it counts from zero, so that whole pieces are boxes."""
    coordinates = isl.coordinates(statement.domain)
    counted = coordinates[depth].add_constant_val(isl.value(-first))
    piece = isl.floor_div(counted, chunk)
    inside = counted.sub(piece.scale_val(isl.value(chunk)))
    iterators = (*statement.iterators[:depth], name, *statement.iterators[depth:])
    moved = _moved(statement, [*coordinates[:depth], piece, inside, *coordinates[depth + 1 :]], iterators)
    position = (*statement.position[: depth + 1], 0, *statement.position[depth + 1 :])
    return replace(moved, position=position)


def _upwards(scop: Scop, within: str, depth: int) -> Scop:
    """The program with a loop that runs downwards, at this depth around a statement, counted upwards."""
    statement = scop.statement(within)
    inside = inside_of(scop, statement.position[: depth + 1])
    if statement.iterators[depth] not in statement.descending:
        return scop
    changed = {}
    for s in inside:
        coordinates = isl.coordinates(s.domain)
        counted = [*coordinates[:depth], coordinates[depth].neg(), *coordinates[depth + 1 :]]
        moved = _moved(s, counted, s.iterators)
        changed[s.name] = replace(moved, descending=s.descending - {s.iterators[depth]})
    return replace(scop, statements=tuple(changed.get(s.name, s) for s in scop.statements))


def _moved(statement: Statement, to: Sequence[isl.Aff | isl.PwAff], iterators: tuple[str, ...]) -> Statement:
    """The statement with other loops, whose values `to` gives in terms of its own."""
    moved = isl.range_named(map_from_affs(statement.domain, list(to)), statement.name, iterators)
    back = isl.PwMultiAff.from_map(moved.reverse())

    def at(value: Expr) -> Expr:
        if isinstance(value, AffineValue):
            return AffineValue(value.value.pullback_pw_multi_aff(back))
        return on_operands(value, at)

    body = statement.body
    if isinstance(body, Assignment):
        body = replace(body, value=at(body.value))
    elif isinstance(body, BlackBox):
        local = ((text, None if value is None else value.pullback_pw_multi_aff(back)) for text, value in body.locals)
        body = replace(body, locals=tuple(local))
    accesses = tuple(replace(a, relation=a.relation.apply_domain(moved)) for a in statement.accesses)
    return replace(statement, iterators=iterators, domain=moved.range(), accesses=accesses, body=body)
