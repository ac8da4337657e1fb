"""Programs around contractions at sizes that were not tuned: the output beside the input, at pages that are guarded."""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from polydl.base import resources
from polydl.search.sizes.code import EverySize
from tests.efforts import LEAST
from tests.oracle.native import compile_c
from tests.search.test_every_size import Guarded, made

FLAGS = ("-Og", "-march=native", "-fopenmp", "-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True)
class Case:
    """A function `f` of some sizes, scalars and arrays, in this order."""

    body: str
    tuned: Mapping[str, int]
    """Of each size, in the order of the arguments."""
    arrays: Mapping[str, str]
    """Extents of each array, separated by commas; the last one is written."""
    scalars: tuple[str, ...] = ()
    further: tuple[tuple[int, ...], ...] = ()
    """Sizes beside the edges of blocks and tiles."""
    flat: bool = False
    """Arrays are plain pointers."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Types of elements that are no floats, by array."""
    fused: bool = False
    """What stands around the sums is to run in the microkernels."""

    @property
    def source(self) -> str:
        arguments = [f"int {name}" for name in self.tuned] + [f"float {name}" for name in self.scalars]
        for name, extents in self.arrays.items():
            const = "" if name == list(self.arrays)[-1] else "const "
            first, *others = extents.split(",")
            shape = f"{name}[restrict {first}]" + "".join(f"[{one.strip()}]" for one in others)
            kind = self.kinds.get(name, "float")
            arguments.append(f"{const}{kind} " + (f"*restrict {name}" if self.flat else shape))
        headers = "#include <math.h>\n#include <polydl.h>\n#include <stdint.h>\n" if self.kinds else ""
        return f"{headers}void f({', '.join(arguments)})\n{{\n{self.body}}}\n"

    def sizes(self) -> Iterator[tuple[int, ...]]:
        """Every small size, and some beside the edges of blocks and tiles."""
        count = len(self.tuned)
        small = (0, 1, 2, 7, 17) if count <= 3 else (0, 1, 3)
        yield from itertools.product(small, repeat=count)
        for place, value in itertools.product(range(count), range(41)):
            yield tuple(value if at == place else (3, 5, 2)[at % 3] for at in range(count))
        yield from self.further


PRODUCT = """\
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float s = START;
            for (int p = 0; p < k; p++)
                s += A[i][p] * B[p][j];
            FINISH
        }
"""
MNK = {"m": 64, "n": 80, "k": 96}
LARGE = ((64, 80, 96), (97, 130, 131), (1, 1300, 3), (300, 1, 2), (2, 3, 1100), (10, 1025, 257))
OPERANDS = {"A": "m, k", "B": "k, n"}


def finished(start: str, finish: str) -> str:
    return PRODUCT.replace("START", start).replace("FINISH", finish)


CASES = {
    "bias and ReLU": Case(
        finished("bias[j]", "C[i][j] = s > 0 ? s : 0;"),
        MNK, {**OPERANDS, "bias": "n", "C": "m, n"}, (), LARGE, fused=True,
    ),
    "bias of rows": Case(
        finished("0", "C[i][j] = s + bias[i];"), MNK, {**OPERANDS, "bias": "m", "C": "m, n"}, (), LARGE, fused=True
    ),
    "residual": Case(
        finished("0", "s += R[i][j]; C[i][j] = s > 0 ? s : 0;"),
        MNK, {**OPERANDS, "R": "m, n", "C": "m, n"}, (), LARGE, fused=True,
    ),
    "residual of longer rows": Case(
        finished("R[i][j + 2]", "C[i][j] = s * R[i][j];"),
        MNK, {**OPERANDS, "R": "m, n + 2", "C": "m, n"}, (), LARGE, fused=True,
    ),
    "a bounded sum": Case(
        f"#pragma scop\n#pragma polydl assume(k <= 1000)\n{finished('R[i][j]', 'C[i][j] = 2 * s;')}#pragma endscop\n",
        MNK, {**OPERANDS, "R": "m, n", "C": "m, n"}, (), ((64, 80, 96), (97, 130, 131), (300, 1, 2), (10, 1025, 257)),
        fused=True,
    ),
    "short sums of one column": Case(
        finished("0", "C[i][j] = s;"), {"m": 64, "n": 1, "k": 4}, {**OPERANDS, "C": "m, n"}, (), LARGE
    ),
    "alpha and beta": Case(
        """\
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++)
            C[i][j] *= beta;
        for (int p = 0; p < k; p++)
            for (int j = 0; j < n; j++)
                C[i][j] += alpha * A[i][p] * B[p][j];
    }
""",
        MNK, {**OPERANDS, "C": "m, n"}, ("alpha", "beta"), LARGE, fused=True,
    ),
    "half of a product": Case(
        """\
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++)
            C[i][j] *= beta;
        for (int p = 0; p < k; p++)
            for (int j = 0; j <= i; j++)
                C[i][j] += alpha * A[p][i] * A[p][j];
    }
""",
        {"n": 80, "k": 96}, {"A": "k, n", "C": "n, n"}, ("alpha", "beta"), ((80, 96), (97, 131), (161, 3), (230, 20)),
    ),
    "a triangular factor": Case(
        """\
    for (int i = 0; i < m; i++)
        for (int p = 0; p <= i; p++)
            for (int j = 0; j < n; j++)
                C[i][j] += A[i][p] * B[p][j];
""",
        {"m": 80, "n": 96}, {"A": "m, m", "B": "m, n", "C": "m, n"}, (), ((80, 96), (97, 131), (161, 3), (300, 100)),
    ),
    "leading dimensions": Case(
        """\
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float s = 0;
            for (int p = 0; p < k; p++)
                s += A[i * lda + p] * B[p * ldb + j];
            C[i * ldc + j] = s;
        }
""",
        {**MNK, "lda": 100, "ldb": 80, "ldc": 90},
        {"A": "m * lda + k", "B": "k * ldb + n", "C": "m * ldc + n"},
        (),
        ((64, 80, 96, 97, 98, 99), (97, 130, 131, 131, 130, 135), (9, 48, 300, 300, 50, 48), (9, 48, 30, 20, 50, 48)),
        flat=True,
    ),
    "batched": Case(
        """\
    for (int q = 0; q < b; q++)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                C[q][i][j] = 0;
                for (int p = 0; p < k; p++)
                    C[q][i][j] += A[q][i][p] * B[q][p][j];
            }
""",
        {"b": 8, **MNK}, {"A": "b, m, k", "B": "b, k, n", "C": "b, m, n"}, (), tuple((2, *at) for at in LARGE),
    ),
    "bytes": Case(
        PRODUCT.replace("float s = START", "int32_t s = 0").replace("FINISH", "C[i][j] = s;"),
        MNK, {**OPERANDS, "C": "m, n"}, (), LARGE, kinds={"A": "uint8_t", "B": "int8_t", "C": "int32_t"},
    ),
    "bf16": Case(
        re.sub(r"([AB]\[.\]\[.\])", r"polydl_to_float(\1)", finished("0", "C[i][j] = s;")),
        MNK, {**OPERANDS, "C": "m, n"}, (), LARGE, kinds={"A": "polydl_bf16", "B": "polydl_bf16"},
    ),
    "convolution in steps": Case(
        """\
    for (int n = 0; n < N; n++)
        for (int k = 0; k < K; k++)
            for (int y = 0; y < H; y++)
                for (int x = 0; x < W; x++) {
                    out[n][k][y][x] = 0;
                    for (int c = 0; c < C; c++)
                        for (int r = 0; r < 3; r++)
                            for (int s = 0; s < 3; s++)
                                out[n][k][y][x] += in[n][c][2 * y + r][2 * x + s] * w[k][c][r][s];
                }
""",
        {"N": 1, "C": 16, "K": 24, "H": 28, "W": 28},
        {"in": "N, C, 2 * H + 1, 2 * W + 1", "w": "K, C, 3, 3", "out": "N, K, H, W"},
        (), ((2, 57, 10, 4, 30), (1, 15, 51, 3, 1100)),
    ),
    "convolution with ReLU": Case(
        """\
    for (int n = 0; n < N; n++)
        for (int k = 0; k < K; k++)
            for (int y = 0; y < H; y++)
                for (int x = 0; x < W; x++) {
                    float t = bias[k];
                    for (int c = 0; c < C; c++)
                        t += in[n][c][y][x] * w[k][c];
                    out[n][k][y][x] = t > 0 ? t : 0;
                }
""",
        {"N": 1, "C": 64, "K": 64, "H": 28, "W": 28},
        {"in": "N, C, H, W", "w": "K, C", "bias": "K", "out": "N, K, H, W"},
        (), ((2, 257, 10, 4, 30), (1, 129, 51, 3, 1100)), fused=True,
    ),
    "convolution along channels": Case(
        """\
    for (int n = 0; n < N; n++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                for (int k = 0; k < K; k++) {
                    out[n][y][x][k] = 0;
                    for (int r = 0; r < 3; r++)
                        for (int s = 0; s < 3; s++)
                            for (int c = 0; c < C; c++)
                                out[n][y][x][k] += in[n][y + r][x + s][c] * w[r][s][c][k];
                }
""",
        {"N": 1, "C": 16, "K": 24, "H": 28, "W": 28},
        {"in": "N, H + 2, W + 2, C", "w": "3, 3, C, K", "out": "N, H, W, K"},
        (), ((2, 57, 10, 4, 30), (1, 15, 251, 3, 50)),
    ),
    "each channel with a window of its own": Case(
        """\
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < C; c++) {
                float s = 0;
                for (int p = 0; p < K; p++)
                    for (int q = 0; q < K; q++)
                        s += in[y + p][x + q][c] * w[p][q][c];
                out[y][x][c] = s;
            }
""",
        {"H": 24, "W": 24, "C": 40, "K": 3}, {"in": "H + K, W + K, C", "w": "K, K, C", "out": "H, W, C"},
        (), ((24, 24, 40, 3), (2, 57, 300, 5), (60, 3, 17, 131)),
    ),
    "means of windows, channels last": Case(
        """\
    for (int n = 0; n < N; n++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                for (int c = 0; c < C; c++) {
                    float s = 0;
                    for (int p = 0; p < 3; p++)
                        for (int q = 0; q < 3; q++)
                            s += in[n][2 * y + p][2 * x + q][c];
                    out[n][y][x][c] = s * 0.25f;
                }
""",
        {"N": 2, "H": 28, "W": 28, "C": 40}, {"in": "N, 2 * H + 1, 2 * W + 1, C", "out": "N, H, W, C"},
        (), ((2, 28, 28, 40), (1, 57, 3, 300), (3, 2, 60, 17)), fused=True,
    ),
}  # fmt: skip


def only_with_fuzz(request: pytest.FixtureRequest) -> None:
    """What takes ten seconds of compilers beside a test of the same kind."""
    if request.config.getoption("--hypothesis-profile") != "fuzz":
        pytest.skip("long: runs with --hypothesis-profile=fuzz")


@pytest.mark.parametrize("name", CASES)
def test_the_output_is_right_at_every_size(name: str, request: pytest.FixtureRequest) -> None:
    case = CASES[name]
    if name == "bf16":
        only_with_fuzz(request)
    done = made(case.source, LEAST, **case.tuned)
    found = done.scops[0].other_sizes
    assert isinstance(found, EverySize), found
    assert "polydl_mk_" in found.generated.region
    assert any("Fuse(" in str(nest) for recipe in found.recipes for nest in recipe.nests) == case.fused
    assert len(done.text) < 200_000
    same_at_every_size(case, done.text)


ELEMENTS = {"uint8_t": np.uint8, "int8_t": np.int8, "int32_t": np.int32, "polydl_bf16": np.uint16, "float": np.float32}


def same_at_every_size(case: Case, text: str) -> None:
    """Run the output and the input at all sizes of a case."""
    headers = f"-I{resources.headers()}"
    library, original = compile_c([text], (*FLAGS, headers)), compile_c([case.source], ("-Og", headers))
    rng, guarded = np.random.default_rng(1), Guarded()
    kinds = [case.kinds.get(name, "float") for name in case.arrays]
    for sizes in case.sizes():
        at = dict(zip(case.tuned, sizes, strict=True))
        shapes = [[max(0, eval(extent, {}, at)) for extent in one.split(",")] for one in case.arrays.values()]
        arrays = [guarded.array(shape, ELEMENTS[kind], rng) for shape, kind in zip(shapes, kinds, strict=True)]
        for array, kind in zip(arrays, kinds, strict=True):
            if kind == "polydl_bf16":
                # The upper halves of floats: of small integers they are all that there is.
                array[...] = rng.integers(-4, 5, array.shape).astype(np.float32).view(np.uint32) >> 16
        scalars = [ctypes.c_float(value) for value in (2.0, -3.0)[: len(case.scalars)]]
        start = arrays[-1].copy()
        results = []
        for one in (original, library):
            arrays[-1][...] = start
            one.f(*sizes, *scalars, *(ctypes.c_void_p(a.__array_interface__["data"][0]) for a in arrays))
            results.append(arrays[-1].copy())
        wanted, got = results
        np.testing.assert_array_equal(got, wanted, err_msg=str(at))


QUANTISED = {
    "zero points": ("int32_t s = bias[j];", "s += (A[i][p] - 3) * (B[p][j] - 5);", "C[i][j] = s;"),
    "requantised": (
        "int32_t s = bias[j];", "s += A[i][p] * B[p][j];",
        "C[i][j] = (int32_t)lrintf(fminf(fmaxf(s * 0.25f, -128.0f), 127.0f));",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_products_are_right_at_every_size(name: str, request: pytest.FixtureRequest) -> None:
    """Sums beside them need memory of a size that is not known, so that the original loops run where nothing is
    tuned."""
    only_with_fuzz(request)
    start, add, finish = QUANTISED[name]
    body = PRODUCT.replace("float s = START;", start).replace("s += A[i][p] * B[p][j];", add).replace("FINISH", finish)
    kinds = {"A": "uint8_t", "B": "int8_t", "bias": "int32_t", "C": "int32_t"}
    case = Case(body, MNK, {**OPERANDS, "bias": "n", "C": "m, n"}, (), LARGE, kinds=kinds)
    done = made(case.source, LEAST, **case.tuned)
    assert "other sizes: " in done.text
    same_at_every_size(case, done.text)
