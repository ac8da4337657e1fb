"""Random box nests with random loop structures, and the comparison of both forms of the analysis."""

from __future__ import annotations

import random

import numpy as np

from polydl.locality import exact
from polydl.locality.batch import BatchWorkingSets, BoxAnalysis
from polydl.locality.boxes import BoxAccess, BoxNest, LoopBatch
from polydl.model import isl
from polydl.model.layout import row_major
from polydl.model.nest import TimedAccess, TimedNest
from polydl.model.time import map_from_affs

WorkingSets = list[tuple[str, str, int, dict[str, int], dict[str, int], int]]


def random_nest(rng: random.Random) -> BoxNest:
    """Up to 5 iterators of tiny extents; subscripts of one to three iterators with strides, offsets and signs."""
    count = rng.randint(1, 5)
    extents = tuple(rng.randint(1, {1: 12, 2: 9, 3: 6, 4: 5, 5: 4}[count]) for _ in range(count))
    ranks = {name: rng.randint(0, 3) for name in ("A", "B", "C")[: rng.randint(1, 3)]}
    accesses = []
    for _ in range(rng.randint(1, 4)):
        array = rng.choice(list(ranks))
        if accesses and rng.random() < 0.3:
            same = rng.choice(accesses)
            moved = tuple(offset + rng.choice([0, 0, 1, -1]) for offset in same.offsets)
            accesses.append(BoxAccess(same.array, same.rows, moved, rng.random() < 0.5, "S1"))
            continue
        rows = [[0] * count for _ in range(ranks[array])]
        for iterator in range(count):
            if rows and rng.random() < 0.75:
                rng.choice(rows)[iterator] = rng.choice([1, 1, 1, 1, 2, 3, -1, -2])
        offsets = tuple(rng.choice([0, 0, 0, 1, 2]) for _ in rows)
        accesses.append(BoxAccess(array, tuple(map(tuple, rows)), offsets, rng.random() < 0.4))
    layouts = {name: row_major((64,) * rank) for name, rank in ranks.items()}
    return BoxNest(tuple(f"x{i}" for i in range(count)), extents, tuple(accesses), dict.fromkeys(ranks, 4), layouts)


def random_loops(rng: random.Random, nest: BoxNest, blocks: bool = True) -> list[tuple[int, int]]:
    """A random interleaving of each iterator's loops: up to three spans, dividing or not, the last one a block or 1."""
    chains = []
    for index, extent in enumerate(nest.extents):
        spans = sorted({rng.randint(1, extent) for _ in range(rng.randint(0, 2))}, reverse=True)
        if not (blocks and rng.random() < 0.25) and (not spans or spans[-1] != 1):
            spans.append(1)
        chains.append([(index, span) for span in spans])
    loops = []
    while any(chains):
        loops.append(rng.choice([chain for chain in chains if chain]).pop(0))
    return loops


def random_batch(rng: random.Random, nest: BoxNest, variants: int, parallel: float) -> LoopBatch:
    loops = [random_loops(rng, nest) for _ in range(variants)]
    shared = [{d for d in range(len(each)) if rng.random() < parallel} for each in loops]
    return LoopBatch.of(nest, loops, shared)


def of_batch(found: BatchWorkingSets, variant: int) -> WorkingSets:
    result: WorkingSets = []
    for row in np.flatnonzero(found.variant == variant):
        pair = found.pairs[found.pair[row]]
        low, high = (
            {a: int(n) for a, n in zip(found.arrays, sizes[row], strict=True) if n}
            for sizes in (found.minimum, found.maximum)
        )
        for kind in pair.kinds:
            result.append((kind.value, pair.array, int(found.depth[row]), low, high, int(found.spans_parallel[row])))
    return sorted(result, key=repr)


def of_exact(nest: BoxNest, batch: LoopBatch, variant: int) -> WorkingSets:
    """Without repetitions: the closed form has one row for accesses with the same subscripts."""
    result: WorkingSets = []
    for found in exact.working_sets(timed_nest(nest, batch, variant)):
        spanned = found.spans_parallel
        low, high = (
            {part.array: part.elements.value for part in footprint.arrays}
            for footprint in (found.min_footprint, found.max_footprint)
        )
        depth = int(found.carried_by.split(".")[1])
        row = (found.kind.value, found.array, depth, low, high, -1 if spanned is None else int(spanned.split(".")[1]))
        if row not in result or _several_functions(nest, found.array):
            result.append(row)
    return sorted(result, key=repr)


def _several_functions(nest: BoxNest, array: str) -> bool:
    return len({a.function for a in nest.accesses if a.array == array}) > 1


def differences(seed: int, variants: int = 3) -> list[str]:
    """What differs between the two forms on one random nest; empty when they agree."""
    rng = random.Random(seed)
    nest = random_nest(rng)
    batch = random_batch(rng, nest, variants, parallel=rng.choice([0.0, 0.0, 0.3]))
    found = BoxAnalysis(nest).working_sets(batch)
    wrong = []
    for variant in range(variants):
        closed = {repr(row) for row in of_batch(found, variant)}
        reference = {repr(row) for row in of_exact(nest, batch, variant)}
        if closed != reference:
            wrong.append(f"seed {seed}, variant {variant}: {sorted(closed ^ reference)}\n{nest}\n{batch}")
    return wrong


def timed_nest(nest: BoxNest, batch: LoopBatch, variant: int) -> TimedNest:
    """One variant as a nest in time, for the exact analysis, which checks the closed forms and replaces them.

    Loops that run once are left out, as are padding; the others are called `name.depth`.
    """
    depths = [d for d in range(batch.depth) if batch.trip[variant, d] > 1]
    times = len(depths)
    spans: list[list[tuple[int, int]]] = [[] for _ in nest.iterators]
    for position, d in enumerate(depths):
        spans[batch.iterator[variant, d]].append((position, int(batch.span[variant, d])))
    block = [int(size) for size in batch.cover[variant, batch.depth, :]]
    # { [time, inside the block] }: the iterator is the sum of span * counter and its place inside the block.
    places = isl.BasicSet.universe(isl.unnamed_space(times + len(nest.iterators)))
    values: list[dict[int, int]] = []
    for index, extent in enumerate(nest.extents):
        value = dict(spans[index]) | {times + index: 1}
        values.append(value)
        limits = [extent, *(span for _, span in spans[index]), block[index]]
        inside = [*(position for position, _ in spans[index]), times + index]
        for level, position in enumerate(inside):
            places = isl.not_negative(places, {position: 1})
            rest = {other: -value[other] for other in inside[level:]}
            places = isl.not_negative(places, rest, limits[level] - 1)
        places = isl.not_negative(places, {times + index: -1}, block[index] - 1)
    domain = isl.project_onto(places.to_set(), range(times))
    accesses = tuple(
        TimedAccess(each.statement, each.array, each.write, _relation(places, values, each, times))
        for each in nest.accesses
    )
    names = tuple(f"{nest.iterators[batch.iterator[variant, d]]}.{d}" for d in depths)
    shared = frozenset(name for name, d in zip(names, depths, strict=True) if batch.parallel[variant, d])
    return TimedNest(names, domain, accesses, nest.element_bytes, shared)


def _relation(places: isl.BasicSet, values: list[dict[int, int]], access: BoxAccess, times: int) -> isl.Map:
    """{ [time] -> array[subscripts] } of the whole block that a time executes."""
    subscripts = []
    for row, offset in zip(access.rows, access.offsets, strict=True):
        factors = {
            position: coefficient * span
            for value, coefficient in zip(values, row, strict=True)
            for position, span in value.items()
            if coefficient
        }
        subscripts.append(isl.linear(places.get_space(), factors, offset))
    relation = isl.range_named(map_from_affs(places.to_set(), subscripts), access.array)
    return isl.domain_onto(relation, range(times))
