"""Loops that count with a pointer are loops that count."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.frontend import load
from polydl.model.scop import Assignment, Scop

HEAD = "void f(int n, int m, double *restrict a, double *restrict b, double A[restrict 20][30])"


def scop(folder: Path, body: str, head: str = HEAD) -> Scop:
    path = folder / "pointers.c"
    path.write_text(f"{head}\n{{\n    {body}\n}}\n")
    (found,) = load(path, require_sizes=False).scops
    return found


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ("for (double *p = a; p < a + n; p++) *p = 1;", "[n] -> { [i0] : 0 <= i0 < n }"),
        ("for (double *p = a; p != a + n; ++p) *p = b[p - a];", "[n] -> { [i0] : 0 <= i0 < n }"),
        ("double *p; for (p = a + 2; p <= &a[n]; p += 3) p[0] = 1;", "[n] -> { [i0] : 2 <= i0 <= n and i0 mod 3 = 2 }"),
        ("double *end = a + n; for (double *p = &a[1]; p < end; p++) *p = p[-1];", "[n] -> { [i0] : 1 <= i0 < n }"),
        ("const double *end = b + n; while (b != end) *a++ = 2 * *b++;", "[n] -> { [i0] : 0 <= i0 < n }"),
        ("double *p = a, *end = a + n; while (p < end) *p++ = 1;", "[n] -> { [i0] : 0 <= i0 < n }"),
        ("double *p = a + 2; while (p != &a[n]) { *p = *b++; p++; }", "[n] -> { [i0] : 0 <= i0 < n - 2 }"),
        ("while (n--) *a++ += *b++;", "[n] -> { [i0] : 0 <= i0 < n }"),
        ("while (n-- > 0) { *a = *b; a++; b++; }", "[n] -> { [i0] : 0 <= i0 < n }"),
    ],
)
def test_what_is_written(tmp_path: Path, body: str, written: str) -> None:
    found = scop(tmp_path, body)
    (statement,) = found.statements
    assert isinstance(statement.body, Assignment) and statement.depth == 1
    target = statement.accesses[statement.body.target].relation
    places = target.intersect_domain(statement.domain).range().reset_tuple_id()
    wanted = type(places)(written).gist_params(found.context)
    assert places.gist_params(found.context).is_equal(wanted), places


def test_rows(tmp_path: Path) -> None:
    body = "for (int i = 0; i < 20; i++) for (double *p = A[i]; p < A[i] + 30; p++) { double v = *p; *p = v * v; }"
    assert {s.depth for s in scop(tmp_path, body).statements} == {2}


@pytest.mark.parametrize(
    "body",
    [
        # each for one reason: another array's end, a step of its own, a body that steps too, an early end, a step that
        # may not happen, a loop that begins where the last one ended, a pointer that is set anew, one that nothing
        # is said of, a count that somebody needs
        "for (double *p = a; p < b + n; p++) *p = 1;",
        "for (double *p = a; p < a + n; p = p + m) *p = 1;",
        "for (double *p = a; p < a + n; p++) { *p = 1; p++; }",
        "const double *end = b + n; while (b != end) { if (*b < 0) break; *a++ = *b++; }",
        "const double *end = b + n; while (b != end) { if (*b < 0) b++; *a = *b; }",
        "const double *end = b + n; for (int i = 0; i < m; i++) while (b != end) *a++ = *b++;",
        "double *p = a; p = p + m; while (p < a + n) *p++ = 1;",
        "double *p; while (p < a + n) *p++ = 1;",
        "while (n--) a[n] = 1;",
    ],
)
def test_other_loops_are_no_such_loops(tmp_path: Path, body: str) -> None:
    taken: tuple[Scop, ...] = ()
    with contextlib.suppress(InputErrors):  # refused, or kept as it is written
        taken = (scop(tmp_path, body),)
    assert all(not isinstance(s.body, Assignment) for found in taken for s in found.statements)


def test_the_loops_as_they_are_written_have_their_pointers(tmp_path: Path) -> None:
    body = "const double *end = b + n; while (b != end) *a++ = *b++;"
    assert scop(tmp_path, body).region.declared_outside[-1] == "const double *end = b + n"
    assert scop(tmp_path, "double *p; for (p = a; p < a + n; p++) *p = 1;").region.declared_outside[-1] == "double *p"
