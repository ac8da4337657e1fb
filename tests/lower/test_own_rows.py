"""Rows of which threads have their own, in files that include nothing, of lengths that show at run time."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import polydl
from polydl.search.sizes.code import EverySize
from tests.oracle.native import compile_c

pytestmark = pytest.mark.few_sizes

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


def results(text: str, n: int, m: int) -> np.ndarray:
    given = np.arange(n * m, dtype=np.float32).reshape(n, m)
    out = np.zeros_like(given)
    library = compile_c([text], ("-O1", "-fopenmp", "-Werror"))
    library.f(n, m, given.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p))
    return out


SIZES = [(0, 4), (1, 1), (17, 65), (3, 40000), (700, 3000)]


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_each_thread_has_its_row_at_every_length(n: int, m: int) -> None:
    (done,) = polydl.optimize(TURNED, run=False).scops
    variant = next(v for v in done.ranking.variants if "private(row)" in v.region())
    assert np.array_equal(results(TURNED, n, m), results(variant.code(), n, m))


def test_code_for_other_sizes_has_rows_of_threads() -> None:
    """Tuned at one size, called at others: what runs there is the part for any size, in one of them with rows."""
    made = polydl.optimize(TURNED, run=False, sizes={"n": 300, "m": 2000})
    found = made.scops[0].other_sizes
    assert isinstance(found, EverySize)
    assert "private(row)" in found.generated.region
    taken = {found.tree.at({"n": n, "m": m}).id for n, m in SIZES}
    assert len(taken) > 1 or "original" not in taken
    for n, m in SIZES:
        assert np.array_equal(results(TURNED, n, m), results(made.text, n, m)), (n, m)
