"""Polynomials with fractions, and addresses made of them, against brute force."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydl.model.packed import Packed, subscript
from polydl.model.polynomials import Rational, evaluated, is_integer_valued, substituted, summed, whole

ROW, COLUMN = subscript(0), subscript(1)
LOWER = Packed.of(2, {(ROW, ROW): Fraction(1, 2), (ROW,): Fraction(1, 2), (COLUMN,): Fraction(1)})
UPPER = Packed.of(
    2, {(ROW, "n"): Fraction(1), (ROW, ROW): Fraction(-1, 2), (ROW,): Fraction(1, 2), (COLUMN,): Fraction(1)}
)


@st.composite
def polynomials(draw: st.DrawFn) -> Rational:
    """In t and n, with denominators up to 6."""
    monomials = draw(st.lists(st.lists(st.sampled_from("nt"), max_size=3).map(lambda m: tuple(sorted(m))), max_size=4))
    return {m: Fraction(draw(st.integers(-6, 6)) or 1, draw(st.sampled_from([1, 2, 3, 6]))) for m in monomials}


@given(polynomials(), st.integers(0, 7), st.integers(-3, 3))
def test_sums(poly: Rational, t: int, n: int) -> None:
    expected = sum((evaluated(poly, {"t": x, "n": n}) for x in range(t)), Fraction(0))
    assert evaluated(summed(poly, "t"), {"t": t, "n": n}) == expected


@given(polynomials())
def test_integer_valued_is_so_wherever_it_is_tried(poly: Rational) -> None:
    values = [evaluated(poly, {"t": t, "n": n}).denominator == 1 for t in range(-6, 7) for n in range(-6, 7)]
    assert is_integer_valued(poly) == all(values)


def test_substitution() -> None:
    square: Rational = {("t", "t"): Fraction(1, 2)}
    moved = substituted(square, {"t": {("i",): Fraction(2), (): Fraction(2)}})
    assert whole(moved) == {("i", "i"): 2, ("i",): 4, (): 2}
    assert whole(square) is None


@pytest.mark.parametrize("n", [1, 2, 5])
def test_triangles_have_no_gaps(n: int) -> None:
    assert [LOWER.offset((i, j)) for i in range(n) for j in range(i + 1)] == list(range(n * (n + 1) // 2))
    upper = UPPER.sized({"n": n})
    assert [upper.offset((i, j)) for i in range(n) for j in range(n - i)] == list(range(n * (n + 1) // 2))


def test_distances() -> None:
    assert LOWER.distance((0, 3)) == 3
    assert LOWER.distance((1, 0)) is None
    assert UPPER.offset((0, 0)) is None
    line = Packed.of(2, {(ROW,): Fraction(5), (COLUMN,): Fraction(1)})
    assert line.distance((2, -1)) == 9
