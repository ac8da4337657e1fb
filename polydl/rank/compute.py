"""Time in the core alone, all data in the first-level cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from polydl.dependences.nests import Nest
from polydl.model.contraction import linear_strides
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.types import ElementType
from polydl.rank.ranker import FloatArray
from polydl.schedule.structure import Structure
from polydl.target import Machine
from polydl.target.isa import Isa, cycles, held_vectors, isa, split_block

LOOP_CYCLES = 12.0
"""Cycles to enter and leave an innermost loop that runs a few times: a mispredicted branch (Agner Fog,
"The microarchitecture of Intel, AMD and VIA CPUs": 12 to 20 cycles on current cores)."""


def target_isa(machine: Machine) -> Isa:
    """The vector instruction set of a machine as the generator knows it; the portable one for an unknown name."""
    try:
        return isa(machine.simd.isa)
    except KeyError:
        return isa("generic")


def pieces(extent: int, size: int) -> list[tuple[int, int]]:
    """(size, how many) when an extent is cut into whole pieces and a remainder."""
    whole, rest = divmod(extent, size)
    return [(s, times) for s, times in ((size, whole), (rest, 1)) if s and times]


@cache
def block_cycles(target: Isa, element: ElementType, m: int, n: int, rows: int, columns: int) -> float:
    """Cycles of one reduction step over a rows x columns output cut into m x n register blocks."""
    lanes = target.lanes(element)
    return math.fsum(
        row_times * column_times * _held_cycles(target, element, r, -(-c // lanes))
        for r, row_times in pieces(rows, m)
        for c, column_times in pieces(columns, n)
    )


def _held_cycles(target: Isa, element: ElementType, rows: int, vectors: int) -> float:
    """Cycles of one reduction step of a block, split into register blocks when it is larger than the registers."""
    if held_vectors(target, rows, vectors) > 0:
        return _contended_cycles(target, rows, vectors)
    split = split_block(target, element, rows, vectors * target.lanes(element))
    return math.fsum(
        row_times * vector_times * _contended_cycles(target, r, v)
        for r, row_times in pieces(rows, split.rows)
        for v, vector_times in pieces(vectors, split.vectors)
    )


CONTENTION = 4.0
"""Exponent of the norm that joins the cycles of FMA and load ports: the closer the loads come to their limit, the more
often an FMA waits for one that was issued late, or again after a miss."""


def _contended_cycles(target: Isa, rows: int, vectors: int) -> float:
    """`cycles` of a register block, with the bottleneck not taken as perfectly overlapped by the other ports."""
    bound = cycles(target, rows, vectors)
    loads = (rows + vectors) / target.loads
    fmas = rows * vectors / target.fmas
    joined = math.hypot(fmas ** (CONTENTION / 2), loads ** (CONTENTION / 2))
    return max(bound, math.pow(joined, 2 / CONTENTION))


def _kernel_cycles(nest: Nest, structure: Structure, calls: float, target: Isa, call_cycles: float) -> float:
    """Cycles of a whole nest in microkernel calls, all threads together."""
    kernel, found = structure.kernel, nest.contraction
    assert kernel is not None and found is not None
    rows = None if kernel.rows is None else structure.inside[0].iterator
    columns = structure.inside[0 if rows is None else 1].iterator
    row_extent = 1 if rows is None else nest.counts[rows].extent or 1
    column_extent = nest.counts[columns].extent or 1
    steps = math.prod(c.extent or 1 for name, c in nest.counts.items() if name not in (rows, columns))
    arithmetic = steps * block_cycles(target, found.element, kernel.m, kernel.n, row_extent, column_extent)
    # C is loaded and stored once a call: one store a cycle, the loads beside them. The pipeline of FMAs fills and
    # drains, and the reduction loop's exit is mispredicted.
    stores = kernel.m * -(-kernel.n // target.lanes(found.element))
    return arithmetic + calls * (stores + call_cycles + 2 * target.latency + LOOP_CYCLES)


def _plain_cycles(
    scop: Scop, nest: Nest, structure: Structure, instances: float, innermost: float, target: Isa
) -> float:
    """Cycles of a nest of plain loops: what the compiler makes of the innermost one, all threads together."""
    last = structure.loops[-1].iterator if structure.loops else ""
    total = 0.0
    for statement in nest.statements:
        total += instances * _instance_cycles(scop, statement, last, target)
    return total + innermost * LOOP_CYCLES


def _instance_cycles(scop: Scop, statement: Statement, last: str, target: Isa) -> float:
    strides = [(linear_strides(scop, statement, a) or {}).get(last) for a in statement.accesses]
    widest = max((scop.arrays[a.array].element.bytes for a in statement.accesses), default=8)
    carried = any(a.write and s == 0 for a, s in zip(statement.accesses, strides, strict=True))
    if carried and isinstance(statement.body, Assignment) and statement.body.op != "=":
        return float(target.latency)  # a sum in order: each addition waits for the one before
    memory = len(statement.accesses) / target.loads
    if all(s in (0, 1) for s in strides):
        return memory / max(1, target.vector_bytes // widest)
    return memory + sum(1 for s in strides if s not in (0, 1))


def compute_seconds(
    scop: Scop, nest: Nest, structures: Sequence[Structure], full: FloatArray, mine: FloatArray, machine: Machine
) -> FloatArray:
    """(V,) seconds in the core of one thread. `full` and `mine` (V, D): iterations of each loop, those inside the
    microkernel last, in all and of one thread."""
    target = target_isa(machine)
    result = np.empty(len(structures))
    share = np.prod(mine, axis=1) / np.prod(full, axis=1)
    for v, structure in enumerate(structures):
        outer = len(structure.loops)
        if structure.kernel is not None:
            calls = float(np.prod(full[v, :outer]))
            spent = _kernel_cycles(nest, structure, calls, target, machine.call_cycles)
        else:
            instances = float(np.prod(full[v, :outer]))
            entered = float(np.prod(full[v, : outer - 1])) if outer else 1.0
            spent = _plain_cycles(scop, nest, structure, instances, entered, target)
        result[v] = machine.seconds(spent)
    return np.asarray(result * share)
