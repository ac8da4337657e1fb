"""Lines and pages against enumeration of addresses."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydl.locality.boxes import BoxAccess, BoxNest, LoopBatch
from polydl.locality.contiguity import unit_footprints
from polydl.model.layout import Layout, row_major


def by_enumeration(nest: BoxNest, high: list[int], unit: int) -> int:
    units = set()
    for access in nest.accesses:
        for x in itertools.product(*(range(h + 1) for h in high)):
            subscripts = [
                offset + sum(c * v for c, v in zip(row, x, strict=True))
                for row, offset in zip(access.rows, access.offsets, strict=True)
            ]
            first = nest.layouts["A"].offset(subscripts) * nest.element_bytes["A"]
            units |= {first // unit, (first + nest.element_bytes["A"] - 1) // unit}
    return len(units)


@st.composite
def nests(draw: st.DrawFn) -> tuple[BoxNest, list[tuple[int, int]]]:
    extents = tuple(draw(st.integers(1, 6)) for _ in range(3))
    steps = [draw(st.sampled_from([1, 1, 2])) for _ in range(3)]
    window = draw(st.booleans())
    rows = [[0, 0, 0] for _ in range(2 if window else 3)]
    for i in range(3):
        rows[min(i, len(rows) - 1)][i] = steps[i]
    offsets = tuple(draw(st.sampled_from([0, 0, 0, 1])) for _ in rows)
    needed = [
        o + sum(c * (e - 1) for c, e in zip(r, extents, strict=True)) + 1 for r, o in zip(rows, offsets, strict=True)
    ]
    shape = tuple(n + draw(st.sampled_from([0, 0, 1, 8, 32 - n])) for n in needed)
    access = BoxAccess("A", tuple(map(tuple, rows)), offsets, False)
    moved = BoxAccess("A", tuple(map(tuple, rows)), tuple(0 for _ in rows), True)
    accesses = (access, moved) if draw(st.booleans()) else (access,)
    nest = BoxNest(("i", "j", "k"), extents, accesses, {"A": draw(st.sampled_from([4, 8]))}, {"A": row_major(shape)})
    return nest, draw(st.permutations([(0, 1), (1, 1), (2, 1)]))


@st.composite
def stored_otherwise(draw: st.DrawFn) -> tuple[BoxNest, list[tuple[int, int]]]:
    """A nest whose array is padded, cut into blocks or interleaved, with its axes in any order."""
    nest, loops = draw(nests())
    layout = nest.layouts["A"]
    for dimension in range(layout.rank):
        if draw(st.booleans()):
            layout = layout.padded(dimension, draw(st.sampled_from([0, 1, 8])), draw(st.sampled_from([0, 1, 8])))
        if draw(st.booleans()):
            layout = layout.blocked(dimension, draw(st.sampled_from([2, 4, 8])))
            if draw(st.booleans()):
                layout = layout.blocked(dimension, 2)
    layout = layout.permuted(draw(st.permutations(range(len(layout.axes)))))
    return replace(nest, layouts={"A": layout}), loops


@settings(max_examples=300, deadline=None)
@given(nests() | stored_otherwise(), st.sampled_from([32, 64, 256]))
def test_against_enumeration(case: tuple[BoxNest, list[tuple[int, int]]], unit: int) -> None:
    nest, loops = case
    batch = LoopBatch.of(nest, [loops])
    found = unit_footprints(nest, batch, unit)
    for depth in range(batch.depth + 1):
        expected = by_enumeration(nest, [int(c) - 1 for c in batch.cover[0, depth]], unit)
        if found.exact[0, depth, 0]:
            assert found.units[0, depth, 0] == expected
        else:
            assert found.units[0, depth, 0] > 0


@pytest.mark.parametrize(
    ("columns", "depth", "lines"),
    [
        (1024, 0, 16 * 1024 * 4 // 64),  # all 16 rows, which fill the array
        (1024, 1, 1024 * 4 // 64),  # one row
        (1024, 2, 1),
    ],
)
def test_rows_of_a_matrix(columns: int, depth: int, lines: int) -> None:
    access = BoxAccess("A", ((1, 0), (0, 1)), (0, 0), False)
    nest = BoxNest(("i", "j"), (16, columns), (access,), {"A": 4}, {"A": row_major((16, columns))})
    found = unit_footprints(nest, LoopBatch.of(nest, [[(0, 1), (1, 1)]]), 64)
    assert found.units[0, depth, 0] == lines
    assert found.exact[0, depth, 0]


@pytest.mark.parametrize(
    ("layout", "loops", "lines", "exact"),
    [
        (row_major((64, 64)).blocked(1, 16).permuted((1, 0, 2)), (64, 16), 64, True),  # a panel lies in one piece
        (row_major((64, 64)).blocked(1, 16).permuted((1, 0, 2)), (1, 64), 4, True),  # a row: a line of each panel
        (row_major((64, 64)).blocked(1, 16).permuted((1, 0, 2)), (1, 24), 2, False),  # a panel and a half
        (row_major((64, 64)).blocked(0, 2), (2, 64), 8, True),  # two rows interleaved: together as one
        (row_major((64, 64)).blocked(0, 2), (1, 64), 8, True),  # one of them touches the lines of both
        (row_major((64, 64)).padded(1, 0, 16), (64, 64), 64 * 4, True),  # five lines a row, of which one is padding
    ],
)
def test_lines_of_other_layouts(layout: Layout, loops: tuple[int, int], lines: int, exact: bool) -> None:
    access = BoxAccess("A", ((1, 0), (0, 1)), (0, 0), False)
    nest = BoxNest(("i", "j"), loops, (access,), {"A": 4}, {"A": layout})
    found = unit_footprints(nest, LoopBatch.of(nest, [[(0, 1), (1, 1)]]), 64)
    assert (found.units[0, 0, 0], found.exact[0, 0, 0]) == (lines, exact)


def test_a_column_takes_a_line_an_element() -> None:
    access = BoxAccess("A", ((1, 0), (0, 1)), (0, 0), False)
    nest = BoxNest(("i", "j"), (100, 1), (access,), {"A": 4}, {"A": row_major((100, 1024))})
    batch = LoopBatch.of(nest, [[(0, 1), (1, 1)]])
    assert unit_footprints(nest, batch, 64).units[0, 0, 0] == 100
    assert unit_footprints(nest, batch, 4096).units[0, 0, 0] == 100
    assert np.array_equal(unit_footprints(nest, batch, 1 << 20).units[0, :, 0], [1, 1, 1])
