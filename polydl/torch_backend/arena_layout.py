"""Where values that only groups of a region read lie in its arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64
"""Bytes that offsets are multiples of."""


@dataclass(frozen=True, slots=True)
class Life:
    """A value of an arena: memory that is in use from one step to another."""

    bytes: int
    first: int
    """The step that writes it."""
    last: int
    """The last step that reads it."""

    @property
    def whole(self) -> int:
        """Bytes that it takes, a multiple of the alignment."""
        return -(-self.bytes // ALIGNMENT) * ALIGNMENT


def offsets(lives: Sequence[Life]) -> tuple[list[int], int]:
    """The offset of each value in bytes, and the size of the arena.

    Largest first, each at the lowest offset where nothing lies that is in use at the same time (greedy by size:
    Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
    """
    placed: list[tuple[int, Life]] = []
    found = [0] * len(lives)
    for k in sorted(range(len(lives)), key=lambda k: (-lives[k].whole, lives[k].first, k)):
        life, at = lives[k], 0
        for begin, other in sorted(
            ((b, o) for b, o in placed if o.first <= life.last and life.first <= o.last), key=lambda one: one[0]
        ):
            if at + life.whole <= begin:
                break
            at = max(at, begin + other.whole)
        found[k] = at
        placed.append((at, life))
    return found, max((begin + life.whole for begin, life in placed), default=0)


def stacked(lives: Sequence[Life], offsets: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
    """The order of values from the lowest offset up, each with those below it that are in use at the same time. Where
    values take other bytes, each lies apart from these if it begins where the highest of them ends: what was in use at
    different times still is."""
    order = sorted(range(len(lives)), key=lambda k: (offsets[k], k))
    return [
        (k, tuple(j for j in order[:i] if lives[j].first <= lives[k].last and lives[k].first <= lives[j].last))
        for i, k in enumerate(order)
    ]


def lower_bound(lives: Sequence[Life]) -> int:
    """Bytes that are in use at some step at once: no arena is smaller."""
    steps = {life.first for life in lives}
    return max((sum(one.whole for one in lives if one.first <= step <= one.last) for step in steps), default=0)
