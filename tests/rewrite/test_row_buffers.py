"""Rows that a large array holds for a while are kept in a buffer for each thread."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import polydl
from polydl.dependences.scalars import private_storage
from polydl.rewrite.canonical import canonical
from polydl.rewrite.row_buffers import RowBuffer

SIZES = MappingProxyType({"M": 1100, "N": 1024})
TWICE = """
void twice(const float x[restrict M][N], float y[restrict M][N], float s[restrict M])
{{
    for (int i = 0; i < M; i++) {{
        s[i] = 0;
        for (int j = 0; j < N; j++) {{
            y[i][j] = x[i][j] * 2;
            s[i] += y[i][j];
        }}
        {last}
    }}
    {behind}
}}
"""
LAST = "for (int j = 0; j < N; j++) y[i][j] -= s[i];"


def steps(last: str, behind: str = "", sizes: Any = SIZES) -> tuple[list[RowBuffer], Any]:
    (scop,) = polydl.load(TWICE.format(last=last, behind=behind), defines=dict(sizes)).scops
    found = canonical(scop)
    assert not found.refused
    return [s.rewrite for s in found.steps if isinstance(s.rewrite, RowBuffer)], found.scop


@pytest.mark.parametrize(
    "last",
    [LAST, "for (int j = 0; j < N; j++) y[i][j] = s[i] > 0 ? y[i][j] : s[i];",
     "for (int j = 0; j < N; j++) y[i][j] = j;"],
)  # fmt: skip
def test_what_is_stored_again_in_the_same_row_is_buffered(last: str) -> None:
    found, made = steps(last)
    assert [one.array for one in found] == ["y"]
    assert private_storage(made)[found[0].buffer] >= 1
    assert sum(a.array == "y" for s in made.statements for a in s.accesses) == 1


@pytest.mark.parametrize(
    ("last", "behind", "sizes"),
    [
        # Some elements keep what the first loop stored.
        ("for (int j = 1; j < N; j++) y[i][j] -= s[i];", "", SIZES),
        ("for (int j = 0; j < N; j++) y[i][j / 2] = s[i];", "", SIZES),
        # Another row is read.
        ("for (int j = 0; j < N; j++) y[i][j] = y[0][j] - s[i];", "", SIZES),
        # It is read again.
        (LAST, "for (int i = 0; i < M; i++) s[i] = y[i][0];", SIZES),
        # A cache holds it.
        (LAST, "", {"M": 100, "N": 1024}),
        # No stack does.
        (LAST, "", {"M": 100, "N": 102400}),
    ],
)
def test_others_stay_where_they_are(last: str, behind: str, sizes: Any) -> None:
    assert steps(last, behind, sizes)[0] == []


def test_a_row_whose_last_loop_reads_what_it_wrote_stays() -> None:
    # Backwards, so that element 0 is made of the new element N - 1.
    assert steps("for (int j = N - 1; j >= 0; j--) y[i][j] = y[i][N - 1 - j] - s[i];")[0] == []


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_is_computed(threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    kernel = polydl.compile(TWICE.format(last=LAST, behind=""), dict(SIZES), tune=False, threads=threads)
    assert "polydl_row_of_y" in kernel.source
    x = np.random.default_rng(0).integers(-8, 8, (SIZES["M"], SIZES["N"])).astype(np.float32)
    y, s = np.zeros_like(x), np.zeros(len(x), np.float32)
    kernel(x, y, s)
    np.testing.assert_array_equal(s, 2 * x.sum(axis=1))
    np.testing.assert_array_equal(y, 2 * x - s[:, None])
