"""Sums that are added to elements apart from each other are gathered first, where nobody sees them meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

import polydl
from polydl.measure import Status
from polydl.model.scop import Scop
from polydl.rewrite.canonical import canonical
from polydl.rewrite.scattered_sums import Beside, beside
from polydl.target.isa import has_register_blocks

HEAD = "void f(float A[restrict 9][8][2], float B[restrict 8][9][2], float C[restrict 9][9][2], float D[restrict 9][9])"
IN = "for (int i = 0; i < 9; i++) for (int j = 0; j < 9; j++) for (int k = 0; k < 8; k++)"
OUT = "for (int i = 0; i < 9; i++) for (int k = 0; k < 8; k++) for (int j = 0; j < 9; j++)"
REAL = "C[i][j][0] += A[i][k][0] * B[k][j][0] - A[i][k][1] * B[k][j][1];"
IMAGINARY = "C[i][j][1] += A[i][k][0] * B[k][j][1] + A[i][k][1] * B[k][j][0];"
ROW = "for (int j = 0; j < 9; j++)"
AROUND = (
    f"for (int i = 0; i < 9; i++) {{ {ROW} C[i][j][0] = D[i][j]; "
    f"for (int k = 0; k < 8; k++) {ROW} C[i][j][0] += A[i][k][0] * B[k][j][0]; {ROW} D[i][j] = C[i][j][0]; }}"
)


def text_of(body: str) -> str:
    return f"{HEAD}\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"


def scop_of(body: str) -> Scop:
    (scop,) = polydl.load(text_of(body)).scops
    return scop


@pytest.mark.parametrize(
    ("body", "products"),
    [
        (f"{OUT} {{ {REAL} {IMAGINARY} }}", 4),
        (f"{IN} {{ {REAL} {IMAGINARY} }}", 4),
        (f"{OUT} C[i][j][1] -= A[i][k][0] * B[k][j][1];", 1),
        (f"{OUT} C[8 - i][j][1] += 2.0f * A[i][k][0] * B[k][j][1];", 1),
        (f"{OUT} C[i][8 - j][1] += A[i][k][0] * B[k][j][1];", 1),
        (AROUND, 1),
    ],
)
def test_it_is_a_contraction(body: str, products: int) -> None:
    found = canonical(scop_of(body))
    assert not found.refused
    assert any(isinstance(step.rewrite, Beside) for step in found.steps)
    assert sum(has_register_blocks(found.scop, s) for s in found.scop.statements) == products


LEFT_ALONE = {
    "it is read meanwhile": f"{OUT} {{ C[i][j][0] += A[i][k][0] * B[k][j][0]; D[i][j] = C[i][j][0]; }}",
    "it is replaced meanwhile": f"{OUT} {{ C[i][j][0] += A[i][k][0] * B[k][j][0]; C[i][8 - j][0] *= 2; }}",
    "two iterations add to one element": (
        "for (int i = 0; i < 9; i++) for (int k = 0; k < 8; k++) for (int j = 0; j < 5; j++) "
        "C[(i + j) / 2][j][0] += A[i][k][0] * B[k][j][0];"
    ),
    "it is a product of itself": f"{OUT} C[i][j][0] += A[i][k][0] * C[j][k][0];",
    "the columns are neighbours": f"{OUT} D[i][j] += A[i][k][0] * B[k][j][0];",
    "no contraction comes of it": f"{OUT} C[i][j][0] += A[i][k][0] * B[k][j][0] * B[k][j][1];",
}


@pytest.mark.parametrize("case", list(LEFT_ALONE))
def test_nothing_is_gathered(case: str) -> None:
    assert list(beside(scop_of(LEFT_ALONE[case]))) == []


def test_the_order_of_sums_may_be_kept() -> None:
    scop = scop_of(f"{OUT} {REAL}")
    assert canonical(scop, reassociate=False).scop.statements == scop.statements


def test_the_check_sees_what_is_not_the_same() -> None:
    step = next(beside(scop_of(f"{OUT} C[i][j][1] -= A[i][k][0] * B[k][j][1];")))
    assert step.broken() is None
    fewer = replace(step.after, statements=step.after.statements[1:])
    assert replace(step, after=fewer).broken() is not None


def test_it_computes_the_same() -> None:
    done = polydl.optimize(text_of(f"{OUT} {{ {REAL} {IMAGINARY} }}"), space="small", top_k=3, budget=None)
    (scop,) = done.scops
    assert scop.report is not None
    assert {m.status for m in scop.report.measurements} <= {Status.VERIFIED}
