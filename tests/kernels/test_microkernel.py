"""The microkernel generator: exactness against the plain twin, memory bounds, registers, warnings, names."""

from __future__ import annotations

import random
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from polydl.kernels import microkernel, reference
from polydl.kernels.microkernel import generate, isa_prologue
from polydl.kernels.microkernel_spec import MicrokernelSpec, Reduction
from polydl.model.types import F32, F64, ElementType
from polydl.target import isa, register_blocks
from polydl.target.isa import ISAS
from tests.compiling import run_compiler, run_program
from tests.kernels import contraction_program
from tests.kernels.contraction_program import Call

COMPILERS = tuple(name for name in ("gcc", "clang") if shutil.which(name))
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-std=gnu11")
QUICK = ("-Og", "-fstrict-aliasing")
"""Where the meaning is asked, not what the compiler makes of it."""
TARGETS = {
    "native": ("-march=native",),
    "avx2": ("-mavx2", "-mfma", "-mno-avx512f"),
    "generic": ("-march=x86-64",),
}

GEMM = MicrokernelSpec(F32, 6, 64, 96, 64, (Reduction(96, 1, 64),))


def convolution(dtype: ElementType, m: int, n: int, ifm: int = 8) -> MicrokernelSpec:
    """m pixels x n channels over 2 ifm tiles and a 3 x 3 filter."""
    row, tap = (m + 2) * ifm, ifm * n
    return MicrokernelSpec(dtype, m, n, ifm, n, (
        Reduction(2, 3 * row, 9 * tap), Reduction(3, row, 3 * tap), Reduction(3, ifm, tap), Reduction(ifm, 1, n),
    ))  # fmt: skip


@cache
def macros(compiler: str, flags: tuple[str, ...]) -> frozenset[str] | None:
    """Names of the predefined macros, None when the compiler does not know the flags."""
    run = run_compiler([compiler, *flags, "-dM", "-E", "-xc", "/dev/null"], check=False)
    return None if run.returncode else frozenset(line.split()[1] for line in run.stdout.splitlines())


def compile_and_run(folder: Path, source: str, compiler: str, flags: tuple[str, ...]) -> str:
    (folder / "program.c").write_text(source)
    command = [compiler, *WARNINGS, *flags, "program.c", "-o", "program", "-lm"]
    run_compiler(command, folder)
    ran = run_program([folder / "program"], check=False)
    assert ran.returncode == 0, f"died with {ran.returncode} after {ran.stdout[-200:]!r}"
    return ran.stdout


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(2))
def test_random_specifications_equal_their_twin(target: str, seed: int, compiler: str, tmp_path: Path) -> None:
    rng = random.Random(f"{target} {seed}")
    specs = [contraction_program.random_spec(rng) for _ in range(12)]
    calls = [
        contraction_program.random_call(rng, index, spec, full=repeat == 0)
        for index, spec in enumerate(specs)
        for repeat in range(5)
    ]
    out = compile_and_run(tmp_path, contraction_program.program(specs, calls), compiler, (*QUICK, *TARGETS[target]))
    assert out == "done\n", [(line, calls[int(line.split()[1])]) for line in out.splitlines()[:-1]]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(2))
def test_random_steps_and_windows_equal_their_twin(target: str, seed: int, compiler: str, tmp_path: Path) -> None:
    """NaN and the signs of zeros come out as C's choices say."""
    rng = random.Random(f"steps {target} {seed}")
    specs = [contraction_program.random_window(rng) for _ in range(14)]
    calls = [
        contraction_program.random_call(rng, index, spec, full=repeat == 0)
        for index, spec in enumerate(specs)
        for repeat in range(4)
    ]
    out = compile_and_run(tmp_path, contraction_program.program(specs, calls), compiler, (*QUICK, *TARGETS[target]))
    assert out == "done\n", [(line, calls[int(line.split()[1])]) for line in out.splitlines()[:-1]]


@pytest.mark.parametrize("level", ["-O0", "-O3"])
@pytest.mark.parametrize("target", TARGETS)
def test_every_remainder_of_a_gemm_and_a_convolution(target: str, level: str, tmp_path: Path) -> None:
    """All row counts, and column counts around every multiple of a vector, in range of guard pages."""
    specs = [MicrokernelSpec(F32, 7, 48, None, 48, (Reduction(5, 1, 48),)), convolution(F64, 5, 24, ifm=4)]
    calls = [
        Call(kernel, m, n, {"a_m": 5})
        for kernel, spec in enumerate(specs)
        for m in range(spec.m + 1)
        for n in range(spec.n + 1)
        if m in (1, spec.m) or n % 8 in (0, 1, 7)
    ]
    out = compile_and_run(tmp_path, contraction_program.program(specs, calls), COMPILERS[0], (level, *TARGETS[target]))
    assert out == "done\n"


@pytest.mark.parametrize("target", TARGETS)
def test_every_remainder_of_windows_of_every_other_element(target: str, tmp_path: Path) -> None:
    """No element beside those that are used is touched: guard pages lie on either side."""
    steps = contraction_program.steps(F64)
    largest = contraction_program.step_of(steps[1], F64, "-INFINITY")
    taps = (Reduction(3, 99, 3), Reduction(3, 1, 1))
    specs = [
        MicrokernelSpec(F32, 4, 40, 198, 40, taps, window=2, scalar_b=True),
        MicrokernelSpec(F32, 2, 17, None, 40, (Reduction(None, 1, 1),), window=2, scalar_b=True),
        MicrokernelSpec(F64, 3, 24, 198, 24, taps, beta=0, step=largest, window=2, scalar_b=True),
    ]
    calls = [
        Call(kernel, m, n, {"a_m": 50, "extent0": 3})
        for kernel, spec in enumerate(specs)
        for m in (1, spec.m)
        for n in range(1, spec.n + 1)
    ]
    out = compile_and_run(tmp_path, contraction_program.program(specs, calls), COMPILERS[0], ("-O0", *TARGETS[target]))
    assert out == "done\n"


def test_a_wrong_result_and_a_read_out_of_range_are_noticed(tmp_path: Path) -> None:
    """The harness itself can fail."""
    call = Call(0, 6, 64, {})
    source = contraction_program.program([GEMM], [call])
    name = generate(GEMM).name
    wrong = source.replace("load(p)) + sum;", "load(p)) - sum;")
    assert wrong != source
    assert compile_and_run(tmp_path, wrong, COMPILERS[0], ("-O1",)) == "wrong 0\ndone\n"
    beyond = source.replace(f"    {name}(v[0], v[1], A + v[2],", f"    {name}(v[0], v[1], A + v[2] + 1,")
    assert beyond != source
    with pytest.raises(AssertionError, match="died with -"):
        compile_and_run(tmp_path, beyond, COMPILERS[0], ("-O1",))


def innermost_loops(assembly: str) -> list[list[str]]:
    """Bodies of the loops of x86 assembly that hold an FMA or a product and no other loop."""
    lines = [line.strip() for line in assembly.splitlines()]
    labels = {line[:-1]: number for number, line in enumerate(lines) if re.fullmatch(r"\.L\w+:", line)}
    jumps = [(number, re.fullmatch(r"j\w+\s+(\.L\w+)", line)) for number, line in enumerate(lines)]
    spans = [(labels[jump[1]], number) for number, jump in jumps if jump and labels.get(jump[1], number) < number]
    loops = [s for s in spans if not any(o != s and s[0] <= o[0] and o[1] <= s[1] for o in spans)]
    bodies = [lines[first:last] for first, last in loops]
    return [body for body in bodies if any("fmadd" in line for line in body)]


def spills(body: list[str]) -> list[str]:
    """Instructions that move vectors to or from the stack."""
    return [line for line in body if re.search(r"%[xyz]mm", line) and re.search(r"\(%r[sb]p[,)]", line)]


def assembly_of(folder: Path, specs: list[MicrokernelSpec], flags: tuple[str, ...]) -> str:
    """Assembly of the full-block path of each specification."""
    kernels = [generate(spec) for spec in specs]
    parts = list(dict.fromkeys(text for spec in specs for text in microkernel.prologues(spec)))
    for k in kernels:
        arguments = microkernel.parameters(k.spec)[2:]
        declaration = f"void call_{k.name}({', '.join(p.declaration for p in arguments)})"
        passed = ", ".join([str(k.spec.m), str(k.spec.n), *(p.name for p in arguments)])
        parts += [k.text, f"{declaration};\n{declaration} {{ {k.name}({passed}); }}"]
    (folder / "blocks.c").write_text("\n".join(parts))
    command = ["gcc", *WARNINGS, "-O3", *flags, "-S", "blocks.c", "-o", "-"]
    run = run_compiler(command, folder)
    return run.stdout


@pytest.mark.skipif("gcc" not in COMPILERS, reason="reads gcc's assembly")
@pytest.mark.parametrize(
    ("march", "dtype"),
    [("native", F32), ("znver4", F32), ("znver4", F64), ("skylake-avx512", F64), ("haswell", F32), ("haswell", F64)],
    ids=str,
)
def test_no_register_block_spills(march: str, dtype: ElementType, tmp_path: Path) -> None:
    flags = (f"-march={march}",)
    defined = macros("gcc", flags)
    if defined is None:
        pytest.skip(f"this gcc does not know {march}")
    name = "avx512" if "__AVX512F__" in defined else "avx2" if "__AVX2__" in defined else None
    if name is None:
        pytest.skip("no vector FMA here")
    blocks = register_blocks.register_blocks(dtype, isa.isa(name))
    assert len(blocks) >= 10
    specs = [MicrokernelSpec(dtype, m, n, 250, n, (Reduction(250, 1, n),), remainders=False) for m, n in blocks]
    run_time = (Reduction(None, 1, None),)
    specs += [MicrokernelSpec(dtype, m, n, None, None, run_time, remainders=False) for m, n in blocks]
    specs += [replace(convolution(dtype, m, n, ifm=64), remainders=False) for m, n in blocks[:12]]
    far = (Reduction(None, 1, 16),)
    specs += [MicrokernelSpec(dtype, m, n, 5000, n, far, remainders=False, prefetch_rows=64) for m, n in blocks]
    loops = innermost_loops(assembly_of(tmp_path, specs, flags))
    assert len(loops) >= len(specs)
    assert [spills(body) for body in loops if spills(body)] == []


def test_the_spill_test_sees_spills(tmp_path: Path) -> None:
    """Forced to hold more accumulators than there are registers, gcc spills and the test notices."""
    spec = MicrokernelSpec(F32, 8, 32, 250, 32, (Reduction(250, 1, 32),))
    k = generate(spec)
    text = re.sub(r"#define POLYDL_(ROWS|EACH_ROW|WIDTH|EACH_WIDTH|HELD) .*\n", "", k.text)
    forced = "#define POLYDL_ROWS 8\n#define POLYDL_EACH_ROW POLYDL_EACH_8\n#define POLYDL_WIDTH 4\n"
    forced += "#define POLYDL_EACH_WIDTH POLYDL_EACH_4\n#define POLYDL_HELD 4\n"
    call = f"void f(const float *A, const float *B, float *C) {{ {k.name}(8, 32, A, B, C); }}\n"
    (tmp_path / "f.c").write_text(isa_prologue(F32) + forced + text + call)
    command = ["gcc", "-O3", "-march=haswell", "-S", "f.c", "-o", "-"]
    out = run_compiler(command, tmp_path).stdout
    assert any(spills(body) for body in innermost_loops(out))


@pytest.mark.parametrize("target", ISAS, ids=lambda target: target.name)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_blocks_fit_the_registers_and_the_model_is_a_fraction(target: isa.Isa, dtype: ElementType) -> None:
    blocks = register_blocks.register_blocks(dtype, target)
    figures = [register_blocks.efficiency(dtype, target, m, n) for m, n in blocks]
    for (m, n), figure in zip(blocks, figures, strict=True):
        vectors, rest = divmod(n, target.lanes(dtype))
        assert rest == 0
        assert m * vectors + target.scratch + 1 <= target.registers
        assert 0.9 <= figure <= 1.0
    for m, n in ((1, 1), (14, 64), (28, 16), (64, 64), (7, 100)):
        split = register_blocks.split_block(target, dtype, m, n)
        assert split.rows <= m
        beside = split.rows if split.by_rows else split.held
        assert split.rows * split.vectors + beside + target.scratch <= target.registers
        assert 0 < register_blocks.efficiency(dtype, target, m, n) <= 1


def test_a_block_that_divides_is_preferred() -> None:
    avx512 = isa.isa("avx512")
    assert register_blocks.split_block(avx512, F32, 14, 64) == register_blocks.RegisterBlock(
        14, 2, 2, by_rows=False, steps=1
    )
    assert register_blocks.split_block(avx512, F32, 7, 64).rows == 7
    with pytest.raises(ValueError, match="do not fit"):
        register_blocks.cycles(avx512, 8, 4)
    with pytest.raises(KeyError):
        isa.isa("sse9")


def test_neighbouring_loops_with_continuing_strides_become_one() -> None:
    text = generate(convolution(F32, 7, 32, ifm=8)).text
    loops = re.findall(r"for \(ptrdiff_t r\d* = 0; (r\d* < \d+);", text)
    assert loops == 2 * ["r1 < 6", "r < 24"]  # of the blocks one vector wide, and of the others


def test_names_and_parameters() -> None:
    spec = MicrokernelSpec(
        F64, 4, 8, None, None, (Reduction(None, None, None), Reduction(3, 1, 8)), alpha=True,
        epilogue=("polydl_acc = polydl_acc + POLYDL_FETCH(bias + polydl_column);",),
        epilogue_parameters=("const double *bias",),
    )  # fmt: skip
    kernel = generate(spec)
    assert kernel == generate(spec)
    assert re.fullmatch(r"polydl_mk_f64_4x8_knx3_b1_[0-9a-f]{8}", kernel.name)
    assert kernel.parameters == (
        "m", "n", "A", "B", "C", "a_m", "c_m", "extent0", "a_stride0", "b_stride0", "alpha", "bias",
    )  # fmt: skip
    assert generate(GEMM).parameters == ("m", "n", "A", "B", "C")
    assert generate(GEMM).name != generate(MicrokernelSpec(F32, 6, 64, 96, 64, (Reduction(96, 2, 64),))).name
    with pytest.raises(ValueError, match="no scalar twin"):
        reference.reference(spec)


@pytest.mark.parametrize("target", TARGETS)
def test_epilogue_sees_every_element_once(target: str, tmp_path: Path) -> None:
    """C = relu(A*B + bias[column]) + 100 * row, on every remainder."""
    spec = MicrokernelSpec(
        F32, 5, 40, 1, 40, (Reduction(1, 0, 0),), beta=0,
        epilogue=(
            "polydl_acc = polydl_f32_max(polydl_acc + POLYDL_FETCH(bias + polydl_column), polydl_f32_zero());",
            "polydl_acc = polydl_f32_min(polydl_acc, polydl_f32_all(8)) + polydl_f32_all(100 * (float)polydl_row);",
        ),
        epilogue_parameters=("const float *bias",),
    )  # fmt: skip
    kernel = generate(spec)
    source = f"""
#include <stdio.h>
{isa_prologue(F32)}
{kernel.text}
int main(void)
{{
    float A[5], B[40], C[200], bias[40];
    for (int i = 0; i < 40; ++i) B[i] = (float)(i % 5 - 2), bias[i] = (float)(i % 7 - 3);
    for (int i = 0; i < 5; ++i) A[i] = (float)(i - 2);
    for (int m = 0; m <= 5; ++m) for (int n = 0; n <= 40; ++n) {{
        for (int i = 0; i < 200; ++i) C[i] = -1;
        {kernel.name}(m, n, A, B, C, bias);
        for (int i = 0; i < 5; ++i) for (int j = 0; j < 40; ++j) {{
            float x = A[i] * B[j] + bias[j];
            x = (x < 0 ? 0 : x > 8 ? 8 : x) + 100 * (float)i;
            if (C[i * 40 + j] != (i < m && j < n ? x : -1)) {{ printf("wrong %d %d %d %d\\n", m, n, i, j); return 0; }}
        }}
    }}
    printf("done\\n");
    return 0;
}}
"""
    assert compile_and_run(tmp_path, source, COMPILERS[0], (*QUICK, *TARGETS[target])) == "done\n"


def test_rows_are_fetched_ahead_where_the_innermost_reduction_runs_through_them() -> None:
    far = MicrokernelSpec(F32, 9, 48, 5000, 48, (Reduction(None, 1, 48),), prefetch_rows=64)
    assert "__builtin_prefetch(a + i * 5000 + 64)" in generate(far).text
    for other in (
        replace(far, prefetch_rows=0),
        replace(far, a_m=None),
        replace(far, reductions=(Reduction(8, 2, 48),)),
    ):
        assert "__builtin_prefetch" not in generate(other).text


def test_rows_that_the_next_entry_leads_to_are_fetched_and_none_behind_the_last() -> None:
    blocks = (Reduction(None, 64, 256, b_table="int"), Reduction(8, 1, 32))
    spec = MicrokernelSpec(F32, 8, 32, 8, 32, blocks, prefetch_next=True)
    place = "((ptrdiff_t)b_table0[r0 + (r0 + 1 < extent0)] - b_table0[r0]) * 256"
    assert f"__builtin_prefetch(column + {place})" in generate(spec).text
    plain, further = Reduction(None, 64, 256), Reduction(3, 1, 999)
    for other in (
        replace(spec, prefetch_next=False),
        replace(spec, reductions=(plain, blocks[1])),
        replace(spec, reductions=(blocks[0], further, blocks[1])),
    ):
        assert "__builtin_prefetch" not in generate(other).text


def test_a_text_takes_pairs_of_steps_only_where_they_exist() -> None:
    even = MicrokernelSpec(F32, 7, 16, 64, 16, (Reduction(64, 1, 16),))
    assert "_paired(" in generate(even).text
    for reduction, a_m in ((Reduction(63, 1, 16), 64), (Reduction(64, 2, 16), 64), (Reduction(None, 1, 16), 64),
                           (Reduction(64, 1, 16), None)):  # fmt: skip
        assert "_paired(" not in generate(replace(even, reductions=(reduction,), a_m=a_m)).text
    avx512 = isa.isa("avx512")
    assert register_blocks.split_block(avx512, F32, 28, 16, paired=True) == register_blocks.RegisterBlock(
        14, 1, 1, by_rows=False, steps=2
    )
    assert register_blocks.efficiency(F32, avx512, 28, 16, paired=True) == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"m": 0}, "no elements"),
        ({"beta": 2}, "beta"),
        ({"reductions": (Reduction(2, 1, 1),) * 7}, "at most 6"),
        ({"reductions": (Reduction(-1, 1, 1),)}, ">= 0"),
        ({"prefetch": -1}, ">= 0"),
        ({"prefetch_rows": -1}, ">= 0"),
    ],
)
def test_meaningless_specifications_are_refused(change: dict[str, object], message: str) -> None:
    fields: dict[str, object] = {"dtype": F32, "m": 4, "n": 16, "a_m": 8, "c_m": 16, "reductions": ()}
    with pytest.raises(ValueError, match=message):
        MicrokernelSpec(**(fields | change))  # type: ignore[arg-type]
