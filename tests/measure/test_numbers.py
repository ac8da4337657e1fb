"""Verification of programs that round: what may differ passes, what must not is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polydl.base.errors import ToolchainError
from polydl.lower.emit import Generated
from polydl.measure import Measurement, Status, Toolchain, measure
from polydl.measure import input_data as data
from polydl.measure.driver import Place
from polydl.measure.input_data import Buffer
from polydl.measure.poison import overwritten
from polydl.model.expr import Binary, Call, Const, Expr, Load
from polydl.model.layout import row_major
from polydl.model.types import F32
from tests.measure.builders import QUICK, array, scop, statement

N = 1000


def reduction(expression: str, value: Expr, region: str) -> Measurement:
    """The fate of a candidate for `s[i] += expression`, where s has 4 sums of N terms in x and y."""
    text = f"""\
#include <math.h>
#define N {N}
void kernel(float s[restrict 4], const float x[restrict 4][N], const float y[restrict 4][N])
{{
#pragma scop
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < N; k++)
            s[i] += {expression};
#pragma endscop
}}
"""
    domain = f"{{ S0[i, k] : 0 <= i < 4 and 0 <= k < {N} }}"
    update = statement(domain, ("s", "i"), (("x", "i, k"), ("y", "i, k")), value, "+=")
    program = scop(text, (array("s", 4), array("x", 4, N, const=True), array("y", 4, N, const=True)), (update,))
    report = measure(program, {"v": Generated((), region)}, Toolchain(), QUICK)
    return report.measurements[0]


def backwards(expression: str) -> str:
    """The same sums in another order, in several partial sums."""
    return f"""
for (int i = 0; i < 4; i++) {{
    float part[8] = {{0}};
    for (int k = N - 1; k >= 0; k--) part[k % 8] += {expression};
    for (int p = 0; p < 8; p++) s[i] += part[p];
}}"""


PROGRAMS = {
    "product": ("x[i][k] * y[i][k]", Binary("*", Load(0), Load(1)), "bit for bit on integer-valued inputs"),
    "constant": (
        "0.1f * x[i][k] + y[i][k]",
        Binary("+", Binary("*", Const("0.1f"), Load(0)), Load(1)),
        "within 2·gamma(n)·Σ|terms| of it on reals",
    ),
    "difference": ("x[i][k] - 0.3f * y[i][k]", Binary("-", Load(0), Binary("*", Const("0.3f"), Load(1))), "within"),
    "quotient": ("x[i][k] / y[i][k]", Binary("/", Load(0), Load(1)), "within"),
    "function": (
        "expf(x[i][k]) + sqrtf(y[i][k])",
        Binary("+", Call("expf", (Load(0),), F32), Call("sqrtf", (Load(1),), F32)),
        "within",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_another_order_passes(name: str) -> None:
    expression, value, words = PROGRAMS[name]
    found = reduction(expression, value, backwards(expression))
    assert found.status is Status.VERIFIED, found.message
    assert words in found.message
    assert 0 < found.max_error["s"] < 0.1, "it did round, or the test shows nothing"


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("change", ["a term left out", "a factor of 1.01"])
def test_small_mistakes_are_found(name: str, change: str) -> None:
    expression, value, _ = PROGRAMS[name]
    last, factor = ("N - 1", "1") if change == "a term left out" else ("N", "1.01f")
    region = f"for (int i = 0; i < 4; i++) for (int k = 0; k < {last}; k++) s[i] += ({expression}) * {factor};"
    found = reduction(expression, value, region)
    assert found.status is Status.WRONG, found.message
    assert found.worst is not None
    assert found.worst.array == "s"


def test_exact_on_integers_but_imprecise_on_reals() -> None:
    """Integer-valued inputs cannot show a loss of precision; the reals do."""
    expression, value, _ = PROGRAMS["product"]
    terms = "(float)(_Float16)x[i][k] * (float)(_Float16)y[i][k]"
    region = f"for (int i = 0; i < 4; i++) {{ _Float16 sum = 0; for (int k = 0; k < 8; k++) {{ sum += {terms}; }} "
    region += f"s[i] += sum; for (int k = 8; k < N; k++) s[i] += {terms}; s[i] = (int)s[i] / 1; }}"
    found = reduction(expression, value, region)
    assert found.status is Status.WRONG
    assert "(reals)" in found.message


def test_original_that_needs_alignment() -> None:
    """A region that only works on aligned arrays is measured on aligned arrays."""
    text = """\
#include <stdint.h>
void kernel(float y[restrict 24], const float x[restrict 24])
{
#pragma scop
    for (int i = 0; i < 24; i++)
        y[i] = ((uintptr_t)y % 64 ? *(volatile float *)0 : 1) * x[i];
#pragma endscop
}
"""
    copy = statement("{ S0[i] : 0 <= i < 24 }", ("y", "i"), (("x", "i"),), Load(0))
    program = scop(text, (array("y", 24), array("x", 24, const=True)), (copy,))
    right = Generated((), "for (int i = 23; i >= 0; i--) y[i] = x[i];")
    report = measure(program, {"v": right}, Toolchain(), QUICK)
    assert report.measurements[0].status is Status.VERIFIED
    assert any("only works on aligned arrays" in warning for warning in report.warnings)


def test_original_that_reads_out_of_bounds_is_an_error() -> None:
    text = """\
void kernel(float *y, const float *x)
{
#pragma scop
    for (int i = 0; i < 24; i++)
        y[i] = x[i + 1];
#pragma endscop
}
"""
    copy = statement("{ S0[i] : 0 <= i < 24 }", ("y", "i"), (("x", "i"),), Load(0))
    program = scop(text, (array("y", 24), array("x", 24, const=True)), (copy,))
    with pytest.raises(ToolchainError, match="it touches memory directly after the end of array 'x'"):
        measure(program, {}, Toolchain(), QUICK)


def test_large_inputs_repeat_after_a_prime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_PERIOD", 7)
    buffers = [Buffer(array("A", 5, 4), row_major([5, 4]), Place.BUFFER, False, True)]
    for values in (data.integer_inputs(buffers, 3, 4)[0], data.real_inputs(buffers, 3, -1.0, 1.0)[0]):
        flat = values.reshape(-1)
        assert values.shape == (5, 4)
        assert np.array_equal(flat[:13], flat[7:])
        assert len(np.unique(flat[:7])) > 1
    monkeypatch.setattr(data, "_PERIOD", 20)
    whole = data.real_inputs(buffers, 3, -1.0, 1.0)[0].reshape(-1)
    assert len(np.unique(whole)) == 20


def test_contents_that_nobody_may_read_are_poisoned() -> None:
    """`y` is overwritten whole before it is read: a candidate that lets its old contents in, times zero, is found."""
    text = """\
void kernel(float y[restrict 8], const float x[restrict 8])
{
#pragma scop
    for (int i = 0; i < 8; i++)
        y[i] = 0;
    for (int i = 0; i < 8; i++)
        y[i] += x[i];
#pragma endscop
}
"""
    start = statement("{ S0[i] : 0 <= i < 8 }", ("y", "i"), (), Const("0"))
    add = statement("{ S1[i] : 0 <= i < 8 }", ("y", "i"), (("x", "i"),), Load(0), "+=")
    program = scop(text, (array("y", 8), array("x", 8, const=True)), (start, replace(add, position=(1, 0))))
    assert overwritten(program) == {"y"}
    assert overwritten(replace(program, statements=(start, replace(add, position=(0, 1))))) == {"y"}
    assert overwritten(replace(program, statements=(replace(start, position=(2, 0)), add))) == frozenset()
    right = "for (int i = 0; i < 8; i++) y[i] = x[i];"
    wrong = "for (int i = 0; i < 8; i++) y[i] = x[i] + 0 * y[i];"
    codes = {"right": Generated((), right), "wrong": Generated((), wrong)}
    report = measure(program, codes, Toolchain(), QUICK)
    assert [m.status for m in report.measurements] == [Status.VERIFIED, Status.WRONG]
    assert "y[0] is nan" in report.measurements[1].message


def test_what_is_not_written_stays_poisoned_and_passes() -> None:
    """A region that writes half of an array: the other half is NaN before and after, here and there."""
    text = """\
void kernel(double y[restrict 8])
{
#pragma scop
    for (int i = 0; i < 4; i++)
        y[2 * i] = 3;
#pragma endscop
}
"""
    write = statement("{ S0[i] : 0 <= i < 4 }", ("y", "2i"), (), Const("3"))
    program = scop(text, (array("y", 8, ctype="double"),), (write,))
    assert overwritten(program) == {"y"}
    right = Generated((), "for (int i = 3; i >= 0; i--) y[2 * i] = 3;")
    wrong = Generated((), "for (int i = 0; i < 8; i++) y[i] = 3;")
    report = measure(program, {"right": right, "wrong": wrong}, Toolchain(), QUICK)
    assert [m.status for m in report.measurements] == [Status.VERIFIED, Status.WRONG]
