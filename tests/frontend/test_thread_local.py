"""Variables of which each thread has its own are refused: loops run on several threads."""

from __future__ import annotations

import pytest

import polydl

LOOP = "    for (int i = 0; i < 256; i++)\n        a[i] = 2 * t[255 - i];\n"


@pytest.mark.parametrize(
    "declared",
    [
        "static _Thread_local float t[256];",
        "static __thread float t[256];",
        "extern _Thread_local float *t;",
        "static float s, t[256];\n#pragma omp threadprivate(s, t)",
    ],
)
def test_of_the_file(declared: str) -> None:
    with pytest.raises(polydl.PolyDLError, match="'t' is thread-local"):
        polydl.load(f"{declared}\nvoid f(float *restrict a)\n{{\n{LOOP}}}\n")


def test_of_the_function() -> None:
    with pytest.raises(polydl.PolyDLError, match="'t' is thread-local"):
        polydl.load(f"void f(float *restrict a)\n{{\n    static _Thread_local float t[256];\n{LOOP}}}\n")


def test_a_size() -> None:
    text = "_Thread_local int n;\nvoid f(float a[9])\n{\n    for (int i = 0; i < n; i++)\n        a[i] = 0;\n}\n"
    with pytest.raises(polydl.PolyDLError, match="the loop bound is not affine: 'n' is thread-local"):
        polydl.load(text)


def test_others_are_not_concerned() -> None:
    text = "static __thread int calls;\nstatic float t[256];\nvoid f(float *restrict a)\n{\n" + LOOP + "}\n"
    (scop,) = polydl.load(text).scops
    assert scop.arrays["t"].static
