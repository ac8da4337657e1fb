"""Rows of an experiment as lines of JSON, written as they come: one that was stopped goes on where its file ends."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TypeVar

import msgspec

R = TypeVar("R")


def rows_of(path: Path, kind: type[R]) -> list[R]:
    """The rows that a file has, each an instance of a dataclass. Raises SystemExit where a line is none."""
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            found.append(msgspec.json.decode(line, type=kind))
        except msgspec.MsgspecError as error:
            sys.exit(f"{path}:{number} is no {kind.__name__} ({error}): remove the line, or name another file")
    return found


def add(path: Path, row: object) -> None:
    """Write a row at the end of a file."""
    with path.open("ab") as lines:
        lines.write(msgspec.json.encode(row) + b"\n")
