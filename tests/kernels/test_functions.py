"""Functions of C in rows of vectors: what their rows of the table say is all that is needed."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from polydl.kernels import families
from polydl.kernels.innermost import RowFunction, RowOptions, printed
from polydl.kernels.row_loops import RowLoops, RowStatement
from polydl.model import functions, isl
from polydl.model.functions import FUNCTIONS, Function, Vector
from polydl.model.time import map_from_affs
from tests.frontend.reading import scop
from tests.kernels.test_gathering import MACHINES
from tests.oracle.native import compile_c

HEAD = "void f({t} c[restrict 400], const {t} a[restrict 400], const {t} b[restrict 400])"
SPECIAL = [np.nan, np.inf, 0.0, -0.0, 1.5, -np.inf, -2.0, 0.3, -0.7, 1e-41, 9.2, 26.6]
BODIES = {
    "erfc": "c[j] = erfc@(a[j]) * b[j];",
    "half of it": "c[j] = 0.5@ * erfc@(-a[j] * 0.70710678@) + b[j];",
    "beside others": "c[j] = exp@(-a[j] * a[j]) - erfc@(a[j]) + sqrt@(b[j] * b[j]);",
}


def row(folder: Path, body: str, element: str) -> RowFunction | None:
    """The function of a row of 400 columns with that body; None where there is none."""
    loop = f"for (int j = 0; j < 400; j++) {{ {body.replace('@', 'f' if element == 'float' else '')} }}"
    found = scop(folder, f"#include <math.h>\n{HEAD.format(t=element)}\n{{\n{loop}\n}}\n")
    statements = [RowStatement(s, map_from_affs(s.domain, isl.coordinates(s.domain))) for s in found.statements]
    return families.row_function(printed(found.arrays, frozenset(), RowLoops((0,), ()), statements, RowOptions()))


def results(folder: Path, body: str, element: str, machine: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """What the loop as it is written stores, and what the row stores."""
    made = row(folder, body, element)
    assert made is not None
    (written,) = scop(folder, (folder / "snippet.c").read_text()).statements
    given = ", ".join(written.accesses[a.access].array for a in made.arguments)
    signature = f"const ptrdiff_t n, {element} *c, const {element} *a, const {element} *b"
    code = body.replace("@", "f" if element == "float" else "")
    text = "\n".join([
        "#include <math.h>", *made.prologue, made.text,
        f"void before({signature})\n{{ for (ptrdiff_t j = 0; j < n; j++) {{ {code} }} }}",
        f"void after({signature})\n{{ {made.name}(n, {given}); }}",
    ])  # fmt: skip
    library = compile_c([text], ("-std=gnu11", "-O2", "-ffp-contract=off", MACHINES[machine]))
    rng, stored = np.random.default_rng(7), []
    kind = np.float32 if element == "float" else np.float64
    a, b = (np.concatenate([rng.choice(SPECIAL, n // 2), rng.uniform(-12, 12, n - n // 2)]).astype(kind) for _ in "ab")
    for name in ("before", "after"):
        c = np.zeros(n, kind)
        at = (x.ctypes.data_as(ctypes.c_void_p) for x in (c, a, b))
        getattr(library, name)(ctypes.c_ssize_t(n), *at)
        stored.append(c)
    return stored[0], stored[1]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("body", BODIES)
def test_erfc_in_rows(body: str, element: str, machine: str, tmp_path: Path) -> None:
    """Special values, and lengths with every kind of remainder."""
    for n in (3, 16, 37, 400, 2049):
        before, after = results(tmp_path, BODIES[body], element, machine, n)
        unit = np.finfo(before.dtype)
        with np.errstate(all="ignore"):
            near = np.abs(after - before) <= 8 * unit.eps * (np.abs(before) + 2) + 4 * unit.smallest_subnormal
        same = near | (before == after) | (np.isnan(before) & np.isnan(after))
        assert same.all(), (n, before[~same], after[~same])


def test_only_what_is_called_has_its_functions(tmp_path: Path) -> None:
    """A template of one function stands in no file that does not call it."""
    found = [row(tmp_path, body, "float") for body in ("c[j] = expf(a[j]);", "c[j] = erfcf(a[j]);")]
    texts = ["".join(one.prologue) for one in found if one is not None]
    assert ["polydl_f32_erfc(" in text for text in texts] == [False, True]


COPYSIGN = Function("copysign", arity=2, cheap=True, vector=Vector("copysign", 0, 0, instructions=3.0))


@pytest.mark.parametrize("element", ["float", "double"])
def test_one_row_makes_a_function_run_in_vectors(element: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "c[j] = copysign@(a[j], b[j]) * 2.0@;"
    assert row(tmp_path, body, element) is None
    table = tuple(COPYSIGN if one.name == "copysign" else one for one in FUNCTIONS)
    monkeypatch.setattr(functions, "FUNCTIONS", table)
    for machine in MACHINES:
        before, after = results(tmp_path, body, element, machine, 401)
        assert np.array_equal(before, after, equal_nan=True)
        assert np.array_equal(np.signbit(before), np.signbit(after))
