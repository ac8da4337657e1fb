"""The schedule of a program: a tree of loops, sequences, statements, microkernels and copies, as plain values.

isl's schedule trees (Verdoolaege et al., "Schedule trees", IMPACT 2014) are changed node by node in place; a search
over many variants of one tree is easier on values that share their parts. `times` flattens a tree to what the exact
legality check takes, and polydl.lower prints it. The loops of a nest (`schedule.loops`) are a small tree
(`schedule.as_tree`), as are the schedules of isl's schedulers and of files, and whole programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Several
from dataclasses import field, replace
from enum import Enum

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.scop import Statement
from polydl.model.time import map_from_affs
from polydl.model.types import ElementType
from polydl.schedule.fusion_conditions import Group, beside
from polydl.schedule.loops import Loop, NestLoops, Packed, Rows, loop_aff, normalised
from polydl.schedule.transform import Transform


class Run(Enum):
    """How the iterations of a loop run."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    """Shared out among threads."""
    SIMD = "simd"
    """In the lanes of vectors."""
    SUM = "sum"
    """In the lanes of vectors, each with a partial sum of the one element that the loop accumulates into."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A loop that is cut into blocks, one for each row, column or layer of a thread grid."""

    axis: str
    """R, C or L."""
    loop: Member
    ways: int
    """Blocks that the loop is cut into."""
    chunk: int
    """Iterations of the loop in a block; the last one may have fewer."""


@dataclass(frozen=True, slots=True)
class Share:
    """How threads share out a parallel loop and those right inside of it."""

    loops: int = 1
    """How many, from the marked one on; without a grid they are collapsed into one."""
    schedule: str = ""
    """Arguments of OpenMP's schedule clause; empty: no clause; `entries`: rows in parts with as many entries each."""
    curve: bool = False
    """Along a space-filling curve."""
    grid: tuple[Cut, ...] = ()
    """Loops that are cut into blocks, one per thread; empty: OpenMP divides the iterations."""
    summed: str = ""
    """Name of the loop of the grid each of whose blocks accumulates into its own copy of the output; empty: none."""


ALONE = Share()
"""One loop, as OpenMP divides it."""


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
    name: str = ""
    """Of the nest's loop that it is, if any: calls and copies have a dimension for it."""
    whole: Mapping[str, isl.Aff] | None = None
    """The values of `affs` counted from the start of the underlying loop; None: `affs` are."""
    split: bool = False
    """With parts of its own for the iterations in which statements run that do not run in all of them."""
    share: Share = ALONE
    """Of a parallel loop that is not shared out together with one around it."""
    names: Mapping[str, str] | None = None
    """Per statement the name of the nest's loop that it is, where several nests share it; None: `name`."""
    diagonal: bool = False
    """Over wavefronts: the sum of a loop over tiles and the next one of its band (`schedule.passes`)."""
    team: bool = False
    """One team of threads runs it: each thread all of its iterations, and its own of the parallel loops inside. Threads
    wait for each other at the ends of loops that have a `barrier`, and nowhere else (`schedule.teams`)."""
    barrier: bool = False
    """The threads of the team wait for each other at its end."""
    _texts: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def called(self, statement: str) -> str:
        """The name of a statement's own loop that it is, if any."""
        return self.name if self.names is None else self.names[statement]

    def text(self, statement: str) -> str:
        """The expression of a statement as isl text, by which loops are compared."""
        if statement not in self._texts:
            self._texts[statement] = str(self.affs[statement])
        return self._texts[statement]


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """One statement: its instances, but for those that kernels of the tree run."""

    statement: str
    rows: Rows | None = None
    """How the innermost loop around it becomes a vector function; None: it stays a loop."""


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A contraction's instances that run in calls of its microkernel: a call for each iteration of the loops above."""

    use: NestLoops
    """The loops whose iterations the calls are, and what runs inside of one."""
    whole: isl.Set
    """{ S[i…] }: the instances."""
    instances: float | None = None
    """About how many they are; None: all of the statement's."""
    group: Group | None = None
    """What is fused into the calls: runs on a block of the output before the first or after the last of them."""
    zeroing: Statement | None = None
    """What sets to zero that which the calls accumulate into: the first call for a block starts from zero instead."""
    tiles: tuple[tuple[Member, int], ...] = ()
    """The loops of the tiled band of which it computes whole tiles, each with the size of these; empty: none."""

    @property
    def statement(self) -> str:
        return self.use.nest.name

    @property
    def element(self) -> ElementType:
        """Element type."""
        assert self.use.nest.contraction is not None
        return self.use.nest.contraction.element

    @property
    def fused(self) -> tuple[Statement, ...]:
        """The statements of the group but the kernel's own."""
        return () if self.group is None else tuple(f.statement for f in self.group.members)

    @property
    def inside(self) -> tuple[Statement, ...]:
        """The statements that run in the calls but the kernel's own."""
        fused = self.fused
        apart = self.zeroing is not None and all(s.name != self.zeroing.name for s in fused)
        return (self.zeroing, *fused) if self.zeroing is not None and apart else fused


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """Operands of a kernel, copied each time the place is reached; the calls inside of `child` read the copies."""

    packs: tuple[Packed, ...]
    """In this order."""
    kernel: Kernel
    child: Node

    @property
    def arrays(self) -> frozenset[str]:
        """Those that are copied."""
        return frozenset(self.kernel.use.operand(pack.operand).array for pack in self.packs)


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """Loops around a subtree, outermost first."""

    members: tuple[Member, ...]
    child: Node


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """Subtrees one after the other."""

    children: tuple[Node, ...]


Node = Band | Sequence | Leaf | Kernel | Copy


class TreeTransform(Transform, frozen=True):
    """A transform of the tree of consecutive statements."""

    def applied(self, tree: Node) -> Node:
        """The tree with this done to it. Says nothing of legality, which `schedule.tree_check` decides."""
        raise NotImplementedError


def sequence(children: Several[Node]) -> Node:
    """Subtrees one after the other; the subtree itself where it is one."""
    return children[0] if len(children) == 1 else Sequence(tuple(children))


def subtrees(node: Node) -> tuple[Node, ...]:
    """The nodes right below one."""
    match node:
        case Leaf() | Kernel():
            return ()
        case Copy(_, _, child) | Band(_, child):
            return (child,)
        case Sequence(children):
            return children


def on_subtrees(node: Node, change: Callable[[Node], Node]) -> Node:
    """The same node above changed ones."""
    match node:
        case Leaf() | Kernel():
            return node
        case Copy(packs, kernel, child):
            return Copy(packs, kernel, change(child))
        case Band(members, child):
            return Band(members, change(child))
        case Sequence(children):
            return Sequence(tuple(map(change, children)))


def statements(node: Node) -> tuple[str, ...]:
    """Names of the statements below a node, each once, in the order in which the tree has them."""
    match node:
        case Leaf(statement):
            return (statement,)
        case Kernel():
            return (node.statement, *(s.name for s in node.inside))
        case _:
            return tuple(dict.fromkeys(name for child in subtrees(node) for name in statements(child)))


def in_rows(node: Node, rows: Rows) -> Node:
    """The tree whose innermost loops become vector functions."""
    match node:
        case Leaf(statement):
            return Leaf(statement, rows)
        case _:
            return on_subtrees(node, lambda below: in_rows(below, rows))


def rows_of(node: Node) -> dict[str, Rows]:
    """By statement how the innermost loops around it become vector functions; those of others stay loops."""
    return {at.statement: at.rows for at, _ in steps(node) if isinstance(at, Leaf) and at.rows is not None}


def own_statements(node: Node) -> tuple[str, ...]:
    """Names of the statements below a node, but for those that run inside of a kernel of another one."""
    return tuple(dict.fromkeys(at.statement for at, _ in steps(node)))


def summed_cut(node: Node) -> Cut | None:
    """The loop of a thread grid each of whose blocks accumulates into its own copy of the output, if there is one."""
    shares = (member.share for band in bands(node) for member in band.members if member.share.summed)
    return next((cut for share in shares for cut in share.grid if cut.loop.name == share.summed), None)


def with_kernels(node: Node, made: Mapping[Kernel, Kernel]) -> Node:
    """The tree with other kernels in the places of its own."""
    match node:
        case Kernel():
            return made[node]
        case Copy(packs, kernel, child):
            return Copy(packs, made[kernel], with_kernels(child, made))
        case _:
            return on_subtrees(node, lambda below: with_kernels(below, made))


def restricted(node: Node, names: frozenset[str]) -> Node | None:
    """The part of a tree that holds some of its statements; None when it holds none of them."""
    match node:
        case Leaf(statement):
            return node if statement in names else None
        case Kernel():
            return node if node.statement in names else None
        case Copy(packs, kernel, child):
            below = restricted(child, names)
            return None if below is None else Copy(packs, kernel, below)
        case Band(members, child):
            below = restricted(child, names)
            if below is None:
                return None
            kept = tuple(replace(m, affs={s: a for s, a in m.affs.items() if s in names}) for m in members)
            return Band(kept, below)
        case Sequence(children):
            parts = tuple(part for child in children if (part := restricted(child, names)) is not None)
            return sequence(parts) if parts else None


Step = Member | int
"""What a statement passes on its way down: a loop, or a place in a sequence."""


def steps(node: Node, copied: str = "") -> Iterator[tuple[Leaf | Kernel, tuple[Step, ...]]]:
    """Every leaf and kernel of a tree with the loops and places in sequences above it, outermost first.

    `copied`: an array; below a copy of it no more loops and places are given.
    """

    def walk(at: Node, above: tuple[Step, ...], frozen: bool) -> Iterator[tuple[Leaf | Kernel, tuple[Step, ...]]]:
        match at:
            case Leaf() | Kernel():
                yield at, above
            case Copy(_, _, child):
                yield from walk(child, above, frozen or copied in at.arrays)
            case Band(members, child):
                yield from walk(child, above if frozen else (*above, *members), frozen)
            case Sequence(children):
                for place, child in enumerate(children):
                    yield from walk(child, above if frozen else (*above, place), frozen)

    return walk(node, (), frozen=False)


def paths(node: Node) -> dict[str, tuple[Step, ...]]:
    """Per statement, the loops and places in sequences above its leaf, outermost first; above its kernel where there
    is none."""
    found: dict[str, tuple[Step, ...]] = {}
    for at, path in steps(node):
        if isinstance(at, Leaf):
            found[at.statement] = path
        else:
            found.setdefault(at.statement, path)
    return found


def kernels(node: Node) -> Iterator[Kernel]:
    """Every kernel of a tree."""
    return (at for at, _ in steps(node) if isinstance(at, Kernel))


def kernel_below(node: Node) -> Kernel | None:
    """The kernel of a subtree that is a chain of loops and copies around one kernel, beside which its statement's leaf
    may stand; None for any other subtree."""
    match node:
        case Kernel():
            return node
        case Band(_, child) | Copy(_, _, child):
            return kernel_below(child)
        case Sequence((Kernel() as kernel, *others)):
            return kernel if all(statements(other) == (kernel.statement,) for other in others) else None
        case _:
            return None


def times(node: Node, of: Mapping[str, Statement], copied: str = "", *, at_once: bool = False) -> dict[str, isl.Map]:
    """Per statement, { S[i…] -> [t0, …, tn] }, all of the same length: executed in lexicographic order.

    The instances of one call of a microkernel have equal times: it is free to order them; but for those of steps
    (`Contraction.step`), which it runs in the order of its reductions. `at_once`: these have equal times, too.
    `copied`: an array; all that runs after one copy of it and before the next has equal times, as it may read what the
    array was then.
    """
    found = list(steps(node, copied))
    at_once = at_once or bool(copied)
    inner: dict[Leaf | Kernel, tuple[Loop, ...]] = {
        at: at.use.kernel.reductions for at, _ in found if isinstance(at, Kernel) and at.use.kernel and at.use.steps
    }
    length = max(
        (
            len(path) + (len(inner[at]) if isinstance(at, Kernel) and at in inner and not at_once else 0)
            for at, path in found
        ),
        default=0,
    )
    inside = any(at.inside for at, _ in found if isinstance(at, Kernel))
    result: dict[str, isl.Map] = {}
    for at, path in found:
        name = at.statement
        domain = of[name].domain
        affs = _affs(path, name, domain, length)
        if isinstance(at, Kernel) and at in inner and not at_once:
            y = normalised(at.use.nest, of[name])
            affs[len(path) : len(path) + len(inner[at])] = [loop_aff(loop, y[loop.iterator]) for loop in inner[at]]
        here = map_from_affs(domain, affs)
        if isinstance(at, Kernel):
            here = here.intersect_domain(at.whole)
        else:
            taken = [k.whole for k, _ in found if isinstance(k, Kernel) and k.statement == name]
            for whole in taken:
                here = here.subtract(here.intersect_domain(whole))
        result[name] = result[name].union(here) if name in result else here
    if not inside:
        return result
    result = {name: _at(time, 0) for name, time in result.items()}
    for at, _ in found:
        if isinstance(at, Kernel) and at.inside:
            result |= _times_inside(at, result)
    return result


def _affs(path: Several[Step], name: str, domain: isl.Set, length: int) -> list[isl.Aff]:
    """The times of a path, padded with zeros."""
    padded = (*path, *(0 for _ in range(length - len(path))))
    return [step.affs[name] if isinstance(step, Member) else isl.constant(domain, step) for step in padded]


def _times_inside(kernel: Kernel, times: Mapping[str, isl.Map]) -> dict[str, isl.Map]:
    """Per statement that runs in a kernel's calls { S[i…] -> [t…, k] }: an element's instances run right after the last
    (before the first) of the kernel's on it, k keeping those of one time in order."""
    before = [(f.statement, f.element.reverse()) for f in (kernel.group.before if kernel.group else ())]
    after = [(f.statement, f.element.reverse()) for f in (kernel.group.after if kernel.group else ())]
    if kernel.zeroing is not None and len(before) + len(after) < len(kernel.inside):
        before.insert(0, (kernel.zeroing, _written(kernel.zeroing)))
    of_element = _written(kernel.use.nest.statements[0]).reverse()
    own = times[kernel.statement]
    whole = isl.range_onto(own, range(isl.range_arity(own) - 1))
    elements = of_element.apply_range(whole)
    return {s.name: _at(when, number) for s, number, when in beside(before, after, elements)}


def _written(statement: Statement) -> isl.Map:
    """{ S[i…] -> A[a…] } the element that each instance writes."""
    access = next(a for a in statement.accesses if a.write)
    return access.relation.intersect_domain(statement.domain)


def _at(times: isl.Map, k: int) -> isl.Map:
    """The times with one more dimension, which is k."""
    return times.flat_range_product(isl.Map.from_aff(isl.constant(times.get_space().domain(), k)))


def bands(node: Node) -> Iterator[Band]:
    """Every band of a tree, outer ones first."""
    if isinstance(node, Band):
        yield node
    for below in subtrees(node):
        yield from bands(below)


def in_threads(node: Node) -> bool:
    """Whether a tree has parallel loops."""
    return any(member.run is Run.PARALLEL for band in bands(node) for member in band.members)
