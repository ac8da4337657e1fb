"""Statements cut into parts by their instances: the one transformation of index sets, whatever tells where to cut.

What a part touches is written as plainly as its instances allow: of a subscript that is clamped, reflected or wrapped
the expression that it is there, of a condition on loops the arm that is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import product

from polydl.base.records import dataclass
from polydl.equations.decided import simplified, taken
from polydl.equations.equality import Instances
from polydl.equations.step import Rule, Step, itself
from polydl.equations.substitution import Rebuilt
from polydl.model import isl
from polydl.model.expr import Conditional, Expr, on_affine_values, on_operands
from polydl.model.scop import Access, Assignment, Scop, Statement
from polydl.model.strides import affine_rows

_MOST_WRAPS = 3
"""Values of a division in a subscript up to which these are pieces of a function, and no pattern."""

Parts = tuple[tuple[str, tuple[str, ...]], ...]
"""(statement, its parts), in textual order."""


@dataclass(frozen=True, slots=True)
class InParts(Rule):
    """Statements become several, with the same iterators."""

    parts: Parts

    def instances(self, before: Scop) -> Instances:
        """See `Rule.instances`."""
        return parts_of(before, self.parts)


@dataclass(frozen=True, slots=True)
class Cut(InParts):
    """Statements are cut into parts.

    before:    for k: for i: for j: S                  (Floyd and Warshall: row k is read by every other row)
    after:     for k: for i < k: …;  for i = k: …;  for i > k: …
    requires:  the parts of a statement cover its instances and have none in common; two of them in one loop keep its
               order
    """

    where: str
    """For people: `where its subscripts change`."""

    def __str__(self) -> str:
        return "; ".join(f"{name} is cut {self.where}: {', '.join(own)}" for name, own in self.parts)


def parts_of(before: Scop, parts: Sequence[tuple[str, Sequence[str]]]) -> Instances:
    """Where the instances were of the parts of statements, (statement, its parts), under the same iterators."""
    wholes = {name: before.statement(whole) for whole, names in parts for name in names}
    return {name: [(s.name, isl.domain_named(itself(s), name))] for name, s in wholes.items()}


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of the instances of a statement."""

    suffix: str
    """Of the name that they get."""
    domain: isl.Set
    """{ S[i…] } under the name of the statement."""
    behind: Mapping[int, int] = field(default_factory=dict)
    """By depth, how far behind the first piece it stands in the loops around it; -1: in the innermost one."""


def cut(scop: Scop, pieces: Mapping[str, Sequence[Piece]], where: str, *, room: int = 0) -> Step:
    """The step to a program in which each of some statements is in pieces (`in_pieces`); `where`: see `Cut`."""
    parts, after = in_pieces(scop, pieces, room)
    return Step(Cut(parts, where), scop, after)


def in_pieces(scop: Scop, pieces: Mapping[str, Sequence[Piece]], room: int = 0) -> tuple[Parts, Scop]:
    """The program with each of some statements in pieces, those of them that are not empty. `room`: at each depth, for
    so many pieces at least (`with_room`)."""
    there = {name: [piece for piece in own if not piece.domain.is_empty()] for name, own in pieces.items()}
    room = max(room, *(1 + n for own in there.values() for piece in own for n in piece.behind.values()))
    statements: list[Statement] = []
    for s in with_room(scop, room).statements:
        for piece in there.get(s.name, ()):
            place = list(s.position)
            for depth, number in piece.behind.items():
                place[depth] += number
            statements.append(_plain(part_of(s, piece.domain, f"{s.name}{piece.suffix}", tuple(place))))
        statements += [s] if s.name not in there else []
    named = tuple((name, tuple(f"{name}{piece.suffix}" for piece in own)) for name, own in there.items())
    return named, in_order(scop, statements)


def with_room(scop: Scop, room: int) -> Scop:
    """The program with so many times as much room at each depth: order and equality of positions stay as they are."""
    statements = (replace(s, position=tuple(room * p for p in s.position)) for s in scop.statements)
    return replace(scop, statements=tuple(statements))


def in_order(scop: Scop, statements: Sequence[Statement]) -> Scop:
    """The program with other statements, in textual order."""
    return replace(scop, statements=tuple(sorted(statements, key=lambda s: s.position)))


def part_of(statement: Statement, domain: isl.Set, name: str, position: tuple[int, ...]) -> Statement:
    """Some of the instances of an assignment as a statement of another name."""
    assert isinstance(statement.body, Assignment)
    accesses = tuple(
        replace(a, relation=isl.domain_named(a.relation.intersect_domain(domain), name)) for a in statement.accesses
    )
    value = on_affine_values(statement.body.value, lambda one: isl.function_named(one, name))
    body = replace(statement.body, value=value)
    return replace(
        statement, name=name, domain=domain.set_tuple_name(name), position=position, accesses=accesses, body=body
    )


def plain_part(statement: Statement, domain: isl.Set) -> Statement:
    """Some of the instances of an assignment, with its subscripts as the expressions that they are in these, and
    without the conditions that always hold there or never."""
    return _plain(part_of(statement, domain, statement.name, statement.position))


def _plain(part: Statement) -> Statement:
    body = part.body
    assert isinstance(body, Assignment)
    part = replace(part, accesses=tuple(_straightened(part, access) for access in part.accesses))
    value, made = _undecided(body.value, part.domain), Rebuilt()
    if value == body.value:
        return part
    # What is read behind a condition that never holds is not read.
    return made.statement(part, part.target, body.op, made.taken(value, part.accesses))


def _undecided(value: Expr, there: isl.Set) -> Expr:
    """A value for these instances, with the arms of conditions that are taken in all of them for the conditions."""
    if isinstance(value, Conditional):
        arm = taken(value, there)
        if arm is not None and value.typed[0 if arm is value.then else 1]:
            return _undecided(arm, there)
        value = replace(value, condition=simplified(value.condition, there))
    return on_operands(value, lambda one: _undecided(one, there))


def _straightened(statement: Statement, access: Access) -> Access:
    functions = subscripts_in_pieces(statement, access)
    space = statement.domain.get_space()
    made: list[isl.Map] = []
    for choice in product(*functions) if functions else ():
        there = access.relation.domain()
        for piece in choice:
            there = there.intersect(piece.there)
        if not there.is_empty():
            subscripts = [isl.PwAff.from_aff(piece.expression) for piece in choice]
            names = [f"a{number}" for number in range(len(subscripts))]
            one = isl.Map.from_multi_pw_aff(isl.multi(space, access.array, names, subscripts))
            made.append(one.intersect_domain(there))
    relation = isl.united(made)
    return access if relation is None else replace(access, relation=relation)


@dataclass(frozen=True, slots=True)
class Expression:
    """One of the affine expressions that a function is."""

    expression: isl.Aff
    there: isl.Set
    """Instances for which the function is this expression; no two of a function have one in common."""
    most: isl.Set
    """All instances for which it is, those of other pieces included where both have the same value."""


def subscripts_in_pieces(statement: Statement, access: Access) -> list[list[Expression]]:
    """The subscripts of an access in pieces; none where each of them is one affine expression, or one is a pattern."""
    relation = access.relation
    simple = relation.n_basic_map() == 1 and affine_rows(statement, access) is not None
    if simple or relation.is_empty() or not relation.is_single_valued():
        return []
    return [_expressions(one, relation.domain()) for one in isl.components(relation.as_pw_multi_aff())]


def _expressions(function: isl.PwAff, where: isl.Set) -> list[Expression]:
    """The affine expressions that a function is; none where it is a pattern, such as i % 4."""
    found: list[Expression] = []
    for domain, expression in isl.pieces(function.intersect_domain(where)):
        parts = [domain]
        for division in isl.divisors(expression):
            floor = isl.PwAff.from_aff(division).floor()
            values = floor.intersect_domain(domain)
            ends = values.min_val(), values.max_val()
            if not all(end.is_int() for end in ends) or isl.to_int(ends[1]) - isl.to_int(ends[0]) >= _MOST_WRAPS:
                return []
            low, high = map(isl.to_int, ends)
            wraps = [floor.add_constant_val(isl.value(-wrap)).zero_set() for wrap in range(low, high + 1)]
            parts = [some for part in parts for wrap in wraps if not (some := part.intersect(wrap)).is_empty()]
        for part in parts:
            same = next((place for place, known in enumerate(found) if part.is_subset(known.most)), None)
            if same is not None:
                found[same] = replace(found[same], there=found[same].there.union(part).coalesce())
                continue
            # A division that has one value in the part is none: the hull of the graph is one expression.
            graph = isl.Map.from_basic_map(isl.Map.from_pw_aff(function).intersect_domain(part).affine_hull())
            if not graph.is_single_valued():
                return []
            ((_, expressed),) = isl.pieces(isl.components(graph.as_pw_multi_aff())[0])
            most = where.intersect(function.sub(isl.PwAff.from_aff(expressed)).zero_set())
            found.append(Expression(expressed, part, most.coalesce()))
    return found
