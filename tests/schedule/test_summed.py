"""Reductions shared out among threads: legal where only accumulations are in the way, exact, always the same sums."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import numpy as np
import pytest

from polydl import pipeline
from polydl.base.errors import IllegalVariant, InputError
from polydl.dependences.analysis import dependences
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import Nest, nests
from polydl.model.scop import Scop
from polydl.pipeline import score
from polydl.schedule.check import check
from polydl.schedule.loops import apply
from polydl.schedule.loopstring import text
from polydl.schedule.notation import Written
from polydl.schedule.ordered import Ordered, written
from polydl.schedule.program_tree import program_tree
from polydl.schedule.quick_legality import is_legal
from polydl.schedule.recipe import Recipe
from polydl.schedule.transforms import Parallelize, Permute, Tile
from tests.compiling import run_compiler

GEMM = """\
void product(float A[restrict 13][611], float B[restrict 611][37], float C[restrict 13][37])
{
#pragma scop
    for (int i = 0; i < 13; i++)
        for (int j = 0; j < 37; j++) {
            C[i][j] = 0;
            for (int k = 0; k < 611; k++)
                C[i][j] -= A[i][k] * B[k][j];
        }
#pragma endscop
}
"""
LINEAR = """\
void product(const float *restrict a, const float *restrict b, float *restrict c)
{
#pragma scop
    for (int i = 0; i < 13; i++)
        for (int j = 0; j < 37; j++)
            for (int k = 610; k >= 0; k--)
                c[i * 40 + j + 3] += a[i * 611 + k] * b[k * 37 + j];
#pragma endscop
}
"""
DOT = """\
void product(double x[1003], double y[1003], double s[1])
{
#pragma scop
    for (int i = 0; i < 1003; i++)
        s[0] += x[i] * y[i];
#pragma endscop
}
"""
SCALAR = """\
double total;
void product(double x[1003], double y[1003], double s[1])
{
#pragma scop
    for (int i = 0; i < 1003; i++)
        total += x[i] * y[i];
#pragma endscop
    s[0] += total;
    total = 0;
}
"""
TRIANGLE = """\
void product(double x[50][50], double y[50][50], double s[50])
{
#pragma scop
    for (int i = 0; i < 50; i++)
        for (int j = 0; j <= i; j++)
            s[j] += x[i][j] * y[j][i];
#pragma endscop
}
"""
LARGE = """\
void product(float x[20][300], float y[20][300], float s[300][300])
{
#pragma scop
    for (int k = 0; k < 20; k++)
        for (int i = 0; i < 300; i++)
            for (int j = 0; j < 300; j++)
                s[i][j] += x[k][i] * y[k][j];
#pragma endscop
}
"""


def _scop(source: str, folder: Path) -> Scop:
    path = folder / "product.c"
    path.write_text(source)
    return pipeline.only_scop(pipeline.load(path))


def _nest(scop: Scop) -> Nest:
    return nests(scop, dependences(scop, reads=False))[-1]


def _library(folder: Path, loops: str, blocks: str) -> ctypes.CDLL:
    """The output of a loop string as a library."""
    out = folder / "out.c"
    pipeline.optimize(folder / "product.c", out, run=False, loops=loops, blocks=blocks)
    assert "_copies" in out.read_text()
    assert "reassociated: " in out.read_text()
    library = folder / "out.so"
    flags = ["-O1", "-fstrict-aliasing", "-Wall", "-Wextra", "-Werror", "-march=native", "-fopenmp", "-shared", "-fPIC"]
    run_compiler(["cc", *flags, "-o", library, out])
    return ctypes.CDLL(str(library))


def _expected(source: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    c = c.copy()
    if source is GEMM:
        return -(a @ b)
    if source is LINEAR:
        c.reshape(-1)[: 13 * 40].reshape(13, 40)[:, 3:] += a @ b
    elif source in (DOT, SCALAR):
        c += a @ b
    elif source is TRIANGLE:
        c += np.tril(a * b.T).sum(axis=0)
    else:
        c += a.T @ b
    return c


_SHAPES = {
    GEMM: ((13, 611), (611, 37), (13, 37)),
    LINEAR: ((13, 611), (611, 37), (13 * 40 + 3,)),
    DOT: ((1003,), (1003,), (1,)),
    SCALAR: ((1003,), (1003,), (1,)),
    TRIANGLE: ((50, 50), (50, 50), (50,)),
    LARGE: ((20, 300), (20, 300), (300, 300)),
}


@pytest.mark.parametrize(
    ("source", "loops", "blocks"),
    [
        (GEMM, "S1: C{R:4+}ab", "c=60;mk=6x32:c"),
        (GEMM, "S1: C{R:2+}A{C:2}b", "c=100;mk=4x16:c"),
        (GEMM, "S1: A{C:3}bC{R:3+}", "c=13;mk=4x16:c;pack=B:k.0"),
        (GEMM, "S1: bC{R:5+}a", "mk=none"),
        (LINEAR, "C{R:4+}ab", "c=48;mk=5x16:c"),
        (DOT, "A{R:7+}", ""),
        (SCALAR, "A{R:3+}", ""),
        (TRIANGLE, "A{R:4+}b", ""),
        (LARGE, "A{R:3+}bc", ""),
    ],
)
def test_exact_and_always_the_same(source: str, loops: str, blocks: str, tmp_path: Path) -> None:
    _scop(source, tmp_path)
    library = _library(tmp_path, loops, blocks)
    dtype = np.float32 if "float" in source else np.float64
    rng = np.random.default_rng(3)
    whole = [rng.integers(-2, 3, shape).astype(dtype) for shape in _SHAPES[source]]
    reals = [rng.random(shape).astype(dtype) for shape in _SHAPES[source]]
    gomp = ctypes.CDLL("libgomp.so.1")
    results: list[np.ndarray] = []
    for threads in (1, 2, 3, 4, 5):
        gomp.omp_set_num_threads(threads)
        for inputs in (whole, reals):
            a, b, c = (x.copy() for x in inputs)
            library.product(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)))
            if inputs is whole:
                assert np.array_equal(c, _expected(source, *whole)), threads
            else:
                results.append(c)
    assert all(np.array_equal(results[0], other) for other in results[1:])
    assert not np.array_equal(results[0], reals[2])


COMBINED = {
    "max": ("float", "for (int j = 0; j < 37; j++) c[j] = x[i][j] > c[j] ? x[i][j] : c[j];"),
    "min": ("double", "for (int j = 0; j < 37; j++) c[j] = c[j] > x[i][j] ? x[i][j] : c[j];"),
    "among some": ("float", "for (int j = 0; j < 37; j++) c[j] = x[i][1] > 0 && c[j] < x[i][j] ? x[i][j] : c[j];"),
    "of integers": ("int", "for (int j = 0; j < 37; j++) c[j] = x[i][j] >= c[j] ? x[i][j] : c[j];"),
    "of bytes": ("signed char", "for (int j = 0; j < 37; j++) c[j] = x[i][j] < c[j] ? x[i][j] : c[j];"),
    "fmax": ("float", "for (int j = 0; j < 37; j++) c[j] = fmaxf(c[j], x[i][j]);"),
    "product": ("unsigned", "for (int j = 0; j < 37; j++) c[j] *= x[i][j];"),
    "and": ("short", "for (int j = 0; j < 37; j++) c[j] &= x[i][j];"),
    "or": ("unsigned char", "for (int j = 0; j < 37; j++) c[j] |= x[i][j];"),
    "xor": ("long", "for (int j = 0; j < 37; j++) c[j] = x[i][j] ^ c[j];"),
    "downwards": ("float", "for (int j = 0; j < 37; j++) c[j] = x[610 - i][j] > c[j] ? x[610 - i][j] : c[j];"),
}
TYPES = {
    "float": np.float32, "double": np.float64, "int": np.int32, "signed char": np.int8, "unsigned": np.uint32,
    "short": np.int16, "unsigned char": np.uint8, "long": np.int64,
}  # fmt: skip


@pytest.mark.parametrize("case", list(COMBINED))
def test_every_combiner_has_copies(case: str, tmp_path: Path) -> None:
    """The same bits as the loops as they are written: with numbers that are none, and zeros of both signs, where C says
    which is kept."""
    element, inner = COMBINED[case]
    head = f"void product({element} x[restrict 611][37], {element} c[restrict 37])"
    loop = f"for (int i = 0; i < 611; i++) {inner}"
    loop = loop if case != "downwards" else loop.replace("int i = 0; i < 611; i++", "int i = 610; i >= 0; i--")
    _scop(f"#include <math.h>\n{head}\n{{\n#pragma scop\n    {loop}\n#pragma endscop\n}}\n", tmp_path)
    out, built = tmp_path / "out.c", []
    pipeline.optimize(tmp_path / "product.c", out, run=False, loops="A{R:5+}b", blocks="")
    assert "_copies" in out.read_text() and ("reassociated: " in out.read_text()) == (case == "fmax")
    for source in (tmp_path / "product.c", out):
        library = source.with_suffix(".so")
        flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-march=native", "-fopenmp"]
        run_compiler(["cc", *flags, "-shared", "-fPIC", "-o", library, source])
        built.append(ctypes.CDLL(str(library)))
    rng = np.random.default_rng(5)
    x, c = (rng.integers(-3, 4, shape).astype(TYPES[element]) for shape in ((611, 37), (37,)))
    if x.dtype.kind == "f" and case != "fmax":
        x[:, 0], c[0] = 0.0, -5.0
        x[rng.random(x.shape) < 0.1] = np.nan
        x[rng.random(x.shape) < 0.3] *= -0.0
        c[1], c[2], c[3] = np.nan, -0.0, np.inf
    for threads in (1, 2, 3):
        ctypes.CDLL("libgomp.so.1").omp_set_num_threads(threads)
        want, got = c.copy(), c.copy()
        for library, result in zip(built, (want, got), strict=True):
            library.product(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(result.ctypes.data))
        assert want.tobytes() == got.tobytes() and want.tobytes() != c.tobytes()


def test_text_json_and_loop_string(tmp_path: Path) -> None:
    scop = _scop(GEMM, tmp_path)
    ranking = score(scop, [(Written("S1: C{R:4+}ab", "x"), Written("c=60;mk=6x32:c", "x"))])
    recipe = ranking.variants[0].recipe
    assert "Parallelize(loops=(k.0,), axes=R, ways=(4,), summed=k.0)" in str(recipe)
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert str(text(ranking.variants[0].structures[1])) == "C{R:4+}ab c=60;mk=6(i)x32(j):k"
    assert ranking.variants[0].notes
    assert json.loads(recipe.to_json())[1]["transforms"][-1]["summed"] == "k.0"


def test_forbidden_with_no_reassociate(tmp_path: Path) -> None:
    scop = _scop(GEMM, tmp_path)
    given = [(Written("S1: C{R:4+}ab", "x"), Written("mk=none", "x"))]
    score(scop, given)
    with pytest.raises(IllegalVariant, match="on C"):
        score(scop, given, reassociate=False)
    assert not any(s.summed for v in pipeline.rank(scop, threads=4, reassociate=False) for s in v.structures)


def test_without_the_plus_it_is_a_race(tmp_path: Path) -> None:
    with pytest.raises(IllegalVariant, match="at the same time"):
        score(_scop(DOT, tmp_path), [(Written("A{R:4}", "x"), Written("", "x"))])


@pytest.mark.parametrize(
    ("loops", "blocks", "reason"),
    [
        ("S1: C{R:4+}A{C:2+}b", "mk=none", "only one loop"),
        ("S0: A{R:4+}b", "", "no sum or extreme to share out"),
        ("S1: cC{R:4+}ab", "c=60;mk=none", "not the outermost piece"),
    ],
)
def test_refused(loops: str, blocks: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=reason):
        score(_scop(GEMM, tmp_path), [(Written(loops, "x"), Written(blocks, "x"))])


def test_other_dependences_stay_in_order(tmp_path: Path) -> None:
    """A sum that is also read one iteration later: no copy of it may be made."""
    loop = "for (int i = 1; i < 60; i++) s[i] += s[i - 1];"
    source = f"void product(double s[60])\n{{\n#pragma scop\n{loop}\n#pragma endscop\n}}\n"
    scop = _scop(source, tmp_path)
    with pytest.raises((InputError, IllegalVariant)):
        score(scop, [(Written("A{R:4+}", "x"), Written("", "x"))])


def test_quick_legality_agrees_with_the_exact_one(tmp_path: Path) -> None:
    """All orders and grids of two loops, each summed or not: what direction vectors accept the sets accept."""
    scop = _scop(GEMM, tmp_path)
    found = dependences(scop, reads=False)
    nest = _nest(scop)
    legality = nest_legality(nest, found)
    accepted = 0
    for order in (("k.0", "k.1", "i", "j"), ("i", "k.0", "j", "k.1"), ("i", "j", "k.0", "k.1")):
        for first in order:
            for second in order:
                for summed in ("", "k.0"):
                    at = sorted({first, second}, key=order.index)
                    split = Parallelize(tuple(at), axes="RC"[: len(at)], ways=(2,) * len(at), summed=summed)
                    if summed and summed not in at:
                        continue
                    structure = apply(nest, (Tile("k", (60,)), Permute(order), split))
                    quick = is_legal(structure, legality)
                    exact = check(
                        scop,
                        program_tree([*(written(n) for n in nests(scop, found)[:-1]), Ordered.nest(structure)]),
                        found,
                    )
                    assert not quick or exact is None, (order, at, summed, exact)
                    accepted += quick and bool(summed)
    assert accepted > 6


def test_offered_where_outputs_are_few(tmp_path: Path) -> None:
    path = tmp_path / "product.c"
    path.write_text(GEMM.replace("611", "K").replace("37", "N").replace("13", "M"))

    def ranked(m: int, n: int, k: int) -> list[bool]:
        ranking = pipeline.rank(path, defines={"M": m, "N": n, "K": k}, threads=8, machine="default")
        return [any(s.summed for s in v.structures) for v in ranking]

    assert any(ranked(8, 8, 500_000)[:3])
    assert not any(ranked(1024, 1024, 1024))
