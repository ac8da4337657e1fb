"""Schedule trees of polydl's own: bands of loops, sequences and statements, as plain values.

isl's schedule trees (Verdoolaege et al., "Schedule trees", IMPACT 2014) are changed node by node in place; a search
over many variants of one tree is easier on values that share their parts. `times` flattens a tree to what the exact
legality check takes, and polydl.codegen prints it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

import islpy as isl

from polydl.model.schedule import map_from_affs
from polydl.model.scop import Statement


class Run(Enum):
    """How the iterations of a loop run."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    """Shared out among threads."""
    SIMD = "simd"
    """In the lanes of vectors."""
    SUM = "sum"
    """In the lanes of vectors, each with a partial sum of the one element that the loop accumulates into."""


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One loop of a band, for all the statements below it."""

    affs: Mapping[str, isl.Aff]
    """{ S[i…] -> [t] } per statement."""
    run: Run = Run.SERIAL
    unroll: bool = False
    """Written out, iteration by iteration."""
    tile: int = 1
    """Iterations of the underlying loop that one iteration covers."""
    key: object = field(default_factory=object)
    """The underlying loop: the same for a loop over tiles and the loop inside of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """One statement."""

    statement: str


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """Loops around a subtree, outermost first."""

    members: tuple[Member, ...]
    child: Node


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Subtrees one after the other."""

    children: tuple[Node, ...]


Node = Band | Order | Leaf


def statements(node: Node) -> tuple[str, ...]:
    """Names of the statements below a node, in the order in which the tree has them."""
    match node:
        case Leaf(statement):
            return (statement,)
        case Band(_, child):
            return statements(child)
        case Order(children):
            return tuple(name for child in children for name in statements(child))


def restricted(node: Node, names: frozenset[str]) -> Node | None:
    """The part of a tree that holds some of its statements; None when it holds none of them."""
    match node:
        case Leaf(statement):
            return node if statement in names else None
        case Band(members, child):
            below = restricted(child, names)
            if below is None:
                return None
            kept = tuple(replace(m, affs={s: a for s, a in m.affs.items() if s in names}) for m in members)
            return Band(kept, below)
        case Order(children):
            parts = tuple(part for child in children if (part := restricted(child, names)) is not None)
            return None if not parts else parts[0] if len(parts) == 1 else Order(parts)


Step = Member | int
"""What a statement passes on its way down: a loop, or a place in a sequence."""


def paths(node: Node) -> dict[str, tuple[Step, ...]]:
    """Per statement, the loops and places in sequences above it, outermost first."""

    def walk(at: Node, above: tuple[Step, ...]) -> Iterator[tuple[str, tuple[Step, ...]]]:
        match at:
            case Leaf(statement):
                yield statement, above
            case Band(members, child):
                yield from walk(child, (*above, *members))
            case Order(children):
                for place, child in enumerate(children):
                    yield from walk(child, (*above, place))

    return dict(walk(node, ()))


def times(node: Node, of: Mapping[str, Statement]) -> dict[str, isl.Map]:
    """Per statement, { S[i…] -> [t0, …, tn] }, all of the same length: executed in lexicographic order."""
    found = paths(node)
    length = max((len(path) for path in found.values()), default=0)
    result = {}
    for name, path in found.items():
        local_space = isl.LocalSpace.from_space(of[name].domain.get_space())
        affs = [
            step.affs[name] if isinstance(step, Member) else _constant(local_space, step)
            for step in (*path, *(0,) * (length - len(path)))
        ]
        result[name] = map_from_affs(of[name].domain, affs)
    return result


def _constant(local_space: isl.LocalSpace, value: int) -> isl.Aff:
    return isl.Aff.val_on_domain(local_space, isl.Val.int_from_si(local_space.get_ctx(), value))


def bands(node: Node) -> Iterator[Band]:
    """Every band of a tree, outer ones first."""
    match node:
        case Leaf():
            return
        case Band(_, child):
            yield node
            yield from bands(child)
        case Order(children):
            for child in children:
                yield from bands(child)
