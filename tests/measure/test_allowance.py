"""A budget ends the measuring with what it has: the first variant is always measured, those left out are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import polydl
from polydl import pipeline
from polydl.base.errors import InputError
from polydl.base.flags import seconds
from polydl.measure import Measurement, MeasureOptions, Report, Status, Toolchain, measure, verify
from polydl.measure.allowance import Allowance
from polydl.measure.compiler import Compilation, compile_all
from polydl.options import Options
from tests.measure.builders import QUICK, candidate, matmul

pytestmark = pytest.mark.few_sizes

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
    assert report.measurements[1].message == "not compiled: the time for all variants was spent"
    count = len(statuses)
    assert done.left_out.startswith(
        f"1 of {count} variants were measured; {count - 1} were left out: the budget of 0.001 s was spent; --budget "
    )
    assert done.left_out.endswith("0 should do for all")


def test_with_time_for_all_nothing_is_left_out(source: Path) -> None:
    done = polydl.optimize(source, sizes={"n": 96}, budget=600, space="small", top_k=2)
    report = done.scops[0].report
    assert report is not None
    assert [m.status for m in report.measurements] == [Status.VERIFIED] * len(report.measurements)
    assert done.left_out == ""
    assert report.spent > 0


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
    assert -101 < allowance.spent < -99
    assert Allowance(0.0).half_spent


def test_a_compiler_run_that_did_not_begin_has_no_result() -> None:
    jobs = [["true"], ["true"], ["false"]]
    found = compile_all(jobs, 1, 10.0, lambda n: None, lambda i: i == 1)
    assert [None if one is None else one.ok for one in found] == [True, None, False]
    assert isinstance(found[0], Compilation)


def test_a_run_that_goes_on_beyond_the_time_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is through when all is spent; the second had begun, and gets no more than the least."""
    monkeypatch.setattr(verify, "_LEAST_LIMIT", 0.2)
    monkeypatch.setattr(Allowance, "half_spent", property(lambda self: False))
    codes = {"first": candidate(), "endless": candidate("for (volatile int x = 1; x;) ;")}
    options = replace(QUICK, timeout=60.0, seconds=1e-3)
    report = measure(matmul(), codes, Toolchain(), options)
    assert [m.status for m in report.measurements] == [Status.VERIFIED, Status.LEFT_OUT]
    assert report.measurements[1].message == "ended after 0.2 s: the time for all variants was spent"


def test_scops_share_what_is_left(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two scops and ten seconds, of which the first takes one: nine for the second. A quarter of each is for timing
    what runs at other sizes."""
    source.write_text(TEXT + TEXT.replace("product", "other"))
    given: list[float] = []

    def measured(*arguments: object) -> Report:
        options = arguments[3]
        assert isinstance(options, MeasureOptions)
        given.append(options.seconds)
        return Report(Measurement("original", Status.VERIFIED), (), 0.0, 0.0, 0.0, 0.0, spent=1.0)

    monkeypatch.setattr(pipeline, "measure", measured)
    polydl.optimize(source, sizes={"n": 16}, budget=10, space="small", top_k=1, machine="epyc-zen5")
    # What is done for other sizes counts, too: here next to nothing.
    assert given[0] == 0.75 * 5.0
    assert 0.75 * 8.0 < given[1] <= 0.75 * 9.0


def test_as_typed() -> None:
    assert Options().budget == 20
    assert seconds(["60"]) == 60
    assert seconds(["none"]) is None
    with pytest.raises(InputError, match="--budget soon: not a number of seconds") as caught:
        seconds(["soon"])
    assert caught.value.hint == "for example --budget 60; none for no limit"


@pytest.mark.parametrize("budget", [0.0, -1.0, float("inf"), float("nan")])
def test_a_budget_is_a_positive_number(budget: float) -> None:
    with pytest.raises(InputError, match="budget is") as caught:
        Options(budget=budget)
    assert caught.value.hint == "--budget takes a positive number of seconds, or none"
