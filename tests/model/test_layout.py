"""Layouts against brute force over all elements of small arrays."""

from __future__ import annotations

import itertools
import math

import islpy as isl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydl.model.layout import Axis, Layout, row_major


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], Layout]:
    """Extents of an array and a layout for it: padded, cut into blocks once or twice, in any order."""
    extents = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    made = row_major(extents)
    for dimension in range(len(extents)):
        if draw(st.booleans()):
            made = made.padded(dimension, draw(st.integers(0, 3)), draw(st.integers(0, 3)))
    for dimension in draw(st.lists(st.integers(0, len(extents) - 1), max_size=2, unique=True)):
        made = made.blocked(dimension, outer := draw(st.sampled_from([1, 2, 3, 4, 6])))
        if outer % 2 == 0 and draw(st.booleans()):
            made = made.blocked(dimension, 2)
    return extents, made.permuted(draw(st.permutations(range(len(made.axes)))))


@st.composite
def tiled(draw: st.DrawFn) -> tuple[tuple[int, ...], Layout]:
    """A dimension in tiles of blocks that do not divide the tiles: each tile is filled up."""
    block, blocks, tiles = draw(st.integers(2, 4)), draw(st.integers(2, 3)), draw(st.integers(1, 3))
    tile = draw(st.integers(block + 1, block * blocks))
    axes = (Axis(0, tile, tiles), Axis(0, block, blocks), Axis(0, 1, block))
    return (tile * tiles,), Layout(tuple(draw(st.permutations(axes))), (0,))


def elements(extents: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, extents)))


def box(extents: tuple[int, ...]) -> isl.Set:
    names = [f"a{d}" for d in range(len(extents))]
    inside = " and ".join(f"0 <= {n} < {e}" for n, e in zip(names, extents, strict=True))
    return isl.Set(f"{{ A[{', '.join(names)}] : {inside} }}")


@given(layouts() | tiled())
def test_every_element_has_its_own_place(case: tuple[tuple[int, ...], Layout]) -> None:
    extents, layout = case
    places = [layout.offset(e) for e in elements(extents)]
    assert len(set(places)) == len(places)
    assert layout.size is not None
    assert min(places) >= 0
    assert max(places) < layout.size


@given(layouts())
def test_size_is_what_the_blocks_and_the_padding_need(case: tuple[tuple[int, ...], Layout]) -> None:
    """Some element of the padded array lies in the first and in the last block along every axis."""
    _, layout = case
    assert layout.size == math.prod(a.extent or 0 for a in layout.axes)
    padded = [max(a.step * (a.extent or 0) for a in layout.axes if a.dimension == d) for d in range(layout.rank)]
    whole = [range(-b, p - b) for b, p in zip(layout.before, padded, strict=True)]
    assert sorted(layout.offset(e) for e in itertools.product(*whole)) == list(range(layout.size))


@given(layouts() | tiled(), st.data())
def test_distances(case: tuple[tuple[int, ...], Layout], data: st.DataObject) -> None:
    """A distance is that between all pairs of elements; where it is None, not all pairs have the same."""
    extents, layout = case
    moves = tuple(data.draw(st.integers(-3, 3)) for _ in extents)
    inside = set(elements(extents))
    # Far away from the limits of the array all pairs there could be exist.
    wide = tuple(range(-b, 60) for b in layout.before) if math.prod(extents) < 10 and layout.rank == 1 else None
    pairs = inside if wide is None else set(itertools.product(*wide))
    found = {
        layout.offset(to) - layout.offset(e)
        for e in pairs
        if (to := tuple(x + m for x, m in zip(e, moves, strict=True))) in pairs
    }
    distance = layout.distance(moves)
    assert distance is None or found <= {distance}
    if wide is not None and distance is None:
        assert len(found) > 1


@given(layouts())
def test_strides_are_distances_between_neighbours(case: tuple[tuple[int, ...], Layout]) -> None:
    extents, layout = case
    if layout.strides is None:
        assert any(sum(a.dimension == d for a in layout.axes) > 1 for d in range(layout.rank))
        return
    origin = layout.offset((0,) * layout.rank)
    for e in elements(extents):
        assert layout.offset(e) == origin + sum(x * s for x, s in zip(e, layout.strides, strict=True))


@given(layouts() | tiled())
def test_isl_computes_the_same(case: tuple[tuple[int, ...], Layout]) -> None:
    extents, layout = case
    region = box(extents)
    address = isl.Map.from_aff(layout.address(region)).intersect_domain(region)
    for e in elements(extents):
        point = isl.Set(f"{{ A[{', '.join(map(str, e))}] }}")
        assert address.intersect_domain(point).range().is_equal(isl.Set(f"{{ [{layout.offset(e)}] }}"))
    assert address.is_injective()


@given(layouts(), st.data())
@settings(max_examples=60)
def test_accesses_compose_with_it(case: tuple[tuple[int, ...], Layout], data: st.DataObject) -> None:
    """S[i, j] -> A[affine subscripts], followed into storage."""
    extents, layout = case
    rows = [data.draw(st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.integers(-1, 4))) for _ in extents]
    subscripts = ", ".join(f"{a}*i + {b}*j + {c}" for a, b, c in rows)
    access = isl.Map(f"{{ S[i, j] -> A[{subscripts}] : 0 <= i < 4 and 0 <= j < 3 }}").intersect_range(box(extents))
    stored = layout.accessed(access)
    expected = {}
    for i, j in itertools.product(range(4), range(3)):
        e = tuple(a * i + b * j + c for a, b, c in rows)
        if e in set(elements(extents)):
            expected[i, j] = layout.offset(e)
    found: dict[tuple[int, ...], int] = {}
    for (i, j), place in expected.items():
        image = stored.intersect_domain(isl.Set(f"{{ S[{i}, {j}] }}")).range()
        assert image.is_equal(isl.Set(f"{{ [{place}] }}"))
        found[i, j] = place
    assert stored.domain().count_val().to_python() == len(expected)


@given(layouts(), st.data())
def test_footprints_and_contiguity(case: tuple[tuple[int, ...], Layout], data: st.DataObject) -> None:
    extents, layout = case
    ranges = []
    for extent in extents:
        low = data.draw(st.integers(0, extent - 1))
        ranges.append((low, data.draw(st.integers(low, extent - 1))))
    inside = " and ".join(f"{low} <= a{d} <= {high}" for d, (low, high) in enumerate(ranges))
    region = isl.Set(f"{{ A[{', '.join(f'a{d}' for d in range(len(extents)))}] : {inside} }}")
    places = sorted(layout.offset(e) for e in itertools.product(*(range(low, high + 1) for low, high in ranges)))
    assert layout.footprint(region) == (places[0], places[-1] + 1)
    assert layout.contiguous(region) == (places == list(range(places[0], places[-1] + 1)))


def test_the_layouts_of_the_docstring() -> None:
    plain = row_major((8, 48))
    assert plain.strides == (48, 1)
    assert plain.offset((2, 3)) == 99
    panels = plain.blocked(1, 16).permuted((1, 0, 2))
    assert panels.axes == (Axis(1, 16, 3), Axis(0, 1, 8), Axis(1, 1, 16))
    assert panels.strides is None
    assert panels.distance((1, 0)) == 16
    assert panels.distance((0, 16)) == 128
    assert panels.distance((0, 1)) is None
    pairs = plain.blocked(0, 2)
    assert [pairs.offset((k, n)) for k, n in ((0, 0), (1, 0), (0, 1), (2, 0))] == [0, 1, 2, 96]
    assert pairs.blocked(1, 16).permuted((1, 0, 3, 2)).shape == (3, 4, 16, 2)
    border = plain.padded(0, 1, 1).padded(1, 1, 1)
    assert (border.size, border.strides, border.offset((0, 0))) == (10 * 50, (50, 1), 51)


def test_a_cut_that_is_no_cut_has_strides() -> None:
    """Digits in their own order lie as if the dimension were not cut."""
    assert row_major((6, 5)).blocked(1, 5).strides == (5, 1)
    assert row_major((12,)).blocked(0, 4).strides == (1,)
    assert row_major((12,)).blocked(0, 5).strides == (1,)


def test_extents_that_are_not_known() -> None:
    first = row_major((None, 7))
    assert (first.strides, first.size) == ((7, 1), None)
    assert first.offset((3, 2)) == 23
    inner = row_major((5, None))
    assert (inner.strides, inner.size, inner.distance((0, 2)), inner.distance((1, 0))) == (None, None, 2, None)
    assert row_major(()).strides == ()
    assert row_major(()).size == 1


def test_filled_up_tiles_may_leave_gaps() -> None:
    """Tiles of 10 in blocks of 4: each tile takes three blocks."""
    layout = Layout((Axis(0, 10, 2), Axis(0, 4, 3), Axis(0, 1, 4)), (0,))
    assert layout.size == 24
    assert [layout.offset((i,)) for i in (0, 9, 10, 19)] == [0, 9, 12, 21]
    assert layout.distance((10,)) == 12
    assert layout.strides is None


@pytest.mark.parametrize(
    ("axes", "before", "wrong"),
    [
        ((Axis(0, 2, 4),), (0,), "no digit of step 1"),
        ((Axis(0, 8, 2), Axis(0, 1, 4)), (0,), "leave out"),
        ((Axis(0, 4, 2), Axis(0, 1, None)), (0,), "leave out"),
        ((Axis(0, 1, 4), Axis(1, 1, 4)), (0,), "of rank 1 has not"),
    ],
)
def test_what_is_no_layout(axes: tuple[Axis, ...], before: tuple[int, ...], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        Layout(axes, before)


def test_what_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="no multiple of 3"):
        row_major((16,)).blocked(0, 4).blocked(0, 3)
    with pytest.raises(ValueError, match="is blocked: pad first"):
        row_major((16,)).blocked(0, 4).padded(0, 1)
    with pytest.raises(ValueError, match="no order of 2 axes"):
        row_major((2, 3)).permuted((0, 0))
