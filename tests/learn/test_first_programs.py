"""What `polydl machine --calibrate` times besides micro-benchmarks, and that it is kept."""

from __future__ import annotations

import pytest

import polydl
from polydl.learn import first_programs
from polydl.measure import timing
from polydl.search import own_times


def test_the_programs_are_legible_and_have_microkernels() -> None:
    for text, sizes in first_programs.PROGRAMS:
        defines = {name: str(value) for name, value in sizes.items()}
        ranking = polydl.rank(text, "small", "epyc-zen5", defines=defines, threads=2)
        assert ranking.nests[-1].contraction is not None
        assert len(ranking) >= first_programs.VARIANTS
    assert 40 <= len(first_programs.PROGRAMS) * first_programs.VARIANTS <= 60


def test_their_times_start_a_correction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "doubt", lambda busy, noise, drift: "")
    text = first_programs.PROGRAMS[0][0]
    monkeypatch.setattr(first_programs, "PROGRAMS", ((text, {"M": 16, "N": 32, "K": 16}),))
    monkeypatch.setattr(first_programs, "VARIANTS", 2)
    options = polydl.Options(space="small")
    assert first_programs.timed_programs(options) == 2
    found = own_times.learned(options.target())
    assert found is not None
    assert (found.problems, found.variants) == (1, 2)
    assert found.factors[0].name
