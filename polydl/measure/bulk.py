"""Measuring many variants of one problem, quickly: for training data rather than for choosing a winner.

Differences from `session.measure`: candidates are built beforehand (in other processes, against a precompiled
header), verified by one exact run each, and timed in passes until the interval of each median is narrow or its
samples run out; what is far slower than the best keeps the time of its verification run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from polydl.lower.emit import Generated
from polydl.measure.busy import machine_warnings, timing_turn
from polydl.measure.compare import difference
from polydl.measure.compile import find_compiler, run_compiler
from polydl.measure.data import blocks_for, integer_inputs, integer_range, read_array, write_inputs
from polydl.measure.driver import Timing
from polydl.measure.poison import poisoned
from polydl.measure.session import Builder, setting_for
from polydl.measure.timing import Record, buffer_sets, joint_pass
from polydl.measure.values import ORIGINAL, Measurement, MeasureOptions, Status, Toolchain
from polydl.measure.verify import (
    Built,
    Checked,
    Run,
    Setting,
    Verification,
    Way,
    execute,
    loaded,
    run_reference,
    verify,
)
from polydl.model.scop import Scop

_PRELUDE = "#include <stddef.h>\n#include <stdint.h>\n{vectors}"
_VECTORS = "#if defined(__AVX2__)\n#include <immintrin.h>\n#endif\n"
_HOPELESS = 16.0
"""Times the fastest verification run from which a candidate is not timed again."""
STALL = 0.02
"""Seconds by which others on the machine may lengthen a single run: a few turns of the scheduler."""
_CLOSE = 1.5
"""Times the fastest up to which an interval that is too wide is worth more samples."""
_OUTLIER = 5.0
"""Scaled median absolute deviations from the median beyond which a sample is marked."""


@dataclass(frozen=True, slots=True)
class BuiltMany:
    """What came out of `build_many`: plain data, so that it can go from one process to another."""

    folder: Path
    original: Built
    candidates: tuple[Built, ...]
    failed: tuple[Measurement, ...]
    """Of the candidates that did not compile."""


@dataclass(frozen=True, slots=True)
class Passes:
    """How long to time. Times in seconds."""

    interval: float = 0.02
    """Half width of the median's 95 % confidence interval, over the median, that is narrow enough."""
    passes: int = 3
    """Times that candidates with wider intervals are timed, at most."""
    patience: float = 20.0
    """Times the fastest verification run so far that a candidate's may take; at least `least_patience`."""
    least_patience: float = 0.5


@dataclass(frozen=True, slots=True)
class ManyMeasured:
    """The outcome of `measure_many`."""

    original: Measurement
    measurements: tuple[Measurement, ...]
    """One a candidate, those that did not compile last."""
    slow: frozenset[str]
    """Ids of what was timed by its verification run alone."""
    warnings: tuple[str, ...]


def precompiled(toolchain: Toolchain, folder: Path, timeout: float = 120.0) -> Toolchain:
    """The tool chain with the vector headers compiled beforehand into `folder`, which they take a large part of each
    unit's time; the same one where the compiler cannot do that.

    Only for sources that include nothing and define nothing that headers look at (such as _GNU_SOURCE): those would
    come too late. `may_precompile` tells.
    """
    header = folder / "polydl_prelude.h"
    header.write_text(_PRELUDE.format(vectors=_VECTORS))
    arguments: list[str | Path] = [find_compiler(toolchain), *toolchain.cflags, "-w", "-fPIC", "-fvisibility=hidden"]
    done = run_compiler([*arguments, "-x", "c-header", "-o", folder / "polydl_prelude.h.gch", header], timeout)
    if not done.ok:
        return toolchain
    return replace(toolchain, cflags=(*toolchain.cflags, "-include", str(header)))


def may_precompile(scop: Scop) -> bool:
    """Whether headers may come before the source's text: it includes none itself."""
    return "include" not in scop.source.text.partition(scop.function)[0]


def build_many(
    scop: Scop, codes: Mapping[str, Generated], toolchain: Toolchain, options: MeasureOptions, folder: Path
) -> BuiltMany:
    """Compile the original and candidates (by id their C) into `folder` (absolute). Raises ToolchainError when the
    original does not compile."""
    builder = Builder(scop, toolchain, options, find_compiler(toolchain), folder)
    built, failed = builder.build(codes, lambda stage, done, total: None)
    return BuiltMany(folder, built[0], tuple(built[1:]), tuple(failed))


def measure_many(scop: Scop, built: BuiltMany, options: MeasureOptions, how: Passes = Passes()) -> ManyMeasured:
    """Verify and time what was built. Nothing else should run meanwhile.

    Raises InputError when the arrays do not fit in memory, ToolchainError when the original cannot be run.
    """
    setting = setting_for(scop, built.folder, built.original, options)
    with timing_turn() as warnings:
        warnings += machine_warnings()
        check = verified_exactly(setting, built.original, built.candidates, how)
        reference = Measurement(ORIGINAL, Status.VERIFIED, "the reference")
        original = Checked(built.original, reference, min(check.original_seconds))
        entries = [original, *(one for one in check.checked if one.measurement.verified)]
        fastest = min(entry.seconds for entry in entries)
        patience = max(_HOPELESS * fastest, fastest + STALL)
        worth = [i for i, entry in enumerate(entries) if entry.seconds <= patience]
        record, failed = Record(), dict[int, Measurement]()
        timing = Timing(
            buffer_sets(setting), options.min_sample, options.budget, options.min_rounds, options.max_rounds, 0
        )
        for _ in range(how.passes):
            joint_pass(setting, entries, worth, timing, record, failed)
            undisturbed = {i: quiet(_seconds(record, i)) for i in record.samples}
            if not undisturbed:
                break
            limit = _CLOSE * min(undisturbed.values())
            worth = [
                i
                for i, seconds in undisturbed.items()
                if i not in failed and seconds <= limit and interval(_seconds(record, i)) > how.interval
            ]
            if not worth:
                break
            timing = replace(timing, budget=2 * options.budget, max_rounds=2 * options.max_rounds)
    found = {m.id: m for m in (*(one.measurement for one in check.checked), *built.failed)}
    slow: set[str] = set()
    for i, entry in enumerate(entries):
        samples = _seconds(record, i) or (entry.seconds,)
        if i not in record.samples:
            slow.add(entry.measurement.id)
        found[entry.measurement.id] = failed.get(i) or _timed(entry.measurement, samples)
    ids = [*(one.id for one in built.candidates), *(m.id for m in built.failed)]
    return ManyMeasured(found.pop(ORIGINAL), tuple(found[i] for i in ids), frozenset(slow), tuple(warnings))


def verified_exactly(setting: Setting, original: Built, candidates: Sequence[Built], how: Passes) -> Verification:
    """Run each candidate once on integer-valued inputs and compare bit for bit; `verify` where the original's result
    on them is rounded, so that bits prove nothing.

    A candidate that takes far longer than the fastest one before it is cut off: the likely best should come first.
    """
    options = setting.options
    inputs = integer_inputs(setting.buffers, options.seed, integer_range(setting.terms, setting.buffers))
    run = Run(
        "integers", poisoned(inputs, setting.buffers), blocks_for(setting.buffers, flush_end=False), options.threads
    )
    reference = run_reference(setting, original, run, None)
    if not reference.exact:
        return verify(setting, original, candidates, lambda done, total: None)
    ways = [Way(one, None, {}, []) for one in candidates]
    limit, fastest = options.timeout, reference.seconds
    changed = [i for i, buffer in enumerate(setting.buffers) if buffer.written]
    every = list(range(len(setting.buffers)))
    stale: list[int] = []
    with loaded(run) as (descriptor, mapping):
        for way in ways:
            limit = min(options.timeout, max(how.least_patience, how.patience * fastest))
            write_inputs(mapping, [run.blocks[i] for i in stale], [run.inputs[i] for i in stale])
            limited = replace(setting, options=replace(options, timeout=limit))
            came_through = execute(limited, way, run, reference.seconds, descriptor, mapping)
            # `execute` makes sure that nothing else was changed.
            stale = changed if came_through else every
            if not came_through:
                continue
            for block, buffer in zip(run.blocks, setting.buffers, strict=True):
                if not (buffer.written and buffer.live):
                    continue
                name = buffer.array.name
                value = read_array(mapping, block, buffer)
                if not np.array_equal(value, reference.outputs[name]):
                    worst = difference(name, value, reference.outputs[name], None, 0.0).worst
                    if worst is not None:
                        way.wrong(f"computes something else ({run.name}): {worst}", worst)
                del value  # a view: the mapping cannot close while it lives
            fastest = min(fastest, way.seconds[0])
    text = "equal to the original bit for bit on integer-valued inputs"
    return Verification((reference.seconds,), tuple(way.checked(text) for way in ways), ())


def _seconds(record: Record, entry: int) -> tuple[float, ...]:
    return tuple(sample.seconds for sample in record.samples.get(entry, ()))


def _timed(measurement: Measurement, samples: Sequence[float]) -> Measurement:
    lower, middle, upper = (float(x) for x in np.percentile(samples, [25, 50, 75]))
    return replace(measurement, samples=tuple(samples), median=middle, spread=(upper - lower) / middle)


def interval(samples: Sequence[float]) -> float:
    """Half the width of the median's 95 % confidence interval over the median; infinite for less than six samples.

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


def quiet(samples: Sequence[float]) -> float:
    """Seconds without what disturbed some of the samples: their tenth percentile; the least of less than six.

    Others on the machine only ever add time, a scheduler's turn of milliseconds when it is one of the threads that
    waits: a median of few samples is not safe from that.
    """
    return min(samples) if len(samples) < 6 else float(np.percentile(samples, 10))


def outliers(samples: Sequence[float]) -> tuple[int, ...]:
    """Indices of the samples farther from the median than five times 1.4826 * MAD."""
    values = np.array(samples)
    middle = np.median(values) if len(values) else 0.0
    deviation = 1.4826 * float(np.median(np.abs(values - middle))) if len(values) else 0.0
    return tuple(int(i) for i in np.flatnonzero(np.abs(values - middle) > _OUTLIER * deviation)) if deviation else ()
