"""Experiments that go on where they were stopped: outputs that stay, processes that are timed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import any_size_programs
import pytest
import search_time
from common import RowFile

import polydl
from tests.programs.corpus import catalogue


def _checkout(folder: Path, main: str) -> Path:
    """A checkout whose polydl is this text."""
    (folder / "polydl").mkdir(parents=True)
    (folder / "polydl" / "__init__.py").write_text("")
    (folder / "polydl" / "__main__.py").write_text(main)
    return folder


BUSY = "import time\nwhile time.process_time() < 0.3: pass\n"


def test_processor_seconds_of_a_process_are_those_of_its_children_too(tmp_path: Path) -> None:
    main = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY!r}])\n{BUSY}sys.exit(3)\n"
    wall, processor, status = search_time.run(search_time.Task("x", ()), _checkout(tmp_path, main), 60)
    assert status == 3
    assert 0.6 <= processor < 3
    assert wall >= 0.6


def test_a_process_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    _, _, status = search_time.run(search_time.Task("x", ()), _checkout(tmp_path, "import time\ntime.sleep(60)\n"), 0.5)
    assert status < 0


def test_search_times_go_on_where_they_were_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = []

    def counted(task: search_time.Task, checkout: Path, limit: float) -> tuple[float, float, int]:
        assert Path(task.arguments[0]).is_absolute()  # it runs in a folder of its own
        ran.append((task.name, checkout.name))
        return 1.0, float(len(ran)), 0

    monkeypatch.setattr(search_time, "run", counted)
    rows = tmp_path / "rows.jsonl"
    monkeypatch.chdir(search_time.ROOT)
    words = "x --programs tests/everyday --only gemm_plain --only saxpy_unrolled"
    command = [*words.split(), "--rows", str(rows), "--before", str(tmp_path)]
    for more in (["--rounds", "1"], ["--rounds", "2"], ["--shown"]):
        monkeypatch.setattr(sys, "argv", [*command, *more])
        assert search_time.main() == 0
    places = search_time.ROOT.name, tmp_path.name
    both = [(name, place) for name in ("saxpy_unrolled", "gemm_plain") for place in places]  # the longest text first
    assert ran == both * 2
    assert len(search_time.rows_of(RowFile(rows, ()))) == 8
    last = capsys.readouterr().out.splitlines()[-3:-1]
    assert [line.split() for line in last] == [
        ["gemm_plain", "1.00", "5.00", "1.00", "6.00"],
        ["saxpy_unrolled", "1.00", "3.00", "1.00", "4.00"],
    ]


def test_outputs_of_an_earlier_run_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program with its sizes as parameters, and only where the earlier run came to its end."""
    given = argparse.Namespace(outputs=tmp_path, threads=1, top_k=1)
    entry = any_size_programs.with_parameters(catalogue()["trisolv"], tmp_path)
    (tmp_path / "trisolv.any.c").write_text("half a file")

    class Made(Exception):
        """Something is made."""

    def optimize(*_: object, **__: object) -> None:
        raise Made

    monkeypatch.setattr(polydl, "optimize", optimize)
    with pytest.raises(Made):
        any_size_programs.output(entry, entry.bench, "any", given)
    (tmp_path / "trisolv.any.txt").write_text("what it said")
    assert any_size_programs.output(entry, entry.bench, "any", given) == (tmp_path / "trisolv.any.c", "what it said")


def test_ratios_of_sizes_where_nothing_was_tuned(capsys: pytest.CaptureFixture[str]) -> None:
    times = {"gcc": [3.0, 4.0, 8.0], "any": [2.0, 5.0, 2.0]}
    points = [
        any_size_programs.Point("p", {"N": 3}, times, "", ""),
        any_size_programs.Point("q", {"N": 5}, {**times, "gcc": [1.0, 1.0, 1.0], "tuned": [1.0, 1.0, 1.0]}, "", ""),
    ]
    assert points[0].ratio("gcc") == 1.5
    assert points[0].ratio("tuned") is None
    any_size_programs.summary(points)
    out = capsys.readouterr().out
    assert "under 0.95 of gcc: 1" in out
    assert "0 of 1 programs at 0.8 of tuned or more in the mean; not: q 0.50" in out
