"""What the judgements of an order come to, on examples that can be worked out by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from polydl.learn.train.metrics import advantage, bootstrap, default_order, judge, random_choice, summary
from polydl.learn.train.training_data import Group
from polydl.schedule.recipe import Recipe


def group(seconds: list[float], origins: list[str] | None = None, noise: float = 0.0) -> Group:
    n = len(seconds)
    return Group(
        "net", "layer", "m", "f", "{}", 1.0, tuple(str(i) for i in range(n)), (Recipe(()),) * n,
        tuple(origins or ["random"] * n),
        np.zeros((n, 1)), np.ones(n), {}, np.ones((n, 4)), {}, np.log(seconds), np.full(n, noise), None,
    )  # fmt: skip


def test_a_perfect_and_a_reversed_order() -> None:
    g = group([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0])
    right, wrong = judge(g, g.log_seconds), judge(g, -g.log_seconds)
    assert (right.top1, right.top5, right.tau, right.pair_accuracy) == pytest.approx((1, 1, 1, 1))
    assert (wrong.top1, wrong.top5, wrong.tau, wrong.pair_accuracy) == pytest.approx((1 / 8, 1 / 3, -1, 0))


def test_ties_are_neither_luck_nor_bad_luck() -> None:
    g = group([1.0, 4.0])
    same = judge(g, np.zeros(2))
    assert same.top1 == pytest.approx(0.5)  # the geometric mean of 1 and 1/4
    assert (same.tau, same.pair_accuracy) == (0.0, 0.5)


def test_pairs_within_the_noise_do_not_count() -> None:
    g = group([1.0, 1.01, 2.0], noise=0.02)
    assert judge(g, np.array([2.0, 1.0, 3.0])).pair_accuracy == 1.0
    assert judge(group([1.0, 1.01, 2.0]), np.array([2.0, 1.0, 3.0])).pair_accuracy == pytest.approx(2 / 3)


def test_five_percent_of_forty_are_two() -> None:
    g = group([float(i) for i in range(1, 41)])
    scores = g.log_seconds.copy()
    scores[[0, 1]] = scores[[39, 0]]  # the second is thought best, the best last
    assert judge(g, scores).top5pct == pytest.approx(1 / 2)


def test_random_choice_is_the_expectation() -> None:
    g = group([1.0, 2.0, 3.0, 5.0, 7.0, 9.0, 11.0])
    gaps = g.gaps
    for count, figure in ((1, random_choice(g).top1), (5, random_choice(g).top5)):
        draws = [min(gaps[list(some)]) for some in itertools.combinations(range(7), count)]
        assert figure == pytest.approx(math.exp(-sum(draws) / len(draws)))


def test_the_default_order_is_found_by_its_mark() -> None:
    assert default_order(group([1.0, 2.0])) is None
    found = default_order(group([1.0, 2.0], ["random", "traffic,default"]))
    assert found is not None
    assert found.top1 == pytest.approx(0.5)


def test_summary_and_intervals() -> None:
    g = group([1.0, 2.0, 4.0])
    several = [judge(g, np.array(order)) for order in ([0, 1, 2.0], [1, 0, 2.0], [1, 2, 0.0])]
    found = summary(several)
    assert found["top1"] == pytest.approx((1 * 0.5 * 0.25) ** (1 / 3))
    assert found["worst"] == pytest.approx(0.25)
    low, high = bootstrap(several * 10)["top1"]
    assert 0.25 < low < found["top1"] < high < 1
    ours = {str(i): judge(g, g.log_seconds) for i in range(20)}
    theirs = {str(i): one for i, one in enumerate((several * 7)[:20])}
    ratio, low, high = advantage(ours, theirs)
    assert ratio > low > 1
    assert high > ratio
