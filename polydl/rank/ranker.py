"""What a ranker is: structures in, one score each out, lower is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from polydl.dependences.nests import Nest
from polydl.model.scop import Scop
from polydl.schedule.structure import Structure
from polydl.target import Machine

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of V structures of one nest, and what they were made of."""

    scores: FloatArray
    """(V,) finite, lower is better: predicted seconds, or a cost without unit. Those of several nests are added up."""
    columns: Mapping[str, FloatArray]
    """(V,) each: the features by name; the unit is the name's last word."""

    def features(self, variant: int) -> dict[str, float]:
        """The features of one structure."""
        return {name: float(column[variant]) for name, column in self.columns.items()}


class Ranker(Protocol):
    """Orders structures of a nest for a machine and a number of threads."""

    name: str

    def rank(self, scop: Scop, nest: Nest, structures: Sequence[Structure], machine: Machine, threads: int) -> Scored:
        """Scores, one a structure. Raises QuotaExceeded where an exact analysis takes too long."""
