"""Short runs of the hostile inputs, the same ones every time; `python -m tests.fuzz.hostile` has 100,000."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from tests.fuzz.hostile import Tally, consume, run
from tests.fuzz.hostile_files import KINDS as FILES
from tests.fuzz.hostile_files import try_file
from tests.fuzz.hostile_inputs import KINDS, hostile


def test_c_files_are_read_or_refused() -> None:
    tally = Tally()
    run(7, 0, 150, tally)
    assert tally.tracebacks == tally.hangs == tally.deaths == []
    assert tally.inputs == 150
    assert set(tally.kinds) == set(KINDS)
    assert tally.outcomes["accepted"] > 5


def test_inputs_are_the_same_again() -> None:
    assert hostile(7, 3) == hostile(7, 3)
    assert hostile(7, 3).data != hostile(8, 3).data


def test_a_traceback_is_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is not polydl's own error comes through: the test above could fail."""
    monkeypatch.setattr("polydl.pipeline.load", lambda *given, **named: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        consume(hostile(7, 0), tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_other_files_are_read_or_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    good = tmp_path / f"good-{name}"
    FILES[name].make(good)
    FILES[name].read[0](good)
    data, refused = good.read_bytes(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a damaged result of an earlier run is told by a warning
        for number in range(60):
            refused += try_file(name, tmp_path, data, 1, number)[1]
    assert refused > 10 or name == "entry.json"
