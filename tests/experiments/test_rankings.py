"""What ranking.py and tables.py make of measurements."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import ranking
import tables

from polydl.learn.train.training_data import DataSet
from tests.learn.train.groups import made_up


def test_ranking_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made_up(6, 20)

    def load(path: Path, rankers: tuple[str, ...] = ()) -> DataSet:
        return data

    monkeypatch.setattr(ranking, "load_data", load)
    target = tmp_path / "ranking.json"
    figures = tmp_path / "figures"
    monkeypatch.setattr(sys, "argv", ["ranking.py", "--json", str(target), "--figures", str(figures)])
    assert ranking.main() == 0
    document = json.loads(target.read_text())
    assert document["rankers"].keys() == {"traffic", "trace", "cost", "random"}
    for name, found in document["rankers"].items():
        assert {"top1", "top5", "worst", "tau"} <= found.keys()
        sizes = document["sizes"][name]
        assert len(sizes) == 6
        assert found["worst"] == min(one["top1"] for one in sizes.values())
        assert all({"top1", "top5", "tau"} <= one.keys() for one in sizes.values())
    assert document["rankers"]["traffic"]["top1"] > document["rankers"]["random"]["top1"]
    assert {path.name for path in figures.iterdir()} == {"choices_net0.png", "choices_net1.png", "choices_net2.png",
                                                         "timed.png"}  # fmt: skip


def test_ranking_needs_a_store_for_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["ranking.py", "--layers", "layers.csv"])
    with pytest.raises(SystemExit, match="--store"):
        ranking.main()


def test_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def row(name: str, ratio: float) -> dict[str, object]:
        return {
            "name": name, "network": "net", "polydl": 200.0, "peers": {"oneDNN plain": 100.0, "oneDNN blocked": 180.0},
            "ratios": {"oneDNN plain": 2.0, "oneDNN blocked": ratio}, "ratio_to_best_peer": ratio,
            "cold": {"ratio_to_best_peer": 2 * ratio}, "fraction_of_peak": 0.9, "polydl_seconds": 7.4,
        }  # fmt: skip

    paths = []
    for number, ratios in enumerate(((1.0, 1.21), (0.5,))):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps({"rows": [row(f"l{number}{i}", r) for i, r in enumerate(ratios)]}))
    monkeypatch.setattr(sys, "argv", ["tables.py", *map(str, paths)])
    assert tables.main() == 0
    text = capsys.readouterr().out
    assert "| net | 2 | 1.10 | 2.20 | 90.0% | 1.00 (l00) | 0 | 7 |" in text
    assert "| all | 3 | 0.85 | 1.69 | 90.0% | 0.50 (l10) | 1 | 7 |" in text
    assert "| l01 | 180 (blocked) | 200 | 1.21 | 2.42 | 90% | 7 |" in text
