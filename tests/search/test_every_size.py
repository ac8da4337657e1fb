"""Code for sizes that were not tuned: right at every size, within its arrays, and where there is none, said why."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

import polydl
from polydl.base.errors import PolyDLError
from polydl.lower.emit import Generated
from polydl.measure import MeasureOptions, Toolchain
from polydl.results import OptimizeResult
from polydl.search.every_size import EverySize
from polydl.search.other_sizes import check_other_sizes
from tests.oracle.native import compile_c

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
        found += np.einsum("oc,cyx->oyx", b[:, :, p, q], a[:, p : p + m, q : q + n])
    return found


CASES = {
    "matmul": (MATMUL, matmul, lambda m, n, k: ((m, k), (k, n), (m, n)), np.float32),
    "flat": (FLAT, flat, lambda m, n, k: ((m, k), (k, n), (m, n)), np.float64),
    "transposed": (TRANSPOSED, transposed, lambda m, n, k: ((k, m), (n, k), (m, n)), np.float32),
    "batched": (BATCHED, batched, lambda m, n, k: ((3, m, k), (3, k, n), (3, m, n)), np.float32),
    "convolution": (CONVOLUTION, convolution, lambda m, n, k: ((k, m + 2, n + 2), (5, k, 3, 3), (5, m, n)), np.float32),
}


def made(source: str, **sizes: int) -> OptimizeResult:
    return polydl.optimize(source, sizes=sizes, run=False, threads=2, machine="epyc-zen5", space="small")


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
        found[...] = rng.integers(-4, 5, shape)
        return found


def sizes() -> Iterator[tuple[int, int, int]]:
    """Every small size, and some beside the edges of blocks and tiles."""
    yield from itertools.product((0, 1, 2, 7, 16), repeat=3)
    yield from [(n, 5, 3) for n in range(41)]
    yield from [(5, n, 3) for n in range(41)]
    yield from [(3, 5, n) for n in range(41)]
    yield from [(64, 80, 96), (97, 130, 61), (1, 1300, 3), (300, 1, 2), (2, 3, 1100), (199, 1025, 257)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shared", [True, False])
def test_it_is_right_at_every_size(name: str, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    source, expected, shapes, kind = CASES[name]
    monkeypatch.setattr("polydl.search.every_size._FORKS", 0.0 if shared else 1e9)
    done = made(source, m=64, n=80, k=96)
    assert isinstance(done.scops[0].other_sizes, EverySize)
    assert done.text.count("polydl_mk_") > 0
    library = compile_c([done.text], ("-O1", "-march=native", "-fopenmp", "-Wall", "-Wextra", "-Werror"))
    rng, guarded = np.random.default_rng(1), Guarded()
    for at in sizes():
        arrays = [guarded.array(shape, kind, rng) for shape in shapes(*at)]
        wanted = expected(*(array.copy() for array in arrays))
        library.f(*at, *(ctypes.c_void_p(array.__array_interface__["data"][0]) for array in arrays))
        np.testing.assert_array_equal(arrays[2], wanted, err_msg=str(at))


def test_both_branches_have_the_microkernel() -> None:
    text = made(MATMUL, m=64, n=80, k=96).text
    tuned, _, others = text[text.index("if (k == 96 && m == 64 && n == 80)") :].partition(
        "if (m >= 1 && n >= 1 && k >= 1)"
    )
    assert "polydl_mk_" in tuned
    small, _, large = others.partition("else")
    assert "polydl_mk_" in small
    assert "omp parallel" not in small
    assert "polydl_mk_" in large
    assert "omp parallel for" in large


@pytest.mark.parametrize(
    ("source", "sizes", "reason"),
    [
        (
            "void f(int n, float x[restrict n])\n{\n    for (int i = 1; i < n; i++)\n        x[i] += x[i - 1];\n}\n",
            {"n": 50},
            "no nest in it is a contraction",
        ),
        (
            (
                "void f(int n, int lda, const float *restrict A, const float *restrict B, float *restrict C)\n{\n"
                "    for (int i = 0; i < n; i++)\n        for (int j = 0; j < n; j++)\n"
                "            for (int k = 0; k < n; k++)\n"
                "                C[i * lda + j] += A[i * lda + k] * B[k * lda + j];\n}\n"
            ),
            {"n": 40, "lda": 48},
            "not affine: it multiplies",
        ),
    ],
)
def test_where_there_is_none_the_output_says_why(source: str, sizes: dict[str, int], reason: str) -> None:
    done = made(source, **sizes)
    assert reason in str(done.scops[0].other_sizes)
    assert f"other sizes: the original loops: {done.scops[0].other_sizes}" in done.text.replace("\n * ", " ")


def test_sizes_that_are_macros_have_no_others() -> None:
    done = polydl.optimize(
        "void f(float x[N])\n{\n    for (int i = 0; i < N; i++)\n        x[i] = i;\n}\n", defines={"N": 50}, run=False,
        threads=1, machine="epyc-zen5",
    )  # fmt: skip
    assert done.scops[0].other_sizes == ""
    assert "other sizes" not in done.text


def test_the_same_input_gives_the_same_text() -> None:
    assert made(MATMUL, m=64, n=80, k=96).text == made(MATMUL, m=64, n=80, k=96).text


def test_the_output_is_run_at_other_sizes() -> None:
    done = made(MATMUL, m=24, n=25, k=26).scops[0]
    scop, code = done.ranking.program.read, done.code
    assert code is not None
    assert "polydl_mk_" in code.otherwise

    def tried(code: Generated) -> tuple[dict[str, int], ...]:
        return check_other_sizes(
            scop, code, lambda sizes: polydl.load(MATMUL, sizes=sizes).scops[0], Toolchain(), MeasureOptions(threads=2)
        )

    assert len(tried(code)) == 6
    with pytest.raises(PolyDLError, match="computes something else"):
        tried(replace(code, otherwise="(void)0;"))
