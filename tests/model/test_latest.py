"""The greatest of what points are related to, by isl and by what none follows."""

from __future__ import annotations

import pytest

import polydl
from polydl.model import isl

RELATIONS = (
    "{ A[i] -> [j] : 0 <= j <= i < 9 }",
    "[n] -> { A[i] -> [j, k] : 0 <= j < n and 0 <= k <= j + i and i >= 0 }",
    "{ A[i] -> [j] : 0 <= j < 20 and j mod 3 = i mod 3 }",
)


@pytest.mark.parametrize("text", RELATIONS)
def test_it_is_lexmax_where_isl_answers_and_where_it_does_not(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = isl.Map(text)
    expected = pairs.lexmax()
    assert isl.latest(pairs).is_equal(expected)

    def refuses(self: isl.Map) -> isl.Map:
        raise isl.Error("affine expression involves some of the domain dimensions")

    monkeypatch.setattr(isl.Map, "lexmax", refuses)
    assert isl.latest(pairs).is_equal(expected)


def test_a_program_for_which_isl_refuses_is_optimized() -> None:
    text = """
void f(unsigned char a[restrict 8], short b[restrict 8])
{
    for (long i = 8; i-- > 0;)
        for (int j = i; j < 8; j++)
            a[(i + 1) % 8] = b[i];
}
"""
    assert not polydl.optimize(text, run=False, space="small").checked.faults
