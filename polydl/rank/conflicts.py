"""The cost of large power-of-two strides, with which operands compete for few of a cache's sets."""

from __future__ import annotations

import numpy as np

from polydl.locality.boxes import BoxNest
from polydl.model.strides import known
from polydl.rank.each_once import Alike
from polydl.rank.ranker import FloatArray
from polydl.schedule.loops import KernelLoops, NestLoops
from polydl.target import CacheLevel

_MOST_TRIPS = 64
"""Iterations of a loop whose lines are looked at one by one, at most."""


def inflation(nest: BoxNest, structures: Alike, cache: CacheLevel) -> FloatArray:
    """(V, A) by what large power-of-two strides enlarge an operand's footprint in a cache of few sets.

    Rows that start a multiple of sets * line apart compete for the same sets: with `used` of the cache's sets the
    operand fits only `used / sets` of the ways' capacity. `structures`: alike in their copies.
    """
    place = {name: a for a, name in enumerate(nest.arrays)}
    memory: dict[tuple[str, int], tuple[int, float] | None] = {}

    def of(structure: NestLoops) -> FloatArray:
        found = np.ones(len(nest.arrays))
        if structure.kernel is None or structure.over_segment:
            return found
        packed = {p.operand for p in structure.packs}
        for role in ("A", "B"):
            if role in packed:
                continue  # copied side by side
            key = role, id(structure.kernel)
            if key not in memory:
                here = structure.operand(role).array in place  # else what the array's boxes are is not known
                memory[key] = _of_operand(nest, structure, role, cache, place) if here else None
            if (factor := memory[key]) is not None:
                found[factor[0]] = max(found[factor[0]], factor[1])
        return found

    return structures.asked(len(nest.arrays), of)


def again(nest: BoxNest, structures: Alike, cache: CacheLevel) -> FloatArray:
    """(V, A) how often a line of an operand comes into a cache where a microkernel uses it once for each step.

    A microkernel goes along all rows of its block at once. Where they are in so few sets that not all of their lines
    fit there, what does not fit has left the cache before the next step needs the next element of the line.
    `structures`: alike in their copies.
    """
    place = {name: a for a, name in enumerate(nest.arrays)}
    memory: dict[object, float] = {}
    rows: dict[int, FloatArray] = {}

    def of_kernel(structure: NestLoops, kernel: KernelLoops) -> FloatArray:
        found = np.ones(len(nest.arrays))
        if (column := place.get(structure.operand("A").array)) is not None:
            key = (kernel.m, structure.inner[0].iterator, kernel.reductions)
            if key not in memory:
                memory[key] = _of_rows(nest, structure, cache)
            found[column] = memory[key]
        return found

    def of(structure: NestLoops) -> FloatArray:
        kernel = structure.kernel
        if kernel is None or structure.over_segment or any(pack.operand == "A" for pack in structure.packs):
            return np.ones(len(nest.arrays))
        if id(kernel) not in rows:
            rows[id(kernel)] = of_kernel(structure, kernel)
        return rows[id(kernel)]

    return structures.asked(len(nest.arrays), of)


def _of_rows(nest: BoxNest, structure: NestLoops, cache: CacheLevel) -> float:
    """Of lines that a loop goes along element by element: what its iterations touch are a line for each row of the
    block and iteration of the loops inside of it, and those of one set that are more than its ways are lost."""
    kernel, left = structure.kernel, structure.operand("A")
    assert kernel is not None
    size = nest.element_bytes[left.array]
    rows = structure.inner[0]
    offsets = np.arange(kernel.m) * known(left.strides[rows.iterator])
    for loop in reversed(kernel.reductions):
        stride = known(left.strides[loop.iterator])
        if abs(stride) == 1:
            break
        trips = min(n for n in (loop.within, structure.nest.counts[loop.iterator].extent, _MOST_TRIPS) if n is not None)
        offsets = np.add.outer(offsets, np.arange(trips) * stride).ravel()
    else:
        return 1.0
    if abs(known(left.strides[rows.iterator])) * size < cache.line_bytes:
        return 1.0
    lines = np.unique(offsets * size // cache.line_bytes)
    held = np.bincount(lines % cache.sets)
    lost = float(np.maximum(held - cache.ways, 0).sum()) / len(lines)
    return max(1.0, lost * cache.line_bytes / size)


def _of_operand(
    nest: BoxNest, structure: NestLoops, role: str, cache: CacheLevel, place: dict[str, int]
) -> tuple[int, float]:
    operand = structure.operand(role)
    size = nest.element_bytes[operand.array]
    kernel = structure.kernel
    assert kernel is not None
    last = structure.inner[-1].iterator
    rows = structure.inner[0].iterator
    if role == "B":
        apart, run, count = (
            abs(known(operand.strides[last])) * size,
            kernel.n * size,
            structure.nest.counts[last].extent or 1,
        )
    else:
        inner = abs(known(operand.strides[last]))
        length = min(structure.inner[-1].within or (structure.nest.counts[last].extent or 1), 4096)
        apart, run, count = abs(known(operand.strides[rows])) * size, length * size if inner == 1 else size, kernel.m
    if apart <= run:
        return place[operand.array], 1.0
    lines = max(1, run // cache.line_bytes)
    distinct = cache.sets // np.gcd(cache.sets, max(1, apart // cache.line_bytes))
    used = min(cache.sets, int(distinct) * lines, count * lines)
    wanted = min(cache.sets, count * lines)
    return place[operand.array], float(wanted) / used
