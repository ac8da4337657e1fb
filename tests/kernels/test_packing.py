"""Pack routines: exactness and memory bounds over random layouts, and packed operands under a microkernel."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from polydl.kernels.microkernel import generate, isa_prologue
from polydl.kernels.microkernel_spec import MicrokernelSpec, Reduction
from polydl.kernels.packing import PackLoop, PackSpec, pack_prologue, pack_routine, packed_layout
from polydl.lower.cprint import lines
from polydl.lower.scratch import Scratch
from polydl.model.types import F32, F64
from polydl.target.isa import VECTOR_TYPES
from tests.compiling import run_compiler, run_program
from tests.kernels.contraction_program import HARNESS, spread

TARGETS = {
    "native": ("-march=native",),
    "avx2": ("-mavx2", "-mfma", "-mno-avx512f"),
    "generic": ("-march=x86-64",),
}

CHECK = """
static int check_{name}(const long *v, int at_end)
{{
    /* v: width, width_stride, source offset, source bytes, packed bytes, loops, (extent, stride)..., arguments... */
    guarded s = take((size_t)v[3], at_end), p = take((size_t)v[4], at_end);
    const {t} *source = ({t} *)s.data + v[2];
    {t} *packed = ({t} *)p.data;
    for (size_t i = 0; i < (size_t)v[3] / sizeof *packed; ++i) (({t} *)s.data)[i] = ({t})i + 1;
    for (size_t i = 0; i < (size_t)v[4] / sizeof *packed; ++i) packed[i] = -1;
    const long *argument = v + 18;
    (void)argument;
    {name}(v[0], source, packed{rest});
    long wrong = 0, at = 0;
    for (long panel = 0; panel < v[0]; panel += {block}) {{
        long r[6] = {{ 0 }}, steps = 1;
        for (long i = 0; i < v[5]; ++i) steps *= v[6 + 2 * i];
        for (long step = 0; step < steps; ++step) {{
            long rest = step, offset = 0;
            for (long i = v[5] - 1; i >= 0; --i) {{
                r[i] = rest % v[6 + 2 * i], rest /= v[6 + 2 * i];
                offset += r[i] * v[7 + 2 * i];
            }}
            for (long w = panel; w < panel + {block}; ++w, ++at)
                wrong += packed[at] != (w < v[0] ? source[w * v[1] + offset] : 0);
        }}
    }}
    wrong += at * (long)sizeof *packed != v[4];
    drop(s), drop(p);
    return wrong != 0;
}}
"""

MAIN = """
int main(void)
{
    (void)draw;
    for (int i = 0; i < (int)(sizeof calls / sizeof *calls); ++i) {
        if (calls[i].check(calls[i].v, 0) | calls[i].check(calls[i].v, 1)) printf("wrong %d\\n", i);
        fflush(stdout);
    }
    printf("done\\n");
    return 0;
}
"""


@dataclass(frozen=True, slots=True)
class Call:
    """A call with a value for every argument."""

    spec: PackSpec
    width: int
    integers: dict[str, int]

    def value(self, constant: int | None, name: str) -> int:
        return self.integers[name] if constant is None else constant


def random_spec(rng: random.Random) -> PackSpec:
    """Any layout; half of the time one with unit stride along the width or the innermost reduction."""
    dtype = rng.choice((F32, F64))
    loops = [
        PackLoop(rng.choice((None, rng.randint(0, 5))), rng.choice((None, rng.randint(-30, 30))))
        for _ in range(rng.randint(0, 4))
    ]
    width_stride = rng.choice((1, 1, None, rng.randint(-40, 40), rng.randint(17, 70)))
    if width_stride != 1 and rng.random() < 0.7:
        loops.append(PackLoop(rng.choice((None, rng.randint(2, 40))), 1))
    return PackSpec(dtype, rng.choice((1, 3, 4, 6, 8, 14, 16, 17, 24, 32, 48)), width_stride, tuple(loops))


def random_call(rng: random.Random, spec: PackSpec) -> Call:
    integers = {"width_stride": rng.randint(-40, 40)}
    for i, loop in enumerate(spec.loops):
        integers |= {f"extent{i}": rng.randint(0, 35 if loop.stride == 1 else 4), f"stride{i}": rng.randint(-30, 30)}
    return Call(spec, rng.randint(0, 2 * spec.block + 2), integers)


def row(call: Call) -> str:
    spec = call.spec
    width_stride = call.value(spec.width_stride, "width_stride")
    extents = [call.value(loop.extent, f"extent{i}") for i, loop in enumerate(spec.loops)]
    strides = [call.value(loop.stride, f"stride{i}") for i, loop in enumerate(spec.loops)]
    terms = [(max(1, extent), stride) for extent, stride in zip(extents, strides, strict=True)]
    low, high = spread([(max(1, call.width), width_stride), *terms])
    size = spec.dtype.bytes
    packed = (packed_layout(call.width, extents, spec.block).size or 0) * size
    numbers = [call.width, width_stride, -low, (high - low + 1) * size, packed, len(extents)]
    numbers += [x for pair in zip(extents, strides, strict=True) for x in pair]
    numbers += [0] * (18 - len(numbers))
    routine = pack_routine(spec)
    numbers += [call.integers[name] for name in routine.parameters[3:]]
    return f"    {{ check_{routine.name}, {{ {', '.join(map(str, numbers))} }} }},"


def run(folder: Path, source: str, flags: tuple[str, ...]) -> str:
    (folder / "program.c").write_text(source)
    command = ["gcc", "-Wall", "-Wextra", "-Werror", *flags, "program.c", "-o", "program"]
    run_compiler(command, folder)
    ran = run_program([folder / "program"], check=False)
    assert ran.returncode == 0, f"died with {ran.returncode} after {ran.stdout[-200:]!r}"
    return ran.stdout


def program(calls: list[Call]) -> str:
    parts = [HARNESS]
    parts += [isa_prologue(dtype) + pack_prologue(dtype) for dtype in VECTOR_TYPES]
    for spec in dict.fromkeys(call.spec for call in calls):
        routine = pack_routine(spec)
        rest = "".join(f", argument[{i}]" for i in range(len(routine.parameters) - 3))
        parts += [routine.text, CHECK.format(name=routine.name, t=spec.dtype, block=spec.block, rest=rest)]
    parts.append("static const struct { int (*check)(const long *, int); long v[40]; } calls[] = {")
    return "\n".join([*parts, *map(row, calls), "};", MAIN])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_random_layouts(target: str, level: str, tmp_path: Path) -> None:
    rng = random.Random(target)
    specs = [random_spec(rng) for _ in range(20)]
    assert {spec.width_stride == 1 for spec in specs} == {True, False}
    calls = [random_call(rng, spec) for spec in specs for _ in range(6)]
    out = run(tmp_path, program(calls), (level, *TARGETS[target]))
    assert out == "done\n", [calls[int(line.split()[1])] for line in out.splitlines()[:-1]]


def test_a_wrong_copy_and_a_read_out_of_range_are_noticed(tmp_path: Path) -> None:
    call = Call(PackSpec(F32, 16, 37, (PackLoop(33, 1),)), 20, {})
    source = program([call])
    wrong = re.sub(r"(_transpose\(x\);)", r"\1 x[0] = x[1];", source)
    assert wrong != source
    assert run(tmp_path, wrong, ("-O1", "-march=native")) == "wrong 0\ndone\n"
    name = pack_routine(call.spec).name
    beyond = source.replace(f"{name}(v[0], source,", f"{name}(v[0], source + 1,")
    assert beyond != source
    with pytest.raises(AssertionError, match="died with -"):
        run(tmp_path, beyond, ("-O1", "-march=native"))


@pytest.mark.parametrize("target", TARGETS)
def test_a_microkernel_on_packed_operands(target: str, tmp_path: Path) -> None:
    """C[37][50] = A[2][37][9] (batch, m, k) * transposed B[50][2][9]: panels of 6 rows and 32 columns."""
    m, n, batch, k, block_m, block_n = 37, 50, 2, 9, 6, 32
    pack_a = pack_routine(PackSpec(F32, block_m, k, (PackLoop(batch, m * k), PackLoop(k, 1))))
    pack_b = pack_routine(PackSpec(F32, block_n, batch * k, (PackLoop(batch, k), PackLoop(k, 1))))
    a_layout, b_layout = packed_layout(m, (batch, k), block_m), packed_layout(n, (batch, k), block_n)
    a_panel, *a_strides = a_layout.axis_strides[:3]
    b_panel, *b_strides = b_layout.axis_strides[:3]
    assert (a_panel, a_strides) == (108, [54, 6])
    reductions = tuple(Reduction(e, a, b) for e, a, b in zip((batch, k), a_strides, b_strides, strict=True))
    kernel = generate(MicrokernelSpec(F32, block_m, block_n, 1, n, reductions, beta=0))
    source = f"""
#include <stdio.h>
{isa_prologue(F32)}{pack_prologue(F32)}{pack_a.text}{pack_b.text}{kernel.text}
static float A[{batch * m * k}], B[{n * batch * k}], C[{m * n}];
static float packed_a[{a_layout.size}], packed_b[{b_layout.size}];
int main(void)
{{
    for (int i = 0; i < {batch * m * k}; ++i) A[i] = (float)(i % 7 - 3);
    for (int i = 0; i < {n * batch * k}; ++i) B[i] = (float)(i % 5 - 2);
    {pack_a.name}({m}, A, packed_a);
    {pack_b.name}({n}, B, packed_b);
    for (int i = 0; i < {m}; i += {block_m}) for (int j = 0; j < {n}; j += {block_n})
        {kernel.name}({m} - i < {block_m} ? {m} - i : {block_m}, {n} - j < {block_n} ? {n} - j : {block_n},
            packed_a + i / {block_m} * {a_panel}, packed_b + j / {block_n} * {b_panel}, C + i * {n} + j);
    for (int i = 0; i < {m}; ++i) for (int j = 0; j < {n}; ++j) {{
        float sum = 0;
        for (int b = 0; b < {batch}; ++b) for (int r = 0; r < {k}; ++r)
            sum += A[(b * {m} + i) * {k} + r] * B[(j * {batch} + b) * {k} + r];
        if (C[i * {n} + j] != sum) {{ printf("wrong %d %d\\n", i, j); return 0; }}
    }}
    printf("done\\n");
    return 0;
}}
"""
    assert run(tmp_path, source, ("-O2", *TARGETS[target])) == "done\n"


def test_names_parameters_and_refusals() -> None:
    spec = PackSpec(F64, 24, None, (PackLoop(None, 1), PackLoop(3, None)))
    routine = pack_routine(spec)
    assert routine == pack_routine(spec)
    assert routine.parameters == ("width", "source", "packed", "width_stride", "extent0", "stride1")
    assert re.fullmatch(r"polydl_pack_f64_24_knx3_[0-9a-f]{8}", routine.name)
    assert packed_layout(25, (2, 3), 24).size == 2 * 24 * 6
    with pytest.raises(ValueError, match="a panel of 0"):
        PackSpec(F32, 0, 1, ())
    with pytest.raises(ValueError, match="at most 6"):
        PackSpec(F32, 8, 1, (PackLoop(2, 2),) * 7)
    with pytest.raises(ValueError, match="extents"):
        PackSpec(F32, 8, 1, (PackLoop(-1, 2),))


def test_threads_buffers_lie_behind_shared_ones_reserved_later() -> None:
    scratch = Scratch()
    own = scratch.reserve("polydl_own_pack", F32, 100, shared=False)
    line = scratch.thread_line(own)
    scratch.reserve("polydl_shared", F64, 5000)
    text = "\n".join(text for node in scratch.around([line], "original;") for text in lines(node, 1))
    assert "polydl_scratch(8192 + (size_t)polydl_threads() * 4096)" in text
    assert "polydl_own = polydl_memory + 8192" in text
    assert "polydl_each = 4096" in text
    assert scratch.memory.total(3) == 8192 + 3 * 4096
