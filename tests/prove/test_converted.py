"""Products of narrow types: copies that convert, or make words of groups, and kernels on words are proved, and a
mistake in any of their calls never passes."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

import polydl
from polydl.lower.emit import Generated, generate
from polydl.lower.instance_marks import without_marks
from polydl.lower.splice import splice
from polydl.options import Options
from polydl.pipeline import rank
from polydl.prove import Proof, prove
from polydl.rewrite.canonical import Canonical
from polydl.search.variant import Variant

OPTIONS = Options(machine="epyc-zen4", threads=2)
"""Its instructions multiply pairs of bf16, and groups of four bytes."""
TILES = Options(machine="xeon-8480plus", threads=2)
"""Its instructions multiply tiles."""


def source(a: str, b: str, c: str, value: str, m: int = 40, n: int = 48) -> str:
    """A product of m rows and n columns, whose reduction ends inside of a word."""
    return (
        f'#include <stdint.h>\n#include "polydl.h"\n'
        f"void f({a} A[restrict {m}][33], {b} B[restrict 33][{n}], {c} C[restrict {m}][{n}])\n"
        f"{{\n    for (int i = 0; i < {m}; i++)\n        for (int j = 0; j < {n}; j++)\n"
        f"            for (int k = 0; k < 33; k++)\n                C[i][j] += {value};\n}}\n"
    )


BF16 = ("polydl_bf16", "polydl_bf16", "float", "polydl_to_float(A[i][k]) * polydl_to_float(B[k][j])")
SOURCES = {
    "bf16": source(*BF16),
    "i8i8": source("int8_t", "int8_t", "int32_t", "A[i][k] * B[k][j]"),
    "u8u8": source("uint8_t", "uint8_t", "int32_t", "A[i][k] * B[k][j]"),
    "u8i8": source("uint8_t", "int8_t", "int32_t", "(int32_t)A[i][k] * (int32_t)B[k][j]"),
    "i16": source("int16_t", "int16_t", "int32_t", "A[i][k] * B[k][j]"),
}
SMALL = {"bf16 in one block": source(*BF16, m=12, n=16)}
"""For mistakes that make so many pieces of larger ones that the proof stops before it says what is wrong."""


@cache
def subject(name: str) -> tuple[Canonical, Variant, Generated]:
    """A program, its first variant whose copies convert, and the text of that with marks."""
    text, tiles, _ = name.partition(" in tiles")
    options = TILES if tiles else OPTIONS
    (scop,) = polydl.load((SOURCES | SMALL)[text], options).scops
    ranking = rank(scop, options=options)
    wanted = "_mk_tile_" if tiles else r"pack_\w+_to_"
    variant = next(v for v in ranking.variants if v.illegal is None and re.search(wanted, v.generated.region))
    return ranking.program, variant, generate(variant.program, variant.tree, instances=True)


def proof(name: str, region: str | None = None, prologue: tuple[str, ...] | None = None) -> Proof:
    """Of the variant, or of another text in place of it."""
    program, variant, named = subject(name)
    named = replace(named, region=region or named.region, prologue=prologue or named.prologue)
    plain = replace(named, region=without_marks(named.region))
    texts = [splice(program.read.source, [(program.read, piece)], "") for piece in (plain, named)]
    return prove(program, *texts, rewritten=variant.program)


@pytest.mark.parametrize("name", [*SOURCES, "bf16 in tiles", "i8i8 in tiles", "u8i8 in tiles"])
def test_products_of_words_are_proved(name: str) -> None:
    found = proof(name)
    assert found.holds, found.reason
    kind = "tile" if "tiles" in name else "dot"
    assert any(f"polydl_mk_{kind}_" in line for line in found.trusted), "what words are multiplied by is not read"


MUTANTS = {
    "bf16 in tiles": (
        (r"&A\[(.*?)\]\[0\]", r"&A[\1][1]"),
        (r"(, polydl_S0_pack_A)(.*?), polydl", r"\1\2 + 1, polydl"),
        (r" +polydl_pack_.*\n", ""),
        (r"polydl_scratch\(\d+", "polydl_scratch(1024"),
        (r"(polydl_scratch\(\d+)", r"\1 / 8"),
        (r" *#pragma omp for.*\n", ""),
    ),
    "i8i8 in tiles": ((r"(, polydl_S0_pack_B)(.*?), &C", r"\1\2 + 1, &C"), (r"&B\[0\]\[", "&B[1][")),
    "bf16": (
        (r"&A\[(.*?)\]\[0\]", r"&A[\1][1]"),
        (r"&B\[0\]\[", "&B[1]["),
        (r"c0 <= (\d+);", r"c0 < \1;"),
        (r" +polydl_pack_.*\n", ""),
        (r"&C\[", "&C[1 + "),
        (r"(polydl_scratch.*?\d\d+)", r"\1 / 4"),
        (r"(polydl_each = \d\d+)", r"\1 / 4"),
    ),
    "bf16 in one block": ((r"(_mk_\w+\(.*?), (polydl_S0_pack_A.*?), (polydl_S0_pack_B.*?), &C", r"\1, \3, \2, &C"),),
    "i8i8": (
        (r"&A\[(.*?)\]\[0\]", r"&A[\1][1]"),
        (r"&B\[0\]\[", "&B[1]["),
        (r"(_mk_\w+\(.*?), (polydl_S0_pack_A.*?), (polydl_S0_pack_B.*?), &C", r"\1, \3, \2, &C"),
        (r"(, polydl_S0_pack_B)(.*?), &C", r"\1\2 + 1, &C"),
        (r" +polydl_pack_.*\n", ""),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "place"), [(name, k) for name, every in MUTANTS.items() for k in range(len(every))])
def test_a_mistake_in_a_call_is_never_proved(name: str, place: int) -> None:
    _, _, named = subject(name)
    mutant, times = re.subn(*MUTANTS[name][place], named.region, count=1)
    assert times and mutant != named.region
    assert proof(name, mutant).verdict in ("wrong", "open")


CONTRACTS = {
    "bf16 in tiles": (
        (r", 16 of a step side by side", ""),
        (r"A\[i\*16 \+", "A[i*1 +"),
        (r"sum over r < (\d+)x16 of", r"sum over r < \1x15 of"),
    ),
    "i8i8 in tiles": ((r"and 64", "and 4"), (r"tile_i8i8\(A", "tile_u8i8(A")),
    "i8i8": (
        (r"; then -128 times", "; then -127 times"),
        (r"; then -128 times the sums of the columns", ""),
        (r"; highest bits inverted", ""),
        (r"in words of 4 neighbours", "in words of 2 neighbours"),
        (r"dot_i8i8\(A", "dot_u8i8(A"),
        (r"sum over r < (\d+) of", "sum over r < 8 of"),
        (r"\* B\[j \+ r0\*(\d+)\]|, B\[j \+ r0\*(\d+)\]", ", B[j + r0*47]"),
    ),
    "bf16": (
        (r"source\[w\*33", "source[w*32"),
        (r"in words of 2 neighbours along r0", ""),
        (r"dot_bf16\(A", "dot_i16(A"),
    ),
    "bf16 in one block in tiles": ((r", 16 of a step side by side", ", 8 of a step side by side"),),
    "bf16 in one block": ((r"A\[i\*1 \+", "A[i*2 +"),),
}


@pytest.mark.parametrize(("name", "place"), [(name, k) for name, every in CONTRACTS.items() for k in range(len(every))])
def test_calls_that_do_not_fit_what_is_said_are_never_proved(name: str, place: int) -> None:
    """Another correction, group or stride above a function than its calls are made for."""
    _, _, named = subject(name)
    pattern, new = CONTRACTS[name][place]
    mutant = tuple(re.sub(pattern, new, piece, count=1) if piece.startswith("/* co") or "/* C[" in piece else piece
                   for piece in named.prologue)  # fmt: skip
    assert mutant != named.prologue
    assert proof(name, prologue=mutant).verdict in ("wrong", "open")


BODIES = {
    "bf16": (
        (r"if \(there == 1\)", "if (there == 3)"),
        (r"from\[i \* width_stride\], 0\)", "0, from[i * width_stride])"),
        (r"to\[i\] = polydl_word_2\(from\[i \* width_stride\],", "to[i] = polydl_word_2(from[i * width_stride + 1],"),
        (r"r0 < 33; r0 \+= 2", "r0 < 32; r0 += 2"),
        (r"packed \+= (\d+);", r"packed += \1 + 1;"),
    ),
    "i8i8": (
        (r"\^ 0x80\)", "^ 0x40)"),
        (r"\(from\[i \* width_stride\] \^ 0x80\)", "from[i * width_stride]"),
        (r" \^ 0x80808080u", ""),
        ("0x80808080u", "0x80808000u"),
        (r"near_4\(from \+ i", "near_4(from + 1 + i"),
    ),
}


@pytest.mark.parametrize(("name", "place"), [(name, k) for name, every in BODIES.items() for k in range(len(every))])
def test_a_mistake_in_the_body_of_a_copy_is_wrong(name: str, place: int) -> None:
    _, _, named = subject(name)
    pattern, new = BODIES[name][place]
    mutant = tuple(re.sub(pattern, new, piece) if piece.startswith("/* copied") else piece for piece in named.prologue)
    assert mutant != named.prologue
    assert proof(name, prologue=mutant).verdict == "wrong"
