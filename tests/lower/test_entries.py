"""What loops over segments write to entries: right for any pattern, on threads where segments share no entry."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import polydl
from tests.oracle.native import NATIVE, compile_c

pytestmark = pytest.mark.few_sizes

HEAD = """
#include <math.h>
void f(int n, int k, const int *restrict ptr, const int *restrict idx, const float *restrict val,
       const float (*restrict a)[k], const float (*restrict b)[k], const float *restrict s, float *restrict out)
{
    for (int i = 0; i < n; i++) {
        %s
    }
}
"""
ROW = "for (int p = ptr[i]; p < ptr[i + 1]; p++)"


@dataclass(frozen=True)
class Data:
    """Operands of small integers over a pattern of rows."""

    ptr: np.ndarray
    idx: np.ndarray
    val: np.ndarray
    a: np.ndarray
    b: np.ndarray
    s: np.ndarray
    out: np.ndarray

    def rows(self) -> list[tuple[int, range]]:
        return [(i, range(self.ptr[i], self.ptr[i + 1])) for i in range(len(self.ptr) - 1)]

    @staticmethod
    def of(lengths: list[int], k: int) -> Data:
        rng = np.random.default_rng(len(lengths) + k)
        ptr = np.cumsum([0, *lengths]).astype(np.int32)

        def numbers(*shape: int) -> np.ndarray:
            return rng.integers(-4, 5, shape).astype(np.float32)

        n, entries = len(lengths), int(ptr[-1])
        idx = rng.integers(0, 7, entries).astype(np.int32)
        return Data(ptr, idx, numbers(entries), numbers(n, k), numbers(7, k), numbers(n), numbers(entries))

    def run(self, library: ctypes.CDLL) -> np.ndarray:
        out = self.out.copy()
        arrays = (self.ptr, self.idx, self.val, self.a, self.b, self.s, out)
        library.f(len(self.ptr) - 1, self.a.shape[1], *(x.ctypes.data_as(ctypes.c_void_p) for x in arrays))
        return out


PATTERNS = [[3, 0, 5, 1, 0, 0, 17], [], [0], [1], [0, 2] * 60, [1] * 30 + [40] + [0] * 9]


def sddmm(d: Data) -> np.ndarray:
    return np.array([d.a[i] @ d.b[d.idx[p]] for i, row in d.rows() for p in row], np.float32)


def scaled_products(d: Data) -> np.ndarray:
    return d.out + (d.val - sddmm(d)) * d.val


def scaled(d: Data) -> np.ndarray:
    return np.array([d.out[p] * d.s[i] for i, row in d.rows() for p in row], np.float32)


def chosen(d: Data) -> np.ndarray:
    return np.array([d.val[p] if d.val[p] > d.s[i] else 0 for i, row in d.rows() for p in row], np.float32)


def less_the_greatest(d: Data) -> np.ndarray:
    greatest = {i: max([-9, *(d.val[p] + 1 for p in row)]) for i, row in d.rows()}
    return np.array([d.val[p] + 1 - greatest[i] for i, row in d.rows() for p in row], np.float32)


CASES: dict[str, tuple[str, Callable[[Data], np.ndarray]]] = {
    "products of rows": (
        ROW + " { float t = 0; for (int j = 0; j < k; j++) t += a[i][j] * b[idx[p]][j]; out[p] = t; }", sddmm
    ),
    "products with what an entry declares": (
        """for (int p = ptr[i]; p < ptr[i + 1]; p++) {
            const float v = val[p];
            float t = v;
            for (int j = 0; j < k; j++) t -= a[i][j] * b[idx[p]][j];
            out[p] += t * v;
        }""",
        scaled_products,
    ),
    "entries in place": (ROW + " out[p] *= s[i];", scaled),
    "a condition": (ROW + " { if (val[p] > s[i]) out[p] = val[p]; else out[p] = 0; }", chosen),
    "several loops": (
        f"float m = -9; {ROW} out[p] = val[p] + 1; {ROW} m = out[p] > m ? out[p] : m; {ROW} out[p] -= m;",
        less_the_greatest,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_entries_are_right_for_any_pattern_on_any_number_of_threads(name: str) -> None:
    text, expected = CASES[name]
    made = polydl.optimize(HEAD % text, run=False, sizes={"n": 40, "k": 16}, threads=3)
    (scop,) = made.scops
    code = next(v.code() for v in scop.ranking.variants if "Parallelize(" in str(v.recipe))
    assert "polydl_ordered_i32(ptr, 0, 39)" in code
    assert ("polydl_entry += 4" in code) == name.startswith("products")
    for each in (made.text, code):
        library = compile_c([each], (*NATIVE, "-Werror=all"))
        for lengths in [*PATTERNS, list(range(40))]:
            for k in (16, 5):
                data = Data.of(lengths, k)
                assert np.array_equal(data.run(library), expected(data)), (lengths, k)


ONE_AT_A_TIME = {
    "an entry of another": "float t = 0; for (int j = 0; j < k; j++) t += a[i][j] * out[p - 1]; out[p] = t;",
    "a sum of all entries": "float t = 0; for (int j = 0; j < k; j++) t += a[i][j] * b[idx[p]][j]; all += t;",
    "a place by a table": "float t = 0; for (int j = 0; j < k; j++) t += a[i][j] * b[p][j]; out[idx[p]] = t;",
    "as many products as an entry says": (
        "float t = 0; for (int j = 0; j < idx[p]; j++) t += a[i][j] * b[p][j]; out[p] = t;"
    ),
    "what is left of the entry before": "for (int j = 0; j < k; j++) left += a[i][j] * b[p][j]; out[p] = left;",
    "a store into another array": (
        "float t = 0; for (int j = 0; j < k; j++) t += a[i][j] * b[p][j]; out[p] = t; s[i] = t;"
    ),
}


@pytest.mark.parametrize("why", ONE_AT_A_TIME)
def test_entries_that_depend_on_others_run_one_at_a_time(why: str) -> None:
    text = HEAD.replace("const float *restrict s", "float *restrict s")
    text %= f"float all = 0, left = 0; {ROW} {{ {ONE_AT_A_TIME[why]} }} s[i] = all + left;"
    (scop,) = polydl.load(text, sizes={"n": 40, "k": 16}).scops
    assert not any("polydl_entry" in getattr(s.body, "lanes", "") for s in scop.statements)


OVERLAPPING = np.array([0, 4, 2, 6, 6, 3, 3, 8] * 5 + [9], np.int32)
"""Segments 0 to 3 and 2 to 5, and so on: what they leave depends on their order."""


def test_segments_that_overlap_run_in_their_order() -> None:
    text = HEAD % (ROW + " out[p] = out[p] * 2 + s[i];")
    made = polydl.optimize(text, run=False, sizes={"n": 40, "k": 16}, threads=3)
    (scop,) = made.scops
    code = next(v.code() for v in scop.ranking.variants if "Parallelize(" in str(v.recipe))
    data = Data.of([9] + [0] * 39, 16)
    data = Data(OVERLAPPING, data.idx, data.val, data.a, data.b, data.s, data.out)
    expected = data.out.copy()
    for i, row in data.rows():
        for p in row:
            expected[p] = expected[p] * 2 + data.s[i]
    for _ in range(5):
        assert np.array_equal(data.run(compile_c([code], NATIVE)), expected)


SERIAL = {
    "another entry": f"{ROW} out[p] = p > 0 ? out[p - 1] : 0;",
    "entries of the next row": "for (int p = ptr[i]; p < ptr[i + 1]; p++) out[p] = out[ptr[i + 1]];",
    "a table of places": f"{ROW} out[idx[p]] = val[p];",
    "two rows at once": "for (int p = ptr[i]; p < ptr[i + 2]; p++) out[p] = val[p];",
    "another variable of this name": f"{ROW} for (int p = 0; p < 2; p++) out[p] = val[p];",
}


@pytest.mark.parametrize("why", SERIAL)
def test_what_may_touch_other_segments_is_carried_or_refused(why: str) -> None:
    try:
        (scop,) = polydl.load(HEAD % SERIAL[why], sizes={"n": 40, "k": 16}).scops
    except polydl.InputError:
        return
    assert not scop.ordered
    if all("i" not in s.iterators for s in scop.statements):
        return  # the loops inside are a region, the loop around them is none
    assert any(d.carried_by for d in polydl.dependences(scop, reads=False))
