"""Verifies candidates against slices of a slow original, and against each other.

A slice of the original (measure.slices) computes a sample of its output. An original that would take longer than
`REFERENCE_SECONDS` is not run whole when such slices are known. Instead, on integer-valued inputs, whose sums are exact
in any order, each candidate has to compute

1. in the sampled elements the same bits as the slices, which run the instances of the original in its order,
2. in all elements the same bits as every other candidate, which runs in another order,
3. the same again with one more thread, with arrays that end at their rear guards.

The original is run whole in these cases: two candidates disagree outside of the sample (one of them is wrong, and only
the original shows which); there are not two to compare; a slice rounds or fails; the time of the original, estimated
from the slices, is not clearly longer than that of the fastest candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from polydl.base.records import dataclass
from polydl.measure.compare import arithmetic, difference
from polydl.measure.driver import Block
from polydl.measure.input_data import AnyArray, blocks_for, integer_inputs, integer_range, results
from polydl.measure.loaded import Loaded, Run, loaded
from polydl.measure.measurement import Status
from polydl.measure.slices import Slice
from polydl.measure.verify import (
    Built,
    ReferenceFailed,
    Setting,
    Trial,
    Verification,
    execute,
    least_seconds,
    left_out,
    quickest_first,
)
from polydl.measure.verify import run_reference as run_original

REFERENCE_SECONDS = 5.0
"""Estimated seconds up to which the original is run whole."""
LEAST = 2
"""Candidates that are compared, at least."""
CLEARLY = 4.0
"""Ratio of its estimated time to that of a candidate from which the original counts as slower. The estimate may be
wrong by a factor: slices find other data in the caches than the whole does, and compilers treat their loops
differently."""


@dataclass(frozen=True, slots=True)
class BuiltSlice:
    """A slice of the original that was compiled."""

    slice: Slice
    built: Built


@dataclass(frozen=True, slots=True)
class _Sample:
    """The values that a slice computes in the elements that it selects."""

    one: BuiltSlice
    expected: dict[str, AnyArray]


@dataclass(frozen=True, slots=True)
class _Sampled:
    """What the slices have shown."""

    samples: tuple[_Sample, ...]
    seconds: float
    """Of a run of the whole original, estimated."""
    witness: dict[str, AnyArray]
    """What the first candidate that agrees with the slices computes, by array, once it has run."""


def verify_by_slices(
    setting: Setting, slices: Sequence[BuiltSlice], candidates: Sequence[Built], report_step: Callable[[int, int], None]
) -> Verification | None:
    """Verify candidates without running the original whole; None when it has to be run (see above).

    `report_step(done, total)` is called once per candidate and kind of input.
    """
    options = setting.options
    if len(candidates) < LEAST or not slices or any(b.written and b.live and b.lower for b in setting.buffers):
        return None
    singular = arithmetic(setting.scop).singular
    largest = integer_range(setting.terms, setting.buffers)
    integers = integer_inputs(setting.buffers, options.seed, largest, dominant=singular)
    first = Run("integers", integers, blocks_for(setting.buffers, flush_end=False), options.threads)
    second = Run("integers", integers, blocks_for(setting.buffers, flush_end=True), options.threads + 1)
    trials = [Trial(built, None, {}, []) for built in candidates]
    with loaded(first) as data:
        known = _sampled(setting, slices, data)
        if known is None or not _agree(setting, trials, known, data, lambda n: report_step(n, 2 * len(trials))):
            return None
    del data

    def agree(data: Loaded) -> bool:
        return _agree(setting, trials, known, data, lambda n: report_step(len(trials) + n, 2 * len(trials)))

    warnings = _elsewhere(setting, slices, second, first.blocks, agree)
    if warnings is None:
        return None
    estimate, samples = known.seconds, known.samples
    alive = [trial for trial in trials if trial.failure is None]
    fastest = min((s for trial in alive for s in trial.seconds), default=0.0)
    if len(alive) == 1 or estimate < CLEARLY * fastest:
        return None
    sampled = "; ".join(str(sample.one.slice) for sample in samples)
    how = (
        f"equal bit for bit, on integer-valued inputs, to {len(alive) - 1} other orders in all elements, and to the "
        f"original in a sample: {sampled}"
    )
    warnings.append(
        f"the original takes about {estimate:.3g} s per run, estimated from slices of it, and was not run whole: "
        f"{len(alive)} variants computed the same bits in all elements, and those of the original in {sampled}"
    )
    return Verification((estimate,), tuple(trial.checked(how) for trial in trials), tuple(warnings), estimated=True)


def _sampled(setting: Setting, slices: Sequence[BuiltSlice], data: Loaded) -> _Sampled | None:
    """What the slices compute; None when the whole original has to be run."""
    samples: list[_Sample] = []
    estimate = float("inf")
    for one in slices:
        try:
            reference = run_original(setting, one.built, data, None)
        except ReferenceFailed:
            return None  # running the whole original shows why
        estimate = min(estimate, reference.seconds / one.slice.share)
        if not reference.exact or estimate <= REFERENCE_SECONDS:
            return None
        samples.append(_Sample(one, {n: _selected(one, n, values) for n, values in reference.outputs.items()}))
    return _Sampled(tuple(samples), estimate, {})


def _agree(
    setting: Setting, trials: Sequence[Trial], known: _Sampled, data: Loaded, report_step: Callable[[int], None]
) -> bool:
    """Run the candidates that have not failed yet; whether those that agree with the slices, the others being out,
    agree with each other in all elements."""
    for i, trial in enumerate(quickest_first(trials)):
        if trial.failure is None and not left_out(setting, trial, trials, least=LEAST):
            if execute(setting, trial, data, least_seconds(known.seconds, trials)):
                outputs = {n: v.copy() for n, v in results(data.mapping, data.run.blocks, setting.buffers)}
                if not _agrees_with(trial, known.samples, outputs):
                    continue
                known.witness.update({} if known.witness else outputs)
                if any(not np.array_equal(known.witness[n], v, equal_nan=True) for n, v in outputs.items()):
                    return False
        report_step(i + 1)
    return True


def _elsewhere(
    setting: Setting,
    slices: Sequence[BuiltSlice],
    run: Run,
    aligned: tuple[Block, ...],
    agree: Callable[[Loaded], bool],
) -> list[str] | None:
    """Whether the candidates agree once more, on arrays that end at their rear guards, or `aligned` where the original
    does not work on those: warnings for people. None when the whole original has to be run."""
    with loaded(run) as data:
        try:
            run_original(setting, slices[0].built, data, None)
        except ReferenceFailed as failure:
            if failure.status is not Status.CRASHED:
                return None
        else:
            return [] if agree(data) else None
    del data
    with loaded(replace(run, blocks=aligned)) as data:
        warning = "the original only works on aligned arrays: candidates were not run on others"
        return [warning] if agree(data) else None


def _selected(one: BuiltSlice, array: str, values: AnyArray) -> AnyArray:
    """The elements of an array that a slice computes."""
    selection = one.slice.selections[array]
    index = [slice(None)] * values.ndim
    index[selection.dimension] = slice(selection.first, None, selection.step)
    return values[tuple(index)]


def _agrees_with(trial: Trial, samples: Sequence[_Sample], outputs: dict[str, AnyArray]) -> bool:
    """Whether the sampled elements equal those of the original; otherwise the candidate is marked as failed."""
    for sample in samples:
        for name, expected in sample.expected.items():
            found = difference(name, _selected(sample.one, name, outputs[name]), expected, None, 0.0)
            trial.max_error[name] = max(trial.max_error.get(name, 0.0), found.max_error)
            if found.worst is not None:
                message = f"computes something else ({sample.one.slice}, counted in it): {found.worst}"
                trial.wrong(message, found.worst)
                return False
    return True
