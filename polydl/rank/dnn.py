"""`dnn`: the traffic model's prediction, corrected by a small ensemble of networks that was trained on measurements.

    ln seconds(v) = ln(seconds that `traffic` predicts) + mean over members of net(features(v))

The networks are trained on pairs (polydl.learn.train.fit): p(a beats b) = sigmoid((ln seconds(b) - ln seconds(a)) /
temperature), so p(a beats b) = 1 - p(b beats a) by construction, and one number per variant ranks any number of them.

The order is that of the sum of a variant's places by these seconds and by the traffic model's (Borda's count): where
the networks are far from what they were trained on, the other opinion keeps the worst from coming first. Held out, the
networks alone chose 0.26 times the best at the worst. After finetuning on the user's own measurements the networks are
at home, and decide alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from polydl.base import resources
from polydl.dependences.nests import Nest
from polydl.model.scop import Scop
from polydl.rank.features import FEATURES_VERSION, features, names
from polydl.rank.network import forward, normalised
from polydl.rank.ranker import FloatArray, Scored
from polydl.rank.traffic import TrafficRanker
from polydl.rank.weights import Weights, load_weights
from polydl.schedule.loops import NestLoops
from polydl.target import Machine

SHIPPED = "dnn.safetensors"


@cache
def load_dnn(path: Path) -> Weights:
    """Weights of a `dnn`. Raises ModelError."""
    return load_weights(path, "dnn", names(), FEATURES_VERSION)


def log_scores(weights: Weights, values: FloatArray, traffic_seconds: FloatArray) -> FloatArray:
    """(members, V) natural logarithms of the predicted seconds."""
    ready = normalised(values, weights.mean, weights.scale, weights.header.numbers["clip"])
    corrections = np.stack([forward(member, ready)[:, 0] for member in weights.members])
    return np.asarray(np.log(traffic_seconds) + corrections)


def agreed(weights: Weights, log_seconds: FloatArray, log_traffic: FloatArray) -> FloatArray:
    """(V,) the same logarithms of predicted seconds, dealt out anew in the order of the summed places of both, those by
    traffic weighted with the file's `second_opinion`."""
    share = weights.header.numbers.get("second_opinion", 1.0)
    places = [np.argsort(np.argsort(x, kind="stable"), kind="stable") for x in (log_seconds, log_traffic)]
    order = np.lexsort((places[0], places[0] + share * places[1]))
    result = np.empty_like(log_seconds)
    result[order] = np.sort(log_seconds)
    return result


class DnnRanker:
    """Predicted seconds. See the module's documentation. Nests that are no contractions are left to `traffic`."""

    name = "dnn"

    def __init__(self, path: Path | None = None) -> None:
        """Rank with a file of weights; None: the shipped one. Raises ModelError."""
        self.weights = load_dnn(path or resources.trained_models() / SHIPPED)

    def rank(self, scop: Scop, nest: Nest, structures: Sequence[NestLoops], machine: Machine, threads: int) -> Scored:
        """Scores in seconds, in the order of both opinions (`agreed`); features: the networks' seconds, the traffic
        model's, the correction, and the members' standard deviation (both as logarithms)."""
        found = features(scop, nest, structures, machine, threads)
        if found is None:
            return TrafficRanker().rank(scop, nest, structures, machine, threads)
        each = log_scores(self.weights, found.values, found.traffic_seconds)
        mean = each.mean(axis=0)
        return Scored(
            np.exp(agreed(self.weights, mean, np.log(found.traffic_seconds))),
            {
                "predicted_seconds": np.exp(mean),
                "traffic_seconds": found.traffic_seconds,
                "correction": mean - np.log(found.traffic_seconds),
                "uncertainty": each.std(axis=0),
            },
            seconds=True,
        )
