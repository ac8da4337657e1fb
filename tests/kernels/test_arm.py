"""The code for other processors than x86: microkernels and whole outputs cross-compiled for 64-bit ARM, where the
portable vectors become NEON, and run in an emulator."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from polydl import pipeline
from polydl.base import resources
from polydl.kernels.microkernel import generate, prologues
from polydl.kernels.microkernel_spec import MicrokernelSpec, Reduction
from polydl.model.types import F32, F64, I8, I32
from polydl.target.isa import isa
from polydl.target.products import MMLA_8, Product
from tests.compiling import run_compiler, run_program
from tests.kernels import contraction_program
from tests.kernels.contraction_program import Call
from tests.kernels.test_products import kernels_and_twins
from tests.kernels.test_tiles import BLOCKS
from tests.kernels.test_tiles import kernels_and_twins as tiled_kernels
from tests.oracle.native import QUICK

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


def _assembly(folder: Path) -> str:
    """What the compiler made with -save-temps."""
    (text,) = (path.read_text() for path in folder.glob("*.s"))
    return text


@pytest.mark.parametrize("seed", range(2))
def test_random_specifications_equal_their_twin(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"arm {seed}")
    specs = [contraction_program.random_spec(rng) for _ in range(5)]
    calls = [
        contraction_program.random_call(rng, index, spec, full=repeat == 0)
        for index, spec in enumerate(specs)
        for repeat in range(4)
    ]
    assert _run(tmp_path, contraction_program.program(specs, calls), *QUICK) == "done\n"


def test_every_remainder(tmp_path: Path) -> None:
    spec = MicrokernelSpec(F32, 7, 24, None, 24, (Reduction(5, 1, 24),))
    calls = [Call(0, m, n, {"a_m": 5}) for m in range(8) for n in range(25)]
    assert _run(tmp_path, contraction_program.program([spec], calls), *QUICK) == "done\n"


def test_vectors_are_neon(tmp_path: Path) -> None:
    """The portable path comes out as fused multiply-adds on vectors, not as scalars."""
    spec = MicrokernelSpec(F32, 4, 16, 32, 16, (Reduction(32, 1, 16),), remainders=False)
    (tmp_path / "kernel.c").write_text(contraction_program.program([spec], [Call(0, 4, 16, {})]))
    run_compiler([COMPILER, "-O3", "-S", "kernel.c", "-o", "kernel.s"], tmp_path)
    assert (tmp_path / "kernel.s").read_text().count("fmla") >= 16


SCALABLE = {"sve128": "graviton-4-sve", "sve256": "graviton-3-sve", "sve512": "a64fx"}
"""The rows of long vectors, and a machine with each."""
EXTENSIONS = {"sve": ("sdot", "ld1w"), "sve+i8mm+bf16": ("usdot", "bfdot")}
"""What is compiled for, and instructions on SVE's registers that are in products for it."""


def _scalable(
    name: str, extensions: str = "sve", optimized: Sequence[str] = QUICK
) -> tuple[tuple[str, ...], Sequence[str]]:
    """Flags of the compiler for long vectors, and the emulator of a core that has them."""
    size = isa(name).vector_bytes
    flags = (*optimized, f"-march=armv8.2-a+{extensions}", *isa(name).flags)
    return flags, [EMULATOR, "-cpu", f"max,{name}=on,sve-default-vector-length={size}"]


@pytest.mark.parametrize("name", SCALABLE)
def test_kernels_for_long_vectors(name: str, tmp_path: Path) -> None:
    """float and double with every remainder and at random, products of pairs and of bytes, with the instructions there
    are for them and without. Emulated, not timed."""
    lanes, rng = isa(name).lanes(F32), random.Random(name)
    specs = [
        MicrokernelSpec(F32, 3, 2 * lanes, None, 2 * lanes, (Reduction(5, 1, 2 * lanes),), long=name),
        MicrokernelSpec(F64, 2, 5, 6, 16, (Reduction(6, 1, 16),), beta=0, long=name),
        *(replace(contraction_program.random_spec(rng), long=name) for _ in range(3)),
    ]
    calls = [Call(0, m, n, {"a_m": 5}) for m in range(4) for n in range(2 * lanes + 1)]
    calls += [Call(1, m, n, {}) for m in range(3) for n in range(6)]
    calls += [contraction_program.random_call(rng, k, specs[k], full=full) for k in (2, 3, 4) for full in (True, False)]
    flags, emulator = _scalable(name)
    assert _run(tmp_path, contraction_program.program(specs, calls), *flags, emulator=emulator) == "done\n"
    for extensions, instructions in EXTENSIONS.items():
        flags, emulator = _scalable(name, extensions)
        source = kernels_and_twins(random.Random(name), 1, name)
        flags = (*flags, "-ffp-contract=off", "-Wno-psabi", "-save-temps")
        assert _run(tmp_path, source, *flags, emulator=emulator) == "done\n"
        made = _assembly(tmp_path)
        for instruction in instructions:
            assert re.search(rf"\t{instruction}\t\{{?z", made), instruction


def test_long_vectors_are_in_outputs_for_machines_with_them_only(tmp_path: Path) -> None:
    source = tmp_path / "product.c"
    source.write_text(OUTPUT)
    for machine in ("graviton-3", "epyc-zen5"):
        pipeline.optimize(source, tmp_path / "out.c", run=False, machine=machine)
        assert "SVE" not in (tmp_path / "out.c").read_text()


ROWS = """
void rows(int n, float x[restrict n], const float y[restrict n], double d[restrict n], const signed char c[restrict n],
          short s[restrict n], short t[restrict 40][40], float *sum)
{
#pragma scop
    for (int i = 0; i < n; i++) x[i] = x[i] * y[i] + 3.0f;
    for (int i = 0; i < n; i++) d[i] = d[i] > 2.0 ? d[i] - y[i] : 1.0;
    for (int i = 0; i < n; i++) s[i] = c[i] > s[i] ? c[i] : s[i];
    for (int i = 0; i < n; i++) *sum += x[i];
    for (int i = 0; i < 40; i++)
        for (int j = 0; j < 40; j++) t[i][j] = c[0] + u[j][i];
#pragma endscop
}
"""
ROWS_MAIN = """
#include <stdio.h>
#include <string.h>
#define MOST 100000
static short u[40][40];
%(original)s
%(made)s
int main(void)
{
    int wrong = 0;
    for (int k = 1; k <= 140; k++) {
        const int n = k < 140 ? k : MOST;
        static float x[2][MOST], y[MOST], sum[2];
        static double d[2][MOST];
        static signed char c[MOST];
        static short s[2][MOST], t[2][40][40];
        sum[0] = sum[1] = 0;
        for (int i = 0; i < n; i++) {
            x[0][i] = x[1][i] = (float)((7 * i + n) %% 13 - 6), y[i] = (float)(i %% 5 - 2);
            c[i] = (signed char)(37 * i);
            d[0][i] = d[1][i] = (i + n) %% 9 - 4, s[0][i] = s[1][i] = (short)(50 * ((i + n) %% 7) - 120);
        }
        for (int i = 0; i < 1600; i++) u[i / 40][i %% 40] = (short)(i * n);
        original(n, x[0], y, d[0], c, s[0], t[0], &sum[0]);
        rows(n, x[1], y, d[1], c, s[1], t[1], &sum[1]);
        const size_t all = (size_t)n;
        wrong += memcmp(x[0], x[1], 4 * all) || memcmp(d[0], d[1], 8 * all) || memcmp(s[0], s[1], 2 * all);
        wrong += memcmp(t[0], t[1], sizeof t[0]) || sum[0] != sum[1];
    }
    printf("%%d wrong\\n", wrong);
    return 0;
}
"""


@pytest.mark.parametrize("name", SCALABLE)
def test_rows_of_long_vectors(name: str, tmp_path: Path) -> None:
    """Rows of floats, doubles and short integers, sums, squares that are transposed: every remainder."""
    source, out = tmp_path / "rows.c", tmp_path / "out.c"
    source.write_text("extern short u[40][40];\n" + ROWS)
    pipeline.optimize(source, out, run=False, sizes={"n": 100_000}, threads=2, machine=SCALABLE[name])
    made = out.read_text()
    assert f"POLYDL_SVE{name[3:]} 1" in made
    original = ROWS.replace("void rows(", "static void original(")
    flags, emulator = _scalable(name)
    text = ROWS_MAIN % {"original": original, "made": made.replace("extern short u", "static short u")}
    assert _run(tmp_path, text, "-fopenmp", "-Wno-unknown-pragmas", *flags, emulator=emulator) == "0 wrong\n"


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
    flags = (*QUICK, "-ffp-contract=off", "-Wno-psabi", "-save-temps", f"-march={ARCHITECTURES[architecture]}")
    assert _run(tmp_path, source, *flags) == "done\n"
    (text,) = (path.read_text() for path in tmp_path.glob("*.s"))
    level = list(ARCHITECTURES).index(architecture)
    for name, since in INSTRUCTIONS.items():
        assert (f"\t{name}\t" in text) == (level == since if name == "sdot" else level >= since), name


MMLA = {
    "bfmmla": "float32x4_t z, bfloat16x8_t x, bfloat16x8_t y|vbfmmlaq_f32",
    "smmla": "int32x4_t z, int8x16_t x, int8x16_t y|vmmlaq_s32",
    "ummla": "uint32x4_t z, uint8x16_t x, uint8x16_t y|vmmlaq_u32",
    "usmmla": "int32x4_t z, uint8x16_t x, int8x16_t y|vusmmlaq_s32",
}
"""Instructions on blocks, with the C of their operands and their intrinsic."""
SAME = """
#include <arm_neon.h>
#include <stdio.h>
#include "polydl_emulate.h"
static uint64_t state = 88172645463325252u;
static uint32_t bits(void)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 16);
}
static const uint16_t special[] = {
    0, 0x8000, 1, 0x8001, 0x7f, 0x80, 0x8080, 0x7f7f, 0x7f80, 0xff80,
    0x7fc0, 0xffc1, 0x7f81, 0x3f80, 0xbf80, 0xff7f, 0xffff, 0x0100, 0x2000, 0xa000,
};
static uint32_t word(int i)
{
    const uint32_t x = bits();
    switch (i % 4) {
    case 0: return x;
    case 1: return special[x % 20] | (uint32_t)special[(x >> 8) % 20] << 16;
    case 2: return (x & 0x87ff87ff) | 0x20002000; /* products that are hardly normal */
    default: return (x & 0x80ff80ff) | 0x3f003f00;
    }
}
FUNCTIONS
int main(void)
{
    long wrong = 0, unequal = 0;
    for (int i = 0; i < 60000; i++) {
        uint32_t x[4], y[4], z[4], w[4], made[4];
        for (int k = 0; k < 4; k++) x[k] = word(i), y[k] = word(i / 4), z[k] = i % 3 ? word(3) : word(i / 16);
CHECKS
    }
    printf("%ld wrong of %d\\n", wrong, unequal > 100000);
    return 0;
}
"""


def test_the_emulation_of_blocks_is_bit_by_bit(tmp_path: Path) -> None:
    """SMMLA and its like, and BFMMLA on numbers of all kinds: denormal ones, infinities, NaNs, sums that are rounded.
    Each is the instruction in the emulator."""
    functions, checks = "", ""
    for name, told in MMLA.items():
        operands, intrinsic = told.split("|")
        z, x, y = (one.split()[0] for one in operands.split(", "))
        checks += f"""
        memcpy(w, z, 16);
        polydl_emulated_{name}(w, x, y);
        {{
            {z} a; {x} b; {y} c;
            memcpy(&a, z, 16), memcpy(&b, x, 16), memcpy(&c, y, 16);
            a = {intrinsic}(a, b, c);
            memcpy(made, &a, 16);
        }}
        for (int k = 0; k < 4; k++) wrong += w[k] != made[k], unequal += w[k] != z[k];"""
    source = SAME.replace("FUNCTIONS", functions).replace("CHECKS", checks)
    flags = ("-O2", "-ffp-contract=off", "-march=armv8.2-a+i8mm+bf16", f"-I{resources.headers()}")
    assert _run(tmp_path, source, *flags) == "0 wrong of 1\n"


@pytest.mark.parametrize("product", BLOCKS, ids=lambda product: product.name)
def test_kernels_of_blocks(product: Product, tmp_path: Path) -> None:
    """Copies, and rows of A as they are, of any number of steps; with the instruction, and with the vector code behind
    it where the compiler has it not."""
    source = tiled_kernels(random.Random(product.name), 4, [product])
    wanted = product.instruction.removesuffix("_turned")
    for architecture, there in (("armv8.2-a+i8mm+bf16", True), ("armv8-a", False), ("armv8.2-a+dotprod", False)):
        flags = (*QUICK, "-ffp-contract=off", "-Wno-psabi", "-save-temps", f"-march={architecture}")
        assert _run(tmp_path, source, *flags) == "done\n"
        made = _assembly(tmp_path)
        assert bool(re.search(rf"\t{wanted}\tv", made)) == there


def test_a_block_stays_in_registers(tmp_path: Path) -> None:
    """10 x 8 sums: 20 products, five loads of A, four of B and four shuffles in a step, and nothing is spilled."""
    reductions = (Reduction(64, 20, 16), Reduction(2, 1, 8))
    spec = MicrokernelSpec(I32, 10, 8, 2, 8, reductions, remainders=False, product=MMLA_8[I8, I8])
    made = generate(spec)
    text = (
        "".join(prologues(spec))
        + made.text
        + f"void f({made.signature}) {{ {made.name}({', '.join(made.parameters)}); }}\n"
    )
    (tmp_path / "f.c").write_text(text)
    run_compiler([COMPILER, *FLAGS, "-O2", "-march=armv8.2-a+i8mm", "-Wno-psabi", "-S", "f.c"], tmp_path)
    lines = (tmp_path / "f.s").read_text().splitlines()
    at = [number for number, line in enumerate(lines) if "\tsmmla\t" in line]
    assert len(at) == 20
    inside = lines[at[0] : at[-1]]
    assert len([line for line in lines if re.match(r"\tzip[12]\tv\d+\.4s", line)]) == 4
    assert not any("[sp" in line and line.startswith(("\tstr\tq", "\tldr\tq")) for line in inside)


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
    assert _run(tmp_path, out.read_text(), *QUICK, "-fopenmp") == "0 wrong\n"


@pytest.mark.parametrize("name", SCALABLE)
@pytest.mark.parametrize("element", ["float", "double"])
def test_whole_outputs_for_long_vectors(name: str, element: str, tmp_path: Path) -> None:
    """With their instructions, and, by a compiler that is not told of their length, without."""
    source, out = tmp_path / "product.c", tmp_path / "out.c"
    source.write_text(OUTPUT.replace("float", element))
    pipeline.optimize(source, out, run=False, threads=3, machine=SCALABLE[name])
    flags, emulator = _scalable(name, optimized=("-O2",))  # which makes FMAs of products and sums
    assert _run(tmp_path, out.read_text(), "-fopenmp", "-save-temps", *flags, emulator=emulator) == "0 wrong\n"
    # Vectors of 128 bits are NEON's, too, and the compiler takes its instructions but for predicates.
    wanted = r"\tfml[as]\tz" if name != "sve128" else r"\tld1[wd]\t\{?z"
    assert re.search(wanted, _assembly(tmp_path))
    assert _run(tmp_path, out.read_text(), "-fopenmp", *QUICK) == "0 wrong\n"


NARROW = {
    "us": ("unsigned char", "signed char", "int"),
    "su": ("signed char", "unsigned char", "int"),
    "s": ("signed char", "signed char", "int"),
    "u": ("unsigned char", "unsigned char", "int"),
    "bf": ("polydl_bf16", "polydl_bf16", "float"),
}
"""Types of the factors and of their sum."""


@pytest.mark.parametrize(
    ("machine", "kind"),
    [
        *(("graviton-3", kind) for kind in NARROW),
        *((SCALABLE["sve128"], kind) for kind in ("us", "u", "bf")),
        *((SCALABLE["sve256"], kind) for kind in ("su", "s", "bf")),
        *((SCALABLE["sve512"], kind) for kind in ("us", "s", "bf")),
    ],
)
def test_whole_outputs_of_narrow_types(machine: str, kind: str, tmp_path: Path) -> None:
    left, right, sums = NARROW[kind]
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
    headers = ("-fopenmp", f"-I{resources.headers()}", "-Wno-psabi", "-save-temps")
    pipeline.optimize(source, out, run=False, threads=3, machine=machine)
    instruction = "us" if kind == "su" else kind
    wanted = rf"\t{instruction}mmla\tv"
    if machine == "graviton-3":
        assert (
            _run(tmp_path, out.read_text(), *QUICK, f"-march={ARCHITECTURES['mixed signs and bf16']}", *headers)
            == "0 wrong\n"
        )
    else:
        name = next(name for name, of in SCALABLE.items() if of == machine)
        flags, emulator = _scalable(name, "sve+i8mm+bf16", ("-O2",))
        assert _run(tmp_path, out.read_text(), *flags, *headers, emulator=emulator) == "0 wrong\n"
        # A64FX has no BFDOT, and FMAs on floats are chosen for it.
        floats = r"\tfmla\tz" if machine == "a64fx" else r"\tbfdot\tz"
        wanted = floats if sums == "float" else r"\tusdot\tz"
    (made,) = (path.read_text() for path in tmp_path.glob("*.s"))
    assert len(re.findall(wanted, made)) >= 8


SPARSE = """\
#include "polydl.h"
#include <stdio.h>
#define N 5
#define M 4
#define K 37
#define R 6
#define D 16
void product(const int ptr[restrict N + 1], const int *restrict idx, const LEFT (*restrict val)[R][D],
             const RIGHT x[restrict M][D][K], SUM y[restrict N][R][K])
{
#pragma scop
    for (int i = 0; i < N; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int r = 0; r < R; r++)
                for (int j = 0; j < K; j++)
                    for (int c = 0; c < D; c++)
                        y[i][r][j] += OF(val[p][r][c]) * OF(x[idx[p]][c][j]);
#pragma endscop
}
int main(void)
{
    static const int ptr[N + 1] = { 0, 2, 2, 5, 6, 6 }, idx[6] = { 3, 0, 1, 2, 1, 3 };
    static LEFT val[6][R][D];
    static RIGHT x[M][D][K];
    static SUM y[N][R][K];
    int wrong = 0;
    for (int c = 0; c < D; c++) {
        for (int p = 0; p < 6; p++)
            for (int r = 0; r < R; r++) val[p][r][c] = LEFT_OF((5 * p + 3 * r + 7 * c) % 9 - 4);
        for (int m = 0; m < M; m++)
            for (int j = 0; j < K; j++) x[m][c][j] = RIGHT_OF((3 * m + c + j) % 11 - 5);
    }
    product(ptr, idx, val, x, y);
    for (int i = 0; i < N; i++)
        for (int r = 0; r < R; r++)
            for (int j = 0; j < K; j++) {
                SUM sum = 0;
                for (int p = ptr[i]; p < ptr[i + 1]; p++)
                    for (int c = 0; c < D; c++) sum += OF(val[p][r][c]) * OF(x[idx[p]][c][j]);
                wrong += y[i][r][j] != sum;
            }
    printf("%d wrong\\n", wrong);
    return 0;
}
"""


@pytest.mark.parametrize(
    ("left", "right", "instruction"),
    [
        ("signed char", "signed char", "smmla"),
        ("signed char", "unsigned char", "usmmla"),
        ("polydl_bf16", "polydl_bf16", "bfmmla"),
    ],
)
def test_block_sparse_products(left: str, right: str, instruction: str, tmp_path: Path) -> None:
    """In blocks of SMMLA and its like, of blocks as they lie in memory."""
    floats = left == "polydl_bf16"
    macros = {
        "LEFT": left, "RIGHT": right, "SUM": "float" if floats else "int",
        "OF(x)": "polydl_to_float(x)" if floats else "x",
        "LEFT_OF(x)": "polydl_to_bf16(x)" if floats else f"({left})(x)",
        "RIGHT_OF(x)": "polydl_to_bf16(x)" if floats else f"({right})(x)",
    }  # fmt: skip
    source, out = tmp_path / "product.c", tmp_path / "out.c"
    source.write_text("".join(f"#define {name} {text}\n" for name, text in macros.items()) + SPARSE)
    pipeline.optimize(source, out, run=False, threads=3, machine="graviton-3")
    headers = ("-fopenmp", f"-I{resources.headers()}", "-Wno-psabi", "-save-temps")
    flags = (*QUICK, f"-march={ARCHITECTURES['mixed signs and bf16']}", *headers)
    assert _run(tmp_path, out.read_text(), *flags) == "0 wrong\n"
    assert re.search(rf"\t{instruction}\tv", _assembly(tmp_path))
