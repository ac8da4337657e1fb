"""Code for all sizes that is chosen at a dozen of them, in place of hundreds: it is as right.

Tests marked `few_sizes` have that; what polydl compiles in them is optimized little (tests/compiling.py).
"""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest

from polydl.base.effort import Effort

FEW = replace(Effort(), blocks=replace(Effort().blocks, points=8, judging=4))
"""For contractions in blocks."""
_SEARCHED = replace(Effort().searched, points=12, judging=4)
FEWEST = replace(FEW, stages=((3, 6), (8, 3)), searched=_SEARCHED)
"""The same, with all ways compared at three of them; for variants that were searched, too."""
FEW_SEARCHED = replace(FEW, searched=_SEARCHED, child_seconds=4)
"""For variants that were searched, too."""
LEAST = replace(
    FEWEST,
    ways=6,
    checks=8,
    fused_bases=8,
    fused=6,
    first=3,
    families=4,
    stages=((2, 6), (6, 3)),
    blocks=replace(FEWEST.blocks, points=6, judging=2, variants=4),
    searched=replace(_SEARCHED, points=6, judging=2, variants=4),
)
"""The same, with as much of a search as long files have: for tests that run a few of the variants."""
EVEN_SLOWER = replace(FEW_SEARCHED, gain=-math.inf)
"""The same, though the original loops be faster."""


def applied() -> bool:
    """Whether `Effort()` is FEWEST now."""
    return Effort() == FEWEST


def apply(patch: pytest.MonkeyPatch) -> None:
    """Let `Effort()` be FEWEST, until the patch is undone: for tests marked `few_sizes`."""
    patch.setattr(Effort.__init__, "__defaults__", tuple(getattr(FEWEST, one.name) for one in fields(Effort)))
