"""Candidates that are chosen by what those before them took: each is compiled, verified and timed as the first are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polydl.lower.emit import Generated
from polydl.measure import Status, Toolchain, measure
from tests.measure.builders import IKJ, QUICK, candidate, matmul


class Rounds:
    """Gives out rounds of candidates, and keeps the times that it is asked with."""

    def __init__(self, *rounds: dict[str, Generated]) -> None:
        self.rounds = list(rounds)
        self.asked: list[dict[str, float]] = []

    def more(self, seconds: Mapping[str, float]) -> Mapping[str, Generated]:
        self.asked.append(dict(seconds))
        return self.rounds.pop(0) if self.rounds else {}


def test_each_round_is_asked_for_with_the_times_so_far() -> None:
    rounds = Rounds({"second": Generated((), IKJ), "wrong": candidate("C[0][0] += 1;")}, {"third": candidate()})
    report = measure(matmul(), {"first": candidate()}, Toolchain(), QUICK, more=rounds.more)
    assert [m.id for m in report.measurements] == ["first", "second", "wrong", "third"]
    assert [m.status for m in report.measurements] == [
        Status.VERIFIED, Status.VERIFIED, Status.WRONG, Status.VERIFIED,
    ]  # fmt: skip
    assert [sorted(one) for one in rounds.asked] == [["first"], ["first", "second"], ["first", "second", "third"]]
    assert all(seconds > 0 for one in rounds.asked for seconds in one.values())
    assert all(len(m.samples) > 1 for m in report.measurements if m.verified)


def test_what_does_not_compile_in_a_later_round_is_a_result_like_others() -> None:
    rounds = Rounds({"broken": candidate("not C")}, {"third": Generated((), IKJ)})
    report = measure(matmul(), {"first": candidate()}, Toolchain(), QUICK, more=rounds.more)
    assert [m.status for m in report.measurements] == [Status.VERIFIED, Status.COMPILE_FAILED, Status.VERIFIED]


def test_long_runs_have_the_seconds_of_their_verification() -> None:
    rounds = Rounds({"second": Generated((), IKJ)})
    measure(matmul(), {"first": candidate()}, Toolchain(), replace(QUICK, slow=1e-9), more=rounds.more)
    assert [sorted(one) for one in rounds.asked] == [["first"], ["first", "second"]]


def test_with_no_time_left_nothing_is_timed_to_choose_by_and_later_rounds_are_left_out() -> None:
    rounds = Rounds({"second": Generated((), IKJ)})
    report = measure(matmul(), {"first": candidate()}, Toolchain(), replace(QUICK, seconds=1e-6), more=rounds.more)
    assert rounds.asked == [{}, {}]
    assert [m.status for m in report.measurements] == [Status.VERIFIED, Status.LEFT_OUT]
