"""Makes the record of a run of `optimize` for `polydl report`: the results, and the analyses that its charts need."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields

from polydl.base.errors import QuotaExceeded
from polydl.base.version import __version__
from polydl.inspect.operations import operations
from polydl.inspect.report.record import (
    FORMAT,
    ORIGINAL,
    VERSION,
    Bounds,
    Decision,
    DependenceSummary,
    Fusion,
    Measured,
    Ranked,
    Run,
    ScopRun,
    Score,
    WorkingSet,
)
from polydl.inspect.size_curve_record import recorded_curve
from polydl.locality.assign import level_of
from polydl.locality.exact import working_sets
from polydl.lower.region import original_text
from polydl.measure import Measurement
from polydl.model import isl
from polydl.model.counting import Count, count, total
from polydl.model.nest import TimedNest
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.rank import rankers
from polydl.rank.ranker import Opinion, Ranker
from polydl.results import Optimized, OptimizeResult, Ranking
from polydl.schedule.fused_scop import FusedScop
from polydl.schedule.loops import NestLoops
from polydl.schedule.ordered import Ordered
from polydl.schedule.timed import original_nest, timed
from polydl.search.variant import Variant

_ANALYSED = 3
"""Of the fastest variants whose working sets are recorded: the exact analysis of a deep nest takes a second or more."""
_NOT_ANALYSED = f"working sets are recorded for the original, the chosen variant and the {_ANALYSED} fastest"


def recorded(result: OptimizeResult, options: Options) -> Run:
    """The record of a run that measured something. Raises ValueError for one that did not."""
    first = result.scops[0].ranking
    source = first.scop.source
    return Run(
        FORMAT,
        VERSION,
        __version__,
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        plain(options.command),
        _changed(options),
        plain(str(source.path)),
        plain(source.text),
        plain(str(result.output or "")),
        plain(result.text),
        first.machine,
        dict(result.seconds),
        tuple(_scop(done) for done in result.scops),
    )


def plain(text: str) -> str:
    """Text as JSON can hold it: bytes of a file that are not UTF-8 become replacement characters."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _changed(options: Options) -> dict[str, str]:
    usual = Options()
    found = {f.name: getattr(options, f.name) for f in fields(options) if f.name != "command"}
    return {name: plain(str(value)) for name, value in found.items() if value != getattr(usual, name)}


def _scop(done: Optimized) -> ScopRun:
    ranking, report = done.ranking, done.report
    if report is None:
        raise ValueError("nothing was measured")
    scop = ranking.scop
    chosen = done.chosen
    as_written = ranking.as_written()
    variants = {v.id: v for v in ranking.variants}
    fastest = sorted((m for m in report.measurements if m.verified and m.samples), key=lambda m: m.median)
    looked_at = {m.id for m in fastest[:_ANALYSED]} | ({chosen.id} if chosen else set())
    view = _View(ranking, [as_written, *(variants[m.id] for m in report.measurements)])
    return ScopRun(
        function=scop.function,
        line=scop.span.line,
        sizes=dict(scop.sizes),
        before=plain(original_text(scop)),
        after=plain(chosen.generated.region) if chosen else "",
        ranker=ranking.ranker,
        threads=ranking.threads,
        space_size=ranking.space_size,
        pruned=dict(ranking.pruned),
        analysis_seconds=ranking.seconds,
        chosen=chosen.id if chosen else ORIGINAL,
        original=view.measured(report.original, as_written, runs={ORIGINAL: original_nest(scop)}),
        measured=tuple(view.measured(m, variants[m.id], analysed=m.id in looked_at) for m in report.measurements),
        ranked=tuple(
            Ranked(v.id, v.loops, str(v.recipe), _finite(v.score), {k: _finite(x) for k, x in v.features.items()})
            for v in ranking.variants
        ),
        noise=report.noise,
        dtype=str(scop.element or ""),
        operations=_known(_operations, scop),
        compulsory_bytes=_known(_touched, scop),
        dependences=tuple(
            dict.fromkeys(
                DependenceSummary(d.kind.value, d.array, d.source, d.target, d.carried_by or "", d.reduction)
                for d in ranking.dependences
            )
        ),
        fusion=_fusion(ranking.fused),
        assumptions=tuple(map(plain, scop.assumptions)),
        notes=_notes(chosen, ranking.threads) if chosen else (),
        warnings=report.warnings,
        illegal=done.illegal,
        given_up=ranking.given_up,
        undecided=done.undecided,
        curve=recorded_curve(done.curve),
    )


def _notes(chosen: Variant, threads: int) -> tuple[str, ...]:
    memory = chosen.generated.memory
    return (*chosen.notes, *((memory.text(threads),) if memory.of_one else ()))


Estimates = Mapping[str, Sequence[Opinion]]
"""By variant that of each of its nests."""


def _estimates(ranking: Ranking, ranker: Ranker, variants: Iterable[Variant]) -> Estimates:
    """What a ranker says about variants; nothing where it does not see all that runs: regions with schedules of their
    own, rows, and statements below the loops that a nest's statements share.

    The variants of one nest are ranked together, since learned rankers compare them with each other.
    """
    together: dict[tuple[int, str], list[tuple[str, NestLoops]]] = {}
    scops: dict[int, Scop] = {}
    for variant in variants:
        imperfect = any(s.depth > len(one.nest.loops) for one in variant.structures for s in one.nest.statements)
        other = variant.program is not ranking.scop or any(part.into for part in variant.parts)
        rows = any(part.rows for part in variant.parts)
        if variant.scheduled or imperfect or rows or (other and ranker.name == "dnn-paper"):
            continue  # `dnn-paper` only compares, and a fused nest's scores would not be comparable with the others'
        scops[id(variant.program)] = variant.program
        for structure in _running(variant):
            together.setdefault((id(variant.program), structure.nest.name), []).append((variant.id, structure))
    found: dict[str, list[Opinion]] = {}
    for (scop_id, _), some in together.items():
        try:
            scored = ranker.rank(
                scops[scop_id], some[0][1].nest, [s for _, s in some], ranking.machine, ranking.threads
            )
        except QuotaExceeded:
            continue  # its variants have fewer scores than nests: none
        for place, (variant_id, _) in enumerate(some):
            found.setdefault(variant_id, []).append(scored.opinion(place))
    return found


def _running(variant: Variant) -> list[NestLoops]:
    """The nests with loops of their own: what is in the epilogue of a microkernel has none."""
    return [part.loops for part in _parts(variant) if part.loops is not None]


def _parts(variant: Variant) -> list[Ordered]:
    """Those with loops of their own."""
    return [part for part in variant.parts if part.into is None]


class _View:
    """Looks at the measured variants of one scop."""

    def __init__(self, ranking: Ranking, variants: Sequence[Variant]) -> None:
        self._machine = ranking.machine
        self._threads = ranking.threads
        self._estimates = {
            name: _estimates(ranking, rankers.usable(name), variants)
            for name in dict.fromkeys((*rankers.QUICK, ranking.ranker))
        }

    def measured(
        self,
        found: Measurement,
        variant: Variant,
        *,
        analysed: bool = True,
        runs: Mapping[str, TimedNest] | None = None,
    ) -> Measured:
        """A measured variant; with its working sets if `analysed`; `runs` in place of its own nests, where they are
        not what runs."""
        estimates = {name: by_variant.get(variant.id, []) for name, by_variant in self._estimates.items()}
        scores = {
            name: Score(total, _positive([e.features.get("predicted_seconds") for e in each]))
            for name, each in estimates.items()
            if len(each) == len(_running(variant)) > 0 and math.isfinite(total := sum(e.score for e in each))
        }
        moved: dict[str, float] = defaultdict(float)
        for one in estimates["traffic"]:
            for cache in self._machine.caches:
                moved[f"L{cache.level}"] += self._threads * one.features.get(f"into_L{cache.level}_bytes", math.nan)
        sets, note = self._working_sets(variant, runs) if analysed else ((), _NOT_ANALYSED)
        return Measured(
            id=ORIGINAL if not variant.recipe.nests else found.id,
            loops=variant.loops if variant.recipe.nests else "as written",
            status=found.status.value,
            message=plain(found.message),
            samples=found.samples,
            median=_finite(found.median),
            spread=_finite(found.spread),
            speedup=_finite(found.speedup),
            estimated=found.estimated,
            scores=scores,
            moved={name: size for name, size in moved.items() if math.isfinite(size)},
            working_sets=sets,
            working_sets_note=note,
        )

    def _working_sets(
        self, variant: Variant, runs: Mapping[str, TimedNest] | None
    ) -> tuple[tuple[WorkingSet, ...], str]:
        found: dict[WorkingSet, None] = {}
        try:
            for nest, run in (
                runs or {part.name: timed(variant.program, part.tree) for part in _parts(variant)}
            ).items():
                for one in working_sets(run):
                    low, high = one.min_footprint.bytes, one.max_footprint.bytes
                    found[
                        WorkingSet(
                            nest, one.kind.value, one.array, one.carried_by, _bounds(low), _bounds(high),
                            self._level(low), self._level(high),
                        )
                    ] = None  # fmt: skip
        except QuotaExceeded as error:
            return (), error.reason
        return tuple(found), ""

    def _level(self, size: Count) -> str:
        index = level_of(size, self._machine)
        return "memory" if index is None else f"L{self._machine.caches[index].level}"


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _positive(values: list[float | None]) -> float | None:
    known = [v for v in values if v is not None and math.isfinite(v)]
    return sum(known) if len(known) == len(values) and sum(known) > 0 else None


def _bounds(found: Count) -> Bounds:
    return Bounds(found.lower, found.upper)


def _known(counted: Callable[[Scop], Bounds | None], scop: Scop) -> Bounds | None:
    """What is counted of a scop; None where that takes too long."""
    try:
        return counted(scop)
    except QuotaExceeded:
        return None


def _operations(scop: Scop) -> Bounds | None:
    """Floating-point operations of the statements, each as often as it runs; None where the code does not say it."""
    found = operations(scop)
    return None if found is None else _bounds(found)


def _touched(scop: Scop) -> Bounds | None:
    """Distinct bytes of all the arrays that a run reads or writes; None where nothing says how many it may be."""
    certain: dict[str, isl.Set] = {}
    possible: dict[str, isl.Set] = {}
    for statement in scop.statements:
        for access in statement.accesses:
            some = access.relation.range()
            if not some.is_bounded():
                return None
            for elements in (certain, possible) if access.exact else (possible,):
                known = elements.get(access.array)
                elements[access.array] = some if known is None else known.union(some)
    least, most = (
        total(count(found) * scop.arrays[name].element.bytes for name, found in elements.items())
        for elements in (certain, possible)
    )
    return _bounds(Count(least.lower, most.upper))


def _fusion(fused: FusedScop | None) -> Fusion | None:
    if fused is None:
        return None
    moved = [
        Decision(
            d.heavy, d.light, "prologue" if d.before else "epilogue", d.failure is None, str(d.failure or "")
        )
        for d in fused.decisions
    ]  # fmt: skip
    merged = [Decision(m.first, m.second, "loops", True, ", ".join(m.loops)) for m in fused.merges]
    return Fusion((*moved, *merged), fused.contracted)
