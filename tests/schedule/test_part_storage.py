"""Arrays of which only a part is in memory: the same results, the bytes that one iteration needs, never two values in
one place."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polydl.dependences.nests import Nest, nests
from polydl.lower.emit import generate
from polydl.rewrite.canonical import Canonical, canonical
from polydl.schedule.check import check
from polydl.schedule.ordered import ordered
from polydl.schedule.part_storage import overlapping, storage, total_bytes
from polydl.schedule.program_tree import program_tree
from polydl.schedule.transform import Transform
from polydl.schedule.transforms import Merge, Microkernel, Parallelize, Permute, Tile, Vectorize
from polydl.schedule.transforms.merge import merged
from polydl.schedule.tree import Band, Run
from polydl.schedule.tree import Sequence as InOrder
from tests.frontend.reading import scop
from tests.schedule.test_jam import functions

ROWS = 20
LAYERS = """#define M 20
#include <math.h>
void f(float A[restrict M][24], float B[restrict 24][40], float C[restrict 40][33], float D[restrict 33][17],
       float Y[restrict M][17])
{
    float P[M][40], Q[M][33], R[M][33];
    for (int i = 0; i < M; i++) for (int j = 0; j < 40; j++) P[i][j] = 1;
    for (int i = 0; i < M; i++) for (int j = 0; j < 40; j++) for (int l = 0; l < 24; l++) P[i][j] += A[i][l] * B[l][j];
    for (int i = 0; i < M; i++) for (int j = 0; j < 33; j++) Q[i][j] = 0;
    for (int i = 0; i < M; i++) for (int j = 0; j < 33; j++) for (int l = 0; l < 40; l++) Q[i][j] += P[i][l] * C[l][j];
    for (int i = 0; i < M; i++) for (int j = 0; j < 33; j++) R[i][j] = Q[i][32 - j] > 0 ? Q[i][j] : 2;
    for (int i = 0; i < M; i++) for (int j = 0; j < 17; j++) Y[i][j] = 0;
    for (int i = 0; i < M; i++) for (int j = 0; j < 17; j++) for (int l = 0; l < 33; l++) Y[i][j] += R[i][l] * D[l][j];
}
"""
"""Three products and something between them."""


def _sum(columns: int, *, parallel: bool) -> list[Transform]:
    kernel = Microkernel("i.1", "j", 4, columns, ("l",))
    order, threads = Permute(("i.0", "j", "i.1")), [Parallelize(("i.0",))] if parallel else []
    return [Tile("i", (8,)), kernel, order, *threads, Merge("S0", 1)]


def _plain(*, rows: bool, parallel: bool) -> list[Transform]:
    return [*([Parallelize(("i",))] if parallel else []), *([Vectorize()] if rows else []), Merge("S0", 1, (8,))]


def program(folder: Path, text: str = LAYERS) -> Canonical:
    return canonical(scop(folder, text))


def tree_of(found: Canonical, *, rows: bool = False, parallel: bool = True) -> InOrder:
    def how(nest: Nest) -> list[Transform]:
        product = nest.contraction is not None
        return _sum(16, parallel=parallel) if product else _plain(rows=rows, parallel=parallel)

    return program_tree([ordered(nest, how(nest)) for nest in nests(found.scop, found.dependences)])


def test_what_is_in_memory(tmp_path: Path) -> None:
    found = program(tmp_path)
    tree = tree_of(found)
    assert check(found.scop, tree, found.dependences) is None
    made = storage(found.scop, tree)
    assert {name: (b.elements, b.loops, b.per_thread) for name, b in made.items()} == {
        "P": (8 * 40, 1, True), "Q": (8 * 33, 1, True), "R": (8 * 33, 1, True),
    }  # fmt: skip
    # R is made when P has been used for the last time: two of the three are alive at once.
    assert made["R"].offset == made["P"].offset != made["Q"].offset
    assert total_bytes(made, per_thread=True) == 2 * 4096 and total_bytes(made, per_thread=False) == 0


@pytest.mark.parametrize("rows", [False, True])
def test_results_are_the_same(tmp_path: Path, rows: bool) -> None:
    found = program(tmp_path)
    made = generate(found.scop, tree_of(found, rows=rows))
    assert ("polydl_part_P[" in made.region and "_row_" in made.region) or not rows
    code, rng = functions(found, made), np.random.default_rng(3)
    shapes = [(ROWS, 24), (24, 40), (40, 33), (33, 17), (ROWS, 17)]
    for _ in range(5):
        given = [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
        results = []
        for name in ("before", "after"):
            own = [one.copy() for one in given]
            getattr(code, name)(*(one.ctypes.data_as(ctypes.c_void_p) for one in own))
            results.append(own[-1])
        assert results[0].tobytes() == results[1].tobytes()


def test_bytes_in_common_are_checked(tmp_path: Path) -> None:
    found = program(tmp_path)
    tree = tree_of(found)
    (part,) = tree.children
    made = storage(found.scop, tree)
    assert overlapping(found.scop, part, made) is None
    wrong = {**made, "Q": replace(made["Q"], offset=made["P"].offset)}
    assert "would be written where values of" in str(overlapping(found.scop, part, wrong))


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        (("float P[M][40]", "static float P[M][40]"), ()),
        (("    float P[M][40], Q[M][33], R[M][33];\n", "    float P[M][40], Q[M][33];\n"), ("R",)),
        (("+= R[i][l] * D", "+= R[M - 1 - i][l] * D"), ("R",)),
        (("= Q[i][32 - j] > 0", "= Q[0][32 - j] > 0"), ("Q",)),
    ],
    ids=["static", "read by the caller", "used in another iteration", "used everywhere"],
)
def test_what_is_used_elsewhere_stays(tmp_path: Path, change: tuple[str, str], stays: tuple[str, ...]) -> None:
    """Where the merge is legal, as it may be for serial loops, or not: memory is the value of a tree."""
    text = LAYERS.replace(*change)
    text = text if "R[M][33]" in text else text.replace("float Y[", "float R[restrict M][33], float Y[")
    found = program(tmp_path, text)
    assert set(storage(found.scop, tree_of(found))) == {"P", "Q", "R"} - set(stays)


def test_nothing_where_nothing_is_shared(tmp_path: Path) -> None:
    found = program(tmp_path)
    alone = [ordered(nest, ()) for nest in nests(found.scop, found.dependences)]
    assert storage(found.scop, program_tree(alone)) == {}


IN_LOOPS = """#define M 6
#define N 16
void f(float x[restrict M][N], float y[restrict M][N], float z[restrict M][N])
{
    float P[M][N], Q[M][N];
    for (int t = 0; t < M; t++) for (int i = 0; i < N; i++) P[t][i] = x[t][i];
    for (int t = 0; t < M; t++) for (int i = 0; i < 5; i++) y[t][i] = P[t][2 * i];
    for (int t = 0; t < M; t++)
        for (int i = 0; i < N; i++) {
            z[t][i] = x[t][i];
            if (i >= 5) Q[t][i] = x[t][i];
        }
    for (int t = 0; t < M; t++) for (int i = 5; i < N; i++) y[t][i] = Q[t][20 - i];
}
"""


def test_iterations_of_parallel_loops_are_in_no_order(tmp_path: Path) -> None:
    """Inside of a serial loop that nests share, P is read in the parallel loop in which Q is written: in the iterations
    before, which another thread may run later."""
    found = program(tmp_path, IN_LOOPS)
    every = nests(found.scop, found.dependences)

    def tree(run: list[Transform]) -> InOrder:
        first = every[0].name
        outer = program_tree([ordered(n, [*(run if n in every[1:3] else []), Merge(first, 1)]) for n in every])
        (band,) = outer.children
        assert isinstance(band, Band) and isinstance(band.child, InOrder)
        one, two, three, four = band.child.children
        together = merged([two, three], 1)
        return InOrder((Band(band.members, InOrder((one, together, four))),))

    for legal in (True, False):
        made = tree([] if legal else [Parallelize(("i",))])
        (part,) = made.children
        kept = storage(found.scop, made)
        assert set(kept) == {"P", "Q"} and not any(b.per_thread for b in kept.values())
        same = {**kept, "Q": replace(kept["Q"], offset=kept["P"].offset)}
        assert (overlapping(found.scop, part, same) is None) == legal


LARGE = """#define M 6
#define N 10000
void f(const double x[restrict M][N], double y[restrict M][N])
{
    double P[N];
#pragma scop
    for (int t = 0; t < M; t++) {
        for (int i = 0; i < N; i++)
            P[i] = x[t][i] * 2;
        for (int i = 0; i < N; i++)
            y[t][i] = P[N - 1 - i] - 1;
    }
#pragma endscop
}
"""


def _over_rows(found: Canonical, run: Run) -> InOrder:
    """The program as it is written, its outer loop run in some way."""
    (whole,) = program_tree([ordered(nest, ()) for nest in nests(found.scop, found.dependences)]).children
    assert isinstance(whole, Band)
    outer, *others = whole.members
    return InOrder((replace(whole, members=(replace(outer, run=run), *others)),))


def test_threads_have_a_large_private_array_each(tmp_path: Path) -> None:
    """Of one that no stack has room for; one thread uses the one that is there."""
    found = program(tmp_path, LARGE)
    tree = _over_rows(found, Run.PARALLEL)
    assert check(found.scop, tree, found.dependences) is None
    (made,) = storage(found.scop, tree).values()
    assert (made.array, made.elements, made.per_thread) == ("P", 10000, True)
    assert made.bytes == 20 * 4096
    text = generate(found.scop, tree).region
    assert "polydl_part_P[" in text and "private(" not in text
    alone = _over_rows(found, Run.SERIAL)
    assert check(found.scop, alone, found.dependences) is None and storage(found.scop, alone) == {}
    code, rng = functions(found, generate(found.scop, tree)), np.random.default_rng(3)
    x = rng.integers(-3, 4, (6, 10000)).astype(np.float64)
    results = [np.zeros_like(x), np.zeros_like(x)]
    for name, y in zip(("before", "after"), results, strict=True):
        getattr(code, name)(*(one.ctypes.data_as(ctypes.c_void_p) for one in (x, y)))
    assert results[0].tobytes() == results[1].tobytes()


def test_lanes_have_no_large_array_each(tmp_path: Path) -> None:
    found = program(tmp_path, LARGE)
    why = check(found.scop, _over_rows(found, Run.SIMD), found.dependences)
    assert "there is no memory for P of several iterations at the same time" in str(why)
