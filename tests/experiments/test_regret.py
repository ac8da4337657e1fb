"""The regret of whole searches: which problems, and what rows say together."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
import regret
from sizes import DATA, gemm_sizes


def test_the_problems_are_new_and_the_same_each_time() -> None:
    found = regret.problems(43)
    assert found == regret.problems(43) and found != regret.problems(44)
    assert len({problem.name for problem in found}) == 30
    assert sum(problem.function == "matmul" for problem in found) == 15
    collected = {(s.M, s.N, s.K) for name in ("gemm_sizes", "gemm_random") for s in gemm_sizes(DATA / f"{name}.csv")}
    assert not collected & {tuple(problem.defines.get(n, 0) for n in "MNK") for problem in found}


def test_an_interval_holds_its_mean() -> None:
    mean, low, high = regret.interval([math.log(x) for x in (1.0, 1.02, 1.1, 0.99)])
    assert low < mean < high
    assert mean == pytest.approx((1.0 * 1.02 * 1.1 * 0.99) ** 0.25)


def test_what_is_better_than_the_best_found_is_no_negative_regret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = dict.fromkeys(regret.FIELDS, 1) | {"problem": "a", "over": 0.5, "spread": [0.4, 0.6], "written": None}
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row | {"over": over}) + "\n" for over in (0.5, 1.0)))
    monkeypatch.setattr(sys, "argv", ["regret.py", "--rows", str(rows), "--shown"])
    assert regret.main() == 0
    shown = capsys.readouterr().out
    assert "choice over the best of both: 1.000" in shown and "choice over the best found: 0.707" in shown
    assert "as written over the choice" not in shown


def test_calls_take_turns_in_an_order_that_rotates() -> None:
    order: list[str] = []
    calls = {name: (lambda name=name: order.append(name)) for name in "ab"}
    times = regret.in_turns(calls, 2, 0.0)
    assert {name: len(several) for name, several in times.items()} == {"a": 2, "b": 2}
    assert order == [*"aaaabbbb", *"bbbbaaaa"]
