"""Loops over columns go innermost, and what is computed stays."""

from __future__ import annotations

import numpy as np
import pytest

import polydl
from polydl.equations.step import Step
from polydl.model.scop import Scop
from polydl.rewrite.canonical import canonical
from polydl.rewrite.columns import STRIP, Columns

HEAD = "void f(const float a[restrict 3][7][n], float o[restrict 3][7][n])"
SOFTMAX = """
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < n; j++) {
            float most = -1e30f;
            for (int k = 0; k < 7; k++)
                most = a[i][k][j] > most ? a[i][k][j] : most;
            float sum = 0.0f;
            for (int k = 0; k < 7; k++)
                sum += a[i][k][j] - most;
            for (int k = 0; k < 7; k++)
                o[i][k][j] = (a[i][k][j] - most) / sum;
        }
"""
NORM = """
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0.0f;
            for (int k = 0; k < 7; k++)
                sum += a[i][k][j];
            float mean = sum / 7;
            float squares = 0.0f;
            for (int k = 0; k < 7; k++) {
                float d = a[i][k][j] - mean;
                squares += d * d;
            }
            for (int k = 0; k < 7; k++)
                o[i][k][j] = (a[i][k][j] - mean) / (squares + 1);
        }
"""
ALONE = """
    for (int j = 0; j < n; j++) {
        float sum = 0.0f;
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 7; k++)
                sum += a[i][k][j];
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 7; k++)
                o[i][k][j] = a[i][k][j] - sum;
    }
"""


def program(body: str, n: int) -> str:
    text = f"{HEAD}\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"
    return text.replace("[n]", f"[{n}]").replace("< n", f"< {n}")


def scop_of(text: str) -> Scop:
    (scop,) = polydl.load(text).scops
    return scop


def steps(scop: Scop) -> list[Step]:
    return [step for step in canonical(scop).steps if isinstance(step.rewrite, Columns)]


@pytest.mark.parametrize("body", [SOFTMAX, NORM, ALONE], ids=["softmax", "norm", "alone"])
@pytest.mark.parametrize("n", [16, 600])
def test_neighbours_are_innermost(body: str, n: int) -> None:
    (step,) = steps(scop_of(program(body, n)))
    assert step.broken() is None
    assert not canonical(scop_of(program(body, n))).refused
    rows = [array for name, array in step.after.arrays.items() if name.endswith("_row")]
    assert rows and all(array.shape == (STRIP,) for array in rows)
    assert not steps(step.after)


@pytest.mark.parametrize(
    "body",
    [
        SOFTMAX.replace("j < n", "j < 7").replace("k < 7", "k < n").replace("[k][j]", "[j][k]"),  # rows
        SOFTMAX.replace("j < n", "j < 8"),  # no vector of columns
        SOFTMAX.replace("k < 7", "k < 7 - i"),  # a triangle
        SOFTMAX.replace("a[i][k][j] > most", "a[i][k][39 - j] > most"),
        ALONE.replace("sum += a[i][k][j]", "sum += a[i][k][j] + o[i][k][0]"),  # the next column needs it
        "float s = 0.0f; for (int j = 0; j < n; j++) for (int k = 0; k < 7; k++) s += a[0][k][j]; o[0][0][0] = s;",
    ],
)
def test_others_stay(body: str) -> None:
    assert steps(scop_of(program(body, 40))) == []


def expected(body: str, a: np.ndarray) -> np.ndarray:
    """In double precision."""
    if body is SOFTMAX:
        shifted = a - a.max(1, keepdims=True)
        found: np.ndarray = shifted / shifted.sum(1, keepdims=True)
    elif body is NORM:
        centred = a - a.mean(1, keepdims=True)
        found = centred / ((centred**2).sum(1, keepdims=True) + 1)
    else:
        found = a - a.sum((0, 1))
    return found


@pytest.mark.parametrize("body", [SOFTMAX, NORM, ALONE], ids=["softmax", "norm", "alone"])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_is_computed(body: str, threads: int) -> None:
    """Sizes that end within a strip, and at one; more rows than a strip."""
    for n in (17, STRIP, 2 * STRIP + 3):
        compiled = polydl.compile(program(body, n), tune=False, threads=threads)
        a = np.random.default_rng(n).standard_normal((3, 7, n)).astype(np.float32)
        o = np.full_like(a, np.nan)
        compiled(a, o)
        np.testing.assert_allclose(o, expected(body, a.astype(np.float64)), rtol=1e-3, atol=1e-4)


DEPTHWISE = """
void f(const float a[10][11][16], const float w[3][3][16], const float b[16], float o[restrict 8][9][16])
{
#pragma scop
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 9; x++)
            for (int c = 0; c < 16; c++) {
                float sum = 0;
                for (int l = 0; l < 3; l++)
                    for (int m = 0; m < 3; m++)
                        sum += a[y + l][x + m][c] * w[l][m][c];
                float biased = sum + b[c];
                float least = biased < 0 ? 0 : biased;
                o[y][x][c] = least > 6 ? 6 : least;
            }
#pragma endscop
}
"""


def test_what_follows_sums_in_registers_ends_their_blocks() -> None:
    """Scalars between such sums and the results need no rows: they are part of what is done to each sum."""
    assert steps(scop_of(DEPTHWISE)) == []
    sums, result = canonical(scop_of(DEPTHWISE)).scop.statements[-2:]
    assert [a.array for a in result.accesses if not a.write].count(sums.target.array) >= 1
    kernel = polydl.compile(DEPTHWISE, {}, tune=False)
    rng = np.random.default_rng(0)
    a, w, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((10, 11, 16), (3, 3, 16), (16,)))
    o = np.full((8, 9, 16), np.nan, np.float32)
    kernel(a=a, w=w, b=b, o=o)
    expected = sum(a[y : y + 8, x : x + 9] * w[y, x] for y in range(3) for x in range(3)) + b
    np.testing.assert_array_equal(o, np.clip(expected, 0, 6))
