"""Tests that leave out products with zero are dropped where nothing, or nothing that counts, tells the difference."""

from __future__ import annotations

from pathlib import Path

import pytest

import polydl
from polydl.measure import Status
from polydl.model.scop import Assignment, BlackBox, Scop
from polydl.rewrite.canonical import canonical
from polydl.target.isa import kernel_contraction

HEAD = (
    "void f(const float A[restrict 9][9], const float B[restrict 9][9], float C[restrict 9][9], int *p, "
    "const int P[restrict 9][9], const int Q[restrict 9][9], int R[restrict 9][9])"
)
EACH = "for (int i = 0; i < 9; i++)"
SUM = "for (int k = 0; k < 9; k++)"
ROW = "for (int j = 0; j < 9; j++)"


def scop_of(body: str, *, fast_math: bool) -> Scop:
    (scop,) = polydl.load(f"{HEAD}\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}", fast_math=fast_math).scops
    return scop


def kept(scop: Scop) -> bool:
    """Whether a test stands in the code that is searched."""
    return any(isinstance(s.body, BlackBox) for s in scop.statements)


FLOATS = {
    "continue": f"{EACH} {SUM} {{ if (A[i][k] == 0.0f) continue; {ROW} C[i][j] += A[i][k] * B[k][j]; }}",
    "if": f"{EACH} {SUM} if (A[i][k] != 0) {{ {ROW} C[i][j] -= 2.0f * A[i][k] * B[k][j]; }}",
    "not": f"{EACH} {SUM} {{ if (!A[i][k]) {{ continue; }} {ROW} C[i][j] += B[k][j] * A[i][k]; }}",
    "a local": f"{EACH} {SUM} {{ const float a = A[i][k]; if (0 == a) continue; {ROW} C[i][j] += a * B[k][j]; }}",
}


@pytest.mark.parametrize("case", list(FLOATS))
def test_floats_only_where_values_are_finite(case: str) -> None:
    assert kept(scop_of(FLOATS[case], fast_math=False))
    scop = scop_of(FLOATS[case], fast_math=True)
    (granted,) = scop.assumptions
    assert granted.startswith("what line 4 leaves out where '") and granted.endswith("change nothing (--fast-math)")
    found = canonical(scop).scop
    assert sum(kernel_contraction(found, s) is not None for s in found.statements) == 1


INTEGERS = f"{EACH} {{ {ROW} R[i][j] = 0; {SUM} {{ if (!P[i][k]) continue; {ROW} R[i][j] -= P[i][k] * Q[k][j]; }} }}"


def test_integers_always() -> None:
    scop = scop_of(INTEGERS, fast_math=False)
    assert [s.body.op for s in scop.statements if isinstance(s.body, Assignment)] == ["=", "-="]
    assert scop.assumptions == ()


@pytest.mark.parametrize(
    "body",
    [
        # others may own what is left alone, and read what lies behind the end
        INTEGERS.replace("R[i][j] = 0;", ";"),
        INTEGERS.replace("Q[k][j]", "p[9 * k + j]"),
        INTEGERS.replace("P[i][k] * Q", "P[i][k] * Q[0][j] * Q"),
        INTEGERS.replace("P[i][k] * Q", "P[k][i] * Q"),
        INTEGERS.replace("P[i][k] * Q", "P[i][k] + Q"),
        INTEGERS.replace("-=", "|="),
        INTEGERS.replace("(!P[i][k])", "(P[i][k])"),
        INTEGERS.replace("(!P[i][k])", "(P[i][k] == 1)"),
        INTEGERS.replace("P[i][k] *", "R[i][k] *").replace("!P", "!R"),
        f"{EACH} {SUM} if (C[i][k] != 0) {{ {ROW} C[i][j] += C[i][k] * B[k][j]; }}",
        f"{EACH} {SUM} if (A[i][k] != 0) {{ {ROW} C[i][j] += A[i][k] * B[k][j]; }} else {{ C[i][k] += 1; }}",
        f"{EACH} {SUM} {{ if (A[i][k] == 0) break; {ROW} C[i][j] += A[i][k] * B[k][j]; }}",
    ],
)
def test_any_other_test_stays(body: str) -> None:
    assert kept(scop_of(body, fast_math=True))


def test_it_computes_the_same(tmp_path: Path) -> None:
    source = tmp_path / "f.c"
    source.write_text(f"{HEAD}\n{{\n#pragma scop\n{FLOATS['a local']}\n{INTEGERS}\n#pragma endscop\n}}\n")
    done = polydl.optimize(source, tmp_path / "out.c", space="small", top_k=3, budget=None, fast_math=True)
    (scop,) = done.scops
    assert scop.report is not None
    assert {m.status for m in scop.report.measurements} <= {Status.VERIFIED}


def test_counters_stay_what_they_were_where_their_loop_is_left_out() -> None:
    row = "for (j = 0; j < 9; j++)"
    left_out = f"if (P[i][2]) {row} R[i][j] += P[i][2] * Q[2][j];"
    body = f"int j = 3; {EACH} {row} R[i][j] = 0; j = 5; {EACH} {{ {left_out} p[i] = j; }}"
    found = polydl.optimize(f"{HEAD}\n{{\n{body}\n}}", run=False, space="small", budget=1).checked
    assert found.calls and not found.faults
