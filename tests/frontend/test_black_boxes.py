"""Code that data steer is kept as one statement, with what it may touch; the rest stays open to transformation."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.dependences.analysis import dependences
from polydl.model.scop import Assignment, BlackBox, Statement
from polydl.rewrite.canonical import canonical
from tests.frontend.reading import region, same_set

HEAD = "void f(double A[20][30], double B[20], int at[20])"


def only(folder: Path, body: str, head: str = HEAD) -> Statement:
    (statement,) = region(folder, body, head).statements
    assert isinstance(statement.body, BlackBox)
    return statement


def touched(statement: Statement) -> dict[tuple[str, bool], str]:
    return {(a.array, a.write): str(a.relation.range()) for a in statement.accesses}


def test_both_branches_count(tmp_path: Path) -> None:
    found = only(
        tmp_path,
        "for (int i = 0; i < 20; i++)"
        " if (A[i][0] > 0) B[i] = 1; else for (int j = 1; j < 9; j++) A[i][j] += B[19 - i];",
    )
    assert str(found.domain) == "{ S0[i] : 0 <= i <= 19 }"
    assert touched(found) == {
        ("A", False): "{ A[a0, a1] : 0 <= a0 <= 19 and 0 <= a1 <= 8 }",
        ("A", True): "{ A[a0, a1] : 0 <= a0 <= 19 and 0 < a1 <= 8 }",
        ("B", False): "{ B[a0] : 0 <= a0 <= 19 }",
        ("B", True): "{ B[a0] : 0 <= a0 <= 19 }",
    }
    assert isinstance(found.body, BlackBox)
    assert [declaration for declaration, _ in found.body.locals] == ["const int i"]


def test_affine_conditions_still_shape_the_domain(tmp_path: Path) -> None:
    found = only(tmp_path, "for (int i = 0; i < 20; i++) if (i > 3 && i % 2 == 0) if (B[i] < 0) B[i] = 0;")
    assert same_set(found.domain, "{ S0[i] : (i) mod 2 = 0 and 4 <= i <= 18 }")


def test_temporaries_and_counters_are_declared(tmp_path: Path) -> None:
    found = only(
        tmp_path,
        "int k, m; for (int i = 0; i < 20; i++) { m = 19 - i; if (B[m] > 0) for (k = 0; k < 4; k++) A[m][k] = k; }",
    )
    assert isinstance(found.body, BlackBox)
    values = dict(found.body.locals)
    assert set(values) == {"const int m", "int k"}, "i is not mentioned"
    assert str(values["const int m"]) == "{ S0[i] -> [(19 - i)] }"
    assert values["int k"] is None


def test_integers_that_data_decide_are_data(tmp_path: Path) -> None:
    scop = region(
        tmp_path,
        "int best = 0; for (int i = 0; i < 20; i++) if (B[i] > B[0]) { best = i; at[1] = i; }\nat[0] = best;",
        HEAD,
    )
    assert [type(s.body) for s in scop.statements] == [Assignment, BlackBox, Assignment]
    assert ("best", True) in touched(scop.statements[1])
    assert {(d.source, d.target) for d in dependences(scop) if d.array == "best"} >= {("S0", "S1"), ("S1", "S2")}


def test_break_keeps_the_loop_whole(tmp_path: Path) -> None:
    scop = region(
        tmp_path,
        "for (int i = 0; i < 20; i++) {"
        " for (int j = 0; j < 30; j++) { if (A[i][j] < 0) break; B[i] += A[i][j]; } at[i] = i; }",
        HEAD,
    )
    kept, after = scop.statements
    assert isinstance(kept.body, BlackBox) and "break" in kept.body.text
    assert kept.iterators == after.iterators == ("i",)
    assert isinstance(after.body, Assignment)


def test_switch_with_fall_through(tmp_path: Path) -> None:
    found = only(tmp_path, "for (int i = 0; i < 20; i++) switch (at[i]) { case 1: B[i] = 1; default: A[i][2] = 2; }")
    assert {key for key in touched(found) if key[1]} == {("A", True), ("B", True)}


def test_variables_of_its_own_are_nobodys(tmp_path: Path) -> None:
    found = only(tmp_path, "for (int i = 0; i < 20; i++) if (B[i] > 0) { double t = B[i]; B[i] = t * t; }")
    assert {name for name, _ in touched(found)} == {"B"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("for (int i = 0; i < 20; i++) if (B[i] > 0) return;", "'return' leaves the scop early"),
        ("for (int i = 0; i < 20; i++) if (B[i] > 0) g(i);", "effects of the call of 'g' are unknown"),
        ("for (int i = 0; i < 20; i++) if (B[i] > 0) while (1) B[i] /= 2;", "never ends"),
    ],
)
def test_what_stays_outside(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(InputErrors, match=message):
        region(tmp_path, body, HEAD)


@pytest.mark.parametrize(
    ("before", "loop", "shown"),
    [
        ("float *w = z[i];", "w[0] += *row;", ["float *w = z[i];", "const float *row = x + (9 * col[k]);"]),
        ("float *w = z[i], *v = w + 1;", "v[1] += row[3];", ["float *w = z[i];", "float *v = w + 1;"]),
        ("int half = i / 2; float *w = &z[half][0];", "w[1] += row[i];", ["float *w = &z[half][0];"]),
    ],
)
def test_pointers_inside_and_in_front_of_what_is_kept(tmp_path: Path, before: str, loop: str, shown: list[str]) -> None:
    head = "void f(int at[21], int col[500], const float *x, float z[20][3])"
    inside = f"for (int k = at[i]; k < at[i + 1]; k++) {{ const float *row = x + 9 * col[k]; {loop} }}"
    (statement,) = region(tmp_path, f"for (int i = 0; i < 20; i++) {{ {before} {inside} }}", head).statements
    assert isinstance(statement.body, BlackBox)
    assert all(line in statement.body.text for line in shown)
    assert {(a.array, a.write, a.exact) for a in statement.accesses} == {
        ("at", False, True), ("col", False, False), ("x", False, False), ("z", False, True), ("z", True, True)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("int r = i; float *w = z[r]; r = 3;", "the pointer 'w' is declared in the scop"),
        ("float *w = at[i] > 2 ? z[i] : z[0];", "is given something else than a place in an array"),
    ],
)
def test_pointers_that_would_point_somewhere_else(tmp_path: Path, before: str, message: str) -> None:
    head = "void f(int at[21], int col[500], float z[20][3])"
    inside = "for (int k = at[i]; k < at[i + 1]; k++) { w[0] += col[k]; }"
    body = f"for (int i = 0; i < 20; i++) {{ {before} {inside} }}"
    with pytest.raises(InputErrors, match=message):
        region(tmp_path, body, head)


SPARSE = "void f(int at[21], int col[500], float val[500], float x[99], float y[20], int seen[20], double z[20][3])"


@pytest.mark.parametrize(
    ("loop", "reductions"),
    [
        ("for (int k = at[i]; k < at[i + 1]; k++) s += val[k] * x[col[k]];", ["+ : s"]),
        ("int k; for (k = at[i]; k <= at[i + 1]; ++k) { float v = val[k]; s -= v; t += v; }", ["+ : s", "+ : t"]),
        ("for (int k = at[i]; k < at[i + 1]; k++) y[i] += val[k] * expf(x[col[k]]);", ["+ : polydl_sum0"]),
        ("for (int k = at[i]; k < at[i + 1]; k++) { z[i][0] += val[k]; s += x[k]; }", ["+ : polydl_sum0", "+ : s"]),
        ("for (int k = at[i]; k < at[i + 1]; k++) { s += expf(x[col[k]]); t += x[k]; }", ["+ : s", "+ : t"]),
        # each for one reason
        ("for (int k = at[i]; k < at[i + 1]; k++) { float v = val[k]; s -= v; t *= v; }", None),
        ("for (int k = at[i]; k < at[i + 1]; k++) s += x[col[k]];", None),
        ("for (int k = at[i]; k < at[i + 1]; k++) { int c = col[k]; s += x[c]; t += val[c + 1]; }", None),
        ("for (int k = at[i]; k < at[i + 1]; k++) s += s * val[k];", None),
        ("for (int k = at[i]; k < at[i + 1]; k++) { s += val[k]; y[i] = s; }", None),
        ("for (int k = at[i]; k < at[i + 1]; k += 2) s += val[k];", None),
        ("for (int k = at[i]; k < at[i + 1]; k++) seen[i] += col[k];", None),
        ("for (int k = at[i]; k < at[i + 1]; k++) { y[19 - i] += val[k]; s += y[i]; }", None),
        ("for (int k = at[i]; k < at[i + 1]; k++) { z[i][0] += val[k]; z[i][1] += x[k]; }", None),
        ("for (int k = at[i]; k < at[i + 1]; k++) { if (val[k] < 0) break; s += val[k]; }", None),
    ],
)
def test_sums_between_bounds_that_are_read_may_use_lanes(
    tmp_path: Path, loop: str, reductions: list[str] | None
) -> None:
    body = f"for (int i = 0; i < 20; i++) {{ float s = 0, t = 1; {loop} y[i] = s * t; }}"
    found = region(tmp_path, body, f"#include <math.h>\n{SPARSE}")
    (kept,) = (s.body for s in found.statements if isinstance(s.body, BlackBox))
    assert "#pragma" not in kept.text
    pragma = "".join(f" reduction({one})" for one in reductions or [])
    assert (f"#pragma omp simd{pragma}\n" in kept.lanes) if reductions else not kept.lanes
    changed = canonical(found).scop.statements, canonical(found, reassociate=False).scop.statements
    texts = [[s.body.text for s in some if isinstance(s.body, BlackBox)] for some in changed]
    assert texts == [[kept.lanes or kept.text], [kept.text]]


@pytest.mark.parametrize(
    ("inner", "reduction"),
    [
        ("float s = 0; for (int j = 0; j < 9; j++) s += x[j] * m[col[k]][j]; val[k] = s;", "+ : s"),
        ("float s = 0; for (int j = 0; j < 9; j++) s += m[k][j] * m[col[k]][j]; val[k] = s;", "+ : s"),
        ("double s = 0; for (int j = 0; j < 9; j++) s += x[1 + j] * m[col[k]][j + k]; val[k] = s;", "+ : s"),
        ("for (int j = 0; j < 9; j++) z[i][0] += x[j]; val[k] = 0;", "+ : polydl_sum0"),
        ("if (val[k] > 0) for (int j = 0; j < 9; j++) y[i] -= x[j];", "+ : polydl_sum0"),
        # each for one reason
        ("float s = 0; for (int j = 0; j < 9; j++) s += x[2 * j]; val[k] = s;", None),
        ("float s = 0; for (int j = 0; j < 9; j++) s += m[j][k]; val[k] = s;", None),
        ("float s = 0; for (int j = 0; j < 9; j++) s += x[col[j]]; val[k] = s;", None),
        ("float s = 0; for (int j = 0; j < 9; j++) s += x[j] * s; val[k] = s;", None),
        ("int s = 0; for (int j = 0; j < 9; j++) s += col[j]; val[k] = s;", None),
        ("for (int j = 0; j < 9; j++) y[j] += x[j]; val[k] = 0;", None),
    ],
)
def test_sums_along_rows_use_lanes_inside_of_such_loops(tmp_path: Path, inner: str, reduction: str | None) -> None:
    head = SPARSE.replace("double z", "float m[99][9], double z")
    body = f"for (int i = 0; i < 20; i++) for (int k = at[i]; k < at[i + 1]; k++) {{ {inner} }}"
    (kept,) = (s.body for s in region(tmp_path, body, head).statements if isinstance(s.body, BlackBox))
    assert "#pragma" not in kept.text
    assert (f"#pragma omp simd reduction({reduction})\n" in kept.lanes) if reduction else not kept.lanes
    assert ("const float *polydl_row0 = m[" in kept.lanes) == (reduction is not None and "m[" in inner)


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("if (B[i] > 0) { at[i] = 1; continue; } at[i] = 2; A[i][0] = 3;", [BlackBox]),
        ("if (B[i] > 0) continue; at[i] = 2; A[i][0] = 3;", [BlackBox]),
        (
            "A[i][1] = 0; if (B[i] > 0) { at[i] = 1; } else { at[i] = 2; continue; } A[i][0] = 3;",
            [Assignment, BlackBox],
        ),
        ("if (i > 3) { at[i] = 1; continue; } A[i][0] = 3;", [Assignment, Assignment]),
        ("if (i > 3) continue; A[i][0] = 3; continue;", [Assignment]),
        ("if (i > 3) { if (i > 9) continue; A[i][2] = 1; } A[i][0] = 3;", [BlackBox]),
        ("if (B[i] > 0) { at[i] = 1; break; } at[i] = 2;", [BlackBox]),
    ],
)
def test_iterations_that_end_early_are_conditions(tmp_path: Path, body: str, kinds: list[type]) -> None:
    scop = region(tmp_path, f"for (int i = 0; i < 20; i++) {{ {body} }}", HEAD)
    assert [type(s.body) for s in scop.statements] == kinds
    whole = "break" in body or "i > 9" in body
    assert all((s.depth == 0) == whole for s in scop.statements)


@pytest.mark.parametrize(
    ("before", "body", "after", "own"),
    [
        ("double t; int k, c;", "for (k = 0; k < 9; k++) { c = at[k]; if (c < 0) break; t = c; B[i] += t; }", "", "tc"),
        ("double t = 0; int k;", "for (k = 0; k < 9; k++) { if (B[k] < 0) break; t += B[k]; } B[i] = t;", "", ""),
        ("double t; int k;", "for (k = 0; k < 9; k++) { t = B[k]; if (t < 0) break; B[i] += t; }", "B[0] = t;", ""),
        ("double t;", "if (B[i] > 0) { t = A[i][1]; A[i][2] = t * t; } else { t = 1; A[i][3] = t; }", "", "t"),
    ],
)
def test_scalars_of_one_black_box_are_its_own(tmp_path: Path, before: str, body: str, after: str, own: str) -> None:
    """Written before they are read, and nothing else mentions them: no dependence keeps the loop around in order."""
    scop = region(tmp_path, f"{before} for (int i = 0; i < 20; i++) {{ {body} }} {after}", HEAD)
    kept = next(s for s in scop.statements if isinstance(s.body, BlackBox))
    assert isinstance(kept.body, BlackBox)
    names = {declaration.split()[-1] for declaration, value in kept.body.locals if value is None} - {"k"}
    assert names == set(own)
    touched_ = {a.array for a in kept.accesses}
    assert not touched_ & names and ({"t"} - names) & {*before.split("double ")[1][:1]} <= touched_


def test_an_integer_that_is_stepped_behind_the_code_has_its_value_in_it(tmp_path: Path) -> None:
    """Also where the code is what reads it first."""
    body = "int k = 0; for (int i = 0; i < 9; i++) { if (A[i][0] > 0) B[k] = A[i][0]; k += 2; }"
    (kept,) = region(tmp_path, body, HEAD).statements
    assert isinstance(kept.body, BlackBox)
    values = {declaration: str(value) for declaration, value in kept.body.locals}
    assert "(2i)" in values["const int k"]


def test_an_integer_that_is_no_affine_function_is_refused_in_code_that_is_kept(tmp_path: Path) -> None:
    body = "int k = 0; for (int i = 0; i < 9; i++) for (int j = i; j < 9; j++) { if (A[i][j] > 0) B[k] = 1; k++; }"
    with pytest.raises(InputErrors, match="the value of 'k' is not affine where data decide what runs"):
        region(tmp_path, body, HEAD)


@pytest.mark.parametrize("header", ["x = B[i], p = at[i]; p < at[i + 1]; p++", "p = at[i]; p < at[i + 1]; p++, x += 1"])
def test_headers_store_more_than_counters(tmp_path: Path, header: str) -> None:
    body = f"double x = 0; for (int i = 0; i < 19; i++) {{ int p; for ({header}) A[i][0] += A[19][p]; B[i] = x; }}"
    (kept,) = (s for s in region(tmp_path, body, HEAD).statements if isinstance(s.body, BlackBox))
    assert ("x", True) in touched(kept)


def test_a_loop_without_a_condition_in_code_that_is_kept(tmp_path: Path) -> None:
    inner = "for (int q = 0;; q++) { B[i] += A[i][q]; if (A[i][q] < 0) break; }"
    found = only(tmp_path, f"for (int i = 0; i < 19; i++) for (int p = at[i]; p < at[i + 1]; p++) {inner}")
    assert {name for name, write in touched(found) if write} == {"B"}


@pytest.mark.parametrize("step", ["B[at[i]] += 1;", "B[at[i]] = A[i][0];"])
def test_elements_that_data_choose_are_stored_to_where_they_were(tmp_path: Path, step: str) -> None:
    found = only(tmp_path, f"for (int i = 0; i < 20; i++) if (at[i] >= 0) {step}")
    assert isinstance(found.body, BlackBox)
    assert found.body.text.startswith("if (at[i] >= 0)")


def test_a_loop_that_counts_down_in_its_condition_in_code_that_is_kept(tmp_path: Path) -> None:
    body = "for (int i = 0; i < 20; i++) if (B[i] > 0) { int n = at[i]; while (n-- > 0) B[i] += A[i][n]; }"
    assert {name for name, write in touched(only(tmp_path, body)) if write} == {"B"}
