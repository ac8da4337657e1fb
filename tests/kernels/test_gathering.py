"""Rows that gather: sums, products, least and greatest values; these to the bit, whatever stands in the row."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from polydl.kernels import families
from polydl.kernels.innermost import RowFunction, RowOptions, printed
from polydl.kernels.row_loops import RowLoops, RowStatement
from polydl.model import isl
from polydl.model.expr import affine_values
from polydl.model.scop import Assignment
from polydl.model.time import map_from_affs
from tests.frontend.reading import scop
from tests.oracle.native import apart, compile_c
from tests.together import asked

MACHINES = {"widest": "-march=native", "avx2": "-march=x86-64-v3", "generic": "-march=x86-64"}
HEAD = "void f(const {t} a[restrict 400], const {t} b[restrict 400], {t} m[1], {t} k[1], int w[1], long v[1])"
EXTREMES = {
    "greatest": "m[0] = a[j] > m[0] ? a[j] : m[0];",
    "least": "m[0] = a[j] < m[0] ? a[j] : m[0];",
    "greatest, turned round": "m[0] = m[0] < a[j] ? a[j] : m[0];",
    "least, turned round": "m[0] = m[0] > a[j] ? a[j] : m[0];",
    "both": "m[0] = a[j] > m[0] ? a[j] : m[0]; k[0] = a[j] < k[0] ? a[j] : k[0];",
    "two of them": "m[0] = -a[j] > m[0] ? -a[j] : m[0]; k[0] = k[0] < b[j] ? b[j] : k[0];",
    "of a choice": "m[0] = (a[j] < b[j] ? a[j] : b[j]) > m[0] ? (a[j] < b[j] ? a[j] : b[j]) : m[0];",
    "under a condition": "if (m[0] < a[j]) m[0] = a[j]; else m[0] = m[0];",
    "beside a sum": "m[0] = a[j] > m[0] ? a[j] : m[0]; k[0] += b[j];",
}
PLACES = {
    "place of the greatest": "w[0] = a[j] > m[0] ? j : w[0]; m[0] = a[j] > m[0] ? a[j] : m[0];",
    "place of the least": "w[0] = a[j] < m[0] ? 3 * j + 7 : w[0]; m[0] = a[j] < m[0] ? a[j] : m[0];",
    "turned round": "w[0] = m[0] < a[j] ? 399 - j : w[0]; m[0] = m[0] < a[j] ? a[j] : m[0];",
    "a product": "w[0] = a[j] > m[0] ? j * j - 1 : w[0]; m[0] = a[j] > m[0] ? a[j] : m[0];",
    "two things": "w[0] = a[j] > m[0] ? 5 : w[0]; v[0] = a[j] > m[0] ? 10000000000 + j : v[0]; "
    "m[0] = a[j] > m[0] ? a[j] : m[0];",
    "what stands beside": "k[0] = a[j] > m[0] ? b[j] : k[0]; m[0] = a[j] > m[0] ? a[j] : m[0];",
    "of two": "w[0] = -a[j] > m[0] ? j : w[0]; v[0] = b[j] < k[0] ? j : v[0]; "
    "m[0] = -a[j] > m[0] ? -a[j] : m[0]; k[0] = b[j] < k[0] ? b[j] : k[0];",
    "beside another": "w[0] = a[j] > m[0] ? j : w[0]; m[0] = a[j] > m[0] ? a[j] : m[0]; "
    "k[0] = b[j] > k[0] ? b[j] : k[0];",
}
OF_C = {"fmax": "m[0] = fmax@(m[0], a[j]);", "fmin": "m[0] = fmin@(a[j], m[0]); k[0] = fmax@(k[0], b[j]);"}
SUMS = {
    "sum": "m[0] += a[j];",
    "two sums": "m[0] += a[j] * b[j]; k[0] -= b[j];",
    "product": "m[0] *= a[j];",
    "product and sum": "m[0] *= a[j]; k[0] += a[j];",
    "sum under a condition": "m[0] += a[j] > 0 ? b[j] : -0.0@;",
    "sum under a condition that stays": "m[0] += w[0] < 2 ? a[j] : b[j];",
}
LENGTHS = (*range(41), 63, 64, 65, 127, 130, 255, 256, 257, 400, 2048, 2049, 5000)
LONGEST = max(LENGTHS)


def row(folder: Path, body: str, element: str, options: RowOptions) -> tuple[RowFunction, list[str]] | None:
    """The function of a row of 400 columns with that body, and the arrays that it is given."""
    code = body.replace("@", "f" if element == "float" else "")
    loop = f"for (int j = 0; j < 400; j++) {{ {code} }}"
    found = scop(folder, f"#include <math.h>\n{HEAD.format(t=element)}\n{{\n{loop}\n}}\n")
    statements = [RowStatement(s, map_from_affs(s.domain, isl.coordinates(s.domain))) for s in found.statements]
    made = families.row_function(printed(found.arrays, frozenset(), RowLoops((0,), ()), statements, options))
    if made is None:
        return None
    given = []
    for a in made.arguments:
        body = found.statements[a.statement].body
        assert isinstance(body, Assignment)
        if a.affine:
            value = affine_values(body.value)[a.access].value
            given.append(str(isl.offset(isl.pieces(value)[0][1])))
        else:
            array = found.statements[a.statement].accesses[a.access].array
            given.append(array if a.pointer else f"*{array}")
    return made, given


BODIES = EXTREMES | PLACES | OF_C | SUMS


@cache
def libraries(names: tuple[str, ...], element: str, machine: str) -> ctypes.CDLL:
    """Of each body `before0(n, a, b, m, k)`, the loop as it is written, and `after0`, the row; and so on."""
    texts = ["#include <math.h>\n"]
    signature = (
        f"const ptrdiff_t n, const {element} *a, const {element} *b, {element} *m, {element} *k, int *w, long *v"
    )
    for number, name in enumerate(names):
        with tempfile.TemporaryDirectory() as folder:
            found = row(Path(folder), BODIES[name], element, RowOptions(fast_math="product" in name))
        assert found is not None
        made, given = found
        code = BODIES[name].replace("@", "f" if element == "float" else "")
        text = "\n".join([
            *made.prologue, made.text,
            f"void before{number}({signature})\n{{ for (ptrdiff_t j = 0; j < n; j++) {{ {code} }} }}",
            f"void after{number}({signature})\n{{ {made.name}(n, {', '.join(given)}); }}",
        ])  # fmt: skip
        texts.append(apart(text, f"v{number}"))
    return compile_c(texts, ("-std=gnu11", "-Og", "-fstrict-aliasing", "-ffp-contract=off", MACHINES[machine]))


def both(
    functions: Sequence[Callable[..., object]], n: int, data: NDArray[np.floating]
) -> list[tuple[NDArray[np.floating], list[int]]]:
    """[m, k] and [w, v] after each of the two; `data`: a, b, and what m and k start from."""
    results = []
    for function in functions:
        a, b, gathered = data[:LONGEST].copy(), data[LONGEST:-2].copy(), data[-2:].copy()
        w, v = np.array([-1], np.int32), np.array([-2], np.int64)
        at = [x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, gathered[:1], gathered[1:], w, v)]
        function(ctypes.c_ssize_t(n), *at)
        results.append((gathered, [int(w[0]), int(v[0])]))
    return results


def same(
    request: pytest.FixtureRequest, body: str, element: str, machine: str, values: list[float], *, exactly: bool
) -> None:
    """Both give the same, for rows of all lengths of such values; `exactly`: in bits."""
    names = asked(request, "body", element=element, machine=machine)
    library = libraries(names, element, machine)
    functions = [library[f"{name}{names.index(body)}"] for name in ("before", "after")]
    rng = np.random.default_rng(7)
    integers = np.uint32 if element == "float" else np.uint64
    for n in LENGTHS:
        for chosen in (values, values[1:], values[2:4], values[-3:], values[:1]):
            data = rng.choice(np.array(chosen, np.float32 if element == "float" else np.float64), 2 * LONGEST + 2)
            (one, places), (other, also) = both(functions, n, data)
            assert places == also, (n, data)
            if exactly:
                assert (one.view(integers) == other.view(integers)).all(), (n, one, other, data)
            else:
                assert np.array_equal(one, other, equal_nan=True), (n, one, other)


SPECIAL = [np.nan, np.inf, 0.0, -0.0, 1.5, -np.inf, -2.0]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("body", EXTREMES | PLACES)
def test_the_same_bits_whatever_stands_in_the_row(
    body: str, element: str, machine: str, request: pytest.FixtureRequest
) -> None:
    # A sum of a NaN and an infinity has no bits that C says.
    same(request, body, element, machine, SPECIAL, exactly="sum" not in body)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("body", OF_C)
def test_fmax_and_fmin_take_the_number(body: str, element: str, machine: str, request: pytest.FixtureRequest) -> None:
    same(request, body, element, machine, SPECIAL, exactly=False)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("body", SUMS)
def test_sums_and_products_of_what_has_no_rounding(
    body: str, element: str, machine: str, request: pytest.FixtureRequest
) -> None:
    values = [1.0, -1.0, 1.0] if "product" in body else [3.0, -2.0, 0.0, 1.0, -5.0]
    same(request, body, element, machine, values, exactly=False)


def test_what_a_fixed_order_allows(tmp_path: Path) -> None:
    """The greatest value is the same in any order; sums are not, and of fmax's zeros nobody knows."""
    fixed = RowOptions(reassociate=False)
    assert row(tmp_path, EXTREMES["both"], "float", fixed) is not None
    assert row(tmp_path, OF_C["fmax"], "float", fixed) is None
    assert all(row(tmp_path, body, "float", fixed) is None for body in SUMS.values())


def test_products_keep_their_order_unless_approximations_are_allowed(tmp_path: Path) -> None:
    """In lanes 1e300 * 1e-300 * … becomes infinity times zero."""
    for body in ("m[0] *= a[j];", "m[0] = m[0] * a[j];", "m[0] = a[j] * m[0];", "m[0] *= a[j]; k[0] += a[j];"):
        for element in ("float", "double"):
            assert row(tmp_path, body, element, RowOptions()) is None
            assert row(tmp_path, body, element, RowOptions(fast_math=True)) is not None
    assert row(tmp_path, "m[0] *= a[j];", "int", RowOptions()) is not None


def test_what_gathers_nothing_that_lanes_can(tmp_path: Path) -> None:
    for body in (
        "m[0] = m[0] > a[j] ? m[0] : a[j];",  # a NaN in a column replaces what there was
        "m[0] = a[j] >= m[0] ? a[j] : m[0];",
        "m[0] = a[j] > m[0] ? b[j] : m[0];",
        "m[0] /= a[j];",
        "m[0] = a[j] > m[0] ? a[j] : m[0]; w[0] = a[j] > m[0] ? j : w[0];",  # asks after it has changed
        "w[0] = a[j] >= m[0] ? j : w[0]; m[0] = a[j] > m[0] ? a[j] : m[0];",
        "w[0] = b[j] > m[0] ? j : w[0]; m[0] = a[j] > m[0] ? a[j] : m[0];",
        "w[0] = a[j] < m[0] ? j : w[0]; m[0] = a[j] > m[0] ? a[j] : m[0];",
        "w[0] = a[j] > m[0] ? w[0] + 1 : w[0]; m[0] = a[j] > m[0] ? a[j] : m[0];",
        "w[0] = a[j] > m[0] ? j : w[0]; v[0] += w[0]; m[0] = a[j] > m[0] ? a[j] : m[0];",
        "m[0] += m[0] * a[j];",
    ):
        found = row(tmp_path, body, "float", RowOptions())
        assert found is None or found[0].name.startswith("polydl_changes"), body


def test_short_steps_are_taken_together(tmp_path: Path) -> None:
    """Four vectors of a plain sum at a time, one of a long step; registers are never too few."""
    for body, together in (("m[0] += a[j];", 4), ("m[0] += sqrtf(a[j]) / b[j];", 1), (EXTREMES["both"], 4)):
        found = row(tmp_path, body, "float", RowOptions())
        assert found is not None
        assert found[0].text.count("_step(j") == together + 1 + (together > 1), body


def test_vectors_load_nothing_that_may_not_be_there(tmp_path: Path) -> None:
    """Behind a `?` a pointer may lead nowhere; what is read anyway is there, and what lies in an array of a size."""
    head = "void f(const float *p, const float a[restrict 400], float d[restrict 400], float m[1])"
    for body, taken in (
        ("m[0] += a[j] > 0 ? p[j] : 0.0f;", False),
        ("d[j] = a[j] > 0 ? p[j] : 0.0f;", False),
        ("d[j] = a[j] > 0 && p[j] > 0 ? 1.0f : 0.0f;", False),
        ("m[0] += p[j] > 0 ? p[j] : 0.0f;", True),
        ("d[j] = p[j]; m[0] += a[j] > 0 ? p[j] : 0.0f;", True),
        ("m[0] += p[j] > 0 ? a[j] : 0.0f;", True),
        ("d[j] = p[j] > 0 && a[j] > 0 ? a[j] : 0.0f;", True),
    ):
        found = scop(tmp_path, f"{head}\n{{\nfor (int j = 0; j < 400; j++) {{ {body} }}\n}}\n")
        statements = [RowStatement(s, map_from_affs(s.domain, isl.coordinates(s.domain))) for s in found.statements]
        piece = printed(found.arrays, frozenset(), RowLoops((0,), ()), statements, RowOptions())
        assert (families.row_function(piece) is not None) == taken, body
