"""Programs on types that no kernel is made for: plain C, nowhere mistaken for float, with the original's results."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.model.types import element_type
from polydl.target.isa import VECTOR_TYPES
from tests.oracle.native import PLAIN, QUICK_NATIVE, compile_c

PROGRAM = """
void {name}({sum} C[restrict 12][20], const {of} A[restrict 12][9], const {of} B[restrict 9][20], {of} y[restrict 200])
{{
#pragma scop
    for (int i = 0; i < 12; i++)
        for (int j = 0; j < 20; j++)
            for (int k = 0; k < 9; k++)
                C[i][j] += A[i][k] * B[k][j];
    for (int i = 0; i < 200; i++)
        y[i] = y[i] * 2 + 1;
#pragma endscop
}}
"""


@pytest.mark.parametrize(
    ("of", "total"),
    [
        ("signed char", "int"),
        ("short", "short"),
        ("unsigned char", "unsigned char"),
        ("unsigned int", "unsigned int"),
        ("_Float16", "_Float16"),
        ("_Float16", "float"),
        ("float", "double"),
        ("long double", "long double"),
    ],
)
def test_plain_c(of: str, total: str, tmp_path: Path) -> None:
    texts = {name: PROGRAM.format(name=name, of=of, sum=total) for name in ("before", "after")}
    done = polydl.optimize(texts["after"], tmp_path / "after.c", run=False, space="small", threads=2)
    assert done.scops[0].chosen is not None
    written = (tmp_path / "after.c").read_text()
    # factors of a narrower type are converted for a sum that there are kernels for, or multiplied as they are
    assert ("polydl_mk" in written) == (element_type(total) in VECTOR_TYPES or (of, total) == ("signed char", "int"))
    # rows: the second nest, or a copy that converts; integers are in vectors of their own type
    assert (
        "polydl_row" not in written
        or element_type(of).is_int
        or (of, total) in {("float", "double"), ("_Float16", "float"), ("_Float16", "_Float16")}
    )
    libraries = compile_c([texts["before"]], PLAIN), compile_c([written], QUICK_NATIVE)
    rng = np.random.default_rng(1)
    shapes = {"C": (12, 20), "A": (12, 9), "B": (9, 20), "y": (200,)}
    types = {name: element_type(total if name == "C" else of).numpy for name in shapes}
    data = {name: rng.integers(0, 4, shape).astype(types[name]) for name, shape in shapes.items()}
    results = []
    for library, name in zip(libraries, texts, strict=True):
        arrays = {key: value.copy() for key, value in data.items()}
        getattr(library, name)(*(a.ctypes.data_as(ctypes.c_void_p) for a in arrays.values()))
        results.append(arrays)
    for name in ("C", "y"):
        assert np.array_equal(results[0][name], results[1][name])
        assert not np.array_equal(results[0][name], data[name])
