"""The bodies of generated functions, run on symbols: what holds is shown, and a mistake in any of them is found."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from pycparser import c_ast, c_parser

from polydl.kernels.microkernel import generate
from polydl.kernels.microkernel_spec import MicrokernelSpec, Reduction
from polydl.kernels.packing import PackLoop, PackSpec, pack_routine
from polydl.lower.emit import generate as generate_region
from polydl.lower.instance_marks import without_marks
from polydl.lower.splice import splice
from polydl.model.scop import Scop
from polydl.model.types import F32, F64
from polydl.pipeline import load, rank, with_fused
from polydl.prove import Proof, prove
from polydl.prove.as_plain_c import Parsed, head
from polydl.prove.contracts import kernel_contract, pack_contract
from polydl.prove.integers import Unreadable, Wrong
from polydl.prove.kernel_bodies import check_kernel, check_pack
from polydl.rewrite.canonical import Canonical
from polydl.target.isa import ISAS, Isa
from tests.compiling import run_compiler
from tests.kernels.contraction_program import step_of, steps
from tests.programs.corpus import catalogue
from tests.prove.mutations import OPTIONS


def functions(text: str, isa: Isa) -> Mapping[str, Any]:
    """The functions of a generated text, read for an instruction set."""
    opening = re.sub(r"#include .*\n", "", head("polydl_", isa)) + "typedef long ptrdiff_t;\n"
    run = run_compiler(["cpp", "-P"], text=opening + text)
    code = re.sub(r"__attribute__\(\(\w+\)\)", "", run.stdout)
    return {e.decl.name: e for e in c_parser.CParser().parse(code).ext if isinstance(e, c_ast.FuncDef)}


LEAST_SUM, LARGEST = step_of(steps(F32)[0], F32), step_of(steps(F64)[1], F64, "-INFINITY")
KERNELS: Sequence[tuple[MicrokernelSpec, Sequence[tuple[int, int]]]] = (
    (MicrokernelSpec(F32, 6, 32, 64, 32, (Reduction(3, 4096, 99), Reduction(64, 1, 32))), [(6, 32), (5, 31), (1, 1)]),
    (MicrokernelSpec(F32, 14, 32, 1, 40, (Reduction(64, 14, 32),), remainders=False), [(14, 32)]),
    (MicrokernelSpec(F64, 8, 24, 100, 32, (Reduction(None, 1, 32),), prefetch_output=True), [(8, 24), (7, 13)]),
    (MicrokernelSpec(F64, 6, 8, 100, 32, (Reduction(64, 1, 32),), negate=True, beta=1), [(6, 8), (6, 3)]),
    (
        MicrokernelSpec(
            F32, 28, 16, 64, 16, (Reduction(3, 4096, 300), Reduction(3, 40, 100), Reduction(16, 1, 16)), prefetch=4,
            prefetch_rows=64,
        ),
        [(28, 16), (9, 16)],
    ),
    (
        MicrokernelSpec(
            F32, 8, 32, 8, 32, (Reduction(None, 64, 256, b_table="int"), Reduction(8, 1, 32)), prefetch_rows=2048,
            prefetch_next=True,
        ),
        [(8, 32), (5, 16)],
    ),
    (MicrokernelSpec(F32, 1, 48, 0, 0, ()), [(1, 48), (1, 47)]),
    (MicrokernelSpec(F32, 8, 8, 8, 8, (Reduction(8, 1, 8),), beta=0), [(8, 8), (7, 5)]),
    (MicrokernelSpec(F64, 4, 2, 3, 2, (Reduction(3, 1, 2),), negate=True), [(4, 2), (3, 1)]),
    (MicrokernelSpec(F32, 5, 3, None, 4, (Reduction(None, 1, 4),), alpha=True), [(5, 3), (1, 1)]),
    (MicrokernelSpec(F64, 4, 48, -131, -131, (Reduction(44, 3, 393),), negate=True), [(4, 48), (3, 17)]),
    (MicrokernelSpec(F32, 6, 32, 64, 32, (Reduction(64, 1, 32),), step=LEAST_SUM), [(6, 32), (5, 7)]),
    (
        MicrokernelSpec(
            F64, 5, 24, 32, 32, (Reduction(3, 32, 3), Reduction(3, 1, 1)), beta=0, step=LARGEST, window=1,
            scalar_b=True,
        ),
        [(5, 24), (4, 3)],
    ),
    (
        MicrokernelSpec(F32, 5, 40, 40, 40, (Reduction(5, 99, 120), Reduction(5, 40, 40)), step=LEAST_SUM, window=1),
        [(5, 40), (2, 17)],
    ),
    (
        MicrokernelSpec(F32, 4, 40, 198, 40, (Reduction(3, 99, 3), Reduction(3, 1, 1)), window=1, scalar_b=True),
        [(4, 40), (1, 8)],
    ),
    (
        MicrokernelSpec(F32, 4, 40, 198, 40, (Reduction(3, 99, 3), Reduction(3, 1, 1)), window=2, scalar_b=True),
        [(4, 40), (1, 8), (3, 39)],
    ),
    (
        MicrokernelSpec(F64, 3, 24, 64, 32, (Reduction(3, 32, 3), Reduction(3, 1, 1)), beta=0, step=LARGEST, window=2),
        [(3, 24), (2, 5)],
    ),
)  # fmt: skip
PACKS: Sequence[tuple[PackSpec, int, tuple[int, ...]]] = (
    (PackSpec(F32, 32, 1, (PackLoop(64, 4096),)), 100, (64,)),
    (PackSpec(F32, 14, 100, (PackLoop(3, 1000), PackLoop(50, 1))), 33, (3, 50)),
    (PackSpec(F64, 14, 100, (PackLoop(3, 1000), PackLoop(50, 7))), 33, (3, 50)),
    (PackSpec(F32, 32, 4096, (PackLoop(4099, 1),)), 64, (4099,)),
    (PackSpec(F64, 6, 128, (PackLoop(None, 1), PackLoop(1, 5))), 12, (128, 1)),
)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("number", range(len(KERNELS)))
def test_kernels_compute_what_is_said(number: int, isa: Isa) -> None:
    spec, sizes = KERNELS[number]
    made = generate(spec)
    comment = made.text.partition("/* ")[2].partition("\n")[0]
    read = functions(made.text, isa)
    contract = kernel_contract(Parsed(None, read, {made.name: comment}, {}), made.name)
    for m, n in sizes:
        check_kernel(read, contract, isa, m, n)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("number", range(len(PACKS)))
def test_packing_functions_copy_what_is_said(number: int, isa: Isa) -> None:
    spec, width, extents = PACKS[number]
    made = pack_routine(spec)
    comment = made.text.partition("/* ")[2].partition(" */")[0]
    read = functions(made.text, isa)
    contract = pack_contract(Parsed(None, read, {}, {made.name: (comment, made.parameters)}), made.name)
    check_pack(read, contract, isa, width, extents)


MISTAKES_IN_KERNELS = (
    (r"held\[v\], acc", "held[0], acc"),
    (r"\bb \+= 32;", "b += 31;"),
    (r"\ba \+= 1;", "a += 2;"),
    (r"r < 64; \+\+r\)", "r < 63; ++r)"),
    (r"r0 < 3;", "r0 < 2;"),
    (r"A \+ r0 \* 4096", "A + r0 * 4095"),
    (r"i \+ POLYDL_ROWS <= 6", "i + POLYDL_ROWS < 6"),
    (r"row\[i \* 64\]", "row[i * 63]"),
    (r"i, v, masked && v == vectors - 1", "i, v, 0"),
    (r"columns - \(vectors - 1\)", "columns - 1 - (vectors - 1)"),
    (r"acc\[i\]\[v\] = (\w+)_zero\(\)", r"acc[0][v] = \1_zero()"),
    (r"j \+= POLYDL_COLUMNS\)", "j += POLYDL_WIDTH)"),
)


@pytest.mark.parametrize("mistake", MISTAKES_IN_KERNELS, ids=lambda m: m[1])
def test_a_mistake_in_a_kernel_is_found(mistake: tuple[str, str]) -> None:
    """In some instruction set, at some size: not each of them uses each line of the text."""
    spec, sizes = KERNELS[0]
    made = generate(spec)
    text, changes = re.subn(*mistake, made.text)
    assert changes
    comment = made.text.partition("/* ")[2].partition("\n")[0]
    found = []
    for isa in ISAS:
        read = functions(text, isa)
        contract = kernel_contract(Parsed(None, read, {made.name: comment}, {}), made.name)
        for m, n in sizes:
            try:
                check_kernel(read, contract, isa, m, n)
            except (Wrong, Unreadable) as error:
                found.append(str(error))
    assert found


MISTAKES_IN_COPIES = (
    (1, r"from \+ i \* width_stride", "from + i * width_stride + 1"),
    (1, r"r0 \* 1000", "r0 * 999"),
    (1, r"line < count / 16", "line < count / 16 - 1"),
    (1, r"count % 16 - r", "count % 16 - r - 1"),
    (1, r"packed \+= steps \* 14", "packed += steps * 13"),
    (0, r"from \+= stride\)", "from += 1)"),
    (0, r"left - w < 0 \? 0 : left - w", "left - w < 1 ? 0 : left - w - 1"),
    (2, r"w \* width_stride", "w"),
)


@pytest.mark.parametrize("mistake", MISTAKES_IN_COPIES, ids=lambda m: m[2])
def test_a_mistake_in_a_copy_is_found(mistake: tuple[int, str, str]) -> None:
    number, old, new = mistake
    spec, width, extents = PACKS[number]
    made = pack_routine(spec)
    text, changes = re.subn(old, new, made.text)
    assert changes
    comment = made.text.partition("/* ")[2].partition(" */")[0]
    for isa in ISAS:
        read = functions(text, isa)
        contract = pack_contract(Parsed(None, read, {}, {made.name: (comment, made.parameters)}), made.name)
        with pytest.raises((Wrong, Unreadable)):
            check_pack(read, contract, isa, width, extents)


@cache
def subject(program: str) -> tuple[Canonical, Scop, str]:
    """A program, its statements as the first variant with generated functions has them, and that variant's text."""
    entry = catalogue()[program]
    values = entry.sizes[0]
    (scop,) = load(entry.path, options=OPTIONS, defines=entry.defines(values), sizes=entry.parameters(values)).scops
    ranking = with_fused(rank(scop, options=OPTIONS), OPTIONS)
    wanted = ("polydl_row_", "polydl_mk_")
    variant = next(v for v in ranking.variants if any(name in v.region() for name in wanted))
    region = generate_region(variant.program, variant.tree, instances=True)
    return ranking.program, variant.program, splice(scop.source, [(scop, region)], "")


def proof_of(program: Canonical, rewritten: Scop, named: str) -> Proof:
    return prove(program, without_marks(named), named, rewritten=rewritten)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("softmax", r"(j \+ \w+ <= n; j \+= )\w+\)", r"\g<1>2)"),
        ("softmax", r"if \(j < n\) ", "if (j + 3 < n) "),
        ("softmax", r"_first\(n - j\)", "_first(n - j - 1)"),
        (
            "gemm_nt",
            r"if \(cut\) (\w+)_store_part\(p, part, polydl_acc\)",
            r"if (cut) \1_store_part(p, part, sum + sum)",
        ),
        ("gemm_nt", r"r < 13; \+\+r\)", "r < 12; ++r)"),
    ],
)
def test_a_mistake_in_a_body_is_found_in_the_whole_file(name: str, old: str, new: str) -> None:
    program, rewritten, named = subject(name)
    proof = proof_of(program, rewritten, named)
    assert proof.holds, proof.reason
    assert any("every instruction set" in line for line in proof.proved)
    assert not any("polydl_" in line for line in proof.trusted)
    changed, changes = re.subn(old, new, named)
    assert changes
    assert not proof_of(program, rewritten, changed).holds


@pytest.mark.parametrize("name", ["distances", "depthwise"])
def test_steps_and_windows_are_proved(name: str) -> None:
    program, rewritten, named = subject(name)
    assert "_mk_" in named
    proof = proof_of(program, rewritten, named)
    assert proof.holds, proof.reason
    assert not any("polydl_mk_" in line for line in proof.trusted)


def test_bias_and_relu_around_a_convolution_are_proved() -> None:
    """What follows the sums reads the output itself: it was taken for the statement that reads the bias."""
    program, rewritten, named = subject("conv_nchw")
    assert "_mk_" in named and "bias[0])" in named
    assert proof_of(program, rewritten, named).holds
