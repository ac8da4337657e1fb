"""What `polydl machine --calibrate` times besides micro-benchmarks, and that it is kept."""

from __future__ import annotations

import importlib
import json

import pytest
from typer.testing import CliRunner

import polydl
from polydl.cli.app import app
from polydl.learn import first_programs
from polydl.measure import calibration
from polydl.search import own_times
from tests.short_timings import trusted


def test_the_programs_are_legible_and_have_microkernels() -> None:
    for text, sizes in first_programs.PROGRAMS:
        defines = {name: str(value) for name, value in sizes.items()}
        ranking = polydl.rank(text, "small", "epyc-zen5", defines=defines, threads=2)
        assert ranking.nests[-1].contraction is not None
        assert len(ranking) >= first_programs.VARIANTS
    assert 40 <= len(first_programs.PROGRAMS) * first_programs.VARIANTS <= 60


def test_their_times_start_a_correction(monkeypatch: pytest.MonkeyPatch) -> None:
    trusted(monkeypatch)
    text = first_programs.PROGRAMS[0][0]
    monkeypatch.setattr(first_programs, "PROGRAMS", ((text, {"M": 16, "N": 32, "K": 16}),))
    monkeypatch.setattr(first_programs, "VARIANTS", 2)
    options = polydl.Options(space="small")
    assert first_programs.timed_programs(options) == 2
    found = own_times.learned(options.target())
    assert found is not None
    assert (found.problems, found.variants) == (1, 2)
    assert found.factors[0].name


def test_the_command_from_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are measured and stored, variants are timed with them, and what these say is shown; all on small data."""
    speeds = importlib.import_module("polydl.target.calibrate")
    monkeypatch.setattr(speeds, "RUNS", 2)
    monkeypatch.setattr(speeds, "RUN_SECONDS", 1e-4)
    monkeypatch.setattr(speeds, "_memory_bytes", lambda machine: 2 * machine.caches[-1].bytes)
    monkeypatch.setattr(calibration, "SAMPLES", 2)
    monkeypatch.setattr(calibration, "SAMPLE_FLOPS", 1e6)
    # One block, whatever other processes have made of the latencies that blocks are judged by.
    monkeypatch.setattr(calibration, "efficiency_of", lambda target, rows, vectors: float((rows, vectors) == (4, 2)))
    trusted(monkeypatch)
    text = first_programs.PROGRAMS[0][0]
    monkeypatch.setattr(first_programs, "PROGRAMS", ((text, {"M": 16, "N": 32, "K": 16}),))
    monkeypatch.setattr(first_programs, "VARIANTS", 2)
    before = polydl.Options().target()
    done = CliRunner().invoke(app, ["machine", "--calibrate", "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    after = polydl.Options().target()
    assert after.fingerprint != before.fingerprint, "stored, and found by everybody"
    assert list(after.register_blocks) == ["4x2"]
    assert (document["learned"]["problems"], document["learned"]["variants"]) == (1, 2)
    assert own_times.learned(after) is not None, "of the machine as it was calibrated"
    assert own_times.learned(before) is None
