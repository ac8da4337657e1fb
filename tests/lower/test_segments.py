"""Sums over segments (rows of CSR and block-sparse matrices) in microkernels: right for any pattern, at any size."""

from __future__ import annotations

import ctypes
import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

import polydl
from polydl.dependences.nests import nests
from polydl.target.isa import kernel_contraction
from tests.oracle.native import QUICK_NATIVE, compile_c

pytestmark = pytest.mark.few_sizes

ROWS = "int n, int k, const int *restrict ptr, const int *restrict idx"


@dataclass(frozen=True)
class Case:
    """A spelling of a product of a sparse and a dense matrix."""

    text: str
    block: tuple[int, int] = (1, 1)
    """Rows and columns of a block."""
    type: str = "float"
    bias: bool = False
    """y = max(bias + A x, 0) instead of y += A x."""
    sign: int = 1
    flat: bool = False
    """Arrays are pointers to their elements."""

    @property
    def source(self) -> str:
        r, c = self.block
        if self.flat:
            given = f"const {self.type} *restrict val, const {self.type} *restrict x, const {self.type} *restrict bias"
            return f"#include <stddef.h>\nvoid f({ROWS}, {given}, {self.type} *restrict y)\n{{\n{self.text}}}\n"
        entry = "" if self.block == (1, 1) else f"[{r}][{c}]"
        value = f"const {self.type} *restrict val" if not entry else f"const {self.type} (*restrict val){entry}"
        x = f"const {self.type} (*restrict x){f'[{c}]' if c > 1 else ''}[k]"
        y = f"{self.type} (*restrict y){f'[{r}]' if r > 1 else ''}[k]"
        return f"void f({ROWS}, {value}, {x}, const {self.type} *restrict bias, {y})\n{{\n{self.text}}}\n"


CASES = {
    "terms as they come": Case("""
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int j = 0; j < k; j++)
                y[i][j] += val[p] * x[idx[p]][j];
"""),
    "names of a term": Case("""
    for (int i = 0; i < n; i++) {
        const int end = ptr[i + 1];
        for (int p = ptr[i]; p < end; ++p) {
            const double v = val[p];
            int at = idx[p];
            for (int j = 0; j < k; j++)
                y[i][j] -= v * x[at][j];
        }
    }
""", type="double", sign=-1),
    "a sum of each element": Case("""
    for (int i = 0; i < n; i++)
        for (int j = 0; j < k; j++) {
            float s = y[i][j];
            for (int p = ptr[i]; p <= ptr[i + 1] - 1; p++)
                s += val[p] * x[idx[p]][j];
            y[i][j] = s;
        }
"""),
    "blocks": Case("""
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int r = 0; r < 8; r++)
                for (int j = 0; j < k; j++)
                    for (int c = 0; c < 8; c++)
                        y[i][r][j] += val[p][r][c] * x[idx[p]][c][j];
""", block=(8, 8)),
    "blocks with what follows": Case("""
    for (int i = 0; i < n; i++)
        for (int r = 0; r < 3; r++)
            for (int j = 0; j < k; j++) {
                float s = bias[j];
                for (int p = ptr[i]; p < ptr[i + 1]; p++)
                    for (int c = 0; c < 5; c++)
                        s += val[p][r][c] * x[idx[p]][c][j];
                y[i][r][j] = s > 0 ? s : 0;
            }
""", block=(3, 5), bias=True),
    "a name for what follows": Case("""
    for (int i = 0; i < n; i++)
        for (int r = 0; r < 4; r++)
            for (int j = 0; j < k; j++) {
                float s = 0;
                for (int p = ptr[i]; p < ptr[i + 1]; p++)
                    for (int c = 0; c < 4; c++)
                        s += val[p][r][c] * x[idx[p]][c][j];
                const float t = s + bias[j];
                y[i][r][j] = t > 0 ? t : 0;
            }
""", block=(4, 4), bias=True),
    "flat arrays": Case("""
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int j = 0; j < k; j++)
                y[i * k + j] += val[p] * x[idx[p] * k + j];
""", flat=True),
    "flat blocks": Case("""
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++) {
            const size_t at = (size_t)idx[p] * 5;
            for (int r = 0; r < 3; r++)
                for (int c = 0; c < 5; c++)
                    for (int j = 0; j < k; j++)
                        y[(i * 3 + r) * k + j] += val[p * 3 * 5 + r * 5 + c] * x[(at + c) * k + j];
        }
""", block=(3, 5), flat=True),
    "pointers to rows": Case("""
    for (int i = 0; i < n; i++) {
        double *row = y + (ptrdiff_t)i * k;
        for (int p = ptr[i]; p < ptr[i + 1]; p++) {
            const double *xr = x + (size_t)idx[p] * k;
            const double v = val[p];
            for (int j = 0; j < k; j++)
                row[j] += v * xr[j];
        }
    }
""", type="double", flat=True),
    "a flat sum with what follows": Case("""
    for (int i = 0; i < n; i++)
        for (int r = 0; r < 4; r++)
            for (int j = 0; j < k; j++) {
                float s = bias[j];
                for (int p = ptr[i]; p < ptr[i + 1]; p++)
                    for (int c = 0; c < 4; c++)
                        s += val[(p * 4 + r) * 4 + c] * x[idx[p] * 4 * k + c * k + j];
                y[(i * 4 + r) * k + j] = s > 0 ? s : 0;
            }
""", block=(4, 4), bias=True, flat=True),
}  # fmt: skip


@dataclass(frozen=True)
class Data:
    """A pattern of `n` rows of blocks with empty rows, and one block twice, beside operands of small integers."""

    ptr: np.ndarray
    idx: np.ndarray
    val: np.ndarray
    x: np.ndarray
    bias: np.ndarray
    y: np.ndarray

    @staticmethod
    def of(case: Case, n: int, k: int, seed: int = 1) -> Data:
        rng = np.random.default_rng(seed)
        dtype = np.float32 if case.type == "float" else np.float64
        columns, (r, c) = 7, case.block
        rows = [np.sort(rng.integers(0, columns, rng.integers(0, 6) * (i % 3 != 1))) for i in range(n)]
        ptr = np.cumsum([0, *map(len, rows)]).astype(np.int32)
        idx = np.concatenate([np.zeros(0, np.int64), *rows]).astype(np.int32)

        def numbers(*shape: int) -> np.ndarray:
            return rng.integers(-4, 5, shape).astype(dtype)

        return Data(ptr, idx, numbers(len(idx), r, c), numbers(columns, c, k), numbers(k), numbers(n, r, k))

    def expected(self, case: Case) -> np.ndarray:
        out = np.zeros_like(self.y) + self.bias if case.bias else self.y.copy()
        for i in range(len(self.ptr) - 1):
            for p in range(self.ptr[i], self.ptr[i + 1]):
                out[i] += case.sign * self.val[p] @ self.x[self.idx[p]]
        return np.maximum(out, 0) if case.bias else out

    def run(self, library: ctypes.CDLL) -> np.ndarray:
        out = self.y.copy()
        arrays = (self.ptr, self.idx, self.val, self.x, self.bias, out)
        library.f(out.shape[0], out.shape[2], *(a.ctypes.data_as(ctypes.c_void_p) for a in arrays))
        return out


def texts(made: polydl.Optimized) -> Iterator[str]:
    """The file, and the best variants with a microkernel of different loops."""
    yield made.text
    (scop,) = made.scops
    yield from (v.code() for v in scop.ranking.variants[:30:29])


@pytest.mark.parametrize(
    ("name", "tuned"), [(name, tuned) for name in CASES for tuned in (True, False) if not (tuned and CASES[name].flat)]
)
def test_products_are_right_for_any_pattern_at_any_size(name: str, tuned: bool) -> None:
    case = CASES[name]
    sizes = {"n": 40, "k": 72} if tuned else {}
    made = polydl.optimize(case.source, run=False, sizes=sizes, threads=2, space="small")
    assert any("polydl_mk_" in text for text in texts(made))
    for text in texts(made):
        library = compile_c([text], (*QUICK_NATIVE, "-Werror=all"))
        for n, k in [(40, 72), (0, 5), (1, 1), (13, 33), (40, 7), (300, 16), (40, 0)]:
            data = Data.of(case, n, k)
            assert np.array_equal(data.run(library), data.expected(case)), (n, k)


def test_the_microkernel_starts_from_what_is_before_and_ends_with_what_follows() -> None:
    made = polydl.optimize(CASES["blocks with what follows"].source, run=False, sizes={"n": 40, "k": 72})
    (scop,) = made.scops
    fused = next(v for v in scop.ranking.variants if str(v.recipe).count("Fuse(") == 2)
    assert "_max(" in fused.code()
    assert not re.search(r"y\[c0\]\[c1\]\[c2\] = ", fused.region())


LEADING = """
void f(int n, int k, int ld, const int *restrict ptr, const int *restrict idx, const float *restrict val,
       const float *restrict x, float *restrict y)
{
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int j = 0; j < k; j++)
                y[i * k + j] += val[p] * x[idx[p] * ld + j];
}
"""


def test_rows_of_flat_arrays_may_be_longer_and_overlap() -> None:
    made = polydl.optimize(LEADING, run=False, sizes={"n": 40, "k": 72, "ld": 80}, threads=2)
    assert "polydl_mk_" in made.text
    library = compile_c([made.text], (*QUICK_NATIVE, "-Werror=all"))
    for k, ld in [(72, 80), (72, 3), (5, 1), (1, 0), (16, 16)]:
        data = Data.of(CASES["flat arrays"], 13, k)
        memory = np.resize(data.x, 7 * ld + k).astype(np.float32)
        x = np.stack([memory[row * ld : row * ld + k] for row in range(7)])[:, None]
        out = data.y.copy()
        arrays = (data.ptr, data.idx, data.val, memory, out)
        library.f(13, k, ld, *(a.ctypes.data_as(ctypes.c_void_p) for a in arrays))
        assert np.array_equal(out, dataclasses.replace(data, x=x).expected(CASES["flat arrays"])), (k, ld)


@pytest.mark.parametrize("subscript", ["idx[p] + j * k", "idx[p] + j * 70000", "idx[p] * k + 2 * j"])
def test_what_entries_of_a_table_move_is_never_within_a_row(subscript: str) -> None:
    text = CASES["flat arrays"].source.replace("idx[p] * k + j", subscript)
    (scop,) = polydl.load(text, require_sizes=False).scops
    assert len(scop.arrays["x"].extents) == 1


NONE = {
    "elements that several terms of a row share": "y[i][j / 2] += val[p] * x[idx[p]][j];",
    "reads what it adds to": "y[i][j] += val[p] * y[i][0];",
    "reads the row above": "{ float *above = y[i - 1]; y[i][j] += val[p] * above[j]; }",
    "two tables": "y[i][j] += val[p] * x[idx[idx[p]]][j];",
    "a table and the entry": "y[i][j] += val[p] * x[idx[p] + p][j];",
    "no vectors": "y[i][j] += val[p] / x[idx[p]][j];",
}


@pytest.mark.parametrize("why", NONE)
def test_others_stay_as_they_are_written(why: str) -> None:
    text = CASES["terms as they come"].source
    line = next(line for line in text.splitlines() if "+=" in line)
    text = text.replace(line.strip(), NONE[why])
    (scop,) = polydl.load(text, sizes={"n": 40, "k": 72}).scops
    assert all(kernel_contraction(scop, s) is None for s in scop.statements)
    assert len(nests(scop, polydl.dependences(scop, reads=False))) == 1
