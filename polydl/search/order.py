"""Ways to run nests and regions, put together to variants of the whole scop."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from polydl.dependences.nests import Nest
from polydl.results import Origin, RankedVariant
from polydl.schedule.plan import Scheduled
from polydl.schedule.recipe import NestRecipe, Recipe
from polydl.schedule.structure import Structure
from polydl.search.space import Variant


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to run consecutive nests."""

    score: float
    recipes: tuple[NestRecipe, ...]
    structures: tuple[Structure, ...]
    scheduled: tuple[Scheduled, ...]
    features: Mapping[str, float]

    @staticmethod
    def of(nest: Nest, variant: Variant, score: float, features: Mapping[str, float]) -> Choice:
        """A nest in one of its variants."""
        return Choice(score, (NestRecipe(nest.name, variant.transforms),), (variant.structure,), (), features)


def with_schedules(trees: Sequence[Scheduled], alone: Sequence[Sequence[Choice]], ranker: str) -> list[Choice]:
    """A region's schedules and the best nests one after the other, best first.

    The rankers know rectangular nests only, and of those without a microkernel little; so the schedules come first.
    Beside a microkernel their estimate in seconds decides, where the ranker's scores are seconds too.
    """
    together = list(_side_by_side(alone))
    best = together[0].score
    contraction = ranker == "traffic" and any(s.kernel is not None for s in together[0].structures)
    choices = []
    for place, tree in enumerate(trees):
        below = best * (1 - 0.5 * (1 - place / len(trees))) if best > 0 else best - len(trees) + place
        score = tree.seconds if contraction else below
        choices.append(Choice(score, (NestRecipe(tree.name, (tree.how,)),), (), (tree,), {}))
    return sorted([*choices, *together], key=lambda c: c.score)


def _side_by_side(alone: Sequence[Sequence[Choice]]) -> Iterator[Choice]:
    """The best variants of all the nests of a region together, then the second best, and so on."""
    for place in range(max(len(choices) for choices in alone)):
        yield _joined([choices[min(place, len(choices) - 1)] for choices in alone])


def _joined(chosen: Sequence[Choice]) -> Choice:
    features: dict[str, float] = {}
    for one in chosen:
        for name, value in one.features.items():
            features[name] = features.get(name, 0.0) + value
    return Choice(
        sum(c.score for c in chosen),
        tuple(r for c in chosen for r in c.recipes),
        tuple(s for c in chosen for s in c.structures),
        tuple(s for c in chosen for s in c.scheduled),
        features,
    )


def combined(ordered: Sequence[Sequence[Choice]], origin: Origin | None = None) -> Iterator[RankedVariant]:
    """Variants of the whole scop, best sum of scores first (the nests run one after the other, so times add up).

    Best-first search over the product of the nests' own orders. A nest whose best variant takes less than a
    twentieth of the whole keeps that variant: what it could win is within the noise.
    """
    start = (0,) * len(ordered)
    whole = sum(o[0].score for o in ordered)
    # Scores of other rankers may be negative, and are no times then.
    ordered = [o[:1] if 0 <= o[0].score * 20 < whole else o for o in ordered]
    heap = [(whole, start)]
    seen = {start}
    most = max((len(o) for o in ordered), default=0)
    for _ in range(max(most, 1000) if len(ordered) > 1 else most):
        if not heap:
            return
        score, place = heapq.heappop(heap)
        one = _joined([o[i] for o, i in zip(ordered, place, strict=True)])
        yield RankedVariant(Recipe(one.recipes), one.structures, score, one.features, one.scheduled, origin=origin)
        for d in range(len(place)):
            following = (*place[:d], place[d] + 1, *place[d + 1 :])
            if following[d] < len(ordered[d]) and following not in seen:
                seen.add(following)
                step = ordered[d][following[d]].score - ordered[d][place[d]].score
                heapq.heappush(heap, (score + step, following))
