"""Space-filling curves over blocks: the curve itself, its C twin, variants along it."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path

import numpy as np
import pytest

from polydl import pipeline
from polydl.base.errors import IllegalVariant, InputError
from polydl.lower.hilbert import curve, curve_prologue
from polydl.schedule.loopstring import text
from polydl.schedule.notation import Written
from polydl.schedule.recipe import Recipe
from tests.compiling import run_compiler

SOURCE = """\
#ifndef M
#define M 45
#define N 83
#define K 29
#endif
void product(float A[restrict M][K], float B[restrict K][N], float C[restrict M][N])
{
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < K; k++)
                C[i][j] += A[i][k] * B[k][j];
#pragma endscop
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "product.c"
    path.write_text(SOURCE)
    return path


def test_the_curve_and_its_twin(tmp_path: Path) -> None:
    """Every place once, neighbours touch, and the C function says the same."""
    unit = tmp_path / "curve.c"
    wrapper = "void at(int t, int r, int c, int *x, int *y) { polydl_curve_int(t, r, c, x, y); }\n"
    unit.write_text(curve_prologue("int") + wrapper)
    flags = ["-Og", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    run_compiler(["cc", *flags, "-o", tmp_path / "curve.so", unit])
    at = ctypes.CDLL(str(tmp_path / "curve.so")).at
    row, column = ctypes.c_int(), ctypes.c_int()
    for rows, columns in itertools.product((1, 2, 3, 4, 5, 7, 8, 13, 31), repeat=2):
        steps = list(curve(rows, columns))
        assert sorted(steps) == sorted(itertools.product(range(rows), range(columns)))
        far = [max(abs(a - c), abs(b - d)) for (a, b), (c, d) in itertools.pairwise(steps)]
        assert all(distance == 1 for distance in far), (rows, columns)
        for t, place in enumerate(steps):
            at(t, rows, columns, ctypes.byref(row), ctypes.byref(column))
            assert (row.value, column.value) == place, (rows, columns, t)


def test_a_stretch_of_the_curve_is_compact() -> None:
    """The point of it: few different rows and columns a stretch, against a whole row's columns in row order."""
    steps = list(curve(32, 32))
    for start in range(0, 1024, 64):
        part = steps[start : start + 64]
        assert len({r for r, _ in part}) + len({c for _, c in part}) <= 24


@pytest.mark.parametrize(
    ("loops", "blocks"),
    [
        ("AB@hilbert", "mk=6x16:c"),
        ("ABab@hilbert", "a=3;b=2;mk=4x16:c;pack=B:j.0"),
        ("cBA@hilbert", "c=10;mk=7x32:c"),
        ("ABc@hilbert", "mk=none"),
        ("AB@hilbert", "mk=45x16:c"),
    ],
)
def test_exact_for_any_number_of_threads(loops: str, blocks: str, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.c"
    pipeline.optimize(source, out, run=False, loops=loops, blocks=blocks)
    assert ("polydl_curve_int(polydl_step" in out.read_text()) == ("45x16" not in blocks), (
        "one row of blocks is a curve"
    )
    flags = ["-Og", "-fstrict-aliasing", "-Wall", "-Wextra", "-Werror", "-march=native", "-fopenmp", "-shared", "-fPIC"]
    run_compiler(["cc", *flags, "-o", tmp_path / "out.so", out])
    library = ctypes.CDLL(str(tmp_path / "out.so"))
    gomp = ctypes.CDLL("libgomp.so.1")
    rng = np.random.default_rng(5)
    a, b, c = (rng.integers(-3, 4, s).astype(np.float32) for s in ((45, 29), (29, 83), (45, 83)))
    for threads in range(1, 6):
        gomp.omp_set_num_threads(threads)
        found = c.copy()
        library.product(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, found)))
        assert np.array_equal(found, c + a @ b), threads


def test_text_json_and_loop_string(source: Path) -> None:
    scop = pipeline.only_scop(pipeline.load(source))
    ranking = pipeline.score(scop, [(Written("AB@hilbert", "x"), Written("mk=6x16:c", "x"))])
    recipe = ranking.variants[0].recipe
    assert "Parallelize(loops=(i, j), schedule=hilbert)" in str(recipe)
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert str(text(ranking.variants[0].structures[0])) == "AB@hilbert mk=6(i)x16(j):k"


@pytest.mark.parametrize("loops", ["Abc@hilbert", "ABC@hilbert", "A{R:2}B{C:2}c@hilbert", "abc@hilbert"])
def test_refused(loops: str, source: Path) -> None:
    scop = pipeline.only_scop(pipeline.load(source))
    with pytest.raises(InputError):
        pipeline.score(scop, [(Written(loops, "x"), Written("mk=none", "x"))])


def test_a_reduction_is_no_side_of_a_curve(source: Path) -> None:
    scop = pipeline.only_scop(pipeline.load(source))
    with pytest.raises(IllegalVariant):
        pipeline.score(scop, [(Written("ACb@hilbert", "x"), Written("mk=none", "x"))])


def test_some_are_offered_and_score_between(source: Path) -> None:
    """Blocks of a large product along the curve move less than in rows where a row of B exceeds every cache."""
    ranking = pipeline.rank(source, defines={"M": 4096, "N": 4096, "K": 4096}, threads=2, machine="default")
    along = [v for v in ranking if any(s.omp_schedule == "hilbert" for s in v.structures)]
    assert 0 < len(along) < len(ranking) / 10
    found = pipeline.score(
        ranking.scop,
        [(Written(f"AB{end}", "x"), Written("mk=8x48:c;pack=A,B", "x")) for end in ("", "@hilbert")],
        threads=2,
        machine="default",
    )
    plain, curved = (v.features["into_L3_bytes"] for v in found)
    assert curved < plain
