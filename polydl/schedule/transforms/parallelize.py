"""Loops on all threads: collapsed, on a grid, along a curve, or with a sum shared out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from polydl.base.errors import InputError
from polydl.dependences.directions import NestLegality
from polydl.dependences.nests import Nest
from polydl.model.strides import known
from polydl.schedule.limits import AGAIN, FEW_UNEVEN, IDLE, RAGGED, Limits
from polydl.schedule.loops import (
    BY_ENTRIES,
    HILBERT,
    OMP_SCHEDULE,
    GridAxis,
    Loop,
    LoopTransform,
    NestLoops,
    goes_over_rows,
    loops_over_rows,
    trips,
)
from polydl.schedule.quick_legality import is_legal
from polydl.schedule.uneven import UNEVEN


class Parallelize(LoopTransform, frozen=True):
    """Run one loop, or several adjacent ones collapsed into one, on all threads; or up to three on a grid of threads.

    before:    for i: for j
    after:     #pragma omp parallel for collapse(2) / for i: for j
    grid:      #pragma omp parallel for collapse(2) schedule(static, 1) / for r in [0, R): for c in [0, C):
                   for i in block r of R: … for j in block c of C
    summed:    ways copies of the output, each zero or what the combiner starts from / grid, block r accumulating into
               copy r / combine the copies in order
    requires:  no dependence (accumulations included) is carried by these loops; on a grid none between iterations
               that differ in one of them, whatever sequential loop between them carries it; between blocks of the
               `summed` loop accumulations, and nothing else
    nowait:    #pragma omp parallel / { for k: #pragma omp for schedule(static) nowait / for i: for j }
    entries:   rows of a sparse matrix in parts, found by bisection / #pragma omp parallel for schedule(static, 1) /
               for part in [0, threads): for i in part
    source:    PARLOOPER's two ways of parallelisation (Georganas et al., 2023)
    """

    loops: tuple[str, ...]
    """Outermost first; adjacent unless on a grid."""
    schedule: str = ""
    """Arguments of OpenMP's schedule clause, as `dynamic,1`; empty: no clause; `hilbert`: the iterations of two loops
    in the order of a generalised Hilbert curve, of which each thread runs one contiguous piece; `entries`: rows in as
    many parts as threads, with the same number of entries of the segments that they run through."""
    axes: str = ""
    """On a grid the axis of each loop, one letter per loop: R (rows), C (columns), L (layers); empty: no grid."""
    ways: tuple[int, ...] = ()
    """On a grid into how many blocks each loop is cut."""
    barriers: tuple[str, ...] = ()
    """Loops at whose end all threads wait; none of them is inside a parallel loop. Without `nowait` each parallel loop
    ends in a barrier anyway: these are kept as a part of the variant's text only."""
    summed: str = ""
    """On a grid the reduction loop whose blocks have a copy of the output each: the sums are reassociated, in the same
    way for any number of threads; empty: none."""
    nowait: bool = False
    """One team of threads for all loops from the outermost one on, whose threads wait for each other at the ends of
    `barriers` and nowhere else: what a loop around the parallel ones carries must be covered by a barrier further in,
    or stay with one thread, which OpenMP promises of equal iterations of a static schedule only."""

    def applied(self, structure: NestLoops) -> NestLoops:
        at = [structure.loops.index(structure.loop(name)) for name in self.loops]
        grid = _grid(structure, self) if self.axes or self.ways else ()
        if not at or (at != sorted(set(at)) if grid else at != list(range(at[0], at[0] + len(at)))):
            raise InputError("Parallelize needs adjacent loops, outermost first")
        if self.summed:
            _check_summed(structure, self)
        if self.schedule == HILBERT:
            _check_curve(structure, at, grid=bool(grid))
        elif self.schedule == BY_ENTRIES:
            if len(at) != 1 or grid or not goes_over_rows(structure, structure.loops[at[0]]):
                raise InputError(
                    "'entries' shares out one loop, in each of whose iterations a statement runs through a segment"
                )
        elif self.schedule and (grid or not OMP_SCHEDULE.fullmatch(self.schedule)):
            raise InputError(
                f"'{self.schedule}' cannot be the schedule of these loops",
                hint="static, dynamic, guided (each with ',chunk'), auto or runtime; none with a grid, which has its own",  # noqa: E501
            )
        if any(structure.loops.index(structure.loop(name)) > at[0] for name in self.barriers):
            raise InputError("a barrier inside a parallel loop", hint="OpenMP allows none there")
        if self.nowait:
            _check_nowait(structure, self, at[0])
        return structure.after(
            self,
            parallel=self.loops,
            grid=grid,
            summed=self.summed,
            omp_schedule=self.schedule,
            barriers=self.barriers,
            nowait=self.nowait,
        )


def _check_nowait(structure: NestLoops, parallelize: Parallelize, outside: int) -> None:
    """`outside`: how many loops are around the parallel ones."""
    if not outside:
        raise InputError(
            "nothing to leave out a barrier of: no loop is around the parallel ones",
            hint="nowait is for loops that threads run again and again, as in cAb@nowait",
        )
    if parallelize.summed or parallelize.schedule in (HILBERT, BY_ENTRIES):
        raise InputError(
            f"nowait beside {'copies of the output' if parallelize.summed else parallelize.schedule}",
            hint="it takes loops that OpenMP divides, or a thread grid",
        )


def _check_summed(structure: NestLoops, parallelize: Parallelize) -> None:
    nest, name = structure.nest, parallelize.summed
    if name not in parallelize.loops or not parallelize.axes:
        raise InputError(f"'{name}' cannot be summed up: it is no loop of a thread grid", hint="as in C{R:4+}")
    if nest.accumulation is None:
        raise InputError(f"nest {nest.name} has no sum or extreme to share out")
    accesses, own = nest.statements[0].accesses, nest.accumulation.own
    if any(a.array in {accesses[i].array for i in own} for i, a in enumerate(accesses) if i not in own):
        raise InputError(f"nest {nest.name} reads its output beside adding to it")
    loop = structure.loop(name)
    if loop.within is not None:
        raise InputError(f"loop '{name}' is not the outermost piece of '{loop.iterator}'")


def _check_curve(structure: NestLoops, at: Sequence[int], *, grid: bool) -> None:
    loops = [structure.loops[p] for p in at]
    if len(loops) != 2 or grid or not structure.nest.box or loops[0].iterator == loops[1].iterator:
        raise InputError(
            "a Hilbert curve goes through two neighbouring parallel loops of a rectangular nest",
            hint="as in AB@hilbert",
        )


def _grid(structure: NestLoops, parallelize: Parallelize) -> tuple[GridAxis, ...]:
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


def choices(structure: NestLoops, limits: Limits) -> Iterator[NestLoops]:
    """Runs of adjacent loops shared out among the threads; sequential where there is none.

    Loops are collapsed until there is enough for every thread: more would only make the chunks smaller.
    """
    nest, legality, threads = limits.nest, limits.legality, limits.threads
    names = [loop.name for loop in structure.loops]
    counts = [trips(nest, loop) for loop in structure.loops]
    starts, over = 0, loops_over_rows(structure, threads)
    for start in range(len(names) if threads > 1 else 0):
        if starts == limits.space.starts or counts[start] == 1:
            continue
        if over and names[start] not in over and starts:
            limits.pruned[AGAIN] += 1
            continue
        if _few_uneven_tiles(structure, start, limits):
            limits.pruned[FEW_UNEVEN] += 1
            continue
        work = 1
        for end in range(start + 1, len(names) + 1):
            if not _collapses(structure, start, end):
                limits.pruned[RAGGED] += 1
                break
            made, *others = (
                Parallelize(tuple(names[start:end]), schedule).applied(structure)
                for schedule in _shared_out(structure, structure.loops[start:end], limits)
            )
            if not is_legal(made, legality):
                break
            starts += end == start + 1
            trip = counts[end - 1]
            work = work * trip if trip is not None else work * threads * _CHUNKS
            if trip != 1 and (work >= threads or end == len(names)):
                yield made
                yield from others
            else:
                limits.pruned[IDLE] += 1
            if work >= threads * _CHUNKS or (work >= threads and work % threads == 0 and trip is not None):
                break
    curve = _curve(nest, structure, threads)
    if curve is not None:
        made = curve.applied(structure)
        if is_legal(made, legality):
            yield made
    summed = _summed(nest, legality, structure, threads)
    if summed is not None:
        made = summed.applied(structure)
        if is_legal(made, legality):
            yield made
    if not starts:
        yield structure


def _shared_out(structure: NestLoops, loops: Sequence[Loop], limits: Limits) -> tuple[str, ...]:
    """OpenMP's schedules of neighbouring loops: their iterations take about the same time, except those of segments, of
    which only data know how long they are, and of triangles, where some are longer. Collapsed loops of a triangle have
    iterations that are alike, and each thread has as many of them.

    `guided` begins with pieces as large as a thread's share, and goes over to small ones: that takes fewer of them, and
    is as even, where the first iterations are not longer than the mean.
    """
    if len(loops) == 1 and goes_over_rows(structure, loops[0]):
        return (BY_ENTRIES,)
    shares = limits.shares(loops[0]) if len(loops) == 1 else (1.0,)
    if not structure.over_segment and max(shares) < UNEVEN:
        return ("",)
    threads = limits.threads
    counts = [trips(structure.nest, loop) for loop in loops]
    iterations = math.prod(_CHUNKS * threads * _PIECES if count is None else count for count in counts)
    piece = max(1, iterations // (threads * _PIECES))
    first = max(shares) >= UNEVEN > shares[0]
    return (f"dynamic,{piece}", *([f"guided,{piece}"] if first else []))


def _few_uneven_tiles(structure: NestLoops, start: int, limits: Limits) -> bool:
    """Whether a loop is one over fewer than two tiles for each thread, some of which have much more to do than others:
    threads would wait for the largest. The loop that the tiles are of, without tiles, has smaller pieces."""
    loop = structure.loops[start]
    count = trips(structure.nest, loop)
    tiled = any(other.iterator == loop.iterator for other in structure.loops[start + 1 :])
    if not tiled or count is None or count >= 2 * limits.threads:
        return False
    return max(limits.shares(loop)) >= UNEVEN


def _collapses(structure: NestLoops, start: int, end: int) -> bool:
    """Whether neighbouring loops become one, as far as tiles decide: a loop inside of a tile that is cut short at the
    end has another number of iterations there, which OpenMP's collapse does not take."""
    last = structure.loops[end - 1]
    if last.within is None or all(loop.iterator != last.iterator for loop in structure.loops[start : end - 1]):
        return True
    extent = structure.nest.counts[last.iterator].extent
    return extent is not None and extent % last.within == 0


def _curve(nest: Nest, structure: NestLoops, threads: int) -> Parallelize | None:
    """The outermost rows and columns of blocks along a Hilbert curve: an order that fits every cache without a tile
    size for it. For one order of the loops inside only, since they matter little."""
    moving = [loop for loop in structure.loops if trips(nest, loop) != 1]
    if len(structure.held) < 2 or not nest.box or threads < 2 or len(moving) < 2:
        return None
    first, second = moving[:2]
    rest = [loop.name for loop in moving[2:]]
    sides = tuple(loop.iterator for loop in structure.held)
    sizes = [trips(nest, loop) for loop in (first, second)]
    if (first.iterator, second.iterator) != sides or None in sizes or rest != sorted(rest, key=_written_place(nest)):
        return None
    if structure.loops.index(second) != structure.loops.index(first) + 1:
        return None
    work = math.prod(trip for trip in sizes if trip is not None)
    return Parallelize((first.name, second.name), HILBERT) if work >= _CHUNKS * threads else None


def _written_place(nest: Nest) -> Callable[[str], tuple[int, str]]:
    """Sort key for pieces of loops: the order in which the loops are written."""
    return lambda name: (nest.loops.index(name.split(".")[0]), name)


def _summed(nest: Nest, legality: NestLegality, structure: NestLoops, threads: int) -> Parallelize | None:
    """The outermost loop shared out in spite of being a reduction, where the parallel loops have too few iterations for
    the threads, or so few that some threads would idle for a fourth of the time, and copies of the output are small."""
    found = nest.contraction
    moving = [loop for loop in structure.loops if trips(nest, loop) != 1]
    if threads < 2 or not legality.accumulated or not moving or moving[0].within is not None:
        return None
    free = [trips(nest, loop) for loop in structure.loops if loop.iterator in legality.parallel_loops(nest)]
    if any(trip is None for trip in free):
        return None
    work = math.prod(trip for trip in free if trip is not None)
    trip = trips(nest, moving[0])
    if trip is None or trip < 2 or work >= _IDLE * (-(-work // threads) * threads):
        return None
    if found is not None:
        moves = found.output.strides
        reach = 1 + sum(abs(known(s)) * ((nest.counts[i].extent or 1) - 1) for i, s in moves.items())
        if moves[moving[0].iterator] != 0 or reach * threads > _MOST_SUMMED:
            return None
    name = moving[0].name
    try:
        Parallelize((name,), axes="R", ways=(threads,), summed=name).applied(structure)
    except InputError:  # no sum of one statement
        return None
    return Parallelize((name,), axes="R", ways=(threads,), summed=name)


_IDLE = 0.75
"""Share of the threads' time that parallel loops must use for a reduction not to be shared out."""
_MOST_SUMMED = 1 << 20
"""Elements of all copies of an output together, at most."""


_PIECES = 32
"""Pieces per thread of loops whose iterations take different times."""
_CHUNKS = 8
"""Parallel iterations per thread beyond which collapsing one more loop cannot balance the load noticeably."""
