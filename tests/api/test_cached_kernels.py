"""Compiled kernels are cached by content: between processes, beside damaged entries, without a folder to write to."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polydl
from polydl.native import shared

compile_module = importlib.import_module("polydl.native.compile")

TEXT = "void f(int n, float y[n])\n{\n    for (int i = 0; i < n; i++)\n        y[i] = 3;\n}\n"


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def kernel(text: str = TEXT, **how: Any) -> polydl.Kernel:
    return polydl.compile(text, {"n": 8}, optimize=False, threads=1, **how)


def test_the_second_time_nothing_is_read_or_compiled(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kernel()
    monkeypatch.setattr(compile_module, "sized", None)  # the front end
    monkeypatch.setattr(shared, "link_flags", None)  # what only a compilation calls
    again = kernel()
    assert again.path == first.path and again.path.parent == empty / "compiled"
    np.testing.assert_array_equal(again(), np.full(8, 3, np.float32))


def test_fresh_and_other_contents_are_new(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kernel()
    assert kernel(fresh=True).path == first.path  # the same object comes out
    other = kernel(TEXT.replace("3", "4"))
    assert other.path != first.path
    np.testing.assert_array_equal(other(), np.full(8, 4, np.float32))
    assert kernel(cflags=("-O1",)).path != first.path


def test_a_header_that_changed_is_noticed(empty: Path, tmp_path: Path) -> None:
    header, source = tmp_path / "value.h", tmp_path / "f.c"
    source.write_text('#include "value.h"\n' + TEXT.replace("3", "VALUE"))
    for value in (5, 6):
        header.write_text(f"#define VALUE {value}\n")
        made = polydl.compile(source, {"n": 8}, optimize=False)()
        np.testing.assert_array_equal(made, np.full(8, value, np.float32))


def test_text_includes_from_the_working_folder(empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("value.h").write_text("#define VALUE 7\n")
    made = kernel('#include "value.h"\n' + TEXT.replace("3", "VALUE"))()
    np.testing.assert_array_equal(made, np.full(8, 7, np.float32))


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[: len(data) // 2], lambda data: data[:-1],
                                    lambda data: data[:100] + b"\xff" + data[101:]])  # fmt: skip
def test_a_damaged_entry_is_compiled_anew(empty: Path, damage: Any) -> None:
    # A process of its own for the first one: this one would go on with what it has loaded.
    run_elsewhere(empty)
    (entry,) = (empty / "compiled").glob("*.so")
    good = entry.read_bytes()
    entry.write_bytes(damage(good))
    with pytest.warns(UserWarning, match="is damaged: made anew"):
        made = kernel()
    np.testing.assert_array_equal(made(), np.full(8, 3, np.float32))
    assert len(entry.read_bytes()) == len(good) and shared.CACHE.read(entry.stem) is not None


def run_elsewhere(cache: Path, count: int = 1) -> None:
    """Compile and call the kernel in `count` processes at once."""
    program = (
        f"import polydl\nk = polydl.compile({TEXT!r}, {{'n': 8}}, optimize=False, threads=1)\n"
        "assert k().tolist() == [3] * 8"
    )
    running = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(count)]
    assert [process.wait(timeout=600) for process in running] == [0] * count


def test_two_processes_at_once(empty: Path) -> None:
    run_elsewhere(empty, 2)
    assert [p.suffix for p in (empty / "compiled").iterdir()] == [".so"], "one entry, and nothing left over"


def test_a_cache_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="not cached") as told:
        made = kernel()
    np.testing.assert_array_equal(made(), np.full(8, 3, np.float32))
    assert len(told) == 2, "the result and the compiled kernel"


def test_the_oldest_entries_go(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "CACHE", replace(shared.CACHE, most=2))
    for value in "456":
        kernel(TEXT.replace("3", value))
    assert len(list((empty / "compiled").glob("*.so"))) == 2
