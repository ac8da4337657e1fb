"""Loops that count with a pointer are loops that count."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.frontend import load
from polydl.lower.splice import splice
from polydl.model.scop import Assignment, Scop
from polydl.options import Options
from polydl.pipeline import rank
from tests.compiling import run_compiler, run_program

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
        ("double *p = a + 2; while (p != &a[n]) { *p = *b++; p++; }", "[n] -> { [i0] : 2 <= i0 < n }"),
        ("double *p = a; p++; while (p < a + n) *p++ = *b++;", "[n] -> { [i0] : 1 <= i0 < n }"),
        ("double *e = a + n, *p = e; while (p > a) *--p = 1;", "[n] -> { [i0] : 0 <= i0 < n }"),
        ("double *q = a, *p = q + 1; while (p != a + n) *p++ += *q++;", "[n] -> { [i0] : 1 <= i0 < n }"),
        ("double *p = a + n; while (p > a) *--p = 1;", "[n] -> { [i0] : 0 <= i0 < n }"),
        ("double *p; p = a + 2 * n; p--; while (p != a) { *p = 1; p--; }", "[n] -> { [i0] : 0 < i0 < 2n }"),
        ("double *p, *e; for (p = a, e = p + n; p != e; ++p) *p *= 2;", "[n] -> { [i0] : 0 <= i0 < n }"),
        ("for (double *p = a + 1, *e = a + n, *q = b; p < e; p++, q++) *p = *q;", "[n] -> { [i0] : 1 <= i0 < n }"),
        ("for (double *p = a; a + n > p; p++) *p = *b;", "[n] -> { [i0] : 0 <= i0 < n }"),
        ("double *q = b; for (double *p = a; p < a + n; p++, q++) *p = *q;", "[n] -> { [i0] : 0 <= i0 < n }"),
        (
            "int i; double *p; for (i = 2, p = a; i < n; i++, p += 3) *p = i;",
            "[n] -> { [i0] : 0 <= i0 <= 3n - 9 and i0 mod 3 = 0 }",
        ),
        ("for (double *p = a + n - 1; p >= a; p--) *p = 1;", "[n] -> { [i0] : 0 <= i0 < n }"),
        ("for (double *p = a + n; p-- > a + 1;) *p = p[-1];", "[n] -> { [i0] : 1 <= i0 < n }"),
        ("double *e = a + n; while (a < e) { *a = 1; a += 3; }", "[n] -> { [i0] : 0 <= i0 < n and i0 mod 3 = 0 }"),
        ("double *e = a + 2 * n; for (; a != e; a += 2) *a = 1;", "[n] -> { [i0] : 0 <= i0 < 2n and i0 mod 2 = 0 }"),
        ("for (double *p = a, *q = b; p < a + n; p++) *p = *q++;", "[n] -> { [i0] : 0 <= i0 < n }"),
        (
            "for (double *p = a, *q = b; p < a + n; p += 2, q += 3) *p = *q;",
            "[n] -> { [i0] : 0 <= i0 < n and i0 mod 2 = 0 }",
        ),
        ("double *p = a, *q; q = b + n; do *p++ = *--q; while (q > b);", "[n] -> { [i0] : 0 <= i0 < n; [0] }"),
        ("double *p; p = A[3]; for (int k = 0; k < 30; k++) *p++ = 0;", "{ [i0] : 90 <= i0 < 120 }"),
        ("while (n--) *a++ += *b++;", "[n] -> { [i0] : 0 <= i0 < n }"),
        ("while (n-- > 0) { *a = *b; a++; b++; }", "[n] -> { [i0] : 0 <= i0 < n }"),
    ],
)
def test_what_is_written(tmp_path: Path, body: str, written: str) -> None:
    found = scop(tmp_path, body)
    (statement,) = found.statements
    assert isinstance(statement.body, Assignment) and statement.depth == 1
    target = statement.accesses[statement.body.target].relation
    array = found.arrays[statement.accesses[statement.body.target].array]
    places = array.layout.accessed(target).intersect_domain(statement.domain).range().reset_tuple_id()
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
        # is said of
        "for (double *p = a; p < b + n; p++) *p = 1;",
        "for (double *p = a; p < a + n; p = p + m) *p = 1;",
        "for (double *p = a; p < a + n; p++) { *p = 1; p++; }",
        "const double *end = b + n; while (b != end) { if (*b < 0) break; *a++ = *b++; }",
        "const double *end = b + n; while (b != end) { if (*b < 0) b++; *a = *b; }",
        "const double *end = b + n; for (int i = 0; i < m; i++) while (b != end) *a++ = *b++;",
        "double *p = a; p = p + m; while (p < a + n) *p++ = 1;",
        "double *p; while (p < a + n) *p++ = 1;",
        "for (double *p = a + n; p > a; p += 1) *p = 1;",
        "double *e = a + n; for (; a < e; a++) { if (*a < 0) continue; *a = 1; }",
        # elements decide where they begin, and change before they move
        "int k[20]; for (int i = 0; i < 20; i++) { double *p = A[k[i]]; k[i] = 0; while (p < A[k[i]] + 9) *p++ = *b; }",
        "int k[9]; for (int i = 0; i < 9; i++) { int *w = k; double *p = A[k[i]]; *w++ = 0; *p++ = 1; *p = 2; }",
        "int k[2] = {1}; double *q = &a[k[0]], *p = a; for (int i = 0; i < n; i++) { k[0] = i; *p++ = 1; *b = *q; }",
    ],
)
def test_other_loops_are_no_such_loops(tmp_path: Path, body: str) -> None:
    taken: tuple[Scop, ...] = ()
    with contextlib.suppress(InputErrors):  # refused, or kept as it is written
        taken = (scop(tmp_path, body),)
    assert all(not isinstance(s.body, Assignment) or not s.depth for found in taken for s in found.statements)


def test_the_loops_as_they_are_written_have_their_pointers(tmp_path: Path) -> None:
    body = "const double *end = b + n; while (b != end) *a++ = *b++;"
    assert scop(tmp_path, body).region.declared_outside[-1] == "const double *end = b + n"
    assert scop(tmp_path, "double *p; for (p = a; p < a + n; p++) *p = 1;").region.declared_outside[-1] == "double *p"


WHOLE = """\
#include <stdio.h>
#define HEAD int n, int m, double *restrict a, const double *restrict b
void f0(HEAD) { for (double *p = a, *e = a + n; p < e; p++) *p += m; }
void f1(HEAD) { for (double *p = a + n; p-- > a + 1;) *p += p[-1]; }
void f2(HEAD) { for (double *p = a + n - 1; p >= a; p -= 2) *p += b[p - a]; }
void f3(HEAD) { const double *q = b; for (double *p = a + 2; p != a + n + 2; ++p, ++q) *p = *q - 1; }
void f4(HEAD) { int i; const double *p; double *q; for (i = 1, p = b, q = a + 3; i < n; i++, p += 2, q++) *q = *p * i; }
void f5(HEAD) { double *e = a + 3 * n; for (; a != e; a += 3) { double t = a[0]; a[0] = a[2]; a[2] = t; } }
void f6(HEAD) { double *e = a + n; while (a < e) { *a += 1; a[1] += 2; a += 2; } }
void f7(HEAD) { for (double *p = a + n - 1, *q = a + 30; p >= a; p--, q--) *q += *p; }
void f8(HEAD) { for (int j = 0; j < m; j++) for (double *p = a + 5 * j, *e = p + n; p < e; p++) *p += b[j]; }
int main(void)
{
    void (*all[])(HEAD) = {f0, f1, f2, f3, f4, f5, f6, f7, f8};
    for (int n = 0; n < 20; n++) {
        double a[100], b[100], s = 0;
        for (int k = 0; k < 100; k++) a[k] = k * k % 17, b[k] = k % 5;
        for (int k = 0; k < 9; k++) {
            all[k](n, 1 + n / 3, a, b);
            for (int i = 0; i < 100; i++) s += (i + 1) * a[i];
            printf("%d %d %.17g\\n", n, k, s);
        }
    }
    return 0;
}
"""


def test_outputs_compute_the_same(tmp_path: Path) -> None:
    """For the sizes that they were made for, and others."""
    path = tmp_path / "whole.c"
    path.write_text(WHOLE)
    program = load(path, sizes={"n": 12, "m": 5})
    assert len(program.scops) == 9 and all(isinstance(s.body, Assignment) for f in program.scops for s in f.statements)
    printed = []
    for number in range(3):
        pieces = []
        for found in program.scops:
            ranking = list(rank(found, options=Options(space="small", threads=2)))
            pieces.append((found, ranking[min(number, len(ranking) - 1)].generated))
        (tmp_path / "run.c").write_text(splice(program.source, pieces, ""))
        for source in ("whole.c", "run.c"):
            flags = ["-O2", "-march=native", "-fopenmp", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
            run_compiler(["cc", *flags, "-Wno-unknown-pragmas", "-o", tmp_path / "run", tmp_path / source])
            printed.append(run_program([tmp_path / "run"]).stdout)
    assert len(set(printed)) == 1
