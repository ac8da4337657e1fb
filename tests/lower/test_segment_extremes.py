"""Extremes, and other steps, over segments (the greatest of a node's neighbours) in microkernels: the bits that the
loops as they are written leave, for any pattern, at any size."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import polydl
from polydl.model.expr import Binary
from polydl.target.isa import kernel_contraction
from tests.oracle.native import QUICK_NATIVE, compile_c

pytestmark = pytest.mark.few_sizes

HEAD = """#include <math.h>
void f(int n, int k, const int *restrict ptr, const int *restrict idx, const {t} *restrict val,
       const {t} (*restrict x)[k], {t} (*restrict y)[k])
"""
CASES = {
    "a choice, from a number": ("float", """
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < k; j++) y[i][j] = -INFINITY;
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int j = 0; j < k; j++)
                y[i][j] = x[idx[p]][j] > y[i][j] ? x[idx[p]][j] : y[i][j];
    }
"""),
    "a condition with a name, zero for rows without entries": ("double", """
    for (int i = 0; i < n; i++)
        for (int j = 0; j < k; j++) {
            double m = INFINITY;
            for (int p = ptr[i]; p < ptr[i + 1]; p++) {
                const double a = x[idx[p]][j];
                if (a < m) m = a;
            }
            y[i][j] = ptr[i] < ptr[i + 1] ? m : 0;
        }
"""),
    "a choice that no number gives way in, from what is there": ("float", """
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int j = 0; j < k; j++)
                y[i][j] = x[idx[p]][j] > y[i][j] || y[i][j] != y[i][j] ? x[idx[p]][j] : y[i][j];
"""),
    "least costs": ("float", """
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++) {
            const int c = idx[p];
            for (int j = 0; j < k; j++)
                if (val[p] + x[c][j] <= y[i][j]) y[i][j] = val[p] + x[c][j];
        }
"""),
    "sums without values": ("float", """
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < k; j++) y[i][j] = 0;
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int j = 0; j < k; j++) y[i][j] += x[idx[p]][j];
    }
"""),
}  # fmt: skip
"""By what they are the type of elements and the loops."""


def source(name: str) -> str:
    element, loops = CASES[name]
    return f"{HEAD.format(t=element)}{{\n{loops}}}\n"


def result(library: ctypes.CDLL, element: str, n: int, k: int, seed: int) -> np.ndarray:
    """What a library leaves of a pattern with rows without entries and one long row, and of values with numbers that
    are none, and zeros of both signs."""
    rng, dtype = np.random.default_rng(seed), np.float32 if element == "float" else np.float64
    counts = rng.integers(0, 7, n) * (np.arange(n) % 3 != 1)
    counts[n // 2 : n // 2 + 1] = 500
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    idx = rng.integers(0, 9, ptr[-1]).astype(np.int32)
    values = np.array([-2, -1, -0.0, 0, 1, 2, 3, np.nan], dtype)
    val, x, y = (rng.choice(values, shape) for shape in (len(idx), (9, k), (n, k)))
    arrays = [one.ctypes.data_as(ctypes.c_void_p) for one in (ptr, idx, val, x, y)]
    library.f(n, k, *arrays)
    return y


@pytest.mark.parametrize("name", CASES)
def test_steps_leave_the_bits_of_the_loops(name: str) -> None:
    text, element = source(name), CASES[name][0]
    written = compile_c([text], ("-O1", "-Werror=all"))
    for sizes in ({"n": 30, "k": 33}, {}):
        made = polydl.optimize(text, run=False, sizes=sizes, threads=3, space="small")
        assert "polydl_mk_" in made.text
        library = compile_c([made.text], (*QUICK_NATIVE, "-Werror=all"))
        for n, k in [(30, 33), (0, 5), (1, 1), (13, 7), (40, 130), (5, 0)]:
            wanted, got = (result(one, element, n, k, seed=n) for one in (written, library))
            assert np.array_equal(wanted, got, equal_nan=True), (sizes, n, k)
            if "+=" not in text:  # the sign and the digits of no number, too
                assert wanted.tobytes() == got.tobytes(), (sizes, n, k)


def test_sums_that_keep_their_order_are_steps() -> None:
    text = source("sums without values").replace("+= x", "+= val[p] * x")
    for reassociate in (True, False):
        (scop,) = polydl.load(text, sizes={"n": 40, "k": 72}).scops
        ranking = polydl.rank(scop, options=polydl.Options(reassociate=reassociate))
        found = [kernel_contraction(ranking.scop, s) for s in ranking.scop.statements]
        (one,) = (one for one in found if one is not None)
        assert isinstance(one.step, Binary) is not reassociate
