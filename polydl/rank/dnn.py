"""`dnn`: the traffic model's prediction, corrected by a small ensemble of networks that was trained on measurements.

    score(v) = ln(seconds that `traffic` predicts) + mean over members of net(features(v))

The networks are trained on pairs (polydl.train.fit): p(a beats b) = sigmoid((score(b) - score(a)) / temperature), so
p(a beats b) = 1 - p(b beats a) by construction, and one score a variant ranks any number of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from polydl import resources
from polydl.machine import Machine
from polydl.model.scop import Scop
from polydl.rank.features import FEATURES_VERSION, features, names
from polydl.rank.forward import forward, normalised
from polydl.rank.ranker import FloatArray, Scored
from polydl.rank.traffic import TrafficRanker
from polydl.rank.weights import Weights, load_weights
from polydl.variants.nests import Nest
from polydl.variants.structure import Structure

SHIPPED = "dnn.safetensors"
_CONFIDENCE = 1.64
"""Standard deviations within which a variant may still be the best: 95 % on one side."""


@cache
def load_dnn(path: Path) -> Weights:
    """Weights of a `dnn`. Raises ModelError."""
    return load_weights(path, "dnn", names(), FEATURES_VERSION)


def log_scores(weights: Weights, values: FloatArray, traffic_seconds: FloatArray) -> FloatArray:
    """(members, V) natural logarithms of the predicted seconds."""
    ready = normalised(values, weights.mean, weights.scale, weights.header.numbers["clip"])
    corrections = np.stack([forward(member, ready)[:, 0] for member in weights.members])
    return np.asarray(np.log(traffic_seconds) + corrections)


class DnnRanker:
    """Predicted seconds. See the module's documentation. Nests that are no contractions are left to `traffic`."""

    name = "dnn"

    def __init__(self, path: Path | None = None) -> None:
        """Rank with a file of weights; None: the shipped one. Raises ModelError."""
        self.weights = load_dnn(path or resources.trained_models() / SHIPPED)

    def rank(self, scop: Scop, nest: Nest, structures: Sequence[Structure], machine: Machine, threads: int) -> Scored:
        """Scores in seconds; features: the traffic model's seconds, the correction, and the members' standard deviation
        (both as logarithms)."""
        found = features(scop, nest, structures, machine, threads)
        if found is None:
            return TrafficRanker().rank(scop, nest, structures, machine, threads)
        each = log_scores(self.weights, found.values, found.traffic_seconds)
        mean = each.mean(axis=0)
        return Scored(
            np.exp(mean),
            {
                "predicted_seconds": np.exp(mean),
                "traffic_seconds": found.traffic_seconds,
                "correction": mean - np.log(found.traffic_seconds),
                "uncertainty": each.std(axis=0),
            },
        )


def worth_timing(scores: FloatArray, uncertainty: FloatArray, most: int) -> int:
    """How many of the first variants of an order to time: those that may be the best one, given how much the members
    of the ensemble disagree; at least 1, at most `most`.

    `scores` (V,) seconds, best first; `uncertainty` (V,) standard deviations of their logarithms.
    """
    if len(scores) == 0:
        return 0
    gap = np.log(scores[:most]) - math.log(scores[0])
    unsure = _CONFIDENCE * np.hypot(uncertainty[:most], uncertainty[0])
    return max(1, int(np.flatnonzero(gap <= unsure).max(initial=0)) + 1)
