"""Schedule trees of polydl's own: bands of loops, sequences and statements, as plain values.

isl's schedule trees (Verdoolaege et al., "Schedule trees", IMPACT 2014) are changed node by node in place; a search
over many variants of one tree is easier on values that share their parts. `times` flattens a tree to what the exact
legality check takes, and polydl.lower prints it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from polydl.model import isl
from polydl.model.schedule import map_from_affs
from polydl.model.scop import Statement
from polydl.model.types import ElementType
from polydl.schedule.structure import Structure


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
    _texts: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def text(self, statement: str) -> str:
        """The expression of a statement as isl text, by which loops are compared."""
        if statement not in self._texts:
            self._texts[statement] = str(self.affs[statement])
        return self._texts[statement]


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


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A contraction's instances that run in calls of its microkernel."""

    structure: Structure
    """The loops over tiles, copies inside of them, the loops over the blocks of a tile, the microkernel."""
    whole: isl.Set
    """{ S[i…] }: the instances."""
    instances: float
    """About how many they are."""

    @property
    def statement(self) -> str:
        return self.structure.nest.name

    @property
    def element(self) -> ElementType:
        """Element type."""
        assert self.structure.nest.contraction is not None
        return self.structure.nest.contraction.element


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """A subtree inside of loops over tiles, but for the instances that run in microkernels: in each tile, the subtree
    comes first, then the calls of one kernel after the other."""

    child: Node
    kernels: tuple[Kernel, ...]


Node = Band | Order | Leaf | Blocks


def statements(node: Node) -> tuple[str, ...]:
    """Names of the statements below a node, in the order in which the tree has them."""
    match node:
        case Leaf(statement):
            return (statement,)
        case Band(_, child) | Blocks(child, _):
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
        case Blocks(child, kernels):
            below = restricted(child, names)
            return None if below is None else Blocks(below, tuple(k for k in kernels if k.statement in names))
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
            case Blocks(child, _):
                yield from walk(child, (*above, 0))
            case Order(children):
                for place, child in enumerate(children):
                    yield from walk(child, (*above, place))

    return dict(walk(node, ()))


def kernels(root: Node) -> Iterator[tuple[Kernel, int, int]]:
    """Every kernel of a tree, with its place in the order of a tile and the number of loops and places in sequences
    above that."""

    def walk(at: Node, above: int) -> Iterator[tuple[Kernel, int, int]]:
        match at:
            case Leaf():
                return
            case Band(members, child):
                yield from walk(child, above + len(members))
            case Blocks(child, found):
                yield from ((kernel, place, above) for place, kernel in enumerate(found, 1))
                yield from walk(child, above + 1)
            case Order(children):
                for child in children:
                    yield from walk(child, above + 1)

    return walk(root, 0)


def times(node: Node, of: Mapping[str, Statement]) -> dict[str, isl.Map]:
    """Per statement, { S[i…] -> [t0, …, tn] }, all of the same length: executed in lexicographic order.

    The instances of one kernel in one tile have equal times: a microkernel is free to order them, and what it reads may
    be a copy made before the first of them.
    """
    found = paths(node)
    blocked = list(kernels(node))
    length = max((len(path) for path in found.values()), default=0)
    result = {}
    for name, path in found.items():
        domain = of[name].domain
        result[name] = map_from_affs(domain, _affs(path, name, domain, length))
    for kernel, place, depth in blocked:
        name = kernel.statement
        domain = of[name].domain
        affs = _affs([*found[name][:depth], place], name, domain, length)
        plain = result[name].intersect_domain(domain.subtract(kernel.whole))
        result[name] = plain.union(map_from_affs(kernel.whole, affs))
    return result


def _affs(path: Sequence[Step], name: str, domain: isl.Set, length: int) -> list[isl.Aff]:
    """The times of a path, padded with zeros."""
    padded = (*path, *(0 for _ in range(length - len(path))))
    return [step.affs[name] if isinstance(step, Member) else isl.constant(domain, step) for step in padded]


def bands(node: Node) -> Iterator[Band]:
    """Every band of a tree, outer ones first."""
    match node:
        case Leaf():
            return
        case Band(_, child):
            yield node
            yield from bands(child)
        case Blocks(child, _):
            yield from bands(child)
        case Order(children):
            for child in children:
                yield from bands(child)
