"""Contractions with conditions or clamped subscripts at borders, cut where sizes are parameters."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import polydl
from polydl.base.effort import Effort
from polydl.lower.guarded_pieces import where_all_runs
from polydl.lower.splice import splice
from polydl.model import isl
from polydl.model.scop import Scop
from polydl.rewrite.canonical import canonical
from polydl.rewrite.cut import Cut
from polydl.search.sizes import blocks
from polydl.search.sizes import size_points as points
from polydl.search.sizes.blocks import every_size_in_blocks
from polydl.search.sizes.code import EverySize, Setting, Symbolic
from tests.efforts import EVEN_SLOWER, FEWEST
from tests.oracle.native import compile_c
from tests.search.one_way import OPTIONS, in_one_way, outputs, proof_of
from tests.search.test_every_size import Guarded

FLAGS = ("-Og", "-march=native", "-fopenmp", "-Wall", "-Wextra", "-Werror")
SAME = """
void f(int m, int n, int k, const float in[restrict k][m][n], const float w[restrict 5][k][3][3],
       float out[restrict 5][m][n])
{
    for (int f = 0; f < 5; f++)
        for (int y = 0; y < m; y++)
            for (int x = 0; x < n; x++) {
                float s = 0.0f;
                for (int c = 0; c < k; c++)
                    for (int ky = 0; ky < 3; ky++)
                        for (int kx = 0; kx < 3; kx++)
                            if (y + ky - 1 >= 0 && y + ky - 1 < m && x + kx - 1 >= 0 && x + kx - 1 < n)
                                s += in[c][y + ky - 1][x + kx - 1] * w[f][c][ky][kx];
                out[f][y][x] = s;
            }
}
"""
ROWS = """
void f(int m, int n, int k, const float in[restrict k][m], const float w[restrict n][k][5], float out[restrict n][m])
{
    for (int f = 0; f < n; f++)
        for (int x = 0; x < m; x++)
            for (int c = 0; c < k; c++)
                for (int t = 0; t < 5; t++)
                    if (x + t >= 2 && x + t < m + 2)
                        out[f][x] += in[c][x + t - 2] * w[f][c][t];
}
"""


CLAMPED = """
void f(int m, int n, int k, const float in[restrict k][m][n], const float w[restrict 5][k][3][3],
       float out[restrict 5][m][n])
{
    for (int f = 0; f < 5; f++)
        for (int y = 0; y < m; y++)
            for (int x = 0; x < n; x++)
                for (int c = 0; c < k; c++)
                    for (int ky = 0; ky < 3; ky++)
                        for (int kx = 0; kx < 3; kx++) {
                            int q = y + ky - 1 < 0 ? 0 : y + ky - 1 >= m ? m - 1 : y + ky - 1;
                            int p = x + kx - 1 < 0 ? 0 : x + kx - 1 >= n ? n - 1 : x + kx - 1;
                            out[f][y][x] += in[c][q][p] * w[f][c][ky][kx];
                        }
}
"""


TRANSPOSED = """
void f(int m, int n, int k, const float in[restrict k][m], const float w[restrict n][k][4],
       float out[restrict n][2 * m + 2])
{
    for (int f = 0; f < n; f++)
        for (int x = 0; x < m; x++)
            for (int c = 0; c < k; c++)
                for (int t = 0; t < 4; t++)
                    out[f][2 * x + t] += in[c][x] * w[f][c][t];
}
"""
DILATED = TRANSPOSED.replace("2 * m + 2", "m + 27").replace("2 * x + t", "x + 9 * t")


def same(image: np.ndarray, w: np.ndarray, out: np.ndarray) -> np.ndarray:
    _, m, n = image.shape
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    found = np.zeros_like(out)
    for p, q in itertools.product(range(3), range(3)):
        found += np.tensordot(w[:, :, p, q], padded[:, p : p + m, q : q + n], 1)
    return found


def rows(image: np.ndarray, w: np.ndarray, out: np.ndarray) -> np.ndarray:
    padded = np.pad(image, ((0, 0), (2, 2)))
    return out + sum(w[:, :, t] @ padded[:, t : t + image.shape[1]] for t in range(5))


def transposed(image: np.ndarray, w: np.ndarray, out: np.ndarray) -> np.ndarray:
    found, m = out.copy(), image.shape[1]
    for t in range(4):
        found[:, t : t + 2 * m : 2] += w[:, :, t] @ image
    return found


def dilated(image: np.ndarray, w: np.ndarray, out: np.ndarray) -> np.ndarray:
    found, m = out.copy(), image.shape[1]
    for t in range(4):
        found[:, 9 * t : 9 * t + m] += w[:, :, t] @ image
    return found


def clamped(image: np.ndarray, w: np.ndarray, out: np.ndarray) -> np.ndarray:
    _, m, n = image.shape
    padded = (
        np.pad(image, ((0, 0), (1, 1), (1, 1)), mode="edge") if image.size else np.zeros((len(image), m + 2, n + 2))
    )
    found = out.copy()
    for p, q in itertools.product(range(3), range(3)):
        found += np.tensordot(w[:, :, p, q], padded[:, p : p + m, q : q + n], 1)
    return found


Shapes = Callable[[int, int, int], tuple[tuple[int, ...], ...]]
CASES: dict[str, tuple[str, Callable[..., np.ndarray], Shapes, str, str]] = {
    "same": (SAME, same, lambda m, n, k: ((k, m, n), (5, k, 3, 3), (5, m, n)), "m >= 5 && n >= 5", "S1b7, S1b8"),
    "rows": (ROWS, rows, lambda m, n, k: ((k, m), (n, k, 5), (n, m)), "m >= 9", "b3, S0b4"),
    "clamped": (
        CLAMPED, clamped, lambda m, n, k: ((k, m, n), (5, k, 3, 3), (5, m, n)), "m >= 18 && n >= 18",
        "S0 is cut where its subscripts change: S0p0, S0p1, S0p2, S0p3, S0p4",
    ),
    "transposed": (
        TRANSPOSED, transposed, lambda m, n, k: ((k, m), (n, k, 4), (n, 2 * m + 2)), "m >= 4", "S0g1b1, S0g1b2",
    ),
    "dilated": (
        DILATED, dilated, lambda m, n, k: ((k, m), (n, k, 4), (n, m + 27)), "m >= 34", "S0g0b5, S0g0b6",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_cut_is_that_of_known_sizes(name: str) -> None:
    source, *_, boxes = CASES[name]
    (scop,) = polydl.load(source, require_sizes=False).scops
    known = canonical(polydl.load(source, sizes={"m": 40, "n": 30, "k": 7}).scops[0])
    program = canonical(where_all_runs(scop).scop)
    assert [str(step) for step in program.steps] == [str(step) for step in known.steps]
    (cut,) = [step for step in program.steps if isinstance(step.rewrite, Cut)]
    assert str(cut).endswith(boxes) and cut.broken() is None


SOME = (
    *itertools.product(range(8), range(8), (0, 1, 3)),
    (9, 8, 2), (10, 9, 1), (5, 130, 33), (131, 6, 40), (70, 67, 20), (18, 18, 2), (17, 19, 2), (20, 21, 7),
)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_right_at_every_size(name: str) -> None:
    source, expected, shapes, asked, _ = CASES[name]
    libraries = []
    for done in outputs(source, (0, 1), OPTIONS.changed(sizes={"m": 20, "n": 20, "k": 9}, effort=FEWEST)):
        assert isinstance(done.scops[0].other_sizes, EverySize)
        assert asked in done.text
        libraries.append(compile_c([done.text], FLAGS))
    rng = np.random.default_rng(1)
    for at in SOME:
        guarded = Guarded()
        arrays = [guarded.array(shape, np.float32, rng) for shape in shapes(*at)]
        begun = arrays[2].copy()
        wanted = expected(arrays[0], arrays[1], begun)
        for library in libraries:
            arrays[2][...] = begun
            library.f(*at, *(ctypes.c_void_p(array.__array_interface__["data"][0]) for array in arrays))
            np.testing.assert_array_equal(arrays[2], wanted, err_msg=str(at))


@pytest.mark.parametrize("name", CASES)
def test_it_is_proved_for_all_sizes(name: str) -> None:
    scop, found = in_one_way(CASES[name][0], 0, 256)
    proof = proof_of(scop, found)
    assert proof.holds, proof.reason
    assert found.marked is not None
    if name != "dilated":  # nothing in it ends at m - 1
        assert proof_of(scop, found, found.marked.region.replace("m - 1", "m")).verdict in ("wrong", "open")


@pytest.mark.parametrize(
    ("condition", "values"),
    [("j <= i", "n >= 1"), ("i != j", "n >= 2"), ("i > 0", "n >= 2"), ("(i > 0 || j > 0)", "n >= 3")],
)
def test_other_conditions_leave_sizes_as_they_are(condition: str, values: str) -> None:
    """In a triangle every row lacks something; a first element that is missing is a border."""
    source = f"""
void f(int n, float x[restrict n][n])
{{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if ({condition})
                x[i][j] *= 2;
}}
"""
    (scop,) = polydl.load(source, require_sizes=False).scops
    assert where_all_runs(scop).values.params().is_equal(isl.Set(f"[n] -> {{ : {values} }}").params())


def padded(taps: int, apart: int) -> str:
    """A convolution with so many by so many taps that lie so far apart, and zeros around the image."""
    before = taps // 2 * apart
    y, x = (f"{i} + {apart} * k{i} - {before}" for i in "yx")
    return f"""
void f(int m, int n, int k, const float in[restrict k][m][n], const float w[restrict 5][k][{taps}][{taps}],
       float out[restrict 5][m][n])
{{
    for (int f = 0; f < 5; f++)
        for (int y = 0; y < m; y++)
            for (int x = 0; x < n; x++)
                for (int c = 0; c < k; c++)
                    for (int ky = 0; ky < {taps}; ky++)
                        for (int kx = 0; kx < {taps}; kx++)
                            if ({y} >= 0 && {y} < m && {x} >= 0 && {x} < n)
                                out[f][y][x] += in[c][{y}][{x}] * w[f][c][ky][kx];
}}
"""


def code_of(source: str, effort: Effort) -> tuple[Scop, EverySize | str]:
    (scop,) = polydl.load(source, require_sizes=False).scops
    sizes = {"m": (1, 640), "n": (1, 640), "k": (1, 64)}
    return scop, every_size_in_blocks(Symbolic.of(scop), sizes, Setting(OPTIONS.target(), 2, effort=effort))


@pytest.mark.parametrize(("taps", "apart"), [(5, 1), (3, 4)])
def test_filters_are_cut_and_right_at_every_size(taps: int, apart: int) -> None:
    """Into 25 pieces, and into nine, of which those at the corners are four by four."""
    source = padded(taps, apart)
    scop, found = code_of(source, FEWEST)
    assert isinstance(found, EverySize), found
    before = taps // 2 * apart
    condition = f"m >= {2 * before + taps} && n >= {2 * before + taps}"
    assert condition in found.tree.condition or condition in found.generated.region
    library = compile_c([splice(scop.source, [(scop, found.generated)], "")], FLAGS)
    original = compile_c([source], ("-Og",))
    rng, guarded = np.random.default_rng(1), Guarded()
    for at in [*itertools.product(range(21), range(21), (2,)), (8, 9, 0), (9, 10, 1), (12, 11, 33), (70, 67, 5)]:
        m, n, k = at
        arrays = [guarded.array(shape, np.float32, rng) for shape in ((k, m, n), (5, k, taps, taps), (5, m, n))]
        results = []
        begun = arrays[2].copy()
        for one in (original, library):
            arrays[2][...] = begun
            one.f(*at, *(ctypes.c_void_p(array.__array_interface__["data"][0]) for array in arrays))
            results.append(arrays[2].copy())
        np.testing.assert_array_equal(*results, err_msg=str(at))


def test_many_nests_are_compared_at_fewer_sizes_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made is counted: one estimator, which looks at all nests, for each size."""
    made: list[int] = []
    monkeypatch.setattr(
        blocks, "estimator_at", lambda point, *more: made.append(len(point.nests)) or points.estimator_at(point, *more)
    )
    _, found = code_of(padded(5, 1), replace(FEWEST, nests_at_sizes=25 * 10, blocks=replace(FEWEST.blocks, judging=3)))
    assert isinstance(found, EverySize), found
    assert found.limited == "its 25 nests were compared at 10 sizes of 11"
    assert str(found).endswith(found.limited)
    assert set(made) == {25} and len(made) <= 20


def test_filters_of_more_pieces_stay_whole_and_that_is_said() -> None:
    _, found = code_of(padded(7, 1), FEWEST)
    said = "its borders are 48 boxes, more than 24"
    assert found == f"no microkernel fits S0; {said}"
    o = OPTIONS.changed(sizes={"m": 20, "n": 20, "k": 9}, effort=EVEN_SLOWER)
    done = polydl.optimize(padded(7, 1), options=o, run=False)
    assert said in str(done.scops[0].other_sizes)
    assert said in done.text
