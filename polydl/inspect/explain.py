"""Why a variant ranks where it does: `polydl explain FILE.c ID [ID]`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from polydl import pipeline
from polydl.base.errors import IllegalVariant, InputError, QuotaExceeded
from polydl.base.records import dataclass
from polydl.base.recursion import deep
from polydl.dependences.nests import nests
from polydl.frontend import Program
from polydl.inspect.contractions import Missed, missed
from polydl.inspect.documents import loop_strings
from polydl.inspect.edges import EdgeInVariant, edges
from polydl.inspect.sizes_in_words import sizes_data
from polydl.locality.assign import assign, level_of
from polydl.locality.exact import WorkingSet, working_sets
from polydl.lower.region import original_text
from polydl.measure import ORIGINAL, Progress, measure
from polydl.model.counting import Count
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.rank import rankers
from polydl.rank.estimator import Estimator
from polydl.results import Optimized, Ranking
from polydl.schedule.fused_scop import fuse
from polydl.schedule.notation import Written, split_line
from polydl.schedule.ordered import Ordered
from polydl.schedule.recipe import Recipe
from polydl.schedule.timed import original_nest, timed
from polydl.search.combine import NestChoice, whole
from polydl.search.sizes.decision_tree import AtSizes, check_sizes
from polydl.search.variant import Variant
from polydl.target import Machine

BEST = "best"


@dataclass(frozen=True, slots=True)
class Place:
    """A variant under one ranker."""

    score: float
    """Predicted seconds."""
    rank: int
    """1 + the variants of the space with a lower score."""
    of: int
    """Variants that were ranked."""
    features: Mapping[str, float]
    """What the score was made of; the unit is the name's last word."""


@dataclass(frozen=True, slots=True)
class Reuse:
    """A dependence of a variant (Algorithm 1), and where its data is when it is used again (Algorithm 2)."""

    nest: str
    """Its name; `original` for the whole scop as it is written."""
    working_set: WorkingSet
    level_min: str
    """`L1`, …, or `memory`: the level that holds what is touched until the first use again."""
    level_max: str
    """The same until the last use."""

    def to_data(self) -> dict[str, Any]:
        found = self.working_set
        return {
            "nest": self.nest,
            "kind": found.kind.value,
            "array": found.array,
            "source": found.source_statement,
            "target": found.target_statement,
            "carried_by": found.carried_by,
            "min": _count(found.min),
            "max": _count(found.max),
            "min_bytes": _count(found.min_footprint.bytes),
            "max_bytes": _count(found.max_footprint.bytes),
            "level_min": self.level_min,
            "level_max": self.level_max,
        }


@dataclass(frozen=True, slots=True)
class Measured:
    """A variant's time, of the same invocation."""

    seconds: float
    """Median; NaN when it could not be timed."""
    spread: float
    verified: bool
    message: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """One variant, taken apart."""

    id: str
    """`original`, or the recipe's id."""
    recipe: Recipe
    parts: tuple[Ordered, ...]
    edges: tuple[EdgeInVariant, ...]
    """What it does with the values that pass between nests; empty where there is one nest."""
    code: str
    """The C region: its loop nest."""
    places: Mapping[str, Place]
    """By ranker."""
    reuses: tuple[Reuse, ...]
    level_bytes: Mapping[str, Count]
    """Per level the bytes of the working sets that it serves (Algorithm 2): `L1`, …, `memory`."""
    measured: Measured | None
    note: str = ""
    """Which working sets are left out, and why."""
    why_timed: str = ""
    """Why `optimize` times it, or doesn't, before it knows any times."""

    def to_data(self) -> dict[str, Any]:
        """The variant's entry in the document of `polydl explain --json`."""
        return {
            "id": self.id,
            "recipe": self.recipe.to_data(),
            "loop_strings": self.loop_strings(),
            "edges": [one.to_data() for one in self.edges],
            "code": self.code,
            "rankers": {
                name: {
                    "score": _finite(p.score),
                    "rank": p.rank,
                    "of": p.of,
                    "predicted_seconds": _finite(p.score),
                    "features": {k: _finite(v) for k, v in p.features.items()},
                }
                for name, p in self.places.items()
            },
            "working_sets": [r.to_data() for r in self.reuses],
            "level_bytes": {name: _count(c) for name, c in self.level_bytes.items()},
            "working_sets_note": self.note,
            "why_timed": self.why_timed,
            "measured": None
            if self.measured is None
            else {
                "seconds": _finite(self.measured.seconds),
                "spread": _finite(self.measured.spread),
                "verified": self.measured.verified,
                "message": self.measured.message,
            },
        }

    def loop_strings(self) -> dict[str, dict[str, str]]:
        """Per nest its loop string and blocks."""
        return loop_strings(self.parts)


@dataclass(frozen=True, slots=True)
class Explained:
    """What `explain` found."""

    scop: Scop
    machine: Machine
    threads: int
    variants: tuple[Explanation, ...]
    """In the order asked for."""
    fusion: tuple[str, ...] = ()
    """Which nests can be fused, and which not and why: `optimize` tries it on the best variants."""
    missed: tuple[Missed, ...] = ()
    """Statements that add products and get no microkernel, and why."""
    sizes: Optimized | None = None
    """What the output runs at which sizes; None: not asked for, as all sizes are given."""
    at: AtSizes | None = None
    """What it runs at the sizes asked about."""
    rewrites: tuple[str, ...] = ()
    """What was done to the program before the search, in order."""

    def to_data(self) -> dict[str, Any]:
        """The document of `polydl explain --json`."""
        return {
            "function": self.scop.function,
            "sizes": dict(self.scop.sizes),
            "machine": self.machine.name,
            "threads": self.threads,
            "rewrites": list(self.rewrites),
            "fusion": list(self.fusion),
            "without_microkernel": [one.to_data() for one in self.missed],
            "variants": [v.to_data() for v in self.variants],
            "every_size": None if self.sizes is None else sizes_data(self.sizes),
            "at": None if self.at is None else self.at.to_data(),
        }


def _count(count: Count) -> int | dict[str, int]:
    return count.lower if count.exact else {"at_least": count.lower, "at_most": count.upper}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


@deep()
def explain(
    source: str | Path | Program | Scop,
    ids: str | Sequence[str] = (),
    options: Options | None = None,
    *,
    run: bool = False,
    at: Mapping[str, int] | None = None,
    progress: Progress | None = None,
) -> Explained:
    """Explain variants of a scop, or of the only one of a program or of C, and what the output runs at which sizes.

    They are named by id, unique prefix of one, `best`, `original`, or loop string with blocks; without any there is the
    explanation of the sizes alone. That is made where one of the sizes is a range or not given, where no variant is
    named, and for `at`, sizes about which is asked what runs there.

    With run=True they are also checked and timed, beside the original. Raises InputError for a name that is none,
    IllegalVariant for a loop string that breaks a dependence, QuotaExceeded, ToolchainError.
    """
    ids = (ids,) if isinstance(ids, str) else ids
    scop, options = pipeline.scop_of(source, options or Options())
    check_sizes(at or {}, scop)  # before what takes long
    names = dict.fromkeys((*rankers.available(), options.ranker) if ids else (options.ranker,))
    rankings = pipeline.rank_by_each(scop, tuple(names), options)
    chosen = rankings[options.ranker]
    if ids and len(chosen.nests) > 1:
        best = chosen.variants[:1]
        chosen = pipeline.with_fused(chosen, options, progress)
        rankings = {**rankings, options.ranker: chosen}
        ids = [best[0].id if wanted == BEST and best else wanted for wanted in ids]
    found = [_find(wanted, chosen, rankings, scop, options) for wanted in ids]
    times = _measure(chosen, found, options, progress) if run and found else {}
    timed_first = _timed_first(chosen, options) if found else {}
    explained = tuple(
        replace(
            _explain(variant, rankings, chosen, times.get(_name(variant))),
            why_timed=timed_first.get(variant.id, f"not among the first {len(timed_first)}, which estimates decide"),
        )
        for variant in found
    )
    decided = tuple(fuse(chosen.scop).lines()) if options.fuse else ()
    without = missed(chosen.scop, chosen.program.dependences)
    sizes = pipeline.at_other_sizes(chosen, options) if chosen.ranges or at or not ids else None
    there = sizes.at(at) if sizes is not None and at else None
    steps = tuple(map(str, chosen.program.steps))
    return Explained(chosen.scop, chosen.machine, chosen.threads, explained, decided, without, sizes, there, steps)


def variant_called(name: str, source: str | Path | Program | Scop, options: Options) -> Variant:
    """The variant that a text names, as in `explain`. Raises InputError, IllegalVariant, QuotaExceeded."""
    scop, options = pipeline.scop_of(source, options)
    ranking = pipeline.rank(scop, options=options)
    if len(ranking.nests) > 1:
        ranking = pipeline.with_fused(ranking, options, None)
    return _find(name, ranking, {options.ranker: ranking}, scop, options)


def _name(variant: Variant) -> str:
    return variant.id if variant.recipe.nests else ORIGINAL


def _explain(
    variant: Variant, rankings: Mapping[str, Ranking], ranking: Ranking, measured: Measured | None
) -> Explanation:
    scop, machine = variant.program, ranking.machine
    runs = {part.name: timed(scop, part.tree) for part in variant.parts}
    if not variant.recipe.nests:
        runs = {ORIGINAL: original_nest(scop)}  # the nests as they are written, not one after the other
    reuses: list[Reuse] = []
    note = ""
    for nest, run in runs.items():
        try:
            found = working_sets(run)
        except QuotaExceeded as error:
            note = f"without those of {nest}: {error.reason}"
            continue
        for one in found:
            low, high = (_level(f.bytes, machine) for f in (one.min_footprint, one.max_footprint))
            reuses.append(Reuse(nest, one, low, high))
    sizes = assign([r.working_set for r in reuses], machine)
    served = {f"L{c.level}": size for c, size in zip(machine.caches, sizes.caches, strict=True)}
    return Explanation(
        _name(variant),
        variant.recipe,
        variant.parts,
        edges(variant, ranking) if len(variant.parts) > 1 else (),
        variant.generated.region if variant.recipe.nests else original_text(scop),
        {name: _place(one, variant) for name, one in rankings.items()},
        tuple(reuses),
        {**served, "memory": sizes.memory},
        measured,
        note,
    )


def _place(ranking: Ranking, variant: Variant) -> Place:
    """The variant's place; one that the ranking does not hold is scored and compared."""
    for rank, other in enumerate(ranking.variants, 1):
        if other.id == variant.id:
            return Place(other.score, rank, len(ranking), other.features)
    scop = variant.program  # a loop string may be about the statements as they are written
    every = nests(scop, variant.origin.dependences)
    estimator = Estimator(scop, every, ranking.machine, ranking.threads, rankers.usable(ranking.ranker))
    found = whole(variant.origin, NestChoice(variant.parts, tuple(map(estimator.part, variant.parts))))
    better = sum(other.score < found.score for other in ranking.variants)
    return Place(found.score, better + 1, len(ranking), found.features)


def _measure(
    ranking: Ranking, variants: Sequence[Variant], o: Options, progress: Progress | None
) -> dict[str, Measured]:
    """By name the times of the original and of the variants."""
    scop = ranking.program.read
    codes = {v.id: v.generated for v in variants if v.recipe.nests}
    how = o.measuring(ranking.threads)
    report = measure(scop, codes, o.toolchain(), how, progress)
    times = {m.id: Measured(m.median, m.spread, m.verified, m.message) for m in report.measurements}
    first = report.original
    return {**times, ORIGINAL: Measured(first.median, first.spread, True, first.message)}


def _timed_first(ranking: Ranking, o: Options) -> dict[str, str]:
    """By id what `optimize` would time if times were as estimated, and why; and the original."""
    order = pipeline.timing_order(ranking, o)
    order.next({}, order.most)
    return {ranking.as_written().id: "what the others are compared with"} | order.why


def _level(size: Count, machine: Machine) -> str:
    index = level_of(size, machine)
    return "memory" if index is None else f"L{machine.caches[index].level}"


def _find(wanted: str, chosen: Ranking, rankings: Mapping[str, Ranking], source: Scop, options: Options) -> Variant:
    """The variant that a text names."""
    if wanted == ORIGINAL:
        return chosen.as_written()
    if wanted == BEST:
        return chosen.variants[0]
    matches = {v.id: v for r in rankings.values() for v in r.variants if wanted and v.id.startswith(wanted)}
    if wanted in matches:
        return matches[wanted]
    try:
        # Before prefixes: letters a to f may well begin an id, while a loop string must name every loop.
        return pipeline.score(source, [split_line(Written(wanted, "ID"))], options).variants[0]
    except IllegalVariant:
        raise
    except InputError as error:
        if not matches:
            hint = error.hint or "a variant is an id as `polydl rank` shows it, `best`, `original` or a loop string"
            reason = f"no variant has this id, nor is it a loop string: {error.reason}"
            raise InputError(reason, error.span, hint) from error
    if len(matches) > 1:
        some = ", ".join(sorted(matches)[:8]) + (", …" if len(matches) > 8 else "")
        raise InputError(f"{len(matches)} variants have an id that begins with '{wanted}'", hint=some)
    return next(iter(matches.values()))
