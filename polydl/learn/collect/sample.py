"""Which variants of a problem to measure: every ranker's favourites, the default order, and a broad sample."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from polydl.dependences.nests import Nest
from polydl.model.scop import Scop
from polydl.rank.ranker import Opinion, Ranker
from polydl.results import Ranking
from polydl.schedule.loops import NestLoops
from polydl.search.variant import Variant
from polydl.target import Machine

FAVOURITES = 6
"""Variants of each ranker's order that are measured whatever the sample."""
_ALIKE = 2
"""Of those, at most this many of one family (`Variant.family`)."""
_DEFAULTS = 2
_QUANTILES = 10
"""Strata of the best ranker's order."""
_SUBSET = 1200
"""Variants that the slower rankers score: the first quarter of this many in the order, the others at random."""


def scored(
    scop: Scop,
    nests: Sequence[Nest],
    variants: Sequence[Variant],
    ranker: Ranker,
    machine: Machine,
    threads: int,
) -> list[Opinion]:
    """What a ranker says of each variant, summed over the nests: of variants without a schedule of their own, which
    have a structure per nest."""
    found: list[list[Opinion]] = [[] for _ in variants]
    for n, nest in enumerate(nests):
        # The nests that hardly matter have few structures: each is looked at once.
        distinct: dict[int, NestLoops] = {id(v.structures[n]): v.structures[n] for v in variants}
        place = {key: i for i, key in enumerate(distinct)}
        ranks = ranker.rank(scop, nest, list(distinct.values()), machine, threads)
        for estimates, variant in zip(found, variants, strict=True):
            estimates.append(ranks.opinion(place[id(variant.structures[n])]))
    return [Opinion.total(estimates) for estimates in found]


def is_default(variant: Variant) -> bool:
    """The loops in the order in which they are written, untiled and unpacked, around a microkernel: the PolyDL
    paper's `Microkernel` baseline."""
    if variant.scheduled:
        return False
    for structure in variant.structures:
        if structure.nest.contraction is None:
            continue
        written = [i for i in structure.nest.loops if i in {loop.iterator for loop in structure.loops}]
        if structure.kernel is None or structure.packs or any(loop.within is not None for loop in structure.loops):
            return False
        if [loop.iterator for loop in structure.loops] != written:
            return False
    return True


def favourites(order: Sequence[Variant], count: int = FAVOURITES) -> list[Variant]:
    """The first of an order, not more than a few of one family."""
    seen: dict[object, int] = {}
    chosen = []
    for variant in order:
        family = variant.family
        seen[family] = seen.get(family, 0) + 1
        if seen[family] <= _ALIKE:
            chosen.append(variant)
            if len(chosen) == count:
                break
    return chosen


def chosen_sample(
    ranking: Ranking, others: Mapping[str, Ranker], count: int, rng: np.random.Generator
) -> list[tuple[Variant, str]]:
    """(variant, why) of at most about `count` variants, none twice, the likely best first; `why` joins all reasons
    with commas.

    The ranking's own favourites, those of the other rankers, and the default order; of the rest half from the better
    tenth of the order, a third stratified over its quantiles, the others at random. `others` score a subset.
    """
    order = list(ranking.variants)
    chosen: dict[str, tuple[Variant, str]] = {}

    def take(variants: Sequence[Variant], why: str) -> None:
        for variant in variants:
            before = chosen.get(variant.id)
            reasons = [*(before[1].split(",") if before else ()), why]
            chosen[variant.id] = (variant, ",".join(dict.fromkeys(reasons)))

    take(favourites(order), ranking.ranker)
    picked = rng.permutation(len(order))[: _SUBSET * 3 // 4]
    subset = [order[i] for i in sorted({*range(min(len(order), _SUBSET // 4)), *(int(i) for i in picked)})]
    subset = [variant for variant in subset if not variant.scheduled]
    for name, ranker in others.items():
        scores = scored(ranking.scop, ranking.nests, subset, ranker, ranking.machine, ranking.threads)
        best = sorted(range(len(subset)), key=lambda i: (scores[i].score, i))
        take(favourites([subset[i] for i in best]), name)
    take([v for v in order if is_default(v)][:_DEFAULTS], "default")
    left = max(0, count - len(chosen))
    take([order[int(i)] for i in rng.permutation(max(1, len(order) // 10))[: left // 2]], "stratified")
    edges = np.linspace(0, len(order), _QUANTILES + 1).astype(int)
    for low, high in itertools.pairwise(edges.tolist()):
        if high > low:
            take([order[int(i)] for i in rng.integers(low, high, max(1, left // 3 // _QUANTILES))], "stratified")
    for i in rng.permutation(len(order)):
        if len(chosen) >= count:
            break
        take([order[int(i)]], "random")
    # As the ranking has them: a far slower one is cut off sooner when the better are known.
    place = {v.id: i for i, v in enumerate(order)}
    return sorted(chosen.values(), key=lambda item: place[item[0].id])
