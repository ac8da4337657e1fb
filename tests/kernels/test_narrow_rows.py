"""Rows that convert: bfloat16, half and small integers among floats, to the bit, at every length up to 70."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import polydl
from polydl.base.resources import header_flags
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.kernels.narrow_values import converts, row_element
from polydl.lower.emit import Generated, generate
from polydl.lower.splice import splice
from polydl.model.bfloat16 import narrowed, widened
from polydl.model.scop import Scop
from polydl.model.types import BF16_BITS, CHAR, F16, F32, F64, I8, I32, U8, ElementType, element_type
from polydl.prove import prove
from polydl.rewrite.canonical import canonical
from polydl.schedule.ordered import ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.transforms import Vectorize
from tests.oracle.native import compile_c
from tests.together import asked

N = 71
"""Row i has i columns."""
PROGRAMS: dict[str, tuple[str, ...]] = {
    "bf16 scaled": (
        "polydl_bf16 Z, polydl_bf16 X, polydl_bf16 alpha",
        "Z[i][j] = polydl_to_bf16(polydl_to_float(X[i][j]) * polydl_to_float(alpha));",
    ),
    "bf16 to float": ("float Z, polydl_bf16 X, float Y", "Z[i][j] = polydl_to_float(X[i][j]) + Y[i][j];"),
    "float to bf16": ("polydl_bf16 Z, float X", "Z[i][j] = polydl_to_bf16(X[i][j]);"),
    "bf16 in place": (
        "polydl_bf16 Z, float X",
        "Z[i][j] = polydl_to_bf16(polydl_to_float(Z[i][j]) + X[i][j] * 0.5f);",
    ),
    "bf16 chosen": (
        "polydl_bf16 Z, polydl_bf16 X, float Y",
        "Z[i][j] = Y[i][j] > 0 ? X[i][j] : polydl_to_bf16(Y[i][j]);",
    ),
    "bf16 relu in double": ("polydl_bf16 Z, float X", "Z[i][j] = polydl_to_bf16(X[i][j] > 0.0 ? X[i][j] : 0.0);"),
    "half scaled": ("_Float16 Z, _Float16 X, float alpha", "Z[i][j] = (float)X[i][j] * alpha;"),
    "half squared": ("_Float16 Z, _Float16 X", "Z[i][j] = X[i][j] * X[i][j] - X[i][j];"),
    "half negated": ("_Float16 Z, _Float16 X", "Z[i][j] = -X[i][j] / (1.0f + X[i][j] * X[i][j]);"),
    "half rounded within": ("float Z, _Float16 X", "Z[i][j] = (float)(_Float16)(X[i][j] * X[i][j]) + X[i][j];"),
    "halves compared": (
        "_Float16 Z, _Float16 X, _Float16 Y",
        "Z[i][j] = X[i][j] * Y[i][j] > Y[i][j] ? 1.0f : X[i][j] - Y[i][j];",
    ),
    "half by a half": ("_Float16 Z, float X, _Float16 alpha", "Z[i][j] = X[i][j] * alpha;"),
    "arguments are halves": ("_Float16 Z, _Float16 X, _Float16 Y", "Z[i][j] = fmaxf(X[i][j], Y[i][j]) * 2.0f;"),
    "arguments are integers": ("float Z, signed char X, float Y", "Z[i][j] = fminf(X[i][j], Y[i][j]);"),
    "half to bf16": ("polydl_bf16 Z, _Float16 X", "Z[i][j] = polydl_to_bf16((float)X[i][j] - 1.0f);"),
    "forwarded": (
        "polydl_bf16 Z, float W, _Float16 V, float X",
        "Z[i][j] = polydl_to_bf16(X[i][j] * 3.0f);",
        "V[i][j] = X[i][j] * 0.1f;",
        "W[i][j] = polydl_to_float(Z[i][j]) - X[i][j] + (float)V[i][j];",
    ),
    "int8 scaled": ("float Z, signed char X, float alpha", "Z[i][j] = X[i][j] * alpha;"),
    "uint8 with zero point": (
        "float Z, unsigned char X, int za, float alpha",
        "Z[i][j] = (float)(X[i][j] - za) * alpha;",
    ),
    "int16 and uint16": (
        "float Z, short X, unsigned short Y",
        "Z[i][j] = (float)X[i][j] * (float)Y[i][j] + (X[i][j] + Y[i][j]);",
    ),
    "requantised to uint8": (
        "unsigned char Z, int X, float scale, int zero",
        "Z[i][j] = lrintf(fminf(fmaxf((float)X[i][j] * scale + (float)zero, 0.0f), 255.0f));",
    ),
    "requantised to int8": (
        "signed char Z, float X",
        "Z[i][j] = (signed char)fmaxf(-128.0f, fminf(127.0f, nearbyintf(X[i][j] * 2.0f)));",
    ),
    "int16 from rintf": ("short Z, float X", "Z[i][j] = rintf(fmaxf(fminf(X[i][j], 32767.0f), -32768.0f));"),
    "bits of integers": (
        "float Z, unsigned char Y, signed char W, short X",
        "Y[i][j] = (X[i][j] ^ 0x5a) + 3;",
        "W[i][j] = -X[i][j];",
        "Z[i][j] = (float)(Y[i][j] * W[i][j]) * 0.5f;",
    ),
    "bf16 by hand": (
        "unsigned short Z, unsigned short X, float Y",
        "Z[i][j] = rounded(widened(X[i][j]) * Y[i][j]);",
    ),
    "bf16 by hand to float": ("float Z, unsigned short X, float Y", "Z[i][j] = widened(X[i][j]) + Y[i][j];"),
    "weights in halves": (
        "unsigned short H, unsigned short L, float G, float alpha",
        "const float w = joined(H[i][j], L[i][j]) - alpha * G[i][j];",
        "H[i][j] = bits_of(w) >> 16;",
        "L[i][j] = bits_of(w) & 0xffff;",
    ),
    "root by bits": ("float Z, float X", "Z[i][j] = root(X[i][j]);"),
    "sign by bits": (
        "float Z, float X, float Y",
        "union { float f; uint32_t u; } x = {X[i][j]}, y = {.f = Y[i][j]};",
        "x.u = (x.u & 0x7fffffff) | (y.u & 0x80000000u);",
        "Z[i][j] = x.f;",
    ),
    "keys of floats": (
        "unsigned int Z, float X",
        "Z[i][j] = bits_of(X[i][j]) ^ ((bits_of(X[i][j]) >> 31) * 0x7fffffffu | 0x80000000u);",
    ),
    "chosen by a mask": ("float Z, unsigned char M, float X", "Z[i][j] = M[i][j] > 99 ? X[i][j] * 2.0f : 0.0f;"),
    "unsigned comparisons of bits": (
        "float Z, float X",
        "Z[i][j] = (bits_of(X[i][j]) & 0x7fffffffu) > 0x7f800000u ? 0.0f : X[i][j];",
    ),
}
"""Declarations of the arguments, and statements."""
HELPERS = """#include <math.h>
#include <polydl.h>
#include <stdint.h>
#include <string.h>
static inline float widened(uint16_t half)
{
    uint32_t u = (uint32_t)half << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static inline uint32_t bits_of(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
static inline uint16_t rounded(float f)
{
    const uint32_t u = bits_of(f);
    return f != f ? (u >> 16) | 64 : (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}
static inline float joined(uint16_t high, uint16_t low)
{
    union { uint32_t u; float f; } both;
    both.u = (uint32_t)high << 16 | low;
    return both.f;
}
static inline float root(float x)
{
    float y = x;
    int i = *(int *)&y;
    i = 0x5f3759df - (i >> 1);
    y = *(float *)&i;
    return y * (1.5f - 0.5f * x * y * y);
}
"""
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-39, 2.0**-133, 3.4e38, 65504, 65520, 6e-8, 1e-7)
HALVES = (0.5, 1.5, 2.5, -0.5, 127.5, 254.5, 255.5, -128.5)
FLAGS = {
    "avx512": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mfma"),
    "avx512 with bf16": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mfma", "-mavx512bf16"),
    "avx2": ("-mavx2", "-mfma", "-mf16c"),
    "avx2 without half": ("-mavx2", "-mfma"),
    "portable": ("-msse2",),
}
CPU = set(Path("/proc/cpuinfo").read_text().replace("avx512_bf16", "avx512bf16").split())


def text(*names: str) -> str:
    """One file of these programs: functions f0, f1, …"""
    return HELPERS + "".join(function(name, f"f{number}") for number, name in enumerate(names))


def function(name: str, called: str) -> str:
    declared, *body = PROGRAMS[name]
    written = {statement.split("[")[0] for statement in body}
    parameters = []
    for one in declared.split(", "):
        c, _, variable = one.rpartition(" ")
        const = "" if variable in written else "const "
        parameters.append(f"{const}{c} {variable}[restrict {N}][{N}]" if variable.isupper() else f"{c} {variable}")
    return f"""
void {called}({", ".join(parameters)})
{{
#pragma scop
    for (int i = 0; i < {N}; i++)
        for (int j = 0; j < i; j++) {{
            {" ".join(body)}
        }}
#pragma endscop
}}
"""


def in_rows(*scops: Scop, called: str = "") -> list[str]:
    """The file with vector functions, plain and with the marks that the proof reads. `called`: what the code of each
    scop calls."""
    made: list[list[tuple[Scop, Generated]]] = [[], []]
    for scop in scops:
        found = canonical(scop).scop
        parts = [ordered(nest, (Vectorize(),)) for nest in nests(found, dependences(found, reads=False))]
        for marks in (False, True):
            made[marks].append((scop, generate(found, program_tree(parts), instances=marks)))
        assert called in "".join((*made[False][-1][1].prologue, made[False][-1][1].region))
    return [splice(scops[0].source, one, "") for one in made]


def bits(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    return values.view({2: np.uint16, 4: np.uint32}.get(values.itemsize, np.uint8))


def is_nan(values: npt.NDArray[np.generic], element: ElementType) -> npt.NDArray[np.bool_]:
    if element is BF16_BITS:
        return np.isnan(widened(values))
    return np.isnan(values.view(np.float16) if element is F16 else values)


def inputs(name: str) -> list[npt.NDArray[np.generic]]:
    """Every kind of value: all patterns of small types, and of floats what matters most."""
    rng = np.random.default_rng(len(name))
    made: list[npt.NDArray[np.generic]] = []
    special = np.array([*SPECIAL, *HALVES], np.float32)
    for one in PROGRAMS[name][0].split(", "):
        c, _, variable = one.rpartition(" ")
        element = element_type(c)
        shape = (N, N) if variable.isupper() else ()
        if element.is_int and element.bytes <= 2:
            low, high = (0, element.maximum) if element.unsigned else (-element.maximum - 1, element.maximum)
            values = rng.integers(low, high, shape, dtype=np.int64, endpoint=True).astype(element.numpy)
        elif element.is_int:
            values = rng.integers(-1000, 1000, shape).astype(element.numpy)
        elif element.bytes == 2:
            values = rng.integers(0, 2**16, shape).astype(np.uint16)
        else:
            values = np.where(rng.random(shape) < 0.3, rng.choice(special, shape), rng.normal(0, 60, shape)).astype(
                "f4"
            )
        if not shape:
            values = np.asarray({"alpha": 1.7, "scale": 0.37, "za": 128, "zero": 10}[variable])
            if element is BF16_BITS:
                values = np.uint16(0x3FDA)
            values = np.asarray(values, np.uint16 if element is BF16_BITS else element.numpy)
        made.append(values)
    return made


def run(function: Callable[..., object], name: str) -> list[npt.NDArray[np.generic]]:
    """The arrays afterwards. Scalars go through a wrapper, so that C passes them as it passes its types."""
    arrays = [values.copy() for values in inputs(name)]
    function((ctypes.c_void_p * len(arrays))(*(values.ctypes.data for values in arrays)))
    return arrays


def wrapper(name: str, called: str) -> str:
    arguments = []
    for k, one in enumerate(PROGRAMS[name][0].split(", ")):
        c, _, variable = one.rpartition(" ")
        arguments.append(f"p[{k}]" if variable.isupper() else f"*({c} *)p[{k}]")
    return f"\nvoid call_{called}(void **p) {{ {called}({', '.join(arguments)}); }}\n"


@cache
def libraries(names: tuple[str, ...], isa: str) -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The programs as they are, and in rows: functions call_f0, call_f1, …"""
    common = (
        "-ffp-contract=off",
        "-fno-fast-math",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unknown-pragmas",
        "-fno-strict-aliasing",
        *header_flags(),
    )
    if not isa.startswith("avx512"):
        common += ("-mno-avx512f",)
    calls = "".join(wrapper(name, f"f{number}") for number, name in enumerate(names))
    plain = compile_c([text(*names) + calls], ("-Og", *common))
    return plain, compile_c([written(names) + calls], ("-Og", *common, *FLAGS[isa]))


@cache
def written(names: tuple[str, ...]) -> str:
    return in_rows(*polydl.load(text(*names)).scops, called="polydl_row_")[0]


@pytest.mark.parametrize("isa", FLAGS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_bits_as_plain_c(name: str, isa: str, request: pytest.FixtureRequest) -> None:
    if not {flag.removeprefix("-m") for flag in FLAGS[isa]} <= CPU:
        pytest.skip(f"the processor has no {isa}")
    names = asked(request, "name", isa=isa)
    plain, rows = (library[f"call_f{names.index(name)}"] for library in libraries(names, isa))
    before, expected, found = inputs(name), run(plain, name), run(rows, name)
    changed = False
    for one, old, value, want in zip(PROGRAMS[name][0].split(", "), before, found, expected, strict=True):
        element = element_type(one.rpartition(" ")[0])
        nan = is_nan(want, element) & is_nan(value, element)
        same = (bits(value) == bits(want)) | nan
        assert np.all(same), (one, np.argwhere(~same)[:5], want[~same][:5], value[~same][:5])
        changed |= not np.array_equal(bits(old), bits(want))
    assert changed


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"bf16 relu in double"}))
def test_what_they_do_is_proved(name: str) -> None:
    (scop,) = polydl.load(text(name)).scops
    plain, marked = in_rows(scop)
    form = canonical(scop)
    found = prove(form, plain, marked, rewritten=form.scop)
    assert found.holds, found


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("bf16 scaled", "_round_bf16", "_store_bf16"),
        ("half scaled", "_round_f16", "_store_f16"),
        ("int8 scaled", "_load_i8", "_load_u8"),
        ("bf16 to float", "_load_bf16", "_load_f16"),
        ("bf16 scaled", "_all_bf16", "_all_f16"),
        ("bf16 scaled", "_round_bf16", "_round_f16"),
        ("bf16 to float", "_load(", "_load_i32("),
        ("requantised to uint8", "_convert_i64_u8(", "_convert_i64_i8("),
    ],
)
def test_a_conversion_that_is_missing_or_another_is_not_proved(name: str, right: str, wrong: str) -> None:
    (scop,) = polydl.load(text(name)).scops
    texts = []
    for one in in_rows(scop):
        head, step, rest = one.partition("_step(const ptrdiff_t")
        body, end, after = rest.partition("\n}\n")
        assert right in body
        mutated = body.replace(f"polydl_f32{right}", f"polydl_f32{wrong}" if wrong != "(" else "(")
        texts.append(head + step + mutated + end + after)
    assert not prove(canonical(scop), *texts).holds


@pytest.mark.parametrize("isa", FLAGS)
def test_every_upper_half_is_rounded_as_in_numpy(isa: str) -> None:
    if not {flag.removeprefix("-m") for flag in FLAGS[isa]} <= CPU:
        pytest.skip(f"the processor has no {isa}")
    source = """#include <polydl.h>
void f(int n, polydl_bf16 *restrict z, const float *restrict x)
{
    for (int i = 0; i < n; i++) z[i] = polydl_to_bf16(x[i]);
}
"""
    (scop,) = polydl.load(source, require_sizes=False).scops
    rows = in_rows(scop, called="polydl_row_")[0]
    assert "_round_bf16(" in rows.rpartition("_step(const ptrdiff_t")[2]
    machine = () if isa.startswith("avx512") else ("-mno-avx512f",)
    library = compile_c([rows], ("-O2", *machine, *FLAGS[isa], "-Wno-unknown-pragmas", *header_flags()))
    upper = np.arange(2**16, dtype=np.uint32)[:, None] << np.uint32(16)
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    x = np.append((upper | lower).ravel(), np.uint32(1)).view(np.float32)
    z = np.zeros(len(x), np.uint16)
    library["f"](len(x), z.ctypes.data_as(ctypes.c_void_p), x.ctypes.data_as(ctypes.c_void_p))
    np.testing.assert_array_equal(z, narrowed(x))


def test_a_value_that_is_used_again_is_rounded_first() -> None:
    source = """#include <polydl.h>
void f(int n, polydl_bf16 *restrict z, float *restrict y, const float *restrict x)
{
    for (int i = 0; i < n; i++) { z[i] = polydl_to_bf16(x[i]); y[i] = polydl_to_float(z[i]) + 1.0f; }
}
"""
    (scop,) = polydl.load(source, require_sizes=False).scops
    rows = in_rows(scop, called="polydl_row_")[0]
    step = rows.rpartition("_step(const ptrdiff_t")[2]
    assert "_convert_f32_bf16(" in step and "_round_bf16" not in step


def test_greatest_halves() -> None:
    source = f"""#include <math.h>
void f(float s[restrict {N}], const _Float16 X[restrict {N}][{N}])
{{
#pragma scop
    for (int i = 0; i < {N}; i++)
        for (int j = 0; j < i; j++)
            s[i] = fmaxf(s[i], X[i][j]);
#pragma endscop
}}
"""
    (scop,) = polydl.load(source).scops
    written, marked = in_rows(scop)
    assert "polydl_row_" in written
    assert prove(canonical(scop), written, marked).holds
    x = np.random.default_rng(0).normal(0, 60, (N, N)).astype(np.float16)
    found = []
    for text_ in (source, written):
        s = np.full(N, -np.inf, np.float32)
        compile_c([text_], ("-O2", "-march=native", "-w")).f(
            ctypes.c_void_p(s.ctypes.data), ctypes.c_void_p(x.ctypes.data)
        )
        found.append(s)
    np.testing.assert_array_equal(*found)


def test_sums_of_products_in_narrow_types() -> None:
    """Integer-valued, so that every order has the same sum."""
    source = f"""#include <polydl.h>
void f(float s[restrict {N}], const _Float16 X[restrict {N}][{N}], const polydl_bf16 Y[restrict {N}][{N}],
       const signed char Z[restrict {N}][{N}])
{{
#pragma scop
    for (int i = 0; i < {N}; i++)
        for (int j = 0; j < i; j++)
            s[i] += (float)X[i][j] * polydl_to_float(Y[i][j]) + Z[i][j];
#pragma endscop
}}
"""
    (scop,) = polydl.load(source).scops
    written, marked = in_rows(scop)
    assert "polydl_row_" in written
    assert prove(canonical(scop), written, marked).holds
    rng = np.random.default_rng(0)
    x = rng.integers(-8, 9, (N, N)).astype(np.float16)
    y = rng.integers(-8, 9, (N, N)).astype(np.float32)
    z = rng.integers(-128, 128, (N, N)).astype(np.int8)
    s = np.ones(N, np.float32)
    library = compile_c([written], ("-O2", "-march=native", *header_flags()))
    high = (y.view(np.uint32) >> 16).astype(np.uint16)
    library.f(*(ctypes.c_void_p(a.ctypes.data) for a in (s, x, high, z)))
    lower = np.tril(np.ones((N, N)), -1)
    assert np.array_equal(s, 1 + (lower * (x.astype(np.float64) * y + z)).sum(axis=1))


def test_sizes_as_numbers() -> None:
    """The number that a loop's bound is, as an integer and as a float."""
    source = f"""void f(int n, float s[restrict {N}], const signed char x[restrict {N}])
{{
#pragma scop
    for (int i = 0; i < n; i++)
        s[i] = (float)(x[i] + n) * (float)-n;
#pragma endscop
}}
"""
    (scop,) = polydl.load(source, sizes={"n": N}).scops
    written, _ = in_rows(scop)
    assert "polydl_row_" in written
    x = np.arange(-35, 36, dtype=np.int8)
    s = np.zeros(N, np.float32)
    compile_c([written], ("-O2", "-march=native")).f(N, *(ctypes.c_void_p(a.ctypes.data) for a in (s, x)))
    assert np.array_equal(s, (x.astype(np.float32) + N) * -N)


@pytest.mark.parametrize(
    "body",
    [
        "Z[i][j] = X[i][j];",  # halves are copied with the bits of their NaN
        "Z[i][j] += (float)X[i][j];",
        "Z[i][j] = lrintf((float)X[i][j]);",
        "Z[i][j] = (double)X[i][j] * 0.1;",
        "Z[i][j] = (float)X[i][j] > 0 ? X[i][j] : Z[i][j];",  # a half, with the bits of its NaN
        "Z[i][j] = (int)(float)X[i][j] / 3;",
    ],
)
def test_what_stays_plain_c(body: str) -> None:
    PROGRAMS["plain"] = ("_Float16 Z, _Float16 X", body)
    try:
        (scop,) = polydl.load(text("plain")).scops
        written, _ = in_rows(scop)
    finally:
        del PROGRAMS["plain"]
    assert "polydl_row_" not in written


def test_the_type_that_a_row_computes_in() -> None:
    assert row_element([BF16_BITS, U8]) is F32
    assert row_element([F64, F32]) is F64
    assert row_element([I8, I32]) is I32
    assert row_element([CHAR, F32]) is F32
    assert not converts([F32])
    assert converts([F32, I8])
    assert not converts([F64, I8])
