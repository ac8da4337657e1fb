"""Integers that are found among shorter ones, and loops whose columns mostly change nothing: the bits of the loop as it
is written, whatever stands in the row and whatever there was before."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from polydl.kernels import families
from polydl.kernels.innermost import RowFunction, RowOptions, printed
from polydl.kernels.row_loops import RowLoops, RowStatement
from polydl.model import isl
from polydl.model.expr import affine_values
from polydl.model.scop import Assignment
from polydl.model.time import map_from_affs
from tests.frontend.reading import scop
from tests.oracle.native import compile_c

MACHINES = {"native": "-march=native", "avx2": "-march=x86-64-v3", "plain": "-march=x86-64"}
HEAD = "const {x} a[restrict 400], const {x} b[restrict 400], {m} m[restrict 3], {m} k[restrict 1], long w[restrict 2]"
NUMPY = {
    "signed char": np.int8, "unsigned char": np.uint8, "short": np.int16, "unsigned short": np.uint16, "int": np.int32,
    "unsigned": np.uint32, "long": np.int64, "unsigned long": np.uint64, "float": np.float32, "double": np.float64,
}  # fmt: skip
PAIRS = (
    ("signed char", "int"), ("unsigned char", "int"), ("short", "int"), ("short", "long"), ("unsigned short", "int"),
    ("unsigned short", "unsigned"), ("int", "long"), ("unsigned", "long"), ("unsigned", "unsigned long"),
    ("signed char", "signed char"), ("int", "int"), ("long", "long"), ("unsigned long", "unsigned long"),
)  # fmt: skip
AMONG_SHORTER = {
    "least and greatest": "m[0] = a[j] < m[0] ? a[j] : m[0]; k[0] = a[j] > k[0] ? a[j] : k[0];",
    "first place": "w[0] = a[j] > m[0] ? j : w[0]; m[0] = a[j] > m[0] ? a[j] : m[0];",
    "last place": "w[0] = a[j] >= m[0] ? j : w[0]; m[0] = a[j] >= m[0] ? a[j] : m[0];",
    "last place of the least": "w[0] = a[j] <= m[0] ? 3 * j : w[0]; m[0] = a[j] <= m[0] ? a[j] : m[0];",
    "what stands beside": "k[0] = a[j] < m[0] ? b[j] : k[0]; m[0] = a[j] < m[0] ? a[j] : m[0];",
    "best two": "k[0] = a[j] > m[0] ? m[0] : a[j] > k[0] ? a[j] : k[0]; m[0] = a[j] > m[0] ? a[j] : m[0];",
}
CHANGES = {
    "best three": "m[2] = a[j] > m[1] ? m[1] : a[j] > m[2] ? a[j] : m[2];"
    "m[1] = a[j] > m[0] ? m[0] : a[j] > m[1] ? a[j] : m[1]; m[0] = a[j] > m[0] ? a[j] : m[0];",
    "not at most": "w[0] = !(a[j] <= m[0]) ? j : w[0]; m[0] = !(a[j] <= m[0]) ? a[j] : m[0];",
    "where another one is more": "w[0] = b[j] > m[0] && a[j] < k[0] ? j : w[0]; m[0] = b[j] > m[0] ? b[j] : m[0];",
    "a number that is met": "w[0] = a[j] == m[0] ? j : w[0]; w[1] = a[j] == m[0] ? w[1] + 1 : w[1];",
    "another number": "w[0] = a[j] != m[0] ? j : w[0]; m[0] = a[j] != m[0] ? a[j] : m[0];",
    "either": "w[0] = a[j] < m[0] || b[j] >= k[0] ? j : w[0]; m[0] = !(a[j] >= m[0]) ? b[j] : m[0];",
}
NONE = {
    "last greatest": "w[0] = a[j] >= m[0] ? j : w[0]; m[0] = a[j] >= m[0] ? a[j] : m[0];",
    "greatest or none": "w[0] = !(a[j] <= m[0]) ? j : w[0]; m[0] = !(a[j] <= m[0]) ? a[j] : m[0];",
    "none goes first": "w[0] = isnan(a[j]) || a[j] > m[0] ? j : w[0]; m[0] = isnan(a[j]) || a[j] > m[0] ? a[j] : m[0];",
    "the first none stays": "w[0] = !isnan(m[0]) && !(a[j] <= m[0]) ? j : w[0];"
    "m[0] = !isnan(m[0]) && !(a[j] <= m[0]) ? a[j] : m[0];",
    "numbers alone": "w[0] = !isnan(a[j]) && !(a[j] <= m[0]) ? j : w[0];"
    "m[0] = !isnan(a[j]) && !(a[j] <= m[0]) ? a[j] : m[0];",
    "the last zero": "m[0] = a[j] <= m[0] ? a[j] : m[0];",
}
LENGTHS = (*range(0, 40, 3), 63, 64, 65, 127, 128, 129, 255, 256, 400, 1003, 2048, 4500)


def row(folder: Path, body: str, x: str, m: str, options: RowOptions) -> tuple[RowFunction, list[str]] | None:
    """The function of a row of 400 columns with that body, and the arrays that it is given."""
    loop = f"for (int j = 0; j < 400; j++) {{ {body} }}"
    found = scop(folder, f"#include <math.h>\nvoid f({HEAD.format(x=x, m=m)})\n{{\n{loop}\n}}\n")
    statements = [RowStatement(s, map_from_affs(s.domain, isl.coordinates(s.domain))) for s in found.statements]
    made = families.row_function(printed(found.arrays, frozenset(), RowLoops((0,), ()), statements, options))
    if made is None:
        return None
    given = []
    for a in made.arguments:
        statement = found.statements[a.statement]
        assert isinstance(statement.body, Assignment)
        if a.affine:
            given.append(str(isl.offset(isl.pieces(affine_values(statement.body.value)[a.access].value)[0][1])))
            continue
        access = statement.accesses[a.access]
        first = isl.least(access.relation.range(), 0) or 0
        given.append(f"{'&' if a.pointer else ''}{access.array}[{first}]")
    return made, given


def values(dtype: type, n: int, kind: int, generator: np.random.Generator) -> np.ndarray:
    """Of integers 0: of the whole type; 1: few; 2: its ends; 3: rising. Of floats: 0: some that are none; 1: zeros of
    both signs; 2: all; 3: rising."""
    if np.dtype(dtype).kind != "f":
        ends = np.iinfo(dtype)
        if kind == 3:
            return np.sort(generator.integers(ends.min, ends.max, n, dtype=dtype, endpoint=True))
        if kind == 2:
            return generator.choice(np.array([ends.min, ends.max, ends.min + 1, ends.max - 1], dtype), n)
        low, high = (max(ends.min, -2), 3) if kind else (ends.min, ends.max)
        return generator.integers(low, high, n, dtype=dtype, endpoint=True)
    made: np.ndarray = generator.standard_normal(n).astype(dtype)
    if kind == 0:
        made[generator.random(n) < 0.05] = np.nan
    if kind == 1:
        made = generator.choice(np.array([0.0, -0.0, 1.0, -1.0, np.nan], dtype), n)
    return np.sort(made) if kind == 3 else made


def check(bodies: Mapping[str, tuple[str, str]], x: str, m: str, machine: str, folder: Path) -> None:
    """`bodies`: by name, what a column does, and how the name of the function begins that runs the row."""
    signature = f"const ptrdiff_t n, const {x} *a, const {x} *b, {m} *m, {m} *k, long *w"
    prologues, functions = dict[str, None](), list[str]()
    for number, (body, family) in enumerate(bodies.values()):
        found = row(folder, body, x, m, RowOptions(reassociate=False))
        assert found is not None, body
        made, given = found
        assert made.name.startswith(family), body
        prologues |= dict.fromkeys((*made.prologue, made.text))
        loop = f"for (ptrdiff_t j = 0; j < n; j++) {{ {body} }}"
        for name, run in (("before", loop), ("after", f"{made.name}(n, {', '.join(given)});")):
            functions.append(f"void {name}{number}({signature})\n{{ {run} (void)b, (void)k, (void)w; }}")
    text = "\n".join(("#include <math.h>", "#include <stddef.h>", *prologues, *functions))
    code = compile_c([text], ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", MACHINES[machine]))
    generator = np.random.default_rng(5)
    for n in LENGTHS:
        for kind in range(4):
            a, b = values(NUMPY[x], n, kind, generator), values(NUMPY[x], n, kind, generator)
            starts = [values(NUMPY[m], 4, one, generator) for one in range(3)]
            starts.append(generator.permutation(values(NUMPY[x], 4, kind, generator)).astype(NUMPY[m]))
            for start in starts:
                for number, name in enumerate(bodies):
                    results = []
                    for way in ("before", "after"):
                        state, w = start.copy(), np.array([-1, -2], np.int64)
                        at = [one.ctypes.data for one in (a, b, state[:3], state[3:], w)]
                        getattr(code, f"{way}{number}")(ctypes.c_ssize_t(n), *map(ctypes.c_void_p, at))
                        results.append((state, w))
                    (one, places), (other, also) = results
                    assert one.tobytes() == other.tobytes(), (name, n, kind, start, one, other)
                    assert places.tolist() == also.tolist(), (name, n, kind, start, one, other)


def named(bodies: Mapping[str, str], family: str) -> dict[str, tuple[str, str]]:
    return {name: (body, "polydl_best_two" if name == "best two" else family) for name, body in bodies.items()}


INTEGERS = named(AMONG_SHORTER, "polydl_row") | named(CHANGES, "polydl_changes")


@pytest.mark.parametrize(("x", "m"), PAIRS)
def test_integers_among_shorter_ones_and_columns_that_are_passed_over(x: str, m: str, tmp_path: Path) -> None:
    check(INTEGERS, x, m, "native", tmp_path)


@pytest.mark.parametrize("machine", ["avx2", "plain"])
@pytest.mark.parametrize(("x", "m"), [PAIRS[0], PAIRS[4], PAIRS[7], PAIRS[-1]])
def test_integers_in_other_vectors(x: str, m: str, machine: str, tmp_path: Path) -> None:
    check(INTEGERS, x, m, machine, tmp_path)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("element", ["float", "double"])
def test_whatever_a_test_says_of_what_is_no_number(element: str, machine: str, tmp_path: Path) -> None:
    check(named(NONE | CHANGES, "polydl_changes"), element, element, machine, tmp_path)


REFUSED: Mapping[str, tuple[str, str, str]] = {
    "it changes in each column": ("m[0] = a[j] > m[0] ? a[j] : m[0] + 1;", "int", "int"),
    "of shorter ones an int is computed": ("m[0] = a[j] - b[j] > m[0] ? a[j] - b[j] : m[0];", "signed char", "int"),
    "an unsigned number is compared with a negative one": ("w[0] = a[j] > m[0] ? j : w[0];", "signed char", "unsigned"),
    "it counts, too": ("w[0] = a[j] > m[0] ? j : w[0] + 1;", "float", "float"),
    "nothing is tested in vectors": ("w[0] = j > m[0] ? j : w[0];", "int", "int"),
}


@pytest.mark.parametrize(("body", "x", "m"), REFUSED.values(), ids=REFUSED)
def test_what_stays_a_loop(body: str, x: str, m: str, tmp_path: Path) -> None:
    assert row(tmp_path, body, x, m, RowOptions()) is None


def test_what_may_not_be_there_is_not_loaded(tmp_path: Path) -> None:
    """A test of a second array is made only where the first one passes: of that, vectors may know nothing."""
    head = "void f(const int *p, const int a[restrict 400], int m[restrict 1])"
    for condition, taken in (("a[j] > m[0] && p[j] > 0", False), ("p[j] > 0 && a[j] > m[0]", True)):
        body = f"m[0] = {condition} ? a[j] : m[0];"
        found = scop(tmp_path, f"{head}\n{{\nfor (int j = 0; j < 400; j++) {{ {body} }}\n}}\n")
        statements = [RowStatement(s, map_from_affs(s.domain, isl.coordinates(s.domain))) for s in found.statements]
        piece = printed(found.arrays, frozenset(), RowLoops((0,), ()), statements, RowOptions())
        assert (families.row_function(piece) is not None) == taken
