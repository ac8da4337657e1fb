"""Measures many variants of one problem quickly, for training data rather than to choose a winner.

Differences from `session.measure`: candidates are built beforehand (in other processes, against a precompiled header)
and verified by one exact run each. They are timed in passes, until the confidence interval of each median is narrow or
the limit of samples is reached; a candidate that is far slower than the best keeps the time of its verification run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from polydl.base.records import dataclass
from polydl.lower.emit import Generated
from polydl.measure.busy import machine_warnings, timing_turn
from polydl.measure.compare import difference
from polydl.measure.compiler import find_compiler, run_compiler
from polydl.measure.driver import Timing
from polydl.measure.input_data import blocks_for, integer_inputs, integer_range, results
from polydl.measure.loaded import Run, loaded
from polydl.measure.measurement import ORIGINAL, Measurement, MeasureOptions, Status, Toolchain
from polydl.measure.poison import poisoned
from polydl.measure.samples import Record
from polydl.measure.session import Builder, setting_for
from polydl.measure.timing import buffer_sets, joint_pass, timing_inputs
from polydl.measure.verify import (
    Built,
    Checked,
    ReferenceFailed,
    Setting,
    Trial,
    Verification,
    execute,
    run_reference,
    verify,
)
from polydl.model.scop import Scop

_PRELUDE = "#include <stddef.h>\n#include <stdint.h>\n{vectors}"
_VECTORS = "#if defined(__AVX2__)\n#include <immintrin.h>\n#endif\n"
_HOPELESS = 16.0
"""A candidate whose verification run took this many times as long as the fastest one is not timed again."""
STALL = 0.02
"""Seconds by which other processes on the machine may lengthen a single run: a few time slices of the scheduler."""
_CLOSE = 1.5
"""A candidate within this ratio of the fastest is timed again when its interval is too wide."""
NORMAL = 1.96
"""Standard errors in half the width of a 95 % confidence interval."""
_OUTLIER = 5.0
"""Scaled median absolute deviations from the median beyond which a sample is an outlier."""


@dataclass(frozen=True, slots=True)
class BuiltMany:
    """The result of `build_many`: plain data, which can be sent from one process to another."""

    folder: Path
    original: Built
    candidates: tuple[Built, ...]
    failed: tuple[Measurement, ...]
    """One for each candidate that did not compile."""


@dataclass(frozen=True, slots=True)
class Passes:
    """How long candidates are timed. Times in seconds."""

    interval: float = 0.02
    """A time is known well enough when half the width of its 95 % confidence interval, over the time, is at most
    this (measure.rounds)."""
    passes: int = 3
    """Most times that a candidate with a wider interval is timed."""
    limit_ratio: float = 20.0
    """A verification run may take this many times as long as the fastest one so far, and at least `least_limit`."""
    least_limit: float = 0.5


@dataclass(frozen=True, slots=True)
class ManyMeasured:
    """The outcome of `measure_many`."""

    original: Measurement
    measurements: tuple[Measurement, ...]
    """One per candidate; those that did not compile come last."""
    slow: frozenset[str]
    """Ids of the candidates that were timed by their verification run only."""
    warnings: tuple[str, ...]


def precompiled(toolchain: Toolchain, folder: Path) -> Toolchain:
    """The tool chain with the vector headers precompiled into `folder`, since they take a large part of the time that
    each unit takes to compile; unchanged where the compiler cannot do that.

    Only for sources that include nothing and define no macro that headers test (such as _GNU_SOURCE), which would come
    after the headers: see `may_precompile`.
    """
    header = folder / "polydl_prelude.h"
    header.write_text(_PRELUDE.format(vectors=_VECTORS))
    arguments: list[str | Path] = [find_compiler(toolchain), *toolchain.cflags, "-w", "-fPIC", "-fvisibility=hidden"]
    done = run_compiler([*arguments, "-x", "c-header", "-o", folder / "polydl_prelude.h.gch", header])
    if not done.ok:
        return toolchain
    return replace(toolchain, cflags=(*toolchain.cflags, "-include", str(header)))


def may_precompile(scop: Scop) -> bool:
    """Whether headers may be included before the text of the source: it includes none itself."""
    return "include" not in scop.source.text.partition(scop.function)[0]


def build_many(
    scop: Scop, codes: Mapping[str, Generated], toolchain: Toolchain, options: MeasureOptions, folder: Path
) -> BuiltMany:
    """Compile the original and candidates (by id their C) into `folder` (absolute). Raises ToolchainError when the
    original does not compile."""
    builder = Builder(scop, toolchain, options, find_compiler(toolchain), folder)
    built, failed = builder.build(codes, lambda stage, done, total: None)
    return BuiltMany(folder, built[0], tuple(built[1:]), tuple(failed))


def measure_many(scop: Scop, built: BuiltMany, options: MeasureOptions, passes: Passes = Passes()) -> ManyMeasured:
    """Verify and time the candidates that were built. Nothing else should run at the same time.

    Raises InputError when the arrays do not fit in memory, ToolchainError when the original cannot be run.
    """
    setting = setting_for(scop, built.folder, built.original, options)
    with timing_turn() as warnings, timing_inputs(setting) as data:
        warnings += machine_warnings()
        check = verified_exactly(setting, built.original, built.candidates, passes)
        reference = Measurement(ORIGINAL, Status.VERIFIED, "the reference")
        original = Checked(built.original, reference, min(check.original_seconds))
        contenders = [original, *(one for one in check.checked if one.measurement.verified)]
        fastest = min(contender.seconds for contender in contenders)
        timed_limit = max(_HOPELESS * fastest, fastest + STALL)
        timed = [i for i, contender in enumerate(contenders) if contender.seconds <= timed_limit]
        record, failed = Record(), dict[int, Measurement]()
        timing = Timing(
            buffer_sets(setting), options.min_sample, options.budget, options.min_rounds, options.max_rounds, 0
        )
        for _ in range(passes.passes):
            joint_pass(setting, contenders, timed, timing, record, failed, data)
            known = record.undisturbed()
            if not known:
                break
            limit = _CLOSE * min(seconds for seconds, _ in known.values())
            timed = [
                i
                for i, (seconds, error) in known.items()
                if i not in failed and seconds <= limit and not NORMAL * error <= passes.interval
            ]
            if not timed:
                break
            timing = replace(timing, budget=2 * options.budget, max_rounds=2 * options.max_rounds)
    found = {m.id: m for m in (*(one.measurement for one in check.checked), *built.failed)}
    slow: set[str] = set()
    for i, contender in enumerate(contenders):
        samples = _seconds(record, i) or (contender.seconds,)
        if i not in record.samples:
            slow.add(contender.measurement.id)
        found[contender.measurement.id] = failed.get(i) or _timed(contender.measurement, samples)
    ids = [*(one.id for one in built.candidates), *(m.id for m in built.failed)]
    return ManyMeasured(found.pop(ORIGINAL), tuple(found[i] for i in ids), frozenset(slow), tuple(warnings))


def verified_exactly(setting: Setting, original: Built, candidates: Sequence[Built], passes: Passes) -> Verification:
    """Run each candidate once on integer-valued inputs and compare bit for bit; call `verify` instead where the
    original rounds its results on these inputs, or fails.

    A candidate that takes far longer than the fastest one before it is stopped, so the probably best should come first.
    """
    options = setting.options
    inputs = integer_inputs(setting.buffers, options.seed, integer_range(setting.terms, setting.buffers))
    run = Run(
        "integers", poisoned(inputs, setting.buffers), blocks_for(setting.buffers, flush_end=False), options.threads
    )
    trials = [Trial(one, None, {}, []) for one in candidates]
    with loaded(run) as data:
        try:
            reference = run_reference(setting, original, data, None)
        except ReferenceFailed:
            return verify(setting, original, candidates, lambda done, total: None)
        fastest = reference.seconds
        for trial in trials if reference.exact else ():
            limit = min(options.timeout, max(passes.least_limit, passes.limit_ratio * fastest))
            limited = replace(setting, options=replace(options, timeout=limit))
            if not execute(limited, trial, data, reference.seconds):
                continue
            for name, value in results(data.mapping, run.blocks, setting.buffers):
                if not np.array_equal(value, reference.outputs[name]):
                    worst = difference(name, value, reference.outputs[name], None, 0.0).worst
                    if worst is not None:
                        trial.wrong(f"computes something else ({run.name}): {worst}", worst)
                del value  # a view of the mapping, which could not be closed while it exists
            fastest = min(fastest, trial.seconds[0])
    del data
    if not reference.exact:
        return verify(setting, original, candidates, lambda done, total: None)
    text = "equal to the original bit for bit on integer-valued inputs"
    return Verification((reference.seconds,), tuple(trial.checked(text) for trial in trials), ())


def _seconds(record: Record, contender: int) -> tuple[float, ...]:
    return tuple(sample.seconds for sample in record.samples.get(contender, ()))


def _timed(measurement: Measurement, samples: Sequence[float]) -> Measurement:
    lower, middle, upper = (float(x) for x in np.percentile(samples, [25, 50, 75]))
    return replace(measurement, samples=tuple(samples), median=middle, spread=(upper - lower) / middle)


def interval(samples: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of the median, over the median; infinite for fewer than six
    samples.

    The interval is between the k-th smallest and the k-th largest of n samples, which holds the median with
    probability 1 - 2 * sum over i < k of (n choose i) / 2^n whatever the distribution (David and Nagaraja, Order
    Statistics, 3rd ed., section 7.1), with the largest k for which that is at least 0.95.
    """
    n, k, outside = len(samples), 0, 0.0
    while True:
        outside += 2 * math.comb(n, k) / 2**n
        if outside > 0.05:
            break
        k += 1
    if k == 0:
        return math.inf
    ordered = sorted(samples)
    return (ordered[n - k] - ordered[k - 1]) / 2 / float(np.median(ordered))


def outliers(samples: Sequence[float]) -> tuple[int, ...]:
    """Indices of the samples farther from the median than five times 1.4826 * MAD (median absolute deviation)."""
    values = np.array(samples)
    middle = np.median(values) if len(values) else 0.0
    deviation = 1.4826 * float(np.median(np.abs(values - middle))) if len(values) else 0.0
    return tuple(int(i) for i in np.flatnonzero(np.abs(values - middle) > _OUTLIER * deviation)) if deviation else ()
