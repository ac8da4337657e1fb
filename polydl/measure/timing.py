"""Timing: the original and all verified candidates in one process, a sample each in turn, and what the noise is."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from polydl.errors import ToolchainError
from polydl.measure.data import blocks_for, memory_budget, real_inputs, write_inputs
from polydl.measure.driver import Block, Limits, Outcome, Place, Timing, Word, run_job, shared_memory
from polydl.measure.values import Measurement
from polydl.measure.verify import Built, Setting

_DRIFT = 0.05
"""Spread of the clock reference above which a warning is given."""
_BUSY = 0.1
"""Share of the machine used by others above which a warning is given."""
_IDLE_PROBE = 0.1
"""Seconds for which other load is watched before timing starts."""
_COLD_BYTES = 256 << 20
"""Bytes touched to flush the caches: more than any L3 slice in the machine descriptions."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something to time."""

    built: Built
    measurement: Measurement
    """What verification said."""
    estimate: float
    """Seconds of one run, from verification."""


@dataclass(frozen=True, slots=True)
class Timed:
    """The outcome of timing."""

    measurements: tuple[Measurement, ...]
    """One an entry, in order; the first is the original's."""
    noise: float
    warnings: tuple[str, ...]


def time_entries(setting: Setting, entries: Sequence[Entry], slow_samples: Sequence[float]) -> Timed:
    """Time the entries; the first is the original, whose verification runs took `slow_samples`.

    An entry whose estimate is above `options.slow` keeps its verification runs as samples. An entry that fails in the
    joint process is dropped and the others are timed again.
    """
    options = setting.options
    warnings = list(_machine_warnings())
    results: dict[int, Measurement] = {}
    joint = []
    for i, entry in enumerate(entries):
        if entry.estimate > options.slow:
            samples = tuple(slow_samples) if i == 0 else (entry.estimate,)
            results[i] = _with_samples(entry.measurement, samples)
            warnings.append(
                f"'{entry.measurement.id}' takes {entry.estimate:.3g} s a run and was timed by its verification runs"
            )
        else:
            joint.append(i)
    noise, per_round = 0.0, {}
    while joint:
        outcome, limits = _joint_job(setting, [entries[i] for i in joint])
        failure = outcome.failure(limits, [b.array.name for b in setting.buffers], _blocks(setting))
        if failure is None:
            per_round = {i: _slot_rounds(outcome, k) for k, i in enumerate(joint)}
            for i in joint:
                seconds = tuple(float(s) for s in per_round[i].values())
                results[i] = _with_samples(entries[i].measurement, seconds)
            noise, drift = _noise(outcome, len(joint))
            warnings += drift
            break
        guilty = outcome.words[Word.CURRENT]
        if guilty < 0:
            raise ToolchainError(f"the measuring driver failed before it timed anything: it {failure[1]}")
        index = joint.pop(guilty)
        status, message = failure
        if index == 0:
            warnings.append(f"the original failed when it was timed repeatedly: it {message}")
            results[0] = _with_samples(entries[0].measurement, tuple(slow_samples))
            continue
        results[index] = replace(entries[index].measurement, status=status, message=f"while timed: it {message}")
    ordered = [results[i] for i in range(len(entries))]
    original = ordered[0]
    for i, measurement in enumerate(ordered):
        if measurement.samples and original.samples:
            speedup = _speedup(per_round.get(0), per_round.get(i), original, measurement)
            ordered[i] = replace(measurement, speedup=speedup)
    return Timed(tuple(ordered), noise, tuple(warnings))


def _blocks(setting: Setting) -> tuple[Block, ...]:
    return blocks_for(setting.buffers, flush_end=False)


def _joint_job(setting: Setting, entries: Sequence[Entry]) -> tuple[Outcome, Limits]:
    options = setting.options
    blocks = _blocks(setting)
    sets = buffer_sets(setting)
    total = sum(block.block_bytes for block in blocks)
    in_units = sum(block.bytes for block in blocks if block.place is Place.IN_UNIT) * len(entries)
    cold = _COLD_BYTES if options.cold else 0
    slowest = max(entry.estimate for entry in entries)
    # One sample: its repeats or, when the first estimate was too low, some calibration steps.
    seconds = min(options.timeout, 10.0 + 5.0 * slowest) + 20 * options.min_sample
    limits = Limits(seconds, options.threads, options.memory, total * (sets + 1) + in_units + cold)
    timing = Timing(sets, options.min_sample, options.budget, options.min_rounds, options.max_rounds, cold)
    # Positive values only: no sum decays into denormal numbers, which would be timed instead of the code.
    inputs = real_inputs(setting.buffers, options.seed, 0.5, 1.5)
    with shared_memory("polydl-data", total) as (descriptor, mapping):
        write_inputs(mapping, blocks, inputs)
        del inputs
        libraries = [entry.built.library for entry in entries]
        outcome = run_job(
            setting.driver, "time", libraries, setting.sizes, blocks, descriptor, limits, bind=True, timing=timing
        )
    return outcome, limits


def buffer_sets(setting: Setting) -> int:
    """Placements to alternate between: as asked for, fewer when memory is short."""
    total = sum(block.block_bytes for block in _blocks(setting))
    affordable = memory_budget() // max(total, 1) - 2
    return int(max(1, min(setting.options.buffer_sets, affordable)))


def _slot_rounds(outcome: Outcome, slot: int) -> dict[int, float]:
    """Seconds of one run in each round in which the slot took part. Rounds are told apart by the clock reference,
    which is sampled at the start of each."""
    rounds: dict[int, float] = {}
    samples = outcome.samples
    reference = int(samples[:, 0].max())
    number = -1
    for index, _, repeats, nanoseconds in samples.tolist():
        if index == reference:
            number += 1
        elif index == slot:
            rounds[number] = nanoseconds * 1e-9 / repeats
    return rounds


def _with_samples(measurement: Measurement, samples: tuple[float, ...]) -> Measurement:
    lower, middle, upper = np.percentile(samples, [25, 50, 75])
    return replace(
        measurement, samples=samples, median=float(middle), spread=float((upper - lower) / middle) if middle else 0.0
    )


def _speedup(
    original_rounds: dict[int, float] | None, rounds: dict[int, float] | None, original: Measurement, this: Measurement
) -> float:
    """Median of the ratios within rounds, which a drifting clock leaves alone; else the ratio of the medians."""
    shared = sorted(original_rounds.keys() & rounds.keys()) if original_rounds and rounds else []
    if len(shared) >= 3 and original_rounds and rounds:
        return float(np.median([original_rounds[r] / rounds[r] for r in shared]))
    return original.median / this.median


def _noise(outcome: Outcome, entries: int) -> tuple[float, list[str]]:
    """(noise floor, warnings) of a joint timing.

    The fastest entry was timed a second time as if it were another. The floor is what separates the two: the larger
    of |median ratio - 1| and two standard errors of that median (1.2533 · σ/√n for near-normal ratios, σ from the
    median absolute deviation: 1.4826 · MAD).
    """
    one, two = _slot_rounds(outcome, outcome.words[Word.TWIN]), _slot_rounds(outcome, entries)
    ratios = np.array([one[r] / two[r] for r in sorted(one.keys() & two.keys())])
    noise = 0.0
    if ratios.size:
        middle = float(np.median(ratios))
        deviation = 1.4826 * float(np.median(np.abs(ratios - middle)))
        noise = max(abs(middle - 1), 2 * 1.2533 * deviation / float(np.sqrt(ratios.size)))
    samples = outcome.samples
    spins: npt.NDArray[np.int64] = samples[samples[:, 0] == entries + 1][:, 3]
    warnings = []
    if spins.size >= 3:
        low, high = np.percentile(spins, [10, 90])
        if high > low * (1 + _DRIFT):
            warnings.append(
                f"the clock drifted by {100 * (high / low - 1):.0f} % during timing (frequency changes, or other load)"
            )
    return noise, warnings


def _machine_warnings() -> list[str]:
    """Whether others use the machine: looked at while we are idle, right before timing starts."""
    before = _busy_seconds()
    time.sleep(_IDLE_PROBE)
    share = (_busy_seconds() - before) / (_IDLE_PROBE * (os.cpu_count() or 1))
    if share > _BUSY:
        return [f"the machine is busy: other programs use {100 * min(share, 1):.0f} % of its processors"]
    return []


def _busy_seconds() -> float:
    """Processor seconds spent by anyone since boot, from /proc/stat (proc(5): user nice system idle iowait irq …)."""
    with Path("/proc/stat").open() as file:
        fields = [int(word) for word in file.readline().split()[1:]]
    busy = sum(fields[:3]) + sum(fields[5:8])
    return busy / os.sysconf("SC_CLK_TCK")
