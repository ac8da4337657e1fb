"""A loop that has parts of its results: the program with them, and when it computes the same (`Partial`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polydl.model import isl
from polydl.model.combiners import Combiner
from polydl.model.expr import (
    Binary,
    Call,
    Conditional,
    Const,
    Expr,
    Load,
    Unary,
)
from polydl.model.isl import quota
from polydl.model.scop import Access, Array, Scop, Statement, Storage
from polydl.model.time import inside_of, map_from_affs
from polydl.model.types import ElementType
from polydl.rewrite.accumulating_groups import (
    Combined,
    combined,
    has_rows,
    last_of,
    not_apart,
    points_of,
)
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.moved import moved
from polydl.rewrite.new_statements import assignment, in_two, shifted
from polydl.rewrite.scratch_array import Box, element_of, ends_of, free_name, scratch_array


@dataclass(frozen=True, slots=True)
class Partial:
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


def made_of(scop: Scop, plan: Partial) -> Scop | None:
    """The program with parts; None where the number of parts is not known."""
    depth, rows = plan.depth, has_rows(scop, plan.statements, plan.depth)
    scop = counted_upwards(scop, plan.statements[0], depth)
    if plan.ways:
        scop = chunked(scop, plan.statements[0], depth, plan.chunk * plan.ways)
        depth += 1
    if plan.chunk > 1:
        scop = chunked(scop, plan.statements[0], depth, plan.chunk)
    group = [scop.statement(name) for name in plan.statements]
    found = combined(scop, plan.statements)
    assert not isinstance(found, str), found
    loop = found.like.position[: depth + 1]
    inside = inside_of(scop, loop)
    points = points_of(group, depth)
    ends = ends_of(last_of(points, depth))
    if ends is None:
        return None
    arrays, parts = dict(scop.arrays), list[_Parts]()
    for like in (found.like, *(s for s, _ in found.kept)):
        array = scop.arrays[like.target.array]
        part = free_name(scop, f"{PREFIX}{array.name}_part")
        best = parts[0] if parts else None
        if rows:
            made = _rows(scop, like, group, depth, part, best)
            if made is None:
                return None
            parts.append(made)
        else:
            own, box = free_name(scop, f"{PREFIX}{array.name}_own"), Box.between(ends)
            arrays[own] = Array(own, array.element, (), Storage.REGION, f"{array.element.c} {own}", restrict=True)
            element = element_of(last_of(points, depth), part, box)
            parts.append(_Parts(scop, like, points, depth, own, part, box, element, best))
        arrays[part] = scratch_array(part, array.element, parts[-1].box)
    parts.reverse()  # what is kept beside an extreme asks for it before it changes
    last, many = max(s.position[depth + 1] for s in inside), len(parts)
    statements: list[Statement] = []
    for statement in scop.statements:
        if statement is inside[0]:
            statements += [one.begun((*loop, place), found) for place, one in enumerate(parts)]
        moved = shifted(statement, loop, behind=1, inside=many)
        statements.append(_redirected(moved, parts) if statement in group else moved)
        if statement is inside[-1]:
            statements += [one.ended((*loop, last + many + 1 + place)) for place, one in enumerate(parts) if one.own]
            behind = (*loop[:-1], loop[-1] + 1)
            statements += [one.joined((*behind, place), found) for place, one in enumerate(parts)]
    return replace(scop, arrays=arrays, statements=tuple(statements))


def _redirected(statement: Statement, parts: Sequence[_Parts]) -> Statement:
    """The statement with what it accumulates into in a part, in place of the array."""
    of = {one.like.target.array: one for one in parts}
    accesses = tuple(of[a.array].instead(statement, a) if a.array in of else a for a in statement.accesses)
    return replace(statement, accesses=accesses)


def _rows(
    scop: Scop, like: Statement, group: Sequence[Statement], depth: int, part: str, best: _Parts | None
) -> _Parts | None:
    """The parts of an array, of all elements that a group combines into; None where nobody knows how many."""
    array = like.target.array
    own = [s for s in group if s.target.array == array]
    pairs = (isl.domain_onto(s.target.relation.intersect_domain(s.domain), range(depth + 1)) for s in own)
    touched = isl.united(isl.range_named(isl.domain_named(one, None), None).wrap().flatten() for one in pairs)
    assert touched is not None, "it is the target of one of them"
    points = touched.coalesce()
    inner = isl.project_onto(points, range(depth, isl.arity(points))).reset_tuple_id()
    ends = ends_of(inner)
    if ends is None:
        return None
    box = Box.between(ends)
    return _Parts(scop, like, points, depth, "", part, box, element_of(inner, part, box), best)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a loop with parts consists of beside its own statements."""

    scop: Scop
    like: Statement
    points: isl.Set
    """Iterations that have a part; of a row { [i…, a…] }, with the elements that each has."""
    depth: int
    own: str
    """The scalar that an iteration accumulates into; empty of a row, which it accumulates into in its place."""
    part: str
    box: Box
    """Of the elements of `part`."""
    element: isl.Map
    """{ [i] -> part[…] } of an iteration; of a row { [i, a…] -> part[…] }."""
    best: _Parts | None = None
    """Of the extreme, where this is kept beside it."""

    @property
    def mine(self) -> str:
        """What an iteration accumulates into."""
        return self.own or self.part

    def instead(self, statement: Statement, access: Access) -> Access:
        """An access to the array as one to what an iteration accumulates into."""
        if self.own:
            relation = isl.range_named(map_from_affs(statement.domain, []), self.own)
        else:
            iteration = map_from_affs(statement.domain, [isl.coordinates(statement.domain)[self.depth]])
            relation = iteration.flat_range_product(isl.range_named(access.relation, None)).apply_range(self.element)
        return replace(access, array=self.mine, relation=relation)

    def begun(self, position: tuple[int, ...], found: Combined) -> Statement:
        """`m = 0`; where there is no neutral value, `m = x`; where the last of equal ones counts, the worst value of
        the type, which any other replaces: with x, a part that has none of its own would count as the last."""
        target = self.like.target
        element = self.scop.arrays[target.array].element
        if self.best is None and any(place.last for _, place in found.kept):
            return self._assigned("b", position, (self.mine,), "=", _worst(found.how.combiner, element))
        start = found.how.combiner.start(element)
        if start is None:
            return self._assigned("b", position, (target.array, self.mine), "=", Load(0))
        sign = start[0] if start[0] in "-~" else ""
        value: Expr = Const(start.removeprefix(sign))
        return self._assigned("b", position, (self.mine,), "=", Unary(sign, value) if sign else value)

    def ended(self, position: tuple[int, ...]) -> Statement:
        """`part[i] = m`."""
        return self._assigned("e", position, (self.own, self.part), "=", Load(0))

    def joined(self, position: tuple[int, ...], found: Combined) -> Statement:
        """`x += part[i]`, `x = part[i] > x ? part[i] : x`; of what is kept beside an extreme, `at = part[i] > x ?
        at_part[i] : at`."""
        target, row, best = self.like.target.array, found.how.combiner, self.best or self
        if row.compounds:
            return self._assigned("j", position, (self.part, target), row.compounds[0].op, Load(0))
        if row.better:
            extreme = best.like.target.array
            last = any(place.last for s, place in found.kept if s.name == self.like.name)
            test = Binary(f"{row.better}{'=' if last else ''}", Load(0), Load(1))
            if row.renews:
                test = Binary("||", test, Binary("!=", Load(1), Load(1)))
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
        if not self.own:
            more = isl.arity(self.points) - len(iterators)
            iterators += tuple(f"{_free_iterator(iterators)}{d}" for d in range(more))
            position += (0,) * more
        places = [self._place(self.points, array) for array in touched]
        return assignment(self.like, name, (iterators, self.points), position, places, value, op)

    def _place(self, domain: isl.Set, array: str) -> isl.Map:
        if array == self.own:
            return isl.range_named(map_from_affs(domain, []), array)
        coordinates = isl.coordinates(domain)
        if array == self.part:
            return map_from_affs(domain, coordinates[self.depth :]).apply_range(self.element)
        if array != self.like.target.array:
            assert self.best is not None, array
            return self.best._place(domain, array)
        if not self.own:
            return isl.range_named(map_from_affs(domain, coordinates[self.depth + 1 :]), array)
        fixed = isl.domain_onto(self.like.target.relation, range(self.depth))
        outer = map_from_affs(domain, coordinates[: self.depth])
        return outer.apply_range(isl.domain_named(fixed, None))


def _free_iterator(iterators: Sequence[str]) -> str:
    """A stem of names that are no iterator's."""
    stem = "e"
    while any(name.startswith(stem) for name in iterators):
        stem += "_"
    return stem


def _worst(how: Combiner, element: ElementType) -> Expr:
    """The value of an integer type that every other one is better than."""
    number = int(how.worst(element))
    # The least number of a type is no literal.
    return Binary("-", Unary("-", Const(str(-number - 1))), Const("1")) if number < 0 else Const(str(number))


PIECE = f"{PREFIX}piece"
"""The loop over the pieces of another one."""


def chunked(scop: Scop, within: str, depth: int, chunk: int) -> Scop:
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
    iterators = (*statement.iterators[:depth], name, *statement.iterators[depth:])
    position = (*statement.position[: depth + 1], 0, *statement.position[depth + 1 :])
    place = in_two(statement, depth, chunk, first=first)
    return moved(statement, place, iterators, position, statement.descending).statement


def counted_upwards(scop: Scop, within: str, depth: int) -> Scop:
    """The program with a loop that runs downwards, at this depth around a statement, counted upwards."""
    statement = scop.statement(within)
    inside = inside_of(scop, statement.position[: depth + 1])
    if statement.iterators[depth] not in statement.descending:
        return scop
    changed = {}
    for s in inside:
        coordinates = isl.coordinates(s.domain)
        place = map_from_affs(s.domain, [*coordinates[:depth], coordinates[depth].neg(), *coordinates[depth + 1 :]])
        changed[s.name] = moved(s, place, s.iterators, s.position, s.descending - {s.iterators[depth]}).statement
    return replace(scop, statements=tuple(changed.get(s.name, s) for s in scop.statements))
