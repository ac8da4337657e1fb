"""Inner products of small types: kernels and copies against their meaning, the instructions against their emulation,
the instructions that are really there, and whole programs at any size."""

from __future__ import annotations

import platform
import random
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from polydl import pipeline
from polydl.base import resources
from polydl.kernels.copy import CopyPiece, Packing
from polydl.kernels.microkernel import generate, isa_prologue, product_prologue, prologues
from polydl.kernels.microkernel_spec import MicrokernelSpec, Reduction
from polydl.kernels.packing import PackLoop, PackRoutine, pack_prologue
from polydl.kernels.reference import loops
from polydl.model.types import BF16, F16, F32, F64, I8, I16, I32, U8, U16, ElementType
from polydl.target import narrowed, preset
from polydl.target.isa import isa
from polydl.target.products import DOT_8, DOT_BF16, DOT_I16, FMA, Product, features_of
from tests.compiling import run_compiler, run_program
from tests.kernels.contraction_program import HARNESS, spread

pytestmark = pytest.mark.few_sizes

X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86")
EMULATE = ("-DPOLYDL_EMULATE", f"-I{resources.headers()}")
TARGETS = {
    "native": ("-march=native",),
    "no VNNI": ("-march=native", "-mno-avx512vnni", "-mno-avx512bf16"),
    "avx2": ("-mavx2", "-mfma", "-mno-avx512f"),
    "generic": ("-march=x86-64",),
    "emulated": ("-march=native", *EMULATE),
    "emulated in AVX2": ("-mavx2", "-mfma", "-mno-avx512f", *EMULATE),
}
FEATURES = [f"-m{name}" for name in ("avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512vnni", "avx512bf16")]
PRODUCTS = [FMA, DOT_I16, DOT_BF16, *DOT_8.values()]
BITS = """
static unsigned bits(void) { draw(); return (unsigned)(seed >> 32); }
"""


def run(folder: Path, source: str, flags: Sequence[str]) -> str:
    (folder / "program.c").write_text(source)
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", *flags, "program.c", "-o", "program", "-lm"]
    run_compiler(command, folder)
    ran = run_program([folder / "program"], check=False)
    assert ran.returncode == 0, f"died with {ran.returncode} after {ran.stdout[-200:]!r}"
    return ran.stdout


def has(*flags: str) -> bool:
    found = re.search(r"^flags\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found is not None and set(flags) <= set(found.group(1).split())


# Kernels


def specification(rng: random.Random, product: Product) -> MicrokernelSpec:
    dtype = F32 if product is DOT_BF16 else I32
    m, n, steps = rng.randint(1, 9), rng.choice((1, 7, 16, 17, 32, 48)), rng.randint(1, 9)
    outer = rng.randint(1, 3)
    # As in copies: the steps of B follow each other, and what the sums start from follows them.
    reductions = (Reduction(outer, rng.randint(0, 40), steps * n), Reduction(rng.choice((None, steps)), m, n))
    if product.correction and reductions[1].extent is None:
        reductions = (reductions[0], Reduction(steps, m, n))
    return MicrokernelSpec(
        dtype, m, n, 1, rng.choice((None, n + rng.randint(0, 5))), reductions, rng.randint(0, 1),
        negate=rng.random() < 0.3, alpha=rng.random() < 0.3, product=product,
        in_place=product.in_words and rng.random() < 0.5,
    )  # fmt: skip


def call(spec: MicrokernelSpec, m: int, n: int, at_end: int) -> str:
    """C of a call beside one of the twin, on memory that ends where they may read."""
    steps = [r.extent if r.extent is not None else 7 for r in spec.reductions]
    a_terms = [(max(1, m), 1), *((e, r.a_stride or 0) for e, r in zip(steps, spec.reductions, strict=True))]
    behind = steps[0] * (spec.reductions[0].b_stride or 0) if spec.product.correction else 0
    b_terms = [(max(1, n), 1), *((e, r.b_stride or 0) for e, r in zip(steps, spec.reductions, strict=True))]
    a, b = spread(a_terms)[1] + 1, max(spread(b_terms)[1] + 1, behind + max(1, n) if behind else 0)
    c_m = spec.c_m if spec.c_m is not None else spec.n + 3
    made = generate(spec)
    values = {"c_m": c_m, "alpha": 3, "extent1": 7}
    rest = "".join(f", {values[name]}" for name in made.parameters[5:])
    small = spec.dtype is F32
    word = "(int)((bits() & 0x807f007f) % 2 ? 0x3f80c000 : 0x40003f80)" if small else "(int)bits()"
    c = spec.dtype.c
    size, odd = (max(1, m) - 1) * c_m + max(1, n), 1 if spec.in_place else 0
    return f"""
    {{
        guarded a = take({a} * 4 + {odd}, {at_end}), b = take({b} * 4, {at_end}), c = take({size} * 4, {at_end});
        polydl_i32_anywhere *A = (polydl_i32_anywhere *)(a.data + {odd});
        int *B = (int *)b.data;
        {c} *C = ({c} *)c.data, D[{size}];
        for (int i = 0; i < {a}; i++) A[i] = {word};
        for (int i = 0; i < {b}; i++) B[i] = {word};
        for (int i = 0; i < {size}; i++) C[i] = D[i] = ({c})draw();
        {made.name}({m}, {n}, A, B, C{rest});
        {made.name}_twin({m}, {n}, A, B, D{rest});
        if (memcmp(C, D, sizeof D)) printf("wrong {made.name} {m} {n}\\n");
        drop(a), drop(b), drop(c);
    }}"""


def kernels_and_twins(rng: random.Random, count: int = 4, long: str = "") -> str:
    """A program that holds so many microkernels of each inner product equal to their twins: words of any bits for
    integers, in bits; small whole numbers for bf16, whose sums are exact. Prints what is wrong, and that it is done.
    `long`: with code for such vectors (`target.isa.LONG`)."""
    parts, calls, before = [HARNESS, BITS], [], {}
    for product in PRODUCTS:
        for _ in range(count):
            spec = replace(specification(rng, product), long=long)
            made = generate(spec)
            before |= dict.fromkeys((*prologues(spec), pack_prologue(I32)))
            parts.append(f"{made.text}static void {made.name}_twin({made.signature})\n{{\n{loops(spec)}}}\n")
            for m, n in ((spec.m, spec.n), (rng.randint(0, spec.m), rng.randint(0, spec.n))):
                calls.append(call(spec, m, n, rng.randint(0, 1)))
    return "\n".join([parts[0], *before, *parts[1:], "int main(void)\n{", *calls, 'printf("done\\n");\n}\n'])


@X86
@pytest.mark.parametrize("target", TARGETS)
def test_kernels_compute_their_meaning(target: str, tmp_path: Path) -> None:
    source = kernels_and_twins(random.Random(target))
    flags = ("-Og", "-fstrict-aliasing", "-ffp-contract=off", *TARGETS[target])
    assert run(tmp_path, source, flags) == "done\n"
    if target == "native":
        few = kernels_and_twins(random.Random(target), 1)
        wrong = few.replace("sum += ", "sum += 1 + ", 1)
        assert wrong != few
        assert "wrong" in run(tmp_path, wrong, flags)


# Copies


def pieces(rng: random.Random) -> list[tuple[CopyPiece, int, int]]:
    """Copies that convert, of all kinds, with their block and width."""
    found = []
    kinds: list[tuple[ElementType, ElementType, int, int, bool]] = [
        (F64, F32, 1, 0, False), (F32, BF16, 1, 0, False), (F32, I8, 1, 0, False), (I32, U8, 1, 0, False),
        (F32, F16, 1, 0, False), (F64, I32, 1, 0, False), (I32, U16, 1, 0, False), (I16, I8, 2, 0, False),
        (I16, U8, 2, 0, False), (I16, I16, 2, 0, False), (BF16, BF16, 2, 0, False), (U8, U8, 4, 0, False),
        (I8, I8, 4, -128, False), (U8, U8, 4, 128, False), (U8, I8, 4, 0, True), (I8, U8, 4, 0, True),
    ]  # fmt: skip
    plain = [(*kind, 0, 0) for kind in kinds]
    # As tiles have them: 16 words of a row of A side by side, those of B in whole steps.
    tiles = [
        (BF16, BF16, 2, 0, False, 32, 32), (BF16, BF16, 2, 0, False, 2, 32), (U8, I8, 4, 0, True, 64, 64),
        (I8, U8, 4, 0, True, 64, 64), (I8, I8, 4, -128, False, 4, 64), (U8, U8, 4, 128, False, 4, 64),
    ]  # fmt: skip
    for to, source, group, sums, flips, run_, depth in [*plain, *tiles]:
        for number in range(3):
            most = 140 if depth else 11
            extents = [rng.randint(0, 3) for _ in range(rng.randint(0, 2))] + [rng.randint(1, most)]
            strides = [rng.randint(-20, 40) for _ in extents[:-1]] + [1 if number == 1 else rng.randint(1, 40)]
            width_stride = 1 if number == 0 else rng.choice((None, rng.randint(-30, 30)))
            loops_ = tuple(
                PackLoop(None if rng.random() < 0.3 else e, s) for e, s in zip(extents, strides, strict=True)
            )
            block = rng.choice((1, 6, 16, 48))
            piece = CopyPiece(to, width_stride, loops_, source, group, len(loops_) - 1, sums, flips, run_, depth)
            found.append((piece, block, rng.randint(0, 2 * block + 1)))
    return found


def copied(piece: CopyPiece, made: PackRoutine, block: int, width: int, at_end: int) -> str:
    extents = [7 if loop.extent is None else loop.extent for loop in piece.loops]
    width_stride = 5 if piece.width_stride is None else piece.width_stride
    terms = [(max(1, e), loop.stride or 0) for e, loop in zip(extents, piece.loops, strict=True)]
    low, high = spread([(max(1, width), width_stride), *terms])
    filled = max(piece.depth, piece.group)
    steps = [-(-e // filled) * (filled // piece.group) if i == piece.grouped else e for i, e in enumerate(extents)]
    count = 1
    for e in steps:
        count *= e
    words = -(-width // block) * block * (count + bool(piece.sums))
    given = {"width_stride": 5} | {f"extent{i}": 7 for i in range(len(extents))}
    rest = "".join(f", {given[name]}" for name in made.parameters[3:])
    assert piece.source is not None
    size, word = piece.source.bytes, 4 if piece.group > 1 else piece.element.bytes
    # What a _Float16 of any bits is, tests of values do not ask: those that are NaN have many forms.
    mask = " & 0xbf" if piece.source.is_float else ""
    return f"""
    {{
        guarded s = take({(high - low + 1) * size}, {at_end});
        guarded p = take({words * word}, {at_end}), q = take({words * word}, 0);
        for (int i = 0; i < {(high - low + 1) * size}; i++) ((unsigned char *)s.data)[i] = bits(){mask};
        memset(p.data, 99, {words * word});
        memset(q.data, 77, {words * word});
        {made.name}({width}, (void *)(s.data + {-low * size}), (void *)p.data{rest});
        {made.name}_twin({width}, (void *)(s.data + {-low * size}), (void *)q.data{rest});
        if (memcmp(p.data, q.data, {words * word})) printf("wrong {made.name} {width}\\n");
        drop(s), drop(p), drop(q);
    }}"""


@X86
@pytest.mark.parametrize("target", ["native", "avx2", "generic"])
def test_copies_are_their_meaning(target: str, tmp_path: Path) -> None:
    rng = random.Random(target)
    family, parts, calls = Packing(), [], []
    for piece, block, width in pieces(rng):
        (use,) = family.matches(piece)
        made = family.emit(use, block)
        parts.append(f"{made.text}static void {made.name}_twin({made.signature})\n{{\n{family.meaning(use, block)}}}\n")
        calls += [copied(piece, made, block, width, end) for end in (0, 1)]
    before = [isa_prologue(I32), pack_prologue(I32)]
    source = "\n".join(
        [HARNESS, BITS, *before, *dict.fromkeys(parts), "int main(void)\n{", *calls, 'printf("done\\n");\n}\n']
    )
    assert (
        run(tmp_path, source, ("-O3", "-Wno-memset-transposed-args", "-Wno-unused-parameter", *TARGETS[target]))
        == "done\n"
    )


# Instructions

SAME = """
#include <immintrin.h>
#include <stdint.h>
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
int main(void)
{
    long wrong = 0;
    for (int i = 0; i < 2000000; i++) {
        const uint32_t x = word(i), y = word(i / 4), z = i % 3 ? bits() : word(i / 16);
        const __m512i a = _mm512_set1_epi32((int)x), b = _mm512_set1_epi32((int)y), c = _mm512_set1_epi32((int)z);
        uint32_t out[16];
        _mm512_storeu_si512(out, _mm512_dpwssd_epi32(c, a, b));
        wrong += out[5] != polydl_emulated_dpwssd(z, x, y);
        _mm512_storeu_si512(out, _mm512_dpbusd_epi32(c, a, b));
        wrong += out[5] != polydl_emulated_dpbusd(z, x, y);
        const __m512 sums = _mm512_dpbf16_ps(_mm512_castsi512_ps(c), (__m512bh)a, (__m512bh)b);
        _mm512_storeu_si512(out, _mm512_castps_si512(sums));
        wrong += out[5] != polydl_emulated_dpbf16ps_bits(z, x, y);
    }
    printf("%ld\\n", wrong);
    return 0;
}
"""


@pytest.mark.skipif(not has("avx512_vnni", "avx512_bf16"), reason="the processor has not both extensions")
def test_the_emulation_is_the_instructions(tmp_path: Path) -> None:
    """In all bits, those of NaNs among them."""
    flags = ("-O2", "-ffp-contract=off", *FEATURES, f"-I{resources.headers()}")
    assert run(tmp_path, SAME, flags) == "0\n"
    for name in ("dpbusd(z, {}, {})", "dpbf16ps_bits(z, {}, {})"):  # of two NaNs the first counts
        unlike = SAME.replace(f"polydl_emulated_{name.format('x', 'y')}", f"polydl_emulated_{name.format('y', 'x')}")
        assert unlike != SAME
        assert run(tmp_path, unlike, flags) != "0\n"


WANTED = {
    "dot_i16": "vpdpwssd", "dot_bf16": "vdpbf16ps", "dot_u8i8": "vpdpbusd", "dot_i8u8": "vpdpbusd",
    "dot_i8i8": "vpdpbusd", "dot_u8u8": "vpdpbusd",
}  # fmt: skip


@X86
@pytest.mark.parametrize("product", PRODUCTS[1:], ids=lambda product: product.name)
def test_the_instructions_are_there(product: Product, tmp_path: Path) -> None:
    """A block of 6 x 32 has one for each of its vectors and each step, and never one that saturates."""
    dtype = F32 if product is DOT_BF16 else I32
    spec = MicrokernelSpec(dtype, 6, 32, 1, 32, (Reduction(64, 6, 32),), remainders=False, product=product)
    made = generate(spec)
    whole = f"void f({made.signature}) {{ {made.name}({', '.join(made.parameters)}); }}\n"
    (tmp_path / "f.c").write_text("".join(prologues(spec)) + made.text + whole)

    def instructions(*flags: str) -> str:
        run_compiler(["gcc", "-O2", *flags, "-c", "f.c", "-o", "f.o"], tmp_path)
        return subprocess.run(["objdump", "-d", "f.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    real = instructions(*FEATURES)
    assert len(re.findall(rf"\b{WANTED[product.name]}\s", real)) >= 12
    older = instructions("-mavx2", "-mfma")
    assert WANTED[product.name] not in older
    assert ("vfmadd" if product is DOT_BF16 else "vpmaddwd") in older
    for text in (real, older):
        assert not re.search(r"vpmaddubsw|vpdpbusds|vpdpwssds", text)


# What is taken


def test_extensions_and_rates() -> None:
    assert features_of("avx512", frozenset({"avx512_vnni", "avx_vnni", "sse"})) == "avx512_vnni"
    zen4 = preset("epyc-zen4")
    assert "avx512_bf16" in zen4.simd.features
    assert narrowed(zen4, "avx2").simd.features == ""
    wide = isa("avx512")
    assert wide.multiplying(FMA) == wide
    assert wide.multiplying(DOT_I16).fmas < wide.fmas
    assert wide.multiplying(DOT_BF16).scratch > wide.scratch
    with pytest.raises(ValueError, match="does not compute in"):
        MicrokernelSpec(F64, 6, 32, 1, 32, (), product=DOT_I16)
    assert product_prologue(FMA) == ""


# Programs

PROGRAM = """#include <stdint.h>
void f(int M, int N, int K, {c} C[restrict M][N], const {a} A[restrict M][K], const {b} B[restrict K][N])
{{
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < K; k++)
                C[i][j] {op} {cast}A[i][k] * B[k][j];
#pragma endscop
}}
"""
DRIVER = """
void f(int, int, int, void *, const void *, const void *);
void original(int, int, int, void *, const void *, const void *);
int main(void)
{
    for (int t = 0; t < 300; t++) {
        const int tuned = t % 11 == 0, M = tuned ? 37 : bits() % 60, N = tuned ? 50 : bits() % 90;
        const int K = tuned ? STEPS : t % 71, end = t & 1;
        const size_t a = (size_t)M * K * sizeof(TA), b = (size_t)N * K * sizeof(TB), c = (size_t)M * N * sizeof(TC);
        guarded x = take(a, end), y = take(b, end), z = take(c, end), w = take(c, 0);
        for (size_t i = 0; i < a; i += sizeof(TA)) *(TA *)(x.data + i) = (TA)(WHOLE ? draw() : (int)bits());
        for (size_t i = 0; i < b; i += sizeof(TB)) *(TB *)(y.data + i) = (TB)(WHOLE ? draw() : (int)bits());
        for (size_t i = 0; i < c; i += sizeof(TC)) *(TC *)(z.data + i) = *(TC *)(w.data + i) = (TC)draw();
        f(M, N, K, z.data, x.data, y.data);
        original(M, N, K, w.data, x.data, y.data);
        if (memcmp(z.data, w.data, c)) printf("wrong %d %d %d\\n", M, N, K);
        drop(x), drop(y), drop(z), drop(w);
    }
    printf("done\\n");
    return 0;
}
"""


@X86
@pytest.mark.parametrize(
    ("types", "op", "cast", "machine", "steps"),
    [
        (("int32_t", "uint8_t", "int8_t"), "+=", "", "epyc-zen4", 41),
        (("int32_t", "uint8_t", "int8_t"), "+=", "", "epyc-zen4", 44),
        (("int32_t", "int8_t", "int8_t"), "-=", "(int)", "epyc-zen4", 41),
        (("int32_t", "uint8_t", "uint8_t"), "+=", "", "epyc-zen4", 44),
        (("int32_t", "uint8_t", "uint8_t"), "+=", "", "epyc-zen3", 41),
        (("int32_t", "int16_t", "int16_t"), "+=", "", "epyc-zen4", 41),
        (("int32_t", "int8_t", "int16_t"), "-=", "", "epyc-zen3", 44),
        (("int32_t", "uint16_t", "int16_t"), "+=", "", "epyc-zen4", 41),
        (("int32_t", "int32_t", "int32_t"), "+=", "", "epyc-zen3", 44),
        (("double", "float", "float"), "+=", "(double)", "epyc-zen4", 41),
        (("float", "int8_t", "float"), "+=", "", "epyc-zen3", 44),
    ],
)
def test_programs_at_any_size(
    types: tuple[str, str, str], op: str, cast: str, machine: str, steps: int, tmp_path: Path
) -> None:
    """Any size, K from 0 to 70, on memory that ends where the arrays do: the bits of the original. Tuned for whole
    words of a depth, and for a last one that is not."""
    c, a, b = types
    text = PROGRAM.format(c=c, a=a, b=b, op=op, cast=cast)
    (tmp_path / "f.c").write_text(text)
    found = pipeline.optimize(
        tmp_path / "f.c",
        tmp_path / "made.c",
        run=False,
        sizes={"M": 37, "N": 50, "K": steps},
        machine=machine,
        threads=2,
    )
    made = (tmp_path / "made.c").read_text()
    assert found.output is not None
    assert "_mk_" in made
    assert ("dot_8" in made) == (machine == "epyc-zen4" and {a, b} <= {"int8_t", "uint8_t"})
    (tmp_path / "original.c").write_text(text.replace("void f(", "void original("))
    defined = {"TC": c, "TA": a, "TB": b, "WHOLE": int("float" in types), "STEPS": steps}
    macros = "".join(f"#define {name} {value}\n" for name, value in defined.items()) + "#include <stdint.h>\n"
    (tmp_path / "main.c").write_text(HARNESS + BITS + macros + DRIVER)
    flags = ["-Og", "-fstrict-aliasing", "-w", "-fopenmp"]
    # Sums wrap around in the original too, where any bits are multiplied.
    run_compiler(["gcc", "-fwrapv", "-c", *flags, "original.c"], tmp_path)
    run_compiler(["gcc", "-c", *flags, "main.c"], tmp_path)
    for target in ("native", "avx2", "generic"):
        run_compiler(["gcc", *flags, *TARGETS[target], "made.c", "original.o", "main.o", "-o", "main"], tmp_path)
        ran = run_program([tmp_path / "main"], check=False)
        assert (ran.stdout, ran.returncode) == ("done\n", 0), target
