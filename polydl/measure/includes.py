"""Lists the files that a C file includes, with the compiler's option -M."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from polydl.base.errors import ToolchainError
from polydl.base.resources import header_flags

_TIMEOUT = 60
"""Seconds that the compiler may take."""
_NAME = re.compile(r"(?:(?<!\\)(?:\\\\)*\\[ \t#]|\S)+")
"""A file name in a rule of Make: a space belongs to it after an odd number of backslashes."""
_ESCAPES = re.compile(r"(\\+)(?=[ \t#])")
"""Backslashes before a space or # are doubled, and one more escapes it; other backslashes stand for themselves."""


def included(path: Path, cc: str, flags: Sequence[str], *, system: bool = True) -> tuple[Path, ...]:
    """Every file that a C file includes, as the compiler names it; without `system` (`cc -MM`) only those outside of
    the compiler's own folders. Raises ToolchainError."""
    listing = "-M" if system else "-MM"
    file = f"./{path}" if str(path).startswith("-") else str(path)
    try:
        done = subprocess.run(
            [cc, listing, "-x", "c", *flags, *header_flags(), file], capture_output=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"'{cc} {listing}' does not list the headers: {error}", hint="check --cc") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise ToolchainError(f"'{cc} {listing}' does not list the headers: {said}", hint="check --cflags")
    return tuple(Path(name) for name in prerequisites(done.stdout.decode("utf-8", "surrogateescape")))[1:]


def prerequisites(rule: str) -> list[str]:
    """The prerequisites in a rule of Make, as GCC writes it."""
    _, _, text = rule.replace("\\\r\n", " ").replace("\\\n", " ").partition(": ")
    return [_ESCAPES.sub(lambda m: "\\" * (len(m[1]) // 2), name).replace("$$", "$") for name in _NAME.findall(text)]
