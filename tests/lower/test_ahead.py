"""Operands packed ahead of time: the generated functions built and run, and what may not be packed so."""

from __future__ import annotations

import ctypes
import json
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
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-march=native", "-fopenmp", "-shared", "-fPIC"]
    run_compiler(["cc", *flags, "-o", folder / "out.so", out])
    return ctypes.CDLL(str(folder / "out.so"))


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@pytest.mark.parametrize("source", [PLAIN, TRANSPOSED, LINEAR])
def test_runs_with_and_without_the_copy(source: str, tmp_path: Path) -> None:
    library = _built(source, tmp_path, "B")
    rng = np.random.default_rng(2)
    a = rng.integers(-3, 4, (21, 50)).astype(np.float32)
    several = [rng.integers(-3, 4, (50, 37)).astype(np.float32) for _ in range(3)]
    stored = [(b.T if source is TRANSPOSED else b).copy(order="C") for b in several]
    c = np.empty((21, 37), dtype=np.float32)

    def product(index: int) -> np.ndarray:
        c.fill(np.nan)
        library.product(_pointer(a), _pointer(stored[index]), _pointer(c))
        return c

    np.testing.assert_array_equal(product(0), a @ several[0], err_msg="without a copy it packs for itself")
    library.product_pack(_pointer(stored[0]))
    library.product_pack(_pointer(stored[1]))
    for index in range(3):
        np.testing.assert_array_equal(product(index), a @ several[index])
    stored[1][...] += 1
    np.testing.assert_array_equal(product(1), a @ several[1], err_msg="the copy is what is used")
    library.product_pack(_pointer(stored[1]))
    np.testing.assert_array_equal(product(1), a @ (several[1] + 1), err_msg="and brought up to date")
    library.product_pack_free(_pointer(stored[0]))
    library.product_pack_free(_pointer(stored[0]))
    stored[0][...] -= 2
    np.testing.assert_array_equal(product(0), a @ (several[0] - 2))
    np.testing.assert_array_equal(product(1), a @ (several[1] + 1))


def test_both_operands(tmp_path: Path) -> None:
    library = _built(PLAIN, tmp_path, "A", "B")
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-3, 4, s).astype(np.float32) for s in ((21, 50), (50, 37)))
    c = np.empty((21, 37), dtype=np.float32)
    library.product_pack_A(_pointer(a))
    library.product_pack_B(_pointer(b))
    library.product(_pointer(a), _pointer(b), _pointer(c))
    np.testing.assert_array_equal(c, a @ b)


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
        ("B", PLAIN.replace("C[i][j] = 0;", "for (int k = 0; k < 50; k++) C[i][j] += A[i][k] * B[k][j];"), "several"),
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
