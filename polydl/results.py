"""What ranking and optimising give back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from polydl.dependences.analysis import Dependence
from polydl.fusion.fuse import FusedScop
from polydl.machine import Machine
from polydl.measure import Measurement, Report
from polydl.model.scop import Scop
from polydl.scheduling.plan import Scheduled
from polydl.variants.nests import Nest
from polydl.variants.recipe import Recipe
from polydl.variants.structure import Structure


@dataclass(frozen=True, slots=True)
class RankedVariant:
    """A variant with its place in the order."""

    recipe: Recipe
    structures: tuple[Structure, ...]
    score: float
    """The ranker's: lower is better."""
    features: Mapping[str, float]
    scheduled: tuple[Scheduled, ...] = ()
    """Regions with a schedule tree of their own; `structures` has the other nests."""
    scop: Scop | None = None
    """The scop that the structures are of, where that is not the ranking's: one with nests fused."""

    @property
    def id(self) -> str:
        return self.recipe.id

    @property
    def notes(self) -> tuple[str, ...]:
        """What its user should know: sums that are reassociated across threads, functions to call beforehand."""
        summed = (
            f"reassociated: partial sums of {s.nest.name} over blocks of loop {s.summed} are added up at the end, in "
            "the same order for any number of threads (--no-reassociate forbids it)"
            for s in self.structures
            if s.summed
        )
        ahead = (
            f"packed ahead of time: call {p.function}(address of {s.operand(p).array}) once before, and again when its "
            "contents change; that time is not in the figures"
            for s in self.structures
            for p in s.packs
            if p.function
        )
        return (*summed, *ahead)

    @property
    def parts(self) -> tuple[Structure | Scheduled, ...]:
        """Structures and scheduled regions in the order in which they run."""
        first = {s.nest.statements[0].position: s for s in self.structures}
        everything = first | {s.statements[0].position: s for s in self.scheduled}
        return tuple(part for _, part in sorted(everything.items(), key=lambda item: item[0]))


@dataclass(frozen=True, slots=True)
class Ranking:
    """The ranked variants of one scop, best first."""

    scop: Scop
    dependences: tuple[Dependence, ...]
    nests: tuple[Nest, ...]
    variants: tuple[RankedVariant, ...]
    space_size: int
    """Variants scored, over all nests."""
    pruned: Mapping[str, int]
    """Choices left out, by reason (polydl.variants.space)."""
    machine: Machine
    ranker: str
    threads: int
    seconds: float
    """Analysis and ranking, wall clock."""
    given_up: tuple[str, ...] = ()
    """Schedules that were not found or not shown to be legal, with the reason, for people."""
    fused: FusedScop | None = None
    """What was decided about fusing; None: it was not looked at."""

    def __iter__(self) -> Iterator[RankedVariant]:
        return iter(self.variants)

    def __len__(self) -> int:
        return len(self.variants)


@dataclass(frozen=True, slots=True)
class Optimized:
    """What became of one scop."""

    ranking: Ranking
    report: Report | None
    """None when nothing was run."""
    chosen: RankedVariant | None
    """None: the original, which nothing beat."""
    illegal: tuple[str, ...]
    """Variants refused by the exact legality check, with the reason."""

    @property
    def speedup(self) -> float:
        """Original's time over the chosen one's, as measured; 1 for the original; NaN when nothing was run."""
        if self.report is None:
            return float("nan")
        if self.chosen is None:
            return 1.0
        return self.measurement(self.chosen.id).speedup

    @property
    def usable(self) -> bool:
        """Whether a variant computes what the original computes, or there was none to be tried, or nothing was run."""
        report = self.report
        return report is None or not report.measurements or any(m.verified for m in report.measurements)

    def measurement(self, variant: str) -> Measurement:
        """The measurement of a variant. Raises KeyError."""
        for found in self.report.measurements if self.report else ():
            if found.id == variant:
                return found
        raise KeyError(variant)


@dataclass(frozen=True, slots=True)
class OptimizeResult:
    """The result of `optimize`."""

    output: Path | None
    """The file written; None with run=False and no output asked for, and when no variant passed its check."""
    text: str
    """Its text."""
    scops: tuple[Optimized, ...]
    seconds: Mapping[str, float]
    """Wall clock: analysis, compile, measure, total."""

    @property
    def speedup(self) -> float:
        """Of the first scop."""
        return self.scops[0].speedup


@dataclass(frozen=True, slots=True)
class FuseResult:
    """The result of `fuse`."""

    output: Path
    """The file written."""
    text: str
    """Its text."""
    scops: tuple[FusedScop, ...]
    """What was fused in each scop, and what was not, with the reason."""
