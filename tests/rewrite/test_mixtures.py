"""A product of matrices is one contraction, however what people vary in its spelling is put together."""

from __future__ import annotations

import random

import pytest

import polydl
from polydl.dependences.nests import nests
from polydl.rewrite.canonical import canonical
from tests.rewrite.mixtures import K, M, N, spellings

ALL = spellings()
SAMPLE = random.Random(7).sample(sorted(ALL), 48)
"""Of some thousands: all of them take an hour."""


@pytest.mark.parametrize("choice", SAMPLE)
def test_it_is_the_plain_contraction(choice: str) -> None:
    (scop,) = polydl.load(ALL[choice]).scops
    found = canonical(scop)
    assert not found.refused
    (heavy,) = [n for n in nests(found.scop, found.dependences) if n.contraction is not None]
    assert heavy.box
    assert sorted(str(count.extent) for count in heavy.counts.values()) == sorted(map(str, (M, N, K)))
