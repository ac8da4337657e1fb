"""The comparison: exact where it must be, bounded where the bound is proven, and the worst element named."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydl.measure import compare
from polydl.measure.compare import arithmetic, difference
from polydl.measure.tolerance import gamma, roundings, tolerances
from polydl.model.expr import AffineValue, Binary, Call, Conditional, Const, Convert, Expr, Load, Unary
from polydl.model.types import F32, F64, ElementType
from tests.measure.builders import array, extent, matmul, scop, statement


def test_gamma() -> None:
    unit = F32.roundoff
    assert gamma(unit) == pytest.approx(unit, rel=1e-6)
    assert gamma(1000 * unit) == pytest.approx(1000 * unit / (1 - 1000 * unit))
    assert gamma(2**24 * unit) == 1.0  # no digit is left
    assert gamma(0) == 0.0


@given(st.integers(1, 400), st.integers(0, 2**32 - 1))
def test_the_bound_holds_for_any_order(n: int, seed: int) -> None:
    """Two orders of the same float sum of products are within 2·gamma(n)·Σ|terms| of each other."""
    rng = np.random.default_rng(seed)
    terms = (rng.uniform(-1, 1, n).astype("f4") * rng.uniform(-1, 1, n).astype("f4")).astype("f4")
    forwards, backwards = np.add.accumulate(terms)[-1:], np.add.accumulate(terms[::-1])[-1:]
    magnitude = np.array([np.abs(terms).sum(dtype="f8")]).astype("f4")
    assert difference("C", backwards, forwards, magnitude, 2 * gamma((n + 1) * F32.roundoff)).worst is None


def test_exact_comparison_names_the_worst_element(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "_CHUNK", 7)  # several chunks
    expected = np.arange(60, dtype="f4").reshape(3, 4, 5)
    assert difference("C", expected.copy(), expected, None, 0.0) == compare.Difference(0.0, None)
    value = expected.copy()
    value[1, 2, 3] += 2
    value[2, 3, 4] -= 5
    value[0, 0, 1] += 1
    found = difference("C", value, expected, None, 0.0)
    assert found.max_error == 5.0
    assert found.worst is not None
    assert found.worst.indices == (2, 3, 4)
    assert str(found.worst) == "C[2][3][4] is 54.0, the original computes 59.0 (allowed difference 0)"


def test_non_finite_elements() -> None:
    expected = np.array([np.nan, np.inf, -np.inf, 1, 0], dtype="f4")
    same = np.array([np.nan, np.inf, -np.inf, 1, -0.0], dtype="f4")
    assert difference("x", same, expected, None, 0.0).worst is None
    for k, bad in ((0, 1.0), (1, -np.inf), (2, np.nan), (3, np.nan), (3, np.inf)):
        value = same.copy()
        value[k] = bad
        for tolerance in (0.0, 1e-3):
            found = difference("x", value, expected, None, tolerance)
            assert found.worst is not None, (k, bad)
            assert found.worst.indices == (k,)
            assert found.max_error == np.inf


def test_magnitude_admits_cancellation_and_nothing_more() -> None:
    expected = np.array([1e-6, 1e-6], dtype="f4")
    value = expected + np.array([0, 1e-5], dtype="f4")
    assert difference("x", value, expected, np.array([1, 100], "f4"), 1e-6).worst is None
    found = difference("x", value, expected, np.array([1, 1], "f4"), 1e-6)
    assert found.worst is not None
    assert found.worst.indices == (1,)
    assert found.worst.bound == pytest.approx(1e-6)


def test_without_magnitude_the_array_sets_the_scale() -> None:
    expected = np.array([100, 1e-6], dtype="f4")
    assert difference("x", expected + np.array([0, 1e-5], "f4"), expected, None, 1e-6).worst is None
    assert difference("x", expected + np.array([0, 1e-3], "f4"), expected, None, 1e-6).worst is not None


def test_integers_do_not_wrap() -> None:
    expected, value = np.array([250], "u1"), np.array([3], "u1")
    found = difference("x", value, expected, None, 0.0)
    assert found.max_error == 247
    assert found.worst is not None
    assert (found.worst.value, found.worst.expected) == (3, 250)


TWO = Const("2.0f")


@pytest.mark.parametrize(
    ("value", "op", "rounded", "singular", "monotone"),
    [
        (Binary("*", Load(0), TWO), "=", {F32: 1}, False, True),
        (Binary("+", Binary("*", Load(0), TWO), Load(0)), "+=", {F32: 2}, False, True),
        (Binary("-", Load(0), TWO), "=", {F32: 1}, False, False),
        (Binary("*", Load(0), Const("-2")), "=", {F32: 1}, False, False),
        (Unary("-", Load(0)), "=", {}, False, False),
        (Load(0), "-=", {}, False, False),
        (Load(0), "/=", {}, True, False),
        (Binary("/", Load(0), TWO), "=", {F32: 1}, True, False),
        (Call("sqrtf", (Binary("*", Load(0), TWO),), F32), "=", {F32: 9}, True, False),
        (Convert(F32, F32, Load(0)), "=", {}, False, True),
        (Convert(F32, F64, Load(0)), "=", {F32: 1}, False, True),
        (Conditional(Binary(">", Load(0), TWO), Load(0), TWO), "=", {}, False, False),
        (AffineValue(extent(3)), "=", {F32: 1}, False, False),
    ],
)
def test_arithmetic(value: Expr, op: str, rounded: dict[ElementType, int], singular: bool, monotone: bool) -> None:
    one = statement("{ S0[i] : 0 <= i < 9 }", ("y", "i"), (("x", "i"),), value, op)
    text = "void kernel(void)\n{\n#pragma scop\n;\n#pragma endscop\n}\n"
    program = scop(text, (array("x", 9), array("y", 9)), (one,))
    assert arithmetic(program) == compare.Arithmetic(singular, monotone)
    found, added = roundings(program, one)
    assert {element: times for element, times in found.items() if element.rounds} == rounded
    assert added == (None if op == "=" else F32.roundoff)


def test_arithmetic_looks_into_microkernel_calls() -> None:
    from polydl.model.scop import MicrokernelCall

    program = matmul()
    inner = program.statements[0]
    call = dataclasses.replace(inner, name="S1", body=MicrokernelCall("f", (), (inner,), "loops"))
    program = dataclasses.replace(program, statements=(call,))
    assert arithmetic(program) == compare.Arithmetic(False, True)
    n = program.arrays["A"].shape[1]
    assert n is not None
    assert tolerances(program)["C"] == pytest.approx(2 * (n + 2) * F32.roundoff, rel=1e-3)
