"""Rows of a block that start in one set of a cache, against a cache of least recently used lines."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from pathlib import Path

import pytest

import polydl
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import Nest, nests
from polydl.frontend import load
from polydl.model.scop import Scop
from polydl.rank.batches import box_nest
from polydl.rank.conflicts import again
from polydl.rank.each_once import by_copies
from polydl.schedule.loops import apply
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
    return float(again(box, by_copies([structure]), cache)[0, box.arrays.index("A")])


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


CONVOLUTION = """
void f(float out[restrict 2][64][W][64], const float in[restrict 2][66][W + 2][C], const float w[restrict 3][3][C][64])
{
#pragma scop
    for (int n = 0; n < 2; n++)
        for (int y = 0; y < 64; y++)
            for (int x = 0; x < W; x++)
                for (int k = 0; k < 64; k++)
                    for (int r = 0; r < 3; r++)
                        for (int s = 0; s < 3; s++)
                            for (int c = 0; c < C; c++)
                                out[n][y][x][k] += in[n][y + r][x + s][c] * w[r][s][c][k];
#pragma endscop
}
"""


def windows(width: int, channels: int, reduce: tuple[str, ...], rows: int = 9) -> tuple[float, float]:
    """How often a line of the image comes, of blocks of rows of pixels: by estimate, and with least recently used lines
    dropped."""
    (scop,) = polydl.load(CONVOLUTION, defines={"W": width, "C": channels}).scops
    (nest,) = nests(scop, dependences(scop, reads=False))
    structure = apply(nest, [Microkernel("y", "k", rows, 32, reduce), Permute(("n", "x", "k", "y"))])
    box = box_nest(scop, nest, hull=True)
    assert box is not None
    steps = [range(4 * FLOATS) if loop == "c" else range(3) for loop in reduce]
    sets: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(FIRST.sets)]
    missed, seen = 0, set[int]()
    for at in itertools.product(*steps):
        place = dict(zip(reduce, at, strict=True))
        for row in range(rows):
            line = (((row + place["r"]) * (width + 2) + place["s"]) * channels + place["c"]) // FLOATS
            held = sets[line % FIRST.sets]
            missed += line not in held
            seen.add(line)
            held[line] = None
            held.move_to_end(line)
            if len(held) > FIRST.ways:
                held.popitem(last=False)
    return float(again(box, by_copies([structure]), FIRST)[0, box.arrays.index("in")]), missed / len(seen)


@pytest.mark.parametrize(("width", "channels"), [(8, 512), (8, 256), (14, 512), (30, 64), (46, 128)])
def test_windows_of_rows_are_in_few_sets_too(width: int, channels: int) -> None:
    """Eight pixels and two of padding of 512 channels are five pages: all rows start in one set."""
    found, lost = windows(width, channels, ("c", "r", "s"))
    assert found <= lost, "caches drop at most what is used longest ago"
    assert (found > 1.5) == (lost > 1.5), (found, lost)
    along, _ = windows(width, channels, ("r", "s", "c"))
    assert along <= found
