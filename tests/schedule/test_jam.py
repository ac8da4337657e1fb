"""Rows that take several iterations of the loops around them together: the same results, whatever is left over."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from polydl.dependences.nests import nests
from polydl.lower.emit import Generated, generate
from polydl.lower.splice import splice
from polydl.rewrite.canonical import Canonical, canonical
from polydl.schedule.check import check
from polydl.schedule.ordered import Ordered, ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.transforms import Vectorize
from polydl.schedule.tree import bands
from tests.frontend.reading import scop
from tests.oracle.native import compile_c

HEAD = "#include <math.h>\nvoid f(int m, int n, int k, {t} A[restrict m][n], {t} B[restrict k][n], {t} x[restrict n], "
HEAD += "{t} y[restrict m], {t} z[restrict m], {t} C[restrict m][k])"
PROGRAMS = {
    "matrix times vector": "for (int i = 0; i < m; i++) { @ s = 0; for (int j = 0; j < n; j++) s += A[i][j] * x[j]; "
    "y[i] = s; }",
    "transposed": "for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) x[j] += A[i][j] * y[i];",
    "distances": "for (int i = 0; i < m; i++) for (int l = 0; l < k; l++) { @ s = 0; for (int j = 0; j < n; j++) { "
    "@ t = A[i][j] - B[l][j]; s += t * t; } C[i][l] = s; }",
    "two sums and an extreme": "for (int i = 0; i < m; i++) { y[i] = 1; z[i] = A[i][0]; "
    "for (int j = 0; j < n; j++) { y[i] += A[i][j] - x[j]; C[i][0] -= x[j] * A[i][j]; "
    "z[i] = A[i][j] + x[j] > z[i] ? A[i][j] + x[j] : z[i]; } y[i] = y[i] / 2; }",
    "least": "for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) y[i] = A[i][j] < y[i] ? A[i][j] : y[i];",
    "element by element": "for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) A[i][j] = A[i][j] * x[j] + y[i];",
    "under a condition": "for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) y[i] += A[i][j] > x[j] ? x[j] : 0;",
    "product": "for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) z[i] *= A[i][j] > x[j] ? -1 : 1;",
}


def program(folder: Path, body: str, element: str, defines: str = "") -> Canonical:
    text = f"{defines}{HEAD.format(t=element)}\n{{\n{body.replace('@', element)}\n}}\n"
    return canonical(scop(folder, text, fast_math="*= " in body))  # without it products of floats keep their order


def jammed(found: Canonical, jam: Sequence[int]) -> list[Ordered]:
    return [ordered(nest, [Vectorize((), 0, tuple(jam))]) for nest in nests(found.scop, found.dependences)]


def functions(found: Canonical, code: Generated) -> ctypes.CDLL:
    """`before`, as it is written, and `after`."""
    source = found.scop.source
    made = splice(source, [(found.scop, code)], "")
    before, after = (re.sub(r"\bf\(", f"{name}(", text) for name, text in (("before", source.text), ("after", made)))
    return compile_c(
        [before, after], ("-std=gnu11", "-O1", "-fstrict-aliasing", "-march=native", "-ffp-contract=off", "-w")
    )


def arrays(rng: np.random.Generator, m: int, n: int, k: int, element: str, specials: bool) -> list[np.ndarray]:
    kind = np.float32 if element == "float" else np.float64
    shapes = [(m, n), (k, n), (n,), (m,), (m,), (m, max(k, 1))]
    made = [rng.integers(-3, 4, shape).astype(kind) for shape in shapes]
    if specials:
        for one in made:
            flat = one.reshape(-1)
            for at in range(0, len(flat), 5):
                flat[at] = rng.choice(np.array([np.nan, -0.0, 0.0, np.inf], kind))
    return made


def same(code: ctypes.CDLL, m: int, n: int, k: int, given: Sequence[np.ndarray]) -> bool:
    results = []
    for name in ("before", "after"):
        own = [one.copy() for one in given]
        getattr(code, name)(m, n, k, *(one.ctypes.data_as(ctypes.c_void_p) for one in own))
        results.append(own)
    return all(a.tobytes() == b.tobytes() for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("jam", [(2,), (4,), (3, 2)], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_any_size(tmp_path: Path, name: str, jam: tuple[int, ...], element: str) -> None:
    found = program(tmp_path, PROGRAMS[name], element)
    parts = jammed(found, jam)
    assert any(m.unroll for part in parts for band in bands(part.tree) for m in band.members)
    assert check(found.scop, program_tree(parts), found.dependences) is None
    made = generate(found.scop, program_tree(parts))
    assert made.rows
    code = functions(found, made)
    rng = np.random.default_rng(0)
    for m, n, k in [*((m, n, 3) for m in range(10) for n in range(1, 20, 6)), *((6, n, 5) for n in range(1, 71))]:
        assert same(code, m, n, max(k, 1), arrays(rng, m, n, k, element, specials=False)), (m, n, k)


@pytest.mark.parametrize("jam", [(4,), (3, 2)], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_known_sizes_with_iterations_left_over(tmp_path: Path, name: str, jam: tuple[int, ...]) -> None:
    sizes = "#define M 11\n#define N 37\n#define K 5\n"
    body = re.sub(r"(?<=< )[mnk](?=;)", lambda found: found[0].upper(), PROGRAMS[name])
    found = program(tmp_path, body, "float", sizes)
    parts = jammed(found, jam)
    assert check(found.scop, program_tree(parts), found.dependences) is None
    made = generate(found.scop, program_tree(parts))
    assert made.rows
    assert same(functions(found, made), 11, 37, 5, arrays(np.random.default_rng(1), 11, 37, 5, "float", specials=False))


@pytest.mark.parametrize("element", ["float", "double"])
def test_extremes_to_the_bit(tmp_path: Path, element: str) -> None:
    body = "for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) { y[i] = A[i][j] < y[i] ? A[i][j] : y[i]; "
    body += "z[i] = z[i] < A[i][j] ? A[i][j] : z[i]; }"
    found = program(tmp_path, body, element)
    parts = jammed(found, (4,))
    made = generate(found.scop, program_tree(parts))
    assert made.rows and check(found.scop, program_tree(parts), found.dependences) is None
    code = functions(found, made)
    rng = np.random.default_rng(2)
    for _ in range(10):
        for m, n in [(m, n) for m in range(1, 8) for n in (1, 7, 8, 16, 17, 33, 70)]:
            assert same(code, m, n, 1, arrays(rng, m, n, 1, element, specials=True)), (m, n)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("for (int i = 1; i < m; i++) for (int j = 1; j < n; j++) A[i][j] = A[i - 1][j - 1] + A[i - 1][j];", ""),
        ("for (int i = 1; i < m; i++) for (int j = 0; j + 1 < n; j++) A[i][j] = A[i - 1][j + 1] + x[j];", "A"),
        ("for (int i = 1; i < m; i++) { x[0] = y[i - 1]; for (int j = 0; j < n; j++) y[i] += A[i][j] * x[0]; }", ""),
    ],
)
def test_what_depends_on_an_earlier_iteration(tmp_path: Path, body: str, reason: str) -> None:
    """Legal where the iteration before is ahead anyway; else it is refused."""
    found = program(tmp_path, body, "float")
    parts = jammed(found, (4,))
    wrong = check(found.scop, program_tree(parts), found.dependences)
    assert (wrong is not None) == bool(reason) or (wrong is not None and "x" in wrong)
    if wrong is None:
        code = functions(found, generate(found.scop, program_tree(parts)))
        for m, n in [(m, n) for m in range(2, 9) for n in (1, 2, 17, 40)]:
            assert same(code, m, n, 1, arrays(np.random.default_rng(3), m, n, 1, "float", specials=False)), (m, n)


def test_another_element_of_the_array_is_no_extreme(tmp_path: Path) -> None:
    """`y[0] = x > y[1] ? x : y[1]` keeps the last one, not the greatest."""
    body = "for (int j = 0; j < n; j++) y[0] = x[j] > y[1] ? x[j] : y[1];"
    found = program(tmp_path, body, "float")
    code = functions(
        found,
        generate(found.scop, program_tree([ordered(n, [Vectorize()]) for n in nests(found.scop, found.dependences)])),
    )
    for n in range(1, 40):
        assert same(code, 2, n, 1, arrays(np.random.default_rng(4), 2, n, 1, "float", specials=False))
