"""Values of slow functions that iterations share are computed once, into a table."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.model import isl
from polydl.model.counting import count
from polydl.model.scop import Scop
from polydl.rewrite.canonical import canonical
from polydl.rewrite.tabulate import Tabulated

LATTICE = """
void lattice(int n, float s, float k, float p, float u, float *restrict v)
{{
    for (int step = n - 1; step >= 0; step--)
        for (int i = 0; i <= step; i++)
            v[i] = fmaxf(p * v[i + 1] + (1 - p) * v[i], {now});
}}
"""


def tables(body: str, **sizes: int) -> tuple[list[Tabulated], Scop]:
    (scop,) = polydl.load("#include <math.h>\n" + body, sizes=sizes).scops
    found = canonical(scop)
    assert not found.refused
    return [s.rewrite for s in found.steps if isinstance(s.rewrite, Tabulated)], found.scop


def made(scop: Scop) -> int:
    """Instances of the statements that make tables."""
    every = [s for s in scop.statements if s.target.array.endswith("_table") or "_table" in s.target.array]
    return sum(count(s.domain).lower for s in every)


@pytest.mark.parametrize(
    ("now", "calls"),
    [
        ("k - s * powf(u, 2 * i - step)", [99 * 2 + 2]),
        ("k - s * powf(u, step - 2 * i)", [99 * 2 + 2]),
        ("k - s * expf(logf(u) * (2 * i - step))", [200]),
        ("k - s * powf(u, i) * powf(p, step - i)", [100, 100]),
        ("k - s * powf(u, i)", [100]),
        ("k - s * powf(u, 3 * i + 3 * step)", [199]),
        ("k > s ? powf(u, 3 * i - step) : expf(p)", [3 * 100]),
    ],
)
def test_a_value_is_made_once_for_each_argument(now: str, calls: list[int]) -> None:
    found, scop = tables(LATTICE.format(now=now), n=100)
    assert len(found) == len(calls)
    assert made(scop) == sum(calls)


def test_neighbours_along_the_innermost_loop_lie_side_by_side() -> None:
    found, scop = tables(LATTICE.format(now="k - s * powf(u, 2 * i - step)"), n=100)
    (reading,) = (s for s in scop.statements if s.target.array == "v")
    (access,) = (a for a in reading.accesses if a.array == found[0].table)
    there = isl.pairs(access.relation.intersect_domain(isl.fix(reading.domain, "step", 40)))
    assert sorted((i, place) for (_, i), (_, place) in there) == [(i, 29 + i) for i in range(41)]
    assert len({row for _, (row, _) in there}) == 1
    assert scop.arrays[found[0].table].shape == (2, 100)


@pytest.mark.parametrize(
    "now",
    [
        "k - s * powf(u, 100 * i - step)",  # another value in each iteration
        "k - s * powf(v[i], 2.0f)",  # of what the loops change
        "k - s * sqrtf(step)",  # an instruction
        "k - s * powf(u, i * step)",
        "k - s * powf(u, p)",  # no loop has a part in it: compilers keep it in a register
    ],
)
def test_others_stay_where_they_are(now: str) -> None:
    assert tables(LATTICE.format(now=now), n=100)[0] == []


def test_what_an_iteration_of_an_outer_loop_reads_has_a_table_in_it() -> None:
    body = """
    void each(int m, int n, const double *restrict rate, double out[restrict m])
    {
        for (int o = 0; o < m; o++) {
            double u = rate[o] + 1, sum = 0;
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++)
                    sum += pow(u, i + j);
            out[o] = sum;
        }
    }
    """
    (found,), scop = tables(body, m=4, n=50)
    (making,) = (s for s in scop.statements if s.target.array == found.table)
    assert making.depth == 2 and count(making.domain).lower == 4 * 99


def test_what_does_not_fit_beside_the_data_stays() -> None:
    body = """
    void large(int n, const float a[restrict n], float out[restrict n])
    {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                for (int k = 0; k < n; k++)
                    out[k] += expf(a[i] * a[j]);
    }
    """
    found, scop = tables(body, n=60)
    assert all(len(scop.arrays[one.table].extents) == 1 for one in found)


def test_elements_that_are_not_there_are_not_read() -> None:
    body = """
    void gaps(int n, const double x[restrict 3 * n + 3], double y[restrict n][n])
    {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < i; j++)
                y[i][j] = exp(x[3 * i - 3 * j]);
    }
    """
    (found,), scop = tables(body, n=60)
    (making,) = (s for s in scop.statements if s.target.array == found.table)
    (read,) = (a for a in making.accesses if not a.write)
    assert count(read.relation.range()).lower == 59


@pytest.mark.parametrize("n", [1, 2, 37, 100])
def test_the_same_is_computed(n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    body = "#include <math.h>\n" + LATTICE.format(now="k - s * powf(u, 2 * i - step)")
    kernel = polydl.compile(body, sizes={"n": n}, tune=False, threads=1)
    assert ("polydl_powf_table" in kernel.source) == (n > 2)
    v = np.arange(n + 1, dtype=np.float32)[::-1].copy()
    want = v.astype(float)
    kernel(2.0, 30.0, 0.5, 1.0625, v)
    for step in range(n - 1, -1, -1):
        for i in range(step + 1):
            want[i] = max(0.5 * want[i + 1] + 0.5 * want[i], 30 - 2 * math.pow(1.0625, 2 * i - step))
    np.testing.assert_allclose(v, want, rtol=1e-4)
