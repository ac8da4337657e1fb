"""A recipe applied to a nest: the loops that result, in order, and the time of every statement instance."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from polydl.base.errors import InputError
from polydl.dependences.nests import Nest
from polydl.model import isl
from polydl.model.contraction import Operand
from polydl.model.schedule import map_from_affs, original_affs, time_affs
from polydl.model.scop import Assignment, Statement
from polydl.schedule.recipe import NestRecipe
from polydl.schedule.transforms import (
    Fuse,
    Microkernel,
    Pack,
    Parallelize,
    Permute,
    Schedule,
    Tile,
    Transform,
    Vectorize,
)

RegisterBlocks = Callable[[Nest], Sequence[tuple[str | None, str, int, int]]]
"""(rows loop, columns loop, m, n) worth trying for a contraction, most promising first."""


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

    @property
    def block(self) -> tuple[Loop, ...]:
        """Rows, where there are any, and columns: each of their elements has an accumulator."""
        return (self.columns,) if self.rows is None else (self.rows, self.columns)

    @property
    def all(self) -> tuple[Loop, ...]:
        """The block's, then the reductions."""
        return (*self.block, *self.reductions)


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
class Structure:
    """A transformed nest: loops outermost first, what is parallel, what runs inside a microkernel."""

    nest: Nest
    loops: tuple[Loop, ...]
    parallel: tuple[str, ...] = ()
    kernel: Microkernel | None = None
    inside: KernelLoops | None = None
    """The loops that run inside the microkernel; None without one."""
    packs: tuple[Pack, ...] = ()
    grid: tuple[GridAxis, ...] = ()
    """How the parallel loops are cut into blocks, one per thread; empty: OpenMP divides their collapsed iterations."""
    summed: str = ""
    """The loop of the grid each of whose blocks accumulates into its own copy of the output; empty: none."""
    omp_schedule: str = ""
    """Arguments of OpenMP's schedule clause; empty: no clause; `hilbert`: along a Hilbert curve."""
    barriers: tuple[str, ...] = ()
    """See `Parallelize.barriers`."""
    fused: str = ""
    """Name of the nest that this one runs inside of (see `Fuse`); empty: it runs by itself."""
    rows: Vectorize | None = None
    """How innermost loops become vector functions; None: they stay loops."""
    transforms: tuple[Transform, ...] = field(default=(), compare=False)
    """The transforms that lead from the nest as it is written to this structure, in the order of application."""

    @property
    def recipe(self) -> NestRecipe:
        """The nest's name and the transforms."""
        return NestRecipe(self.nest.name, self.transforms)

    def loop(self, name: str) -> Loop:
        """The loop called `name`. Raises InputError."""
        for loop in self.loops:
            if loop.name == name:
                return loop
        known = ", ".join(repr(loop.name) for loop in self.loops)
        raise InputError(f"nest {self.nest.name} has no loop '{name}' here", hint=f"its loops are {known}")

    def pack_depth(self, pack: Pack) -> int:
        """Number of loops around the copy."""
        return self.loops.index(self.loop(pack.after)) + 1 if pack.after else 0

    def operand(self, pack: Pack) -> Operand:
        """What a pack copies."""
        assert self.inside is not None and self.nest.contraction is not None
        operands = self.nest.contraction.roles(self.inside.columns.iterator)
        assert operands is not None
        return operands[0] if pack.operand == "A" else operands[1]

    def is_shared(self, pack: Pack) -> bool:
        """Whether all threads use the same copy: it is made outside of the parallel loops."""
        return not self.parallel or self.pack_depth(pack) <= self.parallel_positions[0]

    @property
    def executed(self) -> tuple[Loop, ...]:
        """All loops in the order in which they run: inside the microkernel the reductions are around the block, whose
        rows and columns are unrolled."""
        return self.loops if self.inside is None else (*self.loops, *self.inside.reductions, *self.inside.block)

    @property
    def held(self) -> tuple[Loop, ...]:
        """Those of a microkernel's block, whose elements have an accumulator each."""
        return () if self.inside is None else self.inside.block

    @property
    def inner(self) -> tuple[Loop, ...]:
        """All that run inside the microkernel: the block's, then the reductions."""
        return () if self.inside is None else self.inside.all

    @property
    def parallel_positions(self) -> tuple[int, ...]:
        """Positions of the parallel loops."""
        return tuple([i for i, loop in enumerate(self.loops) if loop.name in self.parallel]) if self.parallel else ()

    @property
    def summed_block(self) -> tuple[int, int] | None:
        """Position of the summed loop and iterations of a block; None where nothing is summed up."""
        chunks = [axis.chunk for axis in self.grid if axis.loop == self.summed]
        return (self.loops.index(self.loop(self.summed)), chunks[0]) if chunks else None


def start(nest: Nest) -> Structure:
    """The nest as it is written."""
    return Structure(nest, tuple(Loop(i, i, 1, None) for i in nest.loops))


def _with(structure: Structure, transform: Transform, **changes: Any) -> Structure:
    """The structure with some fields changed, and the transform that changed them added to `transforms`."""
    return replace(structure, transforms=(*structure.transforms, transform), **changes)


def _tile(structure: Structure, tile: Tile) -> Structure:
    loop = structure.loop(tile.loop)
    sizes = (*tile.sizes, 1)
    if len(sizes) < 2 or any(a <= b or a % b for a, b in itertools.pairwise(sizes)):
        raise InputError(
            f"Tile({tile.loop}) has sizes {tile.sizes}",
            hint="tile sizes must decrease, each dividing the one before, the last greater than 1",
        )
    if loop.within is not None or loop.step != 1:
        raise InputError(f"loop '{tile.loop}' is a piece of a tiled loop already", hint="give all sizes in one Tile")
    pieces = [
        Loop(f"{loop.name}.{i}", loop.iterator, size, None if i == 0 else sizes[i - 1]) for i, size in enumerate(sizes)
    ]
    at = structure.loops.index(loop)
    return _with(structure, tile, loops=(*structure.loops[:at], *pieces, *structure.loops[at + 1 :]))


def _microkernel(structure: Structure, kernel: Microkernel) -> Structure:
    if structure.nest.contraction is None:
        raise InputError(f"nest {structure.nest.name} is not a contraction: no microkernel can be made for it")
    loops = list(structure.loops)

    def block(name: str, size: int) -> Loop:
        loop = structure.loop(name)
        if size < 1 or loop.step != 1 or (loop.within is not None and loop.within % size):
            raise InputError(f"a microkernel block of {size} does not fit loop '{name}'")
        loops[loops.index(loop)] = replace(loop, step=size)
        return Loop(f"{name}.mk", loop.iterator, 1, size)

    rows = None if kernel.rows is None else block(kernel.rows, kernel.m)
    columns = block(kernel.columns, kernel.n)
    reductions = []
    for name in kernel.reduce:
        loop = structure.loop(name)
        if loop.step != 1:
            raise InputError(f"loop '{name}' cannot run inside the microkernel: it is not innermost in its tile")
        reductions.append(loop)
        loops.remove(loop)
    inside = KernelLoops(rows, columns, tuple(reductions))
    return _with(structure, kernel, loops=tuple(loops), kernel=kernel, inside=inside)


def _permute(structure: Structure, permute: Permute) -> Structure:
    if structure.packs or structure.parallel:
        raise InputError("Permute comes before Parallelize and Pack")
    loops = tuple(structure.loop(name) for name in permute.order)
    if len(set(permute.order)) != len(structure.loops) or len(loops) != len(structure.loops):
        known = ", ".join(loop.name for loop in structure.loops)
        raise InputError(f"Permute must name each loop once: {known}")
    for inner, outer in ((a, b) for i, a in enumerate(loops) for b in loops[i + 1 :] if a.iterator == b.iterator):
        if inner.step < outer.step:
            raise InputError(f"loop '{outer.name}' must stay outside of '{inner.name}', which runs within its tiles")
    return _with(structure, permute, loops=loops)


def _parallelize(structure: Structure, parallelize: Parallelize) -> Structure:
    at = [structure.loops.index(structure.loop(name)) for name in parallelize.loops]
    grid = _grid(structure, parallelize) if parallelize.axes or parallelize.ways else ()
    if not at or (at != sorted(set(at)) if grid else at != list(range(at[0], at[0] + len(at)))):
        raise InputError("Parallelize needs adjacent loops, outermost first")
    if parallelize.summed:
        _check_summed(structure, parallelize)
    if parallelize.schedule == HILBERT:
        _check_curve(structure, at, grid=bool(grid))
    elif parallelize.schedule and (grid or not OMP_SCHEDULE.fullmatch(parallelize.schedule)):
        raise InputError(
            f"'{parallelize.schedule}' cannot be the schedule of these loops",
            hint="static, dynamic, guided (each with ',chunk'), auto or runtime; none with a grid, which has its own",
        )
    if any(structure.loops.index(structure.loop(name)) > at[0] for name in parallelize.barriers):
        raise InputError("a barrier inside a parallel loop", hint="OpenMP allows none there")
    return _with(
        structure,
        parallelize,
        parallel=parallelize.loops,
        grid=grid,
        summed=parallelize.summed,
        omp_schedule=parallelize.schedule,
        barriers=parallelize.barriers,
    )


def _check_summed(structure: Structure, parallelize: Parallelize) -> None:
    nest, name = structure.nest, parallelize.summed
    body = nest.statements[0].body
    if name not in parallelize.loops or not parallelize.axes:
        raise InputError(f"'{name}' cannot be summed up: it is no loop of a thread grid", hint="as in C{R:4+}")
    if len(nest.statements) != 1 or not isinstance(body, Assignment) or body.op not in ("+=", "-="):
        raise InputError(f"nest {nest.name} has no sum to share out")
    if sum(a.array == nest.statements[0].accesses[body.target].array for a in nest.statements[0].accesses) > 2:
        raise InputError(f"nest {nest.name} reads its output beside adding to it")
    loop = structure.loop(name)
    if loop.within is not None:
        raise InputError(f"loop '{name}' is not the outermost piece of '{loop.iterator}'")


def _check_curve(structure: Structure, at: Sequence[int], *, grid: bool) -> None:
    loops = [structure.loops[p] for p in at]
    if len(loops) != 2 or grid or not structure.nest.box or loops[0].iterator == loops[1].iterator:
        raise InputError(
            "a Hilbert curve goes through two neighbouring parallel loops of a rectangular nest",
            hint="as in AB@hilbert",
        )


HILBERT = "hilbert"
"""In place of a schedule: along a space-filling curve."""
OMP_SCHEDULE = re.compile(r"(?:(?:static|dynamic|guided)(?:,[1-9][0-9]*)?|auto|runtime)")
"""What may stand in OpenMP's schedule clause (white space left out)."""


def trips(nest: Nest, loop: Loop) -> int | None:
    """Iterations of a loop in a full tile; None where they depend on a parameter."""
    extent = loop.within if loop.within is not None else nest.counts[loop.iterator].extent
    return None if extent is None else -(-extent // loop.step)


def _grid(structure: Structure, parallelize: Parallelize) -> tuple[GridAxis, ...]:
    axes, ways, loops = parallelize.axes, parallelize.ways, parallelize.loops
    if len(axes) != len(loops) or len(ways) != len(loops) or set(axes) != set("RCL"[: len(axes)]) or min(ways) < 1:
        raise InputError(
            f"a thread grid of axes '{axes}' and ways {ways} for {len(loops)} loops",
            hint="one loop takes R, two take R and C, three R, C and L, each cut in at least one way",
        )
    found = []
    for axis, name, way in zip(axes, loops, ways, strict=True):
        trip = trips(structure.nest, structure.loop(name))
        if trip is None:
            raise InputError(f"loop '{name}' has no constant number of iterations to cut in {way}")
        found.append(GridAxis(axis, name, way, max(1, -(-trip // way))))
    return tuple(found)


def _pack(structure: Structure, pack: Pack) -> Structure:
    found = structure.nest.contraction
    if structure.kernel is None or found is None:
        raise InputError("Pack needs a microkernel to read what it packs")
    if pack.operand not in ("A", "B"):
        raise InputError(f"no operand '{pack.operand}' to pack", hint="A is moved by the rows, B by the columns")
    if not structure.nest.box:
        raise InputError(f"nest {structure.nest.name} is not rectangular: its operands cannot be packed")
    if any(other.operand == pack.operand for other in structure.packs):
        raise InputError(f"'{pack.operand}' is packed already")
    for name in structure.kernel.reduce[1:]:
        loop = next(loop for loop in structure.inner if loop.name == name)
        extent = structure.nest.counts[loop.iterator].extent
        if loop.within is not None and extent is not None and extent % loop.within:
            raise InputError(f"partial tiles of '{name}' inside another reduction cannot be packed")
    depth = structure.pack_depth(pack)
    if pack.function and depth:
        raise InputError(f"'{pack.operand}' can only be packed whole ahead of time, not inside of a loop")
    if structure.parallel and structure.parallel_positions[0] < depth <= structure.parallel_positions[-1]:
        raise InputError("no copy can be made between collapsed loops")
    return _with(structure, pack, packs=(*structure.packs, pack))


def extended(structure: Structure, transform: Transform) -> Structure:
    """A structure with one more transform applied. Raises InputError when it does not fit; says nothing of legality,
    which `schedule` and dependences.legality decide."""
    match transform:
        case Tile():
            return _tile(structure, transform)
        case Microkernel():
            return _microkernel(structure, transform)
        case Permute():
            return _permute(structure, transform)
        case Parallelize():
            return _parallelize(structure, transform)
        case Pack():
            return _pack(structure, transform)
        case Fuse():
            return _with(structure, transform, fused=transform.into)
        case Vectorize():
            return _with(structure, transform, rows=transform)
        case Schedule():
            raise InputError(f"Schedule orders whole regions: it cannot be a step of nest {structure.nest.name}")


def apply(nest: Nest, transforms: Sequence[Transform]) -> Structure:
    """The structure that the transforms make of a nest, in their order. Raises InputError (see `extended`)."""
    structure = start(nest)
    for transform in transforms:
        structure = extended(structure, transform)
    return structure


def normalised(nest: Nest, statement: Statement) -> dict[str, isl.Aff]:
    """{ S[i…] -> [y] } for each shared loop, y counted from 0 in steps of 1 in execution order."""
    affs = dict(zip(statement.iterators, time_affs(statement), strict=True))
    result = {}
    for iterator in nest.loops:
        count = nest.counts[iterator]
        aff = affs[iterator].add_constant_val(isl.value(-count.first))
        result[iterator] = isl.floor_div(aff, count.stride) if count.stride > 1 else aff
    return result


def loop_aff(loop: Loop, y: isl.Aff) -> isl.Aff:
    """{ S[i…] -> [t] } the value of a loop, relative to the tile that it runs in."""
    if loop.within is not None:
        y = y.sub(isl.floor_div(y, loop.within).scale_val(isl.value(loop.within)))
    return isl.floor_div(y, loop.step) if loop.step > 1 else y


def outer_affs(structure: Structure, statement: Statement) -> list[isl.Aff]:
    """{ S[i…] -> [t] } for each loop outside of the microkernel."""
    y = normalised(structure.nest, statement)
    return [loop_aff(loop, y[loop.iterator]) for loop in structure.loops]


def rest_affs(structure: Structure, statement: Statement, depth: int) -> list[isl.Aff]:
    """The original order of instances in one iteration of the transformed loops: textual position and inner loops."""
    return original_affs(statement, depth)[2 * len(structure.nest.loops) :]


def schedule(structure: Structure) -> dict[str, isl.Map]:
    """Per statement, { S[i…] -> [loops…, rest…] }: what the legality check takes. Instances that run inside one
    microkernel call have equal times, since the microkernel is free to order them."""
    depth = max(s.depth for s in structure.nest.statements)
    return {
        s.name: map_from_affs(s.domain, [*outer_affs(structure, s), *rest_affs(structure, s, depth)])
        for s in structure.nest.statements
    }


def registers(structure: Structure) -> dict[str, isl.Map]:
    """Per statement that runs in a microkernel, { S[i…] -> [row, column] }: the accumulator that an instance uses."""
    if structure.kernel is None:
        return {}
    statement = structure.nest.statements[0]
    y = normalised(structure.nest, statement)
    affs = [loop_aff(loop, y[loop.iterator]) for loop in structure.held]
    return {statement.name: map_from_affs(statement.domain, affs)}
