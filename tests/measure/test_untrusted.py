"""A timing that a busy machine disturbed: it is made again, and where that does not help the estimate chooses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

import polydl
from polydl import pipeline
from polydl.inspect.documents import optimize_json
from polydl.measure import Measurement, Report, Status, timing
from polydl.measure.allowance import Allowance
from polydl.measure.samples import Record, Sample
from polydl.measure.timing import doubt, time_contenders
from polydl.measure.verify import Built, Checked, Setting
from polydl.rank.estimate import Estimate
from polydl.results import Ranking
from polydl.search.choose_measured import choose
from tests.measure.builders import QUICK, matmul

BUSY = "the machine was busy: other programs used 83 % of its processors"
pytestmark = pytest.mark.usual_timings
ROUNDS = 20


def test_what_makes_times_doubtful() -> None:
    assert doubt(0.1, 0.1, 0.5) == ""
    assert doubt(0.83, 0.0, 0.0) == BUSY
    assert doubt(0.0, 0.4, 0.0) == "the machine was busy: two timings of the same code differ by 40 %"
    assert doubt(0.0, 33.877, 0.0) == "the machine was busy: two timings of the same code differ by a factor of 35"
    assert doubt(0.0, 0.0, 0.8) == "the machine was busy: times of the same work differ by 80 %"


def recorded(record: Record, which: Sequence[int], seconds: Sequence[float]) -> None:
    """Samples of a quiet machine: contender i takes seconds[i] in each round."""
    for number in range(ROUNDS):
        record.spins.append(1000)
        record.twin_ratios.append(1.0)
        for i in which:
            record.samples.setdefault(i, []).append(Sample(number, 0, seconds[i]))


@pytest.mark.parametrize(("faster", "won"), [(0.5, True), (1.0, False), (2.0, False)])
def test_who_won(faster: float, won: bool) -> None:
    record = Record()
    recorded(record, [0, 1], [1.0, faster])
    assert timing._won(record) is won


class Machine:
    """Timings as samples that are fed in, and the share of the processors that others have at each of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, shares: Sequence[float], seconds: Sequence[float]) -> None:
        self._shares = iter(shares)
        self.timings = 0
        machine = self

        class Others:
            def __init__(self) -> None:
                self._share = next(machine._shares)

            def share(self) -> float:
                return self._share

            def warnings(self) -> list[str]:
                return []

        def timed(
            setting: Setting,
            contenders: object,
            joint: Sequence[int],
            base: object,
            record: Record,
            failed: object,
            data: object,
        ) -> None:
            self.timings += 1
            # Later timings are slower, so that samples show which of them they are of.
            recorded(record, joint, [one * self.timings for one in seconds])

        monkeypatch.setattr(timing, "Others", Others)
        monkeypatch.setattr(timing, "joint_pass", timed)
        monkeypatch.setattr(timing, "timing_inputs", nullcontext)
        monkeypatch.setattr(timing, "buffer_sets", lambda setting: 1)
        monkeypatch.setattr(timing, "machine_warnings", list)
        monkeypatch.setattr(timing, "wait_until_quiet", lambda seconds: None)
        monkeypatch.setattr(timing, "_undecided", lambda record: False)


def timed(allowance: Allowance) -> timing.Timed:
    setting = Setting(matmul(), Path("driver"), (), (), 1, QUICK, allowance)
    contenders = [
        Checked(Built(name, name), Measurement(name, Status.VERIFIED), 1e-3) for name in ("original", "candidate")
    ]
    return time_contenders(setting, contenders, [1e-3])


def test_a_busy_machine_is_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, [0.83, 0.83, 0.0], [1e-3, 2e-3])
    found = timed(Allowance(math.inf))
    assert machine.timings == 3
    assert found.untrusted == ""
    assert found.measurements[0].samples == (3e-3,) * ROUNDS, "those of the busy moments are forgotten"


def test_it_is_said_when_it_stays_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, [0.83] * 3, [1e-3, 2e-3])
    found = timed(Allowance(math.inf))
    assert (machine.timings, found.untrusted, found.disturbed) == (3, BUSY, True)
    assert found.warnings == (BUSY,)


def test_it_is_not_timed_again_when_the_time_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, [0.83] * 3, [1e-3, 2e-3])
    assert timed(Allowance(0.0)).untrusted == BUSY
    assert machine.timings == 1


def test_who_wins_on_a_busy_machine_has_won(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, [0.83] * 3, [2e-3, 1e-3])
    found = timed(Allowance(math.inf))
    assert (machine.timings, found.untrusted) == (1, "")
    assert found.measurements[1].faster is True


def test_a_quiet_machine_is_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, [0.0], [1e-3, 2e-3])
    assert timed(Allowance(math.inf)).untrusted == ""
    assert machine.timings == 1


TEXT = """
void product(float A[restrict 96][96], float B[restrict 96][96], float C[restrict 96][96]) {
#pragma scop
  for (int i = 0; i < 96; i++)
    for (int j = 0; j < 96; j++)
      for (int k = 0; k < 96; k++)
        C[i][j] += A[i][k] * B[k][j];
#pragma endscop
}
"""


@pytest.fixture(scope="module")
def ranking() -> Ranking:
    return polydl.rank(TEXT, "small", "epyc-zen5", threads=2)


def measured(name: str, seconds: float, original: float, status: Status = Status.VERIFIED) -> Measurement:
    return Measurement(
        name, status, samples=(seconds,) * 9, median=seconds, undisturbed=seconds, spread=0.0,
        speedup=original / seconds, faster=seconds < original,
    )  # fmt: skip


def report(ranking: Ranking, seconds: Sequence[float], untrusted: str = "", wrong: Sequence[int] = ()) -> Report:
    """A report of the first variants with these seconds; the original takes one."""
    statuses = [Status.WRONG if i in wrong else Status.VERIFIED for i in range(len(seconds))]
    some = [measured(v.id, s, 1.0, status) for v, s, status in zip(ranking, seconds, statuses, strict=False)]
    return Report(measured("original", 1.0, 1.0), tuple(some), 0.01, 0, 0, 0, untrusted=untrusted)


def test_the_times_choose_where_they_can(ranking: Ranking) -> None:
    first = ranking.variants[:3]
    assert choose(report(ranking, [1.2, 0.5, 1.2]), first, ranking.variants) is first[1]
    assert choose(report(ranking, [1.2, 0.5, 1.2], BUSY), first, ranking.variants) is first[1]
    assert choose(report(ranking, [1.2, 1.2, 1.2]), first, ranking.variants) is None


def test_the_estimate_chooses_among_what_was_verified(ranking: Ranking) -> None:
    first = ranking.variants[:3]
    assert choose(report(ranking, [1.2, 1.2, 1.2], BUSY), first, ranking.variants) is first[0]
    assert choose(report(ranking, [1.2, 1.2, 1.2], BUSY, wrong=[0]), first, ranking.variants) is first[1]
    assert choose(report(ranking, [1.2, 1.2, 1.2], BUSY, wrong=[0, 1, 2]), first, ranking.variants) is None


def test_what_is_far_slower_in_its_quickest_sample_is_not_chosen(ranking: Ranking) -> None:
    first = ranking.variants[:3]
    assert choose(report(ranking, [1.6, 1.2, 1.2], BUSY), first, ranking.variants) is first[1]
    assert choose(report(ranking, [1.6, 1.6, 1.6], BUSY), first, ranking.variants) is None


def test_the_original_stays_where_its_estimate_is_the_best(ranking: Ranking) -> None:
    original = ranking.as_written().estimated(Estimate({"compute": 0.0}))
    assert original.as_written
    assert choose(report(ranking, [1.2], BUSY), ranking.variants[:1], [original, *ranking.variants]) is None


def test_an_original_that_stays_is_said_to_stay_for_want_of_times(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def untrusted(scop: object, codes: dict[str, object], *more: object) -> Report:
        some = tuple(measured(n, 9.0, 1.0) for n in codes)
        return Report(measured("original", 1.0, 1.0), some, 0.01, 0, 0, 0, untrusted=BUSY)

    monkeypatch.setattr(pipeline, "measure", untrusted)
    done = polydl.optimize(TEXT, tmp_path / "out.c", space="small", machine="epyc-zen5", threads=2, top_k=1)
    assert done.scops[0].chosen is None
    assert "variant original = unchanged: the machine was busy, and no variant was faster" in done.text
    assert "chosen by the estimate" not in done.text
    assert done.speedup == 1


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> polydl.OptimizeResult:
    def untrusted(scop: object, codes: dict[str, object], *more: object) -> Report:
        original = measured("original", 1.0, 1.0)
        return Report(original, tuple(measured(n, 1.2, 1.0) for n in codes), 0.01, 0, 0, 0, untrusted=BUSY)

    monkeypatch.setattr(pipeline, "measure", untrusted)
    return polydl.optimize(
        TEXT, tmp_path / "out.c", space="small", machine="epyc-zen5", threads=2, top_k=2, command="polydl optimize"
    )


def test_the_output_says_who_chose(busy: polydl.OptimizeResult) -> None:
    done = busy.scops[0]
    assert done.chosen is not None
    assert done.chosen.id == done.ranking[0].id
    assert "\n * chosen by the estimate: the machine was busy\n" in busy.text
    assert done.verdict == f"chosen by the estimate, since the times are not to be trusted: {BUSY}"
    assert math.isnan(busy.speedup)
    assert "product not measured" in repr(busy)
    document = optimize_json(busy)
    assert (document["speedup"], document["undecided"], document["chosen"]) == (None, BUSY, done.chosen.id)
