"""Conditions on integers of other types than the row's, shorter integers among ints, and comparisons that count: the
bits of the loop as it is written."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from polydl.kernels import families
from polydl.kernels.innermost import RowOptions, printed
from polydl.kernels.row_loops import RowLoops, RowStatement
from polydl.model import isl
from polydl.model.time import map_from_affs
from tests.frontend.reading import scop
from tests.kernels.test_rare_changes import MACHINES, NUMPY, values
from tests.oracle.native import compile_c

HEAD = (
    "const {x} u[restrict 400], const {t} a[restrict 400], const {t} b[restrict 400], {t} c[restrict 400], "
    "{t} m[restrict 2], {t} least"
)
MASKS = {
    "chosen": "c[j] = u[j] ? a[j] : b[j];",
    "not chosen": "c[j] = !u[j] ? a[j] : b[j];",
    "kept": "c[j] = u[j] ? a[j] : c[j];",
    "compared": "c[j] = u[j] > 3 && a[j] > b[j] ? a[j] : b[j];",
    "at most": "c[j] = u[j] <= 1 || a[j] > b[j] ? a[j] : 0;",
    "another number": "c[j] = u[j] != 2 ? a[j] : u[j] >= 3 ? b[j] : c[j];",
    "summed up": "m[0] += u[j] ? a[j] : 0;",
    "a class": "m[0] += u[j] == 2 ? a[j] : 0; m[1] += u[j] < 2 ? a[j] : 0;",
    "greatest": "m[0] = u[j] && a[j] > m[0] ? a[j] : m[0]; m[1] += u[j] ? a[j] : 0;",
}
COUNTS = {
    "above": "m[0] += u[j] > least;",
    "between": "m[0] += u[j] > 1 && u[j] < least; m[1] += u[j] == least || !(u[j] <= 3);",
    "sums": "m[0] += u[j]; m[1] += u[j] * a[j];",
    "differences": "m[0] += (u[j] - a[j]) * (u[j] - a[j]); c[j] = u[j] > b[j] ? u[j] : b[j];",
    "none": "m[0] += !u[j]; c[j] = u[j] < a[j];",
}
UNSIGNED = {
    "chosen": "c[j] = u[j] > 1u ? a[j] : b[j];",
    "an element": "c[j] = a[j] > 1u ? a[j] : 7;",
    "below": "m[0] += u[j] < 3u ? a[j] : 0;",
    "counted": "m[0] += u[j] < 3u;",
    "counted beside another": "m[0] += a[j] > 1u && u[j] != 2;",
}
"""What C compares as unsigned numbers, among which -1 is the greatest."""
LENGTHS = (*range(0, 40, 3), 63, 64, 65, 128, 129, 400)
INTEGERS = ("signed char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long")


def check(bodies: dict[str, str], x: str, lanes: str, machine: str, folder: Path) -> int:
    """How many of the bodies are rows; each computes what its loop does."""
    signature = (
        f"const ptrdiff_t n, const {x} *u, const {lanes} *a, const {lanes} *b, {lanes} *c, {lanes} *m, {lanes} least"
    )
    prologues, functions, found = dict[str, None](), list[str](), list[int]()
    for number, body in enumerate(bodies.values()):
        loop = f"for (int j = 0; j < 400; j++) {{ {body} }}"
        read = scop(folder, f"void f({HEAD.format(x=x, t=lanes)})\n{{\n{loop}\n}}\n")
        statements = [RowStatement(s, map_from_affs(s.domain, isl.coordinates(s.domain))) for s in read.statements]
        piece = printed(read.arrays, frozenset(), RowLoops((0,), ()), statements, RowOptions(reassociate=True))
        made = families.row_function(piece)
        if made is None:
            continue
        accesses = [(a, read.statements[a.statement].accesses[a.access].array) for a in made.arguments]
        given = [f"{'&' if a.pointer else ''}{name}{'' if name == 'least' else '[0]'}" for a, name in accesses]
        for place, (a, name) in enumerate(accesses):
            if name == "m":  # of its two elements
                first = isl.least(read.statements[a.statement].accesses[a.access].relation.range(), 0)
                given[place] = f"&m[{first}]"
        prologues |= dict.fromkeys((*made.prologue, made.text))
        loop = f"for (ptrdiff_t j = 0; j < n; j++) {{ {body} }}"
        for name, run in (("before", loop), ("after", f"{made.name}(n, {', '.join(given)});")):
            used = "(void)u, (void)a, (void)b, (void)c, (void)m, (void)least;"
            functions.append(f"void {name}{number}({signature})\n{{ {run} {used} }}")
        found.append(number)
    text = "\n".join(("#include <stddef.h>", *prologues, *functions))
    code = compile_c([text], ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", MACHINES[machine]))
    generator = np.random.default_rng(1)
    make = NUMPY[lanes]
    scalar = {"double": ctypes.c_double, "int": ctypes.c_int, "long": ctypes.c_long}[lanes]
    for number in found:
        for n in LENGTHS:
            u = values(NUMPY[x], n, n % 4, generator)
            u[generator.random(n) < 0.3] = 0
            a, b, c = (generator.integers(-3, 9, n).astype(make) for _ in range(3))
            results = []
            for way in ("before", "after"):
                out, sums = c.copy(), np.array([1, 2], make)
                pointers = [one.ctypes.data_as(ctypes.c_void_p) for one in (u.copy(), a.copy(), b.copy(), out, sums)]
                getattr(code, f"{way}{number}")(ctypes.c_ssize_t(n), *pointers, scalar(2))
                results.append(out.tobytes() + sums.tobytes())
            assert results[0] == results[1], (list(bodies)[number], n)
    return len(found)


@pytest.mark.parametrize("lanes", ["double", "long", "int"])
@pytest.mark.parametrize("x", INTEGERS)
def test_masks(x: str, lanes: str, tmp_path: Path) -> None:
    rows = check(MASKS, x, lanes, "native", tmp_path)
    wide = np.dtype(NUMPY[x]).itemsize > np.dtype(NUMPY[lanes]).itemsize
    assert rows == len(MASKS) or wide or (x, lanes) == ("unsigned", "int")


@pytest.mark.parametrize("machine", ["avx2", "plain"])
@pytest.mark.parametrize(
    ("x", "lanes"), [("signed char", "double"), ("unsigned", "double"), ("unsigned short", "long")]
)
def test_masks_in_other_vectors(x: str, lanes: str, machine: str, tmp_path: Path) -> None:
    assert check(MASKS, x, lanes, machine, tmp_path) == len(MASKS)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("x", ["signed char", "unsigned char", "short", "unsigned short", "int"])
def test_shorter_integers(x: str, machine: str, tmp_path: Path) -> None:
    assert check(COUNTS, x, "int", machine, tmp_path) == len(COUNTS)


@pytest.mark.parametrize("lanes", ["double", "long", "int"])
@pytest.mark.parametrize("x", ["signed char", "short", "int", "unsigned char"])
def test_unsigned_comparisons(x: str, lanes: str, tmp_path: Path) -> None:
    check(UNSIGNED, x, lanes, "native", tmp_path)
