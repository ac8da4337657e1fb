"""`rank` and `explain` for sizes as ranges, for none, and `--at`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import PRESET, polydl, refused

PRODUCT = """\
void product(int n, float A[n][n], float B[n][n], float C[n][n])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                C[i][j] += A[i][k] * B[k][j];
}
"""
pytestmark = pytest.mark.few_sizes

SMALL = (*PRESET, "--space", "small")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "p.c").write_text(PRODUCT)
    return tmp_path


def test_rank_says_which_size_stands_for_a_range(folder: Path) -> None:
    done = polydl(folder, "rank", "p.c", "--size", "n=1..4096", *SMALL)
    assert "ranked for n = 1024, which stands for n = 1..4096\n" in done.stdout
    none = polydl(folder, "rank", "p.c", *SMALL)
    assert "ranked for n = 512, which stands for n = 1..2048\n" in none.stdout
    one = polydl(folder, "rank", "p.c", "--size", "n=64", *SMALL)
    assert "stands for" not in one.stdout


def test_rank_at_a_size_outside_of_the_range(folder: Path) -> None:
    command = ("p.c", "--size", "n=1..512", "--at", "n=5000", *SMALL)
    found = json.loads(polydl(folder, "rank", *command, "--json").stdout)
    assert found["ranges"] == {"n": [1, 512]}
    there = found["at"]
    assert there["sizes"] == {"n": 5000}
    assert there["predicted_seconds"] >= there["best_predicted_seconds"] > 0
    shown = polydl(folder, "rank", *command).stdout
    assert f"at n = 5000: variant {there['variant']}, where " in shown
    explained = json.loads(polydl(folder, "explain", *command, "--json").stdout)
    assert explained["at"] == there
    assert explained["variants"] == []
    assert explained["every_size"]["tuned"] == {"n": 128}


def test_explain_shows_the_decisions_beside_a_variant(folder: Path) -> None:
    shown = polydl(folder, "explain", "p.c", "best", "--size", "n=1..256", *SMALL).stdout
    assert "at n = 64: variant " in shown
    assert "  else: the original loops\n" in shown
    assert "legal at every size" in shown
    one = polydl(folder, "explain", "p.c", "best", "--size", "n=64", *SMALL).stdout
    assert "legal at every size" not in one


BAD = {
    "wrong way round": (("--size", "n=9..3"), "--size n=9..3: 3 is below 9"),
    "below zero": (("--size", "n=-1..3"), "--size n=-1..3: -1 is below 0"),
    "no parameter": (("--size", "n=1..8,x=4"), "'x' is not an integer parameter"),
    "at a range": (("--at", "n=1..3"), "--at n=1..3: one value is meant"),
    "at no parameter": (("--at", "x=4"), "'x' is no parameter of 'product'"),
    "at no number": (("--at", "n=x"), "--at n=x: not NAME=INTEGER"),
    "at twice": (("--at", "n=1", "--at", "n=2"), "--at: n is 1 and 2"),
    "at too much": (("--at", "n=99999999999"), "the size n is 99999999999"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("command", ["rank", "explain"])
def test_bad_sizes(folder: Path, command: str, case: str) -> None:
    arguments, message = BAD[case]
    assert message in refused(folder, command, "p.c", *arguments, *SMALL)


def test_what_does_not_go_together(folder: Path) -> None:
    (folder / "loops.txt").write_text("abc\n")
    both = ("--at", "n=5", "--loops-file", "loops.txt")
    assert "--at and --loops-file together" in refused(folder, "rank", "p.c", *both, *SMALL)
    assert "--measure without a variant" in refused(folder, "explain", "p.c", "--measure", *SMALL)


def test_a_recorded_run_of_a_range_has_a_curve_and_a_report_of_it(folder: Path) -> None:
    command = ("optimize", "p.c", "--size", "n=1..40", "--curve", "3", "-k", "1", "--budget", "none")
    done = polydl(folder, *command, "--threads", "1", "--space", "small", "--save", "run.json")
    assert "at other sizes (medians, timed in turns):" in done.stdout
    recorded = json.loads((folder / "run.json").read_text())["scops"][0]["curve"]
    assert {one["kind"] for one in recorded["points"]} >= {"smallest", "largest"}
    polydl(folder, "report", "run.json", "-o", "run.md")
    assert "### The output over sizes" in (folder / "run.md").read_text()


def test_curves_that_cannot_be(folder: Path) -> None:
    assert "curve is -1" in refused(folder, "optimize", "p.c", "--curve", "-1", *SMALL)
    both = ("--curve", "3", "--cluster", "localhost:1")
    assert "--curve and --cluster together" in refused(folder, "optimize", "p.c", *both, *SMALL)
