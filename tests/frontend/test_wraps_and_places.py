"""What is written computes what C says: where unsigned integers wrap around, where two names lead to the same memory,
and where a function that is called changes what its arguments are read from. All functions of a test are one text."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.base.errors import InputErrors
from polydl.frontend import load
from polydl.lower.splice import splice
from polydl.model import isl
from polydl.model.expr import AffineValue, Gather, every_part
from polydl.model.scop import Assignment
from polydl.options import Options
from polydl.pipeline import rank
from tests.frontend.reading import region
from tests.oracle.native import compile_c

WRAP_HEAD = (
    "int n, unsigned m, const float x[restrict 1000], float y[restrict 1000], uint32_t u[restrict 1000], "
    "uint64_t w[restrict 1000], float z[restrict 64][64], const int k[restrict 8]"
)
WRAP_HELP = """
static unsigned mix(unsigned h) { h *= 2654435761u; return h >> 9; }
static unsigned ring(int i, int n) { return (unsigned)(i + n) % (unsigned)n; }
"""
WRAPS = {
    "shift of a product": "for (unsigned i = 0; i < m; i++) y[i] = (float)((i * 2654435761u) >> 16);",
    "shift, numbers alone": "for (unsigned i = 0; i < 900u; i++) y[i] = (float)((i * 2654435761u) >> 16);",
    "quotient": "for (unsigned i = 0; i < m; i++) y[i] = (float)(i * 2654435761u / 1000u);",
    "remainder as a subscript": "for (unsigned i = 0; i < m; i++) y[i] = x[i * 2654435761u % 1000u];",
    "counted by a hash": "for (unsigned i = 0; i < m; i++) y[(i * 2654435761u) >> 23] += x[i];",
    "stored by a hash": "for (int i = 0; i < n; i++) u[((unsigned)i * 2654435761u) >> 23] = i;",
    "low bits as a subscript": "for (unsigned i = 0; i < m; i++) y[i] = x[(i * 2654435761u) & 511u];",
    "remainder by a power of two": "for (unsigned i = 0; i < m; i++) y[i] = x[(i - 3u) % 256u];",
    "stored": "for (int i = 0; i < n; i++) u[i] = (uint32_t)i * 2654435761u + 7u;",
    "widened": "for (int i = 0; i < n; i++) w[i] = (uint32_t)i * 2654435761u;",
    "64 bits": "for (uint64_t i = 0; i < m; i++) w[i] = i * 11400714819323198485ull;",
    "64 bits, shifted": "for (uint64_t i = 0; i < m; i++) y[i] = (float)((i * 11400714819323198485ull) >> 40);",
    "counter": "uint32_t s = 5; for (int i = 0; i < n; i++) { u[i] = s; s += 2654435761u; }",
    "counter of 64 bits": "uint64_t s = 5; for (int i = 0; i < n; i++) { w[i] = s; s += 6364136223846793005ull; }",
    "counter of 16 bits": "uint16_t s = 3; for (int i = 0; i < n; i++) { y[i] = s; s += 40503; }",
    "counter of 8 bits": "uint8_t s = 3; for (int i = 0; i < n; i++) { y[i] = x[s] + s / 3; s += 77; }",
    "counter in a subscript": "unsigned s = 0; for (int i = 0; i < n; i++) { y[i] = x[s % 1000u]; s += 2654435761u; }",
    "counter of while": "unsigned s = 0; int i = 0; while (i < n) { y[i] = x[s % 1000u]; s += 2654435761u; i++; }",
    "counter of do": "unsigned s = 0; int i = 0; do { y[i] = x[s >> 23]; s += 2654435761u; i++; } while (i < 900);",
    "counter compared": (
        "unsigned s = 0; for (int i = 0; i < n; i++) { if (s < 2147483648u) y[i] = x[i]; s += 2654435761u; }"
    ),
    "counter widened": "unsigned s = 0; for (int i = 0; i < n; i++) { w[i] = (uint64_t)s + 1; s += 2654435761u; }",
    "near the end": "unsigned s = 4294967290u; for (int i = 0; i < n; i++) { y[i] = s / 7u; s++; }",
    "one iteration behind": (
        "unsigned s = 4294967290u, t = 0; for (int i = 0; i < n; i++) { y[i] = x[t]; t = (s + 5u) % 1000u; s++; }"
    ),
    "down": "unsigned s = 5; for (int i = 0; i < n; i++) { y[i] = x[s % 1000u]; s -= 3u; }",
    "below zero": "for (unsigned i = 0; i < m; i++) u[i] = (i - 1u) / 3u + (~i >> 4) + -i / 5u;",
    "below zero, widened": "for (int i = 0; i < n; i++) w[i] = (unsigned)(i - 3);",
    "ring": "for (unsigned i = 0; i < m; i++) y[i] = x[(i + 1u) % m] + x[(i - 1u + m) % m];",
    "narrow product": "for (int i = 0; i < n; i++) u[i] = (uint8_t)(i * 7) / 3 + ((uint16_t)(i * 777) >> 3);",
    "narrow subscript": "for (int i = 0; i < n; i++) { uint8_t t = i * 7; y[i] = x[t] + x[(uint8_t)(i * 3)]; }",
    "shifted out": "for (unsigned i = 0; i < m; i++) y[i] = x[(i << 23) >> 23];",
    "compared": "for (unsigned i = 0; i < m; i++) y[i] = i * 2654435761u < 2000000000u ? x[i] : 3;",
    "range of a difference": "for (int i = 0; i < n; i++) if ((unsigned)(i - 3) < 5u) y[i] = 5;",
    "bound": "for (unsigned i = 0; i + 3 < m; i++) y[i] = x[i + 3];",
    "bound of numbers": "for (unsigned i = 0; i * 65536u < 6553600u; i++) y[i] = 1;",
    "temporary": "for (unsigned i = 0; i < m; i++) { unsigned h = i * 2654435761u; h = h + 3u; y[i] = x[h >> 23]; }",
    "polynomial": "for (unsigned i = 0; i < m; i++) u[i] = (i * i * 2654435761u >> 3) + i * m * 65537u;",
    "more than int": "for (unsigned i = 0; i < 1000u; i++) y[i] = i * 16777259u;",
    "to int": "for (int i = 0; i < n; i++) y[i] = (int)(i * 2654435761u);",
    "kept loop": (
        "uint64_t h = 1; for (int i = 0; i < 8; i++) "
        "{ for (int j = 0; j < k[i]; j++) w[i] += h; h += 6364136223846793005ull; }"
    ),
    "upwards from behind": "for (int i = n - 1; i >= 0; i--) y[i] = (float)(((unsigned)i * 2654435761u) >> 20);",
    "call": "for (int i = 0; i < n; i++) y[i] = (float)mix(i) + x[mix(i) % 1000u] + x[ring(i - 1, n)];",
}

PLACE_HEAD = (
    "int n, int m, const int ptr[restrict 21], const int idx[restrict 64], const float val[restrict 64], "
    "float y[restrict 20][20], float a[restrict 400], float b[restrict 400], int k[restrict 40], int c[restrict 400]"
)
PLACE_HELP = """
static void put(const float *p, int *k, float *b, int i) { k[0] = k[0] % 7 + 1; b[i] = p[0]; }
static void value(int v, int *k, float *b, int i) { k[0] = v % 7 + 1; b[i] = v; k[0] += v; b[i] += v; k[0] %= 9; }
static void bump(float s, float *p) { p[0] += 1; p[1] += s; p[0] += s; }
static void own(const float *p, float *q, int i) { float idx = p[i]; float val = idx * 2; q[i] = idx + val; }
static void row(const float *p, int *k, float *b) { for (int i = 0; i < 5; i++) { k[2] = i; b[i] += p[i]; } }
static void through(int *k, float *b, const float *p) { int *r = k; r[0] = r[0] % 5 + 1; b[r[0]] += p[0]; }
static float twice(const float *p, int i) { float t = p[i]; return t * 2; }
static void change(int i, float *b) { i = i + 1; b[i] += i; i *= 2; b[i % 30] += 1; }
"""
PLACES = {
    "place given": "for (int i = 0; i < n; i++) put(a + k[0], k, b, i);",
    "address given": "for (int i = 0; i < n; i++) put(&a[k[0]], k, b, i);",
    "number given": "for (int i = 0; i < n; i++) value(k[0], k, b, i);",
    "element given": "for (int i = 0; i < n; i++) bump(a[i], a + i);",
    "names of the caller": "for (int i = 0; i < n; i++) own(a, b, i);",
    "row given": "for (int i = 0; i < n; i++) row(y[k[2]], k, b + i);",
    "place in a row given": "for (int i = 0; i < n; i++) row(&y[k[2]][k[3]], k, b + 5 * i);",
    "stored through a pointer of its own": "for (int i = 0; i < n; i++) through(k, b, a + k[0]);",
    "value used": "for (int i = 0; i < n; i++) b[i] = twice(a + k[i % 8], k[0]);",
    "parameter changed": "for (int i = 0; i < n; i++) change(i, b);",
    "if": (
        "for (int i = 0; i < n; i++) "
        "{ float *q = a + i; *q = *q * 2.0f; b[i] = 0; if (a[i] > 0) { *q = -1; b[i] = 1; } }"
    ),
    "if through the pointer": (
        "for (int i = 0; i < n; i++) { float *q = &a[i]; b[i] = 0; q[0] += 1; if (q[0] > 0) { a[i] = -1; b[i] = 1; } }"
    ),
    "if and else": (
        "for (int i = 0; i < n; i++) { float *q = a; b[i] = 0; q[i] += 0.5f; "
        "if (a[i] > 0) { q[i] = -a[i]; b[i] = 1; } else { q[i] = 3; b[i] = a[i]; } }"
    ),
    "ifs in one another": (
        "for (int i = 0; i < n; i++) { float *q = a + i; float *r = q; b[i] = 2; r[0] += 0.5f; "
        "if (*q > 0) { if (*q < 1) *r = -2; b[i] += *q; } }"
    ),
    "a row set before": (
        "float *q = y[0]; for (int i = 0; i < m; i++) "
        "{ b[i] = 0; q[i] *= 2; if (y[0][i] > 0) { q[i] = -1; b[i] = 1; } }"
    ),
    "downwards": (
        "for (int i = n - 1; i >= 0; i--) "
        "{ float *q = a + i; b[i] = 0; *q = *q + 1; if (*q > 0) { a[i] -= 5; b[i] = *q; } }"
    ),
    "temporary of an arm": (
        "for (int i = 0; i < n; i++) "
        "{ float *q = a + i; b[i] = 0; *q *= 2; if (a[i] > 0) { float t = a[i]; *q = -t; b[i] = t; } }"
    ),
    "factor tested": (
        "for (int i = 0; i < n; i++) { int *q = c + i; q[0] += 1; if (c[i]) a[i] += (float)c[i] * b[i]; }"
    ),
    "sum of a row read through a pointer": (
        "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { const float *q = y[0]; float s = 0; "
        "for (int p = ptr[i]; p < ptr[i + 1]; p++) s += val[p] * q[idx[p] % 20]; y[i][j] = s; }"
    ),
    "pointer set before the loops": (
        "const float *q = y[0]; for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { float s = 0; "
        "for (int p = ptr[i]; p < ptr[i + 1]; p++) s += val[p] * q[idx[p] % 20]; y[i][j] = s; }"
    ),
    "lanes": (
        "for (int i = 0; i < n; i++) for (int p = ptr[i]; p < ptr[i + 1]; p++) "
        "{ const float *q = a; for (int l = 0; l < m; l++) a[p] += q[l]; }"
    ),
    "entries side by side": (
        "for (int i = 0; i < n; i++) for (int p = ptr[i]; p < ptr[i + 1]; p++) "
        "{ float *q = b; float s = 0; for (int j = 0; j < m; j++) s += a[j] * b[p]; q[p + 1] = s; }"
    ),
    "rows of one array": (
        "for (int i = 0; i < n; i++) { float *q = y[i]; for (int p = ptr[i]; p < ptr[i + 1]; p++) "
        "for (int j = 0; j < m; j++) q[j] += val[p] * y[idx[p] % 20][j]; }"
    ),
    "bounds that are stored to": (
        "int *q = c; for (int i = 0; i < n; i++) for (int p = c[i] & 3; p < (c[i + 1] & 7); p++) q[i + 1] += idx[p];"
    ),
    "factor read before": (
        "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) "
        "{ float t = y[i][j]; for (int p = ptr[i]; p < ptr[i + 1]; p++) y[i][j] += val[p] * t; }"
    ),
    "factor of entries read before": (
        "for (int i = 0; i < n; i++) for (int p = ptr[i]; p < ptr[i + 1]; p++) "
        "{ float t = y[i][0]; for (int j = 0; j < m; j++) y[i][j] += t * val[p]; }"
    ),
    "bytes copied": (
        "for (int i = 0; i < n; i++) { int l = m; memcpy(a + 20 * i, y[i], l * sizeof(float)); "
        "memset(y[i], 0, sizeof(float) * l); }"
    ),
}


def _of_wraps() -> list[np.ndarray]:
    values = np.random.default_rng(3).standard_normal(1000).astype(np.float32)
    results = [np.zeros(1000, kind) for kind in (np.float32, np.uint32, np.uint64)]
    return [values, *results, np.zeros((64, 64), np.float32), np.array([0, 1, 2, 3, 5, 1, 0, 7], np.int32)]


def _of_places() -> list[np.ndarray]:
    random = np.random.default_rng(5)

    def quarters(*shape: int) -> np.ndarray:
        return (random.integers(-8, 9, shape) / 4).astype(np.float32)

    rows = np.sort(random.integers(0, 40, 21)).astype(np.int32)
    rows[0] = 0
    integers = [random.integers(low, high, size).astype(np.int32) for low, high, size in ((1, 7, 40), (-3, 9, 400))]
    table = random.integers(0, 64, 64).astype(np.int32)
    return [rows, table, quarters(64), quarters(20, 20), quarters(400), quarters(400), *integers]


@pytest.mark.parametrize(
    ("spellings", "head", "helpers", "made", "sizes"),
    [
        pytest.param(WRAPS, WRAP_HEAD, WRAP_HELP, _of_wraps, (3, 37), id="unsigned integers"),
        pytest.param(PLACES, PLACE_HEAD, PLACE_HELP, _of_places, (3, 16), id="places"),
    ],
)
def test_outputs_compute_the_same(
    spellings: Mapping[str, str],
    head: str,
    helpers: str,
    made: Callable[[], list[np.ndarray]],
    sizes: Sequence[int],
    tmp_path: Path,
) -> None:
    functions = [
        f"void f{number}({head})\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"
        for number, body in enumerate(spellings.values())
    ]
    text = "#include <stdint.h>\n#include <string.h>\n" + helpers + "".join(functions)
    path = tmp_path / "whole.c"
    path.write_text(text)
    flags = ("-ffp-contract=off", "-w")
    original = compile_c([text], ("-O1", *flags))
    for size in sizes:
        program = load(path, sizes={"n": size, "m": size})
        assert len(program.scops) == len(spellings)
        pieces = [(one, next(iter(rank(one, options=Options(space="small")))).generated) for one in program.scops]
        output = compile_c([splice(program.source, pieces, "")], ("-O1", "-march=native", "-fopenmp", *flags))
        for number, name in enumerate(spellings):
            results = []
            for library in (original, output):
                arrays = made()
                library[f"f{number}"](size, size, *(ctypes.c_void_p(array.ctypes.data) for array in arrays))
                results.append(arrays)
            assert all(map(np.array_equal, *results)), (name, size)


def test_signed_twins_and_values_that_fit_stay_functions_of_the_loops(tmp_path: Path) -> None:
    head = "void f(int n, unsigned m, const float x[restrict 1000], float y[restrict 1000])"
    for body in (
        "for (int i = 0; i < n; i++) y[i] = (float)(i * 7 / 16);",
        "for (unsigned i = 0; i < m; i++) y[i] = (float)(i / 16u);",
        "for (unsigned i = 0; i < 1000u; i++) y[i] = (float)(i * 7u / 16u);",
        "unsigned s = 0; for (unsigned i = 0; i < 1000u; i++) { y[i] = (float)(s >> 2); s += 3u; }",
    ):
        (statement,) = region(tmp_path, body, head).statements
        assert isinstance(statement.body, Assignment)
        assert isinstance([*every_part(statement.body.value)][-1], AffineValue), body
    for body in ("y[i] = x[i / 2u];", "y[i / 2u] = x[i % 1000u];", "y[i] = x[(i * 4u + 1u) % 1000u];"):
        (statement,) = region(tmp_path, f"for (unsigned i = 0; i < 900u; i++) {body}", head).statements
        assert isinstance(statement.body, Assignment) and not isinstance(statement.body.value, Gather)


@pytest.mark.parametrize(
    ("body", "most"),
    [
        # i * 2 where i < m
        ("for (unsigned i = 0; i < m; i++) y[i * 2u / 4u] = 1;", 1 << 31),
        ("for (unsigned i = 0; i < m * 2u; i++) y[i] = 1;", (1 << 31) - 1),
        ("for (unsigned i = 0; i < m * 2u + 5u; i++) y[i] = 1;", (1 << 31) - 3),
        ("for (unsigned i = 0; i < m; i += 4u) y[i] = 1;", (1 << 32) - 4),
        ("for (unsigned i = 0; i <= m; i++) y[i] = 1;", (1 << 32) - 2),
        ("for (unsigned i = 0; i < m; i++) y[i] = 1;", None),
        ("for (unsigned i = 0; i + 3u < m; i++) y[i + 3u] = 1;", None),
        ("for (unsigned i = 0; i < 900u; i++) y[i * 2u / 4u] = 1;", None),
        ("for (unsigned i = 0; i < m; i++) y[i] = (float)(i * 2u / 4u);", None),
    ],
)
def test_sizes_with_which_nothing_wraps_around_are_the_context(body: str, most: int | None, tmp_path: Path) -> None:
    found = region(tmp_path, body, "void f(int n, unsigned m, float y[restrict 1000])")
    assert not found.assumptions
    sizes = isl.as_dimensions(found.context, ["m"]) if found.parameters else None
    assert most == (None if sizes is None else isl.greatest(sizes, 0))


def test_products_of_sizes_are_assumed_not_to_wrap_around(tmp_path: Path) -> None:
    head = "void f(unsigned n, unsigned m, float y[restrict n * m])"
    found = region(
        tmp_path, "for (unsigned i = 0; i < n; i++) for (unsigned j = 0; j < m; j++) y[i * m + j] = 1;", head
    )
    assert found.assumptions == tuple(
        f"'{text}' does not leave the range of 'unsigned int'" for text in ("(i * m) + j", "n * m")
    )


def test_sizes_with_which_a_bound_wraps_around_run_the_loops_as_written() -> None:
    """`2 * m` of 2^31 + 3 is 6: the original makes 6 iterations, and so does the output."""
    text = """void f(unsigned m, const float *restrict x, float *restrict y)
{
    for (unsigned i = 0; i < 2 * m; i++)
        y[i] = x[i] + 1;
}
"""
    library = compile_c([polydl.optimize(text, sizes={"m": 500}, run=False).text])
    for m in (0, 1, 3, 500, 700, 1 << 31, (1 << 31) + 3, (1 << 31) + 900):
        x, y = np.arange(2000, dtype=np.float32), np.zeros(2000, dtype=np.float32)
        library.f(ctypes.c_uint(m), *(ctypes.c_void_p(array.ctypes.data) for array in (x, y)))
        length = 2 * m % (1 << 32)
        assert np.array_equal(y[:length], x[:length] + 1) and not y[length:].any(), m


def test_what_numbers_show_to_wrap_around_is_not_taken_for_granted(tmp_path: Path) -> None:
    body = "for (unsigned i = 0; i * 2147483649u < 2147483650u; i++) y[i] = 1;"
    with pytest.raises(InputErrors, match="may exceed 4294967295"):
        region(tmp_path, body, "void f(int n, unsigned m, float y[restrict 1000])")
