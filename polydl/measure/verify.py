"""Verification: each candidate runs alone in a process of its own and must leave what the original leaves.

Runs, in order, cheapest doubt first:

1. integer-valued inputs, the caller's thread count, arrays flush with their front guard. When no operation of the
   original rounded (its FE_INEXACT flag stayed clear) every order of the sums gives the same bits, so the comparison
   is exact; otherwise it has the bound below.
2. random reals, one thread more (the result must not depend on the count), arrays flush with their rear guard and
   aligned to their elements only. Bound: |x − ref| <= 2·gamma(n)·m, with gamma as in `compare.gamma`, n the terms of
   the longest reduction plus the roundings of the right-hand sides, and m an upper bound of Σ|terms|. Where the
   right-hand sides only add and multiply, that is, element by element, the original's result on the reals' absolute
   values or, when the original is not quick enough to be run once more, on the integer inputs, whose terms are at
   least as large in magnitude (integers >= 1, reals in [-1, 1]), which is a wider bound. Where they
   subtract, divide or call functions, the terms cannot be told from the results: m is max|ref| over the array, and
   with divisions or calls the reals are in [0.5, 1.5) to stay in the functions' domains, and square matrices (of
   integers too) get a dominant diagonal.
3. for quick regions, the integers again with twice the threads and one: another chance for a race to show.

A slow original of which parts are known (codegen.slices) is not run whole: see polydl.measure.parts.

Arrays whose old contents nobody reads (measure.poison) hold NaN before each run. Arrays that the region does not write
must keep their bits, and the canaries around all arrays theirs.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from polydl.base.errors import Span, ToolchainError
from polydl.measure.compare import arithmetic, difference, gamma
from polydl.measure.data import (
    AnyArray,
    Buffer,
    blocks_for,
    damaged_canary,
    integer_inputs,
    integer_range,
    read_array,
    real_inputs,
    unchanged,
    write_inputs,
)
from polydl.measure.driver import Block, Limits, Outcome, Place, Word, describe_offset, run_job, shared_memory
from polydl.measure.poison import poisoned
from polydl.measure.values import Measurement, MeasureOptions, Status, WorstError
from polydl.model.scop import Scop

_CHEAP = 0.5
"""Seconds of one run up to which the original is run for Σ|terms|."""
_QUICK = 0.1
"""Seconds of one run up to which the third run is made."""


@dataclass(frozen=True, slots=True)
class Built:
    """A candidate, or the original, that compiled."""

    id: str
    library: str
    """Name of the shared object in the driver's folder."""


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


@dataclass(frozen=True, slots=True)
class Run:
    """One kind of verification run."""

    name: str
    inputs: list[AnyArray]
    blocks: tuple[Block, ...]
    threads: int


@dataclass(frozen=True, slots=True)
class Reference:
    """What the original leaves."""

    outputs: dict[str, AnyArray]
    """Live arrays that it writes."""
    exact: bool
    magnitude: dict[str, AnyArray] | None
    """Element by element an upper bound of the sum of the terms' magnitudes; None: unknown."""
    seconds: float


class ReferenceFailed(ToolchainError):
    """The original did not come through a run."""

    def __init__(self, status: Status, reason: str, span: Span, hint: str) -> None:
        super().__init__(reason, span, hint)
        self.status = status


@dataclass(frozen=True, slots=True)
class Checked:
    """What verification found out about a candidate."""

    built: Built
    measurement: Measurement
    """Without samples; `message` says how it was verified."""
    seconds: float
    """Its shortest run; infinite when it never finished."""


@dataclass(slots=True)
class Way:
    """A candidate's way through the runs."""

    built: Built
    failure: Measurement | None
    max_error: dict[str, float]
    seconds: list[float]

    def checked(self, how: str) -> Checked:
        """At the end of the way: verified as `how` says, unless it failed."""
        found = self.failure or Measurement(self.built.id, Status.VERIFIED, how, max_error=self.max_error)
        return Checked(self.built, found, min(self.seconds, default=float("inf")))

    def wrong(self, message: str, worst: WorstError) -> None:
        """It computed something else."""
        self.failure = Measurement(self.built.id, Status.WRONG, message, worst=worst, max_error=self.max_error)


@dataclass(frozen=True, slots=True)
class Verification:
    """What the verification found out."""

    original_seconds: tuple[float, ...]
    """Time of each run of the original, one run of the region each."""
    checked: tuple[Checked, ...]
    """One per candidate."""
    warnings: tuple[str, ...]
    estimated: bool = False
    """The original was not run whole: its time is an estimate from parts of it."""


def candidate_limit(original: float, timeout: float) -> float:
    """Seconds a candidate's run may take when the original's took `original`: four times as long and 5 s, since what
    is slower than that is of no use to anybody, and never more than `timeout`."""
    return min(timeout, 5.0 + 4.0 * original)


def verify(
    setting: Setting, original: Built, candidates: Sequence[Built], tell: Callable[[int, int], None]
) -> Verification:
    """Run the original once for each kind of input, and every candidate against it.

    `tell(done, total)` is called once per candidate and kind of input. Raises ToolchainError when the
    original itself fails.
    """
    options, traits = setting.options, arithmetic(setting.scop)
    progress = [Way(built, None, {}, []) for built in candidates]
    warnings: list[str] = []
    if not any(buffer.written and buffer.live for buffer in setting.buffers):
        warnings.append("nothing that the region writes is live afterwards: there was no result to compare")

    largest = integer_range(setting.terms, setting.buffers)
    integers = integer_inputs(setting.buffers, options.seed, largest, dominant=traits.singular)
    aligned = blocks_for(setting.buffers, flush_end=False)
    first = Run("integers", poisoned(integers, setting.buffers), aligned, options.threads)
    reference = run_reference(setting, original, first, None)
    times = [reference.seconds]
    runs = [first]
    if reference.seconds <= _QUICK:
        runs.append(replace(first, name="integers, other threads", threads=2 * options.threads + 1))
    steps = 2 * len(progress)
    _check_all(setting, runs, reference, progress, traits.roundings, lambda n: tell(n, steps))
    exactly, magnitude = reference.exact, reference.outputs if traits.monotone else None
    del integers, first, runs

    if reference.seconds > options.slow and exactly:
        warnings.append(
            f"the original takes {reference.seconds:.3g} s a run: "
            "candidates were compared on integer-valued inputs only"
        )
        how = "equal to the original bit for bit"
    else:
        low, high = (0.5, 1.5) if traits.singular else (-1.0, 1.0)
        reals = real_inputs(setting.buffers, options.seed, low, high, dominant=traits.singular)
        second = Run(
            "reals", poisoned(reals, setting.buffers), blocks_for(setting.buffers, flush_end=True), options.threads + 1
        )
        if magnitude is not None and reference.seconds <= _CHEAP:
            magnitudes = replace(second, inputs=[abs(values) for values in second.inputs], blocks=aligned)
            magnitude = run_reference(setting, original, magnitudes, None).outputs
        try:
            reference = run_reference(setting, original, second, magnitude)
        except ReferenceFailed as failure:
            if failure.status is not Status.CRASHED:
                raise
            second = replace(second, blocks=aligned)
            reference = run_reference(setting, original, second, magnitude)
            warnings.append("the original only works on aligned arrays: candidates were not run on others")
        times.append(reference.seconds)
        _check_all(setting, [second], reference, progress, traits.roundings, lambda n: tell(len(progress) + n, steps))
        how = ("equal to the original bit for bit on integer-valued inputs, " if exactly else "") + (
            "within 2·gamma(n)·Σ|terms| of it on reals"
        )
    return Verification(tuple(times), tuple(way.checked(how) for way in progress), tuple(warnings))


def run_reference(setting: Setting, original: Built, run: Run, magnitude: dict[str, AnyArray] | None) -> Reference:
    """Run the original and keep what it leaves. Raises ToolchainError when it does not come through."""
    options = setting.options
    with loaded(run) as (descriptor, mapping):
        limits = _limits(run, options.timeout, options)
        outcome = _run(setting, original, run, descriptor, limits)
        failure = outcome.failure(limits, [b.array.name for b in setting.buffers], run.blocks)
        failure = failure or damage(setting.buffers, run, mapping)
        if failure is not None:
            status, message = failure
            hint = "the region is run as it stands; give it sizes for which it works"
            if status is Status.TIMED_OUT:
                hint = "give smaller sizes, or more time with --timeout"
            raise ReferenceFailed(
                status,
                f"the original code of '{setting.scop.function}' cannot serve as the reference: it {message}",
                setting.scop.span,
                hint,
            )
        outputs = {
            buffer.array.name: read_array(mapping, block, buffer).copy()
            for block, buffer in zip(run.blocks, setting.buffers, strict=True)
            if buffer.written and buffer.live
        }
    return Reference(outputs, not outcome.words[Word.INEXACT], magnitude, outcome.words[Word.NANOSECONDS] * 1e-9)


def _check_all(
    setting: Setting,
    runs: Sequence[Run],
    reference: Reference,
    progress: Sequence[Way],
    roundings: int,
    done: Callable[[int], None],
) -> None:
    """Put every candidate that has not failed yet through the runs, which share inputs and reference."""
    for run in runs:
        with loaded(run) as (descriptor, mapping):
            stale: list[int] = []
            for i, state in enumerate(progress):
                if state.failure is None:
                    write_inputs(mapping, [run.blocks[k] for k in stale], [run.inputs[k] for k in stale])
                    _check(setting, state, run, reference, roundings, descriptor, mapping)
                    failed = state.failure is not None
                    # `execute` makes sure that nothing else was changed.
                    stale = [k for k, buffer in enumerate(setting.buffers) if buffer.written or failed]
                if run is runs[-1]:
                    done(i + 1)


def _check(
    setting: Setting,
    state: Way,
    run: Run,
    reference: Reference,
    roundings: int,
    descriptor: int,
    mapping: mmap.mmap,
) -> None:
    if not execute(setting, state, run, reference.seconds, descriptor, mapping):
        return
    worst: WorstError | None = None
    for block, buffer in zip(run.blocks, setting.buffers, strict=True):
        name = buffer.array.name
        if not (buffer.written and buffer.live):
            continue
        value = read_array(mapping, block, buffer)
        tolerance = 0.0 if reference.exact else 2 * gamma(setting.terms + roundings, buffer.element)
        magnitude = None if reference.magnitude is None else reference.magnitude[name]
        found = difference(name, value, reference.outputs[name], magnitude, tolerance)
        state.max_error[name] = max(state.max_error.get(name, 0.0), found.max_error)
        worst = worst or found.worst
        del value  # a view: the mapping cannot close while it lives
    if worst is not None:
        state.wrong(f"computes something else ({run.name}): {worst}", worst)


def execute(
    setting: Setting, state: Way, run: Run, original_seconds: float, descriptor: int, mapping: mmap.mmap
) -> bool:
    """Run a candidate on the inputs that the shared file holds; whether it came through without touching what is not
    its own. Its outputs are in the shared file then; else `state.failure` says what happened."""
    limits = _limits(run, candidate_limit(original_seconds, setting.options.timeout), setting.options)
    outcome = _run(setting, state.built, run, descriptor, limits)
    failure = outcome.failure(limits, [b.array.name for b in setting.buffers], run.blocks)
    failure = failure or damage(setting.buffers, run, mapping)
    if failure is not None:
        state.failure = Measurement(state.built.id, *failure, max_error=state.max_error)
        return False
    state.seconds.append(outcome.words[Word.NANOSECONDS] * 1e-9)
    return True


def damage(buffers: Sequence[Buffer], run: Run, mapping: mmap.mmap) -> tuple[Status, str] | None:
    """What was changed that must not be: canaries, and arrays that the region does not write."""
    for block, buffer, before in zip(run.blocks, buffers, run.inputs, strict=True):
        if block.place is Place.CONSTANT:
            continue
        offset = damaged_canary(mapping, block)
        name = buffer.array.name
        if offset is not None:
            return Status.OUT_OF_BOUNDS, f"writes memory {describe_offset(offset, block.bytes)} array '{name}'"
        if not buffer.written and not unchanged(mapping, block, before):
            return Status.WRONG, f"changes array '{name}', which the original only reads"
    return None


@contextmanager
def loaded(run: Run) -> Iterator[tuple[int, mmap.mmap]]:
    """The shared file with the run's inputs in it."""
    with shared_memory("polydl-data", sum(block.block_bytes for block in run.blocks)) as (descriptor, mapping):
        write_inputs(mapping, run.blocks, run.inputs)
        yield descriptor, mapping


def _limits(run: Run, seconds: float, options: MeasureOptions) -> Limits:
    return Limits(seconds, run.threads, options.memory, sum(block.block_bytes for block in run.blocks))


def _run(setting: Setting, built: Built, run: Run, descriptor: int, limits: Limits) -> Outcome:
    return run_job(setting.driver, "verify", [built.library], setting.sizes, run.blocks, descriptor, limits, bind=False)
