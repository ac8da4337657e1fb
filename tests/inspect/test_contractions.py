"""Sums of products without a microkernel: the reason and its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl import load
from polydl.inspect.contractions import Missed, missed
from polydl.inspect.explain import explain
from polydl.model.contraction import Contraction, Lack, NoContraction, contraction, judged
from polydl.options import Options
from polydl.rewrite.canonical import canonical
from polydl.target.isa import kernel_judged

HEAD = """\
void f(float A[restrict 8][8], float B[restrict 8][8], float C[restrict 8][8], double D[restrict 8][8], int I[8][8])
{
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
"""
SUM = "for (int k = 0; k < 8; k++)"


def missed_of(folder: Path, body: str) -> tuple[Missed, ...]:
    path = folder / "s.c"
    path.write_text(f"{HEAD}{body}\n        }}\n}}\n")
    found = canonical(load(path).scops[0])
    return missed(found.scop, found.dependences)


@pytest.mark.parametrize(
    ("body", "place", "reason"),
    [
        (f"{SUM}\nif (A[i][k] != 0) C[i][j] += A[i][k] * B[k][j];", "6:1", "data decide what of it runs; "),
        (
            f"float s = 0;\n{SUM} {{\ns += A[i][k] * B[k][j];\nC[k][j] = s; }}",
            "7:1",
            "it adds to a scalar that does not end up in one array element as it is: s",
        ),
        (f"{SUM}\nC[i][j] += A[i][k] * D[k][j];", "6:1", "its products are not of the type of the sum: C is of type"),
        (f"{SUM}\nI[i][j] += I[0][0] * I[1][1];", "6:12", "it reads the array that it adds to, I: only whole"),
        (f"{SUM}\nC[i][j] += A[i][k] * B[k][j] * B[j][k];", "6:1", "what it adds is no product of two array elements"),
        (f"{SUM}\nC[i][j] += A[i][k] * B[(j + k) % 8][j];", "6:22", "a subscript is not one affine expression"),
        (f"{SUM}\nC[j][i] += A[j][0] * B[j][k];", "6:1", "no loop leads to the next element of the result"),
    ],
)
def test_the_first_condition_that_fails_is_said(tmp_path: Path, body: str, place: str, reason: str) -> None:
    (found,) = missed_of(tmp_path, body)
    assert (f"{found.span.line}:{found.span.column}", found.reason[: len(reason)]) == (place, reason)


def test_statements_that_stay_together_are_said(tmp_path: Path) -> None:
    one, two = missed_of(tmp_path, f"{SUM} {{\nC[i][j] += A[i][k] * B[k][j];\nC[i][j] += B[i][k] * A[j][k]; }}")
    assert (one.span.line, two.span.line) == (6, 7)
    assert one.reason == "dependences, or a scalar that they share, keep it in one loop with S1 (line 7)"


def test_what_gets_one_or_adds_no_products_is_not_missed(tmp_path: Path) -> None:
    assert missed_of(tmp_path, f"{SUM} C[i][j] += A[i][k] * B[k][j];") == ()
    assert missed_of(tmp_path, f"C[i][j] = 0; {SUM} C[i][j] += A[i][k];") == ()


def test_the_reason_is_a_value(tmp_path: Path) -> None:
    path = tmp_path / "s.c"
    path.write_text(f"{HEAD}C[i][j] = A[i][j] * B[i][j]; {SUM} I[i][j] += A[i][k] > 0;\n}} }}\n")
    (scop,) = load(path).scops
    assert kernel_judged(scop, scop.statements[0]) == NoContraction(Lack.SUM)
    for statement in scop.statements:
        found = judged(scop, statement)
        assert (contraction(scop, statement) is None) == (not isinstance(found, Contraction))


def test_explain_says_it(tmp_path: Path) -> None:
    path = tmp_path / "s.c"
    path.write_text(f"{HEAD}{SUM} C[i][j] += A[i][k] * D[k][j];\n}} }}\n")
    found = explain(load(path).scops[0], "original", Options(space="small", machine="epyc-zen5", threads=2))
    (one,) = found.missed
    assert str(one).startswith(f"no microkernel: {path}:5:")
    assert found.to_data()["without_microkernel"] == [one.to_data()]
