"""The guard of polydl's own speed: what it calls slower, and that its baseline is complete."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import tool_speed
from tool_speed import Stage, measure, slower


def test_slower_means_past_the_tolerance() -> None:
    baseline = {"a": 1.0, "b": 2.0}
    assert slower({"a": 1.24, "b": 2.51, "new": 9.0}, baseline, 0.25) == ["b"]
    assert slower({"a": 0.1, "b": 2.5}, baseline, 0.25) == []


def test_every_stage_has_a_baseline() -> None:
    committed = json.loads(tool_speed.BASELINE.read_text(encoding="utf-8"))["stages"]
    assert list(committed) == [stage.name for stage in tool_speed.stages()]
    assert all(ratio > 0 for ratio in committed.values())


def test_the_reference_is_the_same_work_every_time() -> None:
    assert tool_speed.reference() == tool_speed.reference()


def test_twice_the_work_has_a_larger_ratio() -> None:
    once = Stage("once", "", tool_speed.reference)
    thrice = Stage("thrice", "", lambda: [tool_speed.reference() for _ in range(3)])
    found = measure([once, thrice], 3)
    assert found["thrice"] > found["once"] > 0


@pytest.mark.parametrize(("ratios", "code"), [([1.1], 0), ([2.0, 1.0], 0), ([2.0, 1.9], 1)])
def test_exit_code(
    ratios: list[float], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stage that is slower is measured again before anything is said."""
    answers = iter(ratios)

    def measured(chosen: Sequence[Stage], rounds: int) -> dict[str, float]:
        return {stage.name: next(answers) for stage in chosen}

    baseline = tmp_path / "baseline.json"
    baseline.write_text(json.dumps({"stages": {"one": 1.0}}))
    monkeypatch.setattr(tool_speed, "stages", lambda: [Stage("one", "an input", lambda: None)])
    monkeypatch.setattr(tool_speed, "measure", measured)
    monkeypatch.setattr("sys.argv", ["tool_speed.py", "--baseline", str(baseline)])
    assert tool_speed.main() == code
    assert ("SLOWER" in capsys.readouterr().out) == bool(code)


def test_update_keeps_what_was_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    baseline = tmp_path / "baseline.json"
    baseline.write_text(json.dumps({"stages": {"one": 1.0, "two": 2.0}}))
    made = [Stage("one", "", tool_speed.reference), Stage("two", "", tool_speed.reference)]
    monkeypatch.setattr(tool_speed, "stages", lambda: made)
    monkeypatch.setattr("sys.argv", ["x", "--update", "--rounds", "1", "--only", "one", "--baseline", str(baseline)])
    assert tool_speed.main() == 0
    written = json.loads(baseline.read_text())["stages"]
    assert written["two"] == 2.0 and written["one"] > 0
