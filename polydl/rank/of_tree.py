"""Turns schedule trees, with the microkernels inside of them, into steps, which are estimated (rank.estimate_steps)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from polydl.base.records import dataclass
from polydl.kernels.families import rectangle_cycles
from polydl.kernels.innermost import RowOptions
from polydl.kernels.narrow_values import row_element
from polydl.kernels.transposes import Rectangle
from polydl.kernels.tree_rows import Inside, common_options, row_options
from polydl.model.scop import Assignment
from polydl.rank.compute import kernel_cycles
from polydl.rank.estimate_steps import Copied, Innermost, InOrder, Repeat, Step
from polydl.rank.footprints import Box, Footprints, Part
from polydl.rank.instruction_set import target_isa
from polydl.rank.paths import Path
from polydl.rank.plain import (
    LOOP_CYCLES,
    Inner,
    Way,
    Work,
    cycles_of_compiler,
    in_loop_around,
    into_one_element,
    iteration_cycles,
)
from polydl.rank.ranker import FloatArray
from polydl.rank.slanted import NOTHING, left_out
from polydl.schedule.grouping import copied_bytes
from polydl.schedule.loops import HILBERT, Packed
from polydl.schedule.part_storage import part_storage
from polydl.schedule.tree import (
    Band,
    Copy,
    Kernel,
    Leaf,
    Member,
    Node,
    Run,
    kernel_below,
    kernels,
    own_statements,
    paths,
)
from polydl.schedule.tree import Sequence as Children
from polydl.target import Machine

_NONE = 1e-6
"""Part of a statement's instances below which they count as none."""


@dataclass(frozen=True, slots=True)
class Row:
    """A piece of a program whose footprint is asked for."""

    box: Box
    kernel: Kernel | None = None
    """The one that it is a part of."""
    packed: frozenset[str] = frozenset()
    """Arrays that are read from a copy there."""
    called: bool = False
    """It is inside of a microkernel's call."""
    parts: tuple[tuple[str, Box], ...] = ()
    """Arrays of which a part is in memory at a time, and what touches no more than that part."""
    tiles: tuple[int, float] | None = None
    """Of a wavefront: the row of one of its tiles, an earlier one, and how many tiles it has on average. It touches
    at most that many times what the tile does, wherever in the box its tiles lie."""

    @property
    def boxes(self) -> tuple[Box, ...]:
        """All whose footprints are asked for."""
        return (self.box, *(box for _, box in self.parts))


@dataclass
class Program:
    """Steps, and the pieces that their rows number."""

    footprints: Footprints
    machine: Machine
    rows: list[Row] = field(default_factory=list)
    _paths: dict[str, Path] = field(default_factory=dict)
    _left: dict[str, float] = field(default_factory=dict)
    """By statement the part of its instances that no kernel runs."""
    _parts: Mapping[str, int] = field(default_factory=dict)
    """Arrays of which a part is in memory at a time: by array the loops outside of its use."""
    _options: Mapping[str, RowOptions] = field(default_factory=dict)
    """By statement what innermost loops around it may become; those around others stay loops."""

    def steps(self, tree: Node) -> Step:
        """The steps of a whole tree; its rows are added to those that there are."""
        works = self.footprints.works
        self._paths = {
            name: Path(works[name], tuple(step for step in path if isinstance(step, Member)))
            for name, path in paths(tree).items()
        }
        made = part_storage(self.footprints.scop, tree) if works else {}
        self._parts = {n: b.loops for n, b in made.items() if n in self.footprints.arrays}
        self._left = dict.fromkeys(self._paths, 1.0)
        self._options = row_options(next(iter(works.values())).scop, tree) if works else {}
        for kernel in kernels(tree):
            whole = works[kernel.statement].instances
            self._left[kernel.statement] -= (whole if kernel.instances is None else kernel.instances) / max(whole, 1.0)
        return self._step(tree, 0, None, 1.0)

    def inside(self, tree: Node, loops: int) -> float:
        """Bytes that one iteration of the outermost loops of a tree touches."""
        self.steps(tree)
        row = self._piece(own_statements(tree), loops)
        return float(self.touched(1)[row].sum())

    def row(self, row: Row) -> int:
        """The number of a new row."""
        self.rows.append(row)
        return len(self.rows) - 1

    def _piece(self, names: Sequence[str], level: int) -> int:
        parts = tuple(
            (array, tuple(self._paths[name].part(loops) for name in names))
            for array, loops in self._parts.items()
            if level < loops
        )
        return self.row(Row(tuple(self._paths[name].part(level) for name in names), parts=parts))

    def touched(self, unit: int) -> FloatArray:
        """(rows, arrays): bytes of the units of so many bytes that each row touches."""
        found = self.footprints.touched([row.box for row in self.rows], unit)
        for number, row in enumerate(self.rows):
            for array, box in row.parts:
                column = self.footprints.arrays.index(array)
                part = self.footprints.touched([box], unit)[0][column]
                found[number, column] = min(found[number, column], part)
            if row.tiles is not None:
                one, several = row.tiles
                found[number] = np.minimum(found[number], found[one] * max(several, 1.0))
        return found

    def _step(
        self, node: Node, level: int, around: Member | None, trips: float, *, beside: bool = False, alone: int = 0
    ) -> Step:
        """`level` loops are outside of the node, the last of them is `around`, of so many iterations. `beside`: there
        are other loops in that one. `alone`: so many loops around that one have nothing else in them."""
        kernel = kernel_below(node)
        if kernel is not None:
            return self._kernel(kernel, level, _outside(node, kernel))
        names = own_statements(node)
        if written_out(node):
            return self._innermost(names, level, around, trips, beside=beside, alone=alone)
        if not beside and (called := self._rectangle(node, names, level)) is not None:
            return called
        match node:
            case Band(members, child):
                first, *rest = members
                below = Band(tuple(rest), child) if rest else child
                inside = max(self._paths[n].entries(level + 1) / self._paths[n].entries(level) for n in names)
                row = self._piece(names, level)
                if (sums := self._with_sums(below, level + 1, first, inside)) is not None:
                    return Repeat(row, inside, sums)
                nothing_else = 0 if beside or around is None else alone + 1
                step = self._step(below, level + 1, first, inside, alone=nothing_else)
                if first.diagonal and isinstance(step, Repeat):
                    return self._wavefronts(row, inside, step)
                parallel = first.run is Run.PARALLEL
                apart = around is not None and (around.diagonal or self._in_parts(names))
                forks = self._forks(names, level) if parallel and apart else None
                if parallel and (waits := self._waits(names[0], level)) is not None:
                    forks = waits
                return Repeat(row, inside, step, parallel, forks=forks, schedule=first.share.schedule)
            case Children(children):
                parts = tuple(self._step(c, level, around, trips, beside=True) for c in children if self._runs(c))
                return parts[0] if len(parts) == 1 else InOrder(self._piece(names, level), parts)
            case Copy(packs, kernel, child):
                return self._copied(packs, kernel, self._step(child, level, around, trips), self._piece(names, level))
            case Leaf() | Kernel():
                raise AssertionError("a leaf is written out")

    def _wavefronts(self, row: int, trips: float, tiles: Repeat) -> Repeat:
        """The loops over wavefronts and over the tiles of one: those of `trips` x `tiles.trips` tiles, counted as if
        the outer loop were over one side of them."""
        count = trips + tiles.trips - 1
        several = trips * tiles.trips / count
        front = self.row(replace(self.rows[tiles.row], tiles=(tiles.body.row, several)))
        inner = replace(tiles, row=front, trips=several, tiles=(trips, tiles.trips))
        return Repeat(row, count, inner)

    def _in_parts(self, names: Sequence[str]) -> bool:
        """Whether statements, which share loops, may each run in a part of their iterations."""
        works = [self._paths[name].work for name in names]
        same = len({work.ranges for work in works}) == 1
        return len(works) > 1 and not (same and all(w.instances == math.prod(w.ranges) for w in works))

    def _forks(self, names: Sequence[str], level: int) -> float | None:
        """How often threads are forked for a parallel loop inside of `level` others, which these statements share and
        each may run in a part of. None where counting takes too long."""
        times, all_ = (
            self.footprints.turns([(self._paths[n].work.statement, self._paths[n].loops[:depth]) for n in names])
            for depth in (level, level + 1)
        )
        return 0.0 if times == all_ and times is not None else times  # of one iteration each time: it is no loop

    def _waits(self, name: str, level: int) -> float | None:
        """How often a team of threads is forked whose parallel loops begin inside of `level` others, and how often its
        threads wait for each other; None: there is no team."""
        path = self._paths[name]
        around = path.loops[: level + 1]
        if not any(member.team for member in around):
            return None
        return 1 + sum(path.entries(place) for place, member in enumerate(around) if member.barrier)

    def _runs(self, node: Node) -> bool:
        """Whether kernels leave anything to a node."""
        return any(self._left[name] > _NONE for name in own_statements(node)) or any(True for _ in kernels(node))

    def _innermost(
        self, names: Sequence[str], level: int, around: Member | None, trips: float, *, beside: bool, alone: int
    ) -> Step:
        target = target_isa(self.machine)
        inner, iterations = [], 0.0
        for name in names:
            path = self._paths[name]
            own = [m for m in path.loops[level:] if m.unroll]
            times = math.prod(path.values(level).values()) if own else 1.0
            step = path.step(around) if around is not None else (0.0,) * path.work.statement.depth
            inner.append(Inner(path.work, step, path.shares(own, level), times))
            iterations = max(iterations, path.work.instances * max(self._left[name], 0.0) / times)
        run = around.run if around is not None else Run.SERIAL
        way = {Run.SIMD: Way.VECTOR, Run.SUM: Way.SUM}.get(run)
        if way is Way.SUM and not all(map(into_one_element, inner)):
            way = None
        if (lanes := self._lanes(names, level)) is not None:
            inner = [replace(one, across=self._paths[name].step(lanes)) for one, name in zip(inner, names, strict=True)]
            cycles = iteration_cycles(inner, Way.LANES, max(trips, 1.0), target) * iterations
            return Innermost(self._piece(names, level), self.machine.seconds(cycles))
        if level and not beside and self._becomes_row(names, level):
            way, trips = Way.ROW, self._row_length(names, level)
        rounds = self._rounds(names[0], level, alone) if len(names) == 1 else 1.0
        if way is None:
            outer = [self._paths[name].loops[level - 2] for name in names] if level > 1 and alone else []
            found, times = self._in_loops_around(inner, outer, level, trips)
            cycles = cycles_of_compiler(inner, found, (times, max(trips, 1.0)), target, rounds) * iterations
        else:
            cycles = iteration_cycles(inner, way, max(trips, 1.0), target, rounds) * iterations
        return Innermost(self._piece(names, level), self.machine.seconds(cycles))

    def _in_loops_around(
        self, inner: Sequence[Inner], outer: Sequence[Member], level: int, trips: float
    ) -> tuple[list[Inner], float]:
        """Statements in the loop around the innermost one, which is written out, and its iterations; none where it
        is not known how they move."""
        paths_ = [self._paths[one.work.statement.name] for one in inner]
        steps = [path.step(loop) for path, loop in zip(paths_, outer, strict=False)]
        known = [in_loop_around(one, step, trips) for one, step in zip(inner, steps, strict=False) if step is not None]
        if len(known) < len(inner):
            return [], 1.0
        return known, paths_[0].entries(level - 1) / paths_[0].entries(level - 2)

    def _rounds(self, name: str, level: int, alone: int) -> float:
        """How often the innermost of `level` loops runs before the sum of integers in it is put together; 1 of others.
        `alone`: so many loops around it have nothing else in them."""
        path, found = self._paths[name], 1.0
        body = path.work.statement.body
        if not path.work.regroups or not isinstance(body, Assignment):
            return found
        for place in reversed(range(level - 1 - alone, level - 1)):
            loop = path.loops[place]
            if loop.run is not Run.SERIAL or path.work.moves(path.step(loop))[body.target] != 0:
                break
            found *= path.entries(place + 1) / path.entries(place)
        return found

    def _becomes_row(self, names: Sequence[str], level: int) -> bool:
        """Whether the loop right around these statements becomes a row."""
        options = common_options(names, self._options)
        if options is None:
            return False
        inside = []
        for name in names:
            path = self._paths[name]
            inside.append(Inside(path.work.statement, path.loops[:level], path.loops[level:]))
        return self.footprints.becomes_row(inside, options)

    def _with_sums(self, node: Node, level: int, around: Member, trips: float) -> Step | None:
        """The step of a row whose columns add something up in loops of their own; None where it becomes none."""
        inner: dict[str, Member] = {}
        for child in node.children if isinstance(node, Children) else (node,):
            match child:
                case Band((loop,), Leaf() | Children() as below) if loop.run is Run.SERIAL and written_out(below):
                    inner |= dict.fromkeys(own_statements(below), loop)
        names = own_statements(node)
        options = common_options(names, self._options)
        plain = all(len(self._paths[name].loops) == level + (name in inner) for name in names)
        if (
            not inner
            or not plain
            or options is None
            or around.run is not Run.SERIAL
            or any(True for _ in kernels(node))
        ):
            return None
        paths_ = [self._paths[name] for name in names]
        inside = [
            Inside(p.work.statement, p.loops[:level], (), inner.get(n)) for n, p in zip(names, paths_, strict=True)
        ]
        if not self.footprints.becomes_row(inside, options):
            return None
        target = target_isa(self.machine)
        several = [
            Inner(
                p.work, p.step(around), p.shares([], level), 1.0, inner=round(p.entries(level + 1) / p.entries(level))
            )
            if name in inner
            else Inner(p.work, p.step(around), p.shares([], level), 1.0)
            for name, p in zip(names, paths_, strict=True)
        ]
        columns = max(path.entries(level) for path in paths_)
        cycles = iteration_cycles(several, Way.ROW, max(trips, 1.0), target) * columns
        return Innermost(self._piece(names, level), self.machine.seconds(cycles))

    def _rectangle(self, node: Node, names: Sequence[str], level: int) -> Step | None:
        """The innermost loops from here on that run as squares of vectors; None where they don't."""
        path = self._paths[names[0]]
        inner = path.loops[level:]
        options = common_options(names, self._options)
        if options is None or len(names) > 1 or len(inner) < 2 or not _serial_chain(node):
            return None
        if _reads_elsewhere(path.work):
            return None
        trips = [path.entries(k + 1) / path.entries(k) for k in range(level, level + len(inner))]
        moves = [path.work.moves(path.step(member)) for member in inner]
        target = target_isa(self.machine)
        for cut in range(1, len(inner)):
            groups = (range(cut), range(cut, len(inner)))
            evenly = all(_goes_on(path, inner[k], inner[k + 1], trips[k + 1]) for group in groups for k in group[:-1])
            if not evenly:
                continue
            lengths = [math.prod(trips[k] for k in group) for group in groups]
            along = [tuple(map(_whole, moves[group[-1]])) for group in groups]
            statement = path.work.statement
            piece = Rectangle(
                path.work.scop.arrays,
                statement,
                tuple(zip(*along, strict=True)),
                tuple(_same(path.work.rows, k) for k in range(len(statement.accesses))),
                (round(lengths[0]), round(lengths[1])),
                options,
            )
            found = rectangle_cycles(piece, target)
            if found is None:
                continue
            place, cycles = found
            lanes = target.lanes(row_element(path.work.scop.arrays[a.array].element for a in statement.accesses))
            columns, rows = math.ceil(lengths[place] / lanes), math.ceil(lengths[1 - place] / lanes) * lanes
            each = columns * rows * cycles.step + LOOP_CYCLES
            calls = path.work.instances * max(self._left[names[0]], 0.0) / math.prod(lengths)
            return Innermost(self._piece(names, level), self.machine.seconds(each * calls))
        return None

    def _lanes(self, names: Sequence[str], level: int) -> Member | None:
        """The loop around the innermost one that runs in vectors, if any."""
        loops = self._paths[names[0]].loops[: max(level - 1, 0)]
        return next((m for m in reversed(loops) if m.run is Run.SIMD), None)

    def _row_length(self, names: Sequence[str], level: int) -> float:
        """Iterations of a row: of the innermost loop, and of those around it that go on where it ends."""
        several = [self._paths[name] for name in names]
        first = several[0]
        trips = [first.entries(place + 1) / first.entries(place) for place in range(level)]
        length = trips[-1]
        for place in reversed(range(level - 1)):
            outer, inner = first.loops[place], first.loops[place + 1]
            if outer.run is Run.PARALLEL or not all(_goes_on(path, outer, inner, trips[place + 1]) for path in several):
                break
            length *= trips[place]
        return length

    def _kernel(self, kernel: Kernel, level: int, over: int) -> Step:
        """The loops of a kernel inside of those of the tree, but for the outer `over` ones, with its copies: over
        blocks, then the microkernel's own down to a single instance."""
        structure, path = kernel.use, self._paths[kernel.statement]
        loops = structure.executed[over:]
        names = path.work.statement.iterators
        ranges = path.ranges(level) if level else tuple(round(r) for r in path.work.ranges)
        covers = [dict(zip(names, ranges, strict=True))]
        for loop in loops:
            covers.append({**covers[-1], loop.iterator: min(covers[-1][loop.iterator], loop.step)})
        instances = path.work.instances if kernel.instances is None else kernel.instances
        entered = [max(1.0, instances / math.prod(cover.values())) for cover in covers]
        full = [after / before for before, after in itertools.pairwise(entered)]
        calls = entered[len(structure.loops) - over]
        # Inside of a tree's loops, a kernel has the blocks that are boxes; the others are the tree's own.
        left = NOTHING if kernel.tiles else left_out(structure, path.work, self.machine)
        seconds = self.machine.seconds(kernel_cycles(structure, path.work, instances, calls, self.machine, left))
        copies: list[list[Packed]] = [[] for _ in covers]
        packed: frozenset[str] = frozenset()
        for pack in structure.packs:
            depth = structure.pack_depth(pack) - over
            if depth >= 0:
                copies[depth].append(pack)
            else:  # loops are shared with other nests, and the copy stands between them
                packed |= {structure.operand(pack.operand).array}
        rows = []
        for depth, (cover, here) in enumerate(zip(covers, copies, strict=True)):
            packed |= {structure.operand(pack.operand).array for pack in here}
            box = (Part(kernel.statement, tuple(cover[n] for n in names)),)
            rows.append(self.row(Row(box, kernel, packed, called=depth > len(structure.loops) - over)))
        step: Step = Innermost(rows[-1], seconds)
        for depth in reversed(range(len(covers))):
            if depth < len(loops):
                loop = loops[depth]
                parallel = depth + over < len(structure.loops) and loop.name in structure.parallel
                curve = structure.omp_schedule == HILBERT and loop.name == structure.parallel[0]
                forks = structure.forks(full) if parallel and structure.nowait else None
                step = Repeat(rows[depth], full[depth], step, parallel, curve, forks, structure.omp_schedule)
            step = self._copied(copies[depth], kernel, step, rows[depth])
        return step

    def _copied(self, packs: Sequence[Packed], kernel: Kernel, step: Step, row: int) -> Step:
        """A step with copies of a kernel's operands before it."""
        structure, path = kernel.use, self._paths[kernel.statement]
        part = next(one for one in self.rows[row].box if one.statement == kernel.statement)
        iterations = dict(zip(path.work.statement.iterators, part.ranges, strict=True))
        for pack in (p for p in packs if not p.function):
            shared = structure.is_shared(pack) and bool(structure.parallel)
            strides = structure.operand(pack.operand).strides
            elements = math.prod(n for i, n in iterations.items() if strides[i] != 0)
            step = Copied(row, elements * copied_bytes(structure, pack.operand), shared, step)
        return step


def _outside(node: Node, kernel: Kernel) -> int:
    """How many of the loops of a kernel are outside of a node, which is a chain of loops around it; of a kernel by
    itself, those over the tiles of the tree."""
    inside = 0
    while isinstance(node, Band | Copy):
        inside += len(node.members) if isinstance(node, Band) else 0
        node = node.child
    loops = kernel.use.loops
    return sum(loop.within is None for loop in loops) if kernel.tiles and not inside else len(loops) - inside


def _goes_on(path: Path, outer: Member, inner: Member, trips: float) -> bool:
    """Whether each access moves on along a loop as it does along the one inside, of so many iterations."""
    moves = zip(path.work.moves(path.step(outer)), path.work.moves(path.step(inner)), strict=True)
    return all(one is not None and other is not None and one == other * trips for one, other in moves)


def _serial_chain(node: Node) -> bool:
    """Whether a node is loops one inside of the other around a statement, all of which run in their order."""
    match node:
        case Leaf():
            return True
        case Band(members, child):
            return all(m.run is not Run.PARALLEL and not m.unroll for m in members) and _serial_chain(child)
        case _:
            return False


def _reads_elsewhere(work: Work) -> bool:
    """Whether a statement may read other elements of the array that it writes."""
    accesses = work.statement.accesses
    written = {(a.array, row) for a, row in zip(accesses, work.rows, strict=True) if a.write}
    arrays = {array for array, _ in written}
    return any(
        a.array in arrays and (row is None or (a.array, row) not in written)
        for a, row in zip(accesses, work.rows, strict=True)
    )


def _whole(move: float | None) -> int | None:
    return None if move is None or move != round(move) else round(move)


def _same(rows: Sequence[object], access: int) -> int:
    """The first access with the same subscripts."""
    return next(k for k, row in enumerate(rows) if k == access or (row is not None and row == rows[access]))


def written_out(node: Node) -> bool:
    """Whether there are no loops in a node that stay loops."""
    match node:
        case Leaf():
            return True
        case Band(members, child):
            return all(m.unroll for m in members) and written_out(child)
        case Children(children):
            return all(written_out(child) for child in children)
        case Kernel() | Copy():
            return False
