"""Times the original and all verified candidates in one process, which take turns, and measures the noise."""

from __future__ import annotations

import math
import mmap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from polydl.base.errors import ToolchainError
from polydl.base.records import dataclass
from polydl.base.units import difference_text
from polydl.measure.busy import BUSY, Others, machine_warnings, timing_turn, wait_until_quiet
from polydl.measure.compare import arithmetic
from polydl.measure.driver import Block, Limits, Outcome, Place, Timing, Word, run_job, shared_memory
from polydl.measure.input_data import ROOM, blocks_for, memory_budget, real_inputs, write_inputs
from polydl.measure.measurement import Measurement, MeasureOptions
from polydl.measure.samples import Record, Sample, convincing
from polydl.measure.verify import FAR, Checked, Setting

_NOISY = 0.03
"""Noise above which the contenders are timed a second time."""
_EXTENSION = 2
"""Factor by which the second timing has more budget and rounds."""
_ERRATIC_NOISE = 0.1
"""Noise above which the times say nothing about which code is faster, unless one wins convincingly."""
_ERRATIC_CLOCK = 0.5
"""The same for the spread of the clock reference."""
_ATTEMPTS = 3
"""Timings on a machine that others use, of which the last one counts."""
_LONGEST_WAIT = 5.0
"""Seconds to wait, at most, for a quiet moment before each of them but the first."""
_DRIFT = 0.05
"""Spread of the clock reference above which a warning is given."""
_PLACEMENT = 1.25
"""Ratio of the speeds for different placements of the arrays above which a warning is given."""
_BRIEF, _FEW = 0.1, 5
"""Part of the timed seconds, and least number of rounds, of a timing by which further candidates are chosen."""
_COLD_BYTES = 256 << 20
"""Bytes touched to flush the caches: more than the last-level cache that one core can fill in today's machines."""


@dataclass(frozen=True, slots=True)
class Timed:
    """The outcome of timing."""

    measurements: tuple[Measurement, ...]
    """One per contender, in order; the first is that of the original."""
    noise: float
    warnings: tuple[str, ...]
    disturbed: bool
    """Whether other processes or a drifting clock disturbed the timing, so that a second run may give other figures."""
    untrusted: str
    """Why the times do not say which contender is the fastest, for people; empty: they do, or one won convincingly."""


def time_contenders(
    setting: Setting, contenders: Sequence[Checked], slow_samples: Sequence[float], busy: float = 0.0
) -> Timed:
    """Time the contenders, which were verified; the first is the original, whose verification took `slow_samples`,
    while others used the share `busy` of the machine.

    A contender whose run is long keeps its verification runs as samples (`timed_by_verification`). One that fails in
    the joint process is dropped, and the others are timed again. When the noise is high, the original and the
    candidates that are within the noise of the fastest one are timed a second time, for longer. When others use the
    machine and no candidate wins all the same, everything is timed again at a quieter moment, while the time for all
    lasts.
    """
    with timing_turn() as warnings, timing_inputs(setting) as data:
        timed = _time_contenders(setting, contenders, slow_samples, data, busy)
    return replace(timed, warnings=(*warnings, *timed.warnings), disturbed=timed.disturbed or bool(warnings))


def brief_seconds(setting: Setting, contenders: Sequence[Checked]) -> dict[str, float]:
    """By id what the candidates take, the contenders but the first: by few samples, to choose further ones by, not to
    judge these. Those whose run is long have the seconds of their verification runs. Empty where the time for all is
    half spent."""
    if setting.allowance.half_spent:
        return {}
    slow = timed_by_verification(contenders, setting.options)
    joint = [i for i in range(1, len(contenders)) if i not in slow]
    record, failed, options = Record(), dict[int, Measurement](), setting.options
    found = {contenders[i].measurement.id: contenders[i].seconds for i in sorted(slow - {0})}
    if joint:
        with timing_turn(), timing_inputs(setting) as data:
            few = Timing(1, options.min_sample, _BRIEF * options.budget, _FEW, 2 * _FEW, 0)
            joint_pass(setting, contenders, joint, few, record, failed, data)
    return found | {contenders[i].measurement.id: seconds for i, (seconds, _) in record.undisturbed().items()}


def doubt(busy: float, noise: float, drift: float) -> str:
    """Why times say nothing about which code is faster, for people; empty: they do. `busy` is the share of the machine
    that others used meanwhile, `noise` the relative difference of two timings of the same code, `drift` the spread of
    a fixed amount of work."""
    if busy > BUSY:
        return f"the machine was busy: other programs used {100 * busy:.0f} % of its processors"
    if noise > _ERRATIC_NOISE:
        return f"the machine was busy: two timings of the same code differ by {difference_text(noise)}"
    if drift > _ERRATIC_CLOCK:
        return f"the machine was busy: times of the same work differ by {difference_text(drift)}"
    return ""


def _time_contenders(
    setting: Setting, contenders: Sequence[Checked], slow_samples: Sequence[float], data: TimingInputs, busy: float
) -> Timed:
    options = setting.options
    warnings = machine_warnings()
    slow = timed_by_verification(contenders, options)
    joint = [i for i in range(len(contenders)) if i not in slow]
    failed = dict[int, Measurement]()
    for attempt in range(_ATTEMPTS):
        before, others = setting.allowance.spent, Others()
        record = _timed_once(setting, contenders, [i for i in joint if i not in failed], failed, others, data)
        disturbances = [*warnings, *others.warnings(), *_timing_warnings(record, contenders)]
        share = max(others.share(), busy) if slow else others.share()
        why = "" if _won(record) else doubt(share, record.noise(), record.drift())
        again = 2 * (setting.allowance.spent - before)
        if not why or len(joint) - len(failed) < 2 or attempt == _ATTEMPTS - 1 or setting.allowance.left < again:
            break
        wait_until_quiet(min(_LONGEST_WAIT, again, setting.allowance.left - again))
        warnings = []
    disturbances += [why] if why and not disturbances else []
    warnings = []
    if record.noise() > _NOISY:
        warnings.append(
            f"two timings of the same code differ by {difference_text(record.noise())}: "
            "an advantage that is not larger counts for nothing"
        )
    if 0 in failed:
        warnings.append(f"the original failed when it was timed repeatedly: {failed[0].message}")
        del failed[0]
        record.samples.pop(0, None)
    for i in sorted(slow | ({0} - record.samples.keys())):
        seconds = slow_samples if i == 0 else (contenders[i].seconds,)
        record.samples[i] = [Sample(-1, 0, sample) for sample in seconds]
        one = contenders[i]
        if one.measurement.estimated:
            continue  # it keeps the result of verification
        name = one.measurement.id
        warnings.append(f"'{name}' takes {one.seconds:.3g} s per run and was timed by its verification runs only")
    compared = record.undisturbed()
    measurements = tuple(
        failed[i] if i in failed else _with_samples(contender.measurement, record, i, compared[i][0])
        for i, contender in enumerate(contenders)
    )
    return Timed(measurements, record.noise(), (*disturbances, *warnings), bool(disturbances), why)


def _timed_once(
    setting: Setting,
    contenders: Sequence[Checked],
    joint: Sequence[int],
    failed: dict[int, Measurement],
    others: Others,
    data: TimingInputs,
) -> Record:
    """The samples of some contenders, of close ones more than of the others. Adds to `failed` those that fail."""
    options, record = setting.options, Record()
    base = Timing(
        buffer_sets(setting),
        options.min_sample,
        _budget(setting, len(joint)),
        options.min_rounds,
        options.max_rounds,
        _COLD_BYTES if options.cold else 0,
    )
    joint_pass(setting, contenders, joint, base, record, failed, data)
    uncertain = record.noise() > _NOISY or record.drift() > _DRIFT or bool(others.warnings()) or _undecided(record)
    if uncertain and len(record.samples) > 1 and setting.allowance.left > 0:
        known = {i: seconds for i, (seconds, _) in record.undisturbed().items()}
        fastest = min(known.values())
        close = [i for i, seconds in known.items() if seconds <= fastest * (1 + 2 * record.noise())]
        # An original that is far slower needs no more precise figure.
        again = sorted({*close, *(i for i in (0,) if known.get(i, math.inf) <= FAR * fastest)})
        longer = replace(base, budget=_budget(setting, len(again), _EXTENSION), max_rounds=_EXTENSION * base.max_rounds)
        joint_pass(setting, contenders, again, longer, record, failed, data)
    return record


def _won(record: Record) -> bool:
    """Whether a contender is faster than the original, convincingly and by more than the noise."""
    found = {i: record.ratios(i) for i in record.samples if i != 0 and 0 in record.samples}
    return any(
        ratios and convincing(ratios, len(found)) and float(np.median(ratios)) > 1 + record.noise()
        for ratios in found.values()
    )


def timed_by_verification(contenders: Sequence[Checked], options: MeasureOptions) -> set[int]:
    """Contenders, by index, that keep the times of their verification runs: whose run is longer than `options.slow`,
    and candidates whose run is longer than the budget and that take far longer than the fastest one. Those runs begin
    with arrays that the process has not touched yet, which costs all of them the same: they are farther apart than it
    seems."""
    far = FAR * min(contender.seconds for contender in contenders)
    return {
        i
        for i, one in enumerate(contenders)
        if one.seconds > options.slow or (i > 0 and one.seconds > max(options.budget, far))
    }


def _budget(setting: Setting, contenders: int, factor: int = 1) -> float:
    """Timed seconds for each: at most what is left of the time for all; the least number of rounds is always run."""
    return max(0.0, min(factor * setting.options.budget, setting.allowance.left / max(1, contenders)))


def _undecided(record: Record) -> bool:
    """Whether the fastest contender has a shorter median than the original, but does not win convincingly."""
    if 0 not in record.samples:
        return False
    fastest = min(record.samples, key=record.median)
    return fastest != 0 and not convincing(record.ratios(fastest), len(record.samples) - 1)


def joint_pass(
    setting: Setting,
    contenders: Sequence[Checked],
    which: Sequence[int],
    timing: Timing,
    record: Record,
    failed: dict[int, Measurement],
    data: TimingInputs,
) -> None:
    """Time some contenders in one process, again without each one that fails, and record the samples."""
    joint = list(which)
    while joint:
        outcome, limits = _joint_job(setting, [contenders[i] for i in joint], timing, data)
        failure = outcome.failure(limits, [b.array.spelled for b in setting.buffers], _blocks(setting))
        if failure is None:
            record.add(outcome, joint)
            return
        guilty = outcome.words[Word.CURRENT]
        if guilty < 0:
            raise ToolchainError(f"the measuring driver failed before it timed anything: it {failure[1]}")
        data.distrust()
        index = joint.pop(guilty)
        status, message = failure
        failed[index] = replace(contenders[index].measurement, status=status, message=f"while timed: it {message}")


def _blocks(setting: Setting) -> tuple[Block, ...]:
    return blocks_for(setting.buffers, flush_end=False, room=ROOM)


class TimingInputs:
    """The shared file that timed processes copy their arrays from. Written when the first one needs it: where all runs
    are long, none does."""

    def __init__(self, setting: Setting, descriptor: int, mapping: mmap.mmap) -> None:
        self._setting = setting
        self._descriptor = descriptor
        self._mapping = mapping
        self._written = False

    def descriptor(self) -> int:
        """Of the file with the inputs in it."""
        if not self._written:
            setting = self._setting
            # Positive values only, since sums could become denormal numbers, which are slow to compute with.
            singular = arithmetic(setting.scop).singular
            inputs = real_inputs(setting.buffers, setting.options.seed, 0.5, 1.5, dominant=singular)
            write_inputs(self._mapping, _blocks(setting), inputs)
            self._written = True
        return self._descriptor

    def distrust(self) -> None:
        """A candidate failed, whatever it did before that: the next process gets the inputs anew."""
        self._written = False


@contextmanager
def timing_inputs(setting: Setting) -> Iterator[TimingInputs]:
    """The inputs of all passes of a timing. Removed at the end."""
    with shared_memory("polydl-data", sum(block.block_bytes for block in _blocks(setting))) as (descriptor, mapping):
        yield TimingInputs(setting, descriptor, mapping)


def _joint_job(
    setting: Setting, contenders: Sequence[Checked], timing: Timing, data: TimingInputs
) -> tuple[Outcome, Limits]:
    options = setting.options
    blocks = _blocks(setting)
    total = sum(block.block_bytes for block in blocks)
    in_units = sum(block.bytes for block in blocks if block.place is Place.IN_UNIT) * len(contenders)
    slowest = max(contender.seconds for contender in contenders)
    # The time of one sample: its repeats or, when the first estimate was too low, some calibration steps.
    seconds = min(options.timeout, 5.0 + 5.0 * slowest) + 20 * options.min_sample
    array_bytes = total * (timing.sets + 1) + in_units + timing.cold_bytes
    limits = Limits(seconds, options.threads, options.memory, array_bytes)
    libraries = [contender.built.library for contender in contenders]
    outcome = run_job(
        setting.driver, "time", libraries, setting.sizes, blocks, data.descriptor(), limits, bind=True, timing=timing
    )
    return outcome, limits


def buffer_sets(setting: Setting) -> int:
    """Number of placements of the arrays to alternate between: that of the options, or fewer when memory is short."""
    total = sum(block.block_bytes for block in _blocks(setting))
    affordable = memory_budget() // max(total, 1) - 2
    return int(max(1, min(setting.options.buffer_sets, affordable)))


def _with_samples(measurement: Measurement, record: Record, contender: int, undisturbed: float) -> Measurement:
    """The measurement with its samples, times, spread and speedup. The speedup is the median of the ratios within
    rounds, which a drifting clock does not affect; with fewer than three common rounds, the ratio of the medians."""
    seconds = tuple(sample.seconds for sample in record.samples[contender])
    lower, middle, upper = (float(x) for x in np.percentile(seconds, [25, 50, 75]))
    ratios = record.ratios(contender)
    faster = convincing(ratios, len(record.samples) - 1) if ratios and contender else None
    if len(ratios) < 3:
        ratios = [record.median(0) / middle]
    spread, speedup = (upper - lower) / middle, float(np.median(ratios))
    return replace(
        measurement,
        samples=seconds,
        median=middle,
        undisturbed=undisturbed,
        spread=spread,
        speedup=speedup,
        faster=faster,
    )


def _timing_warnings(record: Record, contenders: Sequence[Checked]) -> list[str]:
    """Warnings for people that follow from the samples themselves: drift, and effects of placement."""
    warnings = []
    if record.drift() > _DRIFT:
        warnings.append(
            f"the clock drifted by {100 * record.drift():.0f} % during timing (frequency changes, or other load)"
        )
    if not record.samples:
        return warnings
    fastest = min(record.samples, key=record.median)
    by_set: dict[int, list[float]] = {}
    for sample in record.samples[fastest]:
        by_set.setdefault(sample.buffer_set, []).append(sample.seconds)
    medians = [float(np.median(seconds)) for seconds in by_set.values() if len(seconds) >= 3]
    if medians and max(medians) > _PLACEMENT * min(medians):
        warnings.append(
            f"the speed of '{contenders[fastest].measurement.id}' depends on where its arrays lie in memory: "
            f"{max(medians) / min(medians):.2f} times between placements"
        )
    return warnings


_READINGS = 1000


def clock_resolution() -> float:
    """Seconds between two consecutive readings of the clock: the median of many."""
    readings = [time.perf_counter_ns() for _ in range(_READINGS)]
    return float(np.median(np.diff(readings))) * 1e-9
