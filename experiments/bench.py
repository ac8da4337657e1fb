"""The harness of the experiments: contenders alternated run after run in one process.

For each problem: every contender's result is compared with the first's on integer-valued data (exact in fp32, so
equality is what is asked for). Then, for several allocations of the buffers, rounds: in each round every contender
has a turn, in an order that rotates. A hot turn is one untimed call followed by enough timed ones to last
`Settings.turn_seconds`; a cold turn is one timed call after the caches were flushed. The FMA peak is measured in every
hot round too. What counts is the median over all rounds of the ratio within a round, which is immune to a clock that
drifts.
"""

from __future__ import annotations

import gc
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from native import Floats, flush_caches, peak_gflops

from polydl.target.products import FMA, Product

POLYDL = "polydl"
_PEAK = "FMA peak"


@dataclass(frozen=True, slots=True)
class Bound:
    """A contender with its buffers."""

    run: Callable[[], object]
    """One execution; what it returns is dropped."""
    result: Callable[[], Floats]
    """The output of the first execution, in the layout that all contenders of a problem share."""
    correction: Callable[[], tuple[float, str]] | None = None
    """(factor, reason): what the measured seconds are multiplied by, in favour of a peer that cannot be called
    without work which is not part of the comparison."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A way to solve a problem."""

    name: str
    bind: Callable[[Sequence[Floats], np.random.Generator], Bound]
    """bind(data, rng): copy the problem's data into buffers of its own, placed anew."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is solved."""

    name: str
    operations: float
    """Multiplications and additions."""
    bytes: float
    """Least traffic with memory."""
    data: Callable[[np.random.Generator, bool], Sequence[Floats]]
    """data(rng, integral): inputs in the plain layout; small integers when `integral`."""
    contenders: Sequence[Contender]
    notes: Mapping[str, object] = field(default_factory=dict)
    product: Product = FMA
    """The inner product whose peak shares are of."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured."""

    rounds: int = 15
    """Per allocation."""
    allocations: int = 3
    turn_seconds: float = 0.01
    cold_rounds: int = 5
    """Per allocation; 0 leaves the cold column out."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds of one contender: [allocation][round]."""

    hot: list[list[float]]
    cold: list[list[float]]
    note: str | None = None

    @property
    def seconds(self) -> float:
        return statistics.median(s for rounds in self.hot for s in rounds)

    @property
    def cold_seconds(self) -> float | None:
        flat = [s for rounds in self.cold for s in rounds]
        return statistics.median(flat) if flat else None

    @property
    def spread(self) -> float:
        """From the 10th to the 90th percentile of all rounds, over the median."""
        low, middle, high = np.percentile([s for rounds in self.hot for s in rounds], [10, 50, 90])
        return float((high - low) / middle)

    @property
    def placement(self) -> float:
        """Slowest allocation over the fastest, by their medians: 1 when placement does not matter."""
        medians = [statistics.median(rounds) for rounds in self.hot]
        return max(medians) / min(medians)


@dataclass(frozen=True, slots=True)
class Row:
    """A problem measured."""

    problem: Problem
    timings: Mapping[str, Timings]
    peaks: list[list[float]]
    """GFLOP/s of the FMA peak in each hot round: [allocation][round]."""

    @property
    def peak(self) -> float:
        """GFLOP/s, the median."""
        return statistics.median(peak for rounds in self.peaks for peak in rounds)

    def gflops(self, name: str, cold: bool = False) -> float | None:
        timings = self.timings.get(name)
        if timings is None:
            return None
        seconds = timings.cold_seconds if cold else timings.seconds
        return None if seconds is None else self.problem.operations / seconds / 1e9

    def ratio(self, peer: str, cold: bool = False) -> float | None:
        """How many times as fast as a peer polydl is: the median of the ratios within each round."""
        return pairwise_ratio(self.timings.get(peer), self.timings.get(POLYDL), cold)

    @property
    def peers(self) -> list[str]:
        return [name for name in self.timings if name != POLYDL]

    def ratio_to_best_peer(self, cold: bool = False) -> float | None:
        """The smallest ratio over the peers."""
        ratios = [r for peer in self.peers if (r := self.ratio(peer, cold)) is not None]
        return min(ratios, default=None)

    def fraction_of_peak(self, name: str = POLYDL) -> float | None:
        """A contender's share of the FMA peak: the median of the shares within each round."""
        timings = self.timings.get(name)
        if timings is None:
            return None
        pairs = zip(itertools.chain(*timings.hot), itertools.chain(*self.peaks), strict=True)
        return statistics.median(self.problem.operations / seconds / 1e9 / peak for seconds, peak in pairs)

    def bandwidth(self, name: str) -> float:
        """GB/s that the least traffic amounts to."""
        return self.problem.bytes / self.timings[name].seconds / 1e9


def run_peak(rows: Sequence[Row]) -> float:
    """The FMA peak of a run in GFLOP/s: the median of its problems'."""
    return statistics.median(row.peak for row in rows)


class WrongResult(Exception):
    """A contender computed something else than the first."""


def pairwise_ratio(slower: Timings | None, faster: Timings | None, cold: bool = False) -> float | None:
    """Median over the rounds of seconds of the one over seconds of the other; None where either was not measured."""
    if slower is None or faster is None:
        return None
    pairs = [
        a / b
        for mine, theirs in zip(slower.cold if cold else slower.hot, faster.cold if cold else faster.hot, strict=True)
        for a, b in zip(mine, theirs, strict=True)
    ]
    return statistics.median(pairs) if pairs else None


def geomean(values: Sequence[float]) -> float | None:
    """Geometric mean; None of nothing."""
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def measure(problem: Problem, settings: Settings) -> Row:
    """Check and time every contender of a problem. Raises WrongResult."""
    rng = np.random.default_rng(settings.seed)
    compare(problem, rng)
    timings = {c.name: Timings([], [], None) for c in problem.contenders}
    peaks: list[list[float]] = []
    for _ in range(settings.allocations):
        data = problem.data(rng, False)
        bound = {c.name: c.bind(data, rng) for c in problem.contenders}
        corrections = {name: b.correction() for name, b in bound.items() if b.correction is not None}
        calls = {name: _calls(b.run, settings.turn_seconds) for name, b in bound.items()}
        hot: dict[str, list[float]] = {name: [] for name in bound}
        cold: dict[str, list[float]] = {name: [] for name in bound}
        peaks.append([])
        for order in _orders([*bound, _PEAK], settings.rounds):
            for name in order:
                if name == _PEAK:
                    peaks[-1].append(peak_gflops(settings.turn_seconds, product=problem.product))
                else:
                    hot[name].append(_hot_turn(bound[name].run, calls[name]))
        for order in _orders(list(bound), settings.cold_rounds):
            for name in order:
                flush_caches()
                cold[name].append(_seconds(bound[name].run, 1))
        for name in bound:
            factor, reason = corrections.get(name, (1.0, ""))
            timings[name].hot.append([s * factor for s in hot[name]])
            timings[name].cold.append([s * factor for s in cold[name]] if cold[name] else [])
            if reason:
                timings[name] = Timings(timings[name].hot, timings[name].cold, reason)
        del bound
        gc.collect()
    return Row(problem, timings, peaks)


def compare(problem: Problem, rng: np.random.Generator) -> None:
    """Run every contender once on integer-valued data. Raises WrongResult where a result differs from the first's."""
    data = problem.data(rng, True)
    reference: Floats | None = None
    for contender in problem.contenders:
        bound = contender.bind(data, rng)
        bound.run()
        result = bound.result()
        if reference is None:
            reference = result
        elif result.shape != reference.shape:
            raise WrongResult(f"{problem.name}: {contender.name} gives the shape {result.shape}, not {reference.shape}")
        elif not np.array_equal(result, reference):
            error = np.abs(result - reference)
            worst = np.unravel_index(int(np.argmax(error)), error.shape)
            raise WrongResult(
                f"{problem.name}: {contender.name} differs from {problem.contenders[0].name} in "
                f"{np.count_nonzero(error)} of {error.size} elements, most at {tuple(map(int, worst))}: "
                f"{result[worst]} instead of {reference[worst]}"
            )


def _orders(names: list[str], rounds: int) -> Iterator[list[str]]:
    for turn in range(rounds):
        shift = turn % len(names)
        yield names[shift:] + names[:shift]


def _seconds(run: Callable[[], object], calls: int) -> float:
    begin = time.perf_counter_ns()
    for _ in range(calls):
        run()
    return (time.perf_counter_ns() - begin) / calls / 1e9


def _calls(run: Callable[[], object], seconds: float) -> int:
    """Calls that take about `seconds`, at least one."""
    run()
    return max(1, math.ceil(seconds / max(_seconds(run, 1), 1e-7)))


def _hot_turn(run: Callable[[], object], calls: int) -> float:
    run()  # the others' data leave the caches
    return _seconds(run, calls)
