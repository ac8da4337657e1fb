"""Products of bfloat16s that a program makes floats of by their bits."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

import polydl
from polydl import pipeline
from polydl.measure.input_data import describe_buffers, real_inputs
from polydl.model.contraction import Contraction, contraction
from polydl.model.types import BF16, BF16_WORDS, U16
from polydl.rewrite.canonical import canonical
from polydl.target.products import DOT_BF16, inner_product
from tests.efforts import FEWEST

HEAD = """\
#include <stdint.h>
#include <string.h>
static inline float widened(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
void mm(int m, int n, int k, const uint16_t A[restrict m][k], const uint16_t B[restrict k][n], float C[restrict m][n])
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int l = 0; l < k; l++) {
"""
TAIL = """
            }
            C[i][j] = sum;
        }
}
"""
SPELLINGS = {
    "functions": "sum += widened(A[i][l]) * widened(B[l][j]);",
    "scalars": "uint32_t a = (uint32_t)A[i][l] << 16, b = (uint32_t)B[l][j] << 16; float x, y; memcpy(&x, &a, 4);"
    " memcpy(&y, &b, 4); sum += x * y;",
    "a scalar each": "float x = widened(A[i][l]), y = widened(B[l][j]); sum += x * y;",
    "union": "union { uint32_t u; float f; } a, b; a.u = (uint32_t)A[i][l] << 16; b.u = (uint32_t)B[l][j] << 16;"
    " sum += a.f * b.f;",
    "scaled": "sum += 2.0f * widened(A[i][l]) * widened(B[l][j]);",
}
OTHERS = {
    "integers": "sum += A[i][l] * B[l][j];",
    "one bit less": "uint32_t a = (uint32_t)A[i][l] << 15; float x; memcpy(&x, &a, 4); sum += x * widened(B[l][j]);",
    "more bits": "uint32_t a = (uint32_t)A[i][l] << 16 | 1; float x; memcpy(&x, &a, 4); sum += x * widened(B[l][j]);",
}


def found(body: str) -> list[Contraction]:
    (scop,) = pipeline.load(HEAD + body + TAIL, sizes={"m": 40, "n": 50, "k": 60}).scops
    program = canonical(scop).scop
    return [one for s in program.statements if (one := contraction(program, s)) is not None]


@pytest.mark.parametrize("name", SPELLINGS)
def test_they_are_products_of_bf16(name: str) -> None:
    (one,) = found(SPELLINGS[name])
    assert one.left.element is one.right.element is BF16_WORDS
    assert inner_product(one) is DOT_BF16


@pytest.mark.parametrize("name", OTHERS)
def test_other_bits_are_not(name: str) -> None:
    assert all(BF16_WORDS not in (one.left.element, one.right.element) for one in found(OTHERS[name]))


def test_a_factor_of_another_type_is_taken_as_a_float() -> None:
    body = HEAD.replace("const uint16_t B", "const float B") + "sum += widened(A[i][l]) * B[l][j];" + TAIL
    (scop,) = pipeline.load(body, sizes={"m": 40, "n": 50, "k": 60}).scops
    program = canonical(scop).scop
    (one,) = [c for s in program.statements if (c := contraction(program, s)) is not None]
    assert {one.left.element.name, one.right.element.name} == {"bf16", "f32"}


def test_the_row_stays_itself_in_other_processes() -> None:
    assert pickle.loads(pickle.dumps(BF16_WORDS)) is BF16_WORDS
    assert pickle.loads(pickle.dumps(U16)) is U16 and pickle.loads(pickle.dumps(BF16)) is BF16


def widened(words: npt.NDArray[np.uint16]) -> npt.NDArray[np.float64]:
    return (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


@pytest.mark.parametrize("isa", ["avx2", "generic"])
def test_the_output_computes_the_same_at_all_sizes(isa: str) -> None:
    kernel = polydl.compile(
        HEAD + SPELLINGS["functions"] + TAIL,
        {"m": 64, "n": 96, "k": 80}, tune=False, threads=2, isa=isa, effort=FEWEST, space="small",
    )  # fmt: skip
    rng = np.random.default_rng(0)
    for m, n, k in ((64, 96, 80), (1, 1, 1), (33, 65, 17), (90, 3, 7)):
        a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((m, k), (k, n)))
        words = [(one.view(np.uint32) >> 16).astype(np.uint16) for one in (a, b)]
        result = np.full((m, n), np.nan, np.float32)
        kernel(*words, result, m=m, n=n, k=k)
        assert (result == widened(words[0]) @ widened(words[1])).all()


def test_invented_data_are_such_numbers() -> None:
    def made(body: str) -> Sequence[npt.NDArray[np.generic]]:
        (scop,) = pipeline.load(HEAD + body + TAIL, sizes={"m": 40, "n": 50, "k": 60}).scops
        rows = [[array.element.bytes, 0, 1] for array in scop.arrays.values() if not array.is_scalar]
        buffers = describe_buffers(scop, rows)
        inputs = real_inputs(buffers, 0, 1.0, 2.0)
        return [values for buffer, values in zip(buffers, inputs, strict=True) if buffer.array.name in ("A", "B")]

    for values in made(SPELLINGS["functions"]):
        assert values.dtype == np.uint16
        assert ((widened(values.astype(np.uint16)) >= 1) & (widened(values.astype(np.uint16)) <= 2)).all()
    for values in made("sum += A[i][l] * widened(B[l][j]) + widened(A[i][l]);"):
        assert widened(values.astype(np.uint16)).min() >= 1


def test_an_array_may_hold_integers_for_other_loops() -> None:
    """Instructions for pairs of bfloat16 take denormal numbers for zero: small integers would show a difference."""
    text = (HEAD + SPELLINGS["functions"] + TAIL).replace(
        "float C[restrict m][n])", "float C[restrict m][n], int D[m])"
    )
    source = text.rstrip().removesuffix("}") + "    for (int i = 0; i < m; i++)\n        D[i] = A[i][0];\n}\n"
    kernel = polydl.compile(source, {"m": 40, "n": 40, "k": 40}, threads=2, effort=FEWEST, space="small")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (40, 40)).astype(np.float32) for _ in range(2))
    words = [(one.view(np.uint32) >> 16).astype(np.uint16) for one in (a, b)]
    result, first = np.full((40, 40), np.nan, np.float32), np.zeros(40, np.int32)
    kernel(*words, result, first)
    assert (result == a @ b).all() and (first == words[0][:, 0]).all()
