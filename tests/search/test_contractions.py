"""Contractions in many shapes: sampled variants with microkernels and packing, bit for bit equal to the original."""

# ruff: noqa: E501 - programs, a line each

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polydl.dependences.analysis import dependences
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import Nest, nests
from polydl.frontend import load
from polydl.lower.emit import generate
from polydl.model.scop import Scop
from polydl.rewrite.canonical import Form, canonical
from polydl.schedule.check import check
from polydl.schedule.limits import SPACES, Limits
from polydl.schedule.loops import NestLoops
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.search.space import legal_structures
from tests.oracle import compile_c

FLAGS = ("-Og", "-march=native", "-fopenmp", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas")

# name: (arrays with their extents, body). Extents are odd on purpose.
PROGRAMS: dict[str, tuple[dict[str, tuple[int, ...]], str]] = {
    "nn": ({"C": (19, 37), "A": (19, 23), "B": (23, 37)}, "FOR(i,19) FOR(j,37) FOR(k,23) C[i][j] += A[i][k] * B[k][j];"),
    "nt": ({"C": (19, 37), "A": (19, 23), "B": (37, 23)}, "FOR(i,19) FOR(j,37) FOR(k,23) C[i][j] += A[i][k] * B[j][k];"),
    "tn": ({"C": (19, 37), "A": (23, 19), "B": (23, 37)}, "FOR(k,23) FOR(i,19) FOR(j,37) C[i][j] += A[k][i] * B[k][j];"),
    "tt": ({"C": (37, 19), "A": (19, 23), "B": (37, 23)}, "FOR(i,19) FOR(j,37) FOR(k,23) C[j][i] += A[i][k] * B[j][k];"),
    "minus": ({"C": (9, 33), "A": (9, 5), "B": (5, 33)}, "FOR(i,9) FOR(k,5) FOR(j,33) C[i][j] -= B[k][j] * A[i][k];"),
    "scaled": (
        {"C": (9, 33), "A": (9, 5), "B": (5, 33)},
        "FOR(i,9) FOR(j,33) FOR(k,5) C[i][j] += 2 * A[i][k] * B[k][j];",
    ),
    "cast": (
        {"C": (9, 33), "A": (9, 5), "B": (5, 33)},
        "FOR(i,9) FOR(j,33) FOR(k,5) C[i][j] += (TYPE)((TYPE)A[i][k] * (TYPE)B[k][j]);",
    ),
    "zeroed": (
        {"C": (9, 33), "A": (9, 11), "B": (11, 33)},
        "FOR(i,9) FOR(j,33) { C[i][j] = 0; FOR(k,11) C[i][j] += A[i][k] * B[k][j]; }",
    ),
    "accumulator": (
        {"C": (9, 33), "A": (9, 11), "B": (11, 33)},
        "FOR(i,9) FOR(j,33) { TYPE s = 0; FOR(k,11) s += A[i][k] * B[k][j]; C[i][j] = s; }",
    ),
    "accumulator_added": (
        {"C": (9, 33), "A": (9, 11), "B": (11, 33)},
        "FOR(i,9) FOR(j,33) { TYPE s = 0; FOR(k,11) s += A[i][k] * B[k][j]; C[i][j] += s; }",
    ),
    "vector": ({"y": (37,), "x": (23,), "B": (23, 37)}, "FOR(j,37) FOR(k,23) y[j] += x[k] * B[k][j];"),
    "outer": ({"C": (13, 37), "x": (13,), "y": (37,)}, "FOR(i,13) FOR(j,37) C[i][j] += x[i] * y[j];"),
    "overlapping": ({"c": (60,), "a": (20,), "b": (41,)}, "FOR(i,20) FOR(j,41) c[i + j] += a[i] * b[j];"),
    "batched": (
        {"C": (3, 7, 18), "A": (3, 7, 6), "B": (3, 6, 18)},
        "FOR(b,3) FOR(i,7) FOR(j,18) FOR(k,6) C[b][i][j] += A[b][i][k] * B[b][k][j];",
    ),
    "triangle": ({"C": (21, 21), "A": (21, 9), "B": (9, 21)}, "FOR(i,21) LE(j,i) FOR(k,9) C[i][j] += A[i][k] * B[k][j];"),
    "downwards": (
        {"C": (11, 21), "A": (11, 9), "B": (9, 21)},
        "DOWN(i,11) FOR(j,21) DOWN(k,9) C[i][j] += A[i][k] * B[k][j];",
    ),
    "strided": (
        {"C": (11, 21), "A": (11, 9), "B": (9, 21)},
        "for (int i = 1; i < 11; i += 2) FOR(j,21) for (int k = 0; k < 9; k += 4) C[i][j] += A[i][k] * B[k][j];",
    ),
    "convolution": (
        {"o": (2, 5, 7, 10), "x": (2, 12, 16, 3), "w": (3, 2, 3, 10)},
        "FOR(n,2) FOR(p,5) FOR(q,7) FOR(f,10) FOR(r,3) FOR(s,2) FOR(c,3) o[n][p][q][f] += x[n][2*p+r][2*q+s][c] * w[r][s][c][f];",
    ),
    "dilated": (
        {"o": (9, 17), "x": (15, 4), "w": (3, 4, 17)},
        "FOR(q,9) FOR(f,17) FOR(s,3) FOR(c,4) o[q][f] += x[q + 3 * s][c] * w[s][c][f];",
    ),
    "depthwise": ({"o": (9, 17), "x": (11, 17), "w": (3, 17)}, "FOR(q,9) FOR(s,3) FOR(c,17) o[q][c] += x[q + s][c] * w[s][c];"),
    "flat": ({"C": (11 * 21,), "A": (11 * 9,), "B": (9 * 21,)}, "FOR(i,11) FOR(j,21) FOR(k,9) C[i*21+j] += A[i*9+k] * B[k*21+j];"),
}  # fmt: skip

MACROS = """
#define FOR(v, n) for (int v = 0; v < n; v++)
#define LE(v, n) for (int v = 0; v <= n; v++)
#define DOWN(v, n) for (int v = n - 1; v >= 0; v--)
"""

TINY = replace(
    SPACES["default"], tile_sizes=(4, 12), tiled_at_once=2, levels=2, orders=8, starts=2, least_packed=1, limit=900
)


def blocks(nest: Nest) -> list[tuple[str | None, str, int, int]]:
    assert nest.contraction is not None
    return [
        (rows, columns, m, n)
        for columns in nest.contraction.columns()
        for rows in nest.contraction.rows(columns) or (None,)
        for m, n in ((3, 16), (2, 5), (1, 32))
    ]


def sampled(scop: Scop, most: int) -> list[list[NestLoops]]:
    """Structures for all nests, spread over the whole space; each passes the exact legality check."""
    found = dependences(scop, reads=False)
    parts = nests(scop, found)
    choices = []
    for nest in parts:
        legality = nest_legality(nest, found)
        choices.append(list(legal_structures(Limits(nest, legality, TINY, blocks, 2))))
    longest = max(len(c) for c in choices)
    picked = [[c[i * 7919 % len(c)] for c in choices] for i in range(min(most, longest))]
    for structures in picked:
        assert check(scop, program_tree([Ordered.nest(one) for one in structures]), found) is None
    return picked


@pytest.mark.parametrize(("name", "ctype"), [(name, ("float", "double")[at % 2]) for at, name in enumerate(PROGRAMS)])
def test_same_results(name: str, ctype: str, tmp_path: Path) -> None:
    arrays, body = PROGRAMS[name]
    output = next(iter(arrays))
    signature = ", ".join(
        f"{'' if a == output else 'const '}{ctype} {a}[restrict {']['.join(map(str, e))}]" for a, e in arrays.items()
    )
    text = f"{MACROS}#define TYPE {ctype}\nvoid f({signature})\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"
    path = tmp_path / f"{name}.c"
    path.write_text(text)
    scop = canonical(load(path).scops[0], form=Form.WRITTEN).scop
    codes = [
        generate(scop, program_tree([Ordered.nest(one) for one in structures])) for structures in sampled(scop, 14)
    ]
    if name not in ("overlapping", "depthwise"):
        assert any("polydl_mk" in code.region for code in codes)
    prologue = dict.fromkeys(p for code in codes for p in code.prologue)
    functions = [f"void v{i}({signature})\n{code.region}\n" for i, code in enumerate(codes)]
    library = compile_c([text.replace("#pragma", "//"), *prologue, *functions], FLAGS)
    dtype = np.dtype(np.float32 if ctype == "float" else np.float64)
    rng = np.random.default_rng(0)
    data = {a: rng.integers(-4, 5, e).astype(dtype) for a, e in arrays.items()}

    def run(function: str) -> np.ndarray:
        copies = {a: np.ascontiguousarray(x.copy()) for a, x in data.items()}
        getattr(library, function)(*(x.ctypes.data_as(ctypes.c_void_p) for x in copies.values()))
        for a, x in data.items():
            if a != output:
                assert np.array_equal(copies[a], x)
        return copies[output]

    expected = run("f")
    for i in range(len(codes)):
        assert np.array_equal(run(f"v{i}"), expected), functions[i]
