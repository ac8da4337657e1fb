"""The harness of rivals.py, on small workloads and with rivals that need no environment."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rivals

GCC = rivals.RIVALS["gcc"]
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workloads of small sizes; polydl is what gcc makes of the file, so that nothing is searched."""
    sizes = {"T": 2, "N": 20}
    jacobi = replace(rivals.WORKLOADS["jacobi_2d"], defines=sizes, arguments=(("A", (20, 20)), ("B", (20, 20))))
    product = rivals._product("matmul_8", 8, 12, 4)
    monkeypatch.setattr(rivals, "WORKLOADS", {"jacobi_2d": jacobi, "matmul_8": product})
    monkeypatch.setitem(rivals.RIVALS, "polydl", replace(GCC, name="polydl"))


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names: str, *more: str) -> list[dict[str, Any]]:
    rows = tmp_path / "rows.jsonl"
    arguments = ["rivals.py", "--rows", str(rows), "--environments", str(tmp_path / "made"), "--rivals", names,
                 "--rounds", "2", "--turn", "0.001", "--threads", "1", *more]  # fmt: skip
    monkeypatch.setattr("sys.argv", arguments)
    assert rivals.main() == 0
    return [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]


def spoiled(workload: rivals.Workload, made: rivals.Made, folder: Path, given: argparse.Namespace) -> list[Path]:
    """Compiles the function with one operator changed."""
    source = folder / "spoiled.c"
    source.write_text(
        workload.source.read_text(encoding="utf-8").replace("* B[k][j]", "- B[k][j]").replace("0.2", "0.3")
    )
    return [rivals._compiled(["gcc", *rivals.FLAGS], workload, source, folder / "spoiled.so")]


def test_rows_are_added_and_not_made_again(
    small: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(rivals.RIVALS, "spoiled", replace(GCC, name="spoiled", build=spoiled))
    found = run(monkeypatch, tmp_path, "spoiled", "--workloads", "matmul_8")
    by_name = {row["rival"]: row for row in found}
    assert set(by_name) == {"gcc", "polydl", "spoiled"}
    assert by_name["polydl"]["over"] == 1.0
    assert all(by_name[name]["seconds"] > 0 and by_name[name]["ready_seconds"] > 0 for name in ("gcc", "polydl"))
    assert by_name["spoiled"]["seconds"] is None
    assert by_name["spoiled"]["why"].startswith("its result is another one: C differs by")
    again = run(monkeypatch, tmp_path, "spoiled,pluto")
    assert again[:3] == found
    assert {(row["workload"], row["rival"]) for row in again[3:]} == {
        ("matmul_8", "pluto"), ("jacobi_2d", "gcc"), ("jacobi_2d", "polydl"), ("jacobi_2d", "spoiled"),
        ("jacobi_2d", "pluto"),
    }  # fmt: skip
    assert all("no registry has it" in row["why"] for row in again if row["rival"] == "pluto")
    shown = capsys.readouterr().out
    assert "| matmul_8 | " in shown
    assert "not measured: spoiled on matmul_8: its result is another one" in shown


def test_of_several_objects_the_fastest_counts(small: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pluto's five tile sizes: a stand-in for polycc copies the file and slows all but one of them down."""
    polycc = tmp_path / "polycc"
    slow = "for (volatile int wait = 0; wait < 3000000; wait++) ;"
    polycc.write_text(
        "#!/bin/sh\n"
        'while [ $# -gt 2 ]; do [ "$1" = -o ] || source=$1; shift; done\n'
        f"""if grep -q '^64$' tile.sizes; then cat "$source"; else sed 's/^{{/{{ {slow}/' "$source"; fi > "$2"\n"""
    )
    polycc.chmod(0o755)
    found = run(monkeypatch, tmp_path, "pluto", "--workloads", "jacobi_2d", "--pluto", str(polycc))
    (row,) = (row for row in found if row["rival"] == "pluto")
    assert row["why"] == ""
    assert row["seconds"] < 1e-3, "the one that does not wait"
    assert {path.name for path in (tmp_path / "made" / "built" / "jacobi_2d").glob("pluto_*.so")} == {
        f"pluto_{size}.so" for size in rivals.TILES
    }


def test_what_is_not_to_be_had_has_its_reason(small: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def none(given: argparse.Namespace) -> rivals.Made:
        rivals._need(["sh", "-c", "echo no such package >&2; exit 1"])
        raise AssertionError

    monkeypatch.setitem(rivals.RIVALS, "absent", replace(GCC, name="absent", make=none))
    found = run(monkeypatch, tmp_path, "absent", "--workloads", "matmul_8")
    (row,) = (row for row in found if row["rival"] == "absent")
    assert row["seconds"] is None
    assert "no such package" in row["why"]


def test_unknown_names_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.argv", ["rivals.py", "--rows", str(tmp_path / "rows"), "--rivals", "gcd"])
    with pytest.raises(SystemExit, match="no rival called gcd: there are gcc, polydl"):
        rivals.main()


def test_workloads_fit_their_functions() -> None:
    """Each file is there, and declares as many parameters as it is called with, by these names."""
    for workload in rivals.WORKLOADS.values():
        text = workload.source.read_text(encoding="utf-8")
        head = text[text.index(f"void {workload.function}(") :].partition(")\n")[0]
        assert [name for name, _ in workload.arguments] == [
            part.split("[")[0].split()[-1].replace("restrict", "").strip() for part in head.partition("(")[2].split(",")
        ]
        assert set(workload.outputs) <= {name for name, shape in workload.arguments if shape is not None}
