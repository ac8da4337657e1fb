"""What goes into a measurement and what comes out: tool chain, options, results."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

ORIGINAL = "original"
"""Id of the region as it stands in the user's file; candidates have those of their variants."""


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
    timeout: float = 60.0
    """Wall-clock limit of one run of the region. Candidates are also cut off when they are far slower than the
    original (see `verify.candidate_limit`)."""
    min_sample: float = 300e-6
    """A timing sample repeats the region until it lasts at least this long."""
    budget: float = 0.3
    """Timed seconds spent on one candidate, unless its minimum of rounds takes longer."""
    min_rounds: int = 5
    """Samples of a candidate at least; candidates with runs longer than the budget get two."""
    max_rounds: int = 40
    """Samples of a candidate at most."""
    slow: float = 1.0
    """A region that takes longer than this for one run is timed by its verification runs alone."""
    jobs: int = field(default_factory=_cores)
    """Compilers running at once."""
    compile_timeout: float = 120.0
    """Limit for compiling one candidate."""
    memory: int = 1 << 30
    """Bytes a candidate may allocate in addition to (one more copy of) the arrays."""
    buffer_sets: int = 3
    """Placements of the arrays that the timing alternates between."""
    cold: bool = False
    """Flush the caches before each timed run."""


class Status(Enum):
    """How a candidate fared."""

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
    TOO_MUCH_OUTPUT = "too-much-output"
    WRONG = "wrong"
    """Ran, and computed something else than the original."""


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
    """What is known about one candidate after it was built, run, checked and timed."""

    id: str
    status: Status
    message: str = ""
    """Why it was dropped, for people; how it was verified, when it was."""
    samples: tuple[float, ...] = ()
    """Seconds of one run of the region, a sample each, in the order taken."""
    median: float = float("nan")
    """Median of the samples, seconds; NaN without samples."""
    spread: float = float("nan")
    """Interquartile range of the samples over their median; NaN without samples."""
    speedup: float = float("nan")
    """Median over rounds of (original's sample / this sample): > 1 is faster. From the medians when the two share
    no rounds."""
    faster: bool | None = None
    """Whether it won more rounds against the original than chance would have it; None: they share no rounds."""
    worst: WorstError | None = None
    """The worst element of a wrong result."""
    max_error: Mapping[str, float] = field(default_factory=dict)
    """Max-norm of the difference from the original, by array, over all verification runs."""

    length: int = 0
    """Characters of its C text: of two that the noise does not tell apart, the shorter one is the simpler."""
    estimated: bool = False
    """The median is an estimate from parts of a run: nothing whole was timed."""

    @property
    def verified(self) -> bool:
        return self.status is Status.VERIFIED


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of `measure`."""

    original: Measurement
    measurements: tuple[Measurement, ...]
    """One a candidate, in the order given (ranked, best first)."""
    noise: float
    """Relative difference that two timings of the same code show in this run: an advantage up to this is none."""
    compile_seconds: float
    verify_seconds: float
    measure_seconds: float
    """Seconds spent timing."""
    warnings: tuple[str, ...] = ()
    """What makes the figures doubtful (busy machine, drifting clock), for people."""
    resolution: float = 0.0
    """Seconds between two readings of the clock: what one run gains beneath this nobody can time, and the repeated
    runs of a sample differ by as much through calls and the alignment of code alone."""
    disturbed: bool = False
    """Some of the warnings are about the timing itself: another time may give other figures."""

    def best(self) -> Measurement:
        """The winner: the simplest candidate within the noise of the fastest one (of those as simple, the one that was
        ranked first), provided it beats the original in the rounds, by more than the noise and by more than the
        clock's resolution; else the original."""
        timed = [m for m in self.measurements if m.verified and m.samples and m.faster is not False]
        if not timed:
            return self.original
        fastest = min(m.median for m in timed)
        winner = min((m for m in timed if m.median <= fastest * (1 + self.noise)), key=lambda m: m.length)
        gained = self.original.median * (1 - 1 / winner.speedup)
        faster = winner.speedup > 1 + self.noise and not gained <= self.resolution
        return winner if faster else self.original


class Progress(Protocol):
    """Called after each step: `progress("compile", 3, 17)`. Never called while something is timed."""

    def __call__(self, stage: str, done: int, total: int, /) -> None: ...
