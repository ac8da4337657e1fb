"""A loop that has parts of its results: statements that combine into one element, or one row of elements, in all of its
iterations (`combined`), and the program with parts of that (`Partial`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.equations.step import Remade
from polydl.model import isl
from polydl.model.accumulation import Accumulation, Place, accumulation, places
from polydl.model.combiners import Combiner
from polydl.model.conversions import explicit
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
from polydl.model.functions import function_of
from polydl.model.scop import Access, Array, Assignment, MicrokernelCall, Scop, Statement
from polydl.model.time import inside_of, map_from_affs, prefix
from polydl.model.types import F32, F64, ElementType, common
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.moved import moved
from polydl.rewrite.new_statements import assignment, in_two, shifted
from polydl.rewrite.scratch_array import array_over, ends_of, free_name, region_scalar


@dataclass(frozen=True, slots=True)
class Partial(Remade):
    """A loop that is in order only because it adds up, or finds an extreme and where that is, has a part of the result
    for each iteration.

    before:    for i: { …; s += e(i); … }
    after:     for i: { m = 0; …; m += e(i); …; part[i] = m; }  for i: s += part[i]
    rows:      for i: { for j: part[i][j] = 0; …; for j: part[i][j] += e(i, j); … }  for i: for j: s[j] += part[i][j]
    requires:  in the loop nothing but these statements touches what they combine into (model.accumulation), in any
               iteration; leave to reassociate. What has no neutral value begins with the old one
               in each part: an extreme takes another value only where that is more (less), so that it is found in any
               grouping, and not a number as well. What is kept beside an extreme goes with it from the first part that
               has the best value
    """

    statements: tuple[str, ...]
    """Those that accumulate into one element or row, and those that keep something beside it."""
    depth: int
    """Of the loop."""
    chunk: int
    """Iterations of it that have one part; 1: each has its own."""
    ways: int = 0
    """Parts that there are at a time, after which they are put together; 0: all."""

    def made(self, before: Scop) -> Scop | str:
        """See `Remade.made`."""
        found = combined(before, self.statements, self.depth)
        return found if isinstance(found, str) else _made(before, self, found)

    def __str__(self) -> str:
        pieces = f"{self.chunk} iterations" if self.chunk > 1 else "iteration"
        rounds = f", {self.ways} at a time" if self.ways else ""
        return f"{', '.join(self.statements)} has a part of its result for each {pieces}{rounds}"


def _made(scop: Scop, plan: Partial, found: Combined) -> Scop | str:
    """The program with parts of what a group combines into, or why there is none."""
    rounds = [plan.chunk * plan.ways] if plan.ways else []
    scop = in_pieces(scop, found.like, plan.depth, [*rounds, *([plan.chunk] if plan.chunk > 1 else [])])
    depth = plan.depth + len(rounds)
    group = [scop.statement(name) for name in plan.statements]
    loop = scop.statement(found.like).position[: depth + 1]
    arrays, parts = dict(scop.arrays), list[_Part]()
    for name in (found.like, *found.kept):
        part = _part(scop, scop.statement(name), group, depth, found.rows)
        if part is None:
            return "there is no array for the parts"
        parts.append(part)
        arrays |= {array.name: array for array in part.arrays}
    best, inside, names = parts[0], inside_of(scop, loop), {s.name for s in scop.statements}
    parts.reverse()  # what is kept beside an extreme asks for it before it changes
    last, behind = max(s.position[depth + 1] for s in inside) + len(parts), (*loop[:-1], loop[-1] + 1)
    begin = [one.stated("b", names, (*loop, place), *_begun(found, one)) for place, one in enumerate(parts)]
    end = [
        one.stated("e", names, (*loop, place), [one.own, one.part], Load(0))
        for place, one in enumerate(parts, last + 1)
        if one.own is not one.part
    ]
    join = [one.stated("j", names, (*behind, place), *_joined(found, one, best)) for place, one in enumerate(parts)]
    of, statements = {one.like.target.array: one for one in parts}, list[Statement]()
    for s in scop.statements:
        statements += begin if s is inside[0] else []
        there = shifted(s, loop, behind=1, inside=len(parts))
        if s in group:
            accesses = tuple(of[a.array].instead(s, a) if a.array in of else a for a in s.accesses)
            there = replace(there, accesses=accesses)
        statements += [there, *end, *join] if s is inside[-1] else [there]
    return replace(scop, arrays=arrays, statements=tuple(statements))


@dataclass(frozen=True, slots=True)
class _Part:
    """A value with a part for each iteration of a loop. Of a row, iterations come with the elements that each has."""

    like: Statement
    """One that steps it."""
    depth: int
    iterators: tuple[str, ...]
    points: isl.Set
    """{ [i…] } of a row { [i…, a…] } the iterations that have a part."""
    target: isl.Map
    """{ [i…] -> x } where the value is; of a row { [i…, a…] -> x[a…] }, and likewise:"""
    part: isl.Map
    own: isl.Map
    """What an iteration accumulates into: a scalar, or of a row the part."""
    arrays: tuple[Array, ...]
    """Those that are new."""

    def instead(self, statement: Statement, access: Access) -> Access:
        """An access to the array as one to what an iteration accumulates into."""
        own = isl.range_name(self.own)
        relation = isl.range_named(prefix(statement, 0), own)
        if self.own is self.part:
            element = isl.range_named(access.relation, None)
            relation = prefix(statement, self.depth + 1).flat_range_product(element).apply_range(self.part)
        return replace(access, array=own, relation=relation)

    def stated(
        self,
        suffix: str,
        names: set[str],
        position: tuple[int, ...],
        touched: Sequence[isl.Map],
        value: Expr,
        op: str = "=",
    ) -> Statement:
        """An assignment in the loop (`assignment`), whose name is none of `names`."""
        name = f"{self.like.name}{suffix}"
        while name in names:
            name += suffix
        place = (*position, *(0 for _ in self.iterators[self.depth + 1 :]))
        return assignment(self.like, name, (self.iterators, self.points), place, touched, value, op)

    @property
    def element(self) -> ElementType:
        """The type of the value."""
        return self.arrays[-1].element


def _part(scop: Scop, like: Statement, group: Sequence[Statement], depth: int, rows: bool) -> _Part | None:
    """The parts of what a statement steps; None where nobody knows how many there are."""
    array, iterators = scop.arrays[like.target.array], like.iterators[: depth + 1]
    if rows:
        stores = [s.target.relation.intersect_domain(s.domain) for s in group if s.target.array == array.name]
        pairs = (isl.domain_named(isl.domain_onto(one, range(depth + 1)), None) for one in stores)
        united = isl.united(isl.range_named(one, None).wrap().flatten() for one in pairs)
        assert united is not None, "it is the target of one of them"
        points, stem = united.coalesce(), "e"
        while any(name.startswith(stem) for name in iterators):
            stem += "_"
        iterators += tuple(f"{stem}{d}" for d in range(isl.arity(points) - depth - 1))
    else:
        points = points_of(group, depth)
    name, loops = free_name(scop, f"{PREFIX}{array.name}_part"), range(depth, isl.arity(points))
    made = array_over(name, array.element, points, loops, known=True)
    if made is None:
        return None
    part, held = made
    at = isl.coordinates(points)
    if rows:
        target = isl.range_named(map_from_affs(points, at[depth + 1 :]), array.name)
        return _Part(like, depth, iterators, points, target, held, held, (part,))
    scalar = region_scalar(free_name(scop, f"{PREFIX}{array.name}_own"), array.element)
    fixed = isl.domain_named(isl.domain_onto(like.target.relation, range(depth)), None)
    target = map_from_affs(points, at[:depth]).apply_range(fixed)
    own = isl.range_named(map_from_affs(points, []), scalar.name)
    return _Part(like, depth, iterators, points, target, held, own, (scalar, part))


def _begun(found: Combined, one: _Part) -> tuple[list[isl.Map], Expr]:
    """`m = 0`; where there is no neutral value, `m = x`; where the last of equal ones counts, the worst value of the
    type, which any other replaces: with x, a part that has none of its own would count as the last."""
    if one.like.name == found.like and any(found.kept.values()):
        worst = int(found.combiner.worst(one.element))
        # The least number of a type is no literal.
        least = Binary("-", Unary("-", Const(str(-worst - 1))), Const("1"))
        return [one.own], least if worst < 0 else Const(str(worst))
    start = found.combiner.start(one.element)
    if start is None:
        return [one.target, one.own], Load(0)
    sign = start[0] if start[0] in "-~" else ""
    value = Const(start.removeprefix(sign))
    return [one.own], Unary(sign, value) if sign else value


def _joined(found: Combined, one: _Part, best: _Part) -> tuple[list[isl.Map], Expr, str]:
    """`x += part[i]`, `x = part[i] > x ? part[i] : x`; of what is kept beside an extreme, `at = part[i] > x ?
    at_part[i] : at`: what is touched, the value and the operator."""
    row = found.combiner
    if row.compounds:
        return [one.part, one.target], Load(0), row.op
    if row.better:
        test = Binary(f"{row.better}{'=' if found.kept.get(one.like.name) else ''}", Load(0), Load(1))
        if row.renews:
            test = Binary("||", test, Binary("!=", Load(1), Load(1)))
        touched = [best.part, best.target, one.part, one.target, one.target]
        return touched, Conditional(test, Load(2), Load(3)), "="
    both = Call(row.called(one.element), (Load(0), Load(1)), one.element)
    return [one.target, one.part, one.target], both, "="


def points_of(inside: Sequence[Statement], depth: int) -> isl.Set:
    """Iterations of the loops up to this depth in which any of the statements runs, without a name."""
    whole = isl.united(isl.project_onto(s.domain, range(depth + 1)).reset_tuple_id() for s in inside)
    assert whole is not None, "there is a statement"
    return whole.coalesce()


def trips_of(inside: Sequence[Statement], depth: int) -> int | None:
    """Iterations of the loop at this depth around statements, from the first value to the last; None where nobody
    knows how many."""
    values = values_of(inside, depth)
    return None if values is None else values[1] - values[0] + 1


def values_of(inside: Sequence[Statement], depth: int) -> tuple[int, int] | None:
    """The first and the last value of the loop at this depth around statements; None where nobody knows."""
    ends = ends_of(isl.project_onto(points_of(inside, depth), [depth]).reset_tuple_id())
    return None if ends is None else ends[0]


PIECE = f"{PREFIX}piece"
"""The loop over the pieces of another one."""


def in_pieces(scop: Scop, within: str, depth: int, lengths: Iterable[int]) -> Scop:
    """The program with a loop, at this depth around a statement, counted upwards, and in loops over pieces of so many
    iterations of it, the outermost first."""
    first = scop.statement(within)
    if first.iterators[depth] in first.descending:
        scop = _with(scop, (_counted_upwards(s, depth) for s in inside_of(scop, first.position[: depth + 1])))
    for at, length in enumerate(lengths, depth):
        inside = inside_of(scop, first.position[: depth + 1] + (0,) * (at - depth))
        used, name = {name for s in scop.statements for name in s.iterators}, PIECE
        while name in used:
            name += "_"
        values = values_of(inside, at)
        low = 0 if values is None else values[0]
        scop = _with(scop, [_in_pieces(s, at, length, low, name) for s in inside])
    return scop


def _with(scop: Scop, changed: Iterable[Statement]) -> Scop:
    """The program with other statements of the same names."""
    by_name = {s.name: s for s in changed}
    return replace(scop, statements=tuple(by_name.get(s.name, s) for s in scop.statements))


def _in_pieces(statement: Statement, depth: int, chunk: int, first: int, name: str) -> Statement:
    """`first`: the least value of the loop. In a piece it counts from zero, so that whole pieces are boxes."""
    iterators = (*statement.iterators[:depth], name, *statement.iterators[depth:])
    position = (*statement.position[: depth + 1], 0, *statement.position[depth + 1 :])
    place = in_two(statement, depth, chunk, first=first)
    return moved(statement, place, iterators, position, statement.descending).statement


def _counted_upwards(statement: Statement, depth: int) -> Statement:
    """A statement in a loop that runs downwards, which takes the negative of each value upwards instead."""
    at = isl.coordinates(statement.domain)
    place = map_from_affs(statement.domain, [*at[:depth], at[depth].neg(), *at[depth + 1 :]])
    upwards = statement.descending - {statement.iterators[depth]}
    return moved(statement, place, statement.iterators, statement.position, upwards).statement


def together(inside: Sequence[Statement], shared: Mapping[str, set[str]]) -> list[list[Statement]]:
    """The connected components of statements, two of which are connected if they share something.

    `shared`: by the name of a statement, what it may share. With {"S": {"s"}, "T": {"s", "m"}, "U": {"m"}, "V": {}} the
    result is [[S, T, U]]: T connects S and U. A statement with nothing to share is in no group.
    """
    found: list[tuple[set[str], list[Statement]]] = []
    for s in inside:
        own = shared[s.name]
        met = [one for one in found if one[0] & own]
        group = [s for s in inside if any(s in members for _, members in met)] + [s]
        rest = [one for one in found if one not in met]
        found = [*rest, (own.union(*(names for names, _ in met)), group)] if own else found
    return [group for _, group in found]


@dataclass(frozen=True, slots=True)
class Combined:
    """What a group of statements combines into."""

    like: str
    """The first statement that accumulates."""
    combiner: Combiner
    kept: Mapping[str, bool]
    """The statements that keep something beside an extreme, and whether of equal ones the last counts."""
    rows: bool
    """Whether there are several elements in an iteration of the loop."""


def combined(scop: Scop, names: Sequence[str], depth: int) -> Combined | str:
    """What statements combine into that nothing else in the loop at this depth touches, or why they do not."""
    group = [scop.statement(name) for name in names]
    found = [(s, one) for s in group if (one := splitting(scop, s)) is not None]
    if not found:
        return f"{', '.join(names)} does not accumulate"
    first, how = found[0]
    if any(s.iterators != first.iterators for s in group):
        return f"{', '.join(names)} are in different loops"
    if any(one.combiner is not how.combiner for _, one in found):
        return f"{', '.join(names)} does not accumulate in one way"
    if not all(_touch_the_same(first.target, s.target, s) for s, _ in found):
        return f"{', '.join(names)} accumulate into several elements"
    kept = dict[str, bool]()
    for s in (s for s in group if all(s is not one for one, _ in found)):
        place = next((one for one in places(s) if len(found) == 1 and _goes_with(scop, first, how, s, one)), None)
        if place is None:
            return f"{s.name} keeps nothing beside what {first.name} finds"
        kept[s.name] = place.last
    rows = not all(isl.domain_onto(s.target.relation, range(depth)).is_single_valued() for s in group)
    ends_in = [first, *(s for s in group if s.name in kept)]
    return _not_apart(scop, group, ends_in, depth, rows) or Combined(first.name, how.combiner, kept, rows)


def _not_apart(
    scop: Scop, group: Sequence[Statement], ends_in: Sequence[Statement], depth: int, rows: bool
) -> str | None:
    """Why something else in a loop touches what a group combines into, which the targets of `ends_in` are; None:
    nothing does."""
    first = ends_in[0]
    inside = inside_of(scop, first.position[: depth + 1])
    if any(s not in inside for s in group):
        return f"{', '.join(s.name for s in group)} are not in one loop"
    if any(isinstance(s.body, MicrokernelCall) for s in inside):
        return "a microkernel is called in the loop"
    if len({first.iterators[depth] in s.descending for s in inside}) > 1:
        return "the loop runs both ways"
    for s in ends_in:
        array = s.target.array
        if rows and not (s.target.exact and _same_subscripts(first, s)):
            return f"{s.name} does not store to elements of the same subscripts as {first.name}"
        users = [one for one in inside if any(a.array == array for a in one.accesses)]
        if any(one not in group for one in users) or (s is not first and users != [s]):
            return f"another statement in the loop touches {array}"
        for one in users:
            beside = _beside(scop, one) if one.target.array == array else frozenset()
            touched = [(i, a) for i, a in enumerate(one.accesses) if a.array == array]
            if any(i in beside or not _touch_the_same(s.target, a, one) for i, a in touched):
                return f"{array} is read beside"
    return None


def _goes_with(scop: Scop, best: Statement, how: Accumulation, keeper: Statement, place: Place) -> bool:
    """Whether a statement keeps something of the very instance whose value `best` takes; of integers alone, without
    conditions, where it is that of the last of equal ones."""
    target = best.target
    guards = [one for one, holds in how.guards if holds]
    return (
        place.extreme == target.array
        and place.combiner is how.combiner
        and len(guards) == len(how.guards) == len(place.guards)
        and keeper.position < best.position
        and bool(keeper.domain.set_tuple_name(best.name).is_equal(best.domain))
        and all(_touch_the_same(target, a, keeper) for a in keeper.accesses if a.array == target.array)
        and all(
            _same_value(best, a, keeper, b) for a, b in zip((how.value, *guards), (place.x, *place.guards), strict=True)
        )
        and _held_as_compared(scop, best, how)
        and not (place.last and (scop.arrays[target.array].element.is_float or guards))
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


def _touch_the_same(one: Access, other: Access, of: Statement) -> bool:
    """Whether an access of a statement in loops alike, whatever it does, touches the same elements as one of a
    statement, for the instances of this."""
    there = isl.domain_named(one.relation, of.name).intersect_domain(of.domain)
    return one.array == other.array and bool(there.is_equal(other.relation.intersect_domain(of.domain)))


def _same_value(old: Statement, one: Expr, new: Statement, two: Expr) -> bool:
    """Whether two expressions compute the same from the same elements for the instances of `new`."""
    match one, two:
        case Load(a), Load(b):
            return _touch_the_same(old.accesses[a], new.accesses[b], new)
        case Gather(), _:
            return False
        case AffineValue(a), AffineValue(b):
            there = isl.Map.from_pw_aff(isl.function_named(a, new.name)).intersect_domain(new.domain)
            return bool(there.is_equal(isl.Map.from_pw_aff(b).intersect_domain(new.domain)))
    inside = operands(one), operands(two)
    empty = [on_operands(value, lambda _: Const("operand")) for value in (one, two)]
    return empty[0] == empty[1] and all(_same_value(old, a, new, b) for a, b in zip(*inside, strict=True))


def _same_subscripts(one: Statement, two: Statement) -> bool:
    """Whether two statements in loops alike store to elements of the same subscripts, each to one in an instance."""
    a, b = (isl.range_named(isl.domain_named(s.target.relation, ""), "") for s in (one, two))
    return bool(a.is_equal(b)) and bool(a.is_single_valued())


def _beside(scop: Scop, statement: Statement) -> frozenset[int]:
    """The accesses that are read for what a statement combines."""
    how = accumulation(scop, statement)
    parts = () if how is None else (how.value, *(guard for guard, _ in how.guards))
    return frozenset(i for one in parts for i in loads(one))


def splitting(scop: Scop, statement: Statement) -> Accumulation | None:
    """How a statement combines what it computes with what there is, where parts of that can be put together; None:
    it does not. Halves are rounded each time, which shows."""
    if not isinstance(statement.body, Assignment):
        return None
    element = scop.arrays[statement.target.array].element
    return accumulation(scop, statement) if element in (F32, F64) or element.is_int else None
