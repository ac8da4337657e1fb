"""Footprints of pieces of skewed loops, held against counting."""

from __future__ import annotations

import itertools
from pathlib import Path

import islpy as isl
import pytest

from polydl.rank.paths import Path as LoopPath
from polydl.rank.tree_estimate import footprints_of
from polydl.schedule.tree import Member
from tests.frontend.reading import region

STEPS, SIZE = 6, 40
BODY = "for (int t = 0; t < 6; t++) for (int i = 0; i < 40; i++) for (int j = 0; j < 40; j++) A[i][j] = A[i][j] * 2;"
HEAD = "void f(float A[restrict 40][40])"


def member(text: str) -> Member:
    return Member({"S0": isl.Aff(f"{{ S0[t, i, j] -> [{text}] }}")})


def value(aff: isl.Aff, point: tuple[int, ...]) -> int:
    factors = [aff.get_coefficient_val(isl.dim_type.in_, k).to_python() for k in range(len(point))]
    return sum(factor * x for factor, x in zip(factors, point, strict=True))


@pytest.mark.parametrize(
    "loops",
    [
        ("4t + 2i + j", "i", "t"),
        ("2t + i", "t", "j"),
        ("t + i + j", "t + i", "t"),
        ("t", "t + i", "t + j"),
        ("i", "t + j", "t"),
    ],
)
def test_slices_hold_all_that_is_touched_and_little_more(tmp_path: Path, loops: tuple[str, ...]) -> None:
    found = region(tmp_path, BODY, HEAD)
    footprints = footprints_of(found, found.statements)
    path = LoopPath(footprints.works["S0"], tuple(member(text) for text in loops))
    points = list(itertools.product(range(STEPS), range(SIZE), range(SIZE)))
    affs = [loop.affs["S0"] for loop in path.loops]
    times = [tuple(value(aff, point) for aff in affs) for point in points]
    for level in range(len(loops) + 1):
        pieces: dict[tuple[int, ...], set[tuple[int, int]]] = {}
        for (_, i, j), time in zip(points, times, strict=True):
            pieces.setdefault(time[:level], set()).add((i, j))
        most = max(len(elements) for elements in pieces.values())
        (bytes_,) = footprints.touched([(path.part(level),)], 1)[0]
        assert most <= bytes_ / 4 <= 2 * most


def test_a_wavefront_is_not_the_whole_array(tmp_path: Path) -> None:
    found = region(tmp_path, BODY, HEAD)
    footprints = footprints_of(found, found.statements)
    path = LoopPath(footprints.works["S0"], tuple(member(text) for text in ("4t + 2i + j", "i", "t")))
    assert path.ranges(1) == (STEPS, SIZE, SIZE)
    (whole,), (slice_,) = footprints.touched([(path.part(0),), (path.part(1),)], 1)
    assert whole == SIZE * SIZE * 4
    assert slice_ < whole
