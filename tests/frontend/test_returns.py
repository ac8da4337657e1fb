"""What functions of a file return as an expression of their parameters: the same bits as calling them, or none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import polydl
from polydl.base.resources import header_flags
from polydl.kernels.scalar_text import scalar_text
from polydl.model.scop import Function
from polydl.rewrite.canonical import canonical
from tests.compiling import run_compiler, run_program

HEAD = """#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <polydl.h>
enum { LOW = -5, HIGH = 70 };
"""
FUNCTIONS = {
    "chosen": "static inline int f(int v, int lo, int hi) { return v < lo ? lo : v > hi ? hi : v; }",
    "early returns": "static int f(int v) { if (v < LOW) return LOW; if (v > HIGH) return HIGH; return v; }",
    "a chain": (
        "static signed char f(int v) { if (v > 127) return 127; else if (v < -128) return -128; "
        "else return (signed char)v; }"
    ),
    "assigned": "static float f(float x, float lo) { if (x < lo) { x = lo; x *= 2; } else x += 1; return x; }",
    "returns among statements": (
        "static int f(int a, int b) { int r = a; if (b > 3) { r = r ^ b; if (r & 1) return r; r--; } "
        "return r << 1 & 0xff; }"
    ),
    "relu": "static float f(float x) { if (x > 0) return x; return 0; }",
    "narrow parameters": "static int f(int8_t a, uint8_t b) { return a * 300 + b; }",
    "narrow variables": "static int f(int a) { uint8_t b = a; int16_t c = a * 3; b += 7; return b - c; }",
    "unsigned": "static unsigned f(int a, unsigned b) { if (a > 5) return a; return b * 3u; }",
    "truths": "static int f(float x, int a) { const bool big = x > 2 && a; return !big + (a < 3) + (big ? 10 : 0); }",
    "of different types": "static double f(int a, float x) { if (a > 0) return a; if (a < -9) return x; return 0.1; }",
    "int of float": "static int f(float x) { return (int)(x + (x >= 0 ? 0.5f : -0.5f)); }",
    "rounded on the way": "static float f(double x, double y) { float z = x; double w = z * y; return w; }",
    "library": "static float f(float x, float y) { return fminf(fmaxf(x, -2.0f), sqrtf(fabsf(y))); }",
    "bfloat16": "static polydl_bf16 f(polydl_bf16 x, float y) { return polydl_to_bf16(polydl_to_float(x) * y); }",
    "gemmlowp": (
        "static int32_t high(int32_t a, int32_t b) { bool overflow = a == b && a == INT32_MIN; "
        "int64_t ab = (int64_t)a * b; int32_t nudge = ab >= 0 ? (1 << 30) : (1 - (1 << 30)); "
        "int32_t h = (int32_t)((ab + nudge) / (1ll << 31)); return overflow ? INT32_MAX : h; }\n"
        "static int32_t f(int32_t x, int32_t m) { const int e = 5; const int32_t mask = (1 << e) - 1; x = high(x, m); "
        "const int32_t rest = x & mask; const int32_t limit = (mask >> 1) + (x < 0); "
        "return (x >> e) + (rest > limit); }"
    ),
}  # fmt: skip
NONE = {
    "a loop": "static int f(int n) { int s = 0; for (int i = 0; i < (n & 7); i++) s += i; return s; }",
    "an effect inside": "static int f(int a) { int b = (a = 3); return a + b; }",
    "half": "static _Float16 f(_Float16 a) { return a * a; }",
    "too long": "static int f(int a) { " + "a = a * a + a;" * 12 + " return a; }",
    "a name twice": "static int f(int a) { if (a > 0) { int b = a; a = b; } { int b = 3; a += b; } return a; }",
}
"""Functions that stay calls."""
CALL = """
void g({result} *restrict y, {arrays})
{{
    for (int i = 0; i < 64; i++)
        y[i] = f({arguments});
}}
"""


def program(text: str) -> str:
    head, _, rest = text.rpartition("static ")[2].removeprefix("inline ").partition(" f(")
    parameters = [p.rpartition(" ")[0] for p in rest.partition(")")[0].split(", ")]
    arrays = ", ".join(f"const {t} *restrict x{i}" for i, t in enumerate(parameters))
    return HEAD + text + CALL.format(result=head, arrays=arrays, arguments=", ".join(
        f"x{i}[i]" for i in range(len(parameters))))  # fmt: skip


def value_of(text: str) -> Function | None:
    return polydl.load(program(text)).scops[0].functions.get("f")


TRY = """
#include <stdio.h>
#include <string.h>
static unsigned long seed = 1;
static unsigned draw(void) {{ seed = seed * 6364136223846793005ul + 1442695040888963407ul; return seed >> 32; }}
static {result} g({parameters}) {{ return {value}; }}
static const double some[] = {{ 0, 1, -1, 2.5, -2.5, 127, 128, -128, -129, 255, 256, 1e9, 3, -7, 0.5, 70 }};
int main(void)
{{
    for (int t = 0; t < 200000; t++) {{
        {draws}
        const {result} one = f({names}), other = g({names});
        if (memcmp(&one, &other, sizeof one)) return 1;
    }}
    return 0;
}}
"""


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_the_same_bits(name: str, tmp_path: Path) -> None:
    found = value_of(FUNCTIONS[name])
    assert found is not None
    names = [f"p{i}" for i in range(len(found.parameters))]
    draws = "".join(
        f"{t} p{i}; if (draw() % 4) p{i} = "
        + (f"({t})some[draw() % 16]" if t.through is None else f"{t.through[0]}(some[draw() % 16])")
        + f"; else {{ const int bits = (int)draw() >> draw() % 32; p{i} = "
        + (f"({t})bits" if t.through is None else f"{t.through[0]}(bits)")
        + "; }\n"
        for i, t in enumerate(found.parameters)
    )
    text = FUNCTIONS[name]
    source = HEAD + text + TRY.format(
        result=found.element, value=scalar_text(found.value, names.__getitem__), names=", ".join(names), draws=draws,
        parameters=", ".join(f"{t} {n}" for t, n in zip(found.parameters, names, strict=True)),
    )  # fmt: skip
    (tmp_path / "f.c").write_text(source)
    command = ["gcc", "-O1", "-fwrapv", "-ffp-contract=off", *header_flags(), "f.c", "-o", "f", "-lm"]
    run_compiler(command, tmp_path)
    assert run_program([tmp_path / "f"], check=False).returncode == 0
    wrong = source.replace("return " + scalar_text(found.value, names.__getitem__), "return p0 + 1")
    if found.element.through is None:
        (tmp_path / "f.c").write_text(wrong)
        run_compiler(command, tmp_path)
        assert run_program([tmp_path / "f"], check=False).returncode == 1


@pytest.mark.parametrize("name", list(NONE))
def test_calls_that_stay(name: str) -> None:
    assert value_of(NONE[name]) is None


def test_how_a_product_is_spelled_does_not_matter() -> None:
    text = """static inline float mul(float a, float b) { return a * b; }
void f(float C[restrict 8][8], const float A[restrict 8][8], const float B[restrict 8][8])
{
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 8; k++)
                C[i][j] += mul(A[i][k], B[k][j]);
}
"""
    called, plain = (canonical(polydl.load(t).scops[0]) for t in (text, text.replace("mul(A[i][k], B[k][j])",
        "A[i][k] * B[k][j]")))  # fmt: skip
    assert [s.body for s in called.scop.statements] == [s.body for s in plain.scop.statements]
    (step,) = called.steps
    assert str(step) == "S0: functions in place of their calls"
    assert step.broken() is None
    (made,) = step.after.statements
    other = replace(made, accesses=(made.accesses[1], *made.accesses[1:]))
    assert step.rewrite.broken(step.before, replace(step.after, statements=(other,))) is not None


def test_what_takes_long_is_not_repeated() -> None:
    text = """#include <math.h>
static float limited(float x) { return x < 0 ? 0 : x > 6 ? 6 : x; }
void f(float y[restrict 8], const float x[restrict 8])
{
    for (int i = 0; i < 8; i++)
        y[i] = limited(%s);
}
"""
    assert canonical(polydl.load(text % "x[i] * 2").scops[0]).steps
    assert not canonical(polydl.load(text % "powf(x[i], 3)").scops[0]).steps
