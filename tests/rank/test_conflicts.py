"""Rows of a block that start in one set of a cache, against a cache of least recently used lines."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import pytest

from polydl.dependences.analysis import dependences
from polydl.dependences.nests import Nest, nests
from polydl.frontend import load
from polydl.model.scop import Scop
from polydl.rank.batches import box_nest
from polydl.rank.conflicts import again
from polydl.schedule.structure import apply
from polydl.schedule.transforms import Microkernel, Pack, Permute
from polydl.target import CacheLevel, preset

FIRST, SECOND = preset("epyc-zen4").caches[:2]
FLOATS = FIRST.line_bytes // 4
PERIOD = FIRST.sets * FLOATS
"""Elements after which rows start in the same set."""

MATMUL = Path(__file__).resolve().parents[2] / "examples" / "matmul.c"


def product(length: int) -> tuple[Scop, Nest]:
    (scop,) = load(MATMUL, defines={"M": "140", "N": "64", "K": str(length)}).scops
    (nest,) = nests(scop, dependences(scop, reads=False))
    return scop, nest


def estimated(length: int, rows: int, cache: CacheLevel = FIRST, *, copied: bool = False) -> float:
    """How often a line of A comes into a cache, of blocks of so many rows of this length."""
    scop, nest = product(length)
    i, j, k = nest.loops
    copies = [Pack("A", j)] if copied else []
    structure = apply(nest, [Microkernel(i, j, rows, 32, (k,)), Permute((j, i)), *copies])
    box = box_nest(scop, nest, hull=True)
    assert box is not None
    return float(again(box, [structure], cache)[0, box.arrays.index("A")])


def counted(length: int, rows: int, cache: CacheLevel = FIRST) -> float:
    """The same of a cache that drops what was used longest ago."""
    sets: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(cache.sets)]
    steps, missed = 8 * FLOATS, 0
    for step in range(steps):
        for row in range(rows):
            line = (row * length + step) // FLOATS
            held = sets[line % cache.sets]
            missed += line not in held
            held[line] = None
            held.move_to_end(line)
            if len(held) > cache.ways:
                held.popitem(last=False)
    return missed / (rows * steps / FLOATS)


@pytest.mark.parametrize("rows", [6, 8, 9, 12, 14])
@pytest.mark.parametrize("length", [PERIOD, 3 * PERIOD, PERIOD + 4 * FLOATS, PERIOD // 2, 1008])
def test_lines_come_again_where_least_recently_used_ones_would_be_lost(length: int, rows: int) -> None:
    lost = counted(length, rows)
    found = estimated(length, rows)
    assert (found > 1) == (lost > 1), (found, lost)
    assert found <= lost, "caches drop at most what is used longest ago"


def test_the_more_rows_the_more_lines_are_lost() -> None:
    found = [estimated(PERIOD, rows) for rows in (8, 10, 12, 14)]
    assert found == sorted(found)
    assert found[0] == 1 < found[-1]


def test_a_larger_cache_and_a_copy_have_none_of_it() -> None:
    assert estimated(PERIOD, 14, SECOND) == 1
    assert estimated(PERIOD, 14, copied=True) == 1
