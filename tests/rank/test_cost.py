"""Equation 1: the closed forms that the ranker uses against the exact analysis, on structures of real nests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polydl.dependences.analysis import dependences
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import Nest, nests
from polydl.frontend import load
from polydl.model.scop import Scop
from polydl.rank.batches import box_nest, loop_batch
from polydl.rank.block_shapes import register_blocks_for
from polydl.rank.cost import CostRanker, weights
from polydl.schedule.limits import SPACES, Limits
from polydl.schedule.loops import NestLoops
from polydl.search.space import legal_structures
from polydl.target import Machine, preset

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL = preset("epyc-zen4")
SMALL = replace(
    SMALL,
    caches=tuple(replace(c, bytes=size) for c, size in zip(SMALL.caches, (2048, 32768, 262144), strict=True)),
)
"""Caches so small that the examples' working sets are spread over all levels."""


def structures(file: str, defines: dict[str, str], count: int) -> tuple[Scop, Nest, list[NestLoops]]:
    """A random sample of the default space of the only nest of an example."""
    (scop,) = load(EXAMPLES / file, defines=defines).scops
    found = dependences(scop, reads=False)
    (nest,) = nests(scop, found)
    space = replace(SPACES["default"], tile_sizes=(4, 6, 16), limit=3000)
    blocks = register_blocks_for(SMALL)
    every = list(legal_structures(Limits(nest, nest_legality(nest, found), space, blocks, 2)))
    return scop, nest, random.Random(0).sample(every, min(count, len(every)))


CASES = [
    ("matmul.c", {"M": "60", "N": "64", "K": "40"}),
    ("conv2d.c", {"NOFM": "128", "NIFM": "128", "OFH": "7", "OFW": "14"}),
    ("conv2d.c", {"OFH": "7", "OFW": "5", "STRIDE_H": "2", "STRIDE_W": "2"}),
    ("conv2d.c", {"OFH": "7", "OFW": "5", "KH": "1", "KW": "1", "STRIDE_H": "2", "STRIDE_W": "2"}),
]


@pytest.mark.parametrize(("file", "defines"), CASES)
def test_closed_forms_equal_the_exact_ones_on_real_structures(file: str, defines: dict[str, str]) -> None:
    scop, nest, sample = structures(file, defines, 25)
    ranker = CostRanker()
    scored = ranker.rank(scop, nest, sample, SMALL, 2)
    exact = ranker._exact(scop, sample, SMALL)
    closed = np.stack(list(scored.columns.values()), axis=1)
    assert np.array_equal(closed, exact)
    assert np.array_equal(scored.scores, exact @ weights(SMALL))
    assert len(set(scored.scores.tolist())) > 5, "the sample tells variants apart"


def test_weights_are_latency_over_bandwidth() -> None:
    machine = preset("epyc-zen4")
    found = weights(machine)
    assert found[0] == machine.caches[0].latency_cycles / machine.caches[0].bandwidth_bytes_per_cycle
    cycles = machine.memory.latency_ns * machine.frequency_ghz
    assert found[-1] == pytest.approx(cycles / (machine.memory.bandwidth_gbs / machine.frequency_ghz))
    assert (np.diff(found) > 0).all(), "farther levels cost more"


def slower(machine: Machine, level: int) -> Machine:
    caches = list(machine.caches)
    caches[level] = replace(caches[level], latency_cycles=caches[level].latency_cycles * 2)
    return replace(machine, caches=tuple(caches))


def test_each_level_counts() -> None:
    scop, nest, sample = structures("matmul.c", {"M": "200", "N": "200", "K": "200"}, 200)
    base = CostRanker().rank(scop, nest, sample, SMALL, 2)
    for level in range(len(SMALL.caches)):
        served = list(base.columns.values())[level]
        changed = CostRanker().rank(scop, nest, sample, slower(SMALL, level), 2)
        assert ((changed.scores > base.scores) == (served > 0)).all()


def test_the_batch_is_the_structure() -> None:
    """What the ranker analyses is what the structure says: iterators, steps, parallel loops."""
    scop, nest, sample = structures("matmul.c", {"M": "60", "N": "64", "K": "40"}, 50)
    box = box_nest(scop, nest)
    assert box is not None
    assert box.extents == (60, 64, 40)
    batch = loop_batch(box, sample)
    for v, structure in enumerate(sample):
        assert _loops(batch.iterator[v], batch.span[v]) == [
            (nest.loops.index(loop.iterator), loop.step) for loop in structure.executed
        ]
        assert tuple(np.flatnonzero(batch.parallel[v])) == structure.parallel_positions


def _loops(iterator: Sequence[int], span: Sequence[int]) -> list[tuple[int, int]]:
    return [(int(i), int(s)) for i, s in zip(iterator, span, strict=True) if i >= 0]
