"""The code for other processors than x86: microkernels and whole outputs cross-compiled for 64-bit ARM, where the
portable vectors become NEON, and run in an emulator."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from polydl import pipeline
from polydl.base import resources
from polydl.kernels import microkernel
from polydl.kernels.microkernel import MicrokernelSpec, Reduction
from polydl.model.types import F32, F64
from polydl.target.isa import ISAS, Isa
from tests.compiling import run_compiler, run_program
from tests.kernels import contraction_program
from tests.kernels.contraction_program import Call
from tests.kernels.test_products import kernels_and_twins

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
MISSING = [tool for tool in (COMPILER, EMULATOR) if shutil.which(tool) is None]
pytestmark = [
    pytest.mark.few_sizes,
    pytest.mark.skipif(
        bool(MISSING),
        reason=f"no {' and no '.join(MISSING)}: Debian's gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user",
    ),
]
FLAGS = ("-Wall", "-Wextra", "-Werror", "-std=gnu11", "-static")


def _run(folder: Path, source: str, *flags: str, emulator: Sequence[str] = (EMULATOR,)) -> str:
    """What the program prints in the emulator."""
    (folder / "program.c").write_text(source)
    run_compiler([COMPILER, *FLAGS, *flags, "program.c", "-o", "program"], folder)
    ran = run_program([*emulator, folder / "program"], check=False)
    assert ran.returncode == 0, f"died with {ran.returncode} after {ran.stdout[-200:]!r} {ran.stderr[-500:]!r}"
    return ran.stdout


@pytest.mark.parametrize("seed", range(2))
def test_random_specifications_equal_their_twin(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"arm {seed}")
    specs = [contraction_program.random_spec(rng) for _ in range(5)]
    calls = [
        contraction_program.random_call(rng, index, spec, full=repeat == 0)
        for index, spec in enumerate(specs)
        for repeat in range(4)
    ]
    assert _run(tmp_path, contraction_program.program(specs, calls), "-O2") == "done\n"


def test_every_remainder(tmp_path: Path) -> None:
    spec = MicrokernelSpec(F32, 7, 24, None, 24, (Reduction(5, 1, 24),))
    calls = [Call(0, m, n, {"a_m": 5}) for m in range(8) for n in range(25)]
    assert _run(tmp_path, contraction_program.program([spec], calls), "-O3") == "done\n"


def test_vectors_are_neon(tmp_path: Path) -> None:
    """The portable path comes out as fused multiply-adds on vectors, not as scalars."""
    spec = MicrokernelSpec(F32, 4, 16, 32, 16, (Reduction(32, 1, 16),), remainders=False)
    (tmp_path / "kernel.c").write_text(contraction_program.program([spec], [Call(0, 4, 16, {})]))
    run_compiler([COMPILER, "-O3", "-S", "kernel.c", "-o", "kernel.s"], tmp_path)
    assert (tmp_path / "kernel.s").read_text().count("fmla") >= 16


@pytest.mark.parametrize("bits", [128, 256, 512])
def test_sve_is_a_row_of_any_fixed_length(bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of docs/extending.md at three lengths: float and double with every remainder, products of pairs and of
    bytes. Emulated, not timed."""
    size = bits // 8
    condition = f"defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS == {bits}"
    row = Isa(f"sve{bits}", condition, f"POLYDL_VECTOR{size}_32", size, 32, fmas=2, loads=2, latency=4, scratch=1)
    others = tuple(one for one in ISAS if one.macro != row.macro)
    monkeypatch.setattr(microkernel, "ISAS", (row, *others))
    specs = [
        MicrokernelSpec(F32, 3, 2 * size // 4, None, 2 * size // 4, (Reduction(5, 1, 2 * size // 4),)),
        MicrokernelSpec(F64, 2, 5, 6, 16, (Reduction(6, 1, 16),), beta=0),
    ]
    calls = [Call(0, m, n, {"a_m": 5}) for m in range(4) for n in range(2 * size // 4 + 1)]
    calls += [Call(1, m, n, {}) for m in range(3) for n in range(6)]
    flags = ("-O2", "-march=armv8.2-a+sve", f"-msve-vector-bits={bits}")
    lengths = [EMULATOR, "-cpu", f"max,sve{bits}=on,sve-default-vector-length={size}"]
    for source in (contraction_program.program(specs, calls), kernels_and_twins(random.Random(bits), 1)):
        assert _run(tmp_path, source, *flags, emulator=lengths) == "done\n"
        run_compiler([COMPILER, *FLAGS, *flags, "-S", "program.c", "-o", "program.s"], tmp_path)
        # Vectors of 128 bits are NEON's, too, and the compiler takes its instructions.
        assert bits == 128 or "fmla\tz" in (tmp_path / "program.s").read_text()


ARCHITECTURES = {
    "no extension": "armv8-a",
    "dot products of bytes": "armv8.2-a+dotprod",
    "mixed signs and bf16": "armv8.2-a+dotprod+i8mm+bf16",
}
INSTRUCTIONS = {"sdot": 1, "usdot": 2, "bfdot": 2}
"""And the first of the architectures that has them."""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_inner_products(architecture: str, tmp_path: Path) -> None:
    """With the instructions there are; the emulator computes what they do, bit by bit."""
    source = kernels_and_twins(random.Random(architecture), 2)
    flags = ("-O1", "-ffp-contract=off", "-Wno-psabi", "-save-temps", f"-march={ARCHITECTURES[architecture]}")
    assert _run(tmp_path, source, *flags) == "done\n"
    (text,) = (path.read_text() for path in tmp_path.glob("*.s"))
    level = list(ARCHITECTURES).index(architecture)
    for name, since in INSTRUCTIONS.items():
        assert (f"\t{name}\t" in text) == (level == since if name == "sdot" else level >= since), name


OUTPUT = """\
#include <stdio.h>
#include <stdlib.h>
#define M 37
#define N 83
#define K 129
void product(float A[restrict M][K], float B[restrict K][N], float C[restrict M][N])
{
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            C[i][j] = 0;
            for (int k = 0; k < K; k++)
                C[i][j] += A[i][k] * B[k][j];
        }
#pragma endscop
}
int main(void)
{
    static float a[M][K], b[K][N], c[M][N];
    int wrong = 0;
    for (int k = 0; k < K; k++) {
        for (int i = 0; i < M; i++) a[i][k] = (float)((5 * i + k) % 7 - 3);
        for (int j = 0; j < N; j++) b[k][j] = (float)((3 * k + j) % 5 - 2);
    }
    product(a, b, c);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0;
            for (int k = 0; k < K; k++) sum += a[i][k] * b[k][j];
            wrong += c[i][j] != sum;
        }
    printf("%d wrong\\n", wrong);
    return 0;
}
"""


@pytest.mark.parametrize(
    ("loops", "blocks"),
    [
        ("", ""),
        ("S1: AB@hilbert", "mk=4x16:c;pack=A,B"),
        ("S1: C{R:3+}ab", "c=43;mk=5x8:c"),
        ("S1: caBc", "c=43;mk=none"),
    ],
)
def test_whole_outputs(loops: str, blocks: str, tmp_path: Path) -> None:
    source = tmp_path / "product.c"
    source.write_text(OUTPUT)
    out = tmp_path / "out.c"
    pipeline.optimize(source, out, run=False, loops=loops, blocks=blocks, threads=3, machine="default")
    assert _run(tmp_path, out.read_text(), "-O2", "-fopenmp") == "0 wrong\n"


@pytest.mark.parametrize(
    ("left", "right", "sums", "instruction"),
    [("unsigned char", "signed char", "int", "usdot"), ("polydl_bf16", "polydl_bf16", "float", "bfdot")],
)
def test_whole_outputs_of_narrow_types(left: str, right: str, sums: str, instruction: str, tmp_path: Path) -> None:
    text = OUTPUT.replace("float A", f"{left} A").replace("float B", f"{right} B").replace("float C", f"{sums} C")
    text = text.replace(
        "static float a[M][K], b[K][N], c[M][N]",
        f"static {left} a[M][K]; static {right} b[K][N]; static {sums} c[M][N]",
    )
    if sums == "float":
        text = '#include "polydl.h"\n' + text.replace(
            "A[i][k] * B[k][j]", "polydl_to_float(A[i][k]) * polydl_to_float(B[k][j])"
        )
        text = text.replace("a[i][k] * b[k][j]", "polydl_to_float(a[i][k]) * polydl_to_float(b[k][j])")
        text = text.replace("(float)((5 * i + k) % 7 - 3)", "polydl_to_bf16((float)((5 * i + k) % 7 - 3))")
        text = text.replace("(float)((3 * k + j) % 5 - 2)", "polydl_to_bf16((float)((3 * k + j) % 5 - 2))")
    else:
        text = text.replace("(float)((5 * i + k) % 7 - 3)", "(unsigned char)(5 * i + 30 * k)")
        text = text.replace("(float)((3 * k + j) % 5 - 2)", "(signed char)(3 * k + 50 * j)").replace(
            "float sum", "int sum"
        )
    source, out = tmp_path / "product.c", tmp_path / "out.c"
    source.write_text(text)
    pipeline.optimize(source, out, run=False, threads=3, machine="graviton-3")
    flags = (f"-march={ARCHITECTURES['mixed signs and bf16']}", f"-I{resources.headers()}", "-Wno-psabi", "-save-temps")
    assert _run(tmp_path, out.read_text(), "-O2", "-fopenmp", *flags) == "0 wrong\n"
    (made,) = (path.read_text() for path in tmp_path.glob("*.s"))
    assert made.count(f"\t{instruction}\t") >= 8
