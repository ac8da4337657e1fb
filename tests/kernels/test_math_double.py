"""The vector functions of doubles against libm in long double, for every kind of vector."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

import pytest

from polydl.kernels.microkernel import isa_prologue
from polydl.model.types import F64
from tests.compiling import run_compiler
from tests.kernels.test_math import TARGETS, VECTORS, prologues, supported

DRIVER = Path(__file__).with_name("math_driver_double.c")
BOUNDS = {vector.name: vector.ulps_double for vector in VECTORS.values() if vector.ulps_double is not None}
ERFC = (0.75, 26.543, 27.226)
"""Where erfc changes its polynomial, and its results become denormal and zero."""
COUNT = 1 << 17
STEP = ((1 << 64) // COUNT) | 1
"""Through all bit patterns: every exponent and sign has its share."""


@pytest.fixture(scope="module", params=list(TARGETS))
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if not supported(request.param):
        pytest.skip(f"this processor has no {request.param}")
    folder = tmp_path_factory.mktemp(request.param)
    source, built = folder / "math.c", folder / "math.so"
    source.write_text(isa_prologue(F64) + prologues(F64) + DRIVER.read_text())
    command = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", *TARGETS[request.param], "-shared", "-fPIC"]
    run_compiler([*command, "-o", str(built), str(source), "-lm"])
    return ctypes.CDLL(str(built))


def bits(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def worst(library: ctypes.CDLL, name: str, start: int, count: int, step: int) -> tuple[float, float]:
    """(largest error in ulps, where)"""
    scan = getattr(library, f"scan_{name}")
    scan.restype = ctypes.c_double
    scan.argtypes = [ctypes.c_uint64] * 3 + [ctypes.POINTER(ctypes.c_double)]
    where = ctypes.c_double()
    return scan(start, count, step, ctypes.byref(where)), where.value


@pytest.mark.parametrize("name", list(BOUNDS))
def test_error_bounds(library: ctypes.CDLL, name: str) -> None:
    error, where = worst(library, name, 0, COUNT, STEP)
    assert error <= BOUNDS[name], f"{name}({where!r}) is {error:.2f} ulps off"


@pytest.mark.parametrize("name", list(BOUNDS))
@pytest.mark.parametrize(("low", "high"), [(2.0**-30, 0.3), (0.3, 3.0), (3.0, 30.0), (30.0, 800.0)])
def test_where_the_action_is(library: ctypes.CDLL, name: str, low: float, high: float) -> None:
    for sign in (1, -1):
        first, last = bits(sign * low), bits(sign * high)
        error, where = worst(library, name, first, COUNT, (last - first) // COUNT)
        assert error <= BOUNDS[name], f"{name}({where!r}) is {error:.2f} ulps off"


@pytest.mark.parametrize("name", list(BOUNDS))
def test_special_values(library: ctypes.CDLL, name: str) -> None:
    """Around zeros, denormals, normals, where the result overflows or becomes denormal or zero, infinities, NaNs."""
    for value in (
        0.0,
        5e-324,
        2.2250738585072014e-308,
        709.782712893384,
        745.1332191019412,
        708.3964185322641,
        20.0,
        0.75,
        26.543,
        27.226,
    ):
        for at in (bits(value), bits(-value), 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000):
            error, where = worst(library, name, max(at - 64, 0), 128, 1)
            assert error <= BOUNDS[name], f"{name}({where!r}) is {error:.2f} ulps off"
