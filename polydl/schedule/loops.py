"""The loops of a nest and those inside of its microkernel: what kernels, estimates and trees know of it.

Thousands of these short values are made and compared in a search: transforms of loops make one of another. What one
stands for is its tree (`schedule.as_tree`): that is checked and written. What is asked of the short value instead,
because it is quicker, is held equal to what the tree says: legality by direction vectors (`schedule.quick_legality`) to
the exact check, estimates in batches (`rank.traffic`) to those of trees.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from polydl.base.errors import InputError
from polydl.base.records import dataclass
from polydl.dependences.nests import Nest
from polydl.model import isl
from polydl.model.contraction import Operand
from polydl.model.scop import BlackBox, Statement
from polydl.model.strides import Stride
from polydl.model.time import map_from_affs, time_affs
from polydl.schedule.transform import Transform

HILBERT = "hilbert"
"""In place of a schedule: along a space-filling curve."""

BY_ENTRIES = "entries"
"""In place of a schedule: rows in parts that have as many entries each, one for each thread."""

OMP_SCHEDULE = re.compile(r"(?:(?:static|dynamic|guided)(?:,[1-9][0-9]*)?|auto|runtime)")
"""What may stand in OpenMP's schedule clause (white space left out)."""

SHALLOW = 8
"""Steps of a reduction after which a microkernel with all rows of a product may stop: so it reads about as many rows of
B side by side as prefetchers follow streams, along their whole length, and its output again and again, from a cache.
For one row and a B of 4000 x 4000 doubles (Zen 4, 2 threads) 4, 8, 16 and 512 steps reach 25, 33, 30 and 22 GB/s."""


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop of the transformed nest."""

    name: str
    """`i`, or `i.0`, `i.1`, … from the outermost tile loop to the point loop."""
    iterator: str
    """The original loop."""
    step: int
    """Original iterations that one iteration of this loop covers."""
    within: int | None
    """Original iterations of the surrounding loop's tile; None for the outermost piece."""


@dataclass(frozen=True, slots=True)
class KernelLoops:
    """The loops that run inside a microkernel, by what they are to it."""

    rows: Loop | None
    """Within the block; None: it has a single row."""
    columns: Loop
    """Within the block."""
    reductions: tuple[Loop, ...]
    """Outermost first."""
    product: str = ""
    """See `Microkernel.product`."""

    @property
    def block(self) -> tuple[Loop, ...]:
        """Rows, where there are any, and columns: each of their elements has an accumulator."""
        return (self.columns,) if self.rows is None else (self.rows, self.columns)

    @property
    def all(self) -> tuple[Loop, ...]:
        """The block's, then the reductions."""
        return (*self.block, *self.reductions)

    @property
    def m(self) -> int:
        """Rows of the block."""
        return 1 if self.rows is None else self.rows.within or 1

    @property
    def n(self) -> int:
        """Columns of the block."""
        return self.columns.within or 1


@dataclass(frozen=True, slots=True)
class Packed:
    """A copy of what the loops further inside use of one operand."""

    operand: str
    """`A` or `B` of the microkernel."""
    after: str
    """The loop inside which it is made, once per iteration; empty: once, before all loops."""
    function: str = ""
    """The generated function that makes it ahead of time, once for many runs; empty: each run makes its own."""


@dataclass(frozen=True, slots=True)
class Rows:
    """How innermost loops become vector functions."""

    stream: tuple[str, ...] = ()
    """Arrays that are stored past the caches."""
    keep_order: int = 0
    """1: sums stay in their order, which leaves them out."""
    jam: tuple[int, ...] = ()
    """Iterations of the loops around it that a row takes together (see `schedule.jam`); empty: one."""


@dataclass(frozen=True, slots=True)
class GridAxis:
    """A parallel loop's part of a thread grid."""

    axis: str
    """R, C or L."""
    loop: str
    ways: int
    """Blocks that the loop is cut into."""
    chunk: int
    """Iterations of the loop in a block; the last one may have fewer."""


@dataclass(frozen=True, slots=True)
class NestLoops:
    """The loops of a nest, outermost first: what is parallel, what runs inside a microkernel, what is copied for it."""

    nest: Nest
    loops: tuple[Loop, ...]
    parallel: tuple[str, ...] = ()
    kernel: KernelLoops | None = None
    """The loops that run inside the microkernel; None without one."""
    packs: tuple[Packed, ...] = ()
    grid: tuple[GridAxis, ...] = ()
    """How the parallel loops are cut into blocks, one per thread; empty: OpenMP divides their collapsed iterations."""
    summed: str = ""
    """The loop of the grid each of whose blocks accumulates into its own copy of the output; empty: none."""
    omp_schedule: str = ""
    """Arguments of OpenMP's schedule clause; empty: no clause; `hilbert`: along a Hilbert curve."""
    barriers: tuple[str, ...] = ()
    """See `Parallelize.barriers`."""
    nowait: bool = False
    """See `Parallelize.nowait`."""
    transforms: tuple[LoopTransform, ...] = field(default=(), compare=False)
    """Those that lead from the nest as it is written to these loops, in the order of application."""

    @property
    def family(self) -> tuple[object, ...]:
        """What they have in common with others that differ in the tiles and the order of outer loops only, and not in
        whether a microkernel stops after a few steps (`SHALLOW`)."""
        kernel = self.kernel and (tuple(loop.iterator for loop in self.inner), self.kernel.m, self.kernel.n)
        parallel = {loop.iterator for loop in self.loops if loop.name in self.parallel}
        reduced = {loop.iterator for loop in self.kernel.reductions} if self.kernel is not None else set()
        innermost = [loop.iterator for loop in self.loops if loop.iterator not in reduced][-1:]
        packed = frozenset(pack.operand for pack in self.packs)
        shallow = self.kernel is not None and any((r.within or SHALLOW + 1) <= SHALLOW for r in self.kernel.reductions)
        return kernel, tuple(innermost), frozenset(parallel), packed, shallow

    @property
    def described(self) -> str:
        """In one line: `j/32* pack(B) k.0/256 i/12 | i.mk j.mk k.1`; * is parallel, / a step."""
        words = []
        for loop in self.loops:
            word = f"{loop.name}/{loop.step}" if loop.step > 1 else loop.name
            words.append(f"{word}*" if loop.name in self.parallel else word)
        for pack in sorted(self.packs, key=self.pack_depth, reverse=True):
            words.insert(self.pack_depth(pack), f"pack({pack.operand})")
        inside = " ".join(loop.name for loop in self.inner)
        return " ".join(words) + (f" | {inside}" if inside else "")

    def after(self, transform: LoopTransform, **changes: Any) -> NestLoops:
        """This with some fields changed, and the transform that changed them added to `transforms`."""
        return replace(self, transforms=(*self.transforms, transform), **changes)

    @property
    def name(self) -> str:
        """The nest's."""
        return self.nest.name

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The nest's."""
        return self.nest.statements

    def loop(self, name: str) -> Loop:
        """The loop called `name`. Raises InputError."""
        for loop in self.loops:
            if loop.name == name:
                return loop
        known = ", ".join(repr(loop.name) for loop in self.loops)
        raise InputError(f"nest {self.nest.name} has no loop '{name}' here", hint=f"its loops are {known}")

    def pack_depth(self, pack: Packed) -> int:
        """Number of loops around the copy."""
        return self.loops.index(self.loop(pack.after)) + 1 if pack.after else 0

    @property
    def steps(self) -> bool:
        """Whether its microkernel makes elements anew step by step, from any number (`Contraction.step`)."""
        return self.nest.contraction is not None and self.nest.contraction.step is not None

    @property
    def over_segment(self) -> bool:
        """Whether data choose what its microkernel reads of its operands (`Contraction.within`)."""
        return self.nest.contraction is not None and bool(self.nest.contraction.within)

    def operand(self, role: str) -> Operand:
        """What the microkernel reads as `A` (moved by its rows) or as `B` (by its columns)."""
        assert self.kernel is not None and self.nest.contraction is not None
        operands = self.nest.contraction.roles(self.kernel.columns.iterator)
        assert operands is not None
        return operands[0] if role == "A" else operands[1]

    def is_shared(self, pack: Packed) -> bool:
        """Whether all threads use the same copy: it is made outside of the parallel loops."""
        return not self.parallel or self.pack_depth(pack) <= self.parallel_positions[0]

    @property
    def executed(self) -> tuple[Loop, ...]:
        """All loops in the order in which they run: inside the microkernel the reductions are around the block, whose
        rows and columns are unrolled."""
        return self.loops if self.kernel is None else (*self.loops, *self.kernel.reductions, *self.kernel.block)

    @property
    def held(self) -> tuple[Loop, ...]:
        """Those of a microkernel's block, whose elements have an accumulator each."""
        return () if self.kernel is None else self.kernel.block

    @property
    def inner(self) -> tuple[Loop, ...]:
        """All that run inside the microkernel: the block's, then the reductions."""
        return () if self.kernel is None else self.kernel.all

    @property
    def parallel_positions(self) -> tuple[int, ...]:
        """Positions of the parallel loops."""
        return tuple([i for i, loop in enumerate(self.loops) if loop.name in self.parallel]) if self.parallel else ()

    def forks(self, trips: Sequence[float]) -> float:
        """How often threads are started for the parallel loops, or wait for each other at a barrier of their team.
        `trips`: iterations of each loop."""
        if not self.nowait:
            return math.prod(trips[: self.parallel_positions[0]])
        ends = [place for place, loop in enumerate(self.loops) if loop.name in self.barriers]
        return 1 + sum(math.prod(trips[:place]) for place in ends)


class LoopTransform(Transform, frozen=True):
    """A transform of the loops of one nest."""

    def applied(self, structure: NestLoops) -> NestLoops:
        """The loops with this done to them. Says nothing of legality, which `schedule.tree_check` decides. Raises
        InputError where it does not fit."""
        raise NotImplementedError


def start(nest: Nest) -> NestLoops:
    """The nest as it is written."""
    return NestLoops(nest, tuple(Loop(i, i, 1, None) for i in nest.loops))


def apply(nest: Nest, transforms: Sequence[LoopTransform]) -> NestLoops:
    """The loops that transforms make of a nest, in their order. Raises InputError (see `LoopTransform.applied`)."""
    loops = start(nest)
    for transform in transforms:
        loops = transform.applied(loops)
    return loops


def trips(nest: Nest, loop: Loop) -> int | None:
    """Iterations of a loop in a full tile; None where they depend on a parameter."""
    extent = loop.within if loop.within is not None else nest.counts[loop.iterator].extent
    return None if extent is None else -(-extent // loop.step)


def normalised(nest: Nest, statement: Statement) -> dict[str, isl.Aff]:
    """{ S[i…] -> [y] } for each shared loop, y counted from 0 in steps of 1 in execution order."""
    affs = dict(zip(statement.iterators, time_affs(statement), strict=True))
    return {iterator: nest.counts[iterator].counted(affs[iterator]) for iterator in nest.loops}


def over_rows(statements: Iterable[Statement], affs: Mapping[str, isl.Aff]) -> bool:
    """Whether the next iteration of a loop is the next row for a statement that runs through a segment. `affs`: per
    statement { S[i…] -> [t] } the value of the loop."""
    for statement in statements:
        body = statement.body
        if isinstance(body, BlackBox) and body.entries is not None:
            ahead = body.entries.row.sub(isl.PwAff.from_aff(affs[statement.name])).gist(statement.domain)
            pieces = isl.pieces(ahead)
            factors = isl.coefficients(pieces[0][1]) if len(pieces) == 1 else None
            if factors is not None and not any(factors):
                return True
    return False


def goes_over_rows(structure: NestLoops, loop: Loop) -> bool:
    """Whether a loop's iterations are rows one after the other, in which a statement runs through a segment, without a
    microkernel."""
    if structure.kernel is not None or (loop.step, loop.within) != (1, None):
        return False
    several = structure.statements
    return over_rows(several, {s.name: normalised(structure.nest, s)[loop.iterator] for s in several})


def loops_over_rows(structure: NestLoops, threads: int) -> frozenset[str]:
    """The loops over rows of a sparse matrix, if there are several threads and as many rows at least; else none. On one
    thread the other orders stay, for the written one alone is no variant.

    In a loop outside of these, entries of all rows are read in each iteration, instead of those of one row again and
    again; a loop inside of these is a fork for each row where it is shared out.
    """
    through = any(isinstance(s.body, BlackBox) and s.body.entries is not None for s in structure.statements)
    if threads < 2 or not through:
        return frozenset()
    rows = [loop for loop in structure.loops if goes_over_rows(structure, loop)]
    counts = [trips(structure.nest, loop) for loop in rows]
    many = math.prod(threads if count is None else count for count in counts) >= threads
    return frozenset(loop.name for loop in rows) if many else frozenset()


def loop_aff(loop: Loop, y: isl.Aff) -> isl.Aff:
    """{ S[i…] -> [t] } the value of a loop, relative to the tile that it runs in."""
    if loop.within is not None:
        y = y.sub(isl.floor_div(y, loop.within).scale_val(isl.value(loop.within)))
    return isl.floor_div(y, loop.step) if loop.step > 1 else y


def outer_affs(loops: NestLoops, statement: Statement) -> list[isl.Aff]:
    """{ S[i…] -> [t] } for each loop outside of the microkernel."""
    y = normalised(loops.nest, statement)
    return [loop_aff(loop, y[loop.iterator]) for loop in loops.loops]


def registers(loops: NestLoops) -> dict[str, isl.Map]:
    """Per statement that runs in a microkernel, { S[i…] -> [row, column] }: the accumulator that an instance uses."""
    if loops.kernel is None:
        return {}
    statement = loops.nest.statements[0]
    y = normalised(loops.nest, statement)
    affs = [loop_aff(loop, y[loop.iterator]) for loop in loops.held]
    return {statement.name: map_from_affs(statement.domain, affs)}


def stride_of(nest: Nest, operand: Operand, iterator: str) -> Stride:
    """Elements between neighbours along a counted loop (execution order, steps of one)."""
    factor = nest.counts[iterator].stride * (-1 if iterator in nest.statements[0].descending else 1)
    return multiplied(operand.strides[iterator], factor)


def multiplied(stride: Stride, factor: int) -> Stride:
    """The stride of so many steps."""
    return stride * factor if isinstance(stride, int) else stride.times(factor)


def given(stride: Stride) -> int | None:
    """A stride that is a constant of a generated function; None: an argument of it."""
    return stride if isinstance(stride, int) else None
