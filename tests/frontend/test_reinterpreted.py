"""Bits of one type read as another: every spelling is the same value, and what is spelled otherwise is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import polydl
from polydl.base.errors import InputErrors
from polydl.model.expr import Call, every_part
from polydl.model.scop import Assignment, Scop
from polydl.rewrite.canonical import canonical

N = 37
TEXT = """#include <stdint.h>
#include <string.h>
typedef union {{ float f; uint32_t u; int i; }} word;
typedef union {{ float f; unsigned char bytes[4]; }} pieces;
static inline float through(uint32_t u) {{ float f; memcpy(&f, &u, sizeof(float)); return f; }}
void f(float y[restrict 37], uint32_t x[restrict 37], double z[restrict 37])
{{
    for (int i = 0; i < 37; i++) {{
        {body}
    }}
}}
"""
SPELLINGS = {
    "memcpy": "uint32_t u = x[i] + 1; float v; memcpy(&v, &u, sizeof v); y[i] = v;",
    "memcpy of an element": "uint32_t u = x[i] + 1; memcpy(&y[i], &u, 4);",
    "memcpy behind a pointer": "uint32_t u = x[i] + 1; __builtin_memcpy(y + i, &u, sizeof u);",
    "a pointer": "uint32_t u = x[i] + 1; y[i] = *(float *)&u;",
    "a pointer stored through": "float v; *(uint32_t *)&v = x[i] + 1; y[i] = v;",
    "a union": "word w; w.u = x[i] + 1; y[i] = w.f;",
    "an initialised union": "word w = {.u = x[i] + 1}; y[i] = w.f;",
    "a union of its own": "union { uint32_t u; float f; } w = {x[i] + 1}; y[i] = w.f;",
    "a union that is changed": "word w; w.u = x[i]; w.u += 1; y[i] = w.f;",
    "a literal": "y[i] = ((word){.u = x[i] + 1}).f;",
    "a function": "y[i] = through(x[i] + 1);",
}


def read(body: str) -> Scop:
    (scop,) = polydl.load(TEXT.format(body=body)).scops
    return canonical(scop).scop


def reads(scop: Scop) -> list[str]:
    bodies = [s.body for s in scop.statements if isinstance(s.body, Assignment)]
    return [part.function for body in bodies for part in every_part(body.value) if isinstance(part, Call)]


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_is_the_same_value(name: str) -> None:
    scop = read(SPELLINGS[name])
    assert reads(scop) == ["polydl_float_of_bits"]


def test_doubles_and_signs() -> None:
    body = "unsigned long u; long s; memcpy(&u, &z[i], sizeof u); s = u >> 1; memcpy(&z[i], &s, 8);"
    assert sorted(reads(read(body))) == ["polydl_bits_of_double", "polydl_double_of_bits"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("pieces p; p.f = y[i]; x[i] = p.bytes[0];", "union"),
        ("uint32_t u = x[i]; memcpy(&z[i], &u, 4);", "whole number of elements"),
        ("word w; word *p = &w; p->u = x[i]; y[i] = w.f;", "w"),
        ("short s = 1; y[i] = *(float *)&s;", "not an element of an array"),
    ],
)
def test_what_is_left_alone(body: str, message: str) -> None:
    with pytest.raises(InputErrors, match=message):
        read(body)


def test_the_header_says_what_aliases() -> None:
    said = "that is read through a pointer to another type"
    for name, noted in (("a pointer", True), ("memcpy", False)):
        (scop,) = polydl.load(TEXT.format(body=SPELLINGS[name])).scops
        assert any(said in one for one in scop.assumptions) == noted


def test_code_that_is_kept_as_it_is(tmp_path: Path) -> None:
    """Data decide how often a loop runs: its text is printed, with a function of the output for the bits."""
    body = "uint32_t u = x[i]; float v = 0; while (u > 3) { memcpy(&v, &u, 4); u = u / 2; } y[i] = v;"
    source = tmp_path / "kept.c"
    source.write_text(TEXT.format(body=body))
    done = polydl.optimize(source, tmp_path / "out.c", run=False, top_k=1, machine="epyc-zen5")
    assert done.output is not None
    assert "polydl_float_of_bits(unsigned int x)" in (tmp_path / "out.c").read_text()


def test_a_name_of_the_file_is_not_taken_for_one_of_these() -> None:
    own = "float polydl_float_of_bits(unsigned u) { return u; }\n"
    text = own + TEXT.format(body="y[i] = polydl_float_of_bits(x[i]);")
    with pytest.raises(InputErrors, match="begins with 'polydl_'"):
        polydl.load(text)
