"""Features of variants for the learned rankers, one row per structure, comparable between problems and machines.

Sizes are relative to the machine's caches, times to the arithmetic's least time, counts are logarithms: a model sees
no absolute second or byte, and carries over to other sizes. Features that tell variants of one problem apart stand
beside a few that describe the problem. Bytes are those of the operands' own types, and the least time is that of the
inner product that the machine has for them: of int8, four products for each number in a vector.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from polydl.base.records import dataclass
from polydl.dependences.nests import Nest
from polydl.kernels.contraction_blocks import block_efficiency
from polydl.locality.batch import BoxAnalysis
from polydl.locality.boxes import BoolArray, BoxNest, IntArray, LoopBatch
from polydl.model.contraction import Contraction
from polydl.model.scop import Scop
from polydl.model.strides import known
from polydl.model.types import ElementType
from polydl.rank.batches import box_nest, loop_batch
from polydl.rank.estimate import copy_seconds
from polydl.rank.instruction_set import target_isa
from polydl.rank.ranker import FloatArray
from polydl.rank.trace import TraceRanker
from polydl.rank.traffic import resources_of
from polydl.schedule.grouping import grouping
from polydl.schedule.loops import NestLoops
from polydl.target import Machine
from polydl.target.isa import Isa
from polydl.target.products import FMA, Product

FEATURES_VERSION = 1
"""Counts up when a feature changes its meaning: weights made for another version are refused."""

SLOTS = 4
"""Loops around the microkernel call that are described one by one, from the innermost."""
_LEVELS = 3
_ROLES = ("A", "B", "C")
_TINY = 1e-12
_SAMPLES = 64
"""Calls that the trace model evaluates here, at most: a quarter of its own number, for a quarter of the time."""


@dataclass(frozen=True, slots=True)
class FeatureMatrix:
    """The features of V structures of one nest."""

    names: tuple[str, ...]
    values: FloatArray
    """(V, len(names))."""
    traffic_seconds: FloatArray
    """(V,) what the `traffic` ranker predicts, which a learned ranker corrects."""
    terms: Mapping[str, FloatArray]
    """(V,) each: its parts, in seconds by resource (`rank.estimate.Estimate`)."""


def names() -> tuple[str, ...]:
    """The features in their order."""
    slots = [
        f"slot{k}.{what}"
        for k in range(SLOTS)
        for what in ("trips", *(f"moves_{r}" for r in _ROLES), *(f"over_L{level + 1}" for level in range(_LEVELS)))
    ]
    problem = [
        "problem.operations", "problem.intensity", "problem.rows", "problem.columns", "problem.reduction",
        *(f"problem.{r}_over_L{level + 1}" for r in _ROLES for level in range(_LEVELS)),
        "problem.threads", "problem.element_bytes",
    ]  # fmt: skip
    return (
        "traffic.efficiency", "traffic.core", *(f"traffic.L{level + 1}" for level in range(_LEVELS)),
        "traffic.packing", "traffic.imbalance", "traffic.forks",
        "trace.efficiency", "trace.over_traffic", "trace.core",
        *(f"trace.L{level + 1}" for level in range(_LEVELS)), "trace.memory",
        "kernel.none", "kernel.rows", "kernel.columns", "kernel.vectors", "kernel.accumulators", "kernel.efficiency",
        "kernel.row_remainder", "kernel.column_remainder", "kernel.reduction", "kernel.reductions",
        "kernel.passes_over_C", "kernel.calls",
        *(f"call.{r}_over_L1" for r in _ROLES), "call.over_L1", "call.over_L2",
        *(f"call.{r}_pages" for r in _ROLES), *(f"call.{r}_stride" for r in _ROLES),
        "pack.A", "pack.B", "pack.A_outside", "pack.B_outside",
        "parallel.trips", "parallel.loops", "parallel.outside", "parallel.calls",
        *(f"parallel.moves_{r}" for r in _ROLES), "parallel.chunk",
        "tiles", *slots, *problem,
    )  # fmt: skip


def features(
    scop: Scop, nest: Nest, structures: Sequence[NestLoops], machine: Machine, threads: int
) -> FeatureMatrix | None:
    """The features of a contraction's structures; None for a nest that is none, or has no constant bounds."""
    found = nest.contraction
    box = box_nest(scop, nest, hull=True)
    if found is None or box is None or not box.accesses or not structures:
        return None
    batch = loop_batch(box, structures)
    footprint = BoxAnalysis(box).footprints(batch).astype(np.float64)
    table = _Table(scop, nest, found, box, structures, machine, threads, batch, footprint)
    columns = {
        **table.traffic(),
        **table.trace(scop),
        **table.kernel(),
        **table.call(),
        **table.parallel(),
        **table.slots(),
        **table.sizes(),
    }
    order = names()
    assert set(columns) == set(order), set(columns) ^ set(order)
    return FeatureMatrix(order, np.stack([columns[name] for name in order], axis=1), table.seconds, table.terms)


def _log(values: FloatArray | float) -> FloatArray:
    """log2, with a floor for what is zero."""
    return np.asarray(np.log2(np.maximum(values, _TINY)))


class _Table:
    """The columns, each (V,), from what they have in common."""

    def __init__(
        self,
        scop: Scop,
        nest: Nest,
        found: Contraction,
        box: BoxNest,
        structures: Sequence[NestLoops],
        machine: Machine,
        threads: int,
        batch: LoopBatch,
        footprint: FloatArray,
    ) -> None:
        self.nest, self.box, self.structures, self.machine, self.threads = nest, box, structures, machine, threads
        self.batch, self.found = batch, found
        self.count = len(structures)
        self.element = found.element
        self.target = target_isa(machine)
        self.outer = np.array([len(s.loops) for s in structures])
        """(V,) loops around the call."""
        arrays = box.arrays
        bytes_of = np.array([float(box.element_bytes[a]) for a in arrays])
        self.bytes = footprint * bytes_of
        """(V, D + 1, A)."""
        self.roles = self._roles()
        """(V, 3) index into the arrays of what is A, B and C."""
        self.operations = 2.0 * math.prod(c.extent or 1 for c in nest.counts.values())
        self.products = [FMA if s.kernel is None else grouping(s).product for s in structures]
        """Per structure, the inner product of its microkernel."""
        self.least = self.operations / (max(map(self._peak, {*self.products})) * threads)
        self.used = resources_of(scop, nest, structures, machine, threads)
        estimated = self.used.estimates(machine, threads)
        self.seconds, self.terms = estimated.scored().scores, estimated.seconds
        moves = np.zeros((len(box.iterators), len(arrays)), dtype=np.bool_)
        for access in box.accesses:
            for row in access.rows:
                for i, coefficient in enumerate(row):
                    moves[i, arrays.index(access.array)] |= coefficient != 0
        moved = moves[np.maximum(batch.iterator, 0)] & (batch.iterator >= 0)[:, :, None]
        self.moved: BoolArray = np.take_along_axis(moved, self.roles[:, None, :], axis=2)
        """(V, D, 3): the loop moves A, B, C."""
        self.around = (np.arange(batch.depth) < self.outer[:, None]) & (batch.trip > 1)
        """(V, D): a loop around the call that runs more than once."""
        self.trips = batch.trip.astype(np.float64)

    def _peak(self, product: Product) -> float:
        """Operations per second of one core: of each product and its addition one, however many are in a word."""
        words = self.machine.peak(self.element) * self.target.multiplying(product).fmas / self.target.fmas
        return words * product.group

    def _roles(self) -> IntArray:
        place = {name: i for i, name in enumerate(self.box.arrays)}
        result = np.empty((self.count, 3), dtype=np.int64)
        plain = self.found.left.array, self.found.right.array
        for v, structure in enumerate(self.structures):
            a, b = plain
            if structure.kernel is not None:
                a, b = (structure.operand(role).array for role in ("A", "B"))
            result[v] = place[a], place[b], place[self.found.output.array]
        return result

    def traffic(self) -> dict[str, FloatArray]:
        """The analytic model's parts, relative to its whole."""
        whole = np.maximum(self.seconds, _TINY)
        columns = {
            "traffic.efficiency": _log(self.least / whole),
            "traffic.core": self.used.core / whole,
            "traffic.packing": copy_seconds(self.used.copied, self.machine, self.threads) / whole,
            "traffic.imbalance": np.minimum(self.used.imbalance, 4.0) - 1.0,
            "traffic.forks": self.used.forks * self.machine.parallel_region_us * 1e-6 / whole,
        }
        caches = self.machine.caches
        for level in range(_LEVELS):
            share = np.zeros(self.count)
            if level < len(caches):
                following = caches[level + 1] if level + 1 < len(caches) else None
                rate = (
                    self.machine.cache_bandwidth(following, self.threads)
                    if following is not None
                    else self.machine.memory_bandwidth(self.threads)
                )
                share = self.used.moved[f"L{caches[level].level}"] / rate / whole
            columns[f"traffic.L{level + 1}"] = share
        return columns

    def trace(self, scop: Scop) -> dict[str, FloatArray]:
        """What the trace model says, at a quarter of its samples, where it differs from the other."""
        scored = TraceRanker(_SAMPLES).rank(scop, self.nest, self.structures, self.machine, self.threads)
        whole = np.maximum(scored.scores, _TINY)
        columns = {
            "trace.efficiency": _log(self.least / whole),
            "trace.over_traffic": _log(whole / np.maximum(self.seconds, _TINY)),
            "trace.core": scored.columns["core_seconds"] / whole,
            "trace.memory": scored.columns["from_memory_bytes"] / self.machine.memory_bandwidth(self.threads) / whole,
        }
        for level in range(_LEVELS):
            share = np.zeros(self.count)
            if level < len(self.machine.caches):
                cache = self.machine.caches[level]
                rate = self.machine.cache_bandwidth(cache, self.threads)
                share = scored.columns[f"from_L{cache.level}_bytes"] / rate / whole
            columns[f"trace.L{level + 1}"] = share
        return columns

    def kernel(self) -> dict[str, FloatArray]:
        """The microkernel's block, its efficiency, what is inside."""
        described = np.array([self._block(*one) for one in zip(self.structures, self.products, strict=True)])
        block = {
            name: described[:, i]
            for i, name in enumerate(
                ("none", "rows", "columns", "vectors", "accumulators", "efficiency", "row_remainder",
                 "column_remainder", "reduction", "reductions")
            )
        }  # fmt: skip
        passes = np.where(self.around & ~self.moved[:, :, 2], self.trips, 1.0).prod(axis=1)
        calls = np.where(self.around, self.trips, 1.0).prod(axis=1)
        columns = {f"kernel.{name}": column for name, column in block.items()}
        return columns | {"kernel.passes_over_C": _log(passes), "kernel.calls": _log(calls)}

    def _block(self, structure: NestLoops, product: Product) -> tuple[float, ...]:
        kernel = structure.kernel
        if kernel is None:
            return (1.0,) + (0.0,) * 9
        extents = self.nest.counts
        row_extent = 1 if kernel.rows is None else extents[kernel.rows.iterator].extent or kernel.m
        column_extent = extents[kernel.columns.iterator].extent or kernel.n
        reduction = math.prod(
            min(loop.within or (extents[loop.iterator].extent or 1), extents[loop.iterator].extent or 1)
            for loop in kernel.reductions
        )
        block = _block_features(
            self.target.multiplying(product), product, self.element, kernel.m, kernel.n, row_extent, column_extent
        )
        return (0.0, *block, math.log2(max(reduction, 1)), float(len(kernel.reductions)))

    def call(self) -> dict[str, FloatArray]:
        """What one call touches, and how it lies in memory."""
        at = np.take_along_axis(self.bytes, self.outer[:, None, None], axis=1)[:, 0, :]
        touched = np.take_along_axis(at, self.roles, axis=1)
        caches = self.machine.caches
        columns = {f"call.{role}_over_L1": _log(touched[:, i] / caches[0].bytes) for i, role in enumerate(_ROLES)}
        whole = touched.sum(axis=1)
        columns["call.over_L1"] = _log(whole / caches[0].bytes)
        columns["call.over_L2"] = _log(whole / caches[min(1, len(caches) - 1)].bytes)
        memory: dict[tuple[object, ...], tuple[float, ...]] = {}
        laid = np.empty((self.count, 6))
        packed = np.zeros((self.count, 4))
        for v, structure in enumerate(self.structures):
            key = (structure.kernel, frozenset(p.operand for p in structure.packs))
            if key not in memory:
                memory[key] = self._layout(structure, self.products[v])
            laid[v] = memory[key]
            for pack in structure.packs:
                index = "AB".index(pack.operand)
                packed[v, index] = 1.0
                depth = structure.pack_depth(pack)
                packed[v, 2 + index] = math.log2(float(np.prod(self.trips[v, :depth])))
        for i, role in enumerate(_ROLES):
            columns[f"call.{role}_pages"], columns[f"call.{role}_stride"] = laid[:, i], laid[:, 3 + i]
        for i, name in enumerate(("pack.A", "pack.B", "pack.A_outside", "pack.B_outside")):
            columns[name] = packed[:, i]
        return columns

    def _layout(self, structure: NestLoops, product: Product) -> tuple[float, ...]:
        """log2 of the pages that a call touches of A, B and C, and of the bytes between its rows in units of lines."""
        kernel = structure.kernel
        if kernel is None:
            return (0.0,) * 6
        packed = {p.operand for p in structure.packs}
        page, line = self.machine.tlb.page_bytes, self.machine.caches[0].line_bytes
        by_name = {self.found.left.array: self.found.left, self.found.right.array: self.found.right}
        pages, strides = [], []
        for role in _ROLES:
            operand = self.found.output if role == "C" else by_name[structure.operand(role).array]
            size = (product.copy(role, self.element) if role in packed else operand.element).bytes
            steps = []
            for loop in structure.inner:
                stride = abs(known(operand.strides[loop.iterator])) * size
                extent = self.nest.counts[loop.iterator].extent or 1
                if stride:
                    steps.append((stride, min(loop.within or extent, extent)))
            if role in packed:
                held = size * math.prod(trips for _, trips in steps)
                pages.append(math.log2(1 + held / page))
                strides.append(0.0)
                continue
            pages.append(math.log2(_pages(sorted(steps), page)))
            row = structure.inner[0 if role != "B" else -1].iterator
            strides.append(math.log2(1 + abs(known(operand.strides[row])) * size / line))
        return (*pages, *strides)

    def parallel(self) -> dict[str, FloatArray]:
        """How the work is shared out."""
        shared = self.batch.parallel & (self.trips > 1)
        trips = np.where(shared, self.trips, 1.0).prod(axis=1)
        first = np.where(shared.any(axis=1), shared.argmax(axis=1), 0)
        positions = np.arange(self.batch.depth)
        before = self.around & (positions < first[:, None])
        inside = self.around & (positions >= first[:, None]) & ~shared
        columns = {
            "parallel.trips": _log(trips),
            "parallel.loops": shared.sum(axis=1).astype(np.float64),
            "parallel.outside": _log(np.where(before, self.trips, 1.0).prod(axis=1)),
            "parallel.calls": _log(np.where(inside, self.trips, 1.0).prod(axis=1)),
            "parallel.chunk": _log(np.ceil(trips / self.threads)),
        }
        for i, role in enumerate(_ROLES):
            columns[f"parallel.moves_{role}"] = (shared & self.moved[:, :, i]).any(axis=1).astype(np.float64)
        return columns

    def slots(self) -> dict[str, FloatArray]:
        """The loops around the call, from the innermost: trips, what they move, bytes from there inwards."""
        tiled = np.array([sum(loop.within is None and loop.step > 1 for loop in s.loops) for s in self.structures])
        columns = {"tiles": tiled.astype(np.float64)}
        whole = self.bytes.sum(axis=2)
        # 1 for the innermost loop that runs more than once, counting outwards.
        number = np.where(self.around, np.cumsum(self.around[:, ::-1], axis=1)[:, ::-1], 0)
        rows = np.arange(self.count)
        caches = self.machine.caches
        for k in range(SLOTS):
            here = number == k + 1
            there = here.any(axis=1)
            at = np.where(there, here.argmax(axis=1), 0)
            columns[f"slot{k}.trips"] = np.where(there, _log(self.trips[rows, at]), 0.0)
            for i, role in enumerate(_ROLES):
                columns[f"slot{k}.moves_{role}"] = (there & self.moved[rows, at, i]).astype(np.float64)
            # Without such a loop everything is inside already.
            size = whole[rows, np.where(there, at, 0)]
            for level in range(_LEVELS):
                cache_bytes = caches[min(level, len(caches) - 1)].bytes
                columns[f"slot{k}.over_L{level + 1}"] = _log(size / cache_bytes)
        return columns

    def sizes(self) -> dict[str, FloatArray]:
        """The problem."""
        counts = self.nest.counts
        extents = {name: float(c.extent or 1) for name, c in counts.items()}
        reduction = math.prod(extents[i] for i in self.found.reductions)
        columns_of = [i for i in self.found.output.strides if self.found.output.strides[i] == 1]
        wide = math.prod(extents[i] for i in columns_of)
        rows = math.prod(extents.values()) / reduction / wide
        total = np.take_along_axis(self.bytes[:, 0, :], self.roles, axis=1)
        ones = np.ones(self.count)
        columns = {
            "problem.operations": ones * math.log2(self.operations),
            "problem.intensity": _log(self.operations / total.sum(axis=1)),
            "problem.rows": ones * math.log2(rows),
            "problem.columns": ones * math.log2(wide),
            "problem.reduction": ones * math.log2(reduction),
            "problem.threads": ones * math.log2(self.threads),
            "problem.element_bytes": ones
            * float(max(one.element.bytes for one in (self.found.left, self.found.right))),
        }
        caches = self.machine.caches
        for i, role in enumerate(_ROLES):
            for level in range(_LEVELS):
                cache_bytes = caches[min(level, len(caches) - 1)].bytes
                columns[f"problem.{role}_over_L{level + 1}"] = _log(total[:, i] / cache_bytes)
        return columns


def _pages(steps: Sequence[tuple[int, int]], page: int) -> float:
    """Pages that a call touches of an operand, from (bytes between neighbours, how many) of its loops, least first:
    runs that lie within a page count as their bytes, others as one page per step."""
    pages, run = 1.0, 0.0
    for stride, trips in steps:
        if stride >= page:
            pages *= trips
        else:
            run = max(run, float(stride * trips))
    return max(1.0, pages * max(1.0, run / page))


@cache
def _block_features(
    target: Isa, product: Product, element: ElementType, m: int, n: int, rows: int, columns: int
) -> tuple[float, float, float, float, float, float, float]:
    """(rows, log2 columns, vectors, accumulators per register, modelled fraction of the peak, parts of the rows and of
    the columns that whole blocks leave over) of a register block."""
    lanes = target.lanes(element)
    vectors = -(-n // lanes)
    efficiency = block_efficiency(target, product, element, (m, n), rows, columns)
    held = m * vectors / target.registers
    return float(m), math.log2(n), float(vectors), held, efficiency, (rows % m) / rows, (columns % n) / columns
