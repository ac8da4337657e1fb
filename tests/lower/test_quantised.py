"""Quantised products as people write them: a product of bytes in a microkernel that ends with the requantisation, and
the original's results in bits."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.base import resources
from polydl.dependences.nests import Nest, nests
from polydl.inspect.contractions import missed
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.model.types import I32
from polydl.rewrite.canonical import canonical
from polydl.rewrite.materialise import Substituted
from polydl.rewrite.zero_points import ZeroPoints
from polydl.schedule.fusion_groups import plan
from polydl.schedule.loops import NestLoops, apply
from polydl.schedule.ordered import Ordered, ordered
from polydl.schedule.program_tree import program_tree, starting_from_zero
from polydl.schedule.transforms import Microkernel, Pack, Permute, Tile
from polydl.search.fused_variants import into_kernels
from polydl.target.products import BYTES
from tests.compiling import run_compiler, run_program
from tests.oracle.native import PLAIN, QUICK_NATIVE, compile_c
from tests.together import asked

HEAD = """#include <math.h>
#include <stdint.h>
void {name}(const {a} A[restrict {M}][{K}], const {b} B[restrict {K}][{N}], const int32_t bias[restrict {N}],
    const int32_t zb[restrict {N}], const float scales[restrict {N}], float scale, int32_t za, int32_t zc,
    int32_t multiplier, int shift, {c} C[restrict {M}][{N}])
{{
    for (int i = 0; i < {M}; i++)
        for (int j = 0; j < {N}; j++) {{
            {body}
        }}
}}
"""
PLAIN_SUM = "int32_t s = 0; for (int k = 0; k < {K}; k++) s += A[i][k] * B[k][j];"
REQUANTISED = "C[i][j] = (int8_t)lrintf(fminf(fmaxf(s * scale, -128.0f), 127.0f));"
CLAMPED = "v = v < -128 ? -128 : v > 127 ? 127 : v;"

SUMS = {
    "bytes as they are": PLAIN_SUM,
    "a constant": "int32_t s = bias[j]; for (int k = 0; k < {K}; k++) s += (A[i][k] - 3) * B[k][j];",
    "a parameter": "int32_t s = 0; for (int k = 0; k < {K}; k++) s += (A[i][k] - za) * B[k][j];",
    "of B, for each column": "int32_t s = 0; for (int k = 0; k < {K}; k++) s += A[i][k] * (B[k][j] - zb[j]);",
    "both": "int32_t s = bias[j]; for (int k = 0; k < {K}; k++) s += (A[i][k] - za) * (B[k][j] - zb[j]);",
    "converted": (
        "int32_t s = 0; for (int k = 0; k < {K}; k++) s += ((int32_t)A[i][k] + za) * ((int32_t)B[k][j] - zb[j]);"
    ),
    "short": "int32_t s = 0; for (int k = 0; k < {K}; k++) s += (int16_t)A[i][k] * (int16_t)B[k][j];",
    "short differences": (
        "int32_t s = 0; for (int k = 0; k < {K}; k++) s += (int16_t)(A[i][k] - 128) * (int16_t)(B[k][j] + 5);"
    ),
    "temporaries": (
        "int32_t s = 0; for (int k = 0; k < {K}; k++) "
        "{{ const int16_t a = A[i][k] - 7; const int32_t b = B[k][j] - zb[j]; s += a * b; }}"
    ),
    "subtracted": "int32_t s = bias[j]; for (int k = 0; k < {K}; k++) s -= (za - A[i][k]) * B[k][j];",
    "from the old value": "int32_t s = C[i][j]; for (int k = 0; k < {K}; k++) s += (A[i][k] - za) * B[k][j];",
    "a bias behind, and a relu": PLAIN_SUM + " s += bias[j]; if (s < 0) s = 0;",
    "another relu": PLAIN_SUM + " s = s + bias[j] > 0 ? s + bias[j] : 0;",
    "for each column and row": "int32_t s = 0; const int32_t z = zb[j]; "
    "for (int k = 0; k < {K}; k++) s += (A[i][k] - za) * (B[k][j] - z);",
}
"""Before REQUANTISED."""

ENDS = {
    "lrintf": "float v = s * scale; " + CLAMPED + " C[i][j] = (int8_t)lrintf(v);",
    "nearbyintf": "float v = nearbyintf((float)s * scales[j]); " + CLAMPED + " C[i][j] = (int8_t)v;",
    "rintf": "float v = rintf(s * scales[j]); if (v < -128.0f) v = -128.0f; if (v > 127.0f) v = 127.0f; C[i][j] = v;",
    "roundf": "float v = roundf(s * scale); v = fmaxf(v, -128.0f); v = fminf(v, 127.0f); C[i][j] = (int8_t)v;",
    "lroundf": "int32_t q = (int32_t)lroundf(s * scale) + zc; q = q < -128 ? -128 : q > 127 ? 127 : q; C[i][j] = q;",
    "floorf": "float v = floorf(s * scale + 0.5f); " + CLAMPED + " C[i][j] = (int8_t)v;",
    "cut off": "float v = s * scale; " + CLAMPED + " C[i][j] = (int8_t)(int)(v + 0.5f);",
    "an integer clamped": (
        "int32_t q = (int32_t)lrintf(s * scale); q += zc; if (q < -128) q = -128; if (q > 127) q = 127; "
        "C[i][j] = (int8_t)q;"
    ),
    "shifted": "s = s >> 7; C[i][j] = (int8_t)(s < -128 ? -128 : s > 127 ? 127 : s);",
    "not clamped": "C[i][j] = (int8_t)(lrintf(s * scale) + zc);",
}
"""Behind PLAIN_SUM."""


def in_microkernels(text: str) -> tuple[str, list[tuple[str, int]]]:
    """C with the sums of functions in microkernels of bytes. Of each function the code, and how many nests its
    microkernel ends with."""
    loaded = polydl.load(text)
    pieces, said = [], []
    for scop in loaded.scops:
        program = canonical(scop)
        parts = nests(program.scop, program.dependences)
        structures = [
            Ordered.nest(_in_blocks(nest)) if nest.contraction is not None else ordered(nest, ()) for nest in parts
        ]
        refused: dict[str, None] = {}
        fused = into_kernels(program.scop, structures, plan(parts).groups, refused)
        pieces.append((scop, generate(program.scop, program_tree(fused))))
        zeros = starting_from_zero(fused).values()
        said.append((pieces[-1][1].region, sum(one.into is not None and one.name not in zeros for one in fused)))
    return splice(loaded.source, pieces, ""), said


def _in_blocks(nest: Nest) -> NestLoops:
    """Two blocks along the sum where it is long enough, so that one begins and another one ends it."""
    found = nest.contraction
    assert found is not None
    (columns, *_), (inner, *_) = found.columns(), found.reductions[::-1]
    (rows, *_) = found.rows(columns)
    cut = (nest.counts[inner].extent or 0) > 16
    reduction = f"{inner}.1" if cut else inner
    others = [loop for loop in nest.loops if loop != inner]
    made = apply(nest, [
        *([Tile(inner, (16,))] if cut else []),
        Microkernel(rows, columns, 3, 32, (reduction,), product=BYTES if found.element is I32 else ""),
        Permute((*others, *([f"{inner}.0"] if cut else []))),
    ])  # fmt: skip
    for operand in ("B", "A"):
        made = Pack(operand, "").applied(made)
    return made


def source(body: str, name: str, sizes: tuple[int, int, int], types: tuple[str, str, str]) -> str:
    m, n, k = sizes
    a, b, c = types
    return HEAD.format(name=name, a=a, b=b, c=c, M=m, N=n, K=max(k, 1), body=body.format(K=k))


ORIGINAL = (*PLAIN, "-fno-tree-vectorize")
EXACT = "-ffp-contract=off"
"""Fused multiplications and additions would round differently, in the original or in what is written."""
MACHINES = {
    "this one": (EXACT,),
    "emulated": (EXACT, "-DPOLYDL_EMULATE", f"-I{resources.headers()}"),
    "AVX2": (EXACT, "-mno-avx512f"),
    "SSE": (EXACT, "-mno-avx"),
}
RANGES = {"uint8_t": np.uint8, "int8_t": np.int8, "int32_t": np.int32, "float": np.float32}


def bytes_of(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Numbers at random, the least and the greatest among them."""
    info = np.iinfo(RANGES[kind])
    found = rng.integers(info.min, info.max, shape, dtype=RANGES[kind], endpoint=True)
    edges = np.array([info.min, info.max, 0, info.max], dtype=RANGES[kind])
    found.flat[: min(4, found.size)] = edges[: found.size]
    return found


def same_bits(
    functions: Sequence[Callable[..., object]], sizes: tuple[int, int, int], types: tuple[str, str, str]
) -> np.ndarray:
    """Both functions on the same data, the results held equal."""
    m, n, k = sizes
    rng = np.random.default_rng(7)
    results = []
    a, b = bytes_of(types[0], (m, max(k, 1)), rng), bytes_of(types[1], (max(k, 1), n), rng)
    bias, zb = (rng.integers(low, high, n, dtype=np.int32) for low, high in ((-20000, 20000), (-128, 128)))
    scales = rng.uniform(0.0001, 0.01, n).astype(np.float32)
    # Products that end in a half, so that it shows how they are rounded.
    scale = 0.5 if k < 8 else 2.0**-8
    old = rng.integers(-100, 100, (m, n)).astype(RANGES[types[2]])
    for function in functions:
        c = old.copy()
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, bias, zb, scales)]
        numbers = (ctypes.c_float(scale), 131, -3, 1518500250, 9)
        function(*pointers, *numbers, ctypes.c_void_p(c.ctypes.data))
        results.append(c)
    np.testing.assert_array_equal(results[0].view(np.uint8), results[1].view(np.uint8))
    return results[0]


@dataclass(frozen=True, slots=True)
class Case:
    """A function's body."""

    body: str
    types: tuple[str, str, str] = ("uint8_t", "int8_t", "int8_t")
    """Of A, B and C."""
    ends: bool = True
    """Whether the microkernel ends with it."""
    own: str = ""
    """C before the function."""


SIZES = (7, 37, 23)


@cache
def built(cases: tuple[Case, ...]) -> tuple[ctypes.CDLL, list[ctypes.CDLL]]:
    """The functions as they are, and in microkernels for each of MACHINES: f0, f1, … of one file."""
    head = "#include <math.h>\n#include <stdint.h>\n" + "".join(dict.fromkeys(case.own for case in cases))
    text = head + "".join(source(case.body, f"f{k}", SIZES, case.types) for k, case in enumerate(cases))
    written, made = in_microkernels(text)
    for case, (region, fused) in zip(cases, made, strict=True):
        assert "polydl_mk_dot_" in region, case
        assert bool(fused) == case.ends, case
    return compile_c([text], ORIGINAL), [compile_c([written], (*QUICK_NATIVE, *flags)) for flags in MACHINES.values()]


def checked(cases: Mapping[str, Case], case: str, request: pytest.FixtureRequest) -> None:
    names = asked(request, "case")
    original, libraries = built(tuple(cases[name] for name in names))
    function = f"f{names.index(case)}"
    for library in libraries:
        same_bits((original[function], library[function]), SIZES, cases[case].types)


@pytest.mark.parametrize("case", list(SUMS))
def test_zero_points(case: str, request: pytest.FixtureRequest) -> None:
    checked({name: Case(f"{body} {REQUANTISED}") for name, body in SUMS.items()}, case, request)


@pytest.mark.parametrize("case", list(ENDS))
def test_ends(case: str, request: pytest.FixtureRequest) -> None:
    checked({name: Case(f"{PLAIN_SUM} {body}") for name, body in ENDS.items()}, case, request)


OWN = """
static inline int clamp(int v, int low, int high) { return v < low ? low : v > high ? high : v; }
static inline float limited(float v, float low, float high)
{
    if (v < low)
        return low;
    if (v > high)
        return high;
    return v;
}
static inline int8_t saturated(int32_t v)
{
    if (v > 127)
        return 127;
    else if (v < -128)
        return -128;
    return (int8_t)v;
}
static inline int32_t multiplied(int32_t a, int32_t b)
{
    int64_t ab = (int64_t)a * (int64_t)b;
    int32_t nudge = ab >= 0 ? (1 << 30) : (1 - (1 << 30));
    int32_t high = (int32_t)((ab + nudge) / (1ll << 31));
    return a == b && a == INT32_MIN ? INT32_MAX : high;
}
static inline int32_t divided(int32_t x, int exponent)
{
    const int32_t mask = (int32_t)((1ll << exponent) - 1);
    const int32_t remainder = x & mask;
    const int32_t threshold = (mask >> 1) + (x < 0);
    return (x >> exponent) + (remainder > threshold);
}
"""
FUNCTIONS = {
    "clamped": "C[i][j] = (int8_t)clamp((int)lrintf(s * scale) + zc, -128, 127);",
    "clamped in float": "C[i][j] = (int8_t)lrintf(limited((float)s * scale + (float)zc, -128.0f, 127.0f));",
    "saturated": "C[i][j] = saturated((s + bias[j] + 64) >> 7);",
    "gemmlowp's": "s += bias[j]; C[i][j] = saturated(divided(multiplied(s, multiplier), shift) + zc);",
    "half away from zero": "float v = s * scale; int q = (int)(v + (v >= 0 ? 0.5f : -0.5f)); C[i][j] = saturated(q);",
    "else if": (
        "int q = (int)lrintf(s * scale); if (q < -128) q = -128; else if (q > 127) q = 127; C[i][j] = (int8_t)q;"
    ),
    "else if that stores": (
        "int q = (int)roundf(s * scale); if (q < -128) C[i][j] = -128; else if (q > 127) C[i][j] = 127; "
        "else C[i][j] = (int8_t)q;"
    ),
}
"""Behind PLAIN_SUM, with functions of the file and chains of conditions."""

FIXED_POINT = (
    "int64_t p = (int64_t)s * multiplier; p = (p + ((int64_t)1 << (30 + shift))) >> (31 + shift); "
    "p = p < -128 ? -128 : p > 127 ? 127 : p; C[i][j] = (int8_t)p;"
)
GEMMLOWP = (
    "s += bias[j]; int32_t q = (int32_t)(((int64_t)s * multiplier + (1LL << 30)) >> 31); q = (q + 4) >> 3; q += zc; "
    "q = q < -128 ? -128 : q; q = q > 127 ? 127 : q; C[i][j] = (int8_t)q;"
)
OTHERS = {
    "signed bytes": (SUMS["both"] + REQUANTISED, ("int8_t", "int8_t", "int8_t"), True),
    "unsigned bytes": (SUMS["both"] + REQUANTISED, ("uint8_t", "uint8_t", "int8_t"), True),
    "the other way round": (SUMS["both"] + REQUANTISED, ("int8_t", "uint8_t", "int8_t"), True),
    "to unsigned bytes": (
        SUMS["both"] + " float v = fminf(fmaxf(rintf(s * scale) + 128, 0), 255); C[i][j] = (uint8_t)v;",
        ("uint8_t", "int8_t", "uint8_t"),
        True,
    ),
    "to int": (SUMS["both"] + " C[i][j] = s;", ("uint8_t", "int8_t", "int32_t"), True),
    "added to int": (SUMS["both"] + " C[i][j] += s;", ("uint8_t", "int8_t", "int32_t"), True),
    "to float": (SUMS["both"] + " C[i][j] = s * scales[j];", ("uint8_t", "int8_t", "float"), True),
    "in 64 bits": (PLAIN_SUM + FIXED_POINT, ("uint8_t", "int8_t", "int8_t"), True),
    "gemmlowp": (PLAIN_SUM + GEMMLOWP, ("uint8_t", "int8_t", "int8_t"), True),
}
"""Body, types of A, B and C, whether the microkernel ends with it."""


@pytest.mark.parametrize("case", list(OTHERS))
def test_types(case: str, request: pytest.FixtureRequest) -> None:
    checked({name: Case(*other) for name, other in OTHERS.items()}, case, request)


@pytest.mark.parametrize("case", list(FUNCTIONS))
def test_functions_of_the_file(case: str, request: pytest.FixtureRequest) -> None:
    checked({name: Case(f"{PLAIN_SUM} {body}", own=OWN) for name, body in FUNCTIONS.items()}, case, request)


@pytest.mark.parametrize("k", [0, 1, 2, 3, 4, 5, 63, 64, 65, 70])
def test_lengths(k: int) -> None:
    """Odd numbers of rows and columns, all lengths of the sum."""
    sizes, types = (5, 33, k), ("uint8_t", "int8_t", "int8_t")
    body = SUMS["both"] + REQUANTISED
    text = source(body, "f", sizes, types)
    written, _ = in_microkernels(text)
    libraries = compile_c([text], ORIGINAL), compile_c([written], (*QUICK_NATIVE, *MACHINES["this one"]))
    same_bits([library.f for library in libraries], sizes, types)


def test_nothing_saturates() -> None:
    """PyTorch's own paths without VNNI give 1,048,544 here (VPMADDUBSW)."""
    text = source(SUMS["bytes as they are"] + " C[i][j] = s;", "after", (3, 5, 64), ("uint8_t", "int8_t", "int32_t"))
    written, _ = in_microkernels(text)
    a, b = np.full((3, 64), 255, dtype=np.uint8), np.full((64, 5), 127, dtype=np.int8)
    for flags in MACHINES.values():
        library = compile_c([written], (*QUICK_NATIVE, *flags))
        c = np.zeros((3, 5), dtype=np.int32)
        empty = ctypes.c_void_p(None)
        pointers = (ctypes.c_void_p(a.ctypes.data), ctypes.c_void_p(b.ctypes.data), empty, empty, empty)
        library.after(*pointers, ctypes.c_float(1), 0, 0, 0, 0, ctypes.c_void_p(c.ctypes.data))
        assert (c == 2_072_640).all()


LONG = """#include <stdint.h>
#include <stdio.h>
#include <string.h>
enum {{ K = 70000 }};
static void f(int32_t C[restrict 2][3], const {a} A[restrict 2][K], const {b} B[restrict K][3], int32_t za)
{{
#pragma scop
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < K; k++)
                C[i][j] {op} (A[i][k] - za) * B[k][j];
#pragma endscop
}}
static {a} A[2][K];
static {b} B[K][3];
int main(void)
{{
    int32_t C[2][3] = {{ {{ 7 }} }};
    for (int k = 0; k < K; k++)
        A[0][k] = A[1][k] = {most}, B[k][0] = B[k][1] = B[k][2] = 127;
    f(C, A, B, {most});
    for (int i = 0; i < 6; i++)
        printf("%d ", C[i / 3][i % 3]);
    return 0;
}}
"""


@pytest.mark.parametrize("op", ["+=", "-="])
@pytest.mark.parametrize(("a", "b", "most"), [("uint8_t", "int8_t", 255), ("uint16_t", "uint16_t", 65535)])
def test_plain_loops_do_not_overflow(a: str, b: str, most: int, op: str, tmp_path: Path) -> None:
    """255 * 127 * 70,000 is more than an int holds; what the original adds is always zero."""
    text = LONG.format(a=a, b=b, most=most, op=op)
    loaded = polydl.load(text)
    program = canonical(loaded.scops[0])
    assert any(isinstance(step.rewrite, ZeroPoints) for step in program.steps)
    plain = generate(
        program.scop, program_tree([ordered(nest, ()) for nest in nests(program.scop, program.dependences)])
    )
    written = splice(loaded.source, [(loaded.scops[0], plain)], "")

    def run(c: str) -> tuple[int, str]:
        (tmp_path / "f.c").write_text(c)
        checked = ("-fsanitize=signed-integer-overflow", "-fno-sanitize-recover=all", "-fopenmp")
        run_compiler(["gcc", "-O1", *checked, "f.c", "-o", "f", "-lm"], tmp_path)
        ran = run_program([tmp_path / "f"], check=False)
        return ran.returncode, ran.stdout

    assert run(text) == run(written) == (0, "7 0 0 0 0 0 ")
    signed = re.sub(r"\(unsigned int\)", "(int)", written)
    assert signed != written
    assert run(signed)[0] != 0


def test_what_is_refused_is_said() -> None:
    """The number of terms differs at the border, and so does what a zero point adds."""
    text = """#include <stdint.h>
void f(int32_t C[restrict 9][9], const uint8_t A[restrict 9][12], const int8_t B[restrict 12][9], int32_t za)
{
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 9; j++)
            for (int k = 0; k < i; k++)
                C[i][j] += (A[i][k] - za) * B[k][j];
}
"""
    program = canonical(polydl.load(text).scops[0])
    (said,) = missed(program.scop, program.dependences)
    assert said.span.line == 7
    assert said.reason.startswith("zero points stay in the sum: the loops around S0 are no box, so")


def test_a_check_finds_another_program() -> None:
    """The check of each step looks at the programs, not at who made them."""
    body = SUMS["temporaries"] + " float v = s * scale; C[i][j] = (int8_t)rintf(v);"
    scop = polydl.load(source(body, "f", (7, 9, 5), ("uint8_t", "int8_t", "int8_t"))).scops[0]
    steps = [s for s in canonical(scop).steps if isinstance(s.rewrite, ZeroPoints | Substituted)]
    assert {type(s.rewrite) for s in steps} == {ZeroPoints, Substituted}
    for step in steps:
        assert step.broken() is None
        shorter = replace(step.after, statements=step.after.statements[:-1])
        assert step.rewrite.broken(step.before, shorter) is not None


BRAIN = """#include <polydl.h>
void {name}(const polydl_bf16 A[restrict 7][23], const polydl_bf16 B[restrict 23][37], const float bias[restrict 37],
    polydl_bf16 C[restrict 7][37])
{{
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 37; j++) {{
            float s = 0;
            for (int k = 0; k < 23; k++)
                s += polydl_to_float(A[i][k]) * polydl_to_float(B[k][j]);
            s += bias[j];
            if (s < 0)
                s = 0;
            C[i][j] = polydl_to_bf16(s);
        }}
}}
"""


@pytest.mark.parametrize("machine", list(MACHINES))
def test_sums_of_brain_floats_are_stored_as_such(machine: str) -> None:
    """Whole numbers, of which sums are exact and what is stored is not."""
    written, [(_, fused)] = in_microkernels(BRAIN.format(name="after"))
    assert fused
    assert "polydl_mk_dot_bf16_" in written
    include = f"-I{resources.headers()}"
    libraries = (
        compile_c([BRAIN.format(name="before")], (*PLAIN, include)),
        compile_c([written], (*QUICK_NATIVE, *MACHINES[machine], include)),
    )
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-100, 101, shape).astype(np.float32).view(np.uint32) >> 16 for shape in ((7, 23), (23, 37)))
    operands = [x.astype(np.uint16) for x in (a, b)] + [rng.integers(-5000, 5000, 37).astype(np.float32)]
    results = []
    for library, name in zip(libraries, ("before", "after"), strict=True):
        c = np.zeros((7, 37), dtype=np.uint16)
        getattr(library, name)(*(ctypes.c_void_p(x.ctypes.data) for x in (*operands, c)))
        results.append(c)
    np.testing.assert_array_equal(*results)
    assert (results[0] == 0).any()
    assert len(np.unique(results[0])) > 50
