"""Loops over tiles are left out, and only where the order that they stand for does not show."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polydl import load
from polydl.dependences.nests import nests
from polydl.equations.step import Step
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.model import isl
from polydl.model.scop import Scop
from polydl.rewrite.canonical import canonical
from polydl.rewrite.detiling import Joined, strips
from polydl.schedule.loops import start
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.target.isa import kernel_contraction
from tests.oracle.native import NATIVE, PLAIN, compile_c

HEAD = "#define T 4\n#define MIN(a, b) ((a) < (b) ? (a) : (b))\n"
ARRAYS = "float A[restrict N][N], float B[restrict N][N], float C[restrict N][N]"
N = 13


def text(body: str, name: str = "f", *, symbolic: bool = False) -> str:
    if symbolic:
        return f"{HEAD}void {name}(int N, {ARRAYS})\n{{\n{body}\n}}\n"
    return f"{HEAD}#define N {N}\nvoid {name}({ARRAYS})\n{{\n{body}\n}}\n"


def scop_of(folder: Path, body: str, *, symbolic: bool = False) -> Scop:
    path = folder / "s.c"
    path.write_text(text(body, symbolic=symbolic))
    return load(path, require_sizes=False).scops[0]


def tiles(*loops: str) -> str:
    """Loops over tiles of the loops `i`, `j`, …, and then these."""
    over = [f"for (int {x}{x} = 0; {x}{x} < N; {x}{x} += T)" for x in loops]
    return " ".join([*over, *(f"for (int {x} = {x}{x}; {x} < MIN({x}{x} + T, N); {x}++)" for x in loops)])


JOINED = {
    "a product": (f"{tiles('i', 'j', 'k')} C[i][j] += A[i][k] * B[k][j];", ("i", "j", "k")),
    "a transposition": (f"{tiles('i', 'j')} C[j][i] = A[i][j];", ("i", "j")),
    "one loop": (f"{tiles('j')} for (int i = 0; i < N; i++) C[i][j] = A[i][j] + j;", ("j", "i")),
    "by numbers": (
        "for (int t = 0; t < (N + T - 1) / T; t++) for (int i = T * t; i < MIN(T * t + T, N); i++) C[i][0] = A[i][1];",
        ("i",),
    ),
    "tiles of tiles": (
        (
            "for (int ii = 0; ii < N; ii += 2 * T) for (int m = ii; m < MIN(ii + 2 * T, N); m += T) "
            "for (int i = m; i < MIN(m + T, N); i++) for (int j = 0; j < N; j++) C[i][j] = A[i][j];"
        ),
        ("i", "j"),
    ),
    "two nests in a tile": (
        (
            "for (int ii = 0; ii < N; ii += T) { for (int i = ii; i < MIN(ii + T, N); i++) C[i][0] = A[i][0]; "
            "for (int i = ii; i < MIN(ii + T, N); i++) B[i][0] = C[i][0] + i; }"
        ),
        ("i",),
    ),
    "downwards": (
        "for (int ii = N - 1; ii >= 0; ii -= T) for (int i = ii; i > ii - T && i >= 0; i--) C[i][2] = A[i][3];",
        ("i",),
    ),
}


@pytest.mark.parametrize("symbolic", [False, True], ids=["known", "symbolic"])
@pytest.mark.parametrize("case", list(JOINED))
def test_the_loops_inside_are_left(tmp_path: Path, case: str, *, symbolic: bool) -> None:
    body, loops = JOINED[case]
    (step,) = strips(scop_of(tmp_path, body, symbolic=symbolic))
    assert {s.iterators for s in step.after.statements} == {loops}
    assert all(s.name.endswith("u") for s in step.after.statements)


@pytest.mark.parametrize("case", list(JOINED))
def test_the_same_is_computed(tmp_path: Path, case: str) -> None:
    body, _ = JOINED[case]
    (step,) = strips(scop_of(tmp_path, body))
    after = step.after
    parts = [Ordered.nest(start(nest)) for nest in nests(after, canonical(after).dependences)]
    written = splice(after.source, [(after, generate(after, program_tree(parts)))], "")
    libraries = compile_c([text(body)], PLAIN), compile_c([written], NATIVE)
    rng = np.random.default_rng(3)
    given = [rng.integers(-9, 9, (N, N)).astype(np.float32) for _ in range(3)]
    results = []
    for library in libraries:
        arrays = [one.copy() for one in given]
        library.f(*(ctypes.c_void_p(one.ctypes.data) for one in arrays))
        results.append(arrays)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_product_in_tiles_is_a_contraction_without_them(tmp_path: Path) -> None:
    hoisted = (
        "for (int ii = 0; ii < N; ii += T) for (int kk = 0; kk < N; kk += T) for (int jj = 0; jj < N; jj += T) "
        "for (int i = ii; i < MIN(ii + T, N); i++) for (int j = jj; j < MIN(jj + T, N); j++) { float s = C[i][j]; "
        "for (int k = kk; k < MIN(kk + T, N); k++) s += A[i][k] * B[k][j]; C[i][j] = s; }"
    )
    for body in (JOINED["a product"][0], hoisted):
        for symbolic in (False, True):
            found = canonical(scop_of(tmp_path, body, symbolic=symbolic))
            assert not found.refused
            (statement,) = found.scop.statements
            assert kernel_contraction(found.scop, statement) is not None
            assert isl.is_box(statement.domain.simple_hull())


LEFT_ALONE = {
    "an order that shows": (f"{tiles('i', 'j')} if (i > 0 && j < N - 1) C[i][j] = C[i - 1][j + 1] * A[i][j];"),
    "a tile's number is used": (
        "for (int ii = 0; ii < N; ii += T) { C[ii][0] = 1; for (int i = ii; i < MIN(ii + T, N); i++) A[i][0] = 2; }"
    ),
    "an element of each tile": (
        "for (int t = 0; t < 3; t++) for (int i = T * t; i < T * t + T; i++) C[0][t] += A[0][i];"
    ),
    "a value of each tile": (
        "for (int t = 0; t < 3; t++) for (int i = T * t; i < T * t + T; i++) C[0][i] = A[0][i] * t;"
    ),
    "overlapping tiles": (
        "for (int ii = 0; ii < N - T; ii += T) for (int i = ii; i < ii + T + 1; i++) C[i][0] += A[i][0];"
    ),
    "a diagonal": "for (int i = 0; i < N; i++) for (int j = i; j <= i; j++) C[i][j] = A[i][j];",
    "a wavefront": "for (int d = 0; d < N; d++) for (int i = 0; i <= d; i++) C[i][d - i] = A[i][d - i];",
    "one iteration": "for (int t = 3; t < 4; t++) for (int i = 0; i < N; i++) C[t][i] = A[t][i];",
}


@pytest.mark.parametrize("case", list(LEFT_ALONE))
def test_other_loops_stay(tmp_path: Path, case: str) -> None:
    assert not list(strips(scop_of(tmp_path, LEFT_ALONE[case])))


def test_one_nest_may_be_joined_where_another_may_not(tmp_path: Path) -> None:
    other = JOINED["a transposition"][0].replace("C[j][i]", "B[j][i]")
    steps = list(strips(scop_of(tmp_path, f"{LEFT_ALONE['an order that shows']} {other}")))
    assert [s.name for s in steps[-1].after.statements] == ["S0", "S1u"]


def test_another_program_does_not_pass_the_check(tmp_path: Path) -> None:
    (step,) = strips(scop_of(tmp_path, JOINED["two nests in a tile"][0]))
    joined, (first, second) = step.rewrite, step.after.statements
    assert isinstance(joined, Joined)

    def holds(*statements: object) -> bool:
        after = replace(step.after, statements=tuple(statements))
        return Step(joined, step.before, after).broken() is None

    assert holds(first, second)
    assert not holds(replace(first, position=(2, 0)), second)
    fewer = replace(second, domain=isl.fix(second.domain, "i", 3))
    assert not holds(first, fewer)
    accesses = tuple(replace(a, relation=isl.domain_named(a.relation, first.name)) for a in second.accesses)
    swapped = replace(first, accesses=accesses)
    assert not holds(swapped, second)
    assert not holds(first)
