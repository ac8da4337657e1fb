"""The choices that a random program is made of, and their shrinking: any list of numbers is a program, and shorter
lists and smaller numbers are simpler ones."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

_T = TypeVar("_T")


class Choices:
    """Numbers drawn at random, or given ones again; behind the end of those, zeros."""

    def __init__(self, source: random.Random | Sequence[int]) -> None:
        self._random = source if isinstance(source, random.Random) else None
        self._given: Sequence[int] = () if isinstance(source, random.Random) else source
        self.made: list[int] = []
        """What was drawn so far."""

    def below(self, count: int) -> int:
        """One of 0 to `count` - 1; 0 is the simplest."""
        if self._random is not None:
            number = self._random.randrange(count)
        else:
            place = len(self.made)
            number = min(self._given[place], count - 1) if place < len(self._given) else 0
        self.made.append(number)
        return number

    def pick(self, items: Sequence[_T]) -> _T:
        """One of some, of which the first is the simplest."""
        return items[self.below(len(items))]

    def chance(self, times: int, of: int) -> bool:
        """True in `times` of `of` cases; False is simpler."""
        return self.below(of) >= of - times

    def often(self, times: int, of: int) -> bool:
        """True in `times` of `of` cases; True is simpler."""
        return self.below(of) < times


def shrunk(choices: Sequence[int], fails: Callable[[list[int]], bool], seconds: float) -> list[int]:
    """The shortest list of choices found within so many seconds for which `fails` still holds.

    Delta debugging (Zeller and Hildebrandt, 'Simplifying and isolating failure-inducing input', 2002) on the list, as
    hypothesis does: pieces are left out, the larger ones first, then numbers are set to zero, halved and decreased.
    """
    best, end = list(choices), time.monotonic() + seconds
    tried: set[tuple[int, ...]] = set()

    def better(candidate: list[int]) -> bool:
        nonlocal best
        while candidate and candidate[-1] == 0:
            candidate.pop()  # zeros follow the end anyway
        if tuple(candidate) in tried or time.monotonic() > end:
            return False
        tried.add(tuple(candidate))
        if (len(candidate), candidate) < (len(best), best) and fails(candidate):
            best = candidate
            return True
        return False

    before: list[int] = []
    while before != best and time.monotonic() < end:
        before = best
        size = max(1, len(best) // 2)
        while size:
            start = 0
            while start < len(best):
                if not better(best[:start] + best[start + size :]):
                    zeros = best[:start] + [0] * len(best[start : start + size]) + best[start + size :]
                    if not better(zeros):
                        start += size
                        continue
                    start += size
            size //= 2
        for place in range(len(best)):
            for smaller in (1, best[place] // 2 if place < len(best) else 0):
                if place < len(best) and smaller < best[place]:
                    better([*best[:place], smaller, *best[place + 1 :]])
    return best
