"""Code for sizes that were not tuned: right at every size, within its arrays, and where there is none, said why."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import polydl
from polydl.base.effort import Effort
from polydl.base.errors import InputError
from polydl.base.flags import sizes as sizes_given
from polydl.dependences.nests import nests
from polydl.lower.splice import for_parameters
from polydl.model.at_sizes import at_sizes
from polydl.options import Options
from polydl.rank.estimator import Estimator
from polydl.rank.traffic import TrafficRanker
from polydl.results import OptimizeResult
from polydl.rewrite.canonical import canonical
from polydl.schedule.loops import apply
from polydl.search.default_sizes import default_sizes
from polydl.search.sizes.code import EverySize
from polydl.search.sizes.dispatch import Question, few, taken, tree
from polydl.search.sizes.size_points import size_points
from tests.efforts import FEWEST
from tests.oracle.native import compile_c
from tests.search.one_way import OPTIONS, outputs

MATMUL = """
void f(int m, int n, int k, const float A[restrict m][k], const float B[restrict k][n], float C[restrict m][n])
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            C[i][j] = 0;
            for (int p = 0; p < k; p++)
                C[i][j] += A[i][p] * B[p][j];
        }
}
"""
FLAT = """
void f(int m, int n, int k, const double *restrict A, const double *restrict B, double *restrict C)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double s = 0;
            for (int p = 0; p < k; p++)
                s += A[i * k + p] * B[p * n + j];
            C[i * n + j] += 2 * s;
        }
}
"""
TRANSPOSED = """
void f(int m, int n, int k, const float A[restrict k][m], const float B[restrict n][k], float C[restrict m][n])
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            for (int p = 0; p < k; p++)
                C[i][j] -= A[p][i] * B[j][p];
}
"""
BATCHED = """
void f(int m, int n, int k, const float A[restrict 3][m][k], const float B[restrict 3][k][n], float C[restrict 3][m][n])
{
    for (int b = 0; b < 3; b++)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++)
                for (int p = 0; p < k; p++)
                    C[b][i][j] += A[b][i][p] * B[b][p][j];
}
"""
CONVOLUTION = """
void f(int m, int n, int k, const float A[restrict k][m + 2][n + 2], const float B[restrict 5][k][3][3],
       float C[restrict 5][m][n])
{
    for (int o = 0; o < 5; o++)
        for (int c = 0; c < k; c++)
            for (int y = 0; y < m; y++)
                for (int x = 0; x < n; x++)
                    for (int p = 0; p < 3; p++)
                        for (int q = 0; q < 3; q++)
                            C[o][y][x] += A[c][y + p][x + q] * B[o][c][p][q];
}
"""


def matmul(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return a @ b


def flat(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return c + 2 * (a @ b)


def transposed(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return c - a.T @ b.T


def batched(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return c + a @ b


def convolution(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    m, n = c.shape[1:]
    found = c.copy()
    for p, q in itertools.product(range(3), range(3)):
        found += np.tensordot(b[:, :, p, q], a[:, p : p + m, q : q + n], 1)
    return found


CASES = {
    "matmul": (MATMUL, matmul, lambda m, n, k: ((m, k), (k, n), (m, n)), np.float32),
    "flat": (FLAT, flat, lambda m, n, k: ((m, k), (k, n), (m, n)), np.float64),
    "transposed": (TRANSPOSED, transposed, lambda m, n, k: ((k, m), (n, k), (m, n)), np.float32),
    "batched": (BATCHED, batched, lambda m, n, k: ((3, m, k), (3, k, n), (3, m, n)), np.float32),
    "convolution": (CONVOLUTION, convolution, lambda m, n, k: ((k, m + 2, n + 2), (5, k, 3, 3), (5, m, n)), np.float32),
}


def made(source: str, effort: Effort = FEWEST, **sizes: int) -> OptimizeResult:
    return polydl.optimize(source, sizes=sizes, run=False, threads=2, machine="epyc-zen5", space="small", effort=effort)


class Guarded:
    """Arrays right before a page that cannot be touched."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.maps: list[mmap.mmap] = []

    def array(self, shape: Sequence[int], kind: type, rng: np.random.Generator) -> np.ndarray:
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = mmap.mmap(-1, pages + mmap.PAGESIZE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        assert self.libc.mprotect(ctypes.c_void_p(address + pages), mmap.PAGESIZE, 0) == 0
        self.maps.append(memory)
        found = np.frombuffer(memory, kind, int(np.prod(shape)), pages - size).reshape(shape)
        found[...] = rng.integers(-4, 5, shape, np.int8)
        return found


def sizes() -> Iterator[tuple[int, int, int]]:
    """Every small size, and some beside the edges of blocks and tiles."""
    yield from itertools.product((0, 1, 2, 7, 16), repeat=3)
    yield from [(n, 5, 3) for n in range(41)]
    yield from [(5, n, 3) for n in range(41)]
    yield from [(3, 5, n) for n in range(41)]
    yield from [(64, 80, 96), (97, 130, 61), (1, 1300, 3), (300, 1, 2), (2, 3, 1100), (199, 1025, 257)]
    yield from [(20, 1024, 33), (33, 20, 1024), (9, 2048, 1030)]


@pytest.mark.parametrize("name", CASES)
def test_it_is_right_at_every_size(name: str) -> None:
    source, expected, shapes, kind = CASES[name]
    libraries = []
    for done in outputs(source, (0, 1, 2), OPTIONS.changed(sizes={"m": 64, "n": 80, "k": 96}, effort=FEWEST)):
        assert isinstance(done.scops[0].other_sizes, EverySize)
        assert done.text.count("polydl_mk_") > 0
        libraries.append(compile_c([done.text], ("-Og", "-march=native", "-fopenmp", "-Wall", "-Wextra", "-Werror")))
    rng = np.random.default_rng(1)
    for at in sizes():
        guarded = Guarded()
        arrays = [guarded.array(shape, kind, rng) for shape in shapes(*at)]
        begun = arrays[2].copy()
        wanted = expected(arrays[0], arrays[1], begun)
        for library in libraries:
            arrays[2][...] = begun
            library.f(*at, *(ctypes.c_void_p(array.__array_interface__["data"][0]) for array in arrays))
            np.testing.assert_array_equal(arrays[2], wanted, err_msg=str(at))


def test_leading_dimensions() -> None:
    """Blocks where rows are at least as long as what is read of them, the original where they overlap."""
    source = """
void f(int n, int lda, const float *restrict A, const float *restrict B, float *restrict C)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                C[i * lda + j] += A[i * lda + k] * B[k * lda + j];
}
"""
    done = made(source, n=40, lda=48)
    assert "if (n >= 1 && lda >= n)" in done.text
    library = compile_c([done.text], ("-Og", "-march=native", "-fopenmp", "-Wall", "-Wextra", "-Werror"))
    rng, guarded = np.random.default_rng(1), Guarded()
    for n, more in [(40, 8), (40, -3), *itertools.product((0, 1, 2, 7, 33, 70, 130), (0, 1, 5))]:
        lda = max(0, n + more)
        length = max(0, (n - 1) * lda + n)
        a, b, c = (guarded.array((length,), np.float32, rng) for _ in range(3))
        wanted = c.copy()
        for i, k in itertools.product(range(n), repeat=2):
            wanted[i * lda : i * lda + n] += a[i * lda + k] * b[k * lda : k * lda + n]
        library.f(n, lda, *(ctypes.c_void_p(array.__array_interface__["data"][0]) for array in (a, b, c)))
        np.testing.assert_array_equal(c, wanted, err_msg=f"n = {n}, lda = {lda}")


def test_rows_that_start_in_one_set_of_a_cache_are_asked_about() -> None:
    done = made(MATMUL, m=600, n=600, k=600)
    found = done.scops[0].other_sizes
    assert isinstance(found, EverySize)
    asked = "(k >= 1024 && k % 1024 <= 15) || (n >= 1024 && n % 1024 <= 15)"
    assert f"if ({asked})" in done.text
    for sizes, there in [((40, 40, 2048), True), ((40, 1027, 9), True), ((40, 15, 1023), False), ((1024, 9, 9), False)]:
        conditions = found.tree.at(dict(zip("mnk", sizes, strict=True))).conditions
        assert (asked in conditions, f"!({asked})" in conditions) == (there, not there), conditions


def test_points_are_with_such_rows_or_without() -> None:
    program = canonical(polydl.load(MATMUL, require_sizes=False).scops[0])
    parts = nests(program.scop, program.dependences)
    ranges, lengths = {"m": (1, 5000), "n": (1, 5000), "k": (1, 5000)}, {"n": (1024, 16), "k": (512, 8)}
    for crowded in (True, False):
        points = list(
            size_points(program.scop, program.dependences, parts, ranges, 30, lengths, crowded=crowded),
        )
        assert len(points) > 20
        for point in points:
            found = {n: point.scop.sizes[n] for n in lengths}
            near = [found[n] >= period and found[n] % period < width for n, (period, width) in lengths.items()]
            assert any(near) == crowded, found


def test_small_sizes_run_on_one_thread_and_large_ones_on_all() -> None:
    done = made(MATMUL, m=64, n=80, k=96)
    found = done.scops[0].other_sizes
    assert isinstance(found, EverySize)
    assert not any("Parallelize" in str(nest) for nest in found.recipes[0].nests)
    assert any("Parallelize" in str(nest) for nest in found.recipes[-1].nests)
    tuned, _, others = done.text[done.text.index("if (k == 96 && m == 64 && n == 80)") :].partition(
        "if (m >= 1 && n >= 1 && k >= 1)"
    )
    assert "polydl_mk_" in tuned
    column, _, blocks = others.partition("if (n < 2) {")[2].partition("} else {")
    assert "polydl_row_" in column
    assert "omp parallel" not in column
    assert "polydl_mk_" in blocks


@pytest.mark.parametrize("sizes", [{"m": 64, "n": 80, "k": 96}, {"m": 3, "n": 300, "k": 7}])
@pytest.mark.parametrize("name", CASES)
def test_estimates_are_those_of_the_program_with_sizes(name: str, sizes: dict[str, int]) -> None:
    source = CASES[name][0]
    machine = Options(machine="epyc-zen5").target()
    program = canonical(polydl.load(source, require_sizes=False).scops[0])
    there = at_sizes(program.scop, sizes)
    quick = nests(there, program.dependences)
    exact = canonical(polydl.load(source, sizes=sizes).scops[0])
    slow = nests(exact.scop, exact.dependences)
    assert [(n.name, n.loops, n.counts) for n in quick] == [(n.name, n.loops, n.counts) for n in slow]
    for one, other in zip(quick, slow, strict=True):
        estimates = [
            Estimator(scop, parts, machine, 2, TrafficRanker()).structures(nest, [apply(nest, [])])[0].score
            for scop, parts, nest in ((there, quick, one), (exact.scop, slow, other))
        ]
        assert estimates[0] == pytest.approx(estimates[1], rel=1e-12)


def test_a_tree_chooses_what_loses_least() -> None:
    features = np.array([[float(n), float(n % 7)] for n in range(1, 101)])
    losses = np.array([np.where(features[:, 0] < 30, 0.0, 1.0), np.where(features[:, 0] < 30, 1.0, 0.0)])
    grown = tree(losses, features)
    assert isinstance(grown, Question)
    assert (grown.feature, grown.limit, grown.small, grown.large) == (0, 29.0, 0, 1) or grown.limit == 30.0
    assert [taken(grown, row) for row in features[[0, 10, 60]]] == [0, 0, 1]
    assert tree(losses[:1], features) == 0


def test_few_variants_come_near_to_the_best_everywhere() -> None:
    losses = np.array([[0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.02], [0.3, 0.3, 0.3, 0.3], [1.0, 1.0, 0.01, 0.0]])
    assert few(losses, 4, 0.03)[0] == 2
    assert set(few(losses, 3, 0.03)) >= {0}
    assert len(few(losses, 1, 0.0)) == 1


@pytest.mark.parametrize(
    ("source", "sizes", "reason"),
    [
        (
            "void f(int n, float x[restrict n])\n{\n    for (int i = 1; i < n; i++)\n        x[i] += x[i - 1];\n}\n",
            {"n": 50},
            "no nest in it is a contraction",
        ),
    ],
)
def test_where_there_is_none_the_output_says_why(source: str, sizes: dict[str, int], reason: str) -> None:
    done = made(source, **sizes)
    assert reason in str(done.scops[0].other_sizes)
    assert f"other sizes: the original loops: {done.scops[0].other_sizes}" in done.text


RANK_ONE = """
void f(int m, int n, double a, double x[restrict m], double y[restrict n], double A[restrict m][n])
{
    for (int i = 0; i < m; i++) {
        const double ax = a * x[i];
        double *row = A[i];
        for (int j = 0; j < n; j++)
            row[j] += ax * y[j];
    }
}
"""


def test_one_column_leaves_a_temporary_and_one_element() -> None:
    """With n = 1 the loop over columns is none: what stands beside it has loops of another space, as isl sees them."""
    output = made(RANK_ONE, m=300, n=300)
    f = compile_c([output.text], ("-Og", "-march=native", "-fopenmp", "-Wall", "-Wextra", "-Werror")).f
    rng = np.random.default_rng(0)
    for m, n in itertools.product((1, 2, 17, 40), repeat=2):
        x, y, a = (rng.integers(-4, 5, shape).astype(np.float64) for shape in ((m,), (n,), (m, n)))
        expected = a + 3 * np.outer(x, y)
        f(m, n, ctypes.c_double(3), *(array.ctypes.data_as(ctypes.c_void_p) for array in (x, y, a)))
        assert np.array_equal(a, expected), (m, n)


def test_sizes_that_are_macros_have_no_others() -> None:
    done = polydl.optimize(
        "void f(float x[N])\n{\n    for (int i = 0; i < N; i++)\n        x[i] = i;\n}\n", defines={"N": 50}, run=False,
        threads=1, machine="epyc-zen5",
    )  # fmt: skip
    assert done.scops[0].other_sizes == ""
    assert "other sizes" not in done.text


def test_sizes_as_ranges() -> None:
    every = {"m": range(1, 4097), "n": range(1, 4097), "k": range(64, 1025)}
    done = polydl.optimize(MATMUL, sizes=every, run=False, threads=2, machine="epyc-zen5", space="small", effort=FEWEST)
    assert "if (k == 256 && m == 1024 && n == 1024)" in done.text
    assert isinstance(done.scops[0].other_sizes, EverySize)
    assert len(done.text) < 200_000


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("n=9..3", "--size n=9..3: 3 is below 9"),
        ("n=-3..5", "--size n=-3..5: -3 is below 0"),
        ("n=1..x", "--size n=1..x: not NAME=INTEGER"),
        ("n=1..5,n=1..6", "n is"),
    ],
)
def test_ranges_that_are_none(size: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Options(sizes=sizes_given([size]))


@pytest.mark.parametrize("values", [range(9, 4), range(-3, 6), range(1, 9, 2)])
def test_ranges_that_are_none_from_python(values: range) -> None:
    with pytest.raises(InputError, match="the size n is range"):
        Options(sizes={"n": values})


def test_a_macro_has_one_value() -> None:
    text = "void f(float x[N])\n{\n    for (int i = 0; i < N; i++)\n        x[i] = i;\n}\n"
    with pytest.raises(InputError, match="'N' is no parameter of a function"):
        polydl.compile(text, {"N": range(1, 9)}, tune=False)


def test_the_same_input_gives_the_same_text() -> None:
    assert made(MATMUL, m=64, n=80, k=96).text == made(MATMUL, m=64, n=80, k=96).text


def test_the_output_is_run_at_other_sizes_where_macros_have_values() -> None:
    """The code that is run is without the conditions on macros, which are only known in the file."""
    source = "#define SCALE 0.5f\n" + MATMUL.replace("A[i][p] *", "SCALE * A[i][p] *")
    done = polydl.optimize(source, sizes={"m": 96, "n": 96, "k": 96}, threads=1, top_k=1, space="small", effort=FEWEST)
    assert 'POLYDL_TEXT(SCALE), "0.5f"' in done.text
    code = done.scops[0].code
    assert code is not None
    run = for_parameters(done.scops[0].ranking.program.read, code)
    assert "m == 96" in run.region
    assert "POLYDL_TEXT" not in run.region


def test_without_sizes_it_is_made_for_every_value() -> None:
    done = polydl.optimize(MATMUL, run=False, threads=2, machine="epyc-zen5", space="small", effort=FEWEST)
    assert done.any_value == {"m": 512, "n": 512, "k": 512}
    assert isinstance(done.scops[0].other_sizes, EverySize)
    assert "--size m=512,n=512,k=512" in done.timed_at
    given = polydl.optimize(
        MATMUL, sizes={"n": 100}, run=False, threads=2, machine="epyc-zen5", space="small", effort=FEWEST
    )
    assert given.any_value == {"m": 1024, "k": 1024}
    assert "n == 100" in given.text


def test_sizes_of_the_tools_choice_keep_to_what_is_assumed() -> None:
    source = """
void f(int n, int lda, const float *restrict x, float *restrict y)
{
#pragma scop
#pragma polydl assume(n % 12 == 0 && n <= 96)
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            y[i * lda + j] = 2 * x[i * lda + j];
#pragma endscop
}
"""
    found = default_sizes(polydl.load(source, require_sizes=False, rows_fit=True).scops)
    assert found is not None
    assert found["n"] == range(1, 4 * 96 + 1)
    assert found["lda"] == found["n"]


@pytest.mark.parametrize("text", ["x[i * (n - i)]", "x[n * i * n]"])
def test_without_sizes_what_needs_them_says_so(text: str) -> None:
    source = f"void f(int n, float *restrict x)\n{{\n    for (int i = 0; i < n; i++)\n        {text} = 1;\n}}\n"
    with pytest.raises(InputError):
        polydl.optimize(source, run=False)
