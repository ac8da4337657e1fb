"""What is said to the compiler about branches changes no value: `__builtin_expect`, in bounds and in conditions."""

from __future__ import annotations

import pytest

from polydl import load
from polydl.model import isl

TEXT = """
#define likely(x) __builtin_expect(!!(x), 1)
void scale(int n, float *restrict x, const float *restrict y)
{{
    int i;
    for (i = 0; {bound}; i++)
        x[i] = 2.0f * y[i];
}}
"""


@pytest.mark.parametrize("bound", ["__builtin_expect(i < n, 1)", "likely(i < n)"])
def test_bounds(bound: str) -> None:
    (plain,) = load(TEXT.format(bound="i < n"), sizes={"n": 40}).scops
    (hinted,) = load(TEXT.format(bound=bound), sizes={"n": 40}).scops
    assert isl.greatest(hinted.statements[0].domain, 0) == 39
    assert hinted.statements[0].domain.is_equal(plain.statements[0].domain)
    assert hinted.statements[0].body == plain.statements[0].body


def test_the_value_is_a_long() -> None:
    text = "void f(int n, float *restrict x, const float *restrict y) { for (int i = 0; i < n; i++) x[i] = VALUE; }"
    (hinted,) = load(text.replace("VALUE", "__builtin_expect(y[i], 1)"), sizes={"n": 40}).scops
    (cast,) = load(text.replace("VALUE", "((long)(y[i]))"), sizes={"n": 40}).scops
    assert hinted.statements[0].body == cast.statements[0].body
