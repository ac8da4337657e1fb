"""Loops that macros make, calls that fill arrays, and arrays with initialisers: as if their loops stood there."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.frontend import load
from tests.frontend.reading import region, scop

MACROS = """
#define FOR(i, n) for (int i = 0; i < (n); i++)
#define COPY(d, s, n) for (int q = 0; q < (n); q++) (d)[q] = (s)[q]
#define ZERO(d, n) FOR(q, n) { (d)[q] = 0; }
#define ONE_MORE(d, n) d[0] = 1; FOR(q, n) d[q] = 2
#define LEFT_OPEN FOR(q, n) {
void f(int n, float x[restrict n], float y[restrict n]) {
  %s
}
"""


@pytest.mark.parametrize(
    ("code", "statements"),
    [
        ("FOR(i, n) y[i] = x[i];", 1),
        ("FOR(i, n) { y[i] = x[i]; }", 1),
        ("FOR(i, n) FOR(j, 3) { y[i] = x[i] + j; }", 1),
        ("COPY(y, x, n);", 1),
        ("ZERO(y, n)", 1),
        ("ZERO(y, n)\n  FOR(i, n) y[i] += x[i];", 2),
        ("for (int i = 0; i < n; i++) FOR(j, 3) y[i] += x[i];", 1),
    ],
)
def test_loops_that_macros_make(tmp_path: Path, code: str, statements: int) -> None:
    found = scop(tmp_path, MACROS % code)
    assert len(found.statements) == statements
    text = found.source.text[found.region.start : found.region.end]
    assert text == code


@pytest.mark.parametrize("code", ["ONE_MORE(y, n);", "LEFT_OPEN y[q] = 1; }", "y[0] = 2; LEFT_OPEN y[q] = 1; }"])
def test_macros_that_make_more_or_less_than_loops(tmp_path: Path, code: str) -> None:
    path = tmp_path / "k.c"
    path.write_text(MACROS % code)
    try:
        (found,) = load(path, require_sizes=False).scops
    except InputErrors as several:
        assert all(error.span is not None and error.span.line == 8 for error in several.errors)  # noqa: PT017
    else:
        assert found.source.text[found.region.start : found.region.end] == "LEFT_OPEN y[q] = 1; }"


HEAD = "void f(int N, int M, double A[restrict N][4], double B[restrict N][4], char *s, float *p, float *q)"


@pytest.mark.parametrize(
    ("call", "plain"),
    [
        ("memset(A, 0, sizeof(double) * 4 * M);", "for (k = 0; k < M; k++) for (l = 0; l < 4; l++) A[k][l] = 0;"),
        ("memset(A[M], 0, sizeof A[M]);", "for (l = 0; l < 4; l++) A[M][l] = 0;"),
        ("memset(s + 2, 7, (unsigned long)M);", "for (k = 0; k < M; k++) s[2 + k] = 7;"),
        ("memcpy(&p[3], q, M * sizeof *p);", "for (k = 0; k < M; k++) p[3 + k] = q[k];"),
        ("memmove(B, A, M * sizeof(double[4]));", None),
        ("memcpy(p, q, sizeof(float) * 5);", "for (k = 0; k < 5; k++) p[k] = q[k];"),
    ],
)
def test_filling(tmp_path: Path, call: str, plain: str | None) -> None:
    found = region(tmp_path, call, HEAD)
    if plain is None:
        assert len(found.statements) == 1
        return
    other = region(tmp_path, f"int k, l;\n{plain}", HEAD)
    for one, two in zip(found.statements, other.statements, strict=True):
        for a, b in zip(one.accesses, two.accesses, strict=True):
            assert a.relation.range().is_equal(b.relation.range())


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("memset(p, 1, M * sizeof *p);", "other bytes than 0"),
        ("memset(p, 0, 6);", "no whole number of elements"),
        ("memset(p, 0, sizeof p);", "no whole number of elements|no whole"),
        ("memcpy(p, s, 4 * M);", "copies elements of 'char'"),
        ("memmove(p + 1, p, 4 * M);", "may overlap"),
    ],
)
def test_what_does_not_fill_whole_elements(tmp_path: Path, call: str, reason: str) -> None:
    with pytest.raises(InputErrors, match=reason) as caught:
        region(tmp_path, call, HEAD)
    assert all(error.span is not None and error.span.line == 4 and error.hint for error in caught.value.errors)


@pytest.mark.parametrize(
    ("declared", "written"),
    [
        ("double t[3] = {0};", 1),
        ("double t[3] = {1, 2, 3};", 3),
        ("double t[3] = {0, 2};", 2),
        ("const double t[2] = {1, 2};", 2),
        ("double t[2][2] = {{1, 2}, {3, 4}};", 4),
        ("double t[2][2] = {0};", 1),
    ],
)
def test_initialised_arrays(tmp_path: Path, declared: str, written: int) -> None:
    used = "t[1][0]" if "[2][2]" in declared else "t[1]"
    found = region(tmp_path, f"for (int i = 0; i < N; i++) {{ {declared} A[i][0] = {used}; }}", HEAD)
    assert sum(s.accesses[-1].array == "t" for s in found.statements) == written
    assert not found.arrays["t"].const
    assert "const" not in found.arrays["t"].declaration


@pytest.mark.parametrize(
    "declared", ["double t[3] = {1, 2, 3, 4};", "double t[3] = {[1] = 2};", "double t[2][2] = {1, 2};"]
)
def test_initialisers_that_are_not_read(tmp_path: Path, declared: str) -> None:
    with pytest.raises(InputErrors, match="initialise") as caught:
        region(tmp_path, f"for (int i = 0; i < N; i++) {{ {declared} A[i][0] = 1; }}", HEAD)
    assert all(error.span is not None and error.span.line == 4 and error.hint for error in caught.value.errors)
