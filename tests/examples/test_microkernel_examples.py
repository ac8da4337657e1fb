"""The examples with microkernels of their own, optimised without running, built, linked and executed."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import polydl
from tests.compiling import run_compiler

EXAMPLES = Path(__file__).parents[2] / "examples"
CC = ("cc", "-O2", "-march=native", "-fopenmp", "-fPIC")
XSMM = ("-lxsmm", "-lxsmmnoblas", "-lm", "-lpthread", "-ldl")


def has_libxsmm() -> bool:
    """Header check: does a program that includes and links LIBXSMM build?"""
    text = "#include <libxsmm.h>\nint main(void) { libxsmm_init(); return 0; }\n"
    done = run_compiler(["cc", "-x", "c", "-", "-o", "/dev/null", *XSMM], text=text, check=False)
    return done.returncode == 0


def run_output(example: str, kernel: str, libraries: tuple[str, ...], size: int, folder: Path) -> None:
    defines = {name: str(size) for name in "MNK"}
    output = folder / example
    result = polydl.optimize(EXAMPLES / example, output, run=False, defines=defines, threads=2)
    assert result.scops[0].chosen is not None
    assert "#pragma omp parallel" in output.read_text()
    micro = folder / "micro.o"
    run_compiler([*CC, "-c", str(EXAMPLES / kernel), "-o", str(micro)])
    library = folder / "both.so"
    macros = [f"-D{name}={value}" for name, value in defines.items()]
    run_compiler([*CC, "-shared", "-o", str(library), *macros, str(output), str(micro), *libraries])
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-3, 4, (size, size)).astype(np.float32) for _ in range(3))
    expected = c + a @ b
    ctypes.CDLL(str(library)).matmul(*(x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, c)))
    assert np.array_equal(c, expected)


@pytest.mark.parametrize("example", ["matmul_call_form.c", "matmul_loop_form.c"])
def test_own_microkernel(example: str, tmp_path: Path) -> None:
    run_output(example, "gemm_micro.c", (), 96, tmp_path)


def test_libxsmm(tmp_path: Path) -> None:
    if not has_libxsmm():
        pytest.skip("LIBXSMM is not installed (Debian: libxsmm-dev)")
    run_output("matmul_libxsmm.c", "xsmm_micro.c", XSMM, 256, tmp_path)


def test_the_loop_form_is_plain_c_for_other_compilers(tmp_path: Path) -> None:
    library = tmp_path / "plain.so"
    run_compiler([*CC, "-Wno-unknown-pragmas", "-shared", "-o", str(library), str(EXAMPLES / "matmul_loop_form.c")])
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(-3, 4, (256, 256)).astype(np.float32) for _ in range(3))
    expected = c + a @ b
    ctypes.CDLL(str(library)).matmul(*(x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, c)))
    assert np.array_equal(c, expected)
