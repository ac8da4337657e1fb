"""Estimates that are corrected by times at a few sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

import polydl
from polydl import pipeline
from polydl.base.errors import PolyDLError
from polydl.lower.emit import Generated
from polydl.measure import MeasureOptions, Toolchain
from polydl.model import isl
from polydl.model.at_sizes import at_sizes, instances
from polydl.search.sizes.blocks import every_size_in_blocks
from polydl.search.sizes.choose import Compared, choose, choose_by_times
from polydl.search.sizes.code import EverySize, Setting, Symbolic, Timer
from polydl.search.sizes.corrected_by_times import closest, moved_by_times
from polydl.search.sizes.curve import way_times
from polydl.search.sizes.dispatch import leaves, taken
from polydl.search.sizes.find import code_for_other_sizes
from polydl.search.sizes.timed_sizes import is_quick, sizes_to_time
from tests.efforts import FEW, FEWEST
from tests.search.test_size_curve import OPTIONS, PRODUCT, symbolic

PLACES = np.log(np.array([[1.0], [10.0], [11.0], [100.0], [1000.0]]))


def test_the_closest_points_are_apart() -> None:
    estimated = np.array([[0.0, 1.0, 1.0, 1.0, 5.0], [3.0, 1.1, 1.15, 1.3, 0.0], [9.0, 9.0, 9.0, 9.0, 9.0]])
    assert closest(estimated, PLACES, 2) == [1, 3]
    assert closest(estimated, PLACES, 9) == [1, 3, 0, 4]
    assert closest(estimated[:1], PLACES, 9) == []
    assert closest(estimated, PLACES, 2, lambda point: point != 3) == [1, 0]


def test_sizes_at_which_a_run_takes_long_are_not_timed() -> None:
    machine = OPTIONS.changed(machine="epyc-zen5").target()
    scop, tuned = symbolic(), {"n": 1500, "m": 1400}
    assert sizes_to_time(scop, tuned, 0.01, machine)[0] == tuned
    slow = sizes_to_time(scop, tuned, 4.0, machine)
    whole = instances(at_sizes(scop, tuned))
    works = [instances(at_sizes(scop, sizes)) for sizes in slow]
    assert slow and all(4.0 * work <= 0.1 * whole for work in works)
    assert works[0] == max(works)
    quick = is_quick(scop, tuned, 4.0)
    assert quick(slow[0]) and not quick(tuned)


def test_a_correction_holds_where_it_was_timed_and_fades() -> None:
    estimated = np.zeros((2, 5))
    measured = np.array([[2.0], [0.5]])
    moved = moved_by_times(estimated, PLACES, [1], measured)
    assert moved[:, 1] == pytest.approx([math.log(2), -math.log(2)])
    gaps = moved[0] - moved[1]
    assert gaps[1] > gaps[2] > gaps[3] > gaps[4] > gaps[1] / 2
    assert gaps[0] == pytest.approx(gaps[1] / 2 + gaps[1] / 20)  # half of it holds everywhere


def test_what_all_ways_share_and_noise_change_nothing() -> None:
    estimated = np.array([[0.0, 1.0, 1.0, 1.0, 5.0], [3.0, 1.1, 1.15, 1.3, 0.0]])
    both = 7 * np.exp(estimated[:, [0, 3]])
    assert (moved_by_times(estimated, PLACES, [0, 3], both) == estimated).all()
    assert (moved_by_times(estimated, PLACES, [0, 3], both * [[1.02], [0.98]]) == estimated).all()


def test_a_point_without_all_times_counts_for_nothing() -> None:
    estimated = np.zeros((2, 5))
    measured = np.array([[2.0, math.nan], [0.5, 1.0]])
    one = moved_by_times(estimated, PLACES, [1, 4], measured)
    assert (one == moved_by_times(estimated, PLACES, [1], measured[:, :1])).all()
    assert (moved_by_times(estimated, PLACES, [4], measured[:, 1:]) == estimated).all()


def test_the_tree_follows_the_times() -> None:
    machine = OPTIONS.changed(machine="epyc-zen5").target()
    ranges = {"n": (1, 4096), "m": (1, 4096)}

    def at_timed_sizes(favoured: int) -> set[str]:
        asked: list[dict[str, int]] = []

        def timer(codes: Mapping[int, Generated], sizes: Sequence[Mapping[str, int]]) -> np.ndarray:
            asked.extend({name: one[name] for name in ranges} for one in sizes)
            return np.array([[1e-9 if number == favoured else 1.0] * len(sizes) for number in range(-1, len(codes))])

        given = [{"n": 500, "m": 600}, {"n": 31, "m": 17}]
        setting = Setting(machine, 2, effort=FEW)
        found = every_size_in_blocks(Symbolic.of(symbolic()), ranges, setting, Timer(given, timer))
        if favoured < 0:
            assert isinstance(found, str) and "as fast" in found
            return set()
        assert isinstance(found, EverySize), found
        assert len(found.timed) == len(asked) == 4 and asked[:2] == given
        return {found.tree.at(sizes).id for sizes in asked if sizes["m"] > 1}

    assert not at_timed_sizes(-1)
    first, second = at_timed_sizes(0), at_timed_sizes(1)
    assert len(first) == len(second) == 1
    assert first != second


def test_each_part_of_the_sizes_is_timed_where_it_has_another_way() -> None:
    """Three ways, each the best by estimate for a third of the sizes, of which the ends are timed; in the middle the
    second one is slower than the original."""
    sizes = np.arange(1.0, 31.0)[:, None] ** 3
    third = np.repeat([0, 1, 2], 10)
    seconds = np.where(np.arange(3)[:, None] == third, 0.5, 1.0)
    compared = Compared(seconds, [(isl.PwAff("[n] -> { [n] }"),)], sizes, judging=0)
    asked: list[int] = []

    def times(at: Sequence[int]) -> np.ndarray:
        asked.extend(at)
        found = seconds[:, at].copy()
        found[1, third[at] == 1] = 3.0
        return found

    before = choose(compared, [0, 1, 2], FEW.searched)
    found = choose_by_times(compared, before, [0, 1, 2], [0, 1, 28, 29], times, FEW)
    assert asked[:4] == [0, 1, 28, 29] and third[asked[4]] == 1
    assert all(taken(found.tree, sizes[p]) != 1 for p in range(12, 18))


@pytest.mark.parametrize(("gain", "ways"), [(1.05, {0}), (1.25, {1})])
def test_a_way_has_to_be_clearly_faster_than_the_original(gain: float, ways: set[int]) -> None:
    sizes = np.arange(1.0, 31.0)[:, None] ** 3
    seconds = np.array([[gain], [1.0]]) * np.ones(30)
    compared = Compared(seconds, [(isl.PwAff("[n] -> { [n] }"),)], sizes, judging=0)
    before = choose(compared, [0, 1], FEW.searched)
    assert set(leaves(before.tree)) == {1}
    found = choose_by_times(compared, before, [0, 1], [0, 29], lambda at: seconds[:, at], FEW)
    assert set(leaves(found.tree)) == ways


@pytest.mark.parametrize(("timed", "ways"), [(1.0, {0}), (0.5, {0, 1})])
def test_a_way_that_is_nowhere_faster_in_time_is_not_taken(timed: float, ways: set[int]) -> None:
    """By estimate it is at larger sizes, which are too long to be timed."""
    sizes = np.arange(1.0, 31.0)[:, None] ** 3
    seconds = np.where(np.arange(30) < 10, [[1.0], [1.5]], [[1.0], [0.1]])
    compared = Compared(seconds, [(isl.PwAff("[n] -> { [n] }"),)], sizes, judging=0)

    def times(at: Sequence[int]) -> np.ndarray:
        return np.array([[1.0] * len(at), [timed if p >= 9 else 2.0 for p in at]])

    before = choose(compared, [0, 1], FEW.searched)
    assert set(leaves(before.tree)) == {0, 1}
    found = choose_by_times(compared, before, [0, 1], [0, 9], times, FEW, lambda p: p < 10)
    assert set(leaves(found.tree)) == ways


def test_ways_are_timed_and_wrong_ones_are_errors() -> None:
    scop = pipeline.load(PRODUCT, sizes={"n": 8, "m": 8}).scops[0]
    same = Generated((), scop.source.text[scop.region.start : scop.region.end])

    def times(code: Generated, seconds: float = 1e-6) -> np.ndarray:
        return way_times(
            scop, seconds, lambda sizes: pipeline.load(PRODUCT, sizes=sizes).scops[0], {3: same, 5: code},
            [{"n": 4, "m": 4}, {"n": 9, "m": 5}], Toolchain(), MeasureOptions(threads=1, seconds=600.0),
        )  # fmt: skip

    assert (times(same) > 0).all()
    assert np.isnan(times(same, 1e9)).all()
    with pytest.raises(PolyDLError, match="computes something else"):
        times(Generated((), "(void)0;"))


def test_ways_of_long_code_are_timed_all_the_same() -> None:
    """An estimate alone is no reason to leave the original, however little is done for a program."""
    source = "#include <math.h>\nvoid f(int n, int m, const float A[n][m], float B[n][m])\n{\n"
    source += "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) B[i][j] = expf(A[i][j]);\n}\n"
    short = replace(FEWEST, searched=replace(FEWEST.searched, characters=1))
    o = OPTIONS.changed(sizes={"n": 90, "m": 70}, machine="epyc-zen5", threads=2, effort=short)
    ranking = pipeline.rank(source, options=o)
    asked: list[int] = []

    def timer(codes: Mapping[int, Generated], sizes: Sequence[Mapping[str, int]]) -> np.ndarray:
        asked.append(len(codes))
        return np.array([[1.0] * len(sizes)] + [[9.0] * len(sizes)] * len(codes))

    given = Timer([{"n": 90, "m": 70}, {"n": 31, "m": 17}], timer)
    found = code_for_other_sizes(ranking.scop, o, ranking.variants, ranking.machine, 2, given)
    assert isinstance(found, str) and "the original loops are as fast" in found
    assert asked and 1 <= min(asked) <= max(asked) <= 3


@pytest.mark.few_sizes
def test_a_run_with_a_curve_says_that_ways_were_timed() -> None:
    options = OPTIONS.changed(sizes={"n": range(1, 257), "m": 24}, curve=2)
    others = polydl.optimize(PRODUCT, options=options).scops[0].other_sizes
    assert isinstance(others, EverySize)
    assert 0 < len(others.timed) <= 8
