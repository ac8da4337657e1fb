"""A budget ends the measuring with what it has: the first variant is always measured, those left out are told."""

from __future__ import annotations

from pathlib import Path

import pytest

import polydl
from polydl.base.errors import InputError
from polydl.measure import Status
from polydl.measure.allowance import Allowance
from polydl.options import Options

TEXT = """
void product(int n, float A[n][n], float B[n][n], float C[n][n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      for (int k = 0; k < n; k++)
        C[i][j] += A[i][k] * B[k][j];
#pragma endscop
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "product.c"
    path.write_text(TEXT)
    return path


def test_with_no_time_at_all_there_is_an_output(source: Path) -> None:
    done = polydl.optimize(source, sizes={"n": 96}, budget=1e-3, space="small")
    assert done.output is not None
    report = done.scops[0].report
    assert report is not None
    statuses = [m.status for m in report.measurements]
    assert statuses[0] is Status.VERIFIED, "the first of the ranking is measured whatever the time"
    assert set(statuses[1:]) == {Status.LEFT_OUT}
    assert report.measurements[0].samples
    assert "not measured: the 0.001 s for all variants were spent" in report.measurements[1].message


def test_with_time_for_all_nothing_is_left_out(source: Path) -> None:
    done = polydl.optimize(source, sizes={"n": 96}, budget=600, space="small", top_k=2)
    report = done.scops[0].report
    assert report is not None
    assert [m.status for m in report.measurements] == [Status.VERIFIED] * len(report.measurements)


def test_the_clock_changes_neither_the_space_nor_its_order(source: Path) -> None:
    ranked = [
        [v.id for v in polydl.optimize(source, sizes={"n": 96}, budget=b, space="small").scops[0].ranking.variants]
        for b in (1e-3, None)
    ]
    assert ranked[0] == ranked[1]


def test_runs_of_the_original_are_granted() -> None:
    allowance = Allowance(10.0)
    allowance.grant(100.0)
    assert 109 < allowance.left <= 110
    assert not allowance.half_spent
    assert Allowance(0.0).half_spent


@pytest.mark.parametrize("budget", [0.0, -1.0, float("inf"), float("nan")])
def test_a_budget_is_a_positive_number(budget: float) -> None:
    with pytest.raises(InputError, match="budget is") as caught:
        Options(budget=budget)
    assert caught.value.hint == "--budget takes a positive number of seconds"
