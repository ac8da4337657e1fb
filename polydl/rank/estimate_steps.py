"""A program as the estimate sees it: loops that repeat, parts one after the other, innermost bodies; and what each of
them brings into a cache, by LRU reuse decided from footprints.

A loop keeps in a cache what it reuses when one of its iterations touches no more than the cache holds; then its
iterations bring what is new in each of them only. Else each of them brings all that it touches. What runs one after
the other finds what is still there of those before. `rank.traffic` computes the same for thousands of structures of a
nest at once; the tests hold the two equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field, replace

import numpy as np

from polydl.base.records import dataclass
from polydl.rank.curve_traffic import curve_factors
from polydl.rank.ranker import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Innermost:
    """The body of an innermost loop."""

    row: int
    """Of the footprints: what one iteration touches."""
    seconds: float
    """In the core of all its iterations, whichever thread runs them, with the data in the first-level cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """A loop."""

    row: int
    """Of the footprints: what all its iterations touch."""
    trips: float
    """Iterations each time that it is entered, on average."""
    body: Step
    parallel: bool = False
    curve: bool = False
    """It and the loop directly inside of it run along a space-filling curve."""
    forks: float | None = None
    """Times that threads are forked for it, which is parallel; None: as often as the trips of the loops outside of it
    say."""
    schedule: str = ""
    """How OpenMP shares it out (`schedule.tree.Share`)."""
    tiles: tuple[float, float] | None = None
    """It is over the tiles of a wavefront, of a domain of so many tiles along each of the two loops that are summed."""


@dataclass(frozen=True, slots=True, eq=False)
class InOrder:
    """Parts one after the other."""

    row: int
    """Of the footprints: what all of them touch together."""
    parts: tuple[Step, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Copied:
    """A part with a copy of an operand before it."""

    row: int
    """Of the footprints: what the part touches, the operand included."""
    bytes: float
    """Read and written to make it once, in the mean of both."""
    shared: bool
    """All threads make it together, in a parallel loop of its own."""
    body: Step


Step = Innermost | Repeat | InOrder | Copied


def innermost(step: Step) -> Iterator[Innermost]:
    """The bodies of a program, in their order."""
    match step:
        case Innermost():
            yield step
        case Repeat(body=body) | Copied(body=body):
            yield from innermost(body)
        case InOrder(_, parts):
            for part in parts:
                yield from innermost(part)


def rows_around(step: Step) -> dict[Innermost, tuple[int, ...]]:
    """By body the rows of the steps around it, outermost first, and its own."""
    match step:
        case Innermost():
            return {step: (step.row,)}
        case Repeat(row, _, body):
            return {one: (row, *rows) for one, rows in rows_around(body).items()}
        case Copied(_, _, _, body):
            return rows_around(body)
        case InOrder(row, parts):
            return {one: (row, *rows) for part in parts for one, rows in rows_around(part).items()}


@dataclass(frozen=True, slots=True)
class _Around:
    """The loops around a step, as one thread sees them."""

    left: float
    """Threads that no parallel loop has taken yet."""
    work: float = 1.0
    """Iterations of the parallel loops."""
    entered: bool = False
    """One of the loops is parallel."""
    outside: float = 1.0
    """Iterations of the loops outside of the first parallel one."""
    times: float = 1.0
    """Iterations of all loops that the thread runs."""
    part: float = 1.0
    """Those over the iterations of all threads."""


@dataclass(slots=True)
class Threads:
    """How the loops of a program are shared out."""

    trips: dict[Repeat, float] = field(default_factory=dict)
    """Iterations of one thread."""
    imbalance: dict[Innermost, float] = field(default_factory=dict)
    """Time of the busiest thread over the mean."""
    part: dict[Innermost, float] = field(default_factory=dict)
    """Iterations of one thread over all of them."""
    inside: set[Step] = field(default_factory=set)
    """Steps inside of a parallel loop."""
    forks: float = 0.0
    """Times that threads are forked."""
    copies: dict[Copied, float] = field(default_factory=dict)
    """Parts of copies that one thread makes: one each time that the copy is made, or its share of it."""


def busiest(work: FloatArray | float, threads: int) -> FloatArray:
    """Time of the busiest thread over the mean, where `work` iterations are shared out. Fewer iterations than threads:
    the rest idles, which the thread's share of the trips says already."""
    return np.asarray(np.ceil(np.asarray(work) / threads) * np.minimum(work, threads) / work)


def at_once(tiles: tuple[float, float], threads: float) -> float:
    """Tiles that so many threads run at once on average, over the wavefronts of a domain of a x b tiles: of its
    a + b - 1 wavefronts those at the corners have fewer tiles than there are threads, and the threads wait for each
    other after each of them.

    >>> at_once((2, 2), 2), at_once((100, 100), 2)  # wavefronts of 1, 2 and 1 tiles: three steps for four tiles
    (1.3333333333333333, 1.9801980198019802)
    """
    long, short = math.ceil(max(tiles)), math.ceil(min(tiles))
    corners = np.ceil(np.arange(1, short) / threads).sum()
    steps = 2 * corners + (long - short + 1) * math.ceil(short / threads)
    return float(long * short / steps)


def shared_out(root: Step, threads: int) -> Threads:
    """Each thread's part of a program."""
    found = Threads()

    def walk(step: Step, around: _Around) -> None:
        if around.entered:
            found.inside.add(step)
        match step:
            case Innermost():
                found.part[step] = around.part
                found.imbalance[step] = float(busiest(around.work, threads)) if around.entered else 1.0
            case InOrder(_, parts):
                for part in parts:
                    walk(part, around)
            case Copied(_, _, shared, body):
                found.copies[step] = around.times / (threads if shared else 1)
                found.forks += around.times if shared else 0.0
                walk(body, around)
            case Repeat(_, trips, body, parallel):
                taken = min(around.left, trips) if parallel else 1.0
                if step.tiles is not None:  # what is shared out unevenly is counted here already
                    taken = min(at_once(step.tiles, around.left), trips)  # a part of a tile waits for whole ones
                mine = trips / taken
                if parallel and not around.entered:
                    found.forks += around.outside if step.forks is None else step.forks
                found.trips[step] = mine
                entered = around.entered or parallel
                inner = replace(
                    around,
                    left=around.left / taken,
                    work=around.work * trips if parallel and step.tiles is None else around.work,
                    entered=entered,
                    outside=around.outside if entered else around.outside * trips,
                    times=around.times * mine,
                    part=around.part * mine / trips,
                )
                walk(body, inner)

    walk(root, _Around(float(threads)))
    return found


@dataclass(frozen=True, slots=True)
class Level:
    """A cache, or the TLB, as a program finds it."""

    touched: FloatArray
    """(rows, arrays) footprints in the unit of `holds`."""
    taken: FloatArray
    """(rows, arrays) what of the level they take up: more where few of a cache's sets have room for them."""
    holds: float
    """What it keeps."""
    sharers: int = 1
    """Threads that share it, each with a working set of its own."""

    def fits(self, step: Step, root: Step, threads: Threads) -> bool:
        """Whether what a step touches stays."""
        size = float(self.taken[step.row].sum())
        if self.sharers > 1 and step in threads.inside:
            size = min(size * self.sharers, max(float(self.taken[root.row].sum()), size))
        return size <= self.holds


def brought(root: Step, level: Level, threads: Threads) -> dict[Innermost, FloatArray]:
    """(arrays,) what each body of a program brings into a level, in one thread."""

    def walk(step: Step) -> dict[Innermost, FloatArray]:
        match step:
            case Innermost():
                return {step: level.touched[step.row]}
            case Copied(_, _, _, body):
                return walk(body)
            case InOrder(_, parts):
                return _in_order(parts, [walk(part) for part in parts], level)
            case Repeat(_, trips, Repeat(_, columns, inside) as between, _, True):
                factor = curve_factors(
                    level.taken[step.row],
                    level.taken[between.row],
                    level.taken[inside.row],
                    level.holds / level.sharers,
                    trips,
                    columns,
                    threads.trips[step] * threads.trips[between],
                )
                return {one: sizes * factor for one, sizes in walk(inside).items()}
            case Repeat(_, _, body):
                grown = _grown(step, level, threads) if level.fits(body, root, threads) else threads.trips[step]
                return {one: sizes * grown for one, sizes in walk(body).items()}

    return walk(root)


def contended(root: Step, runs: FloatArray, lines: FloatArray, written: FloatArray, threads: int) -> float:
    """Lines that two threads write a part of: one for each run of neighbours that goes on where another thread's share
    of a parallel loop begins.

    `runs`, `lines` (rows, arrays): of what is touched. `written` (arrays,): 1 for what is, else 0.
    """
    match root:
        case Innermost():
            return 0.0
        case InOrder(_, parts):
            return sum(contended(part, runs, lines, written, threads) for part in parts)
        case Copied(_, _, _, body):
            return contended(body, runs, lines, written, threads)
        case Repeat(_, trips, body, False):
            return trips * contended(body, runs, lines, written, threads)
        case Repeat(row, trips, body, _):
            inside = body.row
            going_on = runs_going_on(runs[row], runs[inside], lines[row], lines[inside], np.asarray(trips))
            return float((going_on * written).sum() * borders(root.schedule, trips, threads))


def borders(schedule: str, trips: float, threads: int) -> float:
    """Places in a parallel loop where another thread goes on: between the shares of two threads, or where OpenMP gives
    them pieces in turn, as the next one comes, between most of these. Pieces of a `guided` loop are a thread's share of
    what is left.

    >>> borders("", 1000, 2), borders("dynamic,10", 1000, 2), round(borders("guided,10", 1000, 2), 1)
    (1, 49.5, 4.4)
    """
    kind, _, size = schedule.partition(",")
    least = int(size or 1)
    if kind == "guided":
        pieces = threads * (1 + math.log(max(1.0, trips / (threads * least))))
    elif kind == "dynamic" or (kind == "static" and size):
        pieces = trips / least
    else:
        return min(threads, trips) - 1
    return max(0.0, pieces - 1) * (1 - 1 / threads)


def runs_going_on(
    whole: FloatArray, each: FloatArray, whole_lines: FloatArray, each_lines: FloatArray, trips: FloatArray
) -> FloatArray:
    """(…, arrays) runs of an iteration that the next one goes on with: iterations that touch the same lines as all
    together move nothing. `trips`: (…)."""
    joined = (trips[..., None] * each - whole) / np.maximum(trips[..., None] - 1, 1)
    return np.asarray(np.where(whole_lines > each_lines, np.clip(joined, 0, each), 0.0))


def _grown(step: Repeat, level: Level, threads: Threads) -> FloatArray:
    """(arrays,) footprint of a thread's iterations over that of one of them."""
    ratio = level.touched[step.row] / np.maximum(level.touched[step.body.row], 1.0)
    share = (threads.trips[step] - 1) / (step.trips - 1) if step.trips > 1 else 0.0
    return np.asarray(1.0 + (ratio - 1.0) * share)


def _in_order(
    parts: tuple[Step, ...], found: list[dict[Innermost, FloatArray]], level: Level
) -> dict[Innermost, FloatArray]:
    """What parts bring that run one after the other: of an array that an earlier part touched, nothing where all that
    was touched since is still there, and the part would bring it once."""
    result = dict(found[0])
    touched = level.touched[[part.row for part in parts]]
    for j, own in enumerate(found[1:], start=1):
        mine, earlier = touched[j], touched[:j][::-1]  # the last one first
        since = np.maximum(np.maximum.accumulate(earlier), mine).sum(axis=1)
        earlier = earlier[since <= level.holds]
        total = np.sum(list(own.values()), axis=0)
        shared = (mine > 0) & (earlier > 0) & (total <= mine)
        left = np.where(shared, 1.0 - np.minimum(mine, earlier) / np.maximum(mine, 1e-300), 1.0)
        left = np.vstack([left, np.ones(len(mine))])
        left = left[np.argmax(left != 1.0, axis=0), np.arange(len(mine))]
        for one, sizes in own.items():
            result[one] = sizes * left
    return result
