"""Programs without contractions at sizes that were not tuned: right at every size, within their arrays."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

import polydl
from polydl import pipeline
from polydl.base.effort import Effort
from polydl.base.errors import InputError
from polydl.dependences.analysis import Dependence
from polydl.dependences.nests import Nest, nests
from polydl.lower.guarded_pieces import where_all_runs
from polydl.lower.splice import splice
from polydl.model import isl
from polydl.model.scop import Scop
from polydl.model.time import time_affs
from polydl.options import Options
from polydl.results import Ranking
from polydl.rewrite.canonical import canonical
from polydl.schedule.as_tree import as_tree
from polydl.schedule.check import check
from polydl.schedule.loops import Rows, start
from polydl.schedule.ordered import ordered, written
from polydl.schedule.program_tree import program_tree
from polydl.schedule.resized import at_sizes, long_when_written_out, on_one_thread, shared_anew, through_caches
from polydl.schedule.transform import Transform
from polydl.schedule.transforms import Fuse, Parallelize, Permute, Tile, Vectorize
from polydl.schedule.tree import Band, Leaf, Member, Run, bands
from polydl.search.sizes import choose, searched
from polydl.search.sizes.code import EverySize, Setting, Symbolic
from polydl.search.sizes.searched import every_size_of_searched
from polydl.search.sizes.searched_families import Candidate
from polydl.search.sizes.size_points import SizePoint
from tests.efforts import EVEN_SLOWER, FEW_SEARCHED
from tests.oracle.native import compile_c
from tests.search.one_way import once
from tests.search.test_every_size import Guarded

FLAGS = ("-Og", "-march=native", "-fopenmp", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True)
class Case:
    """A function `f` of some sizes and arrays, in this order."""

    body: str
    tuned: Mapping[str, int]
    """Of each size, in the order of the arguments; large enough for threads and tiles."""
    arrays: Mapping[str, str]
    """Extents of each array, separated by commas."""
    further: tuple[tuple[int, ...], ...] = ()
    """Sizes beside the edges of tiles."""
    const: tuple[str, ...] = ()
    kind: str = "float"
    exact: bool = True
    """Every bit must agree: the sums are of small integers, or in their order."""
    parallel: bool = True
    """There is code for all threads: isl makes it of the tiles."""

    @property
    def source(self) -> str:
        arguments = [f"int {name}" for name in self.tuned]
        for name, extents in self.arrays.items():
            first, *others = extents.split(",")
            shape = f"{name}[restrict {first}]" + "".join(f"[{one.strip()}]" for one in others)
            arguments.append(f"{'const ' if name in self.const else ''}{self.kind} {shape}")
        return f"#include <math.h>\n\nvoid f({', '.join(arguments)})\n{{\n{self.body}}}\n"

    def sizes(self) -> Iterator[tuple[int, ...]]:
        """Every size from 0 to 12 in each parameter, of three from 0 to 8; every one to 40 beside small others; and
        some beside the edges of tiles."""
        count = len(self.tuned)
        yield from itertools.product(range(13 if count < 3 else 9), repeat=count)
        for place, value in itertools.product(range(count), range(41)):
            yield tuple(value if at == place else (3, 5, 2)[at] for at in range(count))
        yield from self.further


SQUARES = ((31,), (32,), (33,), (64,), (97,), (129,), (260,))
RECTANGLES = ((1, 1100), (1100, 1), (33, 65), (128, 40), (513, 70), (40, 1030))
CASES = {
    "stencil in place": Case(
        """\
    for (int t = 0; t < T; t++)
        for (int i = 1; i <= n - 2; i++)
            for (int j = 1; j <= n - 2; j++)
                A[i][j] = 0.25 * (A[i - 1][j] + A[i][j - 1] + A[i][j + 1] + A[i + 1][j]);
""",
        {"T": 40, "n": 1000}, {"A": "n, n"}, ((5, 31), (33, 64), (130, 35), (20, 261)), kind="double",
    ),
    "jacobi in time": Case(
        """\
    for (int t = 0; t < T; t++) {
        for (int i = 1; i < n - 1; i++)
            B[i] = 0.5 * (A[i - 1] + A[i + 1]);
        for (int i = 1; i < n - 1; i++)
            A[i] = 0.5 * (B[i - 1] + B[i + 1]);
    }
""",
        {"T": 500, "n": 200000}, {"A": "n", "B": "n"}, ((70, 500), (130, 2050), (3, 5000), (300, 40)),
        kind="double", parallel=False,
    ),
    "jacobi in two dimensions": Case(
        """\
    for (int t = 0; t < T; t++) {
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++)
                B[i][j] = 0.25 * (A[i][j - 1] + A[i][j + 1] + A[i + 1][j] + A[i - 1][j]);
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++)
                A[i][j] = 0.25 * (B[i][j - 1] + B[i][j + 1] + B[i + 1][j] + B[i - 1][j]);
    }
""",
        {"T": 30, "n": 1200}, {"A": "n, n", "B": "n, n"}, ((17, 33), (5, 150), (40, 70)), kind="double",
    ),
    "triangular solver": Case(
        """\
    for (int i = 0; i < n; i++) {
        x[i] = b[i];
        for (int j = 0; j < i; j++)
            x[i] -= L[i][j] * x[j];
        x[i] = x[i] / (2 + L[i][i] * L[i][i]);
    }
""",
        {"n": 3000}, {"L": "n, n", "b": "n", "x": "n"}, SQUARES, ("L", "b"), "double", exact=False,
    ),
    "LU": Case(
        """\
    for (int k = 0; k < n; k++) {
        for (int j = k + 1; j < n; j++)
            A[k][j] = A[k][j] / (20 + A[k][k] * A[k][k]);
        for (int i = k + 1; i < n; i++)
            for (int j = k + 1; j < n; j++)
                A[i][j] -= A[i][k] * A[k][j];
    }
""",
        {"n": 900}, {"A": "n, n"}, SQUARES, kind="double", exact=False,
    ),
    "Cholesky": Case(
        """\
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) {
            for (int k = 0; k < j; k++)
                A[i][j] -= A[i][k] * A[j][k];
            A[i][j] = A[i][j] / (20 + A[j][j] * A[j][j]);
        }
        for (int k = 0; k < i; k++)
            A[i][i] -= A[i][k] * A[i][k];
        A[i][i] = 1 / (1 + A[i][i] * A[i][i]);
    }
""",
        {"n": 900}, {"A": "n, n"}, SQUARES, kind="double", exact=False,
    ),
    "an update fused into a sum": Case(
        """\
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            x[i] = x[i] + 2 * A[j][i] * y[j];
    for (int i = 0; i < n; i++)
        x[i] = x[i] + z[i];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            w[i] = w[i] + 3 * A[i][j] * x[j];
""",
        {"n": 3000}, {"A": "n, n", "x": "n", "y": "n", "z": "n", "w": "n"}, SQUARES, ("A", "y", "z"), "double",
    ),
    "softmax of rows": Case(
        """\
    for (int i = 0; i < m; i++) {
        float most = -100;
        for (int j = 0; j < n; j++)
            most = x[i][j] > most ? x[i][j] : most;
        float sum = 0;
        for (int j = 0; j < n; j++) {
            y[i][j] = expf(x[i][j] - most);
            sum += y[i][j];
        }
        for (int j = 0; j < n; j++)
            y[i][j] /= sum;
    }
""",
        {"m": 2000, "n": 3000}, {"x": "m, n", "y": "m, n"}, RECTANGLES, ("x",), exact=False,
    ),
    "transpose": Case(
        """\
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            B[j][i] = A[i][j];
""",
        {"m": 3000, "n": 2500}, {"A": "m, n", "B": "n, m"}, (*RECTANGLES, (600, 700)), ("A",),
    ),
    "sums of columns": Case(
        """\
    for (int j = 0; j < n; j++)
        s[j] = 0;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++)
            s[j] += A[i][j];
""",
        {"m": 3000, "n": 2500}, {"A": "m, n", "s": "n"}, (*RECTANGLES, (3, 2100)), ("A",),
    ),
    "prefix sums": Case(
        """\
    for (int j = 0; j < n; j++)
        for (int i = 1; i < m; i++)
            A[i][j] += A[i - 1][j];
""",
        {"m": 2000, "n": 3000}, {"A": "m, n"}, (*RECTANGLES, (3, 2100)),
    ),
    "two nests fused": Case(
        """\
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            y[i][j] = 2 * x[i][j] + 1;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            z[i][j] = y[i][j] > 0 ? y[i][j] * x[i][j] : 0;
""",
        {"m": 3000, "n": 2500}, {"x": "m, n", "y": "m, n", "z": "m, n"}, RECTANGLES, ("x",),
    ),
    "conditions": Case(
        """\
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            if (j > i)
                y[i][j] = x[i][j];
            else if (j % 2 == 0)
                y[i][j] = 3 * x[i][j] - 1;
            if (i + j >= n)
                y[i][j] += 1;
        }
""",
        {"m": 2500, "n": 2500}, {"x": "m, n", "y": "m, n"}, RECTANGLES, ("x",),
    ),
    "two products with a vector": Case(
        """\
    for (int j = 0; j < n; j++)
        y[j] = 0;
    for (int i = 0; i < m; i++) {
        t[i] = 0;
        for (int j = 0; j < n; j++)
            t[i] += A[i][j] * x[j];
        for (int j = 0; j < n; j++)
            y[j] += A[i][j] * t[i];
    }
""",
        {"m": 3000, "n": 2500}, {"A": "m, n", "x": "n", "t": "m", "y": "n"}, RECTANGLES, ("A", "x"), "double",
    ),
    "downwards": Case(
        """\
    for (int i = n - 2; i >= 0; i--)
        for (int j = m - 1; j >= 0; j--)
            A[i][j] = A[i][j] - 0.5 * A[i + 1][j];
""",
        {"m": 3000, "n": 1500}, {"A": "n, m"}, tuple((b, a) for a, b in RECTANGLES), kind="double",
    ),
    "reversed": Case(
        """\
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            y[i][j] = x[m - 1 - i][n - 1 - j];
""",
        {"m": 3000, "n": 2500}, {"x": "m, n", "y": "m, n"}, RECTANGLES, ("x",),
    ),
    "a band": Case(
        """\
    for (int i = 0; i < n; i++) {
        y[i] = 0;
        for (int j = 0; j < n; j++)
            if (j >= i - w && j <= i + w)
                y[i] += A[i][j] * x[j];
    }
""",
        {"n": 20000, "w": 64}, {"A": "n, n", "x": "n", "y": "n"}, ((40, 3), (70, 64), (130, 33)), ("A", "x"),
    ),
    "normalised channels": Case(
        """\
    for (int c = 0; c < C; c++) {
        float s = 0;
        for (int n = 0; n < N; n++)
            for (int h = 0; h < H; h++)
                s += x[n][c][h];
        for (int n = 0; n < N; n++)
            for (int h = 0; h < H; h++) {
                float v = g[c] * (x[n][c][h] - s);
                y[n][c][h] = v > 0 ? v : 0;
            }
    }
""",
        {"N": 8, "C": 64, "H": 3000}, {"x": "N, C, H", "g": "C", "y": "N, C, H"},
        ((3, 2, 1100), (5, 33, 17), (1, 70, 65)), ("x", "g"),
    ),
    "three sizes in time": Case(
        """\
    for (int t = 0; t < T; t++)
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < m - 1; j++)
                A[i][j] = 0.25 * (A[i - 1][j] + A[i][j - 1] + A[i][j + 1] + A[i + 1][j]);
""",
        {"T": 20, "n": 300, "m": 400}, {"A": "n, m"}, ((5, 31, 70), (33, 64, 20), (70, 35, 35)), kind="double",
    ),
    "clamped": Case(
        """\
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float s = 0;
            for (int d = -2; d <= 2; d++) {
                int q = j + d < 0 ? 0 : j + d > n - 1 ? n - 1 : j + d;
                s += x[i][q];
            }
            y[i][j] = s;
        }
""",
        {"m": 900, "n": 1100}, {"x": "m, n", "y": "m, n"}, RECTANGLES, ("x",),
    ),
    "reflected": Case(
        """\
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            int up = i == 0 ? 0 : i - 1, down = i == m - 1 ? m - 1 : i + 1;
            y[i][j] = x[up][j] + 2 * x[i][j] + x[down][j];
        }
""",
        {"m": 900, "n": 1100}, {"x": "m, n", "y": "m, n"}, RECTANGLES, ("x",),
    ),
    "neighbours that are zero": Case(
        """\
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float left = j > 0 ? x[i][j - 1] : 0.0f;
            float right = j + 1 < n ? x[i][j + 1] : 0.0f;
            float up = i == 0 ? 0.0f : x[i - 1][j];
            y[i][j] = left + right - 2 * up;
        }
""",
        {"m": 900, "n": 1100}, {"x": "m, n", "y": "m, n"}, RECTANGLES, ("x",),
    ),
    "round a ring in time": Case(
        """\
    for (int t = 0; t < T; t++) {
        for (int i = 0; i < n; i++) {
            int left = i == 0 ? n - 1 : i - 1, right = i == n - 1 ? 0 : i + 1;
            v[i] = 0.5 * u[i] + 0.25 * (u[left] + u[right]);
        }
        for (int i = 0; i < n; i++)
            u[i] = v[i];
    }
""",
        {"T": 20, "n": 40000}, {"u": "n", "v": "n"}, ((3, 17), (4, 18), (2, 19), (5, 2000)), kind="double",
    ),
    "in steps": Case(
        """\
    for (int i = 0; i < m; i += 2)
        for (int j = 3; j < n; j += 3)
            y[i][j] = x[j] + y[i][j - 3];
""",
        {"m": 3000, "n": 2500}, {"x": "n", "y": "m, n"}, RECTANGLES, ("x",),
    ),
}  # fmt: skip


@cache
def ranked(name: str) -> Ranking:
    """The variants of a case for the sizes that it is tuned for."""
    case = CASES[name]
    o = Options(machine="epyc-zen5", threads=2, sizes=dict(case.tuned))
    return pipeline.with_fused(pipeline.rank(pipeline.load(case.source, o), options=o), o)


_scores = searched._scores


@cache
def scores_of(name: str) -> Callable[..., list[float] | None]:
    """What the variants of a case take at a point, each estimated once."""
    return once(_scores, sizes_and_candidates)


def sizes_and_candidates(point: SizePoint, candidates: Sequence[Candidate], setting: Setting) -> object:
    first = candidates[0].base
    return tuple(point.scop.sizes.items()), tuple((one.recipe, one.base is first) for one in candidates)


def for_every_size(name: str, effort: Effort = FEW_SEARCHED) -> EverySize | str:
    case, ranking = CASES[name], ranked(name)
    symbolic = polydl.load(case.source, require_sizes=False).scops[0]
    ranges = {size: (1, 32 * value) for size, value in case.tuned.items()}
    setting = Setting(ranking.machine, 2, effort=effort)
    with pytest.MonkeyPatch.context() as context:
        context.setattr(searched, "_scores", scores_of(name))
        return every_size_of_searched(Symbolic.of(symbolic), ranges, ranking.variants, setting)


def compared(name: str, found: EverySize, flags: Sequence[str] = FLAGS) -> None:
    """Run the output and the input at all sizes of a case."""
    case, ranking = CASES[name], ranked(name)
    scop = ranking.program.read
    code = found.beside(ranking.variants[0].generated)
    library = compile_c([splice(scop.source, [(scop, code)], "")], flags)
    original = compile_c([case.source], ("-Og", "-ffp-contract=off"))
    rng, guarded = np.random.default_rng(1), Guarded()
    kind = np.float32 if case.kind == "float" else np.float64
    for sizes in case.sizes():
        at = dict(zip(case.tuned, sizes, strict=True))
        shapes = [[max(0, eval(extent, {}, at)) for extent in one.split(",")] for one in case.arrays.values()]
        arrays = [guarded.array(shape, kind, rng) for shape in shapes]
        begun = [array.copy() for array in arrays]
        results = []
        for one in (original, library):
            for array, first in zip(arrays, begun, strict=True):
                array[...] = first
            one.f(*sizes, *(ctypes.c_void_p(a.__array_interface__["data"][0]) for a in arrays))
            results.append([array.copy() for array in arrays])
        for wanted, got in zip(*results, strict=True):
            if case.exact:
                np.testing.assert_array_equal(got, wanted, err_msg=str(at))
            else:
                np.testing.assert_allclose(got, wanted, 1e-4, 1e-5, err_msg=str(at))


@pytest.mark.parametrize("name", CASES)
def test_the_output_is_right_at_every_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the tree that the estimates make, and with what is best for the largest sizes at all of them."""
    found = for_every_size(name)
    assert isinstance(found, EverySize), found
    compared(name, found)
    monkeypatch.setattr(choose, "tree", best_when_large)
    found = for_every_size(name, EVEN_SLOWER)
    assert isinstance(found, EverySize), found
    assert ("omp parallel" in found.generated.region) == CASES[name].parallel
    assert CASES[name].parallel or any("was stopped" in why for why in found.left_out)
    assert len(found.recipes) == 1
    compared(name, found)


def best_when_large(losses: np.ndarray, features: np.ndarray) -> int:
    return int(np.argmin(losses[:, int(np.argmax(features.prod(axis=1)))]))


def at_every_size(name: str) -> tuple[Scop, tuple[Dependence, ...], tuple[Nest, ...]]:
    scop = canonical(where_all_runs(polydl.load(CASES[name].source, require_sizes=False).scops[0]).scop)
    return scop.scop, scop.dependences, nests(scop.scop, scop.dependences)


@pytest.mark.parametrize(
    ("name", "transforms"),
    [
        ("prefix sums", (Permute(("j", "i")), Parallelize(("j", "i")))),
        ("stencil in place", (Parallelize(("i",)),)),
        ("stencil in place", (Tile("i", (32,)), Permute(("i.0", "t", "i.1", "j")))),
        ("downwards", (Parallelize(("i",)),)),
    ],
)
def test_what_is_illegal_is_refused_for_every_size(name: str, transforms: tuple[Transform, ...]) -> None:
    scop, found, parts = at_every_size(name)
    assert check(scop, program_tree([written(nest) for nest in parts]), found) is None
    assert check(scop, program_tree([ordered(parts[0], transforms)]), found) is not None


@pytest.mark.parametrize("name", ["LU", "an update fused into a sum"])
def test_microkernels_are_for_every_size_too(name: str) -> None:
    found = for_every_size(name)
    assert isinstance(found, EverySize), found
    assert "polydl_mk_" in found.generated.region
    assert name == "LU" or any(isinstance(t, Fuse) for r in found.recipes for n in r.nests for t in n.transforms)


def test_what_is_legal_for_the_tuned_size_alone_is_left_out() -> None:
    """The second half does not read what the first one writes as long as there are 100 elements."""
    source = """
void f(int n, float x[restrict 1000])
{
    for (int i = 0; i < n; i++)
        x[i + 100] = x[i] + 1;
}
"""
    o = Options(machine="epyc-zen5", threads=2, sizes={"n": 100})
    tuned = pipeline.rank(pipeline.load(source, o), options=o)
    assert any("Parallelize" in str(v.recipe) for v in tuned.variants)
    symbolic = polydl.load(source, require_sizes=False).scops[0]
    found = every_size_of_searched(Symbolic.of(symbolic), {"n": (1, 900)}, tuned.variants, Setting(tuned.machine, 2))
    assert "omp parallel" not in (found.generated.region if isinstance(found, EverySize) else "")


def test_a_loop_that_is_short_at_the_tuned_size_alone_is_not_written_out() -> None:
    scop, _, parts = at_every_size("transpose")
    (statement,) = scop.statements
    of = {statement.name: statement}
    outer, inner = (Member({statement.name: aff}) for aff in time_affs(statement))
    long = Band((outer, replace(inner, unroll=True)), Leaf(statement.name))
    assert long_when_written_out(long, of)
    tile = Member({statement.name: isl.floor_div(inner.affs[statement.name], 4)}, tile=4)
    short = Band((outer, tile, replace(inner, unroll=True)), Leaf(statement.name))
    assert not long_when_written_out(short, of)
    assert not long_when_written_out(as_tree(start(parts[0])), of)


def test_parts_for_other_sizes() -> None:
    scop, _, (nest,) = at_every_size("transpose")
    (tuned,) = ranked("transpose").nests
    made = ordered(nest, (Tile("i", (1500,)), Permute(("i.0", "j", "i.1")), Parallelize(("i.0",)), Vectorize(("B",))))
    alone, anew = on_one_thread(made).loops, shared_anew(made, tuned, 2, None).loops
    assert alone is not None and alone.parallel == ()
    assert through_caches(made).rows == Rows()
    assert anew is not None and [loop.name for loop in anew.loops] == ["i", "j"]
    assert shared_anew(made, tuned, 2, 1024).transforms[0] == Tile("i", (1024,))
    assert shared_anew(made, tuned, 4, 1024) == shared_anew(made, tuned, 2, 1024)
    small = ordered(nest, (Tile("i", (64,)), Parallelize(("i.0",))))
    assert shared_anew(small, tuned, 2, 1024) is small
    grid = ordered(tuned, (Parallelize(("i",), axes="R", ways=(2,)),))
    with pytest.raises(InputError, match="no constant number of iterations"):
        at_sizes(scop, [grid], [nest])


def test_tiles_on_a_diagonal_run_one_after_the_other_on_one_thread() -> None:
    scop, found, parts = at_every_size("jacobi in time")
    waves = next(v for v in ranked("jacobi in time").variants if v.scheduled and v.scheduled[0].how.base == "skewed")
    (part,) = at_sizes(scop, waves.parts, parts)
    serial = on_one_thread(part)
    assert part.loops is None
    assert serial.loops is None
    assert isinstance(part.tree, Band)
    assert isinstance(serial.tree, Band)
    assert {m.run for band in bands(part.tree) for m in band.members} >= {Run.PARALLEL}
    assert not any(m.run is Run.PARALLEL for band in bands(serial.tree) for m in band.members)
    name = scop.statements[0].name
    sums, tiles, first = (t.members[at].affs[name] for t, at in ((part.tree, 0), (part.tree, 1), (serial.tree, 0)))
    assert sums.sub(tiles).plain_is_equal(first)
    assert not sums.plain_is_equal(first)
    assert check(scop, program_tree([part]), found) is None
    assert check(scop, program_tree([serial]), found) is None


def test_where_the_original_loops_are_as_fast_the_output_says_so() -> None:
    source = "void f(int n, float x[restrict n])\n{\n    for (int i = 1; i < n; i++)\n        x[i] += x[i - 1];\n}\n"
    done = polydl.optimize(source, sizes={"n": 5000}, run=False, threads=2, machine="epyc-zen5")
    assert "no nest in it is a contraction; " in str(done.scops[0].other_sizes)
    assert "other sizes: the original loops" in done.text


def test_the_output_has_them() -> None:
    done = polydl.optimize(
        CASES["transpose"].source, sizes={"m": 3000, "n": 2500}, run=False, threads=2, machine="epyc-zen5"
    )
    found = done.scops[0].other_sizes
    assert isinstance(found, EverySize)
    assert found.kind == "of the variants that were searched"
    assert "if (m == 3000 && n == 2500)" in done.text
    assert "other sizes: " in done.text
    assert "of the variants that were searched" in done.text


BAG = """
void bag(int n, int k, int d, int v, const int ids[restrict n][k], const float table[restrict v][d],
         float out[restrict n][d])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < d; j++) {
            float s = 0;
            for (int q = 0; q < k; q++)
                s += table[ids[i][q]][j];
            out[i][j] = s;
        }
}
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_what_writes_a_short_loop_out_is_carried_over_without(threads: int) -> None:
    """All the best ones write the eight terms of a sum out, which no other number of terms takes."""
    tuned = {"n": 2000, "k": 8, "d": 128, "v": 5000}
    made = polydl.optimize(BAG, run=False, sizes=tuned, threads=threads)
    assert "of the variants that were searched" in made.text
    bag = compile_c([made.text], FLAGS).bag
    rng = np.random.default_rng(3)
    for n, k, d, v in ((1, 1, 1, 1), (300, 3, 70, 90), (700, 20, 64, 40), (5, 0, 33, 2), (2000, 8, 127, 50)):
        ids, table = rng.integers(0, v, (n, k)).astype(np.int32), rng.integers(-9, 9, (v, d)).astype(np.float32)
        out = np.full((n, d), 7, np.float32)
        bag(n, k, d, v, *(ctypes.c_void_p(array.ctypes.data) for array in (ids, table, out)))
        assert np.array_equal(out, table[ids].sum(axis=1))
