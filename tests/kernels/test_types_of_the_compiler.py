"""`__bf16` and `_Float16` as elements, with a compiler that has both: whole programs, compiled as they are written and
as polydl writes them, and the same programs on `polydl_bf16`, to the bit."""

from __future__ import annotations

import ctypes
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.base import resources
from polydl.base.errors import InputErrors
from polydl.frontend.meaning.narrow_types import has_type
from polydl.model.types import BF16, BF16_BITS, F16
from tests.oracle.native import compile_c

COMPILERS = ("clang-19", "clang-20", "clang-18", "clang", "gcc-14", "gcc-13", "gcc")
CC = next((cc for cc in COMPILERS if shutil.which(cc) and has_type(cc, BF16) and has_type(cc, F16)), "")
pytestmark = pytest.mark.skipif(not CC, reason="no compiler with __bf16 and _Float16: gcc 13, clang 17")
INCLUDE = f"-I{resources.headers()}"
EXACT = ("-std=gnu11", "-ffp-contract=off", INCLUDE)

GEMM = """
void kernel(const T A[restrict 37][45], const T B[restrict 45][70], const float bias[restrict 70],
    const T X[restrict 37][70], T C[restrict 37][70])
{
    for (int i = 0; i < 37; i++)
        for (int j = 0; j < 70; j++) {
            float s = 0;
            for (int k = 0; k < 45; k++)
                s += LOAD(A[i][k]) * LOAD(B[k][j]);
            s += bias[j] + LOAD(X[i][j]);
            C[i][j] = STORE(s > 0 ? s : 0);
        }
}
"""
CONVOLUTION = """
void kernel(const T A[restrict 37][45], const T B[restrict 45][70], const float bias[restrict 70],
    const T X[restrict 37][70], T C[restrict 37][70])
{
    for (int i = 0; i < 35; i++)
        for (int j = 0; j < 30; j++) {
            float s = bias[j];
            for (int r = 0; r < 3; r++)
                for (int k = 0; k < 40; k++)
                    s += LOAD(A[i + r][k]) * LOAD(B[k][2 * j + r]);
            C[i][j] = STORE(s);
        }
}
"""
ROWS = """
void kernel(const T A[restrict 37][45], const T B[restrict 45][70], const float bias[restrict 70],
    const T X[restrict 37][70], T C[restrict 37][70])
{
    for (int i = 0; i < 37; i++)
        for (int j = 0; j < 70; j++)
            C[i][j] = STORE(LOAD(X[i][j]) * 1.375f + bias[j]);
}
"""
PROGRAMS = {"gemm": GEMM, "convolution": CONVOLUTION, "rows": ROWS}
SPELLINGS = {
    BF16: ("", "__bf16", "(float)", "(__bf16)"),
    F16: ("", "_Float16", "(float)", "(_Float16)"),
    BF16_BITS: ("#include <polydl.h>\n", "polydl_bf16", "polydl_to_float", "polydl_to_bf16"),
}


def text(program: str, element: object) -> str:
    head, name, load, store = SPELLINGS[element]  # type: ignore[index]
    found = re.sub(r"\bT\b", name, PROGRAMS[program])
    return head + found.replace("LOAD", load).replace("STORE", store)


def written(program: str, element: object, folder: Path) -> str:
    source = folder / "program.c"
    source.write_text(text(program, element))
    polydl.optimize(source, folder / "fast.c", run=False, threads=2, cc=CC)
    return (folder / "fast.c").read_text()


def operands(element: object, *, special: bool = False) -> list[np.ndarray]:
    """Small whole numbers, of which all sums are exact; or fractions, and among them some of any bits."""
    rng = np.random.default_rng(5)

    def of(*shape: int) -> np.ndarray:
        values = (rng.normal(size=shape) if special else rng.integers(-4, 5, shape)).astype(np.float32)
        if element is F16:
            bits = values.astype(np.float16).view(np.uint16)
        else:
            bits = (values.view(np.uint32) >> 16).astype(np.uint16)
        if special:
            bits = np.where(rng.random(shape) < 0.01, rng.integers(0, 1 << 16, shape), bits).astype(np.uint16)
        return bits

    bias = rng.integers(-50, 50, 70).astype(np.float32)
    return [of(37, 45), of(45, 70), bias, of(37, 70)]


RUNTIME = """
#include <string.h>
__attribute__((weak)) __bf16 __truncsfbf2(float x)
{
    unsigned int bits;
    unsigned short high;
    __bf16 made;
    memcpy(&bits, &x, sizeof bits);
    high = (unsigned short)(x != x ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    memcpy(&made, &high, sizeof made);
    return made;
}
"""
"""What clang calls where the processor has no instruction for it; the libgcc of older systems has it not."""


def results(c: str, flags: tuple[str, ...], given: list[np.ndarray]) -> np.ndarray:
    library = compile_c([c, RUNTIME], (*EXACT, *flags), CC)
    made = np.zeros((37, 70), dtype=np.uint16)
    library.kernel(*(ctypes.c_void_p(a.ctypes.data) for a in (*given, made)))
    return made


TARGETS = {"this machine": ("-march=native",), "AVX2": ("-mavx2", "-mfma", "-mf16c"), "SSE": ()}


@pytest.mark.parametrize("element", [BF16, F16], ids=str)
@pytest.mark.parametrize("program", list(PROGRAMS))
def test_programs(program: str, element: object, tmp_path: Path) -> None:
    """The original is compiled without the instructions that flush denormal numbers to zero."""
    fast = written(program, element, tmp_path)
    assert ("polydl_row" if program == "rows" else "polydl_mk_dot_bf16_" if element is BF16 else "polydl_mk_") in fast
    given = operands(element)
    wanted = results(text(program, element), ("-O1",), given)
    assert len(np.unique(wanted)) > 30
    for flags in TARGETS.values():
        np.testing.assert_array_equal(results(fast, ("-O2", "-fopenmp", *flags), given), wanted)


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_both_kinds_of_bfloat16_are_the_same(program: str, tmp_path: Path) -> None:
    """NaN, infinities and denormal numbers among others."""
    texts = [written(program, element, tmp_path) for element in (BF16, BF16_BITS)]
    given = operands(BF16, special=True)
    for flags in TARGETS.values():
        one, other = (results(c, ("-O2", "-fopenmp", *flags), given) for c in texts)
        np.testing.assert_array_equal(one, other)
    assert len(np.unique(one)) > 30


def test_a_compiler_without_it_is_named(tmp_path: Path) -> None:
    other = next((cc for cc in ("gcc", "cc") if shutil.which(cc) and not has_type(cc, BF16)), None)
    if other is None:
        pytest.skip("every compiler here has __bf16")
    source = tmp_path / "program.c"
    source.write_text(text("rows", BF16))
    with pytest.raises(InputErrors, match=f"the compiler '{other}' has no type '__bf16'"):
        polydl.optimize(source, tmp_path / "fast.c", run=False, cc=other)
