"""Limits of time: the original is not stopped, and variants that are all slow for the machine's sake get their time."""

from __future__ import annotations

import dataclasses

import pytest

from polydl.measure import MeasureOptions, Status, Toolchain, measure, verify
from polydl.options import Options
from tests.measure.builders import QUICK, candidate, matmul

SLEEP = "usleep(400000);"
INCLUDES = "#include <unistd.h>\n"
PATIENT = dataclasses.replace(QUICK, timeout=20.0)


def tight(original: float, timeout: float) -> float:
    """0.2 s instead of `candidate_limit`'s 5 s, so that the test need not wait."""
    return min(timeout, 0.2 + 4 * original)


@pytest.fixture
def quick_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "candidate_limit", tight)


@pytest.mark.usefixtures("quick_limit")
def test_where_none_keeps_to_the_limit_all_get_the_whole_timeout() -> None:
    codes = {"slow": candidate(SLEEP, INCLUDES), "wrong": candidate("C[0][0] += 1;")}
    found = {m.id: m for m in measure(matmul(), codes, Toolchain(), PATIENT).measurements}
    assert found["slow"].status is Status.VERIFIED, found["slow"].message
    assert found["wrong"].status is Status.WRONG


@pytest.mark.usefixtures("quick_limit")
def test_beside_one_that_keeps_to_it_the_others_are_stopped() -> None:
    codes = {"slow": candidate(SLEEP, INCLUDES), "right": candidate()}
    found = {m.id: m for m in measure(matmul(), codes, Toolchain(), PATIENT).measurements}
    assert found["slow"].status is Status.TIMED_OUT
    assert found["right"].status is Status.VERIFIED


def test_only_a_timeout_that_was_asked_for_stops_the_original() -> None:
    assert Options().measuring(2).original_timeout > 1e5
    assert Options().measuring(2).timeout == MeasureOptions().timeout
    asked = Options(timeout=3.0).measuring(2)
    assert (asked.original_timeout, asked.timeout) == (3.0, 3.0)
