"""Features of the learned rankers in terms of the types of a product: bytes of its operands, its own peak."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import polydl
from polydl.options import Options
from polydl.rank.features import features, names
from polydl.schedule.loops import NestLoops
from polydl.target import preset

PRESET = "epyc-zen4"
MACHINE = preset(PRESET)
PROGRAM = """#include <polydl.h>
#include <stdint.h>
void f({c} C[restrict 128][128], const {a} A[restrict 128][128], const {b} B[restrict 128][128])
{{
    for (int i = 0; i < 128; i++)
        for (int j = 0; j < 128; j++)
            for (int k = 0; k < 128; k++)
                C[i][j] += {value};
}}
"""
PRODUCT = "A[i][k] * B[k][j]"
WIDENED = "polydl_to_float(A[i][k]) * polydl_to_float(B[k][j])"
TYPES = {
    "double": ("double", "double", "double", PRODUCT, 8, 0.5),
    "float": ("float", "float", "float", PRODUCT, 4, 1),
    "bf16": ("float", "polydl_bf16", "polydl_bf16", WIDENED, 2, 2),
    "int16": ("int32_t", "int16_t", "int16_t", PRODUCT, 2, 2),
    "int8": ("int32_t", "uint8_t", "int8_t", PRODUCT, 1, 4),
    "half in float": ("float", "_Float16", "_Float16", "(float)A[i][k] * (float)B[k][j]", None, 1),
}
"""Types of C, A and B, the product, bytes of an operand where it is not converted before, and how many products are
made for each of floats."""


@cache
def columns(name: str) -> tuple[dict[str, np.ndarray], list[NestLoops], np.ndarray]:
    c, a, b, value, *_ = TYPES[name]
    scop = polydl.load(PROGRAM.format(c=c, a=a, b=b, value=value)).scops[0]
    ranking = polydl.rank(scop, options=Options(machine=PRESET, threads=1))
    nest = next(nest for nest in ranking.nests if nest.contraction is not None)
    structures = [one for variant in ranking.variants for one in variant.structures if one.nest is nest][:200]
    found = features(ranking.scop, nest, structures, MACHINE, 1)
    assert found is not None
    return dict(zip(names(), found.values.T, strict=True)), structures, found.traffic_seconds


@pytest.mark.parametrize("name", list(TYPES))
def test_nothing_is_faster_than_its_peak(name: str) -> None:
    """The best of them reach a large part of it, in blocks of registers that lose little."""
    found, _, _ = columns(name)
    assert -1.0 < found["traffic.efficiency"].max() <= 0
    assert 0.9 < found["kernel.efficiency"].max() <= 1


@pytest.mark.parametrize("name", list(TYPES))
def test_the_least_time_is_that_of_the_inner_product(name: str) -> None:
    found, _, seconds = columns(name)
    least = seconds * 2 ** found["traffic.efficiency"]
    floats, _, of_floats = columns("float")
    wanted = of_floats[0] * 2 ** floats["traffic.efficiency"][0]
    ratio = wanted / least
    assert ratio == pytest.approx(TYPES[name][-1], rel=0.25), "within what the instructions' rates differ by"
    assert np.ptp(ratio) < 1e-9


@pytest.mark.parametrize("name", list(TYPES))
def test_bytes_are_those_of_the_operands(name: str) -> None:
    size = TYPES[name][4] or 4
    found, structures, _ = columns(name)
    assert (found["problem.element_bytes"] == size).all()
    in_place = np.array([s.kernel is not None and all(p.operand != "A" for p in s.packs) for s in structures])
    # A row of A, 128 elements, is as many lines from the next one as its bytes say.
    row = math.log2(1 + 128 * size / 64)
    assert in_place.any()
    assert set(np.round(found["call.A_stride"][in_place], 6)) <= {0.0, round(row, 6)}
    whole = math.log2(128 * 128 * size / MACHINE.caches[0].bytes)
    assert found["problem.A_over_L1"] == pytest.approx(whole)
