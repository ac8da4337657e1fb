"""`Estimate`: predicted seconds of one program as it is run, by resource; the parts add up to the score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np

from polydl.base.records import dataclass
from polydl.rank.ranker import FloatArray, Scored
from polydl.rank.summing import summing_seconds
from polydl.target import Machine

OVERLAP = 2.5
"""Exponent of the norm that joins the times of core and levels: 1 adds them up (no overlap), infinity takes the
longest (full overlap). 2.5 orders measured variants best: over 91 convolutions the first choice reaches 0.937 of the
best measured with it, 0.930 with 2 and 0.916 with 3, the best of five 0.976, 0.965 and 0.975 (Zen 5; the data of
experiments/collect.py).

Not what calibration measures (`Machine.observed`, `overlap_L2` and so on): FMAs that wait for nothing hide nearly all
of the time of loads (Zen 4). In kernels they need what is loaded, and loads and stores come in bursts. On the data of
three machines any exponent from 2 to 3 orders variants about as well, so that it stays a constant."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted seconds of a program, by what takes them.

    >>> Estimate({"compute": 0.002, "memory": 0.001}).score
    0.003
    """

    seconds: Mapping[str, float]
    """By resource, in seconds: `compute` (the core), `L2`, `L3`, …, `memory` (data from there), `translation` (page
    tables), `waiting` (for the busiest thread, and for lines that two threads write), `copies`, `sums` (of copies of an
    output), `forks` (of threads), `handed` (what other threads wrote in the nests before), and `correction` (what
    another ranker adds to, or takes from, the others)."""
    counts: Mapping[str, float] = field(default_factory=dict)
    """What they were made from, by name; the unit is the name's last word: bytes that one thread moves into each cache
    level and out of it, what the core would take alone, forks; and what other rankers say."""

    @property
    def score(self) -> float:
        """Seconds in all, to ten digits: vectorised arithmetic may differ in the last ones between two runs, and the
        order of equal variants must not."""
        return float(f"{math.fsum(self.seconds.values()):.10g}")

    @property
    def features(self) -> dict[str, float]:
        """The seconds by resource, as `compute_seconds`, and the counts."""
        return {f"{name}_seconds": value for name, value in self.seconds.items()} | dict(self.counts)

    def __add__(self, other: Estimate) -> Estimate:
        """Of two programs one after the other."""
        return Estimate.total((self, other))

    @staticmethod
    def total(several: Iterable[Estimate]) -> Estimate:
        """Of programs one after the other."""
        seconds: dict[str, float] = {}
        counts: dict[str, float] = {}
        for one in several:
            for into, own in ((seconds, one.seconds), (counts, one.counts)):
                for name, value in own.items():
                    into[name] = into.get(name, 0.0) + value
        return Estimate(seconds, counts)

    def corrected(self, seconds: float, counts: Mapping[str, float]) -> Estimate:
        """With the score that another ranker gives, and what it says besides."""
        own = self.features
        more = {name: value for name, value in counts.items() if name not in own}
        correction = seconds - math.fsum(self.seconds.values())
        return Estimate({**self.seconds, _CORRECTION: correction}, {**self.counts, **more})

    def corrected_as(self, other: Estimate) -> Estimate:
        """With the correction of another estimate."""
        if _CORRECTION not in other.seconds:
            return self
        return Estimate({**self.seconds, _CORRECTION: other.seconds[_CORRECTION]}, {**other.counts, **self.counts})


_CORRECTION = "correction"

NOT_RANKED = Estimate({"unknown": math.nan})


def overlapped(times: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """What each resource takes of the time of work that keeps several busy at once.

    `times` (V,) seconds that each would take alone. Together they take their norm T, with the exponent p = OVERLAP;
    of that, a resource with time t has t^p / T^(p - 1). These add up to T (Euler's theorem on homogeneous functions),
    and each is t times what a second more of t adds to T: what hides behind others has a small share.
    """
    whole = sum(t**OVERLAP for t in times.values())
    norm = np.asarray(whole) ** (1 / OVERLAP)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {name: np.where(norm > 0, t**OVERLAP / norm ** (OVERLAP - 1), 0.0) for name, t in times.items()}


def copy_seconds(copied: FloatArray, machine: Machine, threads: int) -> FloatArray:
    """(V,) seconds of one thread's copies of so many bytes: read and written at the speed of the outermost cache, where
    operands worth packing lie."""
    return np.asarray(copied * 2 / machine.cache_bandwidth(machine.caches[-1], threads))


@dataclass(frozen=True, slots=True)
class Resources:
    """The use of each resource by V programs, or V pieces of one, without regard to overlap. Each (V,)."""

    core: FloatArray
    """Seconds of one thread's instructions, with the data in the first-level cache."""
    moved: Mapping[str, FloatArray]
    """By cache level (`L1`, …) the bytes that one thread moves into it and out of it."""
    late: Mapping[str, FloatArray]
    """By cache level (`L1`, …) the seconds that one thread's lines take longer to come into it since no prefetcher
    follows them (`streams`)."""
    walks: FloatArray
    """Translations of addresses that a thread looks up in the page table."""
    imbalance: FloatArray
    """Time of the busiest thread over the mean."""
    copied: FloatArray
    """Bytes of operands that one thread copies."""
    summed: FloatArray
    """Bytes of all copies of an output that are added up."""
    forks: FloatArray
    """Times that threads are started."""
    contended: FloatArray
    """Cache lines of which two threads write a part each (Torrellas, Lam, Hennessy, "False sharing and spatial locality
    in multiprocessor caches", IEEE Transactions on Computers, 1994)."""

    def estimates(self, machine: Machine, threads: int) -> Estimates:
        """The seconds, with what overlaps shared out (`overlapped`)."""
        times = {"compute": self.core}
        for place, cache in enumerate(machine.caches):
            below = machine.caches[place + 1] if place + 1 < len(machine.caches) else None
            rate = machine.cache_bandwidth(below, threads) if below is not None else machine.memory_bandwidth(threads)
            late = self.late.get(f"L{cache.level}", 0.0)
            times[f"L{below.level}" if below is not None else "memory"] = self.moved[f"L{cache.level}"] / rate + late
        times["translation"] = self.walks * machine.seconds(machine.tlb.walk_cycles)
        seconds = overlapped(times)
        seconds["waiting"] = np.sum(list(seconds.values()), axis=0) * (self.imbalance - 1.0)
        seconds["waiting"] += self.contended * machine.seconds(machine.caches[-1].latency_cycles)
        seconds["copies"] = copy_seconds(self.copied, machine, threads)
        seconds["sums"] = summing_seconds(self.summed, machine, threads)
        seconds["forks"] = self.forks * machine.parallel_region_us * 1e-6
        counts = {f"into_{level}_bytes": bytes_ for level, bytes_ in self.moved.items()}
        return Estimates(seconds, counts | {"core_alone_seconds": self.core, "forks": self.forks})


@dataclass(frozen=True, slots=True)
class Estimates:
    """Estimates of V programs."""

    seconds: Mapping[str, FloatArray]
    """(V,) each, as in `Estimate`."""
    counts: Mapping[str, FloatArray]
    """(V,) each."""

    def __len__(self) -> int:
        return len(next(iter(self.seconds.values())))

    def each(self) -> list[Estimate]:
        """One by one."""
        count = len(self) if self.seconds else 0
        pairs = zip(_rows(self.seconds, count), _rows(self.counts, count), strict=True)
        return [Estimate(seconds, counts) for seconds, counts in pairs]

    def total(self) -> Estimate:
        """Of all of them, one after the other."""
        return Estimate(
            {name: math.fsum(column) for name, column in self.seconds.items()},
            {name: math.fsum(column) for name, column in self.counts.items()},
        )

    def scored(self) -> Scored:
        """As the scores and features that a ranker gives."""
        whole = np.sum(list(self.seconds.values()), axis=0)
        columns = {f"{name}_seconds": column for name, column in self.seconds.items()}
        return Scored(whole, columns | dict(self.counts) | {"predicted_seconds": whole}, seconds=True)

    @staticmethod
    def of(several: Sequence[Estimate]) -> Estimates:
        """Estimates that were made one by one."""
        seconds = dict.fromkeys(name for one in several for name in one.seconds)
        counts = dict.fromkeys(name for one in several for name in one.counts)
        return Estimates(
            {name: np.array([one.seconds.get(name, 0.0) for one in several]) for name in seconds},
            {name: np.array([one.counts.get(name, 0.0) for one in several]) for name in counts},
        )


def _rows(columns: Mapping[str, FloatArray], count: int) -> list[dict[str, float]]:
    """What each of `count` rows says, by column."""
    if not columns:
        return [{} for _ in range(count)]
    return [dict(zip(columns, row, strict=True)) for row in zip(*(c.tolist() for c in columns.values()), strict=True)]
