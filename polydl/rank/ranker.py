"""What a ranker is: structures in, one score each out, lower is better."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from polydl.base.records import dataclass
from polydl.dependences.nests import Nest
from polydl.model.scop import Scop
from polydl.schedule.loops import NestLoops
from polydl.target import Machine

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a ranker says of a structure, or of several."""

    score: float
    """Lower is better: seconds, or a cost without unit; NaN: not ranked."""
    features: Mapping[str, float]
    """What the score was made of; the unit is the name's last word."""

    @staticmethod
    def total(opinions: Iterable[Opinion]) -> Opinion:
        """Of parts that run one after the other: times and amounts add up."""
        score, features = 0.0, dict[str, float]()
        for one in opinions:
            score += one.score
            for name, value in one.features.items():
                features[name] = features.get(name, 0.0) + value
        return Opinion(score, features)


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of V structures of one nest, and what they were made of."""

    scores: FloatArray
    """(V,) finite, lower is better: predicted seconds, or a cost without unit. Those of several nests are added up."""
    columns: Mapping[str, FloatArray]
    """(V,) each: the features by name; the unit is the name's last word."""
    seconds: bool = False
    """The scores are predicted seconds, not a cost without unit."""

    def opinion(self, variant: int) -> Opinion:
        """Score and features of one structure."""
        features = {name: float(column[variant]) for name, column in self.columns.items()}
        return Opinion(float(self.scores[variant]), features)


class Ranker(Protocol):
    """Orders structures of a nest for a machine and a number of threads."""

    name: str

    def rank(self, scop: Scop, nest: Nest, structures: Sequence[NestLoops], machine: Machine, threads: int) -> Scored:
        """Scores, one a structure. Raises QuotaExceeded where an exact analysis takes too long."""
