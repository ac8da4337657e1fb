"""Code for one thread has no parallel regions: entering one takes longer than many a small loop."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import polydl
from tests.oracle.native import compile_c

FLAGS = ("-O1", "-march=native", "-fopenmp", "-ffp-contract=off", "-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Werror")
PROGRAMS = {
    "short loops": (
        "void f(int n, const float *restrict x, float *restrict y)",
        "for (int k = 0; k < n; k++) { y[k] = 0; for (int i = 0; i < 8; i++) y[k] += x[k * 8 + i]; }",
    ),
    "a sum": (
        "void f(int n, const float *restrict x, float *restrict y)",
        "y[0] = 0; for (int i = 0; i < 8 * n; i++) y[0] += x[i] * x[i];",
    ),
    "time steps": (
        "void f(int n, const float *restrict x, float *restrict y)",
        "for (int t = 0; t < 4; t++) for (int i = 1; i < n - 1; i++) y[i] = y[i - 1] + y[i + 1] - y[i] + x[i];",
    ),
    "chains": (
        "void f(int n, const float *restrict x, float *restrict y)",
        "for (int i = 0; i < n; i++) { float r = x[i]; for (int k = 0; k < 300; k++) r = 1 - r; y[i] = r; }",
    ),
    "copies": (
        "void f(int n, const float *restrict x, float *restrict y)",
        "for (int i = 0; i < n; i++) y[i] = x[i] + x[i + n] + x[i + 2 * n];",
    ),
}
"""The head of the function, and its body."""


def _text(name: str) -> str:
    head, body = PROGRAMS[name]
    return f"{head}\n{{\n#pragma scop\n    {body}\n#pragma endscop\n}}\n"


@pytest.mark.few_sizes
@pytest.mark.parametrize("n", [96, 1 << 20])
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_parallel_region_on_one_thread(name: str, n: int) -> None:
    """Whichever of the first variants is taken, at the tuned size and at others."""
    texts = {
        threads: polydl.optimize(
            _text(name), run=False, machine="epyc-zen4", threads=threads, sizes={"n": n}, space="small"
        ).text
        for threads in (1, 2)
    }
    assert "omp parallel" not in texts[1]
    ranked = polydl.rank(_text(name), "small", "epyc-zen4", threads=1, sizes={"n": n})
    assert not any("omp parallel" in variant.code() for variant in ranked.variants[:20] if variant.illegal is None)
    assert name == "time steps" or n == 96 or "omp parallel" in texts[2]


@pytest.mark.few_sizes
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_it_computes(name: str) -> None:
    """At the tuned size, at odd ones and at none."""
    text = _text(name)
    made = polydl.optimize(text, run=False, machine="epyc-zen4", threads=1, sizes={"n": 96}, space="small").text
    original, optimized = compile_c([text], FLAGS), compile_c([made], FLAGS)
    for n in (0, 1, 2, 7, 95, 96, 97, 1003):
        x = np.random.default_rng(n).integers(-4, 5, 8 * n + 8).astype(np.float32)
        results = []
        for each in (original, optimized):
            y = np.zeros(n + 1, np.float32)
            each.f(n, ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data))
            results.append(y)
        np.testing.assert_array_equal(results[0], results[1], err_msg=str(n))
