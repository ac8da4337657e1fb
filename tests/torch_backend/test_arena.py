"""Values that are in use at the same time lie apart, in hardly more memory than the bound."""

from __future__ import annotations

import random

import pytest

from polydl.torch_backend.arena_layout import ALIGNMENT, Life, lower_bound, offsets


def chain(draw: random.Random) -> list[Life]:
    """Values of a row of layers, some of which skip ahead."""
    return [
        Life(draw.choice([100, 4096, 65536, 1 << 20]), i, i + draw.choice([1, 1, 1, 2, 6])) for i in range(60)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(50))
def test_no_two_lives_overlap(seed: int) -> None:
    lives = chain(random.Random(seed))
    found, total = offsets(lives)
    for i, (at, life) in enumerate(zip(found, lives, strict=True)):
        assert at % ALIGNMENT == 0
        assert at + life.bytes <= total
        for other, its in list(zip(found, lives, strict=True))[:i]:
            if its.first <= life.last and life.first <= its.last:
                assert at + life.bytes <= other or other + its.bytes <= at


ATTENTION = ((4096, 0, 1), (4096, 0, 1), (4096, 0, 3), (16384, 1, 2), (16384, 2, 3), (4096, 3, 4))
"""Bytes, first and last step within a block: query, key, value, scores, weights, result."""

GRAPHS = {
    "equal layers": [Life(4096, i, i + 1) for i in range(30)],
    "growing": [Life(1000 * (i + 1), i, i + 1) for i in range(30)],
    "residual": [Life(4096, i, i + 2 if i % 2 == 0 else i + 1) for i in range(30)],
    "encoder and decoder": [
        *(Life(65536 >> i, i, 19 - i) for i in range(10)),
        *(Life(65536 >> (9 - i), 10 + i, 11 + i) for i in range(9)),
    ],
    "attention": [Life(n, 4 * k + i, 4 * k + j) for k in range(6) for n, i, j in ATTENTION],
}


@pytest.mark.parametrize("name", list(GRAPHS))
def test_near_the_lower_bound(name: str) -> None:
    lives = GRAPHS[name]
    _, total = offsets(lives)
    assert total <= 1.1 * lower_bound(lives)


def test_nothing() -> None:
    assert offsets([]) == ([], 0)
    assert offsets([Life(0, 0, 1)]) == ([0], 0)
