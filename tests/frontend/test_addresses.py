"""Addresses that are computed in `size_t`: modulo 2^64, as the machine computes them."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.base.errors import InputError, InputErrors
from polydl.frontend import load
from polydl.model.scop import Scop
from tests.oracle.native import compile_c

ARGUMENTS = "int n, int m, int k, float *restrict C, const float *A, const float *B"
PRODUCT = """\
#include <stddef.h>
void f({arguments})
{{
    for (int i = 0; i < n; i++) {{
        {rows}
        for (int j = 0; j < m; j++) {{
            float s = 0;
            for (int p = 0; p < k; p++)
                s += {left} * {right};
            {out} = s;
        }}
    }}
}}
"""
PLAIN = ("", "A[i * k + p]", "B[p * m + j]", "C[i * m + j]")
SPELLINGS = {
    "subscripts": ("", "A[(size_t)i * k + p]", "B[(size_t)p * m + j]", "C[(size_t)i * m + j]"),
    "rows": ("const float *a = A + (size_t)i * k; float *c = &C[(size_t)i * m];", "a[p]", "B[p * m + j]", "c[j]"),
    "factors turned": ("const float *a = A + k * (size_t)i;", "a[p]", "*(B + (size_t)m * p + j)", "C[i * m + j]"),
    "a name for the offset": (
        "size_t row = (size_t)i * k, out = (size_t)i * m;", "A[row + p]", "B[p * m + j]", "C[out + j]"
    ),
    "a name for the row's offset": (
        "size_t row = (size_t)i * k; const float *a = A + row;", "a[p]", "B[p * m + j]", "C[i * m + j]"
    ),
    "converted twice": ("const float *a = A + (ptrdiff_t)((size_t)i * k);", "a[p]", "B[p * m + j]", "C[i * m + j]"),
    "less than nothing on the way": (
        "const float *a = A + ((size_t)i * k - k);", "a[p + k]", "B[p * m + j]", "C[-(size_t)m + (i + 1) * m + j]"
    ),
}  # fmt: skip


def scop_of(text: str, folder: Path) -> Scop:
    path = folder / "f.c"
    path.write_text(text)
    return load(path, require_sizes=False).scops[0]


def product(rows: str, left: str, right: str, out: str) -> str:
    return PRODUCT.format(arguments=ARGUMENTS, rows=rows, left=left, right=right, out=out)


@pytest.mark.parametrize("name", SPELLINGS)
def test_they_are_read_as_numbers_that_do_not_wrap_around(name: str, tmp_path: Path) -> None:
    plain, other = (scop_of(product(*spelled), tmp_path) for spelled in (PLAIN, SPELLINGS[name]))
    assert len(plain.statements) == len(other.statements)
    for one, same in zip(plain.statements, other.statements, strict=True):
        assert one.domain.is_equal(same.domain)
        assert [a.array for a in one.accesses] == [a.array for a in same.accesses]
        assert all(a.relation.is_equal(b.relation) for a, b in zip(one.accesses, same.accesses, strict=True))


@pytest.mark.parametrize("index", ["(unsigned)i - k", "(size_t)(0u - i)", "((size_t)i - k) / 2"])
def test_what_wraps_around_elsewhere_is_refused(index: str, tmp_path: Path) -> None:
    """At 2^32, or in front of a division: these are other addresses."""
    with pytest.raises((InputError, InputErrors), match=r"would wrap around|below zero"):
        scop_of(product("", f"A[{index}]", "B[p * m + j]", "C[i * m + j]"), tmp_path)


BODIES = {
    "a pointer": (
        "const float *at = x + (size_t)i * step; for (int j = 0; j < n; j++) y[i * n + j] = at[(size_t)0 - j];"
    ),
    "a name": "size_t at = (size_t)i * step; for (int j = 0; j < n; j++) y[i * n + j] = x[at - j];",
    "its value, too": (
        "size_t at = (size_t)i * step; for (int j = 0; j < n; j++) y[i * n + j] = x[at - j] + (float)(at % 8);"
    ),
    "where data decide": (
        "size_t at = (size_t)i * step; for (int j = 0; j < n; j++) "
        "{ int c = 0; while (x[c - 32] < x[at - j]) c++; y[i * n + j] = (float)c; }"
    ),
    "changed later": (
        "size_t at = (size_t)i * step; for (int j = 0; j < n; j++) { y[i * n + j] = x[at]; at -= 1; }"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_outputs_reach_what_the_input_reaches(name: str, tmp_path: Path) -> None:
    """Whatever the sign of what is multiplied; where more than the address is asked for, too."""
    text = f"""\
#include <stddef.h>
void f(int n, int step, float *restrict y, const float *x)
{{
    for (int i = 0; i < n; i++) {{
        {BODIES[name]}
    }}
}}
"""
    path = tmp_path / "f.c"
    path.write_text(text)
    out = tmp_path / "out.c"
    polydl.optimize(path, out, run=False, sizes={"n": 7, "step": -2}, threads=2, space="small")
    built = [compile_c([text], ("-O1",)), compile_c([out.read_text()], ("-O1", "-march=native", "-fopenmp"))]
    memory = np.arange(64, dtype=np.float32)
    for n, step in ((7, -2), (5, 3), (6, 0)):
        results = []
        for library in built:
            y = np.zeros((n, n), dtype=np.float32)
            library.f(n, step, ctypes.c_void_p(y.ctypes.data), ctypes.c_void_p(memory.ctypes.data + 4 * 32))
            results.append(y)
        assert np.array_equal(*results), (n, step)
        assert results[0].any()
