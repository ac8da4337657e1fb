"""Running the command line as people do: another process, another folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cli import forked
from tests.compiling import run_compiler

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
REJECT = ROOT / "tests" / "reject"
PRESET = ("--machine", "epyc-zen5", "--threads", "2")
"""The same text on every machine."""

_RESULTS = tempfile.TemporaryDirectory(prefix="polydl-tests-")
"""Where these runs keep results, instead of the user's own folder."""

Listing = Mapping[str, tuple[str, bytes]]


@dataclass(frozen=True)
class Outcome:
    """What a run of polydl left."""

    code: int
    stdout: str
    stderr: str


def environment(**more: str) -> dict[str, str]:
    """The environment with the package on the path, whether it is installed or not."""
    own = {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", "COLUMNS": "80", "POLYDL_CACHE": _RESULTS.name}
    return {**os.environ, **own, **more}


def polydl(
    folder: Path, *arguments: str | bytes | Path, timeout: float = 600, fresh: bool = False, **more: str
) -> Outcome:
    """Run `python -m polydl` in a folder, with `fresh` or another environment for Python itself in a Python of its
    own. No run ends with a traceback."""
    if fresh or any(name.startswith(forked.STARTS) for name in more):
        done = subprocess.run(
            [sys.executable, "-m", "polydl", *arguments],
            cwd=folder,
            env=environment(**more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        code, out, err = done.returncode, done.stdout, done.stderr
    else:
        words = [os.fspath(argument) for argument in arguments]
        code, out, err = forked.run(words, folder, environment(**more), timeout)
    outcome = Outcome(code, out.decode("utf-8"), err.decode("utf-8"))
    assert "Traceback" not in outcome.stderr, outcome.stderr
    return outcome


def listing(folder: Path) -> Listing:
    """Every file and folder below a folder, with its kind and content."""
    found: dict[str, tuple[str, bytes]] = {}
    for path in sorted(folder.rglob("*")):
        name = os.fsencode(path.relative_to(folder)).decode("utf-8", "backslashreplace")
        if path.is_symlink():
            found[name] = ("link", os.fsencode(path.readlink()))
        else:
            found[name] = ("file", path.read_bytes()) if path.is_file() else ("folder", b"")
    return found


def refused(folder: Path, *arguments: str | bytes | Path, code: int | None = 2, **more: str) -> str:
    """The message of a run that must fail with an exit code (None: 1 or 2) and leave the folder as it was. Also with
    --json nothing is on standard output."""
    before = listing(folder)
    outcome = polydl(folder, *arguments, **more)
    assert outcome.code in ((1, 2) if code is None else (code,)), outcome
    assert outcome.stdout == "", outcome
    assert listing(folder) == before
    assert outcome.stderr.count("error") >= 1 or "Error" in outcome.stderr, outcome
    return outcome.stderr


def compile_c(folder: Path, files: Sequence[str | Path], output: str, *flags: str) -> None:
    """Compile with warnings as errors."""
    command = ["cc", "-Wall", "-Wextra", "-Werror", *flags, "-o", output, *map(str, files), "-lm"]
    done = run_compiler(command, folder, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
