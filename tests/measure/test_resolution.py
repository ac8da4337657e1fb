"""A gain that the clock cannot see is none, however many runs it is the mean of."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from polydl.measure import Measurement, Report, Status
from polydl.measure.samples import convincing
from polydl.measure.timing import clock_resolution


def report(original: float, candidate: float, resolution: float) -> Report:
    def one(name: str, seconds: float) -> Measurement:
        return Measurement(
            name,
            Status.VERIFIED,
            samples=(seconds,) * 9,
            median=seconds,
            undisturbed=seconds,
            spread=0.0,
            speedup=original / seconds,
        )

    return Report(one("original", original), (one("a", candidate),), 0.02, 0, 0, 0, resolution=resolution)


def test_nanoseconds_do_not_win() -> None:
    assert report(27e-9, 20e-9, 40e-9).best().id == "original"
    assert report(27e-6, 20e-6, 40e-9).best().id == "a"
    assert report(27e-9, 20e-9, 1e-9).best().id == "a"


def test_noise_still_counts() -> None:
    assert report(1.01, 1.0, 40e-9).best().id == "original"


def test_an_original_without_a_time_of_its_own() -> None:
    """Its median is not a number when parts stand for it: what the rounds say decides."""
    unknown = replace(report(2.0, 1.0, 1e-9), original=Measurement("original", Status.VERIFIED, median=math.nan))
    assert unknown.best().id == "a"


def test_resolution_is_measured() -> None:
    assert 0 < clock_resolution() < 1e-4


def test_rounds_must_be_won_more_often_than_by_chance() -> None:
    """The smallest number of won rounds of 20 with a probability beneath 0.05: 15, beneath 0.05 / 5: 16."""
    assert convincing([1.01] * 15 + [0.99] * 5, 1)
    assert not convincing([1.01] * 14 + [0.99] * 6, 1)
    assert convincing([1.01] * 16 + [0.99] * 4, 5)
    assert not convincing([1.01] * 15 + [0.99] * 5, 5)
    assert not convincing([1.0] * 40, 1)
    assert not convincing([3.0] * 11 + [0.9] * 10, 1)


def test_few_rounds_must_be_won_by_far() -> None:
    assert convincing([1.5, 1.6], 5)
    assert not convincing([1.1, 1.2, 1.1, 1.2, 1.1], 5)
    assert not convincing([1.5, 0.9], 5)
    assert not convincing([9.0], 1)
    assert not convincing([], 1)


def test_the_same_code_hardly_ever_wins() -> None:
    """Rounds of five copies of the original on a machine that others disturb now and then."""
    rng = np.random.default_rng(0)
    false = 0
    for _ in range(500):
        seconds = 1 + rng.random((6, 20)) * 0.01 + (rng.random((6, 20)) < 0.45) * rng.random((6, 20))
        false += any(convincing((seconds[0] / copy).tolist(), 5) for copy in seconds[1:])
    assert false / 500 < 0.05


def test_what_did_not_win_its_rounds_is_no_winner() -> None:
    made = report(2.0, 1.0, 1e-9)
    lucky = replace(made, measurements=tuple(replace(m, faster=False) for m in made.measurements))
    assert made.best().id == "a"
    assert lucky.best().id == "original"
