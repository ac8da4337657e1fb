"""The fenced blocks of a Markdown page, and how they are run.

    ```sh                       commands for bash, run in a copy of the checkout's examples (`checkout`)
    ```python                   run by Python, likewise
    ```c title="blur.c"         any language with a title: a file, written before what follows is run
    ```text                     after a block that is run: what it printed (`python -m tests.docs PAGE` pastes it)
    <!-- not run: reason -->    on the line before a block: shown, not run

The blocks of a page run one after the other in one folder; what fails ends with another exit code than 0.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PARTS = ("examples", "polydl", "templates", "trained_models", "experiments/data", "experiments/kernels")
"""What the copy of the checkout holds."""

BRIEF = ".brief"
"""Folder in the copy, first on the path, of a `polydl` that times briefly (`time_briefly`)."""

RUN = ("sh", "python")
"""Languages that are run. Others that shells and Pythons go by are refused, lest a block go unrun by its name."""
MISSPELT = ("bash", "shell", "console", "py", "pycon", "zsh")

_FENCE = re.compile(r"^( *)```+\s*([\w+-]*)\s*(.*)$")
_NOT_RUN = re.compile(r"^\s*<!-- not run: (.*\S) -->\s*$")
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    language: str
    title: str
    """Name of the file that it is; empty: none."""
    text: str
    """Ends in a newline."""
    line: int
    """Of the opening fence, 1-based."""
    end: int
    """Of the closing fence, 1-based."""
    reason: str
    """Why it is not run; empty: nothing is said."""

    @property
    def is_run(self) -> bool:
        return self.language in RUN and not self.title and not self.reason


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page, in order. Raises ValueError for a fence without an end, and for a comment `not run`
    without a block."""
    lines = text.splitlines()
    at, reason = 0, ""
    while at < len(lines):
        said = _NOT_RUN.match(lines[at])
        opened = _FENCE.match(lines[at])
        if reason and not opened:
            raise ValueError(f"line {at + 1}: 'not run' stands before no block")
        reason = said[1] if said else reason
        if opened:
            indent, language, rest = opened[1], opened[2], opened[3]
            ends = [n for n in range(at + 1, len(lines)) if lines[n].strip() and set(lines[n].strip()) == {"`"}]
            if not ends:
                raise ValueError(f"line {at + 1}: the block never ends")
            body = [line.removeprefix(indent) for line in lines[at + 1 : ends[0]]]
            title = _TITLE.search(rest)
            inside = "".join(f"{line}\n" for line in body)
            yield Block(language, title[1] if title else "", inside, at + 1, ends[0] + 1, reason)
            at, reason = ends[0], ""
        at += 1


def pages() -> list[Path]:
    """The pages whose blocks are run."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def checkout(folder: Path) -> Path:
    """A copy of what the commands name, made in `folder`."""
    for part in PARTS:
        ignored = shutil.ignore_patterns("*.parquet", "*.polydl.c")
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    return folder


_QUICK = """\
#!{python}
import runpy, sys
sys.path.insert(0, {root!r})
import pytest
from tests import compiling, efforts, short_timings
short_timings.apply(pytest.MonkeyPatch())
compiling.apply(pytest.MonkeyPatch())
efforts.apply(pytest.MonkeyPatch())
runpy.run_module("polydl", run_name="__main__", alter_sys=True)
"""


def time_briefly(folder: Path) -> None:
    """Let the command `polydl` in a folder time as other tests do: everything that it is asked for is compiled, checked
    and timed, but nothing waits for a quiet machine, and code for other sizes is chosen at few of them."""
    program = folder / BRIEF / "polydl"
    program.parent.mkdir()
    program.write_text(_QUICK.format(python=sys.executable, root=str(ROOT)), encoding="utf-8")
    program.chmod(0o755)


def environment(folder: Path) -> dict[str, str]:
    """As a user's, with the running Python first on the path and nothing kept from earlier runs."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST", "POLYDL"))}
    path = os.pathsep.join([str(folder / BRIEF), str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    # The width of what is printed shall not depend on a terminal.
    return kept | {
        "PATH": path,
        "POLYDL_CACHE": str(folder / ".kept"),
        "COLUMNS": "110",
    }


def perform(block: Block, folder: Path) -> subprocess.CompletedProcess[str] | None:
    """Write the file that a block is, or run it; None where there is nothing to run."""
    if block.title:
        path = folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        return None
    if not block.is_run:
        return None
    command = (
        ["bash", "-euo", "pipefail", "-c", block.text] if block.language == "sh" else [sys.executable, "-c", block.text]
    )
    return subprocess.run(
        command, cwd=folder, env=environment(folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
    )  # fmt: skip
