"""`cost`: the PolyDL paper's equation 1 (Tavarageri et al., TACO 2021) on the working sets of Algorithms 1 and 2.

    C = sum over cache levels Li of WS_Li * lat_Li / bw_Li, plus WS_mem * lat_mem / bw_mem

where WS_L is the size of the working sets that level L serves. The paper leaves the units open; here sizes are in
bytes, latencies in cycles, bandwidths in bytes per cycle: C has no unit and only orders variants.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polydl.dependences.nests import Nest
from polydl.locality.assign import assign, assign_batch
from polydl.locality.batch import BoxAnalysis
from polydl.locality.exact import working_sets
from polydl.locality.progressions import NotClosedForm
from polydl.model.scop import Scop
from polydl.rank.batches import box_nest, loop_batch
from polydl.rank.ranker import FloatArray, Scored
from polydl.rank.summing import copies_bytes
from polydl.schedule.as_tree import as_tree
from polydl.schedule.loops import NestLoops
from polydl.schedule.timed import timed
from polydl.target import Machine


def weights(machine: Machine) -> FloatArray:
    """(levels + 1,) lat/bw of each cache level, then of memory, in cycles² per byte."""
    caches = [c.latency_cycles / c.bandwidth_bytes_per_cycle for c in machine.caches]
    memory_cycles = machine.memory.latency_ns * machine.frequency_ghz
    memory_bytes_per_cycle = machine.memory.bandwidth_gbs / machine.frequency_ghz
    return np.array([*caches, memory_cycles / memory_bytes_per_cycle])


def _serving(copies: FloatArray, machine: Machine) -> FloatArray:
    """(V, levels + 1) bytes of the copies of a shared-out reduction's output (each is used again when it is added up),
    at the level that holds all of them."""
    sizes = np.zeros((len(copies), len(machine.caches) + 1))
    level = np.full(len(copies), len(machine.caches))
    for index in reversed(range(len(machine.caches))):
        level = np.where(copies <= machine.caches[index].bytes, index, level)
    sizes[np.arange(len(copies)), level] = copies
    return sizes


class CostRanker:
    """Equation 1: exact working sets, in closed form where the nest allows it, else through isl."""

    name = "cost"

    def rank(self, scop: Scop, nest: Nest, structures: Sequence[NestLoops], machine: Machine, threads: int) -> Scored:
        """Scores without unit; features: bytes of the working sets that each level serves."""
        box = box_nest(scop, nest)
        if box is None or self.counts_each(scop, nest):
            sizes = self._exact(scop, structures, machine)
        else:
            try:
                found = BoxAnalysis(box).working_sets(loop_batch(box, structures))
                sizes = assign_batch(found, box, machine, len(structures)).astype(np.float64)
            except NotClosedForm:
                sizes = self._exact(scop, structures, machine)
        if box is not None and any(s.summed for s in structures):
            whole = BoxAnalysis(box).footprints(loop_batch(box, structures))[:, 0, :]
            copies = copies_bytes(box, structures, whole * np.array([box.element_bytes[a] for a in box.arrays]))
            for level, served in enumerate(_serving(copies, machine).T):
                sizes[:, level] += served
        names = [f"served_by_L{c.level}_bytes" for c in machine.caches] + ["served_by_memory_bytes"]
        columns = {name: sizes[:, i] for i, name in enumerate(names)}
        return Scored(np.asarray(sizes @ weights(machine)), columns)

    @staticmethod
    def counts_each(scop: Scop, nest: Nest) -> bool:
        """Whether isl counts the working sets of each structure, which takes a part of a second: the nest has no closed
        form."""
        box = box_nest(scop, nest)
        return box is None or box.why_not_separable() is not None

    def _exact(self, scop: Scop, structures: Sequence[NestLoops], machine: Machine) -> FloatArray:
        rows = []
        for structure in structures:
            served = assign(working_sets(timed(scop, as_tree(structure))), machine)
            rows.append([float(c.upper) for c in (*served.caches, served.memory)])
        return np.array(rows)
