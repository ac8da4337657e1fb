"""Operands packed ahead of time: the generated functions built and run, and what may not be packed so."""

from __future__ import annotations

import ctypes
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from polydl import pipeline
from polydl.base.errors import InputError
from polydl.lower.emit import Generated
from polydl.measure import Status, Toolchain, measure
from polydl.schedule.loopstring import text
from polydl.schedule.notation import Written
from polydl.schedule.recipe import Recipe
from tests.compiling import run_compiler
from tests.measure.builders import IKJ, QUICK, matmul

GEMM = """\
void product(float A[restrict 21][50], {b}, float C[restrict 21][37])
{{
#pragma scop
    for (int i = 0; i < 21; i++)
        for (int j = 0; j < 37; j++) {{
            C[i][j] = 0;
            for (int k = 0; k < 50; k++)
                C[i][j] += A[i][k] * {use};
        }}
#pragma endscop
}}
"""
PLAIN = GEMM.format(b="const float B[restrict 50][37]", use="B[k][j]")
TRANSPOSED = GEMM.format(b="const float B[restrict 37][50]", use="B[j][k]")
LINEAR = GEMM.format(b="float *restrict B", use="B[37 * k + j]")


def _built(source: str, folder: Path, *arrays: str, **options: object) -> ctypes.CDLL:
    path, out = folder / "in.c", folder / "out.c"
    path.write_text(source)
    pipeline.optimize(path, out, run=False, prepack=arrays, **options)  # type: ignore[arg-type]
    flags = ["-Og", "-fstrict-aliasing", "-Wall", "-Wextra", "-Werror", "-march=native", "-fopenmp", "-shared", "-fPIC"]
    run_compiler(["cc", *flags, "-o", folder / "out.so", out])
    return ctypes.CDLL(str(folder / "out.so"))


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Packed:
    """A library's function with memory for its packed operands."""

    def __init__(self, library: ctypes.CDLL, function: str, *arrays: np.ndarray) -> None:
        self._run, self._pack = (getattr(library, f"{function}_{name}") for name in ("packed", "pack"))
        size = getattr(library, f"{function}_pack_bytes")
        size.restype = ctypes.c_size_t
        self.memory = np.zeros(size(), np.uint8)
        self.pack(*arrays)

    def pack(self, *arrays: np.ndarray) -> None:
        self._pack(*map(_pointer, arrays), _pointer(self.memory))

    def __call__(self, *arrays: np.ndarray) -> None:
        self._run(*map(_pointer, arrays), _pointer(self.memory))


@pytest.mark.parametrize("source", [PLAIN, TRANSPOSED, LINEAR])
def test_runs_with_and_without_the_copy(source: str, tmp_path: Path) -> None:
    library = _built(source, tmp_path, "B")
    rng = np.random.default_rng(2)
    a = rng.integers(-3, 4, (21, 50)).astype(np.float32)
    several = [rng.integers(-3, 4, (50, 37)).astype(np.float32) for _ in range(2)]
    stored = [(b.T if source is TRANSPOSED else b).copy(order="C") for b in several]
    c = np.empty((21, 37), dtype=np.float32)
    library.product(_pointer(a), _pointer(stored[0]), _pointer(c))
    np.testing.assert_array_equal(c, a @ several[0], err_msg="without a copy it packs for itself")
    packed = [Packed(library, "product", b) for b in stored]
    for index in (0, 1, 0):
        c.fill(np.nan)
        packed[index](a, stored[index], c)
        np.testing.assert_array_equal(c, a @ several[index])
    stored[1][...] += 1
    packed[1](a, stored[1], c)
    np.testing.assert_array_equal(c, a @ several[1], err_msg="the copy is what is used")
    packed[1].pack(stored[1])
    packed[1](a, stored[1], c)
    np.testing.assert_array_equal(c, a @ (several[1] + 1), err_msg="and brought up to date")
    library.product(_pointer(a), _pointer(stored[1]), _pointer(c))
    np.testing.assert_array_equal(c, a @ (several[1] + 1), err_msg="a call without memory packs for itself again")


def test_nothing_is_known_by_its_address(tmp_path: Path) -> None:
    """Other arrays where packed ones were, and copies in memory that has moved to another alignment."""
    library = _built(PLAIN, tmp_path, "B")
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-3, 4, s).astype(np.float32) for s in ((21, 50), (50, 37)))
    c, first = np.empty((21, 37), dtype=np.float32), b.copy()
    packed = Packed(library, "product", b)
    b[...] = 7
    library.product(_pointer(a), _pointer(b), _pointer(c))
    np.testing.assert_array_equal(c, a @ b)
    packed(a, b, c)
    np.testing.assert_array_equal(c, a @ first)


def test_both_operands(tmp_path: Path) -> None:
    library = _built(PLAIN, tmp_path, "A", "B")
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-3, 4, s).astype(np.float32) for s in ((21, 50), (50, 37)))
    c = np.empty((21, 37), dtype=np.float32)
    Packed(library, "product", a, b)(a, b, c)
    np.testing.assert_array_equal(c, a @ b)


def _text(folder: Path) -> str:
    return (folder / "out.c").read_text()


SEVERAL = """\
double layers(const float x[restrict 21][40], const float W[restrict 40][40], const float V[restrict 40][24],
              const float other[restrict 40], float h[restrict 21][40], float g[restrict 21][40],
              float y[restrict 21][24])
{
#pragma scop
#pragma polydl constant(W, V, other)
    for (int i = 0; i < 21; i++)
        for (int j = 0; j < 40; j++) {
            h[i][j] = other[j];
            for (int k = 0; k < 40; k++)
                h[i][j] += x[i][k] * W[k][j];
        }
    for (int i = 0; i < 21; i++)
        for (int j = 0; j < 40; j++) {
            g[i][j] = other[j];
            for (int k = 0; k < 40; k++)
                g[i][j] += h[i][k] * W[k][j];
        }
    for (int i = 0; i < 21; i++)
        for (int j = 0; j < 24; j++) {
            y[i][j] = 0;
            for (int k = 0; k < 40; k++)
                y[i][j] += g[i][k] * V[k][j];
        }
#pragma endscop
    return y[0][0];
}
"""


def test_several_consumers_have_one_function(tmp_path: Path) -> None:
    """One call packs all that depends on constants, of all nests; threads with weights of their own at once."""
    library = _built(SEVERAL, tmp_path)
    assert "void layers_pack(const float *W, const float *V, void *polydl_memory);" in _text(tmp_path)
    library.layers_packed.restype = ctypes.c_double
    rng = np.random.default_rng(2)

    def check(seed: int) -> None:
        rng = np.random.default_rng(seed)
        x, w, v, b = (rng.integers(-2, 3, s).astype(np.float32) for s in ((21, 40), (40, 40), (40, 24), (40,)))
        h, g, y = (np.empty(s, np.float32) for s in ((21, 40), (21, 40), (21, 24)))
        packed = Packed(library, "layers", w, v)
        for _ in range(20):
            y.fill(np.nan)
            value = library.layers_packed(*map(_pointer, (x, w, v, b, h, g, y, packed.memory)))
            expected = ((x @ w + b) @ w + b) @ v
            np.testing.assert_array_equal(y, expected)
            assert value == expected[0, 0]

    check(int(rng.integers(100)))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(check, range(8)))


ZERO_POINTS = """\
#include <stdint.h>
void quantized(int n, const uint8_t A[restrict 64][n], const int8_t B[restrict n][96], int32_t C[restrict 64][96],
               int za)
{
#pragma scop
#pragma polydl constant(B)
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 96; j++) {
            C[i][j] = 0;
            for (int k = 0; k < n; k++)
                C[i][j] += (A[i][k] - za) * B[k][j];
        }
#pragma endscop
}
"""


@pytest.mark.few_sizes
def test_sums_of_columns_for_zero_points_are_packed(tmp_path: Path) -> None:
    """They depend on constants alone: a run with packed operands reads them, one without makes them."""
    library = _built(ZERO_POINTS, tmp_path, sizes={"n": 256}, machine="epyc-zen4", threads=2)
    text = _text(tmp_path)
    assert text.count("polydl_derived_quantized(") == 2  # defined, and called by the function that packs
    rng = np.random.default_rng(2)
    a = rng.integers(0, 256, (64, 256)).astype(np.uint8)
    b = rng.integers(-128, 128, (256, 96)).astype(np.int8)
    c = np.empty((64, 96), np.int32)
    memory = np.zeros(library.quantized_pack_bytes(), np.uint8)
    library.quantized_pack(_pointer(b), _pointer(memory))
    for zero in (0, 7, 255):
        expected = (a.astype(np.int64) - zero) @ b.astype(np.int64)
        for run, more in ((library.quantized, ()), (library.quantized_packed, (_pointer(memory),))):
            c.fill(-1)
            run(ctypes.c_int(256), _pointer(a), _pointer(b), _pointer(c), ctypes.c_int(zero), *more)
            np.testing.assert_array_equal(c, expected)
    before = b.copy()
    b[...] = 1  # neither the copy nor the sums are read from it
    library.quantized_packed(ctypes.c_int(256), *map(_pointer, (a, b, c)), ctypes.c_int(7), _pointer(memory))
    np.testing.assert_array_equal(c, (a.astype(np.int64) - 7) @ before.astype(np.int64))


def test_several_functions_of_a_file(tmp_path: Path) -> None:
    second = PLAIN.replace("product(", "again(")
    path = tmp_path / "in.c"
    path.write_text(PLAIN + second)
    pipeline.optimize(path, tmp_path / "out.c", run=False, prepack=("B",))
    for function in ("product", "again"):
        assert f"void {function}_pack(const float *B, void *polydl_memory);" in _text(tmp_path)


def test_a_function_of_several_regions_packs_nothing_ahead(tmp_path: Path) -> None:
    path = tmp_path / "in.c"
    loops = PLAIN.partition("#pragma scop\n")[2].partition("#pragma endscop")[0]
    path.write_text(PLAIN.replace("#pragma endscop\n", f"#pragma endscop\n#pragma scop\n{loops}#pragma endscop\n"))
    with pytest.raises(InputError, match="several regions"):
        pipeline.optimize(path, tmp_path / "out.c", run=False, prepack=("B",))


def test_text_json_loop_string_and_notes(tmp_path: Path) -> None:
    path = tmp_path / "in.c"
    path.write_text(PLAIN)
    scop = pipeline.only_scop(pipeline.load(path))
    given = [(Written("S1: AB", "x"), Written("mk=7x16:c;pack=B@product_pack", "x"))]
    variant = pipeline.score(scop, given).variants[0]
    assert "Pack(operand=B, function=product_pack)" in str(variant.recipe)
    assert Recipe.from_json(variant.recipe.to_json()) == variant.recipe
    assert json.loads(variant.recipe.to_json())[1]["transforms"][-1]["function"] == "product_pack"
    assert str(text(variant.structures[1])) == "AB mk=7(i)x16(j):k;pack=B@product_pack"
    assert any("product_pack" in note for note in variant.notes)
    plain = pipeline.score(scop, [(given[0][0], Written("mk=7x16:c;pack=B", "x"))]).variants[0]
    assert variant.score < plain.score, "its time does not count"
    for found in pipeline.rank(scop, prepack=("B",)):
        for structure in found.structures:
            assert structure.kernel is None or [p.function for p in structure.packs if p.operand == "B"] == [
                "product_pack"
            ]


@pytest.mark.parametrize(
    ("array", "source", "reason"),
    [
        ("C", PLAIN, "is written"),
        ("X", PLAIN, "not read by a contraction"),
        ("B", PLAIN.replace("void", "void product_pack(void);\nvoid", 1), "already"),
        ("B", PLAIN.replace("void product(", "float *product(").replace("endscop", "endscop\n    return C[0];"), "old"),
    ],
)
def test_refused(array: str, source: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "in.c"
    path.write_text(source)
    with pytest.raises(InputError, match=reason):
        pipeline.optimize(path, tmp_path / "out.c", run=False, prepack=(array,))
    with pytest.raises(TypeError):
        pipeline.rank(path, prepack="B")


def test_preparing_takes_no_time_of_the_run() -> None:
    """`prepare` runs before the check and before each placement's samples; its time is nobody's."""
    program = matmul(text=matmul().source.text.replace("scale(A[i][k])", "A[i][k]"))
    prologue = "#include <unistd.h>\nstatic int ready;\n"
    code = Generated((prologue,), f"if (!ready) __builtin_trap();\n{IKJ}", ("usleep(100000); ready = 1;",))
    report = measure(program, {"v": code}, Toolchain(), QUICK)
    assert report.measurements[0].status is Status.VERIFIED, report.measurements[0].message
    assert max(report.measurements[0].samples) < 0.05
