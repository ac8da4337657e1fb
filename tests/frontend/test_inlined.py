"""Functions of the file in place of their calls: what is expanded, into what, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.frontend import load
from polydl.model.scop import Scop
from tests.frontend.reading import reads, same_map

CALLER = "void f(int n, double A[restrict 20][30], double *restrict x, double *restrict y)\n{{\n    {}\n}}\n"


def scop(folder: Path, helpers: str, body: str) -> Scop:
    path = folder / "calls.c"
    path.write_text(helpers + CALLER.format(body))
    (found,) = (one for one in load(path, require_sizes=False).scops if one.function == "f")
    return found


def element(found: Scop, array: str) -> str:
    """What is read of an array in the first statement that reads it."""
    statement = next(s for s in found.statements if reads(s, array))
    return str(reads(statement, array)[0].relation.range())


SECOND = "static double second(const double *p, int at) { double s = p[at]; return s + p[1]; }\n"


@pytest.mark.parametrize(
    ("argument", "array", "relation"),
    [
        ("x, i", "x", "[n] -> { S1[i] -> x[i] }"),
        ("A[i], 3", "A", "[n] -> { S1[i] -> A[i, 3] }"),
        ("&A[i][2], i + 1", "A", "[n] -> { S1[i] -> A[i, 3 + i] }"),
        ("x + i, 3", "x", "[n] -> { S1[i] -> x[i + 3] }"),
    ],
)
def test_pointers_become_what_they_are_given(tmp_path: Path, argument: str, array: str, relation: str) -> None:
    found = scop(tmp_path, SECOND, f"for (int i = 0; i < 10; i++) y[i] = 2 * second({argument});")
    statement = next(s for s in found.statements if reads(s, array))
    access = reads(statement, array)[0].relation
    wanted = relation.replace("[n] -> ", "").replace("S1[", f"{statement.name}[")
    assert same_map(access.intersect_domain(statement.domain), wanted.replace(" }", " : 0 <= i < 10 }"))


def test_helpers_that_write_have_their_statements_in_the_caller(tmp_path: Path) -> None:
    helper = "static void scale(double *p, int n, double by) { for (int k = 0; k < n; k++) p[k] *= by; }\n"
    found = scop(tmp_path, helper, "for (int i = 0; i < 20; i++) { scale(A[i], 30, x[i]); scale(&A[i][3], 4, 2.0); }")
    products = [s for s in found.statements if any(a.write and a.array == "A" for a in s.accesses)]
    assert [s.depth for s in products] == [2, 2]
    assert {a.array for s in found.statements for a in s.accesses} >= {"A", "x"}


@pytest.mark.parametrize(
    ("helper", "stored"),
    [
        ("static double h(double *p, int i) { return p[i]++; }", ["x"]),
        ("static double h(double *p, int i) { p[1] = 2; return p[i] = i; }", ["x", "x"]),
        (
            "static double g(double *p) { return *p = 3; }\nstatic double h(double *p, int i) { return g(p + i); }",
            ["x"],
        ),
    ],
)
def test_the_effects_of_what_nobody_uses_stay(tmp_path: Path, helper: str, stored: list[str]) -> None:
    found = scop(tmp_path, f"{helper}\n", "for (int i = 0; i < 10; i++) h(x, i);")
    assert [a.array for s in found.statements for a in s.accesses if a.write and a.array == "x"] == stored


def test_variables_of_helpers_may_hide_its_parameters(tmp_path: Path) -> None:
    helper = (
        "static double h(const double *p, int m) { double s = p[m]; { int m = 7; s += p[m]; } return s + p[m + 1]; }\n"
    )
    found = scop(tmp_path, helper, "for (int i = 0; i < 10; i++) y[i] = h(x, 3);")
    read = [a.relation.range() for s in found.statements for a in reads(s, "x")]
    assert len(read) == 3
    assert all(
        same_map(one.identity(), f"{{ x[a] -> x[b] : a = {at} and b = a }}")
        for one, at in zip(read, (3, 7, 4), strict=True)
    )


def test_helpers_call_helpers(tmp_path: Path) -> None:
    helpers = (
        "static double at(const double *p, int i) { return p[i]; }\n"
        "static double pair(const double *p, int i) { double one = at(p, i); return one + at(p + 1, i); }\n"
    )
    found = scop(tmp_path, helpers, "for (int i = 0; i < 10; i++) y[i] = pair(x, i) * pair(x, i + 5);")
    read = {str(a.relation.range()) for s in found.statements for a in reads(s, "x")}
    assert len(read) == 4


def test_helpers_read_what_the_file_has(tmp_path: Path) -> None:
    helper = "double factor, table[9];\nstatic double h(double v) { double t = table[2]; return v * factor + t; }\n"
    found = scop(tmp_path, helper, "for (int i = 0; i < 10; i++) y[i] = h(x[i]);")
    assert {a.array for s in found.statements for a in s.accesses} >= {"factor", "table", "x"}


@pytest.mark.parametrize(
    ("helper", "call"),
    [
        # each for one reason: recursion, an early end, memory of its own, a write in an expression, a name that means
        # something else, other dimensions, another type, a pointer that moves, a call that may not happen, a step
        ("static double h(const double *p, int i) { return i ? h(p, i - 1) : p[0]; }", "y[i] = h(x, i);"),
        ("static double h(const double *p, int i) { if (i) return p[i]; return p[0]; }", "y[i] = h(x, i);"),
        ("static double h(const double *p, int i) { static int k = 0; k++; return p[i]; }", "y[i] = h(x, i);"),
        ("static double h(double *p, int i) { p[i] = 0; return p[1]; }", "y[i] = h(x, i);"),
        ("double n;\nstatic double h(const double *p, int i) { return p[i] * n; }", "y[i] = h(x, i);"),
        ("static double h(double (*p)[30], int i) { return p[i][1]; }", "y[i] = h(x, i);"),
        ("static double h(const float *p, int i) { return p[i]; }", "y[i] = h(x, i);"),
        ("static double h(const double *p, int i) { p += i; return p[0]; }", "y[i] = h(x, i);"),
        ("static double h(const double *p, int i) { return p[i]; }", "y[i] = i > 3 ? h(x, i) : 0;"),
        ("static double h(const double *p, int i) { return p[i] + p[1]; }", "y[i] = h(x + n++, i);"),
        # what it returns changes something, which is a part of a value, or that of an expression; a pointer is hidden
        ("static double h(double *p, int i) { return p[i]++; }", "y[i] = h(x, i);"),
        ("static double h(double *p, int i) { return p[i] = i; }", "y[i] = h(x, i);"),
        ("static double h(double *p, int i) { return 2 * (p[i] += 1); }", "h(x, i);"),
        ("static double h(double *p) { double s = p[1]; return s + *p++; }", "h(x);"),
        ("static void h(double *p) { p[0] = 1; { double p[1] = {2}; p[0] += 1; } }", "h(x);"),
    ],
)
def test_other_calls_stay_and_are_refused(tmp_path: Path, helper: str, call: str) -> None:
    with pytest.raises(InputErrors, match="the effects of the call of 'h' are unknown"):
        scop(tmp_path, f"{helper}\n", f"for (int i = 0; i < 10; i++) {{ {call} }}")


def test_static_helpers_that_nobody_calls_any_more_are_no_regions(tmp_path: Path) -> None:
    path = tmp_path / "calls.c"
    helper = "void half(double *p, int m) { for (int k = 0; k < m; k++) p[k] *= 0.5; }\n"
    caller = CALLER.format("for (int i = 0; i < 20; i++) half(A[i], 30);")
    for storage, functions in (("static ", ["f"]), ("", ["half", "f"])):
        path.write_text(f"{storage}{helper}{caller}")
        assert [one.function for one in load(path, require_sizes=False).scops] == functions
    path.write_text(f"static {helper}{caller}")
    assert [one.function for one in load(path, require_sizes=False, function="half").scops] == ["half"]


@pytest.mark.parametrize(
    "caller",
    [
        "int main(void) { static double x[30]; for (int i = 0; i < 20; i++) half(x, 30); return 0; }\n",
        'void run(double *x) { for (int i = 0; i < 20; i++) { half(x, 30); puts("one"); } }\n',
        'void run(double *x) { puts("one"); half(x, 30); }\n',
    ],
)
def test_helpers_of_what_is_no_region_are_regions(tmp_path: Path, caller: str) -> None:
    path = tmp_path / "calls.c"
    helper = "static void half(double *p, int m) { for (int k = 0; k < m; k++) p[k] *= 0.5; }\n"
    path.write_text(f"#include <stdio.h>\n{helper}{caller}")
    assert [one.function for one in load(path, require_sizes=False).scops] == ["half"]
