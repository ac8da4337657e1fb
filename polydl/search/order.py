"""Combines the ways to run each nest and region into variants of the whole program, best first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from polydl.rank.ranker import Estimate
from polydl.schedule.plan import Scheduled
from polydl.schedule.structure import Structure
from polydl.search.variant import Origin, Variant


@dataclass(frozen=True, slots=True)
class NestChoice:
    """One way to run consecutive nests: what variants are put together from."""

    parts: tuple[Structure | Scheduled, ...]
    estimate: Estimate

    @property
    def score(self) -> float:
        return self.estimate.score


def with_schedules(trees: Sequence[Scheduled], alone: Sequence[Sequence[NestChoice]], ranker: str) -> list[NestChoice]:
    """A region's schedules and the best nests one after the other, best first.

    The rankers know rectangular nests only, and of those without a microkernel little; so the schedules come first.
    Beside a microkernel their estimate in seconds decides, where the ranker's scores are seconds too.
    """
    together = list(_side_by_side(alone))
    best = together[0].score
    kernels = any(isinstance(part, Structure) and part.kernel is not None for part in together[0].parts)
    choices = []
    for place, tree in enumerate(trees):
        below = best * (1 - 0.5 * (1 - place / len(trees))) if best > 0 else best - len(trees) + place
        score = tree.seconds if kernels and ranker == "traffic" else below
        choices.append(NestChoice((tree,), Estimate(score, {})))
    return sorted([*choices, *together], key=lambda c: c.score)


def _side_by_side(alone: Sequence[Sequence[NestChoice]]) -> Iterator[NestChoice]:
    """The best way of each nest of a region, joined; then the second best of each, and so on."""
    for place in range(max(len(choices) for choices in alone)):
        yield _joined([choices[min(place, len(choices) - 1)] for choices in alone])


def _joined(chosen: Sequence[NestChoice]) -> NestChoice:
    """One way to run consecutive nests from one way for each."""
    return NestChoice(tuple(part for c in chosen for part in c.parts), Estimate.total(c.estimate for c in chosen))


def combined(ordered: Sequence[Sequence[NestChoice]], origin: Origin) -> Iterator[Variant]:
    """Variants of the whole program, best sum of scores first (the nests run one after the other, so times add up).

    Best-first search over the product of the nests' own orders. A nest whose best choice takes less than a
    twentieth of the whole keeps that choice: what it could win is within the noise.
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
        yield Variant.of(origin, one.parts, Estimate(score, one.estimate.features))
        for d in range(len(place)):
            following = (*place[:d], place[d] + 1, *place[d + 1 :])
            if following[d] < len(ordered[d]) and following not in seen:
                seen.add(following)
                step = ordered[d][following[d]].score - ordered[d][place[d]].score
                heapq.heappush(heap, (score + step, following))
