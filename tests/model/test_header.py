"""The conversions of polydl.h, compiled with and without vectors: all bfloat16, and floats of every kind."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from polydl.base.resources import header_flags
from tests.compiling import run_compiler, run_program

Bits = npt.NDArray[np.uint16]
Floats = npt.NDArray[np.float32]

LOOPS = """#include <polydl.h>
void widen(long n, float *restrict y, const polydl_bf16 *restrict x)
{ for (long i = 0; i < n; i++) y[i] = polydl_to_float(x[i]); }
void narrow(long n, polydl_bf16 *restrict y, const float *restrict x)
{ for (long i = 0; i < n; i++) y[i] = polydl_to_bf16(x[i]); }
"""


class Compiled:
    def __init__(self, folder: Path, *flags: str) -> None:
        (folder / "loops.c").write_text(LOOPS)
        command = ["cc", "-Wall", "-Wextra", "-Werror", "-pedantic", "-std=c99", *header_flags(), *flags]
        run_compiler([*command, "-shared", "-fPIC", "-o", "loops.so", "loops.c"], folder)
        self.library = ctypes.CDLL(str(folder / "loops.so"))

    def _run(self, name: str, y: npt.NDArray[np.generic], x: npt.NDArray[np.generic]) -> None:
        pointers = (ctypes.c_void_p(one.ctypes.data) for one in (y, x))
        getattr(self.library, name)(ctypes.c_long(x.size), *pointers)

    def widen(self, x: Bits) -> Floats:
        y = np.empty(x.size, np.float32)
        self._run("widen", y, x)
        return y

    def narrow(self, x: Floats) -> Bits:
        y = np.empty(x.size, np.uint16)
        self._run("narrow", y, x)
        return y


@pytest.fixture(scope="module", params=[("-O0",), ("-O3", "-march=native"), ("-O3", "-mno-avx")], ids=" ".join)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return Compiled(tmp_path_factory.mktemp("header"), *request.param)


def every_pattern() -> Bits:
    return np.arange(2**16, dtype=np.uint32).astype(np.uint16)


def special() -> Floats:
    """Floats around every bfloat16: next to it, halfway to its neighbours and next to halfway; and random bits."""
    high = np.arange(2**16, dtype=np.uint32)[:, None] << 16
    low = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    random = np.random.default_rng(5).integers(0, 2**32, 1 << 20, dtype=np.uint32)
    return np.concatenate([(high | low).ravel(), random]).view(np.float32)


def is_nan(x: Bits) -> npt.NDArray[np.bool_]:
    return (x & 0x7FFF) > 0x7F80


def test_every_bfloat16_is_the_float_of_its_bits(compiled: Compiled) -> None:
    x = every_pattern()
    assert np.array_equal(compiled.widen(x).view(np.uint32), x.astype(np.uint32) << 16)


def test_there_and_back_is_the_same_but_for_signalling_nans(compiled: Compiled) -> None:
    x = every_pattern()
    back = compiled.narrow(compiled.widen(x))
    assert np.array_equal(back, np.where(is_nan(x), x | 0x40, x))


def test_the_nearest_one_and_of_two_the_even_one(compiled: Compiled) -> None:
    """By exact arithmetic in double: both neighbours of a float, and which is nearer."""
    x = special()
    made = compiled.narrow(x)
    numbers = ~np.isnan(x)
    down = ((x.view(np.uint32) >> 16) << 16).view(np.float32)  # towards zero
    after = (down.view(np.uint32) + np.uint32(0x10000)).view(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        # What comes behind the largest one counts as 2^128.
        beyond = np.where(np.isinf(after), np.copysign(2.0**128, down.astype(np.float64)), after.astype(np.float64))
        below = np.abs(x.astype(np.float64) - down)
        above = np.abs(beyond - x.astype(np.float64))
    odd = (down.view(np.uint32) >> 16) & 1 == 1
    up = np.isfinite(x) & ((above < below) | ((above == below) & odd))
    expected = (np.where(up, after.view(np.uint32), down.view(np.uint32)) >> 16).astype(np.uint16)
    assert np.array_equal(made[numbers], expected[numbers])


def test_a_nan_stays_one_and_is_quiet(compiled: Compiled) -> None:
    x = special()
    made = compiled.narrow(x)
    assert np.array_equal(is_nan(made), np.isnan(x))
    nan = np.isnan(x)
    assert np.all(made[nan] & 0x40)
    assert np.array_equal(made[nan] >> 15, (x.view(np.uint32)[nan] >> 31).astype(np.uint16))


def test_torch_rounds_the_same(compiled: Compiled) -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional part")
    x = special()
    other = torch.from_numpy(x).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    numbers = ~np.isnan(x)
    assert np.array_equal(compiled.narrow(x)[numbers], other[numbers])
    assert np.array_equal(is_nan(other), ~numbers)


def test_ml_dtypes_rounds_the_same(compiled: Compiled) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="an optional part")
    x = special()
    with np.errstate(over="ignore", invalid="ignore"):
        other = x.astype(ml_dtypes.bfloat16).view(np.uint16)
    numbers = ~np.isnan(x)
    assert np.array_equal(compiled.narrow(x)[numbers], other[numbers])
    assert np.array_equal(is_nan(other), ~numbers)


def test_the_rounding_mode_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "mode.c").write_text("""#include <fenv.h>
#include <stdio.h>
#include <polydl.h>
int main(void)
{
    const int modes[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };
    volatile float tie = 1.00390625f; /* halfway between 1 and the next bfloat16 */
    for (int m = 0; m < 4; m++) {
        fesetround(modes[m]);
        printf("%d ", polydl_to_bf16(tie).bits == 0x3f80);
    }
    return 0;
}
""")
    run_compiler(["cc", "-O1", *header_flags(), "mode.c", "-o", "mode", "-lm"], tmp_path)
    assert run_program([str(tmp_path / "mode")]).stdout == "1 1 1 1 "
