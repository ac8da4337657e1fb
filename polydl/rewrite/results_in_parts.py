"""A loop that has parts of its results: the program with them, and when it computes the same (`Partial`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polydl.model import isl
from polydl.model.combiners import Combiner, of_comparison, of_function, splitting
from polydl.model.expr import AffineValue, Binary, Call, Conditional, Const, Expr, Load, Unary, loads, on_operands
from polydl.model.isl import quota
from polydl.model.scop import Access, Array, Assignment, BlackBox, MicrokernelCall, Scop, Statement, Storage
from polydl.model.time import map_from_affs
from polydl.model.types import F32, F64
from polydl.rewrite.contract import PREFIX
from polydl.rewrite.scratch_array import Box, element_of, ends_of, free_name, scratch_array
from polydl.rewrite.storage import stored_in

_TURNED = {"<": ">", ">": "<"}


@dataclass(frozen=True, slots=True)
class Partial:
    """A loop that is in order only because it adds up, or finds an extreme, has a part of the result for each
    iteration.

    before:    for i: { …; s += e(i); … }
    after:     for i: { m = 0; …; m += e(i); …; part[i] = m; }  for i: s += part[i]
    requires:  in the loop nothing but these statements touches what they combine into (model.combiners), which is one
               element for all iterations; leave to reassociate. An extreme begins with the old value, and takes another
               one only where that is more (less): it is found in any order, and not a number as well
    """

    statements: tuple[str, ...]
    """Those that accumulate."""
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


def not_apart(scop: Scop, names: Sequence[str], depth: int) -> str | None:
    """Why statements do not accumulate into one element that nothing else in their loop touches; None: they do."""
    group = [scop.statement(name) for name in names]
    first = group[0]
    inside = inside_of(scop, first.position[: depth + 1])
    if any(s not in inside for s in group):
        return f"{', '.join(names)} are not in one loop"
    if any(isinstance(s.body, MicrokernelCall) or s.descending for s in inside):
        return "a microkernel is called in the loop, or it runs downwards"
    kinds = {kind_of(scop, s) for s in group}
    if len(kinds) != 1 or None in kinds or (len(group) > 1 and not any(kind.compounds for kind in kinds if kind)):
        return f"{', '.join(names)} does not accumulate in one way"
    target = target_of(first)
    if any(s.depth == first.depth and not _same_target(first, s) for s in group):
        return f"{', '.join(names)} accumulate into several elements"
    if any(s.depth != first.depth for s in group):
        return f"{', '.join(names)} are in different loops"
    if not isl.domain_onto(target.relation, range(depth)).is_single_valued():
        return f"{target.array} has an element for each iteration"
    others = [s for s in inside if s.name not in names]
    if any(a.array == target.array for s in others for a in s.accesses):
        return f"another statement in the loop touches {target.array}"
    own = [i for s in group for i, a in enumerate(s.accesses) if a.array == target.array and i not in _own(s)]
    return f"{target.array} is read beside" if own else None


def _target_number(statement: Statement) -> int:
    assert isinstance(statement.body, Assignment)
    return statement.body.target


def target_of(statement: Statement) -> Access:
    return statement.accesses[_target_number(statement)]


def _own(statement: Statement) -> frozenset[int]:
    """The accesses through which a statement reads and writes what it accumulates into."""
    target = target_of(statement)
    same = (a.array == target.array and bool(a.relation.is_equal(target.relation)) for a in statement.accesses)
    return frozenset(i for i, one in enumerate(same) if one)


def kind_of(scop: Scop, statement: Statement) -> Combiner | None:
    """How a statement combines what it computes with what there is; None where it does not."""
    body = statement.body
    if not isinstance(body, Assignment):
        return None
    element = scop.arrays[target_of(statement).array].element
    if not (element in (F32, F64) or element.is_int):
        return None
    if body.op != "=":
        return splitting(body.op)
    found = _combined(scop, statement)
    return None if found is None else found[0]


def _combined(scop: Scop, statement: Statement) -> tuple[Combiner | None, Expr] | None:
    """Of `x = e > x ? e : x` and the like, and of `x = fmax(x, e)`: how it combines, and e. `x > e ? x : e` is another
    thing where e may be no number, after which x is forgotten, and of zeros, of which it takes the last."""
    body, own = statement.body, _own(statement)
    assert isinstance(body, Assignment)
    numbers = scop.fast_math or scop.arrays[target_of(statement).array].element.is_int

    def is_old(value: Expr) -> bool:
        return isinstance(value, Load) and value.access in own

    match body.value:
        case Conditional(Binary(">" | "<" as op, left, right), then, otherwise) if is_old(otherwise):
            if is_old(right) and _same(statement, left, then):
                found = of_comparison(op), then
            elif is_old(left) and _same(statement, right, then):
                found = of_comparison(_TURNED[op]), then
            else:
                return None
        case Conditional(Binary(">" | "<" as op, left, right), then, otherwise) if is_old(then) and numbers:
            if is_old(left) and _same(statement, right, otherwise):
                found = of_comparison(op), otherwise
            elif is_old(right) and _same(statement, left, otherwise):
                found = of_comparison(_TURNED[op]), otherwise
            else:
                return None
        case Call(name, (one, two)) if is_old(one) != is_old(two):
            found = of_function(name), two if is_old(one) else one
        case _:
            return None
    return None if own & set(loads(found[1])) else found


def _same_target(one: Statement, two: Statement) -> bool:
    """Whether two statements in the same loops store to the same elements."""
    a, b = target_of(one), target_of(two)
    there = isl.domain_named(a.relation, two.name).intersect_domain(two.domain)
    return a.array == b.array and bool(there.is_equal(b.relation.intersect_domain(two.domain)))


def _same(statement: Statement, one: Expr, two: Expr) -> bool:
    """Whether two expressions of a statement are the same, on the same elements."""

    def numbered(value: Expr) -> Expr:
        if not isinstance(value, Load):
            return on_operands(value, numbered)
        a = statement.accesses[value.access]
        same = (b.array == a.array and b.relation.is_equal(a.relation) for b in statement.accesses)
        return Load(next(number for number, found in enumerate(same) if found))

    return numbered(one) == numbered(two)


def made_of(scop: Scop, plan: Partial) -> Scop | None:
    """The program with parts; None where the number of parts is not known."""
    depth = plan.depth
    if plan.ways:
        scop = _chunked(scop, plan.statements[0], depth, plan.chunk * plan.ways)
        depth += 1
    if plan.chunk > 1:
        scop = _chunked(scop, plan.statements[0], depth, plan.chunk)
    group = [scop.statement(name) for name in plan.statements]
    first, loop = group[0], group[0].position[: depth + 1]
    inside = inside_of(scop, loop)
    points = points_of(group, depth)
    ends = ends_of(last_of(points, depth))
    if ends is None:
        return None
    box, array = Box.between(ends), scop.arrays[target_of(first).array]
    own, part = (free_name(scop, f"{PREFIX}{array.name}_{name}") for name in ("own", "part"))
    arrays = {
        **scop.arrays,
        own: Array(own, array.element, (), Storage.REGION, f"{array.element.c} {own}", restrict=True),
        part: scratch_array(part, array.element, box),
    }
    parts = _Parts(scop, first, points, depth, own, part, element_of(last_of(points, depth), part, box))
    last = max(s.position[depth + 1] for s in inside)
    statements: list[Statement] = []
    for statement in scop.statements:
        if statement is inside[0]:
            statements.append(parts.begun((*loop, 0)))
        moved = _placed(statement, loop)
        if statement in group:
            moved = stored_in(moved, array.name, own, isl.range_named(map_from_affs(moved.domain, []), own))
        statements.append(moved)
        if statement is inside[-1]:
            statements += [parts.ended((*loop, last + 2)), parts.joined((*loop[:-1], loop[-1] + 1, 0))]
    return replace(scop, arrays=arrays, statements=tuple(statements))


def _placed(statement: Statement, loop: tuple[int, ...]) -> Statement:
    """The statement with room for one more at the begin of the loop, and for a loop behind."""
    depth, at = len(loop) - 1, list(statement.position)
    if statement.depth < depth or tuple(at[:depth]) != loop[:depth]:
        return statement
    if at[depth] > loop[depth]:
        at[depth] += 1
    elif at[depth] == loop[depth] and statement.depth > depth:
        at[depth + 1] += 1
    return replace(statement, position=tuple(at))


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

    def begun(self, position: tuple[int, ...]) -> Statement:
        """`m = 0`; of an extreme, `m = x`."""
        target = target_of(self.like)
        kind = kind_of(self.scop, self.like)
        assert kind is not None
        start = kind.start(self.scop.arrays[target.array].element)
        if start is None:
            return self._assigned("b", position, (target.array, self.own), "=", Load(0))
        value = Unary("-", Const(start[1:])) if start.startswith("-") else Const(start)
        return self._assigned("b", position, (self.own,), "=", value)

    def ended(self, position: tuple[int, ...]) -> Statement:
        """`part[i] = m`."""
        return self._assigned("e", position, (self.own, self.part), "=", Load(0))

    def joined(self, position: tuple[int, ...]) -> Statement:
        """`x += part[i]`; of `x = f(x, e)`, what the statement does with part[i] in place of its other value."""
        target, body = target_of(self.like).array, self.like.body
        assert isinstance(body, Assignment)
        found = _combined(self.scop, self.like) if body.op == "=" else None
        if found is None:
            kind = kind_of(self.scop, self.like)
            assert kind is not None
            return self._assigned("j", position, (self.part, target), kind.compounds[0].op, Load(0))
        own, other = _own(self.like), found[1]
        names: list[str] = []

        def with_part(value: Expr) -> Expr:
            if isinstance(value, Load) and value.access in own:
                names.append(target)
            elif _same(self.like, value, other):
                names.append(self.part)
            else:
                return on_operands(value, with_part)
            return Load(len(names) - 1)

        value = with_part(body.value)
        return self._assigned("j", position, (*names, target), "=", value)

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
        return Statement(name, iterators, domain, position, frozenset(), tuple(accesses), body, self.like.span)

    def _place(self, domain: isl.Set, array: str) -> isl.Map:
        if array == self.own:
            return isl.range_named(map_from_affs(domain, []), array)
        coordinates = isl.coordinates(domain)
        if array == self.part:
            return map_from_affs(domain, [coordinates[self.depth]]).apply_range(self.element)
        fixed = isl.domain_onto(target_of(self.like).relation, range(self.depth))
        outer = map_from_affs(domain, coordinates[: self.depth])
        return outer.apply_range(isl.domain_named(fixed, None))


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
    moved = map_from_affs(statement.domain, [*coordinates[:depth], piece, inside, *coordinates[depth + 1 :]])
    moved = isl.range_named(moved, statement.name, iterators)
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
    position = (*statement.position[: depth + 1], 0, *statement.position[depth + 1 :])
    accesses = tuple(replace(a, relation=a.relation.apply_domain(moved)) for a in statement.accesses)
    return replace(
        statement, iterators=iterators, domain=moved.range(), position=position, accesses=accesses, body=body
    )
