"""The record of a run: what `polydl optimize --save RUN.json` writes and `polydl report RUN.json` reads.

One JSON document; its fields are those of `Run` and what it holds, by name. Times are in seconds, sizes in bytes.
A field that is added leaves the version as it is; one that is renamed, goes, or changes its meaning makes a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from polydl.base.errors import InputError, InputErrors
from polydl.base.records import dataclass
from polydl.target import Machine
from polydl.target import dumps as machine_text
from polydl.target import loads as machine_of

FORMAT = "polydl run"
VERSION = 1
LARGEST = 256 << 20
"""Bytes of a record that is read. A run with ten thousand ranked variants has about 10 MB."""
ORIGINAL = "original"

Positive = Annotated[float, msgspec.Meta(gt=0)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Natural = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


@dataclass(frozen=True, slots=True)
class Bounds:
    """A whole number that is known exactly (both equal) or between two bounds."""

    at_least: Natural
    at_most: Natural


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """What a cache must hold for an element to be still there when it is used again (Algorithm 1)."""

    nest: str
    kind: str
    """RAW, WAR, WAW or RAR."""
    array: str
    carried_by: str
    """The loop whose iterations the two uses differ in."""
    min: Bounds
    """Bytes touched until the next use."""
    max: Bounds
    """Bytes touched until the last use."""
    level_min: str
    """The fastest level that surely holds `min`: `L1`, …, or `memory`."""
    level_max: str


@dataclass(frozen=True, slots=True)
class Score:
    """A ranker's score of a variant, with the predicted time."""

    score: float
    """Lower is better; comparable among the variants of one run and ranker only."""
    predicted_seconds: Positive | None
    """None for a ranker that predicts no time."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A variant that was built, checked and timed; also the original."""

    id: str
    """The recipe's, or `original`."""
    loops: str
    """In one line, for people."""
    status: str
    """`verified`, or why it was dropped (polydl.measure.measurement.Status)."""
    message: str
    samples: tuple[Positive, ...]
    """Seconds of one run each, in the order taken."""
    median: Positive | None
    """Seconds; None when nothing was timed."""
    spread: NotNegative | None
    """Interquartile range of the samples over their median."""
    speedup: Positive | None
    """Over the original, paired by rounds."""
    estimated: bool
    """The median is an estimate from parts of a run."""
    scores: Mapping[str, Score]
    """By ranker; those that do not know this kind of variant are left out."""
    moved: Mapping[str, NotNegative]
    """By level (`L1`, `L2`, …) the bytes that the traffic model sees move into it, by all threads; empty where that
    model does not apply."""
    working_sets: tuple[WorkingSet, ...]
    working_sets_note: str
    """Why there are none; empty otherwise."""

    @property
    def verified(self) -> bool:
        return self.status == "verified"


@dataclass(frozen=True, slots=True)
class Ranked:
    """A variant of the space, as ranked."""

    id: str
    loops: str
    recipe: str
    score: float | None
    """The run's ranker's: lower is better; None where it has none."""
    features: Mapping[str, float | None]
    """What the score was made of; the unit is the name's last word."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about moving one nest into another, or making one of two."""

    into: str
    nest: str
    how: str
    """`epilogue`, `prologue`, or `loops` for two nests that became one."""
    fused: bool
    reason: str
    """Why not; the common loops for `loops`."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """The fusion decisions about a scop."""

    decisions: tuple[Decision, ...]
    contracted: tuple[str, ...]
    """Arrays that need no storage any more."""


@dataclass(frozen=True, slots=True)
class DependenceSummary:
    """Dependences of one kind between two statements."""

    kind: str
    array: str
    source: str
    target: str
    carried_by: str
    """Empty: not carried by a loop."""
    reduction: bool


@dataclass(frozen=True, slots=True)
class Timed:
    """The time of some code at some sizes."""

    median: NotNegative | None
    """Seconds; None: not timed."""
    spread: NotNegative | None
    """Interquartile range of the samples over their median."""
    predicted_seconds: NotNegative | None
    """The estimate; None: there is none."""
    message: str
    """Why there is no time; empty where there is one, and where nothing was to be timed."""

    def seconds(self, estimated: bool) -> float | None:
        """The time, or the estimate; None for none, and for 0, which no scale has."""
        return (self.predicted_seconds if estimated else self.median) or None


@dataclass(frozen=True, slots=True)
class AtSize:
    """One of the sizes of a curve."""

    sizes: Mapping[str, int]
    kind: str
    """Why it was chosen: `smallest`, `past L2`, `prime`, …"""
    variant: str
    """What the output runs there: the id of a variant, or `original`."""
    operations: Natural | None
    """Floating-point operations of one run; None: not known exactly."""
    original: Timed
    output: Timed
    tuned: Timed
    """The best ranked variant for these very sizes."""
    missing: str
    """Why nothing was timed."""
    warnings: tuple[str, ...]
    """What makes the figures doubtful."""

    def each(self) -> tuple[Timed, Timed, Timed]:
        """The original, the output, the tuned variant."""
        return (self.original, self.output, self.tuned)

    @property
    def why_missing(self) -> str:
        """Why some of them have no time; empty: all have, or nothing was to be timed."""
        return self.missing or "; ".join(one.message for one in self.each() if one.message)


@dataclass(frozen=True, slots=True)
class Curve:
    """The output at several sizes, beside the original and variants that are tuned for each of them."""

    estimated: bool
    """Nothing was run: there are estimates only."""
    points: tuple[AtSize, ...]
    """From less work to more."""
    left_out: str
    """How many have no times, and why; empty: all have."""


@dataclass(frozen=True, slots=True)
class ScopRun:
    """What became of one scop."""

    function: str
    line: Natural
    sizes: Mapping[str, int]
    before: str
    """The region's C text as it was written."""
    after: str
    """The chosen variant's; empty when the original stays."""
    ranker: str
    threads: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    space_size: Natural
    """Variants that were scored."""
    pruned: Mapping[str, Natural]
    """Choices left out, by reason."""
    analysis_seconds: NotNegative
    chosen: str
    """The id of the variant in the output, or `original`."""
    original: Measured
    measured: tuple[Measured, ...]
    """In the order in which they were ranked."""
    ranked: tuple[Ranked, ...]
    """Best first."""
    noise: NotNegative
    """Relative difference that two timings of the same code showed in this run."""
    dtype: str
    """`float` or `double`; empty for a scop without floating-point results."""
    operations: Bounds | None
    """Floating-point additions, multiplications, divisions and calls of one run as written; None where the code does
    not say it (statements kept as text), or counting takes too long."""
    compulsory_bytes: Bounds | None
    """Distinct bytes that a run touches: what must move at least, when the caches are cold. None where counting takes
    too long."""
    dependences: tuple[DependenceSummary, ...]
    fusion: Fusion | None
    """None: not looked at."""
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    """What the user of the output should know."""
    warnings: tuple[str, ...]
    """What makes the figures doubtful."""
    illegal: tuple[str, ...]
    given_up: tuple[str, ...]
    undecided: str = ""
    """Why the estimate chose, and not the times; empty: the times did."""
    curve: Curve | None = None
    """None: not asked for."""

    def variants(self) -> tuple[Measured, ...]:
        """The original, then the measured ones."""
        return (self.original, *self.measured)

    def timed(self) -> tuple[Measured, ...]:
        """Those with a time, fastest first."""
        found = [m for m in self.variants() if m.verified and m.median is not None]
        return tuple(sorted(found, key=lambda m: m.median or 0.0))

    def winner(self) -> Measured:
        """What is in the output."""
        return next(m for m in self.variants() if m.id == self.chosen)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of `polydl optimize`."""

    format: str
    version: int
    polydl: str
    """The version that wrote this."""
    created: str
    """ISO 8601, UTC."""
    command: str
    """The command line; empty from Python."""
    options: Mapping[str, str]
    """Those that differ from the defaults, as text."""
    source: str
    """Path of the input, as given."""
    source_text: str
    output: str
    """Path of the output."""
    output_text: str
    machine: Machine
    seconds: Mapping[str, NotNegative]
    """Wall clock: analysis, compile, measure, total."""
    scops: Annotated[tuple[ScopRun, ...], msgspec.Meta(min_length=1)]


def dumps(run: Run) -> str:
    """The record as JSON. Text that is not UTF-8 becomes replacement characters."""
    return msgspec.json.encode(run).decode() + "\n"


def load(path: Path) -> Run:
    """Read a record. Raises InputError for what is none, is damaged, or is of another version."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}", hint=_HOW) from error
    if len(data) > LARGEST:
        raise InputError(f"{path} is larger than any record of a run ({LARGEST >> 20} MiB)", hint=_HOW)
    return loads(data, str(path))


_HOW = "a record is written by `polydl optimize FILE.c --save RUN.json`"


@dataclass(frozen=True, slots=True)
class _Kind:
    """The fields of a document that are read first: is it a record, and of which version?"""

    format: str = ""
    version: int = 0
    polydl: str = ""


def loads(data: bytes, name: str) -> Run:
    """As `load`, from bytes; `name` is what messages call them."""
    try:
        kind = msgspec.json.decode(data, type=_Kind)
        if kind.format != FORMAT:
            raise InputError(f"{name} is no record of a run", hint=_HOW)
        if kind.version != VERSION:
            raise InputError(
                f"{name} is a record of version {kind.version}, written by polydl {kind.polydl}; "
                f"this polydl reads version {VERSION}",
                hint="run `polydl optimize … --save` again, or report with the polydl that wrote it",
            )
        run = msgspec.json.decode(data, type=Run)
    except msgspec.ValidationError as error:
        raise InputError(f"{name} is no record of a run: {error}", hint=_HOW) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{name} is damaged or no record of a run: {error}", hint=_HOW) from error
    return _consistent(run, name)


def _consistent(run: Run, name: str) -> Run:
    """The record, after the checks that its types cannot express. Raises InputError."""
    try:
        machine_of(machine_text(run.machine), f"the machine of {name}")
    except InputErrors as errors:
        raise InputError(f"{name} is no record of a run: its machine: {errors.errors[0].reason}", hint=_HOW) from errors
    for scop in run.scops:
        ids = [m.id for m in scop.variants()]
        for wrong, reason in (
            (scop.original.id != ORIGINAL, f"the original is called '{scop.original.id}'"),
            (len(set(ids)) != len(ids), "two measured variants have one id"),
            (scop.chosen not in ids, f"the chosen variant '{scop.chosen}' was not measured"),
            (any(b.at_least > b.at_most for b in _bounds(scop)), "a lower bound is above the upper one"),
        ):
            if wrong:
                raise InputError(f"{name} is no record of a run: {scop.function}: {reason}", hint=_HOW)
    return run


def _bounds(scop: ScopRun) -> list[Bounds]:
    found = [b for m in scop.variants() for w in m.working_sets for b in (w.min, w.max)]
    return [*found, *(b for b in (scop.compulsory_bytes, scop.operations) if b is not None)]
