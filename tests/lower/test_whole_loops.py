"""What runs in the last iteration of a parallel loop stays in it where it uses what each thread has of its own."""

from __future__ import annotations

import numpy as np
import pytest

import polydl

HEAD = "void f(const double a[restrict n + 8], double b[restrict n], double x[restrict 8])"
SCALAR = """
    for (int i = 0; i < n; i++) {
        double s = a[i] * 2;
        for (int k = 0; k < 8; k++)
            s += a[i + k] / (1.0 + s);
        b[i] = s;
        if (i == AT)
            x[0] = s + 1;
    }
"""
ARRAY = """
    for (int i = 0; i < n; i++) {
        double s[8];
        for (int k = 0; k < 8; k++)
            s[k] = a[i + k] / (1.0 + a[i]);
        for (int k = 1; k < 8; k++)
            s[k] = s[k - 1] / (1.0 + s[k]);
        b[i] = s[7];
        if (i == AT)
            for (int k = 0; k < 8; k++)
                x[k] = s[k] + 1;
    }
"""
N = 4096


def expected(body: str, a: np.ndarray, at: int) -> tuple[np.ndarray, np.ndarray]:
    """b and x, from zeros."""
    x = np.zeros(8)
    if body is SCALAR:
        s = a[:N] * 2
        for k in range(8):
            s = s + a[k : N + k] / (1 + s)
        x[0] = s[at] + 1
        return s, x
    rows = np.array([a[k : N + k] / (1 + a[:N]) for k in range(8)])
    for k in range(1, 8):
        rows[k] = rows[k - 1] / (1 + rows[k])
    return rows[7], rows[:, at] + 1


@pytest.mark.parametrize("at", [N - 1, 0])
@pytest.mark.parametrize("body", [SCALAR, ARRAY], ids=["scalar", "array"])
def test_the_last_value_is_seen(body: str, at: int) -> None:
    text = f"{HEAD}\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"
    sizes = {"restrict n + 8]": f"restrict {N + 8}]", "restrict n]": f"restrict {N}]", "< n": f"< {N}"}
    for name, value in sizes.items():
        text = text.replace(name, value)
    kernel = polydl.compile(text.replace("AT", str(at)), {}, tune=False, threads=2)
    assert "private(s)" in kernel.source
    a = np.random.default_rng(0).random(N + 8)
    b, x = np.zeros(N), np.zeros(8)
    kernel(a, b, x)
    for found, wanted in zip((b, x), expected(body, a, at), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
