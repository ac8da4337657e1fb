"""Loops may count in `long`, where C's variables were `int`: beside `unsigned` the difference is seen."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import polydl
from polydl.options import Options
from tests.oracle.native import NATIVE, PLAIN, compile_c

VALUES = (
    "(b[i] - i) % 100u",
    "(b[i] - (i + 3)) >> 1",
    "b[i] < i - 9",
    "(b[i] > 3 ? i - 9 : b[i]) / 3u",
    "(i - 3) * (i + 1) * b[i] % 7u",
    "(b[i] & i - 20) / 5u",
)


@pytest.mark.parametrize("value", VALUES)
def test_unsigned_wraps(value: str) -> None:
    text = f"""void f(const unsigned b[restrict 32], unsigned long c[restrict 32])
{{
    for (int i = 0; i < 32; i++)
        c[i] = {value};
}}
"""
    done = polydl.optimize(
        text, options=Options(space="small", machine="epyc-zen5", threads=2, oracle=False, prove=True), run=False
    )
    assert "(int)" in done.text
    (one,) = done.scops
    assert all(proof.verdict == "proved" for proof in one.proofs.values())
    found = []
    for source, flags in ((text, PLAIN), (done.text, NATIVE)):
        b = np.arange(32, dtype=np.uint32) // 2
        c = np.zeros(32, dtype=np.uint64)
        compile_c([source], flags).f(*(x.ctypes.data_as(ctypes.c_void_p) for x in (b, c)))
        found.append(c)
    assert found[0].tolist() == found[1].tolist()
    assert found[0].any()


def test_a_sum_that_is_divided() -> None:
    """The operator of an assignment converts, too."""
    text = "void f(unsigned c[restrict 32])\n{ for (int i = 0; i < 32; i++) c[i] /= i - 40; }\n"
    done = polydl.optimize(text, options=Options(space="small", machine="epyc-zen5", oracle=False), run=False)
    assert "/= (int)(" in done.text


def test_values_behind_a_condition_that_never_holds_have_c() -> None:
    text = """
void f(unsigned n, int a[restrict 9][9])
{
    for (int i = 0; i < n; i++)
        if (0 < n)
            for (int j = 0; j < n; j++)
                for (int k = 0; k < n; k++)
                    a[i][i] = 13 == 0 ? k / 10 : a[k][k];
}
"""
    assert "void f(unsigned n" in polydl.optimize(text, run=False, sizes={"n": 5}, space="small").text


def test_what_an_unsigned_type_says_is_not_asked() -> None:
    """Compilers warn of comparisons that always hold."""
    text = (
        "void f(unsigned n, unsigned m, const float *x, float *y) { for (long i = 0; i < n + m; i++) y[i] = x[i]; }\n"
    )
    made = polydl.optimize(text, run=False, sizes={"n": 5, "m": 7}, space="small").text
    assert "<= 4294967295" in made and "(long)n >= 0" not in made and "(long)m >= 0" not in made
