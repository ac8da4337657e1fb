"""Rows whose columns run a short loop each, in the order that C has: to the bit, for any number of columns."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import polydl
from tests.kernels.test_gathering import MACHINES
from tests.kernels.test_inner_sums import in_rows
from tests.oracle.native import compile_c

BODIES = {
    "sums of windows": "@ s = 0; for (int j = 0; j < 5; j++) s += x[i + j]; y[i] = s;",
    "a filter in place": "for (int j = 0; j < 9; j++) y[i] += x[i + j] * h[j];",
    "far apart": "@ s = x[i]; for (int j = 0; j < 7; j++) s -= x[i + 40 * j] * h[2]; y[i] = s;",
    "polynomials": "@ s = h[0]; for (int j = 1; j < 4; j++) s = s * x[i] + h[j]; y[i] = s;",
    "least neighbours": "@ s = x[i]; for (int j = 1; j < 6; j++) s = x[i + j] < s ? x[i + j] : s; y[i] = s;",
    "greatest sum": "@ s = 0; for (int j = 0; j < 32; j++) s += x[i + j]; m[0] = s > m[0] ? s : m[0];",
    "changed sums": "y[i] = h[0]; for (int j = 0; j < 6; j++) y[i] += x[i + j]; y[i] = h[1] * y[i] - 3;",
    "sums of doubled values": "y[i] = 2 * x[i]; for (int j = 0; j < 6; j++) y[i] += x[i + j];",
    "two results": "@ s = 0; for (int j = 0; j < 3; j++) s += x[i + j]; m[0] += s; y[i] = s * h[1];",
}
LENGTHS = (1, 2, 15, 16, 17, 31, 63, 64, 65, 130, 257)
LONGEST = 600


def functions(element: str) -> str:
    head = (
        f"int n, const {element} *restrict x, const {element} *restrict h, {element} *restrict y, {element} *restrict m"
    )
    loops = [f"for (int i = 0; i < n; i++) {{ {body.replace('@', element)} }}" for body in BODIES.values()]
    return "".join(f"void f{number}({head})\n{{\n    {loop}\n}}\n" for number, loop in enumerate(loops))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("element", ["float", "double", "int"])
def test_the_same_bits_as_plain_c(element: str, machine: str, tmp_path: Path) -> None:
    source = functions(element)
    written = in_rows(*polydl.load(source, require_sizes=False).scops)
    # Once more where the first of equal values is looked for.
    assert written.count("polydl_j < ") == len(BODIES) + (element != "int")
    flags = ("-ffp-contract=off", "-Wno-unknown-pragmas", MACHINES[machine])
    plain, rows = compile_c([source], ("-Og", *flags)), compile_c([written], ("-Og", "-fstrict-aliasing", *flags))
    dtype = {"float": np.float32, "double": np.float64, "int": np.int32}[element]
    generator = np.random.default_rng(3)
    values = [-3, -1, 0, 2, 5] if element == "int" else [-3.0, -1.0, -0.0, 0.0, 2.0]
    for n in LENGTHS:
        for chosen in (values, values[2:4], values[2:3]):
            given = [generator.choice(np.array(chosen, dtype), size) for size in (LONGEST, 16, LONGEST, 1)]
            for number, name in enumerate(BODIES):
                found = []
                for library in (plain, rows):
                    own = [one.copy() for one in given]
                    library[f"f{number}"](n, *(ctypes.c_void_p(one.ctypes.data) for one in own))
                    found.append([one.tobytes() for one in own])
                assert found[0] == found[1], (name, n, given)


@pytest.mark.parametrize(
    "body",
    [
        "float s = 0; for (int j = 0; j < 100; j++) s += x[i + j]; y[i] = s;",  # long
        "float s = 0; for (int j = 0; j < 8; j++) s += x[8 * i + j]; y[i] = s;",  # columns far from one another
        "float s = 0; for (int j = 0; j < 8; j++) s += h[j] > 0 ? x[i + j] : 0.0f; y[i] = s;",  # may not be there
        "for (int j = 0; j < 4; j++) y[i] += y[i + j + 1];",  # columns that need each other
        "for (int j = 0; j < 4; j++) y[i + n * j] = 1.5f * y[i + n * j] + 1;",  # another element in each iteration
        "for (int j = 0; j < 4; j++) y[i + 1000 * j] = 1.5f * y[i + 1000 * j] + 1;",
        "for (int j = 0; j < 4; j++) y[i + 1000 * j] += x[i + j];",
    ],
)
def test_what_stays_a_loop_around_others(body: str) -> None:
    head = "void f(int n, const float *restrict x, const float *restrict h, float *restrict y)"
    text = f"{head}\n{{\n    for (int i = 0; i < n; i++) {{ {body} }}\n}}\n"
    (scop,) = polydl.load(text, require_sizes=False).scops
    assert "polydl_j < " not in in_rows(scop)


def test_sums_into_another_element_in_each_iteration_stay_loops() -> None:
    head = "void f(int n, int *restrict x, const unsigned char *restrict a, const signed char *restrict b)"
    loop = "for (int i = 0; i < n; i++) for (int j = 0; j < 16; j++) x[i + n * j] += a[i + j] * b[j];"
    (scop,) = polydl.load(f"{head}\n{{\n    {loop}\n}}\n", require_sizes=False).scops
    assert "POLYDL_FETCH" not in in_rows(scop)
