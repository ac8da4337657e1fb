"""The second run of `optimize` finds its result, and only when nothing that it depends on has changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polydl import pipeline
from polydl.base.errors import InputError
from polydl.cli.answer import Answer
from polydl.cli.optimize_here import optimize_here
from polydl.options import Options
from polydl.results import OptimizeResult
from polydl.search import result_cache

SOURCE = """#include "sizes.h"
void scale(float x[N][N])
{
#pragma scop
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            x[i][j] = 2 * x[i][j];
#pragma endscop
}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`run(options…)`: the command in a folder of its own; how often it has searched so far. Other load on the machine
    counts for nothing here."""
    (tmp_path / "scale.c").write_text(SOURCE)
    (tmp_path / "sizes.h").write_text("#define N 200\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path / "kept"))
    searched: list[str] = []
    search = pipeline.optimize

    def counted(*given: Any, **named: Any) -> OptimizeResult:
        searched.append("")
        done = search(*given, **named)
        scops = [replace(s, report=s.report and replace(s.report, disturbed=False)) for s in done.scops]
        return replace(done, scops=tuple(scops))

    monkeypatch.setattr(pipeline, "optimize", counted)

    def command(fresh: bool = False, as_json: bool = False, **changes: Any) -> int:
        options = Options(threads=1, top_k=1).changed(**changes)
        answer = Answer(Path("scale.c"), as_json)
        optimize_here(answer.file, None, options, answer, run=True, fresh=fresh, depfile=None)
        return len(searched)

    return command


def test_the_second_run_searches_nothing(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 1
    first, text = capsys.readouterr().out, Path("scale.polydl.c").read_bytes()
    Path("scale.polydl.c").unlink()
    assert run() == 1
    second = capsys.readouterr().out
    assert second.startswith(first)
    assert "as measured on" in second
    assert Path("scale.polydl.c").read_bytes() == text
    assert run(fresh=True) == 2


def test_the_second_run_starts_no_compiler(run: Callable[..., int], tmp_path: Path) -> None:
    calls, wrapper = tmp_path / "calls", tmp_path / "logged-cc"
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> "{calls}"\nexec cc "$@"\n')
    wrapper.chmod(0o755)
    assert run(cc=str(wrapper)) == 1
    before = calls.read_text()
    assert before.count("\n") > 3
    assert run(cc=str(wrapper)) == 1
    assert calls.read_text() == before


def test_as_json(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    run(as_json=True)
    first = json.loads(capsys.readouterr().out)
    assert run(as_json=True) == 1
    second = json.loads(capsys.readouterr().out)
    assert second.pop("kept_from")
    assert second == first


def test_what_a_result_depends_on(run: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    Path("sizes.h").write_text("#define N 210\n")
    assert run() == 2
    assert run(seed=1) == 3
    assert run(cflags=("-O2",)) == 4
    Path("scale.c").write_text(SOURCE.replace("2 *", "3 *"))
    assert run() == 5
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert run() == 6
    assert run() == 6


def test_the_input_is_never_replaced(run: Callable[..., int]) -> None:
    run()
    Path("scale.polydl.c").unlink()
    Path("scale.polydl.c").symlink_to("scale.c")
    with pytest.raises(InputError, match="would replace the input"):
        run()
    assert Path("scale.c").read_text() == SOURCE


def test_a_damaged_entry(run: Callable[..., int]) -> None:
    run()
    (entry,) = result_cache.CACHE.path("any").parent.iterdir()
    good = entry.read_bytes()
    for searched, damage in enumerate((good[:100], good[:-1], good[:50] + b"?" + good[51:], b"\xff\xfe", b""), 2):
        entry.write_bytes(damage)
        with pytest.warns(UserWarning, match="is damaged: made anew"):
            assert run() == searched


def test_an_entry_that_is_no_result(run: Callable[..., int]) -> None:
    """Whole as a file, but not what this polydl writes."""
    run()
    (entry,) = result_cache.CACHE.path("any").parent.iterdir()
    for searched, other in enumerate((b"[]", b"[" * 10**6, b"\xff", b'{"headers": {}, "result": {"text": 1}}'), 2):
        result_cache.CACHE.write(entry.stem, other)
        with pytest.warns(UserWarning, match=r"is no result .*: made anew"):
            assert run() == searched


def test_where_nothing_can_be_kept(run: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").write_text("")
    monkeypatch.setenv("POLYDL_CACHE", str(Path("file/results").absolute()))
    with pytest.warns(UserWarning, match="not cached for the next run"):
        run()
    assert Path("scale.polydl.c").is_file()


def test_in_a_folder_that_is_gone(run: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    answer = Answer(tmp_path / "scale.c", as_json=False)
    options = Options(threads=1, top_k=1)
    optimize_here(answer.file, str(tmp_path / "o.c"), options, answer, run=True, fresh=False, depfile=None)
    assert (tmp_path / "o.c").is_file()


def test_the_oldest_go_first(run: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_cache, "CACHE", replace(result_cache.CACHE, most=2))
    for n in (1, 2, 3):
        run(seed=n)
    assert len(list(result_cache.CACHE.path("any").parent.iterdir())) == 2
    assert run(seed=3) == 3
    assert run(seed=1) == 4
