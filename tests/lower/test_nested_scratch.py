"""Memory of a region's own while a function with another region runs inside of it."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

import polydl
from polydl.options import Options
from tests.oracle.native import NATIVE, compile_c

N = 64
PRODUCT = f"""
    for (int i = 0; i < {N}; i++)
        for (int j = 0; j < {N}; j++)
            for (int k = 0; k < {N}; k++)
                c[i][j] += a[i][k] * b[j][k];
"""
ARRAYS = ", ".join(
    f"{const}double {name}[restrict {N}][{N}]" for name, const in (("a", "const "), ("b", "const "), ("c", ""))
)
SOURCE = f"""
void inner({ARRAYS})
{{
#pragma scop
{PRODUCT}
#pragma endscop
}}
void outer(int deep, {ARRAYS})
{{
#pragma scop
{PRODUCT}
#pragma endscop
    (void)deep;
}}
"""


def test_a_region_that_runs_inside_of_another_has_memory_of_its_own(tmp_path: Path) -> None:
    """The inner one is called while the copies of the outer one are in use: between the first packing and the first
    call of a microkernel."""
    file = tmp_path / "nested.c"
    file.write_text(SOURCE)
    o = Options(threads=1, machine="epyc-zen4", space="small", blocks="")
    text = polydl.optimize(file, tmp_path / "out.c", o, run=False).text
    assert text.count("= polydl_scratch(") == 2
    begin = text.index("void outer(")
    there = text.index("polydl_mk", begin)
    there = text.rindex("\n", 0, there)
    call = f"\nif (deep) {{ static double own[{N}][{N}]; inner(b, a, own); }}"
    nested = text[:there] + call + text[there:]
    library = compile_c([nested], NATIVE)
    generator = np.random.default_rng(1)
    a, b = generator.integers(-5, 6, (2, N, N)).astype(float)
    for _ in range(3):  # the blocks are used again
        c = np.zeros((N, N))
        library.outer(1, *(ctypes.c_void_p(one.ctypes.data) for one in (a, b, c)))
        assert (c == a @ b.T).all()
