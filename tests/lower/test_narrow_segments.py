"""Sums over segments of products of narrow types (bf16, integers of 8 and 16 bits): read where they are, in groups
along the depth of a block where it has whole ones; right for any pattern, at any size, in bits."""

from __future__ import annotations

import ctypes
import platform
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.base import resources
from polydl.kernels.direct_reads import DirectReads, direct_values
from polydl.kernels.microkernel import environment, isa_prologue
from polydl.model.types import I8, I32
from polydl.target.products import DOT_8
from tests.compiling import run_compiler
from tests.oracle.native import QUICK_NATIVE, compile_c

pytestmark = pytest.mark.few_sizes

INCLUDE = f"-I{resources.headers()}"
MACHINES = {
    "native": ("-march=native",),
    "no VNNI": ("-march=native", "-mno-avx512vnni", "-mno-avx512bf16"),
    "no bytes": ("-march=skylake-avx512", "-mno-avx512bw"),
    "avx2": ("-march=x86-64-v3",),
    "generic": ("-march=x86-64",),
}
PROGRAM = """
#include <stdint.h>
#include <polydl.h>
void f(int n, int k, const int *restrict ptr, const int *restrict idx, const {a} (*restrict val)[{rows}][{depth}],
       const {b} (*restrict x)[{depth}][k], {sum} (*restrict y)[{rows}][k])
{{
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int r = 0; r < {rows}; r++)
                for (int j = 0; j < k; j++)
                    for (int c = 0; c < {depth}; c++)
                        y[i][r][j] {op} {left} * {right};
}}
"""
STARTS = """
#include <stdint.h>
#include <polydl.h>
void f(int n, int k, const int *restrict ptr, const int *restrict idx, const {a} (*restrict val)[{rows}][{depth}],
       const {b} (*restrict x)[{depth}][k], {sum} (*restrict y)[{rows}][k])
{{
    for (int i = 0; i < n; i++)
        for (int r = 0; r < {rows}; r++)
            for (int j = 0; j < k; j++) {{
                {sum} s = y[i][r][j];
                for (int p = ptr[i]; p < ptr[i + 1]; p++) {{
                    const int at = idx[p];
                    for (int c = 0; c < {depth}; c++)
                        s {op} {left} * {right};
                }}
                y[i][r][j] = s;
            }}
}}
"""


ZEN = "epyc-zen4"
"""It has all of these products."""


@dataclass(frozen=True)
class Case:
    """Types of A, B and the sum as NumPy has them (bf16 as its bits), rows and depth of a block, the product used."""

    a: str
    b: str
    rows: int
    depth: int
    product: str
    """Empty: elements one by one."""
    op: str = "+="
    text: str = PROGRAM

    @property
    def bf16(self) -> bool:
        return self.a == "bf16"

    @property
    def source(self) -> str:
        left, right = "val[p][r][c]", "x[idx[p]][c][j]" if self.text is PROGRAM else "x[at][c][j]"
        types = {"bf16": "polydl_bf16", "int32": "int"}
        if self.bf16:
            left, right = f"polydl_to_float({left})", f"polydl_to_float({right})"
        a, b = (types.get(t, f"{t}_t") for t in (self.a, self.b))
        names = {"a": a, "b": b, "sum": "float" if self.bf16 else "int", "left": left, "right": right, "op": self.op}
        return self.text.format(rows=self.rows, depth=self.depth, **names)


CASES = [
    Case("bf16", "bf16", 8, 8, "dot_bf16"),
    Case("bf16", "bf16", 3, 5, ""),
    Case("bf16", "bf16", 1, 1, ""),
    Case("int8", "int8", 8, 8, "dot_u8i8"),
    Case("uint8", "int8", 4, 4, "dot_u8i8", "-="),
    Case("int8", "uint8", 4, 12, "dot_i8u8", text=STARTS),
    Case("uint8", "uint8", 2, 16, "dot_i8u8"),
    Case("int8", "int8", 5, 6, ""),
    Case("int8", "uint8", 1, 1, ""),
    Case("int16", "int16", 8, 2, "dot_i16"),
    Case("int16", "int8", 4, 4, ""),
    Case("int32", "int32", 4, 4, ""),
    Case("bf16", "bf16", 32, 32, "dot_bf16", text=STARTS),
]


def bits(values: np.ndarray) -> np.ndarray:
    """bf16 of floats that are exact in it."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


@dataclass(frozen=True)
class Data:
    """A pattern with empty rows, a block twice, and one row with half of all; operands of any values, of bf16 small."""

    ptr: np.ndarray
    idx: np.ndarray
    val: np.ndarray
    x: np.ndarray
    y: np.ndarray

    @staticmethod
    def of(case: Case, n: int, k: int) -> Data:
        rng = np.random.default_rng(n + k)
        lengths = [int(rng.integers(0, 6)) * (i % 3 != 1) for i in range(n)]
        if n > 2:
            lengths[n // 2] = sum(lengths) + 1
        ptr = np.cumsum([0, *lengths]).astype(np.int32)
        idx = rng.integers(0, 7, ptr[-1]).astype(np.int32)

        def numbers(of: str, *shape: int) -> np.ndarray:
            if of == "bf16":
                return rng.integers(-4, 5, shape).astype(np.float32)
            info = np.iinfo(of)
            found = rng.integers(info.min, info.max, shape, dtype=of, endpoint=True)
            return np.where(rng.random(shape) < 0.2, rng.choice([info.min, info.max], shape), found).astype(of)

        y = numbers("bf16" if case.bf16 else "int32", n, case.rows, k)
        return Data(ptr, idx, numbers(case.a, len(idx), case.rows, case.depth), numbers(case.b, 7, case.depth, k), y)

    def expected(self, case: Case) -> np.ndarray:
        wide = np.float64 if case.bf16 else np.int64
        out, val, x = self.y.astype(wide), self.val.astype(wide), self.x.astype(wide)
        with np.errstate(over="ignore"):
            for i in range(len(self.ptr) - 1):
                for p in range(self.ptr[i], self.ptr[i + 1]):
                    out[i] += (1 if case.op == "+=" else -1) * (val[p] @ x[self.idx[p]])
            return out.astype(self.y.dtype)

    def run(self, case: Case, library: ctypes.CDLL) -> np.ndarray:
        out = self.y.copy()
        val, x = (bits(self.val), bits(self.x)) if case.bf16 else (self.val, self.x)
        arrays = (self.ptr, self.idx, np.ascontiguousarray(val), np.ascontiguousarray(x), out)
        library.f(out.shape[0], out.shape[2], *(a.ctypes.data_as(ctypes.c_void_p) for a in arrays))
        return out


def name(case: Case) -> str:
    return f"{case.a}-{case.b}-{case.rows}x{case.depth}"


@pytest.mark.parametrize("case", CASES, ids=name)
def test_products_are_right_for_any_pattern_at_any_size(case: Case) -> None:
    threads = 1 + CASES.index(case) % 3
    sizes = {"n": 40, "k": 72}
    ranking = polydl.rank(case.source, machine=ZEN, sizes=sizes, threads=threads, space="small")
    code = next(v.code() for v in ranking.variants if "polydl_mk_" in v.code())
    assert (f"polydl_{case.product}(" in code) if case.product else ("polydl_dot_" not in code)
    few = case.rows * case.depth > 64
    for machine in list(MACHINES)[:: 4 if few else 1]:
        library = compile_c([code], (*QUICK_NATIVE, "-Werror=all", "-Wno-psabi", INCLUDE, *MACHINES[machine]))
        for n, k in [(13, 33), (0, 5), (1, 1), (40, 7), (3, 72), (40, 0)]:
            data = Data.of(case, n, k)
            assert np.array_equal(data.run(case, library), data.expected(case)), (machine, n, k)


def test_the_best_variant_of_narrow_blocks_has_a_microkernel() -> None:
    for case in (CASES[0], CASES[3]):
        sizes = {"n": 256, "k": 256}
        made = polydl.optimize(case.source, run=False, machine=ZEN, sizes=sizes, threads=2)
        assert f"polydl_{case.product}(" in made.text


NONE = [
    ("float", "float", "double", "y[i][r][j] += (double)val[p][r][c] * x[idx[p]][c][j];"),
    ("int8_t", "int8_t", "float", "y[i][r][j] += val[p][r][c] * x[idx[p]][c][j];"),
    ("int8_t", "int8_t", "int", "y[i][r][j] += (signed char)(val[p][r][c] * x[idx[p]][c][j]);"),
]


@pytest.mark.parametrize(("a", "b", "kept", "step"), NONE)
def test_sums_that_are_rounded_in_between_stay_loops(a: str, b: str, kept: str, step: str) -> None:
    names = {"a": a, "b": b, "sum": kept, "left": "", "right": "", "op": "+="}
    text = PROGRAM.format(rows=4, depth=4, **names).replace("y[i][r][j] +=  * ;", step)
    (scop,) = polydl.load(text, sizes={"n": 40, "k": 72}).scops
    ranking = polydl.rank(scop)
    assert all("polydl_mk_" not in v.code() for v in ranking.variants[:3])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86")
def test_bytes_become_words_in_vectors(tmp_path: Path) -> None:
    """By an instruction that extends sixteen of them, and none that takes single ones out of a vector."""
    values = direct_values(DirectReads(I8, I8), DOT_8[I8, I8], I32)
    (tmp_path / "f.c").write_text(environment().get_template("direct_reads.c.j2").render(values))
    body = f"polydl_i32 g(const signed char *p, long row) {{ return {values['name']}(p, row); }}"
    (tmp_path / "g.c").write_text(f'{isa_prologue(I32)}#include "f.c"\n{body}\n')
    for architecture in ("icelake-server", "haswell"):
        flags = ["-O3", "-std=gnu11", "-Wno-psabi", f"-march={architecture}"]
        run_compiler(["gcc", *flags, "-S", "g.c"], tmp_path)
        text = (tmp_path / "g.s").read_text()
        assert text.count("vpmovzxbd") == 4 and "vpextr" not in text and "vpinsr" not in text
