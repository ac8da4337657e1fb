"""`misses`: the exact misses of fully associative LRU caches, counted and weighed by what it costs to serve them.

After Gysi, Grosser, Brandner, Hoefler (HayStack): A Fast Analytical Model of Fully Associative Caches, PLDI 2019; see
`polydl.locality.lru_misses`. With M_L the lines that miss in cache L, compulsory misses included,

    score = sum over cache levels L of  M_L * bytes of a line / bandwidth of the level behind L

in seconds of transfers, which nothing overlaps and to which no arithmetic comes: the score orders and predicts nothing.
That is how PolyDL compares itself with HayStack (Tavarageri et al., TACO 2021, figure 15).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from polydl.dependences.nests import Nest
from polydl.locality.lines import line_trace
from polydl.locality.lru_misses import analytic
from polydl.model import isl
from polydl.model.counting import Count, total
from polydl.model.nest import TimedNest
from polydl.model.scop import Scop
from polydl.rank.ranker import FloatArray, Scored
from polydl.rank.trace import share_of
from polydl.schedule.as_tree import as_tree
from polydl.schedule.loops import NestLoops
from polydl.schedule.timed import timed
from polydl.target import Machine

OPERATIONS = 2_000_000
"""Of isl for each step of a count, by default: some tenths of a second."""

VALUES = 100
"""Values of a loop that one count takes one by one, at most."""


class MissesRanker:
    """Counts exactly what the first thread's part of a nest misses in caches that begin empty, structure by structure.

    The counts are exact for nests whose loops have constant bounds, tiled, permuted and with partial tiles, and
    subscripts that are affine in them: contractions, convolutions, stencils; of triangles as far as affine numbers of
    lines decide what is reused. Where they are not, or where a step of isl takes more than `operations`, they have
    bounds, the upper one counts, and `inexact_counts` says of how many accesses. The time depends on the loops and not
    on their sizes: a part of a second to some seconds for each structure.

    What the model leaves out: sets of caches and lines that hold the end of a row and the beginning of the next (rows
    begin with lines), packed copies (accesses are those of the arrays), the order along a Hilbert curve, registers,
    and what statements touch at places that data choose. A cache that threads share is divided equally. Structures of
    nests whose sizes are not known keep their order.
    """

    name = "misses"

    def __init__(self, operations: int = OPERATIONS) -> None:
        self.operations = operations

    def rank(self, scop: Scop, nest: Nest, structures: Sequence[NestLoops], machine: Machine, threads: int) -> Scored:
        """Scores without unit; features: lines that miss at each level, and how many counts are bounds."""
        if any(isl.involved_parameters(statement.domain) for statement in nest.statements):
            return Scored(np.arange(len(structures), dtype=np.float64), {})
        # Copies, and how OpenMP deals out chunks, change nothing of what is counted.
        known: dict[tuple[object, ...], list[float]] = {}
        rows = []
        for structure in structures:
            key = structure.executed, structure.parallel, structure.grid
            if key not in known:
                known[key] = self._row(scop, structure, machine, threads)
            rows.append(known[key])
        table = np.array(rows, dtype=np.float64).reshape(len(structures), len(machine.caches) + 2)
        names = [f"misses_of_L{cache.level}_lines" for cache in machine.caches] + ["inexact_counts"]
        return Scored(table[:, -1], {name: table[:, i] for i, name in enumerate(names)})

    def _row(self, scop: Scop, structure: NestLoops, machine: Machine, threads: int) -> list[float]:
        """Lines that miss in each cache, how many accesses have bounds only, and the score."""
        nest, active = of_thread(timed(scop, as_tree(structure)), structure, threads)
        kept = tuple(a for a in nest.accesses if scop.arrays[a.array].extents and a.relation.is_single_valued())
        line = machine.caches[0].line_bytes
        lines = [c.bytes // min(active, c.shared_by_cores) // line for c in machine.caches]
        found = analytic(line_trace(replace(nest, accesses=kept), line), lines, self.operations, VALUES)
        inexact = sum(not all(size.exact for size in (one.compulsory, *one.capacity)) for one in found)
        sizes: list[Count] = [
            total(one.compulsory + one.capacity[level] for one in found) for level in range(len(lines))
        ]
        misses = [float(size.upper) for size in sizes]
        return [*misses, float(inexact), float(np.dot(misses, _seconds_of_line(machine, active)))]


def of_thread(nest: TimedNest, structure: NestLoops, threads: int) -> tuple[TimedNest, int]:
    """What the first thread runs of a nest, and the number of threads that have something to do."""
    at = {name: nest.loops.index(name) for name in structure.parallel}
    ends = {place: isl.bounds(nest.domain, place) for place in at.values()}
    low = [ends[at[loop.name]][0] if loop.name in at else 0 for loop in structure.loops]
    trips = [ends[at[loop.name]][1] - first + 1 if loop.name in at else 1
             for loop, first in zip(structure.loops, low, strict=True)]  # fmt: skip
    share = share_of(structure, trips, threads)
    domain = nest.domain
    for loop, first, mine in zip(structure.loops, low, share.trips, strict=True):
        if loop.name in at:
            domain = isl.between(domain, at[loop.name], first, first + mine - 1)
    return replace(nest, domain=domain), share.active


def _seconds_of_line(machine: Machine, threads: int) -> FloatArray:
    """(L,) seconds that a line takes into each cache, from the level behind it."""
    behind = [machine.cache_bandwidth(cache, threads) for cache in machine.caches[1:]]
    return machine.caches[0].line_bytes / np.array([*behind, machine.memory_bandwidth(threads)])
