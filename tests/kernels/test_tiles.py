"""Products in tiles: kernels under emulation against their meaning, the emulation against what the manual says, the
instructions of AMX in what is compiled for it, whole programs at any size with and without tiles, and estimates."""

from __future__ import annotations

import ctypes
import platform
import random
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from polydl import pipeline
from polydl.base import resources
from polydl.kernels.microkernel import generate, prologues
from polydl.kernels.microkernel_spec import MicrokernelSpec, Reduction
from polydl.kernels.packing import pack_prologue
from polydl.kernels.reference import loops
from polydl.model.types import F32, I8, I32
from polydl.rank.instruction_set import target_isa
from polydl.target import preset
from polydl.target.products import DOT_BF16, MMLA_8, MMLA_BF16, TILE_8, TILE_BF16, Product
from polydl.target.schemes import MMLA, TILE, scheme_of, tile_of
from tests.compiling import run_compiler, run_program
from tests.kernels.contraction_program import HARNESS
from tests.kernels.test_products import BITS, EMULATE, run
from tests.oracle.native import QUICK_NATIVE, compile_c

pytestmark = [
    pytest.mark.few_sizes,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86"),
]

PRODUCTS = [TILE_BF16, *TILE_8.values()]
BLOCKS = [MMLA_BF16, *MMLA_8.values()]
MACHINE = "xeon-8480plus"
AMX = ("-march=native", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mamx-tile", "-mamx-bf16", "-mamx-int8")
TARGETS = {
    "emulated": ("-march=native", *EMULATE),
    "emulated beside AVX2": ("-mavx2", "-mfma", "-mno-avx512f", *EMULATE),
    "emulated beside SSE": ("-march=x86-64", *EMULATE),
    "no tiles": ("-march=native",),
}


# Kernels


def specification(rng: random.Random, product: Product) -> MicrokernelSpec:
    """A kernel as calls of copies, or of rows of A as they are, need it."""
    tile = tile_of(product)
    assert tile is not None
    words = tile.steps
    m, n = tile.rows * rng.randint(1, 3), tile.columns * rng.choice((1, 2, 3, 5))
    known = bool(product.correction) or rng.random() < 0.7
    chunks, outer = rng.randint(0, 3) if known else 2, rng.randint(1, 2)
    in_place = not product.correction and rng.random() < 0.4
    a_m, a_chunk = (words * outer * max(1, chunks) + rng.randint(0, 3), words) if in_place else (words, words * m)
    return MicrokernelSpec(
        F32 if F32 in product.sums else I32, m, n, a_m, rng.choice((None, n + rng.randint(0, 5))),
        (
            Reduction(outer, chunks * a_chunk, chunks * words * n),
            Reduction(chunks if known else None, a_chunk, words * n),
            Reduction(words, 1, n),
        ),
        rng.randint(0, 1), negate=rng.random() < 0.3, alpha=rng.random() < 0.3, product=product, in_place=in_place,
    )  # fmt: skip


def call(spec: MicrokernelSpec, m: int, n: int, at_end: int, chunks: int) -> str:
    """C of a call beside one of the twin, on memory that ends where they may read: whole panels of copies, rows as far
    as they go."""
    made, outer, tile = generate(spec), spec.reductions[0], spec.tile
    assert spec.a_m is not None and tile is not None
    steps = (outer.extent or 1) * chunks * tile.steps
    a = (max(1, m) - 1) * spec.a_m + max(1, steps) if spec.in_place else max(1, steps) * spec.m
    b = (steps + bool(spec.product.correction)) * spec.n or 1
    c_m = spec.c_m if spec.c_m is not None else spec.n + 3
    values = {"c_m": c_m, "alpha": 3, "extent1": chunks}
    rest = "".join(f", {values[name]}" for name in made.parameters[5:])
    word = "(int)(bits() % 2 ? 0x3f80c000 : 0x40003f80)" if spec.dtype is F32 else "(int)bits()"
    size, odd = (max(1, m) - 1) * c_m + max(1, n), 2 if spec.in_place else 0
    begins, ends = ("polydl_tiles_begin();", "polydl_tiles_end();") if tile.begins else ("", "")
    return f"""
    {{
        guarded a = take({a} * 4 + {odd}, {at_end}), b = take({b} * 4, {at_end}), c = take({size} * 4, {at_end});
        polydl_i32_anywhere *A = (polydl_i32_anywhere *)(a.data + {odd});
        int *B = (int *)b.data;
        {spec.dtype.c} *C = ({spec.dtype.c} *)c.data, D[{size}];
        for (int i = 0; i < {a}; i++) A[i] = {word};
        for (int i = 0; i < {b}; i++) B[i] = {word};
        for (int i = 0; i < {size}; i++) C[i] = D[i] = ({spec.dtype.c})draw();
        {begins}
        {made.name}({m}, {n}, (void *)A, B, C{rest});
        {ends}
        {made.name}_twin({m}, {n}, (void *)A, B, D{rest});
        if (memcmp(C, D, sizeof D)) printf("wrong {made.name} {m} {n}\\n");
        drop(a), drop(b), drop(c);
    }}"""


def kernels_and_twins(rng: random.Random, count: int, products: Sequence[Product] = (*PRODUCTS, *BLOCKS)) -> str:
    """A program that holds so many kernels of each product equal to their twins, on integers of any bits and on whole
    bf16, in bits. Prints what is wrong, and that it is done."""
    parts, calls = [HARNESS, BITS], list[str]()
    before = dict[str, None]()
    for product in products:
        for _ in range(count):
            spec = specification(rng, product)
            made = generate(spec)
            before |= dict.fromkeys((*prologues(spec), pack_prologue(I32)))
            parts.append(f"{made.text}static void {made.name}_twin({made.signature})\n{{\n{loops(spec)}}}\n")
            extent = spec.reductions[1].extent
            chunks = 2 if extent is None else extent
            for m, n in ((spec.m, spec.n), (rng.randint(0, spec.m), rng.randint(0, spec.n))):
                calls.append(call(spec, m, n, rng.randint(0, 1), chunks))
    # A function twice is an error to C.
    return "\n".join(
        [parts[0], *before, *dict.fromkeys(parts[1:]), "int main(void)\n{", *calls, 'printf("done\\n");\n}']
    )


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_compute_their_meaning(target: str, tmp_path: Path) -> None:
    """Integers of any bits, in bits; small whole bf16, whose sums are exact."""
    source = kernels_and_twins(random.Random(target), 2)
    flags = ("-Og", "-ffp-contract=off", *TARGETS[target])
    assert run(tmp_path, source, flags) == "done\n"
    if target == "emulated":
        for right, other in (("sum += ", "sum += 1 + "), ("POLYDL_TILE_LOAD_A(4,", "POLYDL_TILE_LOAD_A(5,")):
            wrong = source.replace(right, other)
            assert wrong != source
            assert "wrong" in run(tmp_path, wrong, (*flags, "-w"))


# Instructions

WANTED = {
    TILE_BF16.name: "tdpbf16ps", "tile_u8i8": "tdpbusd", "tile_i8u8": "tdpbsud", "tile_i8i8": "tdpbusd",
    "tile_u8u8": "tdpbsud",
}  # fmt: skip


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name)
def test_the_instructions_are_there(product: Product, tmp_path: Path) -> None:
    """2 x 2 tiles: four products, four loads, one configuration; without the extension none of them."""
    reductions = (Reduction(64, 512, 512), Reduction(16, 1, 32))
    spec = MicrokernelSpec(
        F32 if product is TILE_BF16 else I32, 32, 32, 16, 32, reductions, remainders=False, product=product
    )
    made = generate(spec)
    body = f"polydl_tiles_begin(); {made.name}({', '.join(made.parameters)}); polydl_tiles_end();"
    text = "".join(prologues(spec)) + made.text + f"void f({made.signature}) {{ {body} }}\n"
    (tmp_path / "f.c").write_text(text)

    def instructions(*flags: str) -> str:
        run_compiler(["gcc", "-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", *flags, "-c", "f.c"], tmp_path)
        return subprocess.run(["objdump", "-d", "f.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    real = instructions("-march=sapphirerapids")
    assert len(re.findall(rf"\b{WANTED[product.name]}\s", real)) == 4
    for name, times in (("tileloadd", 4), ("tilestored", 4), ("ldtilecfg", 1), ("tilerelease", 1), ("tilezero", 4)):
        assert len(re.findall(rf"\b{name}\b", real)) == times, name
    assert not re.search(r"\b(tdp|tile|ldtile)", instructions("-march=cascadelake"))


MULTIPLY = """
#include "polydl_emulate.h"
void tile(const uint32_t *a, const uint32_t *b, uint32_t *c)
{
    polydl_emulated_tile_load(0, c, 64);
    polydl_emulated_tile_load(1, a, 64);
    polydl_emulated_tile_load(2, b, 64);
    polydl_emulated_tdpbf16ps(0, 1, 2);
    polydl_emulated_tile_store(0, c, 64);
}
"""


def test_tiles_of_brain_floats_round_as_the_manual_says() -> None:
    """Even and odd products apart from zero, each fused multiplication and addition rounded once, in the order of the
    words; both sums added up, then added to the old one; denormal numbers are zeros. In bits, with numbers of all
    sizes, infinities and denormal ones."""
    library = compile_c([MULTIPLY], ("-O1", "-ffp-contract=off", f"-I{resources.headers()}"))
    rng = np.random.default_rng(5)

    def flushed(x: np.ndarray) -> np.ndarray:
        return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x).astype(np.float32)

    for exponents in ((-6, 6), (-75, -55), (40, 80)):
        a, b = (
            (rng.uniform(-2, 2, (16, 32)) * 2.0 ** rng.integers(*exponents, (16, 32))).astype(np.float32)
            for _ in range(2)
        )
        a, b = ((x.view(np.uint32) & 0xFFFF0000).view(np.float32) for x in (a, b))
        c = rng.uniform(-1, 1, (16, 16)).astype(np.float32) * np.float32(2.0 ** (2 * exponents[0] + 4))
        words = [(x.view(np.uint32) >> 16).reshape(16, 16, 2) for x in (a, b)]
        packed = [np.ascontiguousarray(w[..., 0] | w[..., 1] << 16).astype(np.uint32) for w in words]
        made = c.copy()
        library.tile(*(ctypes.c_void_p(x.ctypes.data) for x in (*packed, made)))
        # B's words: step k in row k, column j's pair in its word j.
        pairs_a, pairs_b = flushed(a).reshape(16, 16, 2), flushed(b).reshape(16, 16, 2)
        sums = np.zeros((2, 16, 16), np.float32)
        for k in range(16):
            for half in range(2):
                exact = pairs_a[:, k, half, None].astype(np.float64) * pairs_b[None, k, :, half]
                # Exact in double: 16 digits of the product beside 24 of the sum, of sizes that are not far apart.
                with np.errstate(over="ignore"):
                    sums[half] = flushed((exact + sums[half]).astype(np.float32))
        with np.errstate(over="ignore", invalid="ignore"):
            wanted = flushed(flushed(sums[0] + sums[1]) + flushed(c))
        same = (made == wanted) | (np.isnan(made) & np.isnan(wanted))
        assert same.mean() > 0.98, exponents  # a sum in double may be rounded twice
        assert (exponents == (-75, -55)) == bool((sums == 0).any()), "products that are denormal are zeros"


def test_tiles_are_words_of_the_scheme() -> None:
    assert scheme_of(TILE_BF16) is TILE
    assert (TILE.depth(TILE_BF16), TILE.run(TILE_BF16, "A"), TILE.run(TILE_BF16, "B")) == (32, 32, 2)
    assert TILE.held(64, 96) == (2, 2)
    assert TILE.held(16, 80) == (1, 5)
    sapphire, zen = target_isa(preset(MACHINE)), target_isa(preset("epyc-zen4"))
    assert sapphire.has(TILE_BF16) and not zen.has(TILE_BF16) and zen.has(DOT_BF16)
    # Eight times the words of two FMAs per cycle.
    fast = sapphire.multiplying(TILE_BF16)
    assert 32 * 32 / TILE.cycles(fast, F32, (32, 32), 32, 32) == 256
    # Four registers of sums and one of A beside one of B that is put together of two vectors; SMMLA in place of SDOT.
    assert (MMLA.depth(MMLA_BF16), MMLA.run(MMLA_BF16, "A"), MMLA.run(MMLA_BF16, "B")) == (4, 4, 2)
    assert MMLA.held(10, 8) == (5, 2) and all(MMLA.spare(m // 2, n // 4) >= 1 for m, n in MMLA.blocks(sapphire, F32))
    graviton = target_isa(preset("graviton-3"))
    assert graviton.has(MMLA_8[I8, I8]) and not sapphire.has(MMLA_8[I8, I8]) and not graviton.has(TILE_BF16)
    assert not target_isa(preset("graviton-2")).has(MMLA_8[I8, I8])
    # Four shuffles beside twenty products of two words each, on four pipes.
    taken = MMLA.cycles(graviton.multiplying(MMLA_8[I8, I8]), I32, (10, 8), 10, 8)
    assert taken == pytest.approx((20 + 4) / 4 / 2)
    with pytest.raises(ValueError, match="no whole number of tiles"):
        MicrokernelSpec(F32, 8, 32, 1, 32, (Reduction(16, 1, 32),), product=TILE_BF16)
    with pytest.raises(ValueError, match="words of one"):
        MicrokernelSpec(F32, 16, 32, 1, 32, (Reduction(8, 1, 32),), product=TILE_BF16)


# Programs

PROGRAM = """#include <stdint.h>
#include <polydl.h>
void f(int M, int N, int K, {c} C[restrict M][N], const {a} A[restrict {shape}], const {b} B[restrict K][N])
{{
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < K; k++)
                C[i][j] {op} {value};
#pragma endscop
}}
"""
DRIVER = """
void f(int, int, int, void *, const void *, const void *);
void original(int, int, int, void *, const void *, const void *);
int main(void)
{
    for (int t = 0; t < 120; t++) {
        const int tuned = t % 11 == 0, M = tuned ? 93 : bits() % 100, N = tuned ? 121 : bits() % 130;
        const int K = tuned ? STEPS : t % 141, end = t & 1;
        const size_t a = (size_t)M * K * sizeof(TA), b = (size_t)N * K * sizeof(TB), c = (size_t)M * N * sizeof(TC);
        guarded x = take(a, end), y = take(b, end), z = take(c, end), w = take(c, 0);
        for (size_t i = 0; i < a; i += sizeof(TA)) *(TA *)(x.data + i) = (TA)(FLOATS ? 0x4000 + draw() * 32 : bits());
        for (size_t i = 0; i < b; i += sizeof(TB)) *(TB *)(y.data + i) = (TB)(FLOATS ? 0xbf80 + draw() * 64 : bits());
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
VALUES = {
    "bytes": "A[i][k] * B[k][j]",
    "transposed": "A[k][i] * B[k][j]",
    "bf16": "polydl_to_float(A[i][k]) * polydl_to_float(B[k][j])",
    "bf16 transposed": "polydl_to_float(A[k][i]) * polydl_to_float(B[k][j])",
}


@pytest.mark.parametrize(
    ("types", "op", "value", "steps"),
    [
        (("int32_t", "int8_t", "int8_t"), "-=", "bytes", 100),
        (("int32_t", "int8_t", "uint8_t"), "+=", "transposed", 131),
        (("float", "polydl_bf16", "polydl_bf16"), "+=", "bf16", 128),
        (("float", "polydl_bf16", "polydl_bf16"), "-=", "bf16 transposed", 77),
    ],
)
def test_programs_at_any_size(types: tuple[str, str, str], op: str, value: str, steps: int, tmp_path: Path) -> None:
    """K from 0 to 140, any rows and columns, on memory that ends where the arrays do: the bits of the original, with
    emulated tiles, and with the real instructions where the system gives them, or the vector code behind them where it
    does not."""
    c, a, b = types
    shape = "K][M" if "transposed" in value else "M][K"
    text = PROGRAM.format(c=c, a=a, b=b, op=op, value=VALUES[value], shape=shape)
    (tmp_path / "f.c").write_text(text)
    sizes = {"M": 93, "N": 121, "K": steps}
    found = pipeline.optimize(tmp_path / "f.c", tmp_path / "made.c", run=False, sizes=sizes, machine=MACHINE, threads=2)
    made = (tmp_path / "made.c").read_text()
    assert found.output is not None
    assert "polydl_mk_tile_" in made
    (tmp_path / "original.c").write_text(text.replace("void f(", "void original("))
    floats = c == "float"
    defined = {"TC": c, "TA": "uint16_t" if floats else a, "TB": "uint16_t" if floats else b}
    macros = "".join(f"#define {k} {v}\n" for k, v in {**defined, "FLOATS": int(floats), "STEPS": steps}.items())
    (tmp_path / "main.c").write_text(HARNESS + BITS + "#include <stdint.h>\n" + macros + DRIVER)
    headers = f"-I{resources.headers()}"
    flags = ["-Og", "-w", "-fopenmp", headers]
    # Sums wrap around in the original too, where any bits are multiplied.
    run_compiler(["gcc", "-fwrapv", "-c", *flags, "original.c"], tmp_path)
    run_compiler(["gcc", "-c", *flags, "main.c"], tmp_path)
    for target in (("-march=native", *EMULATE), AMX):
        run_compiler(["gcc", *flags, *target, "made.c", "original.o", "main.o", "-o", "main"], tmp_path)
        if target is AMX and not _has_vectors():
            continue
        ran = run_program([tmp_path / "main"], check=False)
        assert (ran.stdout, ran.returncode) == ("done\n", 0), target


def _has_vectors() -> bool:
    return " avx512bw " in Path("/proc/cpuinfo").read_text()


LAYERS = {
    "convolution": """void {name}(const polydl_bf16 I[restrict 12][18][64], const polydl_bf16 W[restrict 3][3][64][64],
    const float bias[restrict 64], float O[restrict 10][16][64])
{{
    for (int h = 0; h < 10; h++)
        for (int w = 0; w < 16; w++)
            for (int o = 0; o < 64; o++)
                for (int y = 0; y < 3; y++)
                    for (int x = 0; x < 3; x++)
                        for (int c = 0; c < 64; c++)
                            O[h][w][o] += polydl_to_float(I[h + y][w + x][c]) * polydl_to_float(W[y][x][c][o]);
}}
""",
    "bias and relu": """void {name}(const polydl_bf16 I[restrict 70][96], const polydl_bf16 W[restrict 96][90],
    const float bias[restrict 90], float O[restrict 70][90])
{{
    for (int i = 0; i < 70; i++)
        for (int j = 0; j < 90; j++) {{
            float s = 0;
            for (int k = 0; k < 96; k++)
                s += polydl_to_float(I[i][k]) * polydl_to_float(W[k][j]);
            s += bias[j];
            O[i][j] = s < 0 ? 0 : s;
        }}
}}
""",
}


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_in_tiles(layer: str, tmp_path: Path) -> None:
    """Whole bf16, whose sums are exact: the bits of the original, with what ends the sums in the kernel."""
    head = "#include <stdint.h>\n#include <polydl.h>\n"
    (tmp_path / "f.c").write_text(head + LAYERS[layer].format(name="after"))
    pipeline.optimize(tmp_path / "f.c", tmp_path / "made.c", run=False, machine=MACHINE, threads=2)
    made = (tmp_path / "made.c").read_text()
    assert re.search(r"polydl_mk_tile_bf16_\w+\(\w[^;]*&O", made), "another product was chosen"
    flags = (*QUICK_NATIVE, f"-I{resources.headers()}")
    libraries = (
        compile_c([head + LAYERS[layer].format(name="before")], flags),
        compile_c([made], (*flags, "-DPOLYDL_EMULATE")),
        compile_c([made], (*flags, *AMX)) if _has_vectors() else None,
    )
    rng = np.random.default_rng(3)
    numbers = [rng.integers(-8, 9, 12 * 18 * 64 * 3).astype(np.float32).view(np.uint32) >> 16 for _ in range(2)]
    operands = [x.astype(np.uint16) for x in numbers] + [rng.integers(-50, 50, 90).astype(np.float32)]
    results = []
    for library, name in zip(libraries, ("before", "after", "after"), strict=True):
        out = np.zeros(10 * 16 * 64, np.float32)
        if library is not None:
            getattr(library, name)(*(ctypes.c_void_p(x.ctypes.data) for x in (*operands, out)))
            results.append(out)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
    assert len(np.unique(results[0])) > 50


@pytest.mark.parametrize(
    ("sizes", "tiles"), [((4, 4, 4), False), ((16, 16, 8), False), ((256, 256, 256), True), ((8, 64, 512), True)]
)
def test_tiles_are_first_where_they_win(sizes: tuple[int, int, int], tiles: bool, tmp_path: Path) -> None:
    """By the estimates: not where most of a tile is zeros. Never on a machine without them."""
    value = VALUES["bf16"]
    text = PROGRAM.format(c="float", a="polydl_bf16", b="polydl_bf16", op="+=", value=value, shape="M][K")
    (tmp_path / "f.c").write_text(text)
    given = dict(zip("MNK", sizes, strict=True))
    first, *_ = pipeline.rank(tmp_path / "f.c", sizes=given, machine=MACHINE, threads=2).variants
    assert ("product=tile" in str(first.recipe)) == tiles
    others = pipeline.rank(tmp_path / "f.c", sizes=given, machine="epyc-zen4", threads=2).variants
    assert not any("product=tile" in str(v.recipe) for v in others)
