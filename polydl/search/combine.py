"""Combines the ways to run each nest and region into variants of the whole program, best first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from polydl.base.records import dataclass
from polydl.rank.estimate import Estimate
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import starting_from_zero
from polydl.search.variant import Origin, Variant


@dataclass(frozen=True)
class NestChoice:
    """One way to run consecutive nests: what variants are put together from."""

    parts: tuple[Ordered, ...]
    estimates: tuple[Estimate, ...]
    """Of the parts."""

    @cached_property
    def score(self) -> float:
        """Predicted seconds of all parts."""
        return sum(one.score for one in self.estimates)


def by_score(choices: Iterable[NestChoice]) -> list[NestChoice]:
    """Best first; equal ones in the order in which they come."""
    return sorted(choices, key=lambda choice: choice.score)


def side_by_side(alone: Sequence[Sequence[NestChoice]]) -> Iterator[NestChoice]:
    """The best way of each nest of a region, joined; then the second best of each, and so on."""
    for place in range(max(len(choices) for choices in alone)):
        yield _joined([choices[min(place, len(choices) - 1)] for choices in alone])


def _joined(chosen: Sequence[NestChoice]) -> NestChoice:
    """One way to run consecutive nests from one way for each."""
    return NestChoice(tuple(p for c in chosen for p in c.parts), tuple(e for c in chosen for e in c.estimates))


def whole(origin: Origin, choice: NestChoice, known: dict[tuple[str, str], bool] | None = None) -> Variant:
    """The variant of a choice for all nests of a program. A nest of zeros that a microkernel starts from by itself is
    not run. `known`: see `starting_from_zero`."""
    gone = set(starting_from_zero(choice.parts, known).values())
    run = (one for part, one in zip(choice.parts, choice.estimates, strict=True) if part.name not in gone)
    return Variant.of(origin, choice.parts, Estimate.total(run))


def combined(ordered: Sequence[Sequence[NestChoice]], origin: Origin) -> tuple[Variant, ...]:
    """Variants of the whole program, best first (the nests run one after the other, so times add up)."""
    known: dict[tuple[str, str], bool] = {}
    found = (whole(origin, one, known) for one in _best_sums(ordered))
    return tuple(sorted(found, key=lambda variant: variant.score))


def _best_sums(ordered: Sequence[Sequence[NestChoice]]) -> Iterator[NestChoice]:
    """Best-first search over the product of the nests' own orders. A nest whose best choice takes less than a
    twentieth of the whole keeps that choice: what it could win is within the noise."""
    start = (0,) * len(ordered)
    least = sum(o[0].score for o in ordered)
    ordered = [o[:1] if o[0].score * 20 < least else o for o in ordered]
    heap = [(least, start)]
    seen = {start}
    most = max((len(o) for o in ordered), default=0)
    for _ in range(max(most, 1000) if len(ordered) > 1 else most):
        if not heap:
            return
        score, place = heapq.heappop(heap)
        yield _joined([o[i] for o, i in zip(ordered, place, strict=True)])
        for d in range(len(place)):
            following = (*place[:d], place[d] + 1, *place[d + 1 :])
            if following[d] < len(ordered[d]) and following not in seen:
                seen.add(following)
                step = ordered[d][following[d]].score - ordered[d][place[d]].score
                heapq.heappush(heap, (score + step, following))
