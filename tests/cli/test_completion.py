"""Completion: scripts for three shells, and what they are told."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from polydl.rank.rankers import NAMES
from polydl.target import preset_names
from tests.cli.running import EXAMPLES, environment, polydl


def offered(folder: Path, line: str) -> list[str]:
    """What bash is told for a line that ends at the cursor."""
    words = line.split(" ")
    own = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_POLYDL_COMPLETE": "complete_bash"}
    outcome = polydl(folder, **own)
    assert outcome.code == 0, outcome.stderr
    return outcome.stdout.split()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(EXAMPLES / "matmul.c", tmp_path)
    (tmp_path / "mine.safetensors").write_bytes(b"")
    (tmp_path / "mine.toml").write_text("")
    (tmp_path / "more").mkdir()
    return tmp_path


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_come_out_and_shells_read_them(tmp_path: Path, shell: str) -> None:
    outcome = polydl(tmp_path, _POLYDL_COMPLETE=f"source_{shell}")
    assert outcome.code == 0
    assert f"complete_{shell}" in outcome.stdout
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: its script is not read by it")
    (tmp_path / "script").write_text(outcome.stdout)
    done = subprocess.run([shell, "-n", "script"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("polydl optimize --ranker ", [*NAMES, "mine.safetensors", "more/"]),
        ("polydl optimize --ranker dnn", ["dnn", "dnn-paper"]),
        ("polydl rank --space ", ["small", "default", "wide"]),
        ("polydl rank --machine ", [*preset_names(), "mine.toml", "more/"]),
        ("polydl explain matmul.c bes", ["best"]),
        ("polydl analyze mat", ["matmul.c"]),
        ("polydl doc", ["doctor"]),
        ("polydl analyze none/", []),
    ],
)
def test_values_are_offered(folder: Path, line: str, words: list[str]) -> None:
    assert offered(folder, line) == words


def test_variants_of_the_file_are_offered(folder: Path) -> None:
    found = offered(folder, "polydl explain --machine epyc-zen5 --space small matmul.c ")
    assert found[:2] == ["best", "original"]
    assert 2 < len(found) <= 12
    outcome = polydl(folder, "explain", "--machine", "epyc-zen5", "--space", "small", "matmul.c", found[2])
    assert outcome.code == 0, outcome.stderr
    assert offered(folder, "polydl explain none.c ") == ["best", "original"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes(folder: Path) -> None:
    """The function of the script, called as bash calls it."""
    program = folder / "polydl"
    script = (
        'eval "$(_POLYDL_COMPLETE=source_bash polydl)"; COMP_WORDS=(polydl rank --space sm); COMP_CWORD=3; '
        "_polydl_completion polydl; echo ${COMPREPLY[@]}"
    )
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m polydl "$@"\n')
    program.chmod(0o755)
    path = f"{folder}:{environment()['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment(PATH=path), capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["small"], done.stderr
