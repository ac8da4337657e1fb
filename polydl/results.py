"""What ranking and optimising give back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from polydl.base import html
from polydl.base.errors import InputError, PolyDLError, one_of
from polydl.base.units import seconds_text
from polydl.dependences.analysis import Dependence
from polydl.dependences.nests import Nest
from polydl.lower.emit import Generated
from polydl.measure import Measurement, Report, Status
from polydl.measure.source_check import Checked
from polydl.model.scop import Scop
from polydl.model.touched import premises
from polydl.rank.estimate import NOT_RANKED
from polydl.rank.shape_correction import Correction
from polydl.rewrite.canonical import Canonical
from polydl.schedule.fused_scop import FusedScop
from polydl.schedule.ordered import written
from polydl.schedule.recipe import Recipe
from polydl.search.sizes.code import EverySize
from polydl.search.sizes.curve import SizeCurve
from polydl.search.sizes.decision_tree import AtSizes, check_sizes, tuned_sizes
from polydl.search.variant import Origin, Variant
from polydl.target import Machine

if TYPE_CHECKING:
    import pandas as pd

    from polydl.prove import Proof

_NOT_FASTER = "no variant was measurably faster"
SHOWN = 10
"""Variants that the text of a ranking shows."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The ranked variants of one scop, best first: a table.

    >>> import polydl
    >>> table = polydl.rank("examples/matmul.c", "small", "epyc-zen5", "traffic", threads=2)
    >>> table.columns[:4]
    ('id', 'score', 'loops', 'recipe')
    >>> scores = table["score"]  # a NumPy array, best (lowest) first
    >>> bool((scores[:-1] <= scores[1:]).all())
    True
    >>> len(table[:5])  # a slice is a table too
    5
    >>> table[0].id == table["id"][0]
    True
    """

    program: Canonical
    """What is ranked, as it was read and as it is searched."""
    nests: tuple[Nest, ...]
    variants: tuple[Variant, ...]
    space_size: int
    """Variants scored, over all nests."""
    pruned: Mapping[str, int]
    """Choices left out, by reason (polydl.schedule.limits)."""
    machine: Machine
    ranker: str
    threads: int
    seconds: float
    """Analysis and ranking, wall clock."""
    given_up: tuple[str, ...] = ()
    """Schedules that were not found or not shown to be legal, with the reason, for people."""
    fused: FusedScop | None = None
    """What was decided about fusing; None: it was not looked at."""
    apart: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By the names of two nests, of which the second reads what the first writes, why they share no loops in any of
    the variants, where that was looked at."""
    ranges: Mapping[str, range] = field(default_factory=dict)
    """Of the parameters that may have one of several values: these. The program's own size stands for them."""

    @property
    def scop(self) -> Scop:
        """The program as it is searched."""
        return self.program.scop

    @property
    def dependences(self) -> tuple[Dependence, ...]:
        """Of `scop`, without RAR."""
        return self.program.dependences

    def as_written(self) -> Variant:
        """The program's own nests, one after the other: what the original is compared as."""
        origin = Origin(self.scop, self.dependences, reassociate=False)
        return Variant(origin, Recipe(()), tuple(written(nest) for nest in self.nests), NOT_RANKED)

    def __iter__(self) -> Iterator[Variant]:
        return iter(self.variants)

    def __len__(self) -> int:
        return len(self.variants)

    @overload
    def __getitem__(self, key: int) -> Variant: ...
    @overload
    def __getitem__(self, key: slice) -> Ranking: ...
    @overload
    def __getitem__(self, key: str) -> npt.NDArray[Any]: ...

    def __getitem__(self, key: int | slice | str) -> Variant | Ranking | npt.NDArray[Any]:
        """A variant by its place (0 is the best), a table of some of them, or a column by its name.

        A column has shape (variants,). Raises IndexError, which says how many there are; InputError for a column that
        there is not.
        """
        if isinstance(key, str):
            return self._column(key)
        if isinstance(key, slice):
            return replace(self, variants=self.variants[key])
        if not -len(self) <= index(key) < len(self):
            raise IndexError(f"no variant {key}: the table has {len(self)}, the best is 0")
        return self.variants[key]

    @property
    def columns(self) -> tuple[str, ...]:
        """`id`, `score`, `loops`, `recipe`, and the names of the ranker's features; a feature's unit is the last word
        of its name."""
        return ("id", "score", "loops", "recipe", *dict.fromkeys(name for v in self.variants for name in v.features))

    def _column(self, name: str) -> npt.NDArray[Any]:
        match name:
            case "id":
                return np.array([v.id for v in self.variants], dtype=object)
            case "loops":
                return np.array([v.loops for v in self.variants], dtype=object)
            case "recipe":
                return np.array([str(v.recipe) for v in self.variants], dtype=object)
            case "score":
                return np.array([v.score for v in self.variants], dtype=np.float64)
        if not any(name in v.features for v in self.variants):
            raise InputError(f"no column called '{name}'", hint=one_of(name, self.columns))
        return np.array([v.features.get(name, math.nan) for v in self.variants], dtype=np.float64)

    def to_dict(self) -> dict[str, npt.NDArray[Any]]:
        """All columns by name, each of shape (variants,)."""
        return {name: self._column(name) for name in self.columns}

    def to_pandas(self) -> pd.DataFrame:
        """The table as a pandas DataFrame, one row per variant. Raises PolyDLError where pandas is not installed."""
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            raise PolyDLError("pandas is not installed", hint="pip install pandas, or take `to_dict()`") from error
        return pd.DataFrame(self.to_dict())

    @property
    def _title(self) -> str:
        what = f"{self.space_size} variants ranked by {self.ranker}"
        return f"{self.scop.function}: {what} for {self.machine.name}, {self.threads} threads"

    def __repr__(self) -> str:
        shown = self.variants[:SHOWN]
        lines = [f"{i:>4}  {v.id}  {seconds_text(v.score, 4):<9}  {v.loops}" for i, v in enumerate(shown)]
        more = [f"… {len(self) - len(shown)} more"] if len(self) > len(shown) else []
        return "\n".join([self._title, *lines, *more])

    def _repr_html_(self) -> str:
        rows = ((i, v.id, seconds_text(v.score, 4), v.loops) for i, v in enumerate(self.variants))
        return html.block(self._title, html.table(("", "variant", "predicted", "loops"), rows, total=len(self)))


@dataclass(frozen=True, slots=True)
class Optimized:
    """What became of one scop."""

    ranking: Ranking
    report: Report | None
    """None when nothing was run."""
    chosen: Variant | None
    """None: the original, which nothing beat."""
    illegal: tuple[str, ...]
    """Variants refused by the exact legality check, or shown to be wrong by a proof, with the reason."""
    proofs: Mapping[str, Proof] = field(default_factory=dict)
    """With --prove: per id what was shown of the variant."""
    analysis_seconds: float = 0.0
    """Wall clock before anything was compiled: analysis, ranking, the choice of what is measured, proofs."""
    other_sizes: EverySize | str = ""
    """What runs where the function's integer parameters have other values than those given; or why these are the
    original loops; empty: there are none."""
    curve: SizeCurve | None = None
    """The output at several sizes beside the original; None: not asked for, or no size is a parameter."""
    others_seconds: float = 0.0
    """Wall clock of code for other sizes: comparing ways, making their C, compiling, timing and running it."""
    others_spent: float = 0.0
    """Of the budget, in these seconds: no more than what the variants left of the region's share."""
    why_timed: Mapping[str, str] = field(default_factory=dict)
    """By id of a variant that was compiled why it was (search.timing_order), for people."""
    correction: Correction | None = None
    """What times of earlier runs on this machine said of the estimates when it was chosen what to time (--no-learn: it
    is not asked)."""
    compiled: bool = False
    """All of its code was compiled, that for other sizes and the conditions between them too."""

    faulty: bool = False
    """What was chosen did not do what the source does when it was called beside it: the loops are as written."""

    def as_written(self) -> Optimized:
        """The same with the loops left as they are, since the output was found to do something else."""
        return replace(self, chosen=None, other_sizes="", faulty=True)

    @property
    def spent(self) -> float:
        """Seconds of the budget that this took."""
        return self.others_spent + (self.report.spent if self.report is not None else 0.0)

    @property
    def code(self) -> Generated | None:
        """What replaces the region; None: the original loops stay."""
        if self.chosen is None or isinstance(self.other_sizes, str):
            return None if self.chosen is None else self.chosen.generated
        return self.other_sizes.beside(self.chosen.generated)

    @property
    def tuned_sizes(self) -> dict[str, int]:
        """The values of the function's integer parameters for which the chosen variant is made."""
        return tuned_sizes(self.ranking.program.read)

    def at(self, sizes: Mapping[str, int]) -> AtSizes:
        """What the output runs at other values of the function's integer parameters; those that are not named have the
        tuned value. Raises InputError for a name that is none of them, and for a value that an int cannot have."""
        tuned = self.tuned_sizes
        check_sizes(sizes, self.ranking.program.read)
        wanted = {**tuned, **sizes}
        if wanted == tuned:
            equal = tuple(f"{name} == {value}" for name, value in tuned.items())
            recipe = self.chosen.recipe if self.chosen else None
            least = min((v.score for v in self.ranking.variants), default=math.nan)
            seconds = self.chosen.score if self.chosen else math.nan
            return AtSizes(wanted, recipe, equal, seconds, least, "" if self.chosen else "no variant was faster")
        if isinstance(self.other_sizes, str):
            other = tuple(f"!({name} == {value})" for name, value in tuned.items() if wanted[name] != value)
            return AtSizes(wanted, None, other[:1], reason=self.other_sizes or "there is code for these sizes alone")
        return self.other_sizes.tree.at(wanted)

    @property
    def speedup(self) -> float:
        """Original's time over the chosen one's, as measured; 1 for the original; NaN when nothing was run, or when the
        times are not to be trusted."""
        if self.report is None or (self.chosen is not None and self.undecided):
            return float("nan")
        if self.chosen is None:
            return 1.0
        return self.measurement(self.chosen.id).speedup

    @property
    def undecided(self) -> str:
        """Why the estimate chose among what was verified, and not the times, for people; empty: the times did."""
        report = self.report
        return report.untrusted if report is not None and report.best() is report.original else ""

    @property
    def rests_on(self) -> str:
        """What the times rest on where data choose elements, for people: see `Report.rests_on`."""
        return self.report.rests_on if self.report is not None else ""

    @property
    def verdict(self) -> str:
        """What became of it, for people, in a sentence without a name before it."""
        return f"{self._verdict}, on {self.rests_on}" if self.rests_on else self._verdict

    @property
    def _verdict(self) -> str:
        if self.faulty:
            return "unchanged: what was chosen does not do what the source does, a mistake in polydl"
        if self.report is None:
            return "ranked, nothing was run"
        if not self.undecided:
            faster = f"{self.speedup:.2f}x faster than the original"
            return faster if self.chosen else "nothing beat the original: unchanged"
        if self.chosen:
            return f"chosen by the estimate, since the times are not to be trusted: {self.undecided}"
        return f"unchanged: nothing is shown to be faster, and the times are not to be trusted: {self.undecided}"

    @property
    def usable(self) -> bool:
        """Whether a variant computes what the original computes, or there was none to be tried, or nothing was run."""
        report = self.report
        return report is None or not report.measurements or any(m.verified for m in report.measurements)

    @property
    def target(self) -> str:
        """The machine that it is for, for the head of the output."""
        machine = self.ranking.machine
        return f"machine: {machine.name} ({machine.fingerprint}), {self.ranking.threads} threads"

    @property
    def described(self) -> list[str]:
        """What the head of the output says of it: variant, what was proved and assumed."""
        name = self.chosen.id if self.chosen else "original"
        unchanged = "the machine was busy, and no variant was faster" if self.undecided else _NOT_FASTER
        if self.faulty:
            unchanged = "what was chosen does not do what the source does"
        recipe = str(self.chosen.recipe) if self.chosen else f"unchanged: {unchanged}"
        lines = [f"{self.ranking.scop.function}: variant {name} = {recipe}"]
        if self.correction is not None:
            lines.append(
                f"timed by estimates with what {self.correction.problems} earlier runs taught: "
                f"correction {self.correction.id} (--no-learn: without)"
            )
        if self.undecided and self.chosen is not None:
            lines.append("chosen by the estimate: the machine was busy")
        if self.chosen is not None:
            lines += self.chosen.notes
            if self.chosen.id in self.proofs:
                lines += self.proofs[self.chosen.id].lines()
            if self.other_sizes:
                loops = "the original loops: " if isinstance(self.other_sizes, str) else ""
                lines.append(f"other sizes: {loops}{self.other_sizes}")
                if isinstance(self.other_sizes, EverySize) and self.other_sizes.proof is not None:
                    lines += [f"other sizes: {line}" for line in self.other_sizes.proof.lines()]
        return [*lines, *premises(self.ranking.scop)]

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
    """Wall clock: analysis (reading, too), compile (of variants, and of the whole output), measure, other sizes (all
    that code for those takes), total."""
    budget: float = math.inf
    """Seconds that there were for compiling, checking and timing the variants of all scops."""
    any_value: Mapping[str, int] = field(default_factory=dict)
    """Parameters without a size, which may have every value, and the one that variants were timed at."""
    unread: tuple[str, ...] = ()
    """Other loops of the file, which stay as they are, each with its place and the reason: what they use is not
    supported, they could not be run, or they were too much to analyse."""
    less: str = ""
    """How much less was searched than in small files, for people; empty: nothing."""
    checked: Checked = field(default_factory=Checked)
    """What calls of the output beside the source came to. A function for which they differ is as it was written."""
    refused: tuple[str, ...] = ()
    """Regions between pragmas that stay as they are written, where others do not, each with its place and why."""

    @property
    def timed_at(self) -> str:
        """What sizes stood for those that were not given, for people; empty: all were given."""
        if not self.any_value:
            return ""
        sizes = ",".join(f"{name}={value}" for name, value in self.any_value.items())
        return f"made for every size, and for {sizes} above all: --size {sizes} with other numbers changes these"

    @property
    def left_out(self) -> str:
        """How many of the variants that were to be measured the budget left out, for people; empty: none."""
        reports = [done.report for done in self.scops if done.report is not None]
        statuses = [one.status for report in reports for one in report.measurements]
        missing = statuses.count(Status.LEFT_OUT)
        if not missing:
            return ""
        measured = len(statuses) - missing
        # What is begun when half is spent comes to its end, so that a budget is to be twice what the others took.
        enough = 2 * sum(report.spent for report in reports) * len(statuses) / max(1, measured)
        rounded = math.ceil(max(enough, 2 * self.budget) / 10) * 10
        return (
            f"{measured} of {len(statuses)} variants were measured; {missing} were left out: "
            f"the budget of {self.budget:g} s was spent; --budget {rounded} should do for all"
        )

    @property
    def speedup(self) -> float:
        """Of the first scop."""
        return self.scops[0].speedup

    def __repr__(self) -> str:
        speedups = ", ".join(
            f"{d.ranking.scop.function} {f'{d.speedup:.2f}x' if math.isfinite(d.speedup) else 'not measured'}"
            for d in self.scops
        )
        return f"<optimized: {self.output or 'not written'}: {speedups}>"

    def _repr_html_(self) -> str:
        parts = []
        for done in self.scops:
            name = done.ranking.scop.function
            if done.report is None:
                parts.append(html.line(f"{name}: ranked, nothing was run"))
                continue
            chosen = done.chosen.id if done.chosen else done.report.original.id
            rows = [
                (">" if m.id == chosen else "", m.id, m.median, m.speedup, m.status.value)
                for m in (done.report.original, *done.report.measurements)
            ]
            parts.append(html.line(f"{name}: {done.verdict}"))
            parts.append(html.table(("", "variant", "seconds", "speed-up", "status"), rows, total=len(rows)))
        title = str(self.output) if self.output else "not written"
        return html.block(title, *parts, html.code(self.text, "C text"))


@dataclass(frozen=True, slots=True)
class FuseResult:
    """The result of `fuse`."""

    output: Path
    """The file written."""
    text: str
    """Its text."""
    scops: tuple[FusedScop, ...]
    """What was fused in each scop, and what was not, with the reason."""
