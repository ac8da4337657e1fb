"""Arrays in other layouts than C's: the code that is written for them, run on data in these layouts."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.frontend.load import load
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.model.layout import Layout, row_major
from polydl.schedule.ordered import written
from polydl.schedule.program_tree import program_tree
from tests.oracle.native import compile_c

ROWS, COLUMNS = 12, 20
SOURCE = f"""
void f(float *restrict Y, const float *restrict X)
{{
#pragma scop
    for (int i = 1; i < {ROWS}; i++)
        for (int j = 0; j < {COLUMNS}; j++)
            Y[i * {COLUMNS} + j] = 2 * X[i * {COLUMNS} + j] + X[(i - 1) * {COLUMNS} + j];
#pragma endscop
}}
"""
PLAIN = row_major((ROWS, COLUMNS))


def stored(values: np.ndarray, layout: Layout) -> np.ndarray:
    """The elements of an array at their places."""
    assert layout.size is not None
    memory = np.full(layout.size, np.nan, np.float32)
    for element in itertools.product(*map(range, values.shape)):
        memory[layout.offset(element)] = values[element]
    return memory


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (PLAIN, PLAIN),
        (PLAIN.blocked(1, 8).permuted((1, 0, 2)), PLAIN),
        (PLAIN.blocked(0, 2), PLAIN.blocked(1, 4)),
        (PLAIN.padded(0, 1, 2).padded(1, 3, 1), PLAIN.padded(1, 0, 12)),
        (PLAIN.blocked(0, 2).blocked(1, 16).permuted((1, 0, 3, 2)), PLAIN.permuted((1, 0))),
        (PLAIN.padded(1, 2).blocked(1, 8), PLAIN.padded(0, 4).blocked(0, 8).permuted((2, 1, 0))),
    ],
)
def test_the_code_finds_every_element(x: Layout, y: Layout, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(SOURCE)
    program = load(tmp_path / "f.c")
    (scop,) = program.scops
    arrays = {n: replace(a, layout={"X": x, "Y": y}[n]) for n, a in scop.arrays.items()}
    scop = replace(scop, arrays=arrays)
    structures = [written(nest) for nest in nests(scop, dependences(scop, reads=False))]
    library = compile_c([splice(program.source, [(scop, generate(scop, program_tree(structures)))], "")], ("-O1", "-w"))
    inputs = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    before = np.full_like(inputs, -1)
    given, got = stored(inputs, x), stored(before, y)
    pointer = ctypes.POINTER(ctypes.c_float)
    library.f(got.ctypes.data_as(pointer), given.ctypes.data_as(pointer))
    expected = before.copy()
    expected[1:] = 2 * inputs[1:] + inputs[:-1]
    np.testing.assert_array_equal(got, stored(expected, y))


def test_only_linear_arrays_have_other_layouts(tmp_path: Path) -> None:
    (tmp_path / "g.c").write_text(
        "void g(float A[8][8])\n{\n    for (int i = 0; i < 8; i++)\n        A[i][i] = 0;\n}\n"
    )
    (scop,) = load(tmp_path / "g.c").scops
    with pytest.raises(ValueError, match="A is subscripted as a C array, whose layout is row-major"):
        replace(scop.arrays["A"], layout=row_major((8, 8)).blocked(1, 4))
    with pytest.raises(ValueError, match="2 dimensions and a layout for 1"):
        replace(scop.arrays["A"], layout=row_major((8,)))
