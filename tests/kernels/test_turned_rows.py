"""Rows whose loops run down memory: turned round, with what the loop as it is written finds, to the bit."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from polydl.kernels import families
from polydl.kernels.innermost import Innermost, RowFunction, RowOptions, printed
from polydl.kernels.row_loops import RowLoops, RowStatement
from polydl.model import isl
from polydl.model.expr import affine_values
from polydl.model.scop import Assignment
from polydl.model.time import map_from_affs
from tests.frontend.reading import scop
from tests.kernels.test_gathering import EXTREMES, HEAD, MACHINES, PLACES, SPECIAL, SUMS
from tests.oracle.native import compile_c

BODIES = EXTREMES | PLACES | {name: SUMS[name] for name in ("sum", "two sums", "sum under a condition")}
INTEGERS = {
    "first place": "w[0] = a[j] > m[0] ? j : w[0]; m[0] = a[j] > m[0] ? a[j] : m[0];",
    "last place": "w[0] = a[j] >= m[0] ? 3 * j : w[0]; m[0] = a[j] >= m[0] ? a[j] : m[0];",
    "last place of the least": "w[0] = a[j] <= m[0] ? j : w[0]; m[0] = a[j] <= m[0] ? a[j] : m[0];",
    "what stands beside": "k[0] = a[j] < m[0] ? b[j] : k[0]; m[0] = a[j] < m[0] ? a[j] : m[0];",
    "bits": "m[0] |= a[j] & b[j]; k[0] ^= a[j];",
}
LENGTHS = (1, 2, 7, 15, 16, 17, 33, 64, 129, 400, 2047, 2048, 2049, 5000)


def down(body: str, length: str) -> str:
    """The body with its columns in the opposite order."""
    return body.replace("[j]", f"[{length} - 1 - j]")


def piece(folder: Path, body: str, element: str) -> Innermost:
    """A row of 400 columns with that body."""
    code = down(body, "400").replace("@", "f" if element == "float" else "")
    head = HEAD.format(t=element)
    found = scop(folder, f"#include <math.h>\n{head}\n{{\nfor (int j = 0; j < 400; j++) {{ {code} }}\n}}\n")
    statements = [RowStatement(s, map_from_affs(s.domain, isl.coordinates(s.domain))) for s in found.statements]
    return printed(found.arrays, frozenset(), RowLoops((0,), ()), statements, RowOptions())


def arguments(made: RowFunction, row: Innermost) -> list[str]:
    """What the function of a row of n columns is given: of its last iteration."""
    given = []
    for a in made.arguments:
        body = row.statements[a.statement].body
        assert isinstance(body, Assignment) and row.printed is not None
        if a.affine:
            value = affine_values(body.value)[a.access].value
            grows = row.printed.growth(a.statement, value)
            given.append(f"{isl.offset(isl.pieces(value)[0][1])} - ({grows}) * (n - 1)")
        else:
            given.append(row.statements[a.statement].accesses[a.access].array)
    return given


def check(bodies: dict[str, str], element: str, values: np.ndarray, machine: str, folder: Path) -> None:
    signature = (
        f"const ptrdiff_t n, const {element} *a, const {element} *b, {element} *m, {element} *k, int *w, long *v"
    )
    prologues, functions = dict[str, None](), list[str]()
    for number, body in enumerate(bodies.values()):
        row = piece(folder, body, element)
        assert row.printed is not None and row.printed.turned
        made = families.row_function(row)
        assert made is not None and made.name.startswith("polydl_row"), body
        prologues |= dict.fromkeys((*made.prologue, made.text))
        code = down(body, "n").replace("@", "f" if element == "float" else "")
        loop = f"for (ptrdiff_t j = 0; j < n; j++) {{ {code} }}"
        for name, run in (("before", loop), ("after", f"{made.name}(n, {', '.join(arguments(made, row))});")):
            functions.append(f"void {name}{number}({signature})\n{{ {run} (void)b, (void)k, (void)w, (void)v; }}")
    text = "\n".join(("#include <math.h>", "#include <stddef.h>", *prologues, *functions))
    library = compile_c([text], ("-std=gnu11", "-Og", "-fstrict-aliasing", "-ffp-contract=off", MACHINES[machine]))
    generator = np.random.default_rng(11)
    for n in LENGTHS:
        for chosen in (values, values[1:], values[2:4], values[-3:], values[:1]):
            data = [generator.choice(chosen, size) for size in (n, n, 1, 1)]
            for number, name in enumerate(bodies):
                results = []
                for way in ("before", "after"):
                    own = [one.copy() for one in data]
                    places = np.array([-1], np.int32), np.array([-2], np.int64)
                    at = [ctypes.c_void_p(one.ctypes.data) for one in (*own, *places)]
                    library[f"{way}{number}"](ctypes.c_ssize_t(n), *at)
                    results.append([one.tobytes() for one in (*own, *places)])
                if "sum" in name:
                    sums = [np.frombuffer(one[2] + one[3], values.dtype) for one in results]
                    assert np.array_equal(*sums, equal_nan=True), (name, n, data)
                else:
                    assert results[0] == results[1], (name, n, data)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("element", ["float", "double"])
def test_floats(element: str, machine: str, tmp_path: Path) -> None:
    check(BODIES, element, np.array(SPECIAL, np.float32 if element == "float" else np.float64), machine, tmp_path)


@pytest.mark.parametrize("machine", MACHINES)
def test_integers(machine: str, tmp_path: Path) -> None:
    ends = np.iinfo(np.int32)
    check(INTEGERS, "int", np.array([ends.min, ends.max, 0, 1, -1, 7, ends.min + 1], np.int32), machine, tmp_path)


def test_what_is_in_order_is_not_turned(tmp_path: Path) -> None:
    """Of running values each column has all before it; a row of which only a part runs down has no neighbours."""
    scan = piece(tmp_path, "m[0] += a[j]; k[0] = m[0] > k[0] ? m[0] : k[0];", "float")
    assert families.row_function(scan) is None
    mixed = piece(tmp_path, "m[0] += a[j] * b[j + 0];", "float")
    assert mixed.printed is not None and not mixed.printed.turned
