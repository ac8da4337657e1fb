"""Loops whose quotients are subscripts of sums become two, and what is computed stays."""

from __future__ import annotations

import numpy as np
import pytest

import polydl
from polydl.equations.step import Step
from polydl.model import isl
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.rewrite.canonical import canonical
from polydl.rewrite.div_mod_splitting import DivModSplitting
from polydl.target.isa import has_register_blocks

pytestmark = pytest.mark.few_sizes

GROUPED = """
void f(const float Q[restrict 8][20][16], const float K[restrict 2][24][16], float Y[restrict 8][20])
{
    static float p[8][20][24];
    for (int h = FIRST; h < 8; h++)
        for (int i = 0; i < 20; i++)
            for (int j = 0; j < 24; j++) {
                p[h][i][j] = 0.0f;
                for (int d = 0; d < 16; d++)
                    p[h][i][j] += Q[h][i][d] * K[KEYS][j][d];
            }
    for (int h = 0; h < 8; h++)
        for (int i = 0; i < 20; i++)
            Y[h][i] = p[h][i][3];
}
"""
"""Scores of grouped heads."""

CONVOLUTION = """
void f(const float X[restrict 12][30], const float W[restrict 8][3][5], float Y[restrict 8][26])
{
    for (int o = 0; o < 8; o++)
        for (int x = 0; x < 26; x++) {
            Y[o][x] = 0.0f;
            for (int c = 0; c < 3; c++)
                for (int t = 0; t < 5; t++)
                    Y[o][x] += W[o][c][t] * X[o / 2 * 3 + c][x + t];
        }
}
"""


def scop_of(text: str) -> Scop:
    (scop,) = polydl.load(text).scops
    return scop


def grouped(keys: str = "h / 4", first: int = 0) -> str:
    return GROUPED.replace("KEYS", keys).replace("FIRST", str(first))


def steps(scop: Scop) -> list[Step]:
    return [step for step in canonical(scop).steps if isinstance(step.rewrite, DivModSplitting)]


@pytest.mark.parametrize("text", [grouped(), grouped("h % 2"), CONVOLUTION])
def test_sums_are_contractions(text: str) -> None:
    scop = scop_of(text)
    assert not any(has_register_blocks(scop, s) for s in scop.statements if s.depth > 3)
    found = canonical(scop)
    assert not found.refused and len(steps(scop)) == 1
    assert any(has_register_blocks(found.scop, s) for s in found.scop.statements)


def test_who_uses_the_values_is_taken_apart_alike() -> None:
    (step,) = steps(scop_of(grouped()))
    assert [(s.name, s.iterators[:2]) for s in step.after.statements] == [
        (name, ("h", "h0")) for name in ("S0d", "S1d", "S2d")
    ]
    for s in step.after.statements:
        assert [isl.greatest(s.domain, d) for d in (0, 1)] == [1, 3]


@pytest.mark.parametrize("text", [grouped("h"), grouped(first=2), grouped("(h + 1) / 5")])
def test_others_stay(text: str) -> None:
    assert steps(scop_of(text)) == []


def test_the_check_sees_another_order_of_digits() -> None:
    (step,) = steps(scop_of(CONVOLUTION))
    assert step.broken() is None
    (other,) = steps(scop_of(CONVOLUTION.replace("o / 2 * 3", "o / 4 * 3")))
    assert step.rewrite.broken(step.before, other.after) is not None


@pytest.mark.parametrize("text", [grouped(), grouped("h % 2"), CONVOLUTION])
def test_results_stay(text: str) -> None:
    result = polydl.optimize(text, options=Options(space="small", top_k=2, threads=2))
    (done,) = result.scops
    assert done.report is not None
    assert done.usable and all(m.verified for m in done.report.measurements)


@pytest.mark.parametrize("place", ["(9 - i) / 3", "2 - i / 3"])
def test_a_quotient_that_falls_is_right(place: str) -> None:
    """isl writes the first as 3 + floor(-i / 3): no loop over such a quotient goes upwards."""
    text = (
        "void f(float c[restrict 8], const float a[restrict 4][8], const float b[restrict 9])\n{\n"
        f"for (int j = 0; j < 8; j++) for (int i = 0; i < 9; i++) c[j] += a[{place}][j] * b[i];\n}}\n"
    )
    compiled = polydl.compile(text, tune=False, threads=1)
    rng = np.random.default_rng(3)
    c, a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in (8, (4, 8), 9))
    rows = [eval(place.replace("/", "//"), {"i": i}) for i in range(9)]
    expected = c + b @ a[rows]
    compiled(c, a, b)
    np.testing.assert_array_equal(c, expected)


KEPT = """long f(int a[restrict 6], int b[restrict 6])
{
    long s = 0;
    for (int i = 0; i < 6; i++)
        s += a[i / 2];
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            if (b[j] < 0)
                break;
            b[j] = a[i];
        }
    return s;
}
"""


def test_a_kept_statement_beside_a_quotient_is_left_alone() -> None:
    """What it touches is no function of the loops around."""
    scop = scop_of(KEPT)
    assert any(not access.relation.is_single_valued() for s in scop.statements for access in s.accesses)
    assert {name for step in steps(scop) for name, *_ in step.rewrite.places} <= {"S0"}


TILED = """void f(int p[restrict 65], int x[restrict 64], double v[restrict 999], double y[restrict 64])
{
    for (int ii = 0; ii < 64; ii += 16)
        for (int i = ii; i < ii + 16; i++) {
            double s = 0;
            for (int k = p[i]; k < p[i + 1]; k++)
                s += v[k];
            y[i] = s;
        }
}
"""


def test_tiles_around_rows_that_data_bound() -> None:
    assert canonical(scop_of(TILED)).scop.statements
