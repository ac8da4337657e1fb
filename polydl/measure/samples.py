"""The samples of contenders that took turns, and what they say: medians, noise, drift, and who wins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

import numpy as np

from polydl.base.records import dataclass
from polydl.measure.driver import Outcome, Word
from polydl.measure.rounds import undisturbed

_DOUBT = 0.05
"""Probability, over all candidates together, that code as fast as the original wins the rounds by chance alone."""
_PLAIN = 1.25
"""A candidate that is faster than the original by this ratio in every round needs no more rounds."""
_SINGLE_RUN_NOISE = 0.1
"""Least noise that is assumed when all timings are single runs: a tenth, from experience with shared machines."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of one contender."""

    round: int
    buffer_set: int
    seconds: float
    """Of one run."""


@dataclass(slots=True)
class Record:
    """All samples so far; the rounds of later passes continue the count."""

    samples: dict[int, list[Sample]] = field(default_factory=dict)
    """By index of the contender."""
    twin_ratios: list[float] = field(default_factory=list)
    """Ratio of the samples of the fastest contender and of its twin (the same code again), one per round."""
    spins: list[int] = field(default_factory=list)
    """Nanoseconds of the clock reference, a fixed amount of work, one per round."""

    def add(self, outcome: Outcome, joint: Sequence[int]) -> None:
        """Add the samples of a joint job. A round starts with its clock reference, the last slot."""
        number, twin, reference = len(self.spins) - 1, len(joint), len(joint) + 1
        fastest = outcome.words[Word.TWIN]
        pair: dict[int, float] = {}
        for slot, buffer_set, repeats, nanoseconds in outcome.samples.tolist():
            seconds = nanoseconds * 1e-9 / repeats
            if slot == reference:
                number += 1
                self.spins.append(nanoseconds)
                pair = {}
                continue
            if slot < twin:
                self.samples.setdefault(joint[slot], []).append(Sample(number, buffer_set, seconds))
            if slot in (fastest, twin):
                pair[slot] = seconds
                if len(pair) == 2:
                    self.twin_ratios.append(pair[fastest] / pair[twin])

    def median(self, contender: int) -> float:
        """Median seconds of a contender."""
        return float(np.median([sample.seconds for sample in self.samples[contender]]))

    def undisturbed(self) -> dict[int, tuple[float, float]]:
        """By contender its seconds without what disturbs whole rounds, and their relative error (measure.rounds)."""
        timed = {i: {s.round: s.seconds for s in some if s.round >= 0} for i, some in self.samples.items()}
        found = undisturbed(list(timed.values()))
        known = zip(found.seconds.tolist(), found.error.tolist(), strict=True)
        single = {i: (self.median(i), math.nan) for i, some in timed.items() if not some}
        return dict(zip(timed, known, strict=True)) | single

    def ratios(self, contender: int) -> list[float]:
        """The sample of the original over that of the contender, for each round that has both."""
        by_round = {sample.round: sample.seconds for sample in self.samples[0]}
        shared = (s for s in self.samples[contender] if s.round >= 0 and s.round in by_round)
        return [by_round[s.round] / s.seconds for s in shared]

    def drift(self) -> float:
        """Relative difference of the 10th and 90th percentiles of the clock reference; 0 for fewer than three
        samples."""
        if len(self.spins) < 3:
            return 0.0
        low, high = np.percentile(self.spins, [10, 90])
        return float(high / low) - 1

    def noise(self) -> float:
        """Relative difference between the fastest contender and its twin, the same code timed as another: the larger of
        |median ratio - 1| and two standard errors of that median (1.2533 · σ/√n for near-normal ratios, with σ from
        the median absolute deviation: 1.4826 · MAD)."""
        if not self.twin_ratios:
            return _SINGLE_RUN_NOISE
        ratios = np.array(self.twin_ratios)
        middle = float(np.median(ratios))
        deviation = 1.4826 * float(np.median(np.abs(ratios - middle)))
        return max(abs(middle - 1), 2 * 1.2533 * deviation / float(np.sqrt(ratios.size)))


def convincing(ratios: Sequence[float], candidates: int) -> bool:
    """Whether one of several candidates is faster than the original, by its ratios to it in the rounds.

    A sign test: code that is as fast wins a round with probability 1/2, whatever disturbs the machine. A number of won
    rounds is convincing when chance alone reaches it with a probability below `_DOUBT` over the number of candidates
    (Bonferroni). With too few rounds for any result to be convincing, all of them must be won by a large ratio.
    """
    rounds, won = len(ratios), sum(ratio > 1 for ratio in ratios)
    chance = sum(math.comb(rounds, k) for k in range(won, rounds + 1)) / 2**rounds
    if chance <= _DOUBT / max(candidates, 1):
        return True
    return rounds >= 2 and won == rounds and float(np.median(ratios)) >= _PLAIN
