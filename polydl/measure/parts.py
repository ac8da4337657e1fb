"""Verification against parts of a slow original, and against each other.

An original that would take longer than `REFERENCE_SECONDS` is not run whole when parts of it are known that compute a
sample of its output (codegen.slices). On integer-valued inputs, on which no order of the sums rounds, each candidate
then has to leave

1. in the sampled elements the same bits as the parts, which run the original's instances in the original's order,
2. in all elements the same bits as every other candidate, which runs in another order,
3. the same again with one thread more, the arrays flush with their rear guards.

The original is run whole after all when two candidates disagree outside of the sample (one of them is wrong, and only
the original can tell which), when there are not two to compare, when a part rounds or fails, and when the original's
time, estimated from the parts, is not clearly longer than that of the fastest candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from polydl.measure.compare import arithmetic, difference
from polydl.measure.data import AnyArray, blocks_for, integer_inputs, integer_range, read_array, write_inputs
from polydl.measure.slices import Slice
from polydl.measure.values import Status
from polydl.measure.verify import Built, ReferenceFailed, Run, Setting, Verification, Way, execute, loaded
from polydl.measure.verify import run_reference as run_original

REFERENCE_SECONDS = 5.0
"""Estimated seconds up to which the original is run whole."""
CLEARLY = 4.0
"""An estimated original counts as slower than a candidate from this ratio on: parts find other data in the caches
than the whole does, and compilers treat their loops differently, so that the estimate may be off by a factor."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the original that compiled."""

    slice: Slice
    built: Built


@dataclass(frozen=True, slots=True)
class _Sample:
    """What a part leaves in the elements that it is for."""

    part: Part
    expected: dict[str, AnyArray]


def verify_by_parts(
    setting: Setting, parts: Sequence[Part], candidates: Sequence[Built], tell: Callable[[int, int], None]
) -> Verification | None:
    """Verify candidates without running the original whole; None when it has to be run (see above).

    `tell(done, total)` is called once per candidate and kind of input.
    """
    options = setting.options
    if len(candidates) < 2 or not parts or any(b.written and b.live and b.lower for b in setting.buffers):
        return None
    singular = arithmetic(setting.scop).singular
    largest = integer_range(setting.terms, setting.buffers)
    integers = integer_inputs(setting.buffers, options.seed, largest, dominant=singular)
    first = Run("integers", integers, blocks_for(setting.buffers, flush_end=False), options.threads)
    second = Run("integers", integers, blocks_for(setting.buffers, flush_end=True), options.threads + 1)
    samples: list[_Sample] = []
    estimate = float("inf")
    for part in parts:
        try:
            reference = run_original(setting, part.built, first, None)
        except ReferenceFailed:
            return None  # the whole original says why
        estimate = min(estimate, reference.seconds / part.slice.share)
        if not reference.exact or estimate <= REFERENCE_SECONDS:
            return None
        samples.append(_Sample(part, {n: _chosen(part, n, values) for n, values in reference.outputs.items()}))
    warnings: list[str] = []
    try:
        run_original(setting, parts[0].built, second, None)
    except ReferenceFailed as failure:
        if failure.status is not Status.CRASHED:
            return None
        second = Run("integers", integers, first.blocks, options.threads + 1)
        warnings.append("the original only works on aligned arrays: candidates were not run on others")
    ways = [Way(built, None, {}, []) for built in candidates]
    witness: dict[str, AnyArray] = {}
    for number, run in enumerate((first, second)):
        with loaded(run) as (descriptor, mapping):
            stale: list[int] = []
            for i, way in enumerate(ways):
                if way.failure is None:
                    write_inputs(mapping, [run.blocks[k] for k in stale], [run.inputs[k] for k in stale])
                    came_through = execute(setting, way, run, estimate, descriptor, mapping)
                    # `execute` makes sure that nothing else was changed.
                    stale = [k for k, b in enumerate(setting.buffers) if b.written or not came_through]
                    if came_through:
                        outputs = {
                            b.array.name: read_array(mapping, block, b).copy()
                            for block, b in zip(run.blocks, setting.buffers, strict=True)
                            if b.written and b.live
                        }
                        if not _as_the_parts(way, samples, outputs):
                            continue
                        witness = witness or outputs
                        if any(not np.array_equal(witness[n], v, equal_nan=True) for n, v in outputs.items()):
                            return None
                tell(number * len(ways) + i + 1, 2 * len(ways))
    alive = [way for way in ways if way.failure is None]
    fastest = min((s for way in alive for s in way.seconds), default=0.0)
    if len(alive) == 1 or estimate < CLEARLY * fastest:
        return None
    sampled = "; ".join(str(sample.part.slice) for sample in samples)
    how = (
        f"equal bit for bit, on integer-valued inputs, to {len(alive) - 1} other orders in all elements, and to the "
        f"original in a sample: {sampled}"
    )
    warnings.append(
        f"the original takes about {estimate:.3g} s a run, estimated from parts of it, and was not run whole: "
        f"{len(alive)} variants left the same bits in all elements, and those of the original in {sampled}"
    )
    return Verification((estimate,), tuple(way.checked(how) for way in ways), tuple(warnings), estimated=True)


def _chosen(part: Part, array: str, values: AnyArray) -> AnyArray:
    """The elements of an array that a part computes."""
    selection = part.slice.selections[array]
    index = [slice(None)] * values.ndim
    index[selection.dimension] = slice(selection.first, None, selection.step)
    return values[tuple(index)]


def _as_the_parts(way: Way, samples: Sequence[_Sample], outputs: dict[str, AnyArray]) -> bool:
    """Whether the sampled elements are the original's; else the candidate has failed."""
    for sample in samples:
        for name, expected in sample.expected.items():
            found = difference(name, _chosen(sample.part, name, outputs[name]), expected, None, 0.0)
            way.max_error[name] = max(way.max_error.get(name, 0.0), found.max_error)
            if found.worst is not None:
                message = f"computes something else ({sample.part.slice}, counted in it): {found.worst}"
                way.wrong(message, found.worst)
                return False
    return True
