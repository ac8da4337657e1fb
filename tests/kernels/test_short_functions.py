"""Functions by shorter polynomials in results that are stored in 16 bits: within 0.51 units of the exact result, for
every number of 16 bits, where only such an error comes through; exact functions elsewhere."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from polydl.base.resources import header_flags
from polydl.kernels.short_functions import shortened as of_rounded
from polydl.model.bfloat16 import widened
from polydl.model.expr import Binary, Call, Conditional, Const, Load
from polydl.model.types import F32
from polydl.options import Options
from polydl.pipeline import rank, with_fused
from tests.compiling import run_compiler
from tests.kernels.test_math import TARGETS, supported

Floats = npt.NDArray[np.float64]
FUNCTIONS: dict[str, tuple[str, Callable[[Floats], Floats]]] = {
    "exp": ("expf(x)", np.exp),
    "tanh": ("tanhf(x)", np.tanh),
    "erf": ("erff(x)", np.vectorize(math.erf)),
    "sigmoid": ("1.0f / (1.0f + expf(-x))", lambda x: 1 / (1 + np.exp(-x))),
    "silu": ("x / (1.0f + expf(-x))", lambda x: x / (1 + np.exp(-x))),
    "leaky": ("x > 0 ? x : 0.5f * expf(x)", lambda x: np.where(x > 0, x, 0.5 * np.exp(x))),
    "gate": ("0.5f * x * (1.0f + tanhf(x))", lambda x: x / (1 + np.exp(-2 * x))),
    "scaled": ("-3.0f * tanhf(x) / 7.0f", lambda x: -3 * np.tanh(x) / 7),
}
EXACT = {
    "cancelled": "expf(x) - 1.0f",
    "what is missing": "1.0f - tanhf(x)",
    "two": "expf(x) * tanhf(x)",
    "of another": "tanhf(expf(x) * 0.25f)",
    "less than a number": "1.0f - expf(x)",
}
"""`of another`: the outer one may be short."""
STORED = {"bf16": ("polydl_bf16", "polydl_to_float({})", "polydl_to_bf16({})"), "f16": ("_Float16", "(float){}", "{}")}
ALL = {**STORED, "f32": ("float", "{}", "{}")}
LARGEST = {"bf16": float.fromhex("0x1.fep127"), "f16": 65504.0}
COUNT = 1 << 16


def output(value: str, stored: str, isa: str = "avx512") -> str:
    kind, read, written = ALL[stored]
    program = f"""#include <math.h>
#include <polydl.h>
void f(const {kind} X[{COUNT}], {kind} Y[{COUNT}])
{{
    for (int i = 0; i < {COUNT}; i++) {{
        float x = {read.format("X[i]")};
        Y[i] = {written.format(f"({value})")};
    }}
}}
"""
    options = Options(threads=1, machine="epyc-zen5", isa=isa)
    ranking = rank(program, options=options)
    made = next(v for v in with_fused(ranking, options).variants if "polydl_row_" in v.region())
    return made.code()


def shortened(text: str) -> list[str]:
    """The calls of short functions in the step of a row."""
    step = text[text.index("_step(") :]  # behind the functions themselves
    return re.findall(r"polydl_f32_(\w+)_short\(", step)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("value", EXACT)
def test_exact_where_more_comes_together(value: str, stored: str) -> None:
    assert shortened(output(EXACT[value], stored)) == (["tanh"] if value == "of another" else [])


def test_what_is_compared_is_exact() -> None:
    call = Call("expf", (Load(0),), F32)
    assert of_rounded(Conditional(Binary(">", Load(0), Const("2.0f")), Load(0), call)) == {call}
    assert not of_rounded(Conditional(Binary(">", call, Const("2.0f")), Load(0), call))


@pytest.mark.parametrize(
    ("value", "one"),
    [
        ("x * (1.0f + tanhf(x))", True),
        ("x * (tanhf(x) + 1)", True),
        ("x * ((float)1.0 + tanhf(x))", True),
        ("x * (1.0 + tanhf(x))", False),
        ("x * (tanhf(x) + (double)1)", False),
        ("x * (1.0f - tanhf(x))", False),
        ("x * (2.0f + tanhf(x))", False),
    ],
)
def test_one_more_is_a_function_among_floats_alone(value: str, one: bool) -> None:
    """Where C adds doubles, there is none."""
    program = f"""#include <math.h>
void f(const float X[{COUNT}], float Y[{COUNT}])
{{
    for (int i = 0; i < {COUNT}; i++) {{
        float x = X[i];
        Y[i] = {value};
    }}
}}
"""
    options = Options(threads=1, machine="epyc-zen5")
    texts = [v.code() for v in with_fused(rank(program, options=options), options).variants]
    steps = [text[text.index("_step(") :] for text in texts if "polydl_row_" in text]
    assert any(re.search("polydl_f32_(one_plus_tanh|tanh_plus_one)", step) for step in steps) == one


def test_floats_take_exact_functions() -> None:
    assert shortened(output("expf(x)", "bf16")) == ["exp"]
    assert not shortened(output("expf(x)", "f32"))


def as_numbers(bits: npt.NDArray[np.uint16], stored: str) -> Floats:
    return (widened(bits) if stored == "bf16" else bits.view(np.float16)).astype(np.float64)


def units(stored: str, exact: Floats) -> Floats:
    """Between neighbours of 16 bits where a number is."""
    significand, least = (8, -126) if stored == "bf16" else (11, -14)
    exponent = np.maximum(np.frexp(exact)[1] - 1, least)
    return np.ldexp(1.0, exponent - significand + 1)


@pytest.mark.parametrize("isa", ["avx512", "avx2", "generic"])
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_half_a_unit_and_a_hundredth(name: str, stored: str, isa: str, tmp_path: Path) -> None:
    if not supported(isa):
        pytest.skip(f"this processor has no {isa}")
    value, exact_of = FUNCTIONS[name]
    text = output(value, stored, isa if isa != "generic" else "avx2")
    assert len(shortened(text)) == 1
    source, built = tmp_path / "f.c", tmp_path / "f.so"
    source.write_text(text)
    flags = [*TARGETS[isa], *(["-mf16c"] if isa != "generic" else []), *header_flags()]
    run_compiler(
        ["cc", "-O1", "-w", "-ffp-contract=off", *flags, "-shared", "-fPIC", "-o", str(built), str(source), "-lm"]
    )
    x = np.arange(COUNT, dtype=np.uint16)
    y = np.zeros_like(x)
    ctypes.CDLL(str(built)).f(*(ctypes.c_void_p(one.ctypes.data) for one in (x, y)))
    with np.errstate(all="ignore"):
        given, found = as_numbers(x, stored), as_numbers(y, stored)
        exact = np.asarray(exact_of(given), dtype=np.float64)
        # Beyond, exp(-x) is infinite among floats, in C too.
        number = np.isfinite(exact) & (abs(exact) < LARGEST[stored]) & (given > -88.0 if "-x" in value else True)
        apart = abs(found - exact)[number] / units(stored, exact[number])
    assert (np.isnan(found) == np.isnan(exact)).all()
    assert apart.max() <= 0.51, given[number][apart.argmax()]
