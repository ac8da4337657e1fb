"""A compiler that takes too long for what polydl wrote: it is stopped, and something plainer is compiled."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.lower.emit import Generated
from polydl.measure import Status, Toolchain, compiler, measure
from polydl.measure.compiler import run_compiler
from tests.measure.builders import IKJ, QUICK, candidate, matmul

SOURCE = """void sums(int n, int m, const float a[restrict n][m], float s[restrict n])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            s[i] += a[i][j];
}
"""


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A compiler that never ends where a text has vectors of polydl's, or says SLOW."""
    monkeypatch.setattr(compiler, "COMPILE_SECONDS", 0.2)
    monkeypatch.setattr(compiler, "_WAITS", 40.0)  # for what gcc does
    path = tmp_path / "slowcc"
    path.write_text(
        """#!/bin/sh
case "$*" in *-E*|*-fsyntax-only*) ;; *)
for a in "$@"; do case "$a" in
*.c) grep -q 'POLYDL_INLINE\\|SLOW' "$a" && while :; do :; done ;;
esac; done ;; esac
exec gcc "$@"
"""
    )
    path.chmod(0o755)
    return str(path)


def test_time_of_the_processor_counts(slow: str, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int SLOW;\n")
    begin = time.monotonic()
    done = run_compiler([slow, "-c", "-o", tmp_path / "a.o", tmp_path / "a.c"])
    assert not done.ok and done.late and "takes the compiler over 0.2 s" in done.message
    assert time.monotonic() - begin < 8
    (tmp_path / "a.c").write_text("int quick;\n")
    assert run_compiler([slow, "-c", "-o", tmp_path / "a.o", tmp_path / "a.c"]).ok
    (tmp_path / "a.c").write_text("wrong\n")
    done = run_compiler([slow, "-c", "-o", tmp_path / "a.o", tmp_path / "a.c"])
    assert not done.ok and not done.late


def test_a_candidate_is_dropped_and_the_next_one_used(slow: str) -> None:
    long, short = candidate("/* SLOW */"), Generated((), IKJ)
    report = measure(matmul(), {"long": long, "short": short}, Toolchain(cc=slow), replace(QUICK, compile_timeout=0.2))
    first, second = sorted(report.measurements, key=lambda one: one.id)
    assert (first.status, first.late) == (Status.COMPILE_FAILED, True)
    assert "takes the compiler over" in first.message
    assert second.verified


def test_a_function_of_python_runs_the_loops_as_written(slow: str) -> None:
    made = polydl.compile(SOURCE, {"n": 8, "m": 100}, tune=False, threads=1, cc=slow)
    assert made.made.how == "as written" and made.made.variant is None
    assert any("takes the compiler over" in note for note in made.made.notes)
    a, s = np.arange(800, dtype=np.float32).reshape(8, 100), np.zeros(8, np.float32)
    made(a, s)
    assert (s == a.sum(1)).all()
