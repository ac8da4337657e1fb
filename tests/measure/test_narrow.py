"""Measuring programs in bfloat16 and half: their inputs, their bounds, right and wrong candidates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.lower.emit import Generated
from polydl.measure import Measurement, Status, Toolchain, measure
from polydl.measure.input_data import Buffer, describe_buffers, integer_inputs, real_inputs
from polydl.measure.poison import poisoned
from polydl.measure.tolerance import tolerances
from polydl.measure.unit import passed_arrays
from polydl.model.bfloat16 import narrowed, widened
from polydl.model.scop import Scop
from polydl.model.types import BF16_BITS, F16, F32, F64
from tests.measure.builders import QUICK

GEMM = """#include <polydl.h>
void f(float C[restrict 12][16], polydl_bf16 Y[restrict 12][16], const polydl_bf16 A[restrict 12][40],
       const polydl_bf16 B[restrict 40][16], polydl_bf16 alpha)
{
#pragma scop
    for (int i = 0; i < 12; i++)
        for (int j = 0; j < 16; j++)
            for (int k = 0; k < 40; k++)
                C[i][j] += polydl_to_float(A[i][k]) * polydl_to_float(B[k][j]);
    for (int i = 0; i < 12; i++)
        for (int j = 0; j < 16; j++)
            Y[i][j] = polydl_to_bf16(C[i][j] * polydl_to_float(alpha));
#pragma endscop
}
"""


def read(text: str) -> Scop:
    (found,) = polydl.load(text).scops
    return found


def buffers(scop: Scop) -> tuple[Buffer, ...]:
    return describe_buffers(scop, [(a.element.bytes, 0, 0) for a in passed_arrays(scop)])


def candidate(scop: Scop, change: tuple[str, str] = ("", "")) -> Measurement:
    text = scop.source.text[scop.region.start : scop.region.end].replace(*change)
    (found,) = measure(scop, {"v": Generated((), text)}, Toolchain(), QUICK).measurements
    return found


def test_bits_in_numpy_are_those_of_the_header() -> None:
    """Against exact arithmetic there (tests/model/test_header.py), here against each other."""
    bits = np.arange(2**16, dtype=np.uint32).astype(np.uint16)
    back = narrowed(widened(bits))
    nan = np.isnan(widened(bits))
    assert np.array_equal(back[~nan], bits[~nan])
    assert np.all(np.isnan(widened(back[nan])))
    ties = np.array([1 + 2**-8, 1 + 3 * 2**-8, 3.4e38, -(2.0**-133), 1e-45], np.float32)
    assert widened(narrowed(ties)).tolist() == [1.0, 1 + 2**-6, float("inf"), -(2.0**-133), 0.0]
    for shape in ((), (0,), (2, 3)):
        for made in (narrowed(np.full(shape, 2.0)), widened(np.full(shape, 0x4000, np.uint16))):
            assert isinstance(made, np.ndarray)
            assert made.shape == shape
            assert np.all(made == (0x4000 if made.dtype == np.uint16 else 2.0))


def test_inputs_are_numbers_of_the_type() -> None:
    found = [b for b in buffers(read(GEMM)) if b.element is BF16_BITS]
    assert {b.array.name for b in found} == {"Y", "A", "B", "alpha"}
    for values, buffer in zip(integer_inputs(found, 3, 4), found, strict=True):
        numbers = buffer.numbers(values)
        assert values.dtype == np.uint16
        assert set(np.unique(numbers)) <= {1.0, 2.0, 3.0, 4.0}
    for values, buffer in zip(real_inputs(found, 3, -1.0, 1.0), found, strict=True):
        numbers = buffer.numbers(values)
        assert np.all(np.abs(numbers) <= 1)
        assert numbers.size < 10 or len(np.unique(numbers)) > numbers.size / 4


def test_matrices_get_a_dominant_diagonal_and_outputs_nan() -> None:
    text = GEMM.replace("B[restrict 40][16]", "B[restrict 40][40]")
    square = next(b for b in buffers(read(text)) if b.array.name == "B")
    (values,) = integer_inputs([square], 3, 4, dominant=True)
    numbers = square.numbers(values)
    assert np.all(np.diag(numbers) > 300)
    (bad,) = poisoned([values], [replace(square, overwritten=True)])
    assert np.all(np.isnan(square.numbers(bad)))


def test_bounds_come_from_the_types_on_the_way() -> None:
    """40 sums, a product and a finest one in float; the store in bfloat16 counts once, and only for Y."""
    found = tolerances(read(GEMM))
    assert found["C"] == pytest.approx(2 * 42 * F32.roundoff, rel=1e-3)
    own = BF16_BITS.roundoff + 43 * F32.roundoff
    assert found["Y"] == pytest.approx(2 * own / (1 - own), rel=1e-3)


@pytest.mark.parametrize(
    ("sum_type", "value", "expected"),
    [
        ("float", "x[i] * x[i]", 9 * F32.roundoff + F16.roundoff),
        ("float", "(float)x[i] * (float)x[i]", 10 * F32.roundoff),
        ("_Float16", "x[i] * x[i]", 10 * F16.roundoff),
        ("double", "(float)x[i] * (float)x[i]", 8 * F64.roundoff + F32.roundoff + F64.roundoff),
        ("int", "(int)x[i]", 0),
    ],
)
def test_each_operation_rounds_in_its_own_type(sum_type: str, value: str, expected: float) -> None:
    text = f"void f({sum_type} y[restrict 1], const _Float16 x[restrict 8])\n{{\n#pragma scop\n"
    text += f"    for (int i = 0; i < 8; i++)\n        y[0] += {value};\n#pragma endscop\n}}\n"
    assert tolerances(read(text))["y"] == pytest.approx(2 * expected / (1 - expected), rel=1e-6)


def test_what_is_made_of_itself_is_rounded_again() -> None:
    text = """void f(float A[restrict 9], float B[restrict 9], float t[restrict 9])
{
#pragma scop
    for (int s = 0; s < 20; s++) {
        for (int i = 0; i < 9; i++) B[i] = A[i] * 0.5f;
        for (int i = 0; i < 9; i++) A[i] = B[i];
        for (int i = 0; i < 9; i++) t[i] = 3.0f * 2.0f;
    }
#pragma endscop
}
"""
    found = tolerances(read(text))
    assert found["A"] == pytest.approx(2 * 21 * F32.roundoff, rel=1e-3)
    assert found["t"] == pytest.approx(2 * 2 * F32.roundoff, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (("", ""), Status.VERIFIED),
        (("k < 40; k++", "k < 39; k++"), Status.WRONG),
        (("C[i][j] * polydl_to_float(alpha)", "C[i][j] * polydl_to_float(alpha) * 1.02f"), Status.WRONG),
        (("for (int k = 0; k < 40; k++)", "for (int k = 39; k >= 0; k--)"), Status.VERIFIED),
    ],
)
def test_candidates_in_bfloat16(change: tuple[str, str], status: Status) -> None:
    found = candidate(read(GEMM), change)
    assert (found.status, found.message != "") == (status, True)
    if status is Status.VERIFIED:
        assert set(found.max_error) == {"C", "Y"}


def test_a_store_that_cuts_off_is_found() -> None:
    cut = "(polydl_bf16){ (uint16_t)(polydl_to_bits(C[i][j] * polydl_to_float(alpha)) >> 16) }"
    """By integer-valued inputs, whose sums are exact: a bound for reals lets the neighbour of each bfloat16 pass."""
    text = "#include <string.h>\n" + GEMM.replace("40", "300").replace(
        "void f(",
        "static uint32_t polydl_to_bits(float x) { uint32_t b; memcpy(&b, &x, 4); return b; }\nvoid f(",
    )
    found = candidate(read(text), ("polydl_to_bf16(C[i][j] * polydl_to_float(alpha))", cut))
    assert found.status is Status.WRONG
    assert found.worst is not None
    assert found.worst.array == "Y"


@pytest.mark.parametrize("name", ["bf16", "half", "requantised"])
def test_optimize_measures(name: str, tmp_path: Path) -> None:
    programs = {
        "bf16": GEMM,
        "half": GEMM.replace("polydl_bf16", "_Float16").replace("polydl_to_float", "").replace("polydl_to_bf16", ""),
        "requantised": """#include <math.h>
#include <stdint.h>
void f(uint8_t Y[restrict 8][16], int32_t C[restrict 8][16], const uint8_t A[restrict 8][40],
       const int8_t B[restrict 40][16], int32_t za, float scale)
{
#pragma scop
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 16; j++)
            for (int k = 0; k < 40; k++)
                C[i][j] += (A[i][k] - za) * B[k][j];
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 16; j++)
            Y[i][j] = (uint8_t)fminf(fmaxf(nearbyintf((float)C[i][j] * scale), 0.0f), 255.0f);
#pragma endscop
}
""",
    }
    (tmp_path / "in.c").write_text(programs[name])
    done = polydl.optimize(tmp_path / "in.c", tmp_path / "out.c", space="small", top_k=3, threads=2)
    (only,) = done.scops
    assert only.report is not None
    assert {m.status for m in only.report.measurements} == {Status.VERIFIED}
