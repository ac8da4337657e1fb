"""measure.rounds: what a contender takes, told apart from what disturbs whole rounds."""

from __future__ import annotations

import numpy as np
import pytest

from polydl.measure.rounds import undisturbed

OWN = np.array([1.0, 1.1, 1.3, 2.0]) * 1e-3


def sampled(disturbed: float, seed: int, rounds: int = 9) -> list[dict[int, float]]:
    """Samples with noise of half a percent, in rounds of which a share takes up to twice as long."""
    rng = np.random.default_rng(seed)
    slow = np.where(rng.random(rounds) < disturbed, rng.uniform(1.5, 2.0, rounds), 1.0)
    return [{r: own * slow[r] * float(np.exp(rng.normal(0, 0.005))) for r in range(rounds)} for own in OWN]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("disturbed", [0.0, 0.4, 0.8])
def test_disturbed_rounds_change_no_ratio(disturbed: float, seed: int) -> None:
    found = undisturbed(sampled(disturbed, seed))
    assert found.seconds / found.seconds[0] == pytest.approx(OWN / OWN[0], rel=0.015)
    assert (found.error < 0.01).all()


def test_a_tenth_of_quiet_rounds_gives_the_level() -> None:
    samples = [{r: own * (1.0 if r in (3, 7) else 2.0) for r in range(10)} for own in OWN]
    assert undisturbed(samples).seconds == pytest.approx(OWN)


def test_those_that_took_part_in_other_rounds_are_compared_with_who_was_there() -> None:
    # Later rounds were slow for everybody, and only the two fastest were in them.
    samples = [{r: own * (1.0 if r < 9 else 1.9) for r in range(27 if own < 1.2e-3 else 9)} for own in OWN]
    assert undisturbed(samples).seconds == pytest.approx(OWN)


def test_without_samples() -> None:
    assert undisturbed([]).seconds.shape == (0,)
    found = undisturbed([{}, {0: 1.0}, {}])
    assert np.isnan(found.seconds).tolist() == [True, False, True]
    assert found.seconds[1] == 1.0
    assert np.isnan(found.error).all()


def test_one_contender_has_a_low_quantile() -> None:
    assert undisturbed([dict(enumerate(range(1, 12)))]).seconds[0] == pytest.approx(2.0, rel=0.01)


def test_a_sample_that_the_clock_did_not_resolve() -> None:
    assert np.isfinite(undisturbed([{0: 0.0, 1: 1e-9}, {0: 1e-9, 1: 1e-9}]).seconds).all()
