"""Functions whose arguments C lets overlap: the output asks where it runs, and is right whatever it is given."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.lower.entry_checks import in_bytes
from tests.frontend.reading import scop
from tests.oracle.native import NATIVE, compile_c

pytestmark = pytest.mark.few_sizes

TUNED = 40
SIZES = (-1, 0, 1, 2, 5, TUNED, 43)
FAR = 16384
"""Bytes between arrays that have nothing in common; no array is longer."""
EXACT = "-ffp-contract=off"
"""What overlaps runs as it was written: with equal operations, results are equal in bits whatever the values."""


@dataclass(frozen=True)
class Kind:
    """A function of `int n` and pointers into one memory."""

    text: str
    pointers: int
    element: str = "f4"
    row: int = 1
    """Elements from one iteration of the outer loop to the next: 0 for n."""
    tables: bool = False
    """The pointers are followed by those of a sparse matrix's pattern, which are apart from all."""


F64 = "f8"
KINDS: dict[str, Kind] = {
    "copy": Kind("void f(int n, const float *x, float *y) { for (int i = 0; i < n; i++) y[i] = x[i]; }", 2),
    "in place": Kind("void f(int n, float *x, float *y) { for (int i = 0; i < n; i++) y[i] = x[i] + 1; }", 2),
    "saxpy": Kind("void f(int n, const float *x, float *y) { for (int i = 0; i < n; i++) y[i] += 3 * x[i]; }", 2),
    "stencil": Kind(
        "void f(int n, const float *a, float *b)\n"
        "{ for (int i = 1; i < n - 1; i++) b[i] = a[i - 1] + a[i] + a[i + 1]; }",
        2,
    ),
    "downwards": Kind(
        "void f(int n, float *a, const float *b) { for (int i = 0; i < n; i++) a[-i] = b[i] + b[i + 2]; }", 2
    ),
    "every other": Kind("void f(int n, float *a, const float *b) { for (int i = 0; i < n; i++) a[2 * i] = b[i]; }", 2),
    "product": Kind(
        "void f(int n, const double A[n][n], const double x[n], double y[n])\n"
        "{ for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) y[i] += A[i][j] * x[j]; }",
        3,
        F64,
        row=0,
    ),
    "rows": Kind(
        "void f(int n, double A[n][9], double B[n][9])\n"
        "{ for (int i = 1; i < n; i++) for (int j = 0; j < 9; j++) B[i][j] = A[i - 1][j] - A[i][j]; }",
        2,
        F64,
        row=9,
    ),
    "triangle": Kind(
        "void f(int n, double A[n][n], double B[n][n])\n"
        "{ for (int i = 0; i < n; i++) for (int j = 0; j < n - i; j++) B[i][j] = A[i][j] + 1; }",
        2,
        F64,
        row=0,
    ),
    "sum": Kind("void f(int n, const float *x, float *s) { for (int i = 0; i < n; i++) *s += x[i]; }", 2),
    "two loops": Kind(
        "void f(int n, float *a, float *b, float *c)\n"
        "{ for (int i = 0; i < n; i++) a[i] = b[i];\n  for (int i = 0; i < n / 2; i++) c[i] = a[i + 3] + b[2 * i]; }",
        3,
    ),
    "structures": Kind(
        "struct p { float x, y; int k; };\n"
        "void f(int n, struct p *a, const struct p *b)\n"
        "{ for (int i = 0; i < n; i++) { a[i].x = b[i].y; a[i].k = b[i].k + 1; } }",
        2,
        row=3,
    ),
    "bytes": Kind(
        "void f(int n, const unsigned char *x, int *y) { for (int i = 0; i < n; i++) y[i] = x[i]; }",
        2,
        "i4",
    ),
    "sparse": Kind(
        "void f(int n, const float val[3 * n], const float x[n], float y[n], const int ptr[n + 1],\n"
        "  const int idx[3 * n])\n"
        "{ for (int i = 0; i < n; i++) { float s = 0;\n"
        "    for (int p = ptr[i]; p < ptr[i + 1]; p++) s += val[p] * x[idx[p]];\n    y[i] = s; } }",
        3,
        tables=True,
    ),
}  # fmt: skip


@cache
def outputs(name: str) -> tuple[str, ...]:
    """What is written for a function, and a variant on several threads."""
    made = polydl.optimize(KINDS[name].text, run=False, sizes={"n": TUNED}, threads=3)
    (scop,) = made.scops
    parallel = (v.code() for v in scop.ranking.variants if "Parallelize(" in str(v.recipe))
    return (made.text, *(code for code, _ in zip(parallel, range(1), strict=False)))


def places(kind: Kind, n: int) -> Iterator[tuple[int, ...]]:
    """Where the pointers point, in bytes: apart, and two of them near each other in each way."""
    apart = [FAR * (2 * k + 1) for k in range(kind.pointers)]
    yield tuple(apart)
    row, size = (kind.row or max(n, 1)), np.dtype(kind.element).itemsize
    moves = {0, row, row * (n // 2), row * n, row * (n + 1)}
    if kind.row != 3:  # an int and a float of a structure are not the same memory
        moves |= {1, n // 2, n, row * n - 1} - {-1}
    for one, other in permutations(range(kind.pointers), 2):
        for move in sorted(moves):
            yield tuple(apart[one] + move * size if at == other else place for at, place in enumerate(apart))


def run(library: ctypes.CDLL, kind: Kind, n: int, where: tuple[int, ...]) -> bytes:
    rng = np.random.default_rng(7)
    memory = np.zeros(FAR * 2 * (kind.pointers + 1), np.uint8)
    values = memory.view(kind.element)
    values[:] = rng.integers(-3, 4, len(values))
    given = [ctypes.c_void_p(memory.ctypes.data + place) for place in where]
    ptr = np.array([min(3 * i, 3 * max(n, 0)) for i in range(max(n, 0) + 1)], np.int32)
    idx = rng.integers(0, max(n, 1), 3 * max(n, 1)).astype(np.int32)
    tables = [ctypes.c_void_p(table.ctypes.data) for table in (ptr, idx)] if kind.tables else []
    library.f(n, *given, *tables)
    return memory.tobytes()


@pytest.mark.parametrize("name", KINDS)
def test_it_is_right_wherever_the_arguments_lie(name: str) -> None:
    kind = KINDS[name]
    plain = compile_c([kind.text], ("-std=gnu11", "-O0", EXACT))
    for text in outputs(name):
        assert "polydl_apart(" in text
        library = compile_c([text], (*NATIVE, EXACT, "-Wall", "-Wextra", "-Werror"))
        for n in SIZES:
            size = n if "n]" not in kind.text or n > 0 else 1  # arrays of no elements C doesn't know
            for where in places(kind, size):
                assert run(library, kind, size, where) == run(plain, kind, size, where), (n, where)


@pytest.mark.parametrize("name", ["stencil", "two loops", "rows", "sum", "product"])
def test_without_the_question_it_would_be_wrong(name: str) -> None:
    """So the cases above lie as they have to."""
    kind = KINDS[name]
    plain = compile_c([kind.text], ("-std=gnu11", "-O0", EXACT))
    texts = [re.sub(r"return a \+ one_end <= [^;]*;", "return 1;", text) for text in outputs(name)]
    libraries = [compile_c([text], (*NATIVE, EXACT)) for text in texts]
    wrong = [
        where
        for library in libraries
        for where in places(kind, TUNED)
        if run(library, kind, TUNED, where) != run(plain, kind, TUNED, where)
    ]
    assert wrong


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("copy", "polydl_apart(y, 0, n * sizeof(float), x, 0, n * sizeof(float))"),
        ("stencil", "polydl_apart(b, sizeof(float), (n - 1ul) * sizeof(float), a, 0, n * sizeof(float))"),
        ("downwards", "polydl_apart(a, -39 * sizeof(float), sizeof(float), b, 0, 42 * sizeof(float))"),
        ("rows", "polydl_apart(B, 9 * sizeof(double), sizeof(double) * 9 * n, A, 0, sizeof(double) * 9 * n)"),
        ("triangle", "polydl_apart(B, 0, 1561 * sizeof(double), A, 0, 1561 * sizeof(double))"),
        ("sparse", "polydl_apart(val, 0, sizeof(float) * 3 * n, y, 0, n * sizeof(float))"),
        ("sum", "polydl_apart(s, 0, sizeof(float), x, 0, n * sizeof(float))"),
    ],
)  # fmt: skip
def test_what_is_asked(name: str, asked: str) -> None:
    """The least and the greatest element that is touched, exactly, whatever the size."""
    assert "".join(asked.split()) in "".join(outputs(name)[0].split())


@pytest.mark.parametrize(
    "declared",
    [
        "void f(int n, const float *restrict x, float *y)",
        "void f(int n, const float *x, float *restrict y)",
        "void f(int n, const double *x, float *y)",
        "static double x[900];\nvoid f(int n, float *y)",
        "static float x[900], y[900];\nvoid f(int n)",
    ],
)
def test_nothing_is_asked_where_c_says_it(declared: str) -> None:
    text = declared + " { for (int i = 0; i < n; i++) y[i] = x[i]; }"
    made = polydl.optimize(text, run=False, sizes={"n": TUNED})
    assert "polydl_apart" not in made.text
    assert not made.scops[0].ranking.scop.apart


def test_a_global_array_may_be_what_a_pointer_points_to() -> None:
    text = "float g[100];\nvoid f(int n, const float *x) { for (int i = 0; i < n; i++) g[i] = 2 * x[i] + 1; }"
    library = compile_c([polydl.optimize(text, run=False, sizes={"n": TUNED}).text], (*NATIVE, EXACT))
    plain = compile_c([text], ("-std=gnu11", "-O0", EXACT))
    for n in (1, TUNED, 60):
        for move in (0, 1, 3, n // 2, 40):
            found = []
            for each in (plain, library):
                g = (ctypes.c_float * 100).in_dll(each, "g")
                g[:] = [float(k % 5) for k in range(100)]
                each.f(n, ctypes.c_void_p(ctypes.addressof(g) + 4 * min(move, 100 - n)))
                found.append(bytes(g))
            assert found[0] == found[1]


def test_what_has_no_end_that_is_known_stays_assumed(tmp_path: Path) -> None:
    text = (
        "void f(int n, const int *idx, const float *x, float *y, float *z)\n"
        "{\n#pragma scop\n for (int i = 0; i < n; i++) { y[i] = x[idx[i]]; z[i] = y[i]; }\n#pragma endscop\n}\n"
    )
    found = scop(tmp_path, text)
    assert {frozenset(pair) for pair in found.apart} == {frozenset("yz")}
    assert "'x' does not overlap 'y' or 'z' (none is restrict)" in found.assumptions


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        ({}, "0"),
        ({(): 1}, "s"),
        ({(): -8}, "-8 * s"),
        ({("n",): 1}, "n * s"),
        ({("n",): 2}, "s * 2 * n"),
        ({("m", "n"): 1}, "s * m * n"),
        ({("n",): 1, (): -1}, "(n - 1ul) * s"),
        ({("m",): 1, ("n",): 1}, "(1ul * m + n) * s"),
        ({("m", "n"): 1, ("n",): -1, (): 1}, "(1ul * m * n + 1ul - n) * s"),
        ({("n",): -1, (): -1}, "(-1ul * n - 1ul) * s"),
    ],
)
def test_numbers_of_bytes_cannot_overflow(terms: dict[tuple[str, ...], int], text: str) -> None:
    """An `int` is never added to, or multiplied by, another one."""
    assert in_bytes(terms, "s") == text


def test_what_is_not_touched_with_the_tuned_sizes_is_not_asked_for() -> None:
    source = """
void f(int n, const int *c, int *d, float *a, const float *b)
{
    for (int i = 0; i < n; i++) {
        a[i] = 2 * b[i];
        if (i > 40) d[i] = c[i];
    }
}
"""
    found = polydl.optimize(source, run=False, sizes={"n": 33}, space="small", budget=2)
    assert found.text.count("polydl_apart(") and "&& )" not in found.text
    assert found.checked.calls and not found.checked.faults
