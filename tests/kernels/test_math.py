"""The vector functions against libm in double, over the whole range of floats, for every kind of vector."""

from __future__ import annotations

import ctypes
import math
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from polydl.kernels.microkernel import isa_prologue
from polydl.kernels.vector_text import SHORT_ULPS, math_prologue, own_prologues
from polydl.model.expr import Call, Load
from polydl.model.functions import FUNCTIONS
from polydl.model.types import F32, ElementType
from tests.compiling import run_compiler

DRIVER = Path(__file__).with_name("math_driver.c")
TARGETS = {"avx512": ["-mavx512f", "-mavx512dq", "-mfma"], "avx2": ["-mavx2", "-mfma"], "generic": []}
VECTORS = {row: row.vector for row in FUNCTIONS if row.vector is not None and row.arity == 1}
BOUNDS = {
    **{vector.name: vector.ulps for vector in VECTORS.values()},
    **{f"{vector.name}_short": SHORT_ULPS for vector in VECTORS.values() if vector.short},
    **{f"{vector.name}_plus_one": 3.0 for vector in VECTORS.values() if vector.plus_one},
    **{f"{vector.name}_plus_one_short": SHORT_ULPS for vector in VECTORS.values() if vector.plus_one},
}
"""Largest errors allowed, in units in the last place."""
EVERY = 1 << 32
SAMPLE = 4_000_037
"""Floats tried of 2^32: a step that shares no factor with it, so that every exponent and sign has its share."""


def prologues(element: ElementType) -> str:
    """All vector functions, of templates of their own too."""
    called = [Call(row.of(element) or "", (Load(0),), element) for row in FUNCTIONS]
    return math_prologue(element) + "".join(own_prologues(called, element, fast=False))


def supported(target: str) -> bool:
    words = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    needed = {"avx512": {"avx512f", "avx512dq"}, "avx2": {"avx2", "fma"}, "generic": set[str]()}[target]
    return needed <= set(words)


@pytest.fixture(scope="module", params=list(TARGETS))
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if not supported(request.param):
        pytest.skip(f"this processor has no {request.param}")
    folder = tmp_path_factory.mktemp(request.param)
    source, built = folder / "math.c", folder / "math.so"
    source.write_text(isa_prologue(F32) + prologues(F32) + DRIVER.read_text())
    command = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", *TARGETS[request.param], "-shared", "-fPIC"]
    run_compiler([*command, "-o", str(built), str(source), "-lm"])
    return ctypes.CDLL(str(built))


def worst(library: ctypes.CDLL, name: str, start: int, count: int, step: int) -> tuple[float, float]:
    """(largest error in ulps, where)"""
    scan = getattr(library, f"scan_{name}")
    scan.restype = ctypes.c_double
    scan.argtypes = [ctypes.c_uint64] * 3 + [ctypes.POINTER(ctypes.c_uint32)]
    where = ctypes.c_uint32()
    error = scan(start, count, step, ctypes.byref(where))
    return error, struct.unpack("<f", struct.pack("<I", where.value))[0]


@pytest.mark.parametrize("name", list(BOUNDS))
def test_error_bounds(library: ctypes.CDLL, name: str) -> None:
    error, where = worst(library, name, 0, SAMPLE // 16 * 16, EVERY // SAMPLE | 1)
    assert error <= BOUNDS[name], f"{name}({where!r}) is {error:.2f} ulps off"


@pytest.mark.hypothesis  # so that `make fuzz` selects it: some minutes a function
@pytest.mark.parametrize("name", list(BOUNDS))
def test_every_float(library: ctypes.CDLL, name: str) -> None:
    if settings.default is not settings.get_profile("fuzz"):
        pytest.skip("all 2^32 floats are tried under the fuzz profile only")
    error, where = worst(library, name, 0, EVERY, 1)
    assert error <= BOUNDS[name], f"{name}({where!r}) is {error:.2f} ulps off"


@pytest.mark.parametrize("name", list(BOUNDS))
def test_special_values(library: ctypes.CDLL, name: str) -> None:
    """Zeros, the smallest and largest denormals and normals, infinities, NaNs and what is beside them."""
    edges = [
        0,
        1,
        0x007FFFFF,
        0x00800000,
        0x3F800000,
        0x42B17218,
        0x42CFF1B5,
        0x3F400000,
        0x41131A00,
        0x4120E148,
        0x7F7FFFFF,
        0x7F800000,
        0x7FC00000,
    ]
    for edge in edges:
        for sign in (0, 0x80000000):
            start = max((edge | sign) - 8, 0)
            error, where = worst(library, name, start, 16, 1)
            assert error <= BOUNDS[name], f"{name}({where!r}) is {error:.2f} ulps off"


@pytest.mark.parametrize("name", [name for name in BOUNDS if BOUNDS[name] > 0.5])
def test_where_the_action_is(library: ctypes.CDLL, name: str) -> None:
    """Dense around one, where a sample of all floats has few."""
    for low in (0x3B000000, 0xBB000000):  # +-2^-9 to +-128
        count = 1 << 20
        error, where = worst(library, name, low, count, (0x08000000 - 1) // count)
        assert error <= BOUNDS[name], f"{name}({where!r}) is {error:.2f} ulps off"


@pytest.mark.parametrize(("name", "first"), [("erf", 4.0), ("tanh", 10.0)])
def test_one_from_where_it_rounds_to_one(library: ctypes.CDLL, name: str, first: float) -> None:
    (start,) = struct.unpack("<I", struct.pack("<f", first))
    count = 1 << 20
    error, where = worst(library, name, start, count, (0x7F800000 - start) // count)
    assert error < 0.5, f"{name}({where!r}) is {error:.2f} ulps off"
    assert worst(library, name, 0x7F800000, 16, 0)[0] == 0  # infinite


@pytest.mark.parametrize("name", ["fmax", "fmin"])
def test_extremes_prefer_numbers_to_nan(library: ctypes.CDLL, name: str) -> None:
    lanes = library.lanes()
    values = [math.nan, math.inf, -math.inf, 1.5, -2.0, 0.0]
    for x in values:
        for y in values:
            a, b, out = (np.full(lanes, v, dtype=np.float32) for v in (x, y, 0.0))
            getattr(library, f"apply_{name}")(*(v.ctypes.data_as(ctypes.c_void_p) for v in (a, b, out)))
            want = getattr(np, name)(a, b)
            assert np.array_equal(out, want, equal_nan=True), (x, y)


@pytest.mark.parametrize("start", [0, 1 << 40])
def test_powers(library: ctypes.CDLL, start: int) -> None:
    """Pairs of any bits, and pairs whose power is a number, half of these with bases near 1."""
    where = (ctypes.c_float * 2)()
    library.scan_pow.restype = ctypes.c_double
    error = library.scan_pow(ctypes.c_uint64(start), ctypes.c_uint64(1 << 20), where)
    (bound,) = (row.vector.ulps for row in FUNCTIONS if row.vector is not None and row.vector.name == "pow")
    assert error <= bound, f"pow({where[0]!r}, {where[1]!r}) is {error:.2f} ulps off"


def test_special_powers(library: ctypes.CDLL) -> None:
    lanes = library.lanes()
    sizes = [0.0, 1.0, math.inf, 2.0, 3.0, 0.5, 1e-45, 3e38]
    values = [math.nan, *sizes, *(-one for one in sizes)]
    pairs = [(a, b) for a in values for b in values]
    pairs += [(1.0, 1.0)] * (-len(pairs) % lanes)
    x, y = (np.array(v, dtype=np.float32) for v in zip(*pairs, strict=True))
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    for at in range(0, len(x), lanes):
        a, b, out = x[at : at + lanes].copy(), y[at : at + lanes].copy(), np.zeros(lanes, np.float32)
        library.apply_pow(*(v.ctypes.data_as(ctypes.c_void_p) for v in (a, b, out)))
        exact = want[at : at + lanes]
        assert np.array_equal(out, exact, equal_nan=True), (a, b, out, exact)
        zero = exact == 0
        assert np.array_equal(np.signbit(out[zero]), np.signbit(exact[zero])), (a, b)
