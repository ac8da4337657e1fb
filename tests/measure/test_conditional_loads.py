"""Loads under conditions: which programs have them, and that those said to have none are compiled right."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from polydl.base.resources import header_flags
from polydl.measure import Toolchain
from polydl.measure.compiler_faults import without_fault
from polydl.measure.conditional_loads import loads_under_conditions
from tests.compiling import run_compiler

HEAD = "void {name}(const float *restrict a, const float *restrict b, float *restrict o, int s, const int *at)\n"
WITHOUT = {
    "maximum": "m = a[x] > m ? a[x] : m;",
    "maximum with NaN": "m = a[x] > m || a[x] != a[x] ? a[x] : m;",
    "clamped": "m = a[x] < 0 ? 0 : a[x] > 3 ? 3 : a[x];",
    "selected": "m = a[x] > b[x] ? a[x] : b[x];",
    "as a statement": "if (a[x] > m) { m = a[x]; i = k; }",
    "of scalars": "m = s > k ? 1 : m;",
    "in all iterations alike": "if (s >= 1) m = a[x];",
    "of a short loop around": "if (k >= 1) m = s;",
    "by a table": "m = at[k] < s ? at[k] : s;",
}
"""Statements in loops over j and k, where x is `j * n + k`."""
WITH = {
    "another array": "m = a[x] <= 0 ? 0 : b[x];",
    "another element": "m = a[x] > m ? a[x + 1] : m;",
    "second of two": "m = s > k && a[x] > 0 ? 1 : m;",
    "first of two, then another": "m = a[x] > 0 || b[x] > 0 ? 1 : m;",
    "behind a store": "if (a[x] > m) { o[x + 1] = 0; m = a[x]; }",
    "behind a change of its place": "if (a[i] > m) { i++; m = a[i]; }",
    "by where it is": "if (j >= 3) m = a[x];",
    "by both": "if (j + k >= 5) m = a[x];",
    "in a change": "if (a[x] > 0) o[x] += 1;",
    "by a table": "m = at[k] < s ? a[at[k]] : m;",
    "in a pointer": "m = s > k ? *(a + x) : m;",
    "in a function": "m = chosen(a, x, s);",
    "left out": "if (a[x] < 0) continue; m = b[x];",
}
CHOSEN = "static inline float chosen(const float *a, int x, int s) { return x < s ? a[x] : 0; }\n"


def program(statement: str, n: int, name: str = "f") -> str:
    """A function with a statement in two loops, the inner one with n iterations."""
    inside = f"const int x = j * {n} + k; int i = x; float m = -9; {statement} o[x] = m;"
    loops = f"for (int j = 0; j < 16; j++) for (int k = 0; k < {n}; k++) {{ {inside} }}"
    return f"{CHOSEN}{HEAD.format(name=name)}{{\n    {loops}\n}}\n"


def found(text: str) -> bool:
    return loads_under_conditions(text, "cc", header_flags())


@pytest.mark.parametrize("statement", WITHOUT.values(), ids=WITHOUT)
def test_elements_that_the_condition_reads_are_not_loaded_under_it(statement: str) -> None:
    assert not found(program(statement, 5).replace(CHOSEN, ""))


@pytest.mark.parametrize("statement", WITH.values(), ids=WITH)
def test_loads_under_conditions_are_found(statement: str) -> None:
    assert found(program(statement, 5))


def test_long_loops_inside_keep_a_loop_from_vectors() -> None:
    """Loops of up to 16 iterations are written out; what stays the same in the one that becomes vectors is the same in
    all lanes."""
    around = "for (int j = 0; j < 9; j++) { o[j] = 0; for (int k = 0; k < %d; k++) if (j >= 3) o[j] = a[k]; }"
    assert found(HEAD.format(name="f") + "{" + around % 16 + "}")
    assert not found(HEAD.format(name="f") + "{" + around % 17 + "}")


VECTORS = """
#include <immintrin.h>
typedef __m256 eight;
typedef float four __attribute__((vector_size(16)));
static inline eight chosen(int rows, const float *p)
{
    for (int i = 0; i < 4; i++) {
        if (i >= rows) continue;
        if (i > 1) return _mm256_loadu_ps(p + i);
    }
    return _mm256_setzero_ps();
}
void f(const float *restrict a, const float *restrict b, float *restrict o)
{
    for (int j = 0; j < 9; j++) {
        eight x = chosen(j, a);
        _mm256_storeu_ps(o, x);
        if (j > 3) { four y; __builtin_memcpy(&y, b + j, 16); }
    }
    for (int j = 0; j < 64; j++) { float t = b[j]; o[j] = %s; }
}
"""


def test_what_is_in_vectors_is_not_made_into_vectors() -> None:
    """Code with vectors of its own, as that of microkernels: loads under conditions beside it are found."""
    assert not found(VECTORS % "t < 0 ? 0 : t")
    assert found(VECTORS % "t < 0 ? 0 : a[j]")


def test_what_cannot_be_read_may_have_such_loads() -> None:
    assert found("void f(int c) { if (c) no C at all }")
    assert found('#include "no_such_header.h"\n')


def test_programs_without_such_loads_are_compiled_right(tmp_path: Path) -> None:
    """Held against the same functions without optimization, at inner loops of 1 to 9 iterations. The programs that
    have such loads differ on gcc 12.2, unless its fault is avoided."""
    plain, loads = (
        {f"{kind}{at}_{n}": (text, n) for at, text in enumerate(texts.values()) for n in range(1, 10)}
        for kind, texts in (("plain", WITHOUT), ("loads", WITH))
    )
    source = tmp_path / "all.c"
    functions = (program(text, n, name).replace(CHOSEN, "") for name, (text, n) in (plain | loads).items())
    source.write_text(CHOSEN + "".join(functions))
    toolchain = Toolchain()
    wrong = {}
    flags = {"reference": ("-O0",), "given": toolchain.cflags, "avoiding": without_fault(toolchain).cflags}
    results = {how: _results(source, tmp_path / f"{how}.so", own, [*plain, *loads]) for how, own in flags.items()}
    for how in ("given", "avoiding"):
        wrong[how] = {n for n in results[how] if not np.array_equal(results[how][n], results["reference"][n])}
    assert wrong["avoiding"] == set()
    assert wrong["given"] <= loads.keys()
    assert without_fault(toolchain) == toolchain or wrong["given"] & loads.keys()


def _results(source: Path, target: Path, flags: tuple[str, ...], names: list[str]) -> dict[str, np.ndarray]:
    """What the functions of a file leave in an array of integers as floats."""
    run_compiler(["cc", *flags, "-shared", "-fPIC", "-o", target, source])
    library = ctypes.CDLL(str(target))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-5, 9, 200).astype(np.float32) for _ in range(2))
    at = rng.integers(0, 16, 200).astype(np.int32)
    found: dict[str, np.ndarray] = {}
    for name in names:
        out = np.zeros(200, np.float32)
        getattr(library, name)(a.ctypes, b.ctypes, out.ctypes, 3, at.ctypes)
        found[name] = out
    return found
