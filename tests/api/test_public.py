"""The public names, and what a type checker makes of a program that uses them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import polydl

ROOT = Path(__file__).parents[2]
PROGRAM = """
from pathlib import Path

import numpy as np

import polydl


def best(path: Path) -> str:
    program: polydl.Program = polydl.load(path, defines={"M": 64})
    scop: polydl.Scop = program.scops[0]
    table: polydl.Ranking = polydl.rank(scop, "wide", "xeon-8480plus", "dnn", threads=4, progress=print)
    scores = table["score"]
    top: polydl.Ranking = table[:5]
    variant: polydl.Variant = top[0]
    print(len(table), scores.mean(), [v.score for v in top], [d.array for d in polydl.dependences(scop)])
    result: polydl.OptimizeResult = polydl.optimize(path, top_k=3)
    kernel: polydl.Kernel = polydl.compile("matmul.c", {"M": 64}, threads=2, tune=False, ranker="dnn")
    kernel(np.zeros((2, 2)))
    return variant.code() + result.text
"""
WRONG = """
import polydl

polydl.rank("k.c", spacing="wide")
polydl.rank("k.c", 3)
polydl.compile("k.c", {"M": "64"})
polydl.load("k.c")[0]
"""


def test_all_names_are_there() -> None:
    assert set(polydl.__all__) <= set(dir(polydl))
    for name in polydl.__all__:
        assert getattr(polydl, name) is not None


def test_star_import() -> None:
    program = (
        "from polydl import *\nassert callable(rank) and callable(compile) and issubclass(InputError, PolyDLError)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("module", ["dependences", "rank"])
def test_a_package_that_is_a_function_too(module: str) -> None:
    program = (
        f"import polydl\nassert callable(polydl.{module})\nimport polydl.pipeline\nassert callable(polydl.{module})\n"
        f"import polydl.{module} as again\nassert again is polydl.{module} and again.__spec__.name == 'polydl.{module}'"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_types(tmp_path: Path) -> None:
    """mypy --strict accepts a program that is right, and finds each mistake of one that is not."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    (tmp_path / "right.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text(WRONG)
    # With what `make lint` has found of polydl and the libraries, which takes its time: its options are strict ones.
    lint = ("--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache"))
    command = [sys.executable, "-m", "mypy", *lint]
    done = subprocess.run([*command, "right.py", "wrong.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[:2] for line in found] == [["wrong.py", str(n)] for n in (4, 5, 6, 7)], done.stdout
