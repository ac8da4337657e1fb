"""Rows of which threads have their own, in files that include nothing, of lengths that show at run time."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import polydl
from tests.efforts import FEW
from tests.oracle.native import compile_c

TURNED = """void f(int n, int m, const float x[restrict n][m], float y[restrict n][m])
{
    float row[m + 1];
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < m; j++)
            row[m - j] = x[i][j] * 2;
        for (int j = 0; j < m; j++)
            y[i][j] = row[j + 1] + row[m - j];
    }
}
"""


@pytest.mark.parametrize(("n", "m"), [(0, 4), (1, 1), (17, 65), (3, 40000)])
def test_each_thread_has_its_row_at_every_length(n: int, m: int) -> None:
    (done,) = polydl.optimize(TURNED, run=False, effort=FEW).scops
    variant = next(v for v in done.ranking.variants if "private(row)" in v.region())
    given = np.arange(n * m, dtype=np.float32).reshape(n, m)
    results = []
    for text in (TURNED, variant.code()):
        out = np.zeros_like(given)
        library = compile_c([text], ("-O1", "-fopenmp", "-Werror"))
        library.f(n, m, given.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p))
        results.append(out)
    assert np.array_equal(*results)
