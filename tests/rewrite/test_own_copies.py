"""Arrays that each iteration of a loop fills before it reads them are its own, and what they hold behind it stays."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import polydl
from polydl.equations.step import Step
from polydl.model.scop import Scop
from polydl.rewrite.canonical import canonical
from polydl.rewrite.columns import Columns
from polydl.rewrite.own_copies import OwnCopy
from polydl.rewrite.storage import Lives
from tests.compiling import run_compiler
from tests.oracle.native import NATIVE

COLUMN = """
    for (int i = 0; i < 40; i++) {
        c[0] = T[0][i];
        for (int k = 1; k < 24; k++)
            c[k] = c[k - 1] * 2 - T[k][i];
        for (int k = 0; k < 24; k++)
            T[k][i] = c[k] - 1;
    }
"""
TWO = """
    for (int i = 0; i < 40; i++) {
        c[0] = T[0][i];
        d[0] = 3;
        for (int k = 1; k < 24; k++) {
            double s = T[k][i] + 1;
            c[k] = s - c[k - 1];
            d[k] = s + c[k] - d[k - 1];
        }
        for (int k = 22; k >= 0; k--)
            T[k][i] = d[k] - c[k] * 2 + T[k + 1][i];
    }
"""
SHORTER = """
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 24 - i; k++)
            c[k] = T[k][i] + i;
        for (int k = 0; k < 24 - i; k++)
            T[k][i] = c[23 - i - k];
    }
"""
DOWNWARDS = """
    for (int i = 19; i >= 0; i--) {
        for (int k = 23; k >= i; k -= 2)
            c[k] = T[k][i] + i;
        for (int k = 23; k >= i; k -= 2)
            T[k][i] = c[k] * 3;
    }
"""
EVERY_OTHER = """
    for (int i = 0; i < 40; i++) {
        if (i % 3 == 1) {
            for (int k = 2; k < 20; k++)
                c[k] = T[k][i];
            for (int k = 2; k < 20; k++)
                T[k][i] = c[21 - k] * 2;
        }
    }
"""
IN_TIME = """
    for (int t = 0; t < 4; t++) {
        for (int i = 0; i < 40; i++) {
            for (int k = 0; k < 24 - t; k++)
                c[k] = T[k][i] + t;
            for (int k = 0; k < 24 - t; k++)
                T[k][i] = c[23 - t - k];
        }
        for (int k = 0; k < 24; k++)
            d[k] = d[k] + c[k];
        T[0][0] = d[1] - T[1][1];
    }
"""
READ_BEFORE = "    for (int k = 0; k < 24; k++) d[k] = c[k] + 1;" + COLUMN
READ_BEHIND = COLUMN + "    for (int k = 0; k < 24; k++) d[k] = c[k] + 1;\n    c[3] = 7;"
OVER_ROWS = """
    for (int i = 0; i < 24; i++) {
        for (int k = 0; k < 30; k++)
            c[k + 1] = T[i][k] * 2;
        for (int k = 0; k < 30; k++)
            T[i][k] = c[30 - k] + c[1];
    }
"""
OWN = {
    "column": COLUMN,
    "two": TWO,
    "shorter": SHORTER,
    "downwards": DOWNWARDS,
    "every_other": EVERY_OTHER,
    "in_time": IN_TIME,
    "read_before": READ_BEFORE,
    "read_behind": READ_BEHIND,
    "over_rows": OVER_ROWS,
}
SHARED = {
    # An element keeps its value from one iteration to the next: where it is not stored, …
    "not_all": COLUMN.replace("c[0] = T[0][i];", "if (i < 39) c[0] = T[0][i];"),
    "data": COLUMN.replace("c[0] = T[0][i];", "if (T[0][i] > 0) c[0] = T[0][i];"),
    "first": COLUMN.replace("        c[0] = T[0][i];\n", ""),
    # … or because it is wanted.
    "sum": COLUMN.replace("c[0] = T[0][i]", "c[0] += T[0][i]"),
    "last": COLUMN.replace("- 1;", "- d[k];").replace("c[0] = T", "d[3] = c[2]; c[0] = T"),
    # Something else orders the iterations.
    "carried": COLUMN.replace("- T[k][i]", "- T[k][i + 1]"),
}


def function(
    name: str, body: str, head: str = "double T[restrict 24][64], double c[restrict 32], double d[restrict 32]"
) -> str:
    return f"void {name}({head})\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"


def scop_of(text: str) -> Scop:
    (scop,) = polydl.load(text).scops
    return scop


def steps(text: str, kind: type = OwnCopy) -> list[Step]:
    found = canonical(scop_of(text))
    assert not found.refused
    return [step for step in found.steps if isinstance(step.rewrite, kind)]


@pytest.mark.parametrize("name", OWN)
def test_iterations_have_their_own(name: str) -> None:
    (step,) = steps(function("f", OWN[name]))
    assert step.broken() is None
    assert isinstance(step.rewrite, OwnCopy) and step.rewrite.arrays == (("c", "d") if name == "two" else ("c",))


@pytest.mark.parametrize("name", SHARED)
def test_others_stay(name: str) -> None:
    text = function("f", SHARED[name])
    assert steps(text) == []


def test_what_is_dead_is_not_copied() -> None:
    text = function("f", "#pragma polydl dead(c)\n" + COLUMN)
    (step,) = steps(text)
    assert all(access.array != "c" for s in step.after.statements for access in s.accesses)


def test_a_step_that_forgets_an_element_is_refused() -> None:
    """The check knows nothing of how the copy came about."""
    (step,) = steps(function("f", SHORTER))
    (copying,) = [s for s in step.after.statements if s.target.array == "c"]
    less = tuple(s for s in step.after.statements if s is not copying)
    assert "c is not the same afterwards" in str(step.rewrite.broken(step.before, replace(step.after, statements=less)))


def test_large_ones_are_left() -> None:
    large = COLUMN.replace("24", "2400000")
    assert steps(function("f", large, "double T[restrict 2400000][64], double c[restrict 2400000]")) == []


def test_columns_have_rows_of_arrays() -> None:
    for text in (function("f", TWO), function("f", TWO.replace("c[0]", "double c[24], d[24]; c[0]", 1))):
        (step,) = steps(text, Columns)
        assert isinstance(step.rewrite, Columns)
        rows = [step.after.arrays[name].shape for name in step.after.arrays if name.endswith("_row")]
        assert rows == [(24, 48), (24, 48)] and step.rewrite.strip == 48


@pytest.mark.parametrize(("n", "strip", "lives"), [(4000, 80, 0), (4001, 128, 1)])
def test_the_last_strip_is_as_long_or_has_rows_of_its_own(n: int, strip: int, lives: int) -> None:
    body = COLUMN.replace("24", "300").replace("i < 40", f"i < {n}")
    text = function("f", body, f"double T[restrict 300][{n}], double c[restrict 300]")
    (step,) = steps(text, Columns)
    assert isinstance(step.rewrite, Columns) and step.rewrite.strip == strip
    assert len(steps(text, Lives)) == lives


def output(text: str, folder: Path, threads: int) -> str:
    path = folder / "given.c"
    path.write_text(text)
    made = polydl.optimize(path, folder / "made.c", run=False, threads=threads, space="small", budget=2, oracle=False)
    assert made.output is not None
    return made.output.read_text()


def library(text: str, folder: Path, name: str) -> ctypes.CDLL:
    source, built = folder / f"{name}.c", folder / f"{name}.so"
    source.write_text(text)
    run_compiler(
        ["cc", *NATIVE, "-Wall", "-Wno-unknown-pragmas", "-shared", "-fPIC", "-o", str(built), str(source), "-lm"]
    )
    return ctypes.CDLL(str(built))


def compared(before: ctypes.CDLL, after: ctypes.CDLL, names: Sequence[str]) -> None:
    for name in names:
        found = []
        for one in (before, after):
            rng = np.random.default_rng(1)
            arrays = [rng.integers(-9, 9, shape).astype(np.float64) for shape in ((24, 64), (32,), (32,))]
            getattr(one, name)(*(a.ctypes.data_as(ctypes.c_void_p) for a in arrays))
            found.append(arrays)
        for wanted, made in zip(*found, strict=True):
            np.testing.assert_array_equal(made, wanted, name)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_is_computed(threads: int, tmp_path: Path) -> None:
    text = "\n".join(function(name, body) for name, body in (OWN | SHARED).items())
    made = output(text, tmp_path, threads)
    assert len(set(re.findall(r"\bpolydl_own_c\w*|polydl_part_polydl_own_c\w*", made))) >= 2
    compared(library(text, tmp_path, "before"), library(made, tmp_path, "after"), [*OWN, *SHARED])


PLACES = """
struct work { int n; double *c; double d[32]; };
double shared[32];
static double hidden[32];
double seen(int k) { return hidden[k]; }

void member(double T[restrict 24][64], struct work *restrict w)
{
#pragma scop
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 24; k++)
            w->c[k] = T[k][i] + 1;
        for (int k = 1; k < 24; k++)
            T[k][i] = w->c[k] - w->c[k - 1];
    }
#pragma endscop
}

void inside(double T[restrict 24][64], struct work *restrict w)
{
#pragma scop
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 24; k++)
            w->d[k + 8] = T[k][i] + 1;
        for (int k = 1; k < 24; k++)
            T[k][i] = w->d[k + 8] - w->d[k + 7];
    }
#pragma endscop
}

void global(double T[restrict 24][64])
{
#pragma scop
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 24; k++)
            shared[k] = T[k][i] + 1, hidden[k + 1] = shared[k] * 2;
        for (int k = 1; k < 24; k++)
            T[k][i] = shared[k] - hidden[k];
    }
#pragma endscop
}

void kept(double T[restrict 24][64])
{
    static double mine[32];
#pragma scop
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 24; k++)
            mine[k] = T[k][i] + 1;
        for (int k = 1; k < 24; k++)
            T[k][i] = mine[k] - mine[k - 1];
    }
#pragma endscop
}

void local(double T[restrict 24][64])
{
    double own[32] = {0};
#pragma scop
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 24; k++)
            own[k] = T[k][i] + 1;
        for (int k = 1; k < 24; k++)
            T[k][i] = own[k] - own[k - 1];
    }
#pragma endscop
    for (int k = 0; k < 32; k++)
        T[0][k] = own[k];
}
"""


class Work(ctypes.Structure):
    """`struct work`."""

    _fields_ = (("n", ctypes.c_int), ("c", ctypes.POINTER(ctypes.c_double)), ("d", ctypes.c_double * 32))


def test_wherever_they_lie(tmp_path: Path) -> None:
    """Members of structures, arrays of the file and of the function: each is given its last content."""
    scops = polydl.load(PLACES).scops
    names = [one.rewrite.arrays for s in scops for one in canonical(s).steps if isinstance(one.rewrite, OwnCopy)]
    # Of one that only the function knows each thread has one as it is: nobody reads it behind the loop.
    assert names == [("w_c",), ("w_d",), ("shared", "hidden"), ("own",)]
    made = output(PLACES, tmp_path, 2)
    found = []
    for one in (library(PLACES, tmp_path, "before"), library(made, tmp_path, "after")):
        one.seen.restype = ctypes.c_double
        contents: list[list[float]] = []
        for name in ("member", "inside", "global", "kept", "local"):
            T = np.random.default_rng(1).integers(-9, 9, (24, 64)).astype(np.float64)
            c = np.zeros(32)
            work = Work(3, c.ctypes.data_as(ctypes.POINTER(ctypes.c_double)))
            arguments = [ctypes.byref(work)] if name in ("member", "inside") else []
            getattr(one, name)(T.ctypes.data_as(ctypes.c_void_p), *arguments)
            contents += [T.ravel().tolist(), c.tolist(), list(work.d)]
        contents += [list((ctypes.c_double * 32).in_dll(one, "shared")), [one.seen(k) for k in range(32)]]
        found.append(contents)
    assert found[0] == found[1]


SIZED = """
void f(int nx, int nz, double T[restrict nz][nx], double c[restrict nz])
{
#pragma scop
    for (int i = 0; i < nx; i++) {
        c[0] = T[0][i];
        for (int k = 1; k < nz; k++)
            c[k] = c[k - 1] + T[k][i];
        for (int k = 0; k < nz; k++)
            T[k][i] = c[k] - 1;
    }
#pragma endscop
}
"""


def test_sizes_may_be_parameters() -> None:
    (scop,) = polydl.load(SIZED, sizes={"nx": 100, "nz": 24}).scops
    assert scop.symbolic is not None
    (step, columns) = canonical(scop.symbolic).steps
    assert isinstance(step.rewrite, OwnCopy) and isinstance(columns.rewrite, Columns)
    assert step.after.arrays["polydl_own_c"].shape == (None,)
    assert columns.after.arrays["polydl_own_c_row"].shape == (None, 16)


@pytest.mark.parametrize("nz", [24, 3000])
def test_every_size_computes_the_same(nz: int, tmp_path: Path) -> None:
    """Also where nothing runs, and nothing is stored; arrays on the stack and in memory of their own."""
    path = tmp_path / "given.c"
    path.write_text(SIZED)
    sizes = {"nx": 100, "nz": nz}
    options = {"run": False, "threads": 2, "space": "small", "budget": 2}
    result = polydl.optimize(path, tmp_path / "made.c", sizes=sizes, **options)  # type: ignore[arg-type]
    assert not result.checked.faults and result.checked.calls
    assert result.output is not None
    made = result.output.read_text()
    assert "polydl_own_c" in made and "double polydl_own_c_row[nz][16];" in made
    libraries = library(SIZED, tmp_path, "before"), library(made, tmp_path, "after")
    for nx, rows in ((100, nz), (0, nz), (7, 5), (1, 1), (300, 24)):
        found = []
        for one in libraries:
            T = np.random.default_rng(1).integers(-9, 9, (rows, nx)).astype(np.float64)
            c = np.full(rows, 5.0)
            one.f(nx, rows, T.ctypes.data_as(ctypes.c_void_p), c.ctypes.data_as(ctypes.c_void_p))
            found.append((T, c))
        np.testing.assert_array_equal(found[0][0], found[1][0])
        np.testing.assert_array_equal(found[0][1], found[1][1])


def test_compilers_do_not_warn_of_ends_of_rows(tmp_path: Path) -> None:
    """Without long vectors the last lanes of a row are taken one by one: none of them seems to be behind an array."""
    text = """
void f(int n, double *restrict T, double *restrict b)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 50; k++)
            b[k] = T[i * 50 + k] + i;
        for (int k = 1; k < 50; k++)
            T[i * 50 + k] = b[k - 1];
    }
}
"""
    made = polydl.optimize(text, run=False, sizes={"n": 100}, space="small").text
    assert "double polydl_own_b[50]" in made
    (tmp_path / "k.c").write_text(made)
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-fopenmp", "-c"]
    run_compiler(["cc", *flags, "-o", tmp_path / "k.o", tmp_path / "k.c"])
