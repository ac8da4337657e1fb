"""Each condition of algorithm 3: what passes, and what is said with which elements when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl import pipeline
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.schedule.fusion_conditions import Condition
from polydl.schedule.fusion_groups import Plan, plan

HEAD = (
    "void f(int N, float C[restrict 20][20], float A[restrict 20][20], float B[restrict 20][20], float b[restrict 20])"
)
GEMM = (
    "for (int i = 0; i < 8; i++) for (int j = 0; j < 9; j++) for (int k = 0; k < 7; k++) C[i][j] += A[i][k] * B[k][j];"
)
EACH = "for (int i = 0; i < 8; i++) for (int j = 0; j < 9; j++)"


def planned(folder: Path, body: str, sizes: dict[str, int] | None = None) -> Plan:
    path = folder / "f.c"
    path.write_text(f"{HEAD}\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    scop = pipeline.load(path, sizes=sizes or {}, require_sizes=False).scops[0]
    return plan(nests(scop, dependences(scop, reads=False)))


@pytest.mark.parametrize(
    ("body", "condition", "said"),
    [
        (f"{GEMM} {EACH} C[i][j] += C[i][j + 1];", Condition.ELEMENT, "S1[0, 0] touches C[0, 1] and C[0, 0]"),
        (
            f"{GEMM} for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) C[i][j] *= 2;",
            Condition.SAME_SET,
            "S0 writes C[0, 8], which S1 does not touch",
        ),
        (
            f"{GEMM} for (int i = 0; i < 9; i++) for (int j = 0; j < 9; j++) C[i][j] *= 2;",
            Condition.SAME_SET,
            "S1 touches C[8, 0], which S0 does not write",
        ),
        (
            f"{GEMM} {EACH} for (int l = 0; l < 2; l++) C[i][j] *= 2;",
            Condition.ONCE,
            "S1[0, 0, 0] and S1[0, 0, 1] both touch C[0, 0]",
        ),
        (f"{GEMM} b[3] = C[2][3]; {EACH} C[i][j] *= 2;", Condition.BETWEEN, "S1, between S0 and S2, reads C[2, 3]"),
        (f"{GEMM} C[2][3] = 0; {EACH} C[i][j] *= 2;", Condition.BETWEEN, "S1, between S0 and S2, writes C[2, 3]"),
        (f"{GEMM} b[3] = 1; {EACH} C[i][j] += b[j];", Condition.BETWEEN, "S1 writes b[3], which S2 reads"),
        (f"{GEMM} {EACH} A[i][j] = C[i][j];", Condition.BETWEEN, "S0 reads A[0, 0], which S1 writes"),
        (f"{EACH} C[i][j] = b[j]; b[3] = 1; {GEMM}", Condition.BETWEEN, "S1 writes b[3], which S0 reads"),
        (f"{EACH} B[i][j] = C[i][j]; {GEMM}", Condition.SAME_SET, "S0 writes B, S1 starts from C"),
    ],
)
def test_a_condition_fails_with_an_example(tmp_path: Path, body: str, condition: Condition, said: str) -> None:
    found = planned(tmp_path, body)
    assert found.groups == ()
    failures = [d.failure for d in found.decisions if d.failure is not None]  # others between have theirs
    assert (condition, said) in [(f.condition, str(f)) for f in failures]


def test_names_and_loop_order_do_not_matter(tmp_path: Path) -> None:
    light = "for (int x = 17; x > 1; x -= 2) for (int y = 0; y < 9; y++) C[(17 - x) / 2][8 - y] *= 3;"
    found = planned(tmp_path, f"{GEMM} {light}")
    assert [d.failure for d in found.decisions] == [None]


def test_several_in_a_row_on_both_sides(tmp_path: Path) -> None:
    body = f"{EACH} C[i][j] = 0; {EACH} C[i][j] += b[j]; {GEMM} {EACH} C[i][j] *= 2; {EACH} C[i][j] += b[i];"
    (group,) = planned(tmp_path, body).groups
    assert [f.nest.name for f in group.before] == ["S0", "S1"]
    assert [f.nest.name for f in group.after] == ["S3", "S4"]


def test_symbolic_sizes(tmp_path: Path) -> None:
    heavy = "for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) for (int k = 0; k < N; k++) C[i][j] += A[i][k];"
    fused = planned(tmp_path, f"{heavy} for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) C[i][j] *= 2;")
    assert [d.failure for d in fused.decisions] == [None]
    short = planned(tmp_path, f"{heavy} for (int i = 1; i < N; i++) for (int j = 0; j < N; j++) C[i][j] *= 2;")
    (failure,) = [d.failure for d in short.decisions]
    assert failure is not None and "with N = " in str(failure)


def test_what_may_lie_between(tmp_path: Path) -> None:
    (group,) = planned(tmp_path, f"{GEMM} b[3] = 1; {EACH} C[i][j] *= 2;").groups
    assert [f.nest.name for f in group.after] == ["S2"]
