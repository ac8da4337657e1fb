"""Running sums, products and extremes in rows: every length up to 70, every kind of vector, to the bit."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import polydl
from polydl.model.types import element_type
from polydl.prove import prove
from polydl.rewrite.canonical import canonical
from tests.kernels.test_narrow_rows import CPU, FLAGS, in_rows
from tests.oracle.native import compile_c
from tests.together import asked

N = 71
"""Row i has i columns."""
BODIES = {
    "sum": "s[i] += x[i][j]; y[i][j] = s[i];",
    "sum that is used": "s[i] += x[i][j] * 2; y[i][j] = s[i] - x[i][j];",
    "maximum": "s[i] = x[i][j] > s[i] ? x[i][j] : s[i]; y[i][j] = s[i];",
    "minimum": "s[i] = x[i][j] < s[i] ? x[i][j] : s[i]; y[i][j] = s[i];",
    "product": "s[i] *= x[i][j]; y[i][j] = s[i];",
    "greatest sum": "s[i] += x[i][j]; r[i] = s[i] > r[i] ? s[i] : r[i];",
    "two": "s[i] += x[i][j]; y[i][j] = s[i]; r[i] = y[i][j] > r[i] ? y[i][j] : r[i]; x[i][j] = r[i];",
}
TYPES = ("float", "double", "int", "long")


def text(body: str, c: str, called: str = "f") -> str:
    arrays = f"{c} s[restrict {N}], {c} r[restrict {N}], {c} y[restrict {N}][{N}], {c} x[restrict {N}][{N}]"
    return f"""void {called}({arrays})
{{
#pragma scop
    for (int i = 0; i < {N}; i++)
        for (int j = 0; j < i; j++) {{
            {BODIES[body]}
        }}
#pragma endscop
}}
"""


@cache
def libraries(bodies: tuple[str, ...], c: str, isa: str) -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The programs as they are, and in rows: functions f0, f1, …"""
    source, written = in_one_file(bodies, c)
    warned = ("-Og", "-fstrict-aliasing", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")
    plain = compile_c([source], ("-Og", "-ffp-contract=off"))
    return plain, compile_c([written], (*warned, "-ffp-contract=off", *FLAGS[isa]))


@cache
def in_one_file(bodies: tuple[str, ...], c: str) -> tuple[str, str]:
    source = "".join(text(body, c, f"f{number}") for number, body in enumerate(bodies))
    # Lanes take products in another order, which may overflow.
    scops = polydl.load(source).scops
    scops = tuple(replace(s, fast_math=body == "product") for s, body in zip(scops, bodies, strict=True))
    return source, in_rows(*scops, called="_scan_")[0]


@pytest.mark.parametrize("isa", ["avx512", "avx2", "portable"])
@pytest.mark.parametrize("c", TYPES)
@pytest.mark.parametrize("body", BODIES)
def test_the_same_bits_as_plain_c(body: str, c: str, isa: str, request: pytest.FixtureRequest) -> None:
    if not {flag.removeprefix("-m") for flag in FLAGS[isa]} <= CPU:
        pytest.skip(f"the processor has no {isa}")
    bodies = asked(request, "body", c=c, isa=isa)
    element = element_type(c)
    rng = np.random.default_rng(3)
    # Integers in float, and powers of two for products: every order gives the same.
    low = rng.choice([1, 2, 0.5, -1] if body == "product" and element.is_float else [-3, -2, -1, 0, 1, 2, 5], (N, N))
    x = low.astype(element.numpy)
    if element.is_float and "imum" in body:
        x = np.where(rng.random((N, N)) < 0.3, rng.choice([np.nan, -0.0, 0.0, np.inf, -np.inf, 1e-40], (N, N)), x)
        x = x.astype(element.numpy)
    results = []
    for library in libraries(bodies, c, isa):
        given = [np.full(N, 2, x.dtype), np.full(N, -9, x.dtype), np.zeros((N, N), x.dtype), x.copy()]
        library[f"f{bodies.index(body)}"](*(ctypes.c_void_p(a.ctypes.data) for a in given))
        results.append(given)
    for want, found in zip(*results, strict=True):
        same = (want == found) & (np.signbit(want) == np.signbit(found)) | ((want != want) & (found != found))
        assert same.all(), (np.argwhere(~same)[:5], want[~same][:5], found[~same][:5])


@pytest.mark.parametrize("c", TYPES)
@pytest.mark.parametrize("body", BODIES)
def test_what_they_do_is_proved(body: str, c: str) -> None:
    (scop,) = polydl.load(text(body, c)).scops
    found = prove(canonical(scop), *in_rows(scop))
    if body == "greatest sum" and element_type(c).is_float:
        assert found.verdict == "open" and "zero" in str(found.reason)  # of equal zeros the first one is kept
        return
    assert found.holds, found


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("_keep(part, polydl_x0, polydl_f32_zero())", "_keep(part, polydl_x0, polydl_f32_all(1))"),
        ("_scan_sum(polydl_acc0", "_scan_greatest(polydl_acc0"),
        ("polydl_f32_scanned_sum(", "polydl_f32_sum("),
        ("polydl_acc0 = polydl_f32_all(*polydl_e0)", "polydl_acc0 = polydl_f32_zero()"),
    ],
)
def test_another_scan_is_not_proved(right: str, wrong: str) -> None:
    (scop,) = polydl.load(text("sum", "float")).scops
    texts = in_rows(scop)
    assert all(right in one for one in texts)
    assert not prove(canonical(scop), *(one.replace(right, wrong) for one in texts)).holds


def test_products_keep_their_order() -> None:
    (scop,) = polydl.load(text("product", "double")).scops
    assert "_scan_" not in in_rows(scop)[0]
    (scop,) = polydl.load(text("product", "int")).scops
    assert "_scan_" in in_rows(scop)[0]


def test_what_reads_the_value_before_is_no_row() -> None:
    body = "y[i][j] = s[i]; s[i] += x[i][j];"
    (scop,) = polydl.load(text("sum", "float").replace(BODIES["sum"], body)).scops
    assert "_scan_" not in in_rows(scop)[0]


def test_sums_stay_in_order_unless_they_may_be_regrouped() -> None:
    (scop,) = polydl.load(text("sum", "float")).scops
    found = prove(canonical(scop), *in_rows(scop), reassociate=False)
    assert not found.holds
