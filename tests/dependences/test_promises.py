"""Pragmas that promise independent iterations, held against the dependences."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from polydl.base.errors import InputWarning
from polydl.dependences.analysis import dependences
from polydl.dependences.promises import broken_promises
from polydl.pipeline import rank
from tests.frontend.reading import scop

HEAD = "void f(float A[restrict 40][40], float B[restrict 40], float s[restrict 1])"
CHAIN = "for (int i = 1; i < 40; i++) B[i] = B[i - 1] + 1;"
ROWS = "for (int i = 0; i < 40; i++) for (int j = 1; j < 40; j++) A[i][j] = A[i][j - 1];"
SUM = "for (int i = 0; i < 40; i++) for (int j = 0; j < 40; j++) s[0] += A[i][j];"
LOCAL = "for (int i = 0; i < 40; i++) { float w = B[i]; float t[2]; t[0] = w; B[i] = t[0] * 2; }"
OUTSIDE = "float w;\n%sfor (int i = 0; i < 40; i++) { w = B[i]; B[i] = w * w; }"


def warned(tmp_path: Path, body: str) -> list[InputWarning]:
    found = scop(tmp_path, f"{HEAD}\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    assert found.promises
    return broken_promises(found, dependences(found, reads=False))


@pytest.mark.parametrize(
    ("pragma", "loops", "array"),
    [
        ("omp parallel for", CHAIN, "B"),
        ("omp for simd schedule(static, 4)", "", ""),
        ("omp simd", CHAIN, "B"),
        ("GCC ivdep", CHAIN, "B"),
        ("omp parallel for collapse(2)", ROWS, "A"),
        ("omp parallel for", SUM, "s"),
        ("omp parallel for collapse(2) reduction(+:B[0:1])", SUM, "s"),
    ],
)
def test_what_dependences_contradict_is_reported(tmp_path: Path, pragma: str, loops: str, array: str) -> None:
    body = f"#pragma {pragma}\n{loops}" if loops else f"#pragma omp parallel\n{{\n#pragma {pragma}\n{CHAIN}\n}}"
    (warning,) = warned(tmp_path, body)
    assert f"an element of '{array or 'B'}'" in str(warning)
    assert f"'#pragma {pragma}' denies" in warning.reason
    assert warning.span.text == f"#pragma {pragma}"


@pytest.mark.parametrize(
    ("pragma", "loops"),
    [
        ("omp parallel for", ROWS),
        ("omp parallel for reduction(+ : s[0:1])", SUM),
        ("omp parallel for ordered", CHAIN),
        ("omp simd safelen(1)", CHAIN),
        ("omp parallel for", LOCAL),
        ("omp parallel for firstprivate(s)", "for (int i = 0; i < 40; i++) { s[0] = B[i]; B[i] = s[0] + 1; }"),
    ],
)
def test_kept_promises_and_weaker_ones(tmp_path: Path, pragma: str, loops: str) -> None:
    body = f"#pragma {pragma}\n{loops}"
    found = scop(tmp_path, f"{HEAD}\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    assert broken_promises(found, dependences(found, reads=False)) == []


def test_a_scalar_is_private_where_it_is_written_first(tmp_path: Path) -> None:
    assert warned(tmp_path, OUTSIDE % "#pragma omp parallel for\n") == []


def test_an_inner_loop_has_a_promise_of_its_own(tmp_path: Path) -> None:
    body = "for (int i = 0; i < 40; i++)\n#pragma omp simd\nfor (int j = 1; j < 40; j++) A[i][j] = A[i][j - 1];"
    (warning,) = warned(tmp_path, body)
    assert "iterations of loop 'j' depend on each other" in warning.reason
    assert "S0[0, 1] writes an element of 'A' that S0[0, 2] reads" in warning.reason


def test_ranking_warns_and_goes_on(tmp_path: Path) -> None:
    found = scop(tmp_path, f"{HEAD}\n{{\n#pragma scop\n#pragma omp parallel for\n{CHAIN}\n#pragma endscop\n}}\n")
    with pytest.warns(InputWarning, match="depend on each other"):
        assert rank(found).variants


def test_the_command_shows_place_and_caret(tmp_path: Path) -> None:
    path = tmp_path / "chain.c"
    path.write_text(f"{HEAD}\n{{\n#pragma omp parallel for\n    {CHAIN}\n}}\n")
    done = subprocess.run(
        [sys.executable, "-m", "polydl", "rank", str(path)], capture_output=True, text=True, check=True
    )
    assert f"{path}:3:1: warning: the iterations of loop 'i' depend on each other" in done.stderr
    assert "    #pragma omp parallel for\n    ^~~" in done.stderr
    assert "help: leave the pragma out" in done.stderr
