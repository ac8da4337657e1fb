"""Makes the documents that `--json` prints from the results of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from polydl.base.errors import QuotaExceeded
from polydl.inspect.edges import EdgeInVariant
from polydl.inspect.loop_string_file import ScoredLines
from polydl.inspect.operations import operations
from polydl.inspect.size_curve_record import curve_json
from polydl.inspect.sizes_in_words import ranges_data, sizes_data
from polydl.model.scop import Scop
from polydl.model.touched import asked as asked_of
from polydl.rank.shape_correction import Correction
from polydl.results import FuseResult, Optimized, OptimizeResult, Ranking
from polydl.schedule.fused_scop import FusedScop
from polydl.schedule.loopstring import letters, part_text
from polydl.schedule.ordered import Ordered
from polydl.schedule.recipe import Recipe
from polydl.search.sizes.code import EverySize
from polydl.search.sizes.decision_tree import AtSizes
from polydl.search.variant import Variant
from polydl.target import Machine


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def flops(ranking: Ranking) -> float | None:
    """Floating-point operations of a scop's contractions (two per instance); of all its statements where it has none;
    None where they are not known exactly."""
    total = 0
    for nest in ranking.nests:
        if nest.contraction is not None:
            product = 2
            for count in nest.counts.values():
                if count.extent is None:
                    return None
                product *= count.extent
            total += product
    return float(total) if total else _counted(ranking.program.read)


def _counted(scop: Scop) -> float | None:
    try:
        found = operations(scop)
    except QuotaExceeded:
        return None
    exact = found is not None and found.exact
    return float(found.upper) if found is not None and exact and found.upper else None


Known = dict[int, Any]
"""What is said of parts and of their recipes, by identity: variants of a ranking have them in common."""


def loop_strings(parts: Sequence[Ordered], known: Known | None = None) -> dict[str, dict[str, str]]:
    """Per nest the loop string and the blocks, as `--loops` and `--blocks` take them."""
    kept = {} if known is None else known
    for part in parts:
        if id(part) not in kept:
            few = part.loops is not None and len(part.loops.nest.loops) <= 26
            said = part_text(part) if few else None
            kept[id(part)] = None if said is None else asdict(said)
    return {part.name: said for part in parts if (said := kept[id(part)]) is not None}


def _recipe_data(recipe: Recipe, kept: Known) -> list[dict[str, Any]]:
    """`Recipe.to_data`."""
    for nest in recipe.nests:
        if id(nest) not in kept:
            kept[id(nest)] = Recipe((nest,)).to_data()[0]
    return [kept[id(nest)] for nest in recipe.nests]


def loop_letters(ranking: Ranking) -> dict[str, dict[str, str]]:
    """Per nest the loop that each letter of a loop string stands for."""
    return {nest.name: letters(nest) for nest in ranking.nests if len(nest.loops) <= 26}


def variant_json(variant: Variant, known: Known | None = None) -> dict[str, Any]:
    """A ranked variant as data."""
    kept = {} if known is None else known
    return {
        "id": variant.id,
        "recipe": _recipe_data(variant.recipe, kept),
        "loops": variant.loops,
        "loop_strings": loop_strings(variant.parts, kept),
        "score": _finite(variant.score),
        "features": {k: _finite(float(v)) for k, v in variant.features.items()},
    }


def rank_json(
    rankings: Sequence[Ranking],
    there: Sequence[AtSizes | None] = (),
    between: Sequence[Sequence[EdgeInVariant] | None] = (),
) -> dict[str, Any]:
    """The document of `polydl rank --json`: of the only scop, or of the first with the others under `scops`. `there`:
    what each runs at the sizes asked about, if they were. `between`: what the best variant of each does with the values
    that pass between nests, where that was looked at."""
    known: Known = {}
    documents = [
        {
            "function": r.scop.function,
            "line": r.scop.span.line,
            "sizes": dict(r.scop.sizes),
            "ranges": ranges_data(r.ranges),
            "at": at.to_data() if at is not None else None,
            "machine": r.machine.name,
            "ranker": r.ranker,
            "score_unit": "s",
            "space_size": r.space_size,
            "pruned": dict(r.pruned),
            "given_up": list(r.given_up),
            "letters": loop_letters(r),
            "edges": None if edges is None else [edge.to_data() for edge in edges],
            "variants": [variant_json(v, known) for v in r.variants],
            "seconds": r.seconds,
        }
        for r, at, edges in zip(
            rankings, there or (None,) * len(rankings), between or ((),) * len(rankings), strict=True
        )
    ]
    return documents[0] if len(documents) == 1 else {**documents[0], "scops": documents}


def scored_json(scored: Sequence[ScoredLines]) -> dict[str, Any]:
    """The document of `polydl rank --loops-file --json`: as `rank_json`, the variants in the order of the file."""
    document = rank_json([one.ranking for one in scored])
    for data, one in zip(document.get("scops", [document]), scored, strict=True):
        for variant, (rank, _, loops, blocks) in zip(data["variants"], one.rows(), strict=True):
            variant |= one.to_data(rank, loops, blocks)
    return document


def _timing(seconds: float, work: float | None) -> dict[str, float | None]:
    return {
        "seconds": _finite(seconds),
        "gflops": None if work is None or not seconds > 0 else work / seconds / 1e9,
    }


def _optimized_json(done: Optimized) -> dict[str, Any]:
    work = flops(done.ranking)
    report = done.report
    recipes = {v.id: v for v in done.ranking.variants} if report else {}
    other = done.other_sizes.proof if isinstance(done.other_sizes, EverySize) else None
    return {
        "function": done.ranking.scop.function,
        "line": done.ranking.scop.span.line,
        "letters": loop_letters(done.ranking),
        "chosen": done.chosen.id if done.chosen else "original",
        "recipe": done.chosen.recipe.to_data() if done.chosen else [],
        "speedup": _finite(done.speedup),
        "verdict": done.verdict,
        "rests_on": done.rests_on,
        "undecided": done.undecided,
        "original": {
            **_timing(report.original.median if report else math.nan, work),
            "estimated": report is not None and report.original.estimated,
        },
        "variants": [
            {
                "id": m.id,
                "loops": recipes[m.id].loops,
                "loop_strings": loop_strings(recipes[m.id].parts),
                "scratch": recipes[m.id].generated.memory.to_data(done.ranking.threads),
                **_timing(m.median, work),
                "spread": _finite(m.spread),
                "verified": m.verified,
                "status": m.status.value,
                "message": m.message,
                "why_timed": done.why_timed.get(m.id, ""),
            }
            for m in (report.measurements if report else ())
        ],
        "notes": list(done.chosen.notes) if done.chosen else [],
        "noise": _finite(report.noise) if report else None,
        "warnings": list(report.warnings) if report else [],
        "illegal": list(done.illegal),
        "proofs": {name: proof.to_data() for name, proof in done.proofs.items()},
        "proof_of_other_sizes": other.to_data() if other is not None else None,
        "given_up": list(done.ranking.given_up),
        "asked": list(asked_of(done.ranking.scop)),
        "assumptions": list(done.ranking.scop.assumptions),
        "every_size": sizes_data(done) if done.tuned_sizes else None,
        "curve": curve_json(done.curve),
    }


def optimize_json(result: OptimizeResult) -> dict[str, Any]:
    """The document of `polydl optimize --json`."""
    scops = [_optimized_json(d) for d in result.scops]
    document = {
        "output": str(result.output) if result.output else None,
        **scops[0],
        "any_value": dict(result.any_value),
        "left_out": result.left_out,
        "less": result.less,
        "unread": list(result.unread),
        "refused": list(result.refused),
        "checked": {
            "calls": result.checked.calls,
            "faults": [str(fault) for fault in result.checked.faults],
            "undefined": [str(one) for one in result.checked.undefined],
            "not_called": dict(result.checked.not_called),
        },
        "seconds": dict(result.seconds),
    }
    return document if len(scops) == 1 else {**document, "scops": scops}


def fused_json(fused: FusedScop) -> dict[str, Any]:
    """The decisions about one scop."""
    return {
        "function": fused.scop.function,
        "line": fused.scop.span.line,
        "decisions": [
            {
                "into": d.heavy,
                "nest": d.light,
                "before": d.before,
                "fused": d.failure is None,
                "condition": d.failure.condition.name.lower() if d.failure else None,
                "reason": str(d.failure) if d.failure else None,
            }
            for d in fused.decisions
        ],
        "merged": [{"nest": m.second, "into": m.first, "loops": list(m.loops)} for m in fused.merges],
        "contracted": list(fused.contracted),
    }


def fuse_json(result: FuseResult) -> dict[str, Any]:
    """The document of `polydl fuse --json`."""
    return {"output": str(result.output), "scops": [fused_json(f) for f in result.scops]}


def correction_json(found: Correction | None) -> dict[str, Any] | None:
    """What earlier runs say of estimates, as data."""
    if found is None:
        return None
    factors = [asdict(one) for one in found.factors]
    return {"id": found.id, "problems": found.problems, "variants": found.variants, "factors": factors}


def machine_json(machine: Machine) -> dict[str, Any]:
    """A machine as data."""
    provenance = {key: value.value for key, value in machine.provenance.items()}
    return {"fingerprint": machine.fingerprint, **machine.as_data(), "provenance": provenance}
