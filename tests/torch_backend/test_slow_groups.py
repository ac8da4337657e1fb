"""A compiler that takes too long for a group: the loops run as they are written, and the report says so."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import pytest

from polydl.measure import compiler
from polydl.torch_backend import group_search
from polydl.torch_backend.group_search import Job, Searched

WRITTEN = "int answer(void) { return 1; }\n"
ENTRY = '__attribute__((visibility("default"))) int entry(void) { return answer(); }\n'


def test_what_takes_too_long_runs_as_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "COMPILE_SECONDS", 0.2)
    monkeypatch.setattr(compiler, "_WAITS", 40.0)  # for what gcc does
    slow = tmp_path / "slowcc"
    slow.write_text(
        '#!/bin/sh\nfor a in "$@"; do case "$a" in *.c) grep -q SLOW "$a" && while :; do :; done ;; esac; done\n'
        'exec gcc "$@"\n'
    )
    slow.chmod(0o755)
    job = Job("0" * 64, "answer", WRITTEN, ENTRY, "ranked", (), str(slow), 1, True, False)
    quick = Searched(WRITTEN, "/* quick */ int answer(void) { return 2; }\n", ("v",), ("note",), 1)
    found, path = group_search.compiled(job, quick)
    assert found == quick and ctypes.CDLL(str(path)).entry() == 2
    long = replace(quick, text="/* SLOW */ int answer(void) { return 2; }\n")
    found, path = group_search.compiled(replace(job, key="1" * 64), long)
    assert ctypes.CDLL(str(path)).entry() == 1
    assert (found.text, found.variants, found.kernels) == (WRITTEN, (), 0)
    assert found.notes[0] == "note" and "takes the compiler over" in found.notes[1]
