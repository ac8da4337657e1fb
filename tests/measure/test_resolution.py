"""A gain that the clock cannot see is none, however many runs it is the mean of."""

from __future__ import annotations

import math
from dataclasses import replace

from polydl.measure import Measurement, Report, Status
from polydl.measure.timing import clock_resolution


def report(original: float, candidate: float, resolution: float) -> Report:
    def one(name: str, seconds: float) -> Measurement:
        return Measurement(
            name, Status.VERIFIED, samples=(seconds,) * 9, median=seconds, spread=0.0, speedup=original / seconds
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
