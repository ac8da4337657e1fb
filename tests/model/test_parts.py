"""Sums of products, one statement a product."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl import load
from polydl.model.contraction import contraction
from polydl.model.expr import loads
from polydl.model.scop import Assignment, Scop
from polydl.model.time import common_depth
from polydl.rewrite.reduction_fission import reduction_fission


def scop_of(tmp_path: Path, body: str) -> Scop:
    path = tmp_path / "p.c"
    arrays = ", ".join(f"double {name}[restrict 20][20]" for name in "ABCDE")
    path.write_text(f"void f(double x, {arrays})\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    return load(path).scops[0]


LOOPS = "for (int i = 0; i < 20; i++) for (int k = 0; k < 20; k++) for (int j = 0; j <= i; j++)"


def test_each_product_gets_its_own_loops(tmp_path: Path) -> None:
    scop = scop_of(
        tmp_path,
        "for (int i = 0; i < 20; i++) {\n  for (int j = 0; j <= i; j++) C[i][j] *= x;\n"
        "  for (int k = 0; k < 20; k++)\n    for (int j = 0; j <= i; j++)\n"
        "      C[i][j] += x * A[i][k] * B[j][k] - (A[j][k] * 2.0 * B[i][k] + D[i][k] * E[k][j]);\n"
        "  D[i][0] = C[i][i];\n}",
    )
    (step,) = reduction_fission(scop)
    assert step.broken() is None
    apart = step.after
    assert [s.name for s in apart.statements] == ["S0", "S1t0", "S1t1", "S1t2", "S2"]
    assert [s.position for s in apart.statements] == sorted(s.position for s in apart.statements)
    terms = apart.statements[1:4]
    assert [t.body.op for t in terms if isinstance(t.body, Assignment)] == ["+=", "-=", "-="]
    for term in terms:
        assert contraction(apart, term) is not None
        assert isinstance(term.body, Assignment)
        assert {term.accesses[i].array for i in loads(term.body.value)} | {"C"} == {a.array for a in term.accesses}
        assert term.domain.reset_tuple_id().is_equal(scop.statements[1].domain.reset_tuple_id())
    assert {common_depth(a, b) for a, b in zip(apart.statements, apart.statements[1:], strict=False)} == {1}


@pytest.mark.parametrize(
    "sum_",
    [
        "C[i][j] += A[i][k] * B[k][j];",
        "C[i][j] += A[i][k] * B[k][j] + x;",
        "C[i][j] += A[i][k] * B[k][j] + A[i][j];",
        "C[i][j] += A[i][k] * B[k][j] + A[i][k] * C[k][j];",
        "C[i][j] = A[i][k] * B[k][j] + A[i][k] * D[k][j];",
        "C[i][j] *= A[i][k] * B[k][j] + A[i][k] * D[k][j];",
    ],
)
def test_what_stays_together(tmp_path: Path, sum_: str) -> None:
    scop = scop_of(tmp_path, f"{LOOPS} {sum_}")
    assert not list(reduction_fission(scop))
