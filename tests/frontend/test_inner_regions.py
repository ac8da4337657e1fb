"""Loops that are regions by themselves inside of loops that are none, and locals that hold functions of sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.frontend import load
from polydl.model.scop import BlackBox
from tests.frontend.reading import scop

ITERATED = """
double norm(const double *);
void f(int n, double u[restrict n], double w[restrict n], double tol)
{{
  double err = tol + 1;
  {0} {{
    err = 0;
    for (int i = 0; i < n; i++) {{
      w[i] = 2 * u[i];
      err += w[i];
    }}
    for (int i = 0; i < n; i++)
      u[i] = w[i];
    if (norm(u) < tol) break;
  }}{1}
}}
"""


@pytest.mark.parametrize(
    ("head", "tail"),
    [("while (err > tol)", ""), ("for (int t = 0; t < n; t++)", ""), ("do", " while (err > tol);")],
)
def test_loops_inside_of_a_loop_that_is_no_region(tmp_path: Path, head: str, tail: str) -> None:
    found = scop(tmp_path, ITERATED.format(head, tail))
    assert len(found.statements) == 3
    assert found.span.line == 8
    assert found.live_out >= {"u", "w"}


def test_the_sum_is_live_where_the_loop_around_reads_it(tmp_path: Path) -> None:
    assert "err" in scop(tmp_path, ITERATED.format("while (err > tol)", "")).live_out


def test_errors_are_those_of_the_whole_nest(tmp_path: Path) -> None:
    path = tmp_path / "k.c"
    path.write_text(
        "int g(int *);\nvoid f(int n, int *x) {\n  for (int i = 0; i < n; i++)\n    for (int j = 0; j < n; j++)\n"
        "      x[j] = g(x);\n}\n"
    )
    with pytest.raises(InputErrors) as caught:
        load(path, require_sizes=False)
    assert len(caught.value.errors) == 1


UNTIL = """
void f(int n, double x[restrict n], int steps[restrict n])
{{
  for (int i = 0; i < n; i++) {{
    double g = x[i];
    int k = 0;
    {0}
    x[i] = g;
    steps[i] = k;
  }}
}}
"""


@pytest.mark.parametrize(
    "loop",
    [
        "while (g > 1.0 && k < 50) { g = g / 2; k++; }",
        "do { g = g / 2; k++; } while (g > 1.0);",
        "while (g > 1.0) { if (k > 9) break; g = g / 2; k += 1; }",
        "while (k < 50) { g = g / 2; if (g < 1.0) break; k++; }",
    ],
)
def test_loops_that_data_end_are_kept_as_they_are(tmp_path: Path, loop: str) -> None:
    found = scop(tmp_path, UNTIL.format(loop))
    (box,) = (s for s in found.statements if isinstance(s.body, BlackBox))
    assert box.iterators == ("i",)
    assert {a.array for a in box.accesses if a.write} == {"g", "k"}
    assert isinstance(box.body, BlackBox)
    assert ("while" in box.body.text) and "k" in box.body.text


HALVES = "void f(int n, float x[restrict n], float y[restrict n]) {{\n{0}\n}}\n"


def test_a_local_is_worth_what_it_is_initialised_with(tmp_path: Path) -> None:
    body = "int half = n / 2;\nfor (int i = 0; i < half; i++)\n  y[i] = x[2 * i + 1];"
    found = scop(tmp_path, HALVES.format(body), sizes={"n": 9}, require_sizes=True)
    assert found.statements[0].domain.count_val().to_python() == 4
    assert {guard.name for guard in found.guards} == {"n", "half"}
    symbolic = scop(tmp_path, HALVES.format(body))
    assert set(symbolic.parameters) == {"n", "half"}
    assert not symbolic.context.is_equal(symbolic.context.universe(symbolic.context.get_space()))


@pytest.mark.parametrize(
    "body",
    [
        "int half = n / 2;\nhalf++;\nfor (int i = 0; i < half; i++)\n  y[i] = x[i];",
        "int half = n / 2;\n{\nint n = 5;\nfor (int i = 0; i < half + n - 5; i++)\n  y[i] = x[i];\n}",
        "static int half;\nfor (int i = 0; i < half; i++)\n  y[i] = x[i];",
    ],
)
def test_a_local_that_may_be_worth_something_else(tmp_path: Path, body: str) -> None:
    found = scop(tmp_path, HALVES.format(body), sizes={"half": 3}, require_sizes=False)
    assert found.statements[0].domain.is_empty() is False
    assert "half" in found.sizes


def test_a_product_that_a_variable_holds_is_a_value(tmp_path: Path) -> None:
    body = "for (int i = 0; i < n; i++) {\n  int at = i * n + 3;\n  y[i] = x[i] * at;\n}"
    found = scop(tmp_path, HALVES.format(body))
    assert len(found.statements) == 1


ASSUMED = """
%s
void f(int n, int m, float x[restrict n], float y[restrict n])
{
  %s
  for (int i = 0; i < n; i++)
    y[i] = x[m];
}
"""


def test_assumptions_hold_for_loops_without_pragmas(tmp_path: Path) -> None:
    found = scop(tmp_path, ASSUMED % ("", "#pragma polydl assume(n >= 4 && m < n)\n#pragma polydl dead(x)"))
    assert found.context.is_subset(type(found.context)("[n, m] -> { [] : n >= 4 and m < n }"))
    assert found.live_out == {"y"}


def test_a_pragma_outside_of_functions_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match="outside any function") as caught:
        scop(tmp_path, ASSUMED % ("#pragma polydl assume(n >= 4)", ""))
    assert [error.span.line for error in caught.value.errors if error.span] == [2]


def test_what_stays_as_it_is_is_said(tmp_path: Path) -> None:
    """Loops beside a scop, with the place and the reason; those of `main` drive the others."""
    path = tmp_path / "s.c"
    path.write_text(
        "void copy(int n, int *restrict a, const int *restrict b)\n{ for (int i = 0; i < n; i++) a[i] = b[i]; }\n"
        "int count(int n, const int *a)\n{\n    int c = 0;\n    for (int i = 0; i < n; i++) c += a[i] > 0;\n"
        "    return c;\n}\n"
        "int find(int n, const int *a)\n{\n    for (int i = 0; i < n; i++) if (a[i] > 0) return i;\n    return n;\n}\n"
        "int steps(int n)\n{\n    int s = 0;\n    again: while (n != 1) { n = n % 2 ? 3 * n + 1 : n / 2; s++; }\n"
        "    return s;\n}\n"
        "int none(int a) { return a; }\n"
        "int main(void) { int a[9]; for (int i = 0; i < 9; i++) a[i] = 1; return count(9, a); }\n"
    )
    program = load(path, sizes={"n": 10})
    assert [scop.function for scop in program.scops] == ["copy", "count"]
    assert [(why.span.line, why.reason) for why in program.unread if why.span is not None] == [
        (11, "'return' leaves the scop early"),
        (17, "'steps' does more than run for loops: this stands beside them"),
    ]


def test_the_loops_of_one_that_would_be_kept_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "s.c"
    path.write_text(
        "void f(int n, double *restrict x, double *restrict y)\n{\n    double moved = 1;\n    int sweeps = 0;\n"
        "    while (moved > 1e-3 && sweeps < 5) {\n        moved = 0;\n"
        "        for (int i = 0; i < n; i++) { double d = y[i] - x[i]; x[i] = y[i]; if (d > moved) moved = d; }\n"
        "        sweeps++;\n    }\n}\n"
    )
    program = load(path, sizes={"n": 10})
    (scop,) = program.scops
    assert scop.span.line == 7 and not program.unread
    assert all(statement.depth == 1 for statement in scop.statements)
