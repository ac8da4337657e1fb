"""Sums and extremes of loops of unknown length, in parts: right beside the edges of parts and rounds, and proved."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.base.effort import Effort
from polydl.dependences.nests import nests
from polydl.frontend import load
from polydl.lower.emit import generate
from polydl.lower.guarded_pieces import where_all_runs
from polydl.lower.splice import splice
from polydl.rewrite.canonical import canonical
from polydl.rewrite.partial_results import ROUNDS, partial_in_rounds
from polydl.rewrite.reduction_privatisation import Partial
from polydl.schedule.check import check
from polydl.search.sizes.code import EverySize
from polydl.search.sizes.partial_sums import candidates_in_rounds
from polydl.search.sizes.searched_families import Base
from tests.oracle.native import compile_c

FLAGS = ("-Og", "-march=native", "-fopenmp", "-Wall", "-Wextra", "-Werror")
ROWS = [
    (0, 3),
    (3, 0),
    (1, 1),
    (31, 2),
    (32, 1),
    (33, 3),
    (255, 2),
    (256, 2),
    (257, 3),
    (2047, 1),
    (2049, 2),
    (4200, 3),
]
PROGRAMS = {
    "dot": ("for (int i = 0; i < n; i++) s += x[i] * y[i];", 1),
    "two sums": ("for (int i = 0; i < n; i++) { s += x[i]; q += x[i] * y[i]; }", 1),
    "from one on": ("for (int i = 1; i < n; i++) s += x[i] * x[i - 1];", 1),
    "least and greatest": ("for (int i = 0; i < n; i++) { s = x[i] > s ? x[i] : s; q = y[i] < q ? y[i] : q; }", 1),
    "fmax": ("for (int i = 0; i < n; i++) s = fmax(s, x[i]);", 1),
    "a difference": ("for (int i = 0; i < n; i++) s -= x[i];", 1),
    "beside a map": ("for (int i = 0; i < n; i++) { s += x[i]; y[i] = 2 * x[i]; }", 1),
    "whole matrix": ("for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) s += x[i * n + j];", 2),
    "greatest of a matrix": (
        "for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) if (x[i * n + j] > s) s = x[i * n + j];", 2
    ),
    "change of a sweep": (
        ("for (int i = 1; i < m; i++) for (int j = 0; j < n; j++) {\n"
        "double d = fabs(x[i * n + j] - y[i * n + j - n]); y[i * n + j - n] = x[i * n + j]; if (d > s) s = d; }"),
        2,
    ),
}  # fmt: skip


def flat(base: Base) -> list[int]:
    """Sizes beside the edges of the pieces and rounds of a loop."""
    cut = next(partial_in_rounds(base.scop, 0)).rewrite
    assert isinstance(cut, Partial) and cut.ways == 64
    piece, together = cut.chunk, cut.ways * cut.chunk
    edges = [n for edge in (piece, together) for n in (edge - 1, edge, edge + 1)]
    return [1, 5, 2 * piece, *edges, 2 * together + piece + 1]


def source(body: str, dims: int) -> str:
    sizes = "int n" if dims == 1 else "int m, int n"
    head = f"void f({sizes}, const double *restrict x, double *restrict y, double *restrict out)"
    start, end = "double s = out[0], q = out[1];", "out[0] = s; out[1] = q;"
    return f"#include <math.h>\n{head}\n{{\n    {start}\n    (void)q, (void)y;\n    {body}\n    {end}\n}}\n"


def bases(folder: Path, text: str) -> tuple[Base, polydl.Program]:
    path = folder / "program.c"
    path.write_text(text)
    program = load(path, require_sizes=False)
    (scop,) = program.scops
    written = canonical(where_all_runs(scop).scop)
    return Base(written.scop, written.dependences, nests(written.scop, written.dependences)), program


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_results_in_parts(name: str, tmp_path: Path) -> None:
    body, dims = PROGRAMS[name]
    text = source(body, dims)
    base, program = bases(tmp_path, text)
    found, left_out = candidates_in_rounds(base, Effort())
    assert not left_out and len(found) == 2 * len(ROUNDS[dims == 2])
    original = compile_c([text], ("-Og",))
    for one in found:
        assert check(one.base.scop, one.tree, one.base.dependences, reassociate=True) is None
        code = generate(one.base.scop, one.tree)
        assert "omp parallel for" in code.region
        made = splice(program.source, [(program.scops[0], code)], "")
        library = compile_c([made], FLAGS)
        for at in [(n,) for n in flat(base)] if dims == 1 else ROWS:
            if 0 in at:
                continue  # other code runs there
            elements = int(np.prod(at))
            rng = np.random.default_rng(1)
            x = rng.integers(-9, 10, elements).astype(np.float64)
            results = []
            for each in (original, library):
                y, out = x[::-1].copy(), np.array([3.0, -4.0])
                each.f(*at, *(ctypes.c_void_p(a.ctypes.data) for a in (x, y, out)))
                results.append(np.concatenate([y, out]))
            np.testing.assert_array_equal(*results, err_msg=str(at))


def test_not_a_number_counts_as_it_does_in_order(tmp_path: Path) -> None:
    """`if (x > s) s = x` passes over it, wherever it stands."""
    text = source("for (int i = 0; i < n; i++) if (x[i] > s) s = x[i];", 1)
    base, program = bases(tmp_path, text)
    original = compile_c([text], ("-Og",))
    (first, second), _ = candidates_in_rounds(base, Effort())
    piece = flat(base)[4]
    n = 2 * piece + 3616
    for one in (first, second):
        made = splice(program.source, [(program.scops[0], generate(one.base.scop, one.tree))], "")
        library = compile_c([made], FLAGS)
        for place in (0, 1, piece - 1, piece, n - 1):
            x = np.random.default_rng(place).integers(-9, 10, n).astype(np.float64)
            x[place], x[place // 2] = np.nan, np.inf if place == 1 else 50
            results = []
            for each in (original, library):
                out = np.array([3.0, -4.0])
                each.f(n, *(ctypes.c_void_p(a.ctypes.data) for a in (x, x, out)))
                results.append(out)
            np.testing.assert_array_equal(*results)


def test_an_order_that_is_kept_has_no_parts(tmp_path: Path) -> None:
    path = tmp_path / "dot.c"
    path.write_text(source(PROGRAMS["dot"][0], 1))
    done = polydl.optimize(path, sizes={"n": range(1, 10**7)}, run=False, threads=2, reassociate=False)
    assert "_part" not in done.text


@pytest.mark.few_sizes
def test_it_is_chosen_and_proved(tmp_path: Path) -> None:
    path = tmp_path / "dot.c"
    path.write_text(source(PROGRAMS["dot"][0], 1))
    done = polydl.optimize(path, sizes={"n": range(1, 10**7)}, run=False, threads=2, machine="epyc-zen5", prove=True)
    assert done.text.count("polydl_s_part") > 1
    (scop,) = done.scops
    assert isinstance(scop.other_sizes, EverySize)
    assert scop.other_sizes.proof is not None and scop.other_sizes.proof.holds
