"""Groups of made-up measurements whose truth the features tell."""

from __future__ import annotations

import numpy as np

from polydl.learn.train.training_data import DataSet, Group
from polydl.rank.features import names
from polydl.schedule.recipe import Recipe

WIDTH = len(names())


def made_up(problems: int, variants: int, seed: int = 0) -> DataSet:
    """The measured seconds are the traffic model's times exp(0.3 * feature 3 - 0.2 * feature 5), with 1 % of noise; the
    working sets grow with the seconds."""
    rng = np.random.default_rng(seed)
    groups = []
    for p in range(problems):
        values = rng.normal(0, 1, (variants, WIDTH))
        values[:, -1] = 4.0  # constant, as the element's size is
        traffic = np.exp(rng.normal(-7, 0.2, variants))
        log_seconds = np.log(traffic) + 0.3 * values[:, 3] - 0.2 * values[:, 5] + rng.normal(0, 0.01, variants)
        sets = np.exp(log_seconds + 7)[:, None] * np.array([1e3, 1e4, 1e5, 1e6]) * rng.uniform(0.9, 1.1, (variants, 4))
        groups.append(
            Group(
                f"net{p % 3}", f"layer{p}", "m", "conv2d", f'{{"N": {p}}}', 1e9,
                tuple(f"{p}.{v}" for v in range(variants)), (Recipe(()),) * variants,
                ("random",) * variants, values, traffic, {"compute": traffic}, sets,
                {"traffic": traffic, "cost": sets.sum(axis=1), "trace": traffic}, log_seconds,
                np.full(variants, 0.01), None,
            )
        )  # fmt: skip
    return DataSet(tuple(groups), "0" * 64, ("0123456789ab",), problems * variants)
