"""Convolutions of small types, blocked and channels-last: inner products, without a copy of the image where its
channels are in groups already, and the bits of the original."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl import pipeline
from polydl.base import resources
from polydl.options import Options
from polydl.schedule.grouping import copied_bytes, grouping
from polydl.schedule.loops import NestLoops
from tests.compiling import run_compiler, run_program
from tests.kernels.contraction_program import HARNESS
from tests.kernels.test_products import TARGETS, X86

pytestmark = pytest.mark.few_sizes

INCLUDE = resources.headers()
BLOCKED = """
void conv(TC out[restrict 2][OB][7][9][OC], const TA image[restrict 2][IB][7 * S + 2][9 * S + 2][IC],
          const TB filter[restrict OB][IB][3][3][IC][OC])
{
#pragma scop
    for (int n = 0; n < 2; n++)
        for (int o = 0; o < OB; o++)
            for (int c = 0; c < IB; c++)
                for (int y = 0; y < 7; y++)
                    for (int ky = 0; ky < 3; ky++)
                        for (int kx = 0; kx < 3; kx++)
                            for (int x = 0; x < 9; x++)
                                for (int k = 0; k < OC; k++)
                                    for (int i = 0; i < IC; i++)
                                        out[n][o][y][x][k] += VALUE(filter[o][c][ky][kx][i][k])
                                                              * VALUE(image[n][c][y * S + ky][x * S + kx][i]);
#pragma endscop
}
"""
LAST = """
void conv(TC out[restrict 2][7][9][OC], const TA image[restrict 2][7 * S + 2][9 * S + 2][IC],
          const TB filter[restrict OC][3][3][IC])
{
#pragma scop
    for (int n = 0; n < 2; n++)
        for (int y = 0; y < 7; y++)
            for (int x = 0; x < 9; x++)
                for (int k = 0; k < OC; k++)
                    for (int ky = 0; ky < 3; ky++)
                        for (int kx = 0; kx < 3; kx++)
                            for (int i = 0; i < IC; i++)
                                out[n][y][x][k] += VALUE(image[n][y * S + ky][x * S + kx][i])
                                                   * VALUE(filter[k][ky][kx][i]);
#pragma endscop
}
"""
DRIVER = """
void original(void *, const void *, const void *);
void made(void *, const void *, const void *);
int main(void)
{
    const size_t a = sizeof(TA) * 2 * IB * (7 * S + 2) * (9 * S + 2) * IC, b = sizeof(TB) * OB * IB * 9 * IC * OC;
    const size_t c = sizeof(TC) * 2 * OB * 63 * OC;
    for (int t = 0; t < 4; t++) {
        guarded x = take(a, t & 1), y = take(b, t & 1), z = take(c, t & 1), w = take(c, 0);
        for (size_t i = 0; i < a; i += sizeof(TA)) *(TA *)(x.data + i) = FROM(TA, draw());
        for (size_t i = 0; i < b; i += sizeof(TB)) *(TB *)(y.data + i) = FROM(TB, draw());
        for (size_t i = 0; i < c; i += sizeof(TC)) *(TC *)(z.data + i) = *(TC *)(w.data + i) = (TC)draw();
        made(z.data, x.data, y.data);
        original(w.data, x.data, y.data);
        if (memcmp(z.data, w.data, c)) printf("wrong %d\\n", t);
        drop(x), drop(y), drop(z), drop(w);
    }
    printf("done\\n");
    return 0;
}
"""
KINDS = {
    "bf16": ("polydl_bf16", "polydl_bf16", "float", "dot_bf16"),
    "u8s8": ("uint8_t", "int8_t", "int32_t", "dot_u8i8"),
    "s8u8": ("int8_t", "uint8_t", "int32_t", "dot_i8u8"),
    "s8s8": ("int8_t", "int8_t", "int32_t", "dot_i8i8"),
    "s16": ("int16_t", "int16_t", "int32_t", "dot_i16"),
}


CHANNELS = [(16, 1), (12, 2), (3, 2)]
"""And strides."""
LAYOUTS = ["blocked", "channels-last"]


@X86
@pytest.mark.parametrize(
    ("kind", "layout", "channels", "stride"),
    [(kind, LAYOUTS[(k + n) % 2], *CHANNELS[n]) for k, kind in enumerate(KINDS) for n in range(3)],
)
def test_convolutions(kind: str, layout: str, channels: int, stride: int, tmp_path: Path) -> None:
    a, b, c, product = KINDS[kind]
    blocks = (2, 3) if layout == "blocked" else (1, 1)
    macros = {"TA": a, "TB": b, "TC": c, "IC": channels, "OC": 32, "S": stride, "OB": blocks[0], "IB": blocks[1]}
    small = kind == "bf16"
    macros |= {"VALUE(x)": "polydl_to_float(x)" if small else "(x)"}
    macros |= {"FROM(t, x)": "polydl_to_bf16((float)(x))" if small else "(t)(x)"}
    defined = "".join(f"#define {name} {text}\n" for name, text in macros.items())
    text = f"#include <stdint.h>\n#include <polydl.h>\n{defined}" + (BLOCKED if layout == "blocked" else LAST)
    (tmp_path / "conv.c").write_text(text)
    options = Options(machine="epyc-zen4", threads=2, space="small")
    found = pipeline.optimize(tmp_path / "conv.c", tmp_path / "made.c", options, run=False)
    assert found.output is not None
    made = (tmp_path / "made.c").read_text()
    assert f"polydl_mk_{product}_" in made
    if channels % 4 == 0 and kind != "s8s8":
        assert "pack_A" not in made, "the image has its channels in groups"
    (tmp_path / "made.c").write_text(made.replace("void conv(", "void made("))
    (tmp_path / "original.c").write_text(text.replace("void conv(", "void original("))
    (tmp_path / "main.c").write_text(f"{HARNESS}\n#include <polydl.h>\n{defined}{DRIVER}")
    flags = ["-Og", "-w", "-fopenmp", f"-I{INCLUDE}"]
    run_compiler(["gcc", "-c", *flags, "original.c"], tmp_path)
    run_compiler(["gcc", "-c", *flags, "main.c"], tmp_path)
    for target in ("native", "emulated in AVX2"):
        run_compiler(["gcc", *flags, *TARGETS[target], "made.c", "original.o", "main.o", "-o", "main"], tmp_path)
        ran = run_program([tmp_path / "main"], check=False)
        assert (ran.stdout, ran.returncode) == ("done\n", 0), target


def ranked(kind: str, machine: str) -> NestLoops:
    """The best structure of a product with 16 columns, so that no loop uses a copy of A again."""
    a, b, c, _ = KINDS[kind]
    value = "polydl_to_float" if kind == "bf16" else ""
    text = f"""#include <polydl.h>
void f({c} C[restrict 64][16], const {a} A[restrict 64][96], const {b} B[restrict 96][16])
{{
#pragma scop
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 16; j++)
            for (int k = 0; k < 96; k++)
                C[i][j] += {value}(A[i][k]) * {value}(B[k][j]);
#pragma endscop
}}
"""
    ranking = pipeline.rank(text, "small", machine=machine, threads=1)
    return next(one for v in ranking.variants for one in v.structures if one.kernel is not None)


def test_copies_that_nothing_reuses_are_made() -> None:
    packed = ranked("s8s8", "epyc-zen4")
    assert grouping(packed).product.name == "dot_i8i8"
    assert {pack.operand for pack in packed.packs} == {"A", "B"}
    assert not any(pack.operand == "A" for pack in ranked("u8s8", "epyc-zen4").packs)


def test_copies_count_with_the_bytes_of_their_elements() -> None:
    """Half of what is moved is read, half written: floats in place of bf16 are twice as wide."""
    found = ranked("bf16", "epyc-zen3")
    assert grouping(found).product.name == "fma"
    assert copied_bytes(found, "B") == 3.0
    assert copied_bytes(ranked("bf16", "epyc-zen4"), "B") == 2.0
    assert copied_bytes(ranked("s16", "epyc-zen4"), "B") == 2.0
