"""Statements as they are written, nests with transforms, and whole programs as schedule trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from polydl.model import isl
from polydl.model.isl import floor_div
from polydl.model.scop import Statement
from polydl.model.time import time_affs
from polydl.schedule import tree
from polydl.schedule.loops import HILBERT, Loop, NestLoops, loop_aff, normalised
from polydl.schedule.tree import Band, Copy, Cut, Kernel, Leaf, Member, Node, Run, Share


def written(statements: Sequence[Statement], depth: int = 0) -> Node:
    """The order as it is written: a band for each loop inside of the outer `depth` ones."""
    if len(statements) == 1 and statements[0].depth == depth:
        return Leaf(statements[0].name)
    groups: dict[int, list[Statement]] = {}
    for statement in statements:
        groups.setdefault(statement.position[depth], []).append(statement)
    children: list[Node] = []
    for _, group in sorted(groups.items()):
        if group[0].depth == depth:
            children.append(Leaf(group[0].name))
            continue
        member = Member({s.name: time_affs(s)[depth] for s in group})
        children.append(Band((member,), written(group, depth + 1)))
    return tree.sequence(children)


class _Affs(Mapping[str, isl.Aff]):
    """Expressions of statements, made when they are asked for: few of the trees of a search are looked at closely."""

    def __init__(self, statements: Sequence[Statement], make: Callable[[Statement], isl.Aff]):
        self._of = {s.name: s for s in statements}
        self._make = make
        self._made: dict[str, isl.Aff] = {}

    def __getitem__(self, name: str) -> isl.Aff:
        if name not in self._made:
            self._made[name] = self._make(self._of[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)


class _Members:
    """The loops of a structure as those of a tree."""

    def __init__(self, structure: NestLoops):
        self.structure = structure
        self._keys = {iterator: object() for iterator in structure.nest.loops}
        self._counted: dict[str, Mapping[str, isl.Aff]] = {}

    def member(self, loop: Loop) -> Member:
        nest = self.structure.nest
        size = loop.step * nest.counts[loop.iterator].stride if loop.step > 1 else 1

        def relative(statement: Statement) -> isl.Aff:
            if statement.name not in self._counted:
                self._counted[statement.name] = normalised(nest, statement)
            return loop_aff(loop, self._counted[statement.name][loop.iterator])

        def whole(statement: Statement) -> isl.Aff:
            aff = time_affs(statement)[nest.loops.index(loop.iterator)]
            return floor_div(aff, size) if size > 1 else aff

        return Member(
            _Affs(nest.statements, relative),
            Run.PARALLEL if loop.name in self.structure.parallel else Run.SERIAL,
            tile=size,
            key=self._keys[loop.iterator],
            name=loop.name,
            whole=_Affs(nest.statements, whole),
        )


def as_tree(structure: NestLoops) -> Node:
    """The tree that runs a nest's statements in the order of its loops."""
    nest, loops = structure.nest, _Members(structure)
    kernel = None
    if structure.kernel is None:
        below = written(nest.statements, len(nest.loops))
    else:
        (statement,) = nest.statements
        kernel = Kernel(structure, statement.domain)
        rest = Band(tuple(loops.member(loop) for loop in _without_call(structure)), Leaf(statement.name))
        below = tree.Sequence((kernel, rest))
    members = [loops.member(loop) for loop in structure.loops]
    for place in split_positions(structure):
        members[place] = replace(members[place], split=True)
    at = structure.parallel_positions
    if at:
        of = {m.name: m for m in members}
        cuts = tuple(Cut(axis.axis, of[axis.loop], axis.ways, axis.chunk) for axis in structure.grid)
        curve = structure.omp_schedule == HILBERT
        schedule = "" if curve or cuts else structure.omp_schedule
        share = Share(at[-1] - at[0] + 1, schedule, curve, cuts, structure.summed)
        members[at[0]] = replace(members[at[0]], share=share)
    if structure.nowait:
        waits = [loop.name in structure.barriers for loop in structure.loops]
        members = [replace(m, barrier=wait) for m, wait in zip(members, waits, strict=True)]
        members[0] = replace(members[0], team=True)
    return _around(structure, members, below, kernel)


def _without_call(structure: NestLoops) -> list[Loop]:
    """The loops of a block that no call runs, outermost first. The columns are innermost: compilers make vectors of
    these, but add up sums of floats one by one."""
    assert structure.kernel is not None
    columns = structure.kernel.columns
    return [*(loop for loop in structure.inner if loop is not columns), columns]


def loops_inside(structure: NestLoops, child: Node, kernel: Kernel, outside: int) -> Node:
    """A structure's loops around a subtree, but for the `outside` outermost ones, with the copies between them."""
    loops = _Members(structure)
    return _around(structure, [loops.member(loop) for loop in structure.loops[outside:]], child, kernel)


def inside_calls(structure: NestLoops) -> tuple[Member, ...]:
    """The loops that run inside a microkernel's calls, outermost first."""
    loops = _Members(structure)
    return tuple(loops.member(loop) for loop in structure.executed[len(structure.loops) :])


def _around(structure: NestLoops, members: Sequence[Member], child: Node, kernel: Kernel | None) -> Node:
    """Loops, the innermost ones of a structure, around a subtree, with the copies that are due between them."""
    outside = len(structure.loops) - len(members)
    node, joined = child, list[Member]()
    for depth in reversed(range(len(members) + 1)):
        due = tuple(pack for pack in structure.packs if structure.pack_depth(pack) == depth + outside)
        if due:
            assert kernel is not None
            node, joined = Copy(due, kernel, _band(joined, node)), []
        if depth:
            joined.insert(0, members[depth - 1])
    return _band(joined, node)


def _band(members: Sequence[Member], child: Node) -> Node:
    return Band(tuple(members), child) if members else child


def split_positions(structure: NestLoops) -> tuple[int, ...]:
    """Loops of which some statement runs in one iteration only, as a nest does that was fused into the last one: their
    index set is split there (Griebl, Feautrier, Lengauer: "Index set splitting", IJPP 2000), so that no condition is
    left in the loop."""
    nest = structure.nest
    if structure.kernel is not None or len(nest.statements) < 2 or not nest.perfect:
        return ()
    fixed = [{i for i in nest.loops if _is_fixed(s, i)} for s in nest.statements]
    some = {i for i in nest.loops if any(i in one for one in fixed) and not all(i in one for one in fixed)}
    return tuple(p for p, loop in enumerate(structure.loops) if loop.iterator in some)


def _is_fixed(statement: Statement, iterator: str) -> bool:
    """Whether a statement runs for one value of a loop, whatever the loops around it are."""
    return bool(isl.project_onto(statement.domain, [iterator]).is_singleton())
