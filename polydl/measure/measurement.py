"""The input and output of a measurement: tool chain, options, results."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Protocol

from polydl.base.records import dataclass
from polydl.base.units import difference_text, seconds_text
from polydl.measure.given_data import Data

ORIGINAL = "original"
"""Id of the region as it is written in the user's file; a candidate has the id of its variant."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The C compiler and its flags, one argument each (no shell splits or expands them)."""

    cc: str = "cc"
    cflags: tuple[str, ...] = ("-O3", "-march=native", "-fopenmp")
    ldflags: tuple[str, ...] = ("-lm",)
    link: tuple[str, ...] = ()
    """The user's objects, archives and libraries: paths or `-l` flags."""


def _cores() -> int:
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """How to measure. Times are in seconds, memory in bytes."""

    threads: int = field(default_factory=_cores)
    """OpenMP threads of the timed runs."""
    seed: int = 0
    """Seed of the input data: the same seed gives the same data."""
    original_timeout: float = 1e6
    """Wall-clock limit of one run of the original: none that anybody waits for."""
    timeout: float = 60.0
    """Wall-clock limit of one run of a candidate. Candidates are also cut off when they are far slower than the
    original (see `verify.candidate_limit`)."""
    seconds: float = math.inf
    """Wall-clock seconds for compiling, checking and timing all candidates, runs of the original not counted. When they
    are spent, the candidates that were not begun are left out; the first is always measured. A run that goes on beyond
    them is ended, unless no other candidate came through."""
    min_sample: float = 300e-6
    """Least duration of a timing sample, which repeats the region as often as needed."""
    budget: float = 0.3
    """Timed seconds per candidate, unless its least number of rounds takes longer."""
    min_rounds: int = 5
    """Least number of samples per candidate; one whose run is longer than the budget gets two."""
    max_rounds: int = 40
    """Greatest number of samples per candidate."""
    slow: float = 1.0
    """A region whose run takes longer than this is timed by its verification runs only."""
    jobs: int = field(default_factory=_cores)
    """Number of compilers that run at the same time."""
    compile_timeout: float = 20.0
    """Seconds of a processor for compiling one candidate (`compiler.run_compiler`)."""
    memory: int = 1 << 30
    """Bytes that a candidate may allocate in addition to the arrays and one copy of them."""
    buffer_sets: int = 3
    """Placements of the arrays that the timing alternates between."""
    cold: bool = False
    """Flush the caches before each timed run."""
    data: Data = field(default_factory=dict)
    """Data of arrays that are not invented."""
    originals: dict[tuple[str, ...], bytes] | None = field(default=None, repr=False, compare=False)
    """Shared objects of the originals that were compiled, by command and C text: variants, code for other sizes and
    sizes nearby are measured one after the other against the same one. None: nothing is kept."""


class Status(Enum):
    """The outcome of a candidate."""

    VERIFIED = "verified"
    COMPILE_FAILED = "compile-failed"
    CRASHED = "crashed"
    """Killed by a signal (segmentation fault, abort, …)."""
    OUT_OF_BOUNDS = "out-of-bounds"
    """Touched memory next to an array."""
    EXITED = "exited"
    """Ended the process instead of returning."""
    TIMED_OUT = "timed-out"
    OUT_OF_MEMORY = "out-of-memory"
    LEFT_OUT = "left-out"
    """Not begun before the time that there was for all was spent."""
    TOO_MUCH_OUTPUT = "too-much-output"
    WRONG = "wrong"
    """Computed other results than the original."""


@dataclass(frozen=True, slots=True)
class WorstError:
    """The element farthest outside its bound."""

    array: str
    indices: tuple[int, ...]
    value: float | int | complex
    expected: float | int | complex
    bound: float
    """Largest |value - expected| that would have passed; 0 in an exact comparison."""

    def __str__(self) -> str:
        where = self.array + "".join(f"[{i}]" for i in self.indices)
        return f"{where} is {self.value!r}, the original computes {self.expected!r} (allowed difference {self.bound:g})"


@dataclass(frozen=True, slots=True)
class Measurement:
    """The results for one candidate that was built, verified and timed, as far as it came."""

    id: str
    status: Status
    message: str = ""
    """For people: how it was verified, or why it was dropped."""
    samples: tuple[float, ...] = ()
    """Seconds of one run of the region, one per sample, in the order in which they were taken."""
    median: float = float("nan")
    """Median of the samples, seconds; NaN without samples."""
    spread: float = float("nan")
    """Interquartile range of the samples over their median; NaN without samples."""
    speedup: float = float("nan")
    """Median over all rounds of (sample of the original / sample of this): > 1 is faster. Ratio of the medians when the
    two share no rounds."""
    faster: bool | None = None
    """Whether it won more rounds against the original than chance explains; None: they share no rounds."""
    worst: WorstError | None = None
    """The worst element of a wrong result."""
    max_error: Mapping[str, float] = field(default_factory=dict)
    """Max-norm of the difference from the original, by array, over all verification runs."""

    late: bool = False
    """Whether it was not compiled because that takes too long."""
    length: int = 0
    """Characters of its C text: of two candidates within the noise, the shorter one counts as simpler."""
    estimated: bool = False
    """Whether the median is an estimate from slices of the region, because it was not run whole."""
    undisturbed: float = float("nan")
    """Seconds without what disturbs whole rounds (measure.rounds), by which those that took turns are compared; NaN
    without samples."""

    @property
    def verified(self) -> bool:
        return self.status is Status.VERIFIED


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of `measure`."""

    original: Measurement
    measurements: tuple[Measurement, ...]
    """One per candidate, in the order of the candidates (best ranked first)."""
    noise: float
    """Relative difference between two timings of the same code in this run: a smaller advantage means nothing."""
    compile_seconds: float
    verify_seconds: float
    measure_seconds: float
    """Seconds spent timing."""
    warnings: tuple[str, ...] = ()
    """Why the figures may be wrong (busy machine, drifting clock), for people."""
    resolution: float = 0.0
    """Seconds between two readings of the clock. A smaller gain of one run cannot be timed, and repeated runs differ by
    as much because of calls and the alignment of code."""
    disturbed: bool = False
    """Whether some of the warnings are about the timing itself, so that a second run may give other figures."""
    spent: float = 0.0
    """Seconds of those that there were for all candidates (`MeasureOptions.seconds`)."""
    rests_on: str = ""
    """What chooses the elements that are read or written, for people: data that the user gave, or invented ones. Empty:
    no data do."""
    untrusted: str = ""
    """Why the times do not say which code is the fastest, for people: what else the machine did meanwhile. Empty: they
    do, or a candidate won against the original in spite of it."""

    def best(self) -> Measurement:
        """The winner: the simplest candidate within the noise of the fastest one (of equally simple ones, the one that
        was ranked first), if it wins the rounds against the original, by more than the noise and by more than the
        resolution of the clock; otherwise the original."""
        timed = [m for m in self.measurements if m.verified and m.samples and m.faster is not False]
        if not timed:
            return self.original
        fastest = min(m.undisturbed for m in timed)
        winner = min((m for m in timed if m.undisturbed <= fastest * (1 + self.noise)), key=lambda m: m.length)
        faster = winner.speedup > 1 + self.noise and not self._gain(winner) <= self.resolution
        return winner if faster else self.original

    def _gain(self, one: Measurement) -> float:
        """Seconds of a run that a candidate wins against the original."""
        return self.original.median * (1 - 1 / one.speedup)

    def why(self, chosen: str) -> str:
        """Why a candidate was chosen, or the original, that has not the shortest median, for people; empty: it has, or
        the times did not choose."""
        timed = [m for m in (self.original, *self.measurements) if m.verified and m.samples]
        winner = next((m for m in timed if m.id == chosen), None)
        if winner is None or winner.id != self.best().id:
            return ""
        fastest = min(timed, key=lambda m: m.median)
        if fastest.median >= winner.median:
            return ""
        if fastest.faster is False:
            return f"{fastest.id} did not win more rounds against the original than chance explains"
        if winner is self.original and 0 < self._gain(fastest) <= self.resolution:
            won, least = seconds_text(self._gain(fastest)), seconds_text(self.resolution)
            return f"{fastest.id} gains {won} of a run, and the clock tells no less than {least} apart"
        if winner is self.original:
            return f"the advantage of {fastest.id} is within the noise of {difference_text(self.noise)}"
        if fastest is not self.original and winner.undisturbed > fastest.undisturbed:
            noise = difference_text(self.noise)
            return f"{winner.id} is within the noise of {noise} of {fastest.id}, and its C is shorter"
        return f"{winner.id} is faster than {fastest.id} in the same rounds, which the medians of all do not show"


class Progress(Protocol):
    """Called after each step: `progress("compile", 3, 17)`. Never called while something is timed."""

    def __call__(self, stage: str, done: int, total: int, /) -> None: ...
