"""Times code of any size at several sizes, beside the original: what a curve over sizes is made of."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from polydl.base.errors import InputError
from polydl.base.records import dataclass
from polydl.lower.emit import Generated
from polydl.measure.allowance import Allowance
from polydl.measure.busy import Others
from polydl.measure.compiler import find_compiler
from polydl.measure.measurement import ORIGINAL, Measurement, MeasureOptions, Status, Toolchain
from polydl.measure.session import Builder, setting_for
from polydl.measure.timing import time_contenders
from polydl.measure.verify import Built, Checked, ReferenceFailed, verify
from polydl.model.scop import Scop

_RUNS = 6
"""Runs of the original that checking and timing take at least."""


@dataclass(frozen=True, slots=True)
class Place:
    """A program at some sizes, and what is timed there."""

    scop: Scop
    ids: tuple[str, ...]
    """Of codes that are run beside the original."""
    expected: float
    """Seconds that one run of the original is expected to take."""


@dataclass(frozen=True, slots=True)
class TimedPlace:
    """What was timed at some sizes."""

    measurements: Mapping[str, Measurement]
    """By id, the original's too; empty: nothing was timed."""
    missing: str = ""
    """Why nothing was timed, for people."""
    warnings: tuple[str, ...] = ()
    """What makes the figures doubtful."""


def time_at(
    places: Sequence[Place],
    codes: Mapping[str, Generated],
    toolchain: Toolchain,
    options: MeasureOptions,
    tell: Callable[[int, int], None] | None = None,
) -> tuple[TimedPlace, ...]:
    """Build codes once, then check and time at each place those that belong there, which take turns with the original.

    The scops of the places are one program at several sizes. `options.seconds` are for all of it, runs of the original
    counted: the places with short runs come first, and one that would take more than what is left is left out. `tell`
    is called with how many were done, of how many. Raises ToolchainError where there is no compiler or the original
    does not compile.
    """
    allowance = Allowance(options.seconds)
    done: dict[int, TimedPlace] = {}
    if all(_RUNS * place.expected > allowance.left for place in places):
        return tuple(_too_long(place, allowance) for place in places)
    with tempfile.TemporaryDirectory(prefix="polydl-") as name:
        folder = Path(name)
        builder = Builder(places[0].scop, toolchain, options, find_compiler(toolchain), folder, allowance)
        built, failed = builder.build(codes, lambda stage, n, total: None, needed=list(codes)[:1])
        by_id = {one.id: one for one in built}
        not_built = {one.id: one for one in failed}
        for number in sorted(range(len(places)), key=lambda n: (places[n].expected, n)):
            place = places[number]
            if tell:
                tell(len(done), len(places))
            if _RUNS * place.expected > allowance.left:
                done[number] = _too_long(place, allowance)
                continue
            some = [by_id[i] for i in place.ids if i in by_id]
            found = _timed(place, folder, by_id[ORIGINAL], some, options, allowance)
            missing = {i: not_built[i] for i in place.ids if i in not_built}
            done[number] = TimedPlace({**missing, **found.measurements}, found.missing, found.warnings)
    return tuple(done[number] for number in range(len(places)))


def _too_long(place: Place, allowance: Allowance) -> TimedPlace:
    """Nothing, since checking and timing there would take more than is left."""
    long = f"a run of the original would take about {place.expected:.2g} s"
    return TimedPlace({}, f"{long}: the budget has {max(0.0, allowance.left):.0f} s left")


def _timed(
    place: Place, folder: Path, original: Built, some: Sequence[Built], options: MeasureOptions, allowance: Allowance
) -> TimedPlace:
    """What is timed at one place; why nothing is where the data does not fit in memory or the original fails."""
    others = Others()
    try:
        setting = setting_for(place.scop, folder, original, options, allowance)
        check = verify(setting, original, some, lambda done, total: None)
    except (InputError, ReferenceFailed) as error:
        return TimedPlace({}, error.reason)
    how = Measurement(ORIGINAL, Status.VERIFIED, "the reference", estimated=check.estimated)
    first = Checked(original, how, min(check.original_seconds))
    contenders = [first, *(one for one in check.checked if one.measurement.verified)]
    results = {one.measurement.id: one.measurement for one in check.checked}
    timed = time_contenders(setting, contenders, check.original_seconds, others.share())
    return TimedPlace({**results, **{m.id: m for m in timed.measurements}}, warnings=timed.warnings)
