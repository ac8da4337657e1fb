"""`dnn-paper`: the pairwise network of PolyDL (Tavarageri et al., TACO 2021, section 5) as it is described.

Inputs: the sizes of the working sets that L1, L2, L3 and memory serve (Algorithms 1 and 2), of the one variant and of
the other, divided by the sum of all eight. Layers of 64, 32, 16 and 8 neurons with relu, relu, softsign and relu; two
outputs with softmax. The first variant wins when its output is above theta = 0.6, the second likewise, else it is a
draw. All pairs play; variants are ranked by wins.

Departures: both orders of a pair are played, since the network is not symmetric. Variants with equal working sets are
one player (the network cannot tell them apart); of more than `PLAYERS` different ones, those with the least cost of
equation 1 play, and the others follow in the order of that cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from polydl.base import resources
from polydl.dependences.nests import Nest
from polydl.model.scop import Scop
from polydl.rank.cost import CostRanker
from polydl.rank.network import Layer, forward, softmax
from polydl.rank.ranker import FloatArray, Scored
from polydl.rank.traffic import TrafficRanker
from polydl.rank.weights import Weights, load_weights
from polydl.schedule.loops import NestLoops
from polydl.target import Machine

SHIPPED = "dnn-paper.safetensors"
INPUTS = ("served_by_L1_bytes", "served_by_L2_bytes", "served_by_L3_bytes", "served_by_memory_bytes")
FEATURES_VERSION = 1
HIDDEN = (64, 32, 16, 8)
ACTIVATIONS = ("relu", "relu", "softsign", "relu", "none")
THETA = 0.6
PLAYERS = 1000
_CHUNK = 128
"""Players whose games are computed together."""


@cache
def load_paper(path: Path) -> Weights:
    """Weights of a `dnn-paper`. Raises ModelError."""
    return load_weights(path, "dnn-paper", INPUTS, FEATURES_VERSION)


def pair_inputs(first: FloatArray, second: FloatArray) -> FloatArray:
    """(N, 8) from the (N, 4) working sets of both: divided by their common sum."""
    both = np.concatenate([first, second], axis=1)
    return np.asarray(both / np.maximum(both.sum(axis=1, keepdims=True), 1.0))


def wins(layers: Sequence[Layer], sets: FloatArray, count: FloatArray, theta: float = THETA) -> FloatArray:
    """(P,) games won by each player against all others, each as often as there are variants behind it.

    `sets` (P, 4) working sets in bytes; `count` (P,) variants that have them.
    """
    players = len(sets)
    won = np.zeros(players)
    for start in range(0, players, _CHUNK):
        some = np.arange(start, min(players, start + _CHUNK))
        first, second = np.repeat(sets[some], players, axis=0), np.tile(sets, (len(some), 1))
        outcome = softmax(forward(layers, pair_inputs(first, second))).reshape(len(some), players, 2)
        # Nobody plays against their like: that game has no winner.
        outcome[np.arange(len(some)), some] = 0.5
        won[some] += ((outcome[:, :, 0] > theta) * count).sum(axis=1)
        won += ((outcome[:, :, 1] > theta) * count[some, None]).sum(axis=0)
    return won


def tournament(layers: Sequence[Layer], sets: FloatArray, cost: FloatArray, theta: float = THETA) -> FloatArray:
    """(V,) scores, lower is better: the share of its games that a variant did not win, 0 to 1; those that did not play
    have 1 and more, by their cost."""
    distinct, which, count = np.unique(sets, axis=0, return_inverse=True, return_counts=True)
    which = which.reshape(-1)
    least = np.full(len(distinct), np.inf)
    np.minimum.at(least, which, cost)
    order = np.argsort(least, kind="stable")
    playing = order[:PLAYERS]
    games = 2.0 * max(1, int(count[playing].sum()) - 1)
    scores = np.empty(len(distinct))
    scores[playing] = 1.0 - wins(layers, distinct[playing], count[playing].astype(np.float64), theta) / games
    scores[order[PLAYERS:]] = 1.0 + np.arange(1, len(order) - PLAYERS + 1)
    return np.asarray(scores[which])


class PaperRanker:
    """The tournament. See the module's documentation. Nests that are no contractions are left to `traffic`, whose
    seconds are far below the scores here."""

    name = "dnn-paper"

    def __init__(self, path: Path | None = None) -> None:
        """Rank with a file of weights; None: the shipped one. Raises ModelError."""
        self.weights = load_paper(path or resources.trained_models() / SHIPPED)

    def rank(self, scop: Scop, nest: Nest, structures: Sequence[NestLoops], machine: Machine, threads: int) -> Scored:
        """Scores without unit; features: bytes of the working sets that each level serves."""
        if nest.contraction is None:
            return TrafficRanker().rank(scop, nest, structures, machine, threads)
        scored = CostRanker().rank(scop, nest, structures, machine, threads)
        sets = working_sets(scored.columns, len(structures))
        theta = self.weights.header.numbers["theta"]
        return Scored(tournament(self.weights.members[0], sets, scored.scores, theta), scored.columns)


def working_sets(columns: Mapping[str, FloatArray], count: int) -> FloatArray:
    """(V, 4) from the columns of `cost`; a level that the machine lacks serves nothing."""
    return np.stack([columns.get(name, np.zeros(count)) for name in INPUTS], axis=1)
