"""Statements cut into parts by their instances: the one transformation of index sets, whatever tells where to cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from polydl.equations.equality import Instances
from polydl.equations.step import Rule, Step, itself
from polydl.model import isl
from polydl.model.expr import on_affine_values
from polydl.model.scop import Assignment, Scop, Statement


@dataclass(frozen=True, slots=True)
class Cut(Rule):
    """Statements are cut into parts.

    before:    for k: for i: for j: S                  (Floyd and Warshall: row k is read by every other row)
    after:     for k: for i < k: …;  for i = k: …;  for i > k: …
    requires:  the parts of a statement cover its instances and have none in common; two of them in one loop keep its
               order
    """

    parts: tuple[tuple[str, tuple[str, ...]], ...]
    """(statement, its parts), in textual order."""
    where: str
    """For people: `where its subscripts change`."""

    def instances(self, before: Scop) -> Instances:
        """See `Rule.instances`."""
        return parts_of(before, self.parts)

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
    """The step to a program in which each of some statements is in pieces, which are not empty; `where`: see `Cut`.
    `room`: at each depth, for so many pieces at least (`with_room`)."""
    room = max(room, *(1 + n for own in pieces.values() for piece in own for n in piece.behind.values()))
    statements: list[Statement] = []
    for s in with_room(scop, room).statements:
        for piece in pieces.get(s.name, ()):
            place = list(s.position)
            for depth, number in piece.behind.items():
                place[depth] += number
            statements.append(part_of(s, piece.domain, f"{s.name}{piece.suffix}", tuple(place)))
        statements += [s] if s.name not in pieces else []
    named = ((name, tuple(f"{name}{piece.suffix}" for piece in own)) for name, own in pieces.items())
    return Step(Cut(tuple(named), where), scop, in_order(scop, statements))


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
