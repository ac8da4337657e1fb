"""Rows of long runs: written as they come, and gone on with."""

from __future__ import annotations

from pathlib import Path

import misses
import pytest
from common import RowFile


def test_a_run_goes_on_with_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.jsonl"
    rows = RowFile(path, ("problem", "speed"))
    assert rows.rows() == []
    rows.add({"problem": "a", "speed": 1.5})
    rows.add({"problem": "b", "speed": 0.5})
    with path.open("a", encoding="utf-8") as file:
        file.write('{"problem": "c", "sp')  # where the run was interrupted
    assert [row["problem"] for row in rows.rows()] == ["a", "b"]
    assert "cut off" in capsys.readouterr().err
    rows.add({"problem": "c", "speed": 2.0})
    assert [row["speed"] for row in rows.rows()] == [1.5, 0.5, 2.0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"problem": "a", "speed": 1}\n{"problem": "b"}\n', r"rows.jsonl:2 lacks speed"),
        ("nothing\n", r"rows.jsonl:1 is no row"),
        ('["problem", "speed"]\n', r"rows.jsonl:1 lacks fields"),
    ],
)
def test_what_is_no_row_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=said):
        RowFile(path, ("problem", "speed")).rows()


def test_first_choices_and_spread() -> None:
    row = {"log_seconds": [0.0, 1.0, 2.0], "scores": {"misses": [3.0, 1.0, 2.0], "cost": [1.0, 1.0, 5.0]}}
    assert misses.first_choice(row, "misses") == pytest.approx(2.718281828**-1)
    assert misses.first_choice(row, "cost") == pytest.approx(2.718281828**-0.5), "neither luck nor order decide"
    assert misses.spread(100, 3) == [0, 50, 99]
    assert misses.spread(2, 9) == [0, 1]


def test_figure_15_of_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of measured variants of one product; the second run counts nothing."""
    path = tmp_path / "rows.jsonl"
    arguments = ["misses.py", "--rows", str(path), "--data", str(misses.DATA / "zen3.parquet"), "--problems", "1",
                 "--variants", "5", "--network", "random"]  # fmt: skip
    monkeypatch.setattr("sys.argv", arguments)
    assert misses.main() == 0
    shown = capsys.readouterr().out
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") == 1
    assert "tau of traffic and misses" in shown
    monkeypatch.setattr(misses, "groups_of", None)
    assert misses.main() == 0
    assert capsys.readouterr().out == shown
    assert path.read_text(encoding="utf-8") == text
