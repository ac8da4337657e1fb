"""Estimates corrected by times: against the textbook's equations, and what they say where the answer is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydl.rank.aspects import shared_words, words_of
from polydl.rank.corrected import PRIOR, Estimated, expected_gain, timed_next
from polydl.schedule.recipe import NestRecipe, Recipe
from polydl.schedule.transforms import Microkernel, Parallelize, Permute, Tile

RNG = np.random.default_rng(0)


def recipe(m: int, loop: str, *tiles: int) -> Recipe:
    inside = Microkernel(rows="i", columns="j", m=m, n=16, reduce=("k",))
    return Recipe((NestRecipe("S0", (*(Tile("k", (t,)) for t in tiles), inside, Parallelize((loop,)))),))


RECIPES = [recipe(m, loop, *tiles) for m in (4, 6) for loop in ("i", "j") for tiles in ((), (64,), (128,))]


def some(count: int = len(RECIPES)) -> Estimated:
    seconds = RNG.uniform(1, 2, count)
    parts = RNG.uniform(0, 1, (count, 3))
    resources = {f"r{i}": seconds * parts[:, i] for i in range(3)}
    return Estimated.of(seconds, resources, RECIPES[:count])


def test_words_are_the_same_for_any_transform() -> None:
    assert words_of(Recipe(())) == frozenset()
    words = words_of(Recipe((NestRecipe("S0", (Permute(("i", "j", "k")),)),)))
    assert {"S0 Permute", "S0 Permute order from i", "S0 Permute order to k"} < words
    assert "S0 Tile loop=k sizes=(64,)" in words_of(recipe(4, "i", 64))


def test_rows_of_words_have_length_one_and_leave_out_what_tells_nothing() -> None:
    rows = shared_words(RECIPES)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0)
    assert 0 < rows.shape[1] < len(set.union(*(set(words_of(one)) for one in RECIPES)))
    assert shared_words([RECIPES[0], RECIPES[0]]).shape == (2, 0)


def test_means_and_deviations_are_those_of_the_whole_covariance() -> None:
    """Rasmussen and Williams, equations 2.23 and 2.24, with an inverse in place of the factor."""
    known, timed = some(), {1: 0.3, 4: 0.9, 7: 0.1}
    whole, at = known.alike(range(len(known))), list(timed)
    assert np.diag(whole) == pytest.approx(known.own)
    inverse = np.linalg.inv(whole[np.ix_(at, at)] + PRIOR.noise**2 * np.eye(3))
    missed = np.array(list(timed.values())) - known.log_seconds[at]
    mean, deviation = known.corrected(timed)
    assert mean == pytest.approx(known.log_seconds + whole[:, at] @ inverse @ missed)
    variance = np.diag(whole - whole[:, at] @ inverse @ whole[:, at].T)
    assert deviation**2 == pytest.approx(variance, abs=1e-9)


def test_expected_gain_is_the_mean_of_what_lies_below() -> None:
    mean, deviation = np.array([0.0, 0.2, -0.1]), np.array([0.1, 0.3, 0.05])
    drawn = RNG.normal(size=(200_000, 3)) * deviation + mean
    assert expected_gain(mean, deviation, 0.05) == pytest.approx(np.maximum(0.05 - drawn, 0).mean(axis=0), rel=0.03)


def test_nothing_timed_is_the_estimate() -> None:
    known = some()
    assert np.array_equal(known.corrected({})[0], known.log_seconds)
    first = timed_next(known, {})
    assert first is not None
    assert (first.variant, first.gain) == (int(np.argmin(known.log_seconds)), math.inf)
    assert timed_next(known, {}, range(len(known))) is None


@given(st.integers(0, len(RECIPES) - 1), st.floats(-20, 20))
def test_what_is_slower_than_estimated_by_the_same_factor_changes_no_order(first: int, factor: float) -> None:
    """All variants share what the first one's estimate misses: a clock of another speed tells nothing."""
    known = replace(some(), prior=replace(PRIOR, scale=1e4))
    second = (first + 5) % len(known)
    means = []
    for shift in (0.0, factor):
        timed = {v: float(known.log_seconds[v]) + shift for v in (first, second)}
        means.append(known.corrected(timed)[0] - shift)
    assert means[0] == pytest.approx(means[1], abs=1e-3)


def test_variants_that_share_words_with_a_slow_one_are_expected_to_be_slow() -> None:
    flat = Estimated.of(np.ones(len(RECIPES)), {}, RECIPES)
    timed = {RECIPES.index(recipe(4, "i", 64)): 0.5, RECIPES.index(recipe(6, "j", 64)): 0.0}
    mean, _ = flat.corrected(timed)
    assert mean[RECIPES.index(recipe(4, "i", 128))] > mean[RECIPES.index(recipe(6, "j", 128))] + 0.1
