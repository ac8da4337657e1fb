"""Private scalars, and accumulators that become array elements."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.dependences.analysis import dependences
from polydl.dependences.scalars import in_place, private_scalars
from polydl.frontend import load
from polydl.model.scop import Assignment, Scop


def scop_of(body: str, folder: Path, locals_: str = "") -> Scop:
    path = folder / "s.c"
    path.write_text(
        "void f(double A[restrict 8][8], double B[restrict 8][8], double C[restrict 8][8], double d[restrict 8]) {\n"
        f"{locals_}\n#pragma scop\n{body}\n#pragma endscop\n}}\n"
    )
    return load(path).scops[0]


DOT = "for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) {{ {before} for (int k = 0; k < 8; k++) {sum} {after} }}"


def test_accumulator_becomes_an_element(tmp_path: Path) -> None:
    body = DOT.format(before="double s = 0;", sum="s += A[i][k] * B[k][j];", after="C[i][j] = s;")
    scop = scop_of(body, tmp_path)
    assert private_scalars(scop) == {"s": 2}
    rewritten = in_place(scop)
    assert [s.name for s in rewritten.statements] == ["S0", "S1"]
    assert "s" not in rewritten.arrays
    for statement in rewritten.statements:
        assert isinstance(statement.body, Assignment)
        target = statement.accesses[statement.body.target]
        assert target.array == "C"
        assert target.relation.is_single_valued()
    assert {d.carried_by for d in dependences(rewritten, reads=False)} == {"k", None}


def test_sum_added_to_an_element_needs_reassociation(tmp_path: Path) -> None:
    body = DOT.format(before="double s = 0;", sum="s += A[i][k] * B[k][j];", after="C[i][j] += s;")
    scop = scop_of(body, tmp_path)
    assert len(in_place(scop).statements) == 1
    assert in_place(scop, reassociate=False) is scop


@pytest.mark.parametrize(
    ("before", "total", "after"),
    [
        ("double s = 0;", "s += A[i][k] * C[k][j];", "C[i][j] = s;"),  # C is read in between
        ("float s = 0;", "s += A[i][k] * B[k][j];", "C[i][j] = s;"),  # rounded to float
        ("double s = 0;", "s += A[i][k] * s;", "C[i][j] = s;"),  # reads itself
        ("double s = 0;", "s = A[i][k];", "C[i][j] = s;"),  # no accumulation
        ("double s = 0;", "s += A[i][k] * B[k][j];", "C[i][j] = 2 * s;"),  # not a copy
        ("double s = 1;", "s += A[i][k] * B[k][j];", "C[i][j] += s;"),  # does not start from zero
        ("double s = 0;", "s += A[i][k] * B[k][j];", "if (j > i) C[i][j] = s;"),  # not always copied
    ],
)
def test_left_alone(before: str, total: str, after: str, tmp_path: Path) -> None:
    scop = scop_of(DOT.format(before=before, sum=total, after=after), tmp_path)
    assert in_place(scop) is scop
    assert private_scalars(scop) == {"s": 2}


def test_scalar_carried_between_iterations_is_not_private(tmp_path: Path) -> None:
    scop = scop_of("for (int i = 0; i < 8; i++) { d[i] = s; s = A[i][0]; }", tmp_path, "double s = 1;")
    assert private_scalars(scop) == {}
    assert any(d.array == "s" and d.carried_by == "i" for d in dependences(scop))


def test_scalar_written_under_a_condition_is_not_private(tmp_path: Path) -> None:
    body = "for (int i = 0; i < 8; i++) { if (i > 2) s = A[i][0]; d[i] = s; }"
    assert private_scalars(scop_of(body, tmp_path, "double s = 1;")) == {}


def test_private_scalar_leaves_the_loop_parallel(tmp_path: Path) -> None:
    scop = scop_of("for (int i = 0; i < 8; i++) { double t = A[i][0]; d[i] = t * t + t; }", tmp_path)
    assert private_scalars(scop) == {"t": 1}
    assert all(d.carried_by is None for d in dependences(scop, reads=False))
