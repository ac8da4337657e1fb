"""Which scalars and arrays of the function are live behind a region."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl import load

HEAD = "double g(double *);\nvoid f(double A[restrict 50][50], double y[restrict 50])\n{\n  int i, j;\n"
REGION = """#pragma scop
  for (i = 0; i < 50; i++) {
    w = 0.0;
    for (j = 0; j < 50; j++)
      w += A[i][j];
    t[i] = w;
    y[i] = t[i] + 1.0;
  }
#pragma endscop
"""


def live(tmp_path: Path, before: str, after: str = "", region: str = REGION) -> set[str]:
    path = tmp_path / "k.c"
    path.write_text(f"{HEAD}{before}\n{region}{after}\n}}\n")
    return set(load(path).scops[0].live_out) - {"A"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("double w, t[50];", "", set()),
        ("double w, t[50] = {0};", "w = 1.0; y[0] = w;", set()),
        ("double w, t[50];", "y[0] = w;", {"w"}),
        ("double w, t[50];", "if (y[0] > 0.0) w = 2.0;\n y[0] = w;", {"w"}),
        ("double w, t[50];", "y[0] = t[3];", {"t"}),
        ("double w, t[50]; double *p = t;", "y[0] = p[3];", {"t"}),
        ("double w, t[50]; double *p = &w;", "y[0] = *p;", {"w"}),
        ("static double w; double t[50];", "", {"w"}),
        ("double w; static double t[50];", "", {"t"}),
        ("double w, t[50];", "g(&w);", {"w"}),
        ("double w, t[50];", "g(t);", {"t"}),
    ],
)
def test_locals(tmp_path: Path, before: str, after: str, expected: set[str]) -> None:
    assert live(tmp_path, before, after) == {"y"} | expected


def test_a_loop_around_the_region_comes_back_to_it(tmp_path: Path) -> None:
    """The array keeps what the iteration before left in it; the scalar is overwritten before it is read."""
    region = f"for (int again = 0; again < 3; again++) {{\n{REGION}}}\n"
    assert live(tmp_path, "double w, t[50];", "", region) == {"y", "t"}
    reads = region.replace("w = 0.0;", "").replace("t[i] = w;", "t[i] = w;")
    assert live(tmp_path, "double w = 0.0, t[50];", "", reads) == {"y", "t", "w"}


AROUND = "for (int again = 0; again < 3; again++) {{\n{0}\n{1}{2}\n}}\n"


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ("w = 0.0;", "", True),
        ("w = 0.0;", "if (y[1] > 5.0) break;\n w = 1.0;", True),
        ("w = 0.0;", "if (y[1] > 5.0) continue;\n w = 1.0;", True),
        ("w = 0.0;", "w = 1.0;", False),
    ],
)
def test_a_loop_around_the_region_may_end_before_what_it_begins_with(
    tmp_path: Path, before: str, after: str, kept: bool
) -> None:
    again = AROUND.format(before, REGION, after)
    assert ("w" in live(tmp_path, "double w = 0.0, t[50];", "y[0] = w;", again)) is kept


def test_a_jump_may_come_back(tmp_path: Path) -> None:
    assert live(tmp_path, "double w, t[50];\nagain:;", "if (y[0] > 5.0) goto again;") >= {"y", "t"}


def test_globals_are_live(tmp_path: Path) -> None:
    path = tmp_path / "k.c"
    path.write_text(f"double w, t[50];\n{HEAD}{REGION}}}\n")
    assert set(load(path).scops[0].live_out) == {"w", "t", "y", "A"}
