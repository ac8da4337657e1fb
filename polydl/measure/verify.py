"""Verifies candidates: each runs in a process of its own and must compute what the original computes.

The runs, in their order:

1. integer-valued inputs, the caller's number of threads, arrays that begin at their front guards. When no operation of
   the original rounded (its FE_INEXACT flag stayed clear), every order of the sums gives the same bits, so that the
   comparison is exact; otherwise it uses the bound below.
2. random reals, one more thread (the result must not depend on the number), arrays that end at their rear guards and
   are aligned to their elements only. That the original's order of a sum rounds nothing says nothing of another one
   here: products of floats are exact in double, and so are their sums while they stay small.
   Bound: |x − ref| <= 2·gamma·m, with gamma as `measure.tolerance` says of the terms of reductions and the roundings
   of right-hand sides, and m an upper bound of Σ|terms|. Where the right-hand sides only add and multiply, that is,
   element by element, the original's result on the reals' absolute values or, when the original is not quick enough
   to be run once more, on the integer inputs, whose terms are at least as large in magnitude (integers >= 1, reals in
   [-1, 1]), which is a wider bound. Where they subtract, divide or call functions, the terms cannot be told from the
   results: m is max|ref| over the array, and with divisions or calls the reals are in [0.5, 1.5) to stay in the
   functions' domains, and square matrices (of integers too) get a dominant diagonal.
3. for quick regions, the integers again with one more than twice the threads, another chance to find a race.

A slow original with known slices (measure.slices) is not run whole: see polydl.measure.by_slices.

Arrays that the region overwrites before it reads them (measure.poison) hold NaN before each run. Arrays that the region
does not write, and the canaries around all arrays, must not change.
"""

from __future__ import annotations

import math
import mmap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from polydl.base.errors import Span, ToolchainError
from polydl.base.records import dataclass
from polydl.measure.allowance import Allowance
from polydl.measure.compare import arithmetic, difference
from polydl.measure.compiler import run_compiler
from polydl.measure.driver import Limits, Outcome, Place, Word, describe_offset, run_job
from polydl.measure.input_data import (
    ROOM,
    AnyArray,
    Buffer,
    blocks_for,
    damaged_canary,
    integer_inputs,
    integer_range,
    real_inputs,
    results,
    unchanged,
)
from polydl.measure.loaded import Loaded, Run, loaded
from polydl.measure.measurement import Measurement, MeasureOptions, Status, WorstError
from polydl.measure.poison import poisoned
from polydl.measure.tolerance import tolerances
from polydl.model.scop import Scop

_CHEAP = 0.5
"""An original whose run takes at most these seconds is also run to compute Σ|terms|."""
FAR = 2.0
"""A candidate that takes this many times as long as another one, in long runs, is run no more than it must be: what
disturbs a run on a shared machine seldom doubles it, and a wrong guess costs speed, never correctness."""
_QUICK = 0.1
"""The third run is made when a run of the original takes at most these seconds."""
_LEAST_LIMIT = 1.0
"""Seconds that a run gets that was begun while there was time."""


@dataclass(frozen=True, slots=True)
class Built:
    """A candidate, or the original, that was compiled."""

    id: str
    library: str
    """Name of the shared object in the driver's folder."""
    command: tuple[str, ...] = ()
    """That compiled it; empty: it can't be compiled again."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What all verification runs of a measurement have in common."""

    scop: Scop
    driver: Path
    buffers: tuple[Buffer, ...]
    sizes: tuple[int, ...]
    terms: int
    """Terms of the longest sum into one element, >= 1: the `n` of the error bound."""
    options: MeasureOptions
    allowance: Allowance
    room: int = 0
    """Bytes around each array that may be read (`input_data.blocks_for`)."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The results of the original."""

    outputs: dict[str, AnyArray]
    """The live arrays that it writes, by name."""
    exact: bool
    """Whether no order of the sums rounds anything."""
    magnitude: dict[str, AnyArray] | None
    """For each element an upper bound of the sum of the magnitudes of the terms; None: unknown."""
    seconds: float
    whole_seconds: float
    """Those of the run with everything around it: its process, arrays that are touched for the first time."""


class ReferenceFailed(ToolchainError):
    """The original failed in a run."""

    def __init__(self, function: str, status: Status, what: str, span: Span, hint: str) -> None:
        super().__init__(f"the original code of '{function}' cannot serve as the reference: it {what}", span, hint)
        self.status = status
        self.what = what
        """What it did, for people: a sentence without its subject."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of verification for a candidate, or the original."""

    built: Built
    measurement: Measurement
    """Without samples; `message` says how it was verified."""
    seconds: float
    """Seconds of its shortest run; infinite when none finished."""


@dataclass(slots=True)
class Trial:
    """A candidate that is being verified, and what its runs have shown so far."""

    built: Built
    failure: Measurement | None
    max_error: dict[str, float]
    seconds: list[float]
    """Of each run that it came through."""
    whole_seconds: float = math.inf
    """Of its shortest one with everything around it (see `Reference`)."""
    bounded: bool = False
    """Whether its first run ends when the time for all is spent: others are through."""

    def checked(self, how: str) -> Checked:
        """The result after all runs: verified in the way that `how` says, unless the candidate failed."""
        found = self.failure or Measurement(self.built.id, Status.VERIFIED, how, max_error=self.max_error)
        return Checked(self.built, found, min(self.seconds, default=float("inf")))

    def wrong(self, message: str, worst: WorstError) -> None:
        """Mark the candidate as one that computes other results."""
        self.failure = Measurement(self.built.id, Status.WRONG, message, worst=worst, max_error=self.max_error)


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of verification."""

    original_seconds: tuple[float, ...]
    """Seconds of each run of the original."""
    checked: tuple[Checked, ...]
    """One per candidate."""
    warnings: tuple[str, ...]
    estimated: bool = False
    """Whether the time of the original is an estimate from slices, because it was not run whole."""

    def joined(self, later: Verification) -> Verification:
        """With that of more candidates."""
        warnings = tuple(dict.fromkeys((*self.warnings, *later.warnings)))
        seconds = (*self.original_seconds, *later.original_seconds)
        return replace(self, original_seconds=seconds, checked=(*self.checked, *later.checked), warnings=warnings)


def candidate_limit(fastest: float, timeout: float) -> float:
    """Seconds that a run of a candidate may take, when the fastest one so far, the original or another candidate, took
    so many with everything around it: four times as long plus 5 s, since a slower candidate is useless, and at most
    `timeout`. Where no candidate keeps to it, the machine is slow in some other way, and they get `timeout`."""
    return min(timeout, 5.0 + 4.0 * fastest)


def verify(
    setting: Setting, original: Built, candidates: Sequence[Built], report_step: Callable[[int, int], None]
) -> Verification:
    """Run the original once for each kind of input, and every candidate against it.

    Where the original, as it is compiled, reads beside an array, and does not when it is compiled without vectors, it
    is the compiler that reads there: all code then runs with room around the arrays, in which it must not write.
    `report_step(steps done, steps)` is called once per candidate and kind of input. Raises ToolchainError when the
    original itself fails.
    """
    try:
        return _verified(setting, original, candidates, report_step)
    except ReferenceFailed as failure:
        plain = _without_vectors(setting, original) if failure.status is Status.OUT_OF_BOUNDS else None
        if plain is None:
            raise
        try:
            _verified(setting, plain, (), lambda done, total: None)
        except ReferenceFailed:
            raise failure from None
        found = _verified(replace(setting, room=ROOM), original, candidates, report_step)
        compiled = f"as '{Path(original.command[0]).name}' vectorizes it, and not as it is written"
        warning = f"the original {failure.what} {compiled}: all code was run with room around the arrays"
        return replace(found, warnings=(warning, *found.warnings))


def _without_vectors(setting: Setting, original: Built) -> Built | None:
    """The original compiled without vectors; None where it can't be."""
    library = "./without_vectors.so"
    output = str(setting.driver.parent / library)
    if not original.command:
        return None
    command = [*original.command, "-O1", "-fno-tree-vectorize", "-o", output]
    done = run_compiler(command, setting.options.compile_timeout)
    return Built(original.id, library, tuple(command)) if done.ok else None


def _verified(
    setting: Setting, original: Built, candidates: Sequence[Built], report_step: Callable[[int, int], None]
) -> Verification:
    """See `verify`. Raises ReferenceFailed."""
    options, traits, bounds = setting.options, arithmetic(setting.scop), tolerances(setting.scop)
    trials = [Trial(built, None, {}, []) for built in candidates]
    warnings: list[str] = []
    if not any(buffer.written and buffer.live for buffer in setting.buffers):
        warnings.append("nothing that the region writes is live afterwards: there was no result to compare")

    largest = integer_range(setting.terms, setting.buffers)
    integers = integer_inputs(setting.buffers, options.seed, largest, dominant=traits.singular)
    aligned = blocks_for(setting.buffers, flush_end=False, room=setting.room)
    at_end = blocks_for(setting.buffers, flush_end=True, room=setting.room)
    first = Run("integers", poisoned(integers, setting.buffers), aligned, options.threads)
    steps = 2 * len(trials)
    with loaded(first) as data:
        reference = run_reference(setting, original, data, None)
        times = [reference.seconds]
        if reference.seconds <= _QUICK:
            _check_in(setting, data, reference, trials, bounds, lambda n: None)
            data.run = replace(first, name="integers, other threads", threads=2 * options.threads + 1)
        _check_in(setting, data, reference, trials, bounds, lambda n: report_step(n, steps))
    exactly, magnitude = reference.exact, reference.outputs if traits.monotone else None
    del integers, first, data

    if reference.seconds > options.slow and exactly:
        warnings.append(
            f"the original takes {reference.seconds:.3g} s per run: "
            "candidates were compared on integer-valued inputs only"
        )
        how = "equal to the original bit for bit"
    else:
        low, high = (0.5, 1.5) if traits.singular else (-1.0, 1.0)
        reals = real_inputs(setting.buffers, options.seed, low, high, dominant=traits.singular)
        second = Run("reals", poisoned(reals, setting.buffers), at_end, options.threads + 1, whole=False)
        if magnitude is not None and reference.seconds <= _CHEAP:
            of_both = zip(second.inputs, setting.buffers, strict=True)
            greater = [values if buffer.indices is not None else buffer.absolute(values) for values, buffer in of_both]
            magnitudes = replace(second, inputs=greater, blocks=aligned)
            with loaded(magnitudes) as data:
                magnitude = run_reference(setting, original, data, None).outputs
            del magnitudes, data

        def check_second(run: Run) -> float:
            with loaded(run) as data:
                found = run_reference(setting, original, data, magnitude)
                progress = lambda n: report_step(len(trials) + n, steps)  # noqa: E731
                _check_in(setting, data, found, trials, bounds, progress)
            return found.seconds

        try:
            times.append(check_second(second))
        except ReferenceFailed as failure:
            if failure.status is not Status.CRASHED:
                raise
            times.append(check_second(replace(second, blocks=aligned)))
            warnings.append("the original only works on aligned arrays: candidates were not run on others")
        how = ("equal to the original bit for bit on integer-valued inputs, " if exactly else "") + (
            "within 2·gamma(n)·Σ|terms| of it on reals"
        )
    return Verification(tuple(times), tuple(trial.checked(how) for trial in trials), tuple(warnings))


def run_reference(setting: Setting, original: Built, data: Loaded, magnitude: dict[str, AnyArray] | None) -> Reference:
    """Run the original and return its results. Raises ReferenceFailed when it fails."""
    options, run = setting.options, data.run
    data.fresh()
    limits = _limits(run, options.original_timeout, options)
    begin = time.monotonic()
    outcome = _run(setting, original, data, limits)
    whole_seconds = time.monotonic() - begin
    setting.allowance.grant(whole_seconds)
    failure = outcome.failure(limits, [b.array.spelled for b in setting.buffers], run.blocks)
    failure = failure or damage(setting.buffers, run, data.mapping)
    if failure is not None:
        status, message = failure
        hint = "the region is run as it stands; give it sizes for which it works"
        if status is Status.TIMED_OUT:
            hint = "give smaller sizes, or more time with --timeout"
        raise ReferenceFailed(setting.scop.function, status, message, setting.scop.span, hint)
    data.keep_read(setting.buffers)
    outputs = {name: value.copy() for name, value in results(data.mapping, run.blocks, setting.buffers)}
    seconds = outcome.words[Word.NANOSECONDS] * 1e-9
    exact = run.whole and not outcome.words[Word.INEXACT]
    return Reference(outputs, exact, magnitude, seconds, whole_seconds)


def _check_in(
    setting: Setting,
    data: Loaded,
    reference: Reference,
    trials: Sequence[Trial],
    bounds: Mapping[str, float],
    done: Callable[[int], None],
) -> None:
    """Run every candidate that has not failed yet in one way."""
    alive = [trial for trial in trials if trial.failure is None]

    def check(which: Sequence[Trial], original_seconds: float) -> None:
        for number, trial in enumerate(quickest_first(which), start=len(trials) - len(which)):
            if not left_out(setting, trial, trials):
                _check(setting, trial, data, (reference, least_seconds(original_seconds, trials)), bounds)
                done(number + 1)

    check(alive, reference.whole_seconds)
    if all(trial.failure is not None for trial in alive):
        # None kept to the limit, so the machine is slow in another way: once more with nothing but `timeout`.
        stopped = [t for t in alive if t.failure is not None and t.failure.status is Status.TIMED_OUT]
        for trial in stopped:
            trial.failure = None
        check(stopped, math.inf)
    done(len(trials))


def quickest_first(trials: Sequence[Trial]) -> list[Trial]:
    """Candidates in the order in which they run: as they are ranked, and once they have run by their times."""
    return sorted(trials, key=lambda trial: min(trial.seconds, default=0.0))


def least_seconds(original: float, trials: Sequence[Trial]) -> float:
    """Seconds of the fastest one so far, the original or a candidate, with everything around it."""
    return min([original, *(trial.whole_seconds for trial in trials if trial.failure is None)])


def left_out(setting: Setting, trial: Trial, trials: Sequence[Trial], least: int = 1) -> bool:
    """Whether a candidate is left out: it has not run yet, the time for all is spent, and `least` others are through;
    or its runs are long (`options.slow`), and `least` others that take far less time have passed one more."""
    through = [other for other in trials if other.failure is None and len(other.seconds) > len(trial.seconds)]
    if trial.seconds:
        own = min(trial.seconds)
        faster = [other for other in through if FAR * min(other.seconds) < own]
        if own <= setting.options.slow or len(faster) < least:
            return False
        other = faster[0]
        message = f"not checked further: it takes {own:.3g} s per run, '{other.built.id}' {min(other.seconds):.3g} s"
        trial.failure = Measurement(trial.built.id, Status.LEFT_OUT, message, max_error=trial.max_error)
        return True
    trial.bounded = len(through) >= least
    if not trial.bounded or not setting.allowance.half_spent:
        return False
    trial.failure = Measurement(trial.built.id, Status.LEFT_OUT, "not run: the time for all variants was spent")
    return True


def _check(
    setting: Setting, trial: Trial, data: Loaded, compared: tuple[Reference, float], bounds: Mapping[str, float]
) -> None:
    """`compared`: with the original's results, and the seconds by which the candidate's are limited. `bounds`: see
    `tolerance.tolerances`."""
    (reference, original_seconds), run = compared, data.run
    if not execute(setting, trial, data, original_seconds):
        return
    worst: WorstError | None = None
    for name, value in results(data.mapping, run.blocks, setting.buffers):
        tolerance = 0.0 if reference.exact else bounds[name]
        magnitude = None if reference.magnitude is None else reference.magnitude[name]
        found = difference(name, value, reference.outputs[name], magnitude, tolerance)
        trial.max_error[name] = max(trial.max_error.get(name, 0.0), found.max_error)
        worst = worst or found.worst
        del value  # a view of the mapping, which could not be closed while it exists
    if worst is not None:
        trial.wrong(f"computes something else ({run.name}): {worst}", worst)


def execute(setting: Setting, trial: Trial, data: Loaded, fastest: float) -> bool:
    """Run a candidate on the inputs in the shared file, for as long as `candidate_limit` of `fastest` lets it. Whether
    it finished and changed nothing that it must not: its outputs are in the shared file then; otherwise `trial.failure`
    says what happened."""
    run = data.run
    data.fresh()
    most = candidate_limit(fastest, setting.options.timeout)
    seconds = min(most, max(_LEAST_LIMIT, setting.allowance.left)) if trial.bounded and not trial.seconds else most
    limits = _limits(run, seconds, setting.options)
    begin = time.monotonic()
    outcome = _run(setting, trial.built, data, limits)
    whole_seconds = time.monotonic() - begin
    failure = outcome.failure(limits, [b.array.spelled for b in setting.buffers], run.blocks)
    failure = failure or damage(setting.buffers, run, data.mapping)
    if failure is not None and failure[0] is Status.TIMED_OUT and seconds < most:
        failure = Status.LEFT_OUT, f"ended after {seconds:.3g} s: the time for all variants was spent"
    if failure is not None:
        trial.failure = Measurement(trial.built.id, *failure, max_error=trial.max_error)
        return False
    data.keep_read(setting.buffers)
    trial.seconds.append(outcome.words[Word.NANOSECONDS] * 1e-9)
    trial.whole_seconds = min(trial.whole_seconds, whole_seconds)
    return True


def damage(buffers: Sequence[Buffer], run: Run, mapping: mmap.mmap) -> tuple[Status, str] | None:
    """What was changed that must not be changed, canaries or arrays that the region does not write; None: nothing."""
    for block, buffer, before in zip(run.blocks, buffers, run.inputs, strict=True):
        if block.place is Place.CONSTANT:
            continue
        offset = damaged_canary(mapping, block)
        name = buffer.array.spelled
        if offset is not None:
            return Status.OUT_OF_BOUNDS, f"writes memory {describe_offset(offset, block.bytes)} array '{name}'"
        if not buffer.written and not unchanged(mapping, block, before):
            return Status.WRONG, f"changes array '{name}', which the original only reads"
    return None


def _limits(run: Run, seconds: float, options: MeasureOptions) -> Limits:
    return Limits(seconds, run.threads, options.memory, sum(block.block_bytes for block in run.blocks))


def _run(setting: Setting, built: Built, data: Loaded, limits: Limits) -> Outcome:
    blocks, shared = data.run.blocks, data.descriptor
    return run_job(setting.driver, "verify", [built.library], setting.sizes, blocks, shared, limits, bind=False)
