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
        ("static double w; double t[50];", "", set()),
        ("static double w; double t[50];", "y[0] = w;", {"w"}),
        ("static double w; double t[50]; double *p = &w;", "", {"w"}),
        ("double w; static double t[50];", "", set()),
        ("double w; static double t[50];", "y[0] = t[3];", {"t"}),
        ("double w; static double t[50]; static double *p = t;", "y[0] = p[3];", {"t"}),
        ("double w, t[50];", "g(&w);", {"w"}),
        ("double w, t[50];", "g(t);", {"t"}),
    ],
)
def test_locals(tmp_path: Path, before: str, after: str, expected: set[str]) -> None:
    assert live(tmp_path, before, after) == {"y"} | expected


def test_a_loop_around_the_region_comes_back_to_it(tmp_path: Path) -> None:
    """Both are overwritten before they are read; without that they keep what the iteration before left in them."""
    region = f"for (int again = 0; again < 3; again++) {{\n{REGION}}}\n"
    assert live(tmp_path, "double w, t[50];", "", region) == {"y"}
    reads = region.replace("w = 0.0;", "").replace("t[i] = w;", "t[i] += w;")
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
    assert live(tmp_path, "double w, t[50];\nagain:;", "if (y[0] > 5.0) goto again;") == {"y"}
    reads = REGION.replace("t[i] = w;", "t[i] += w;")
    assert live(tmp_path, "double w, t[50];\nagain:;", "if (y[0] > 5.0) goto again;", reads) == {"y", "t"}


@pytest.mark.parametrize(
    ("write", "read", "kept"),
    [
        ("t[i] = w;", "t[i]", False),
        ("t[i] += w;", "t[i]", True),
        ("t[i] = w;", "t[49 - i]", True),  # the first half is read before it is written
        ("t[0] = t[i] = w;", "t[0]", False),
        ("if (i > 0) t[i] = w;", "t[i]", True),
        ("if (w > 0.0) t[i] = w;", "t[i]", True),  # the old value stays where data say so
        ("for (j = 0; j < n; j++) t[j] = w;", "t[i]", True),  # n may be less than 50
        ("for (j = 0; j < n; j++) t[j] = w;", "(i < n ? t[i] : 0.0)", False),
        ("for (j = 0; j < 50; j++) t[j] = w * j;", "t[i] + t[3] + t[49]", False),
    ],
)
def test_a_static_array_is_live_where_a_run_may_read_it_before_it_writes_it(
    tmp_path: Path, write: str, read: str, kept: bool
) -> None:
    path = tmp_path / "k.c"
    region = REGION.replace("t[i] = w;", write).replace("y[i] = t[i] + 1.0;", f"y[i] = {read} + 1.0;")
    head = HEAD.replace("void f(", "void f(int n, ")
    path.write_text(f"{head}static double t[50]; double w;\n{region}}}\n")
    (found,) = load(path, require_sizes=False).scops
    assert ("t" in found.live_out) is kept


def test_globals_are_live(tmp_path: Path) -> None:
    path = tmp_path / "k.c"
    path.write_text(f"double w, t[50];\n{HEAD}{REGION}}}\n")
    assert set(load(path).scops[0].live_out) == {"w", "t", "y", "A"}


@pytest.mark.parametrize(
    "declared",
    [
        "double *t = y + 1;",
        "double *restrict t = &y[n];",
        "double *t = n > 3 ? y : y + 9;",
        "double *t; t = y + 1;",
        "static double kept[50]; double *t = kept;",
        "double (*t)[4] = (double (*)[4])y;",
        "double *t[20] = {y};",
    ],
)
def test_what_a_local_pointer_leads_to_is_live(tmp_path: Path, declared: str) -> None:
    path = tmp_path / "k.c"
    at = "t[i][2]" if ")[4]" in declared or "t[20]" in declared else "t[i]"
    loops = f"for (int i = 0; i < n; i++) {at} = x[i];"
    path.write_text(f"void f(int n, const double *x, double *y) {{ {declared} {loops} }}\n")
    assert "t" in load(path, require_sizes=False).scops[0].live_out
