"""Subscripts that are clamped, reflected or wrap round: exact access relations, however they are spelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from tests.frontend.reading import reads, same_map, scop

HEAD = """\
#include <stdlib.h>
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
static int clamp(int v, int low, int high) { if (v < low) return low; return v > high ? high : v; }
static int least(int a, int b) { return a < b ? a : b; }
static int greatest(int a, int b) { return b > a ? b : a; }
static int reflect(int y, int n)
{
    const int last = n - 1;
    if (y < 0)
        y = -y;
    if (y > last)
        y = 2 * last - y;
    return y;
}
static int wrap(int y, int n)
{
    int r = y;
    if (y < 0) { r += n; }
    else if (y >= n) { r -= n; }
    return r;
}
"""
DOMAIN = "0 <= i < 16 and -2 <= k <= 2"
INSIDE = f"S0[i, k] -> A[i + k] : {DOMAIN} and 0 <= i + k < 16"
CLAMPED = f"{{ {INSIDE}; S0[i, k] -> A[0] : {DOMAIN} and i + k < 0; S0[i, k] -> A[15] : {DOMAIN} and i + k >= 16 }}"
REFLECTED = (
    f"{{ {INSIDE}; S0[i, k] -> A[-i - k] : {DOMAIN} and i + k < 0;"
    f" S0[i, k] -> A[30 - i - k] : {DOMAIN} and i + k >= 16 }}"
)
WRAPPED = (
    f"{{ {INSIDE}; S0[i, k] -> A[i + k + 16] : {DOMAIN} and i + k < 0;"
    f" S0[i, k] -> A[i + k - 16] : {DOMAIN} and i + k >= 16 }}"
)
CLAMPED_CORNER = (
    "[i - 1, j + 1] : i > 0 and j < m - 1; [0, j + 1] : i = 0 and j < m - 1; "
    "[i - 1, m - 1] : i > 0 and j = m - 1; [0, m - 1] : i = 0 and j = m - 1"
)
WRAPPED_CORNER = (
    "[i - 1, j - 1] : i > 0 and j > 0; [0, j - 1] : i = 0 and j > 0; "
    "[i - 1, m - 1] : i > 0 and j = 0; [0, m - 1] : i = 0 and j = 0"
)


@pytest.mark.parametrize(
    ("before", "subscript", "relation"),
    [
        ("", "i + k < 0 ? 0 : i + k > 15 ? 15 : i + k", CLAMPED),
        ("", "MIN(MAX(i + k, 0), 15)", CLAMPED),
        ("", "clamp(i + k, 0, 15)", CLAMPED),
        ("", "least(greatest(i + k, 0), 15)", CLAMPED),
        ("int y = i + k; if (y < 0) y = 0; if (y >= 16) y = 15;", "y", CLAMPED),
        ("int y = clamp(i + k, 0, 15);", "y", CLAMPED),
        ("int y = i + k; if (y < 0) y = -y; if (y >= 16) y = 30 - y;", "y", REFLECTED),
        ("", "15 - abs(15 - abs(i + k))", REFLECTED),
        ("", "reflect(i + k, 16)", REFLECTED),
        ("", "(i + k + 16) % 16", WRAPPED),
        ("", "wrap(i + k, 16)", WRAPPED),
        ("int y = i + k; if (y < 0) y += 16; else if (y > 15) y -= 16;", "y", WRAPPED),
    ],
)
def test_spellings(tmp_path: Path, before: str, subscript: str, relation: str) -> None:
    loops = "for (int i = 0; i < 16; i++) for (int k = -2; k <= 2; k++)"
    code = f"void f(float A[16], float B[16])\n{{\n{loops} {{ {before} B[i] += A[{subscript}]; }}\n}}\n"
    (statement,) = scop(tmp_path, HEAD + code).statements
    assert same_map(reads(statement, "A")[0].relation, relation)


def test_bounds_and_conditions_may_call(tmp_path: Path) -> None:
    code = (
        "void f(float A[16])\n{\n"
        "for (int i = 0; i < 16; i++) for (int k = greatest(i - 2, 0); k <= least(i + 2, 15); k++)"
        " if (abs(i - k) != 1) A[k] += 1;\n}\n"
    )
    (statement,) = scop(tmp_path, HEAD + code).statements
    near = "0 <= i < 16 and 0 <= k < 16"
    wanted = f"{{ S0[i, i] -> A[i] : 0 <= i < 16; S0[i, k] -> A[k] : {near} and (k = i - 2 or k = i + 2) }}"
    assert same_map(reads(statement, "A")[0].relation, wanted)


@pytest.mark.parametrize(
    ("row", "place", "relation"),
    [
        ("(i + 1) % n", "j", "[i + 1, j] : i < n - 1; [0, j] : i = n - 1"),
        ("(i - 1 + n) % n", "j", "[i - 1, j] : i > 0; [n - 1, j] : i = 0"),
        ("(i + 1 + n) % n", "j", "[i + 1, j] : i < n - 1; [0, j] : i = n - 1"),
        ("(i + 1 - 3 * n) % n + n - 1", "j", "[n - 1, j] : i = n - 1; [i, j] : i < n - 1"),
        ("((i - 1) % n + n) % n", "j", "[i - 1, j] : i > 0; [n - 1, j] : i = 0"),
        ("(unsigned)(i + n) % n", "j", "[i, j] : i >= 0"),
        ("i", "(j + m - 1) % m", "[i, j - 1] : j > 0; [i, m - 1] : j = 0"),
        ("(2 * i + 1) / n", "j", "[0, j] : 2i + 1 < n; [1, j] : 2i + 1 >= n"),
        ("clamp(i - 1, 0, n - 1)", "clamp(j + 1, 0, m - 1)", CLAMPED_CORNER),
        ("(i == 0 ? 0 : i - 1)", "wrap(j - 1, m)", WRAPPED_CORNER),
    ],
)
@pytest.mark.parametrize("linear", [True, False])
def test_borders_at_sizes_without_values(tmp_path: Path, row: str, place: str, relation: str, linear: bool) -> None:
    read = f"B[({row}) * m + {place}]" if linear else f"B[{row}][{place}]"
    shapes = "float *restrict A, const float *restrict B" if linear else "float A[n][m], float B[n][m]"
    written = "A[i * m + j]" if linear else "A[i][j]"
    loops = "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++)"
    (statement,) = scop(
        tmp_path, f"{HEAD}void f(int n, int m, {shapes})\n{{\n{loops} {written} = {read};\n}}\n"
    ).statements
    pieces = "; ".join(
        f"S0[i, j] -> B{left} : 0 <= i < n and 0 <= j < m and {right}"
        for left, right in (piece.split(" : ") for piece in relation.split("; "))
    )
    assert same_map(reads(statement, "B")[0].relation, f"[n, m] -> {{ {pieces} }}")


@pytest.mark.parametrize("subscript", ["(5 * i) % n", "(i + 1) % m", "(i + 1) / (n - i)", "i % (n - 1)"])
def test_remainders_that_are_too_many(tmp_path: Path, subscript: str) -> None:
    """Not known to be between -4 and 4 times the divisor, or that this is positive."""
    code = f"void f(int n, int m, float *A)\n{{\nfor (int i = 0; i < n; i++) A[{subscript}] = i;\n}}\n"
    with pytest.raises(InputErrors, match="by a value that is not constant"):
        scop(tmp_path, code)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("int g(int v) { while (v > 3) v--; return v; }", "does more than choose between integers"),
        ("int g(int v) { if (v > 3) return 3; }", "may end without a value"),
        ("int g(int v) { if (v > 3) return g(v - 1); return v; }", "calls itself"),
        ("int n; int g(int v) { return v < n ? v : n; }", "uses 'n'"),
        ("int g(int v) { int r; if (v > 3) r = 3; return r; }", "before it surely has a value"),
        ("int g(float v) { return 3; }", "works on other values than integers"),
        ("int g(int v) { static int r = 3; return r; }", "declares 'r' twice, or static"),
        ("int g(int v);", "it calls a function"),
    ],
)
def test_other_functions(tmp_path: Path, function: str, why: str) -> None:
    loop = "for (int i = 0; i < 16; i++) A[g(i)] = 0;"
    code = f"{function}\nvoid f(float A[16])\n{{\n#pragma scop\n{loop}\n#pragma endscop\n}}\n"
    with pytest.raises(InputErrors, match=why) as caught:
        scop(tmp_path, code)
    assert all(error.span is not None and error.hint for error in caught.value.errors)


def test_macros_of_what_is_called_are_guarded(tmp_path: Path) -> None:
    code = (
        "#define LAST 15\n#ifdef LOW\n#define FIRST 1\n#else\n#define FIRST 0\n#endif\n"
        "int g(int v) { return v < FIRST ? FIRST : v > LAST ? LAST : v; }\n"
        "void f(float A[16], float B[16])\n{\nfor (int i = 0; i < 16; i++) B[i] = A[g(i + 1)];\n}\n"
    )
    found = scop(tmp_path, code)
    assert {guard.name: guard.value for guard in found.guards} == {"LAST": 15, "FIRST": 0}
