"""A short run of the fuzzer, the same programs every time; `make fuzz` looks for new ones."""

from __future__ import annotations

import pytest

from tests.fuzz.whole import PLAIN, SANITIZED, Tally, explore
from tests.oracle import Limits


@pytest.mark.parametrize(
    ("limits", "flags"),
    [(Limits(max_statements=6, max_depth=3), PLAIN), (Limits(max_instances=200), SANITIZED)],
    ids=["plain", "sanitized"],
)
def test_variants_of_random_programs(limits: Limits, flags: tuple[str, ...]) -> None:
    tally = Tally()
    explore(limits, 4, 7, 3, tally, flags)
    assert tally.programs >= 4
    assert tally.variants > tally.programs
    assert len(tally.refused) <= tally.programs // 5, tally.refused
