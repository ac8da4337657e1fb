"""Takes a user's program to another machine: its source, headers and object files, and the options.

The files are written below a folder that stands for `/`, at the same paths as on the user's machine, so that relative
names (`#include "../x.h"`, -I, --link) mean the same.
"""

from __future__ import annotations

import base64
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from polydl.base.effort import Effort
from polydl.base.errors import InputError
from polydl.measure.includes import included
from polydl.model.scop import Source
from polydl.options import Options

_PATH = re.compile(r"(-I|-iquote|-isystem|-include|)(/.*)", re.DOTALL)
"""An absolute path, alone or after the option that it belongs to."""


def pack(source: Source, options: Options) -> dict[str, str]:
    """The files that a source and its options name, by absolute path, with their contents in base64; without the
    headers of the system. Raises OSError, ToolchainError."""
    named = [Path(name) for name in (*options.link, options.ranker, options.schedule or "") if Path(name).is_file()]
    headers = included(source.path, options.cc, (*options.unit_flags(), *options.cflags), system=False)
    paths = [source.path, *headers, *named]
    return {os.path.normpath(path.absolute()): base64.b64encode(path.read_bytes()).decode() for path in paths}


def options_to_data(options: Options) -> dict[str, Any]:
    """Options as data that JSON can hold; `options_from_data` reads it."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(options), default=str))
    return found


@contextmanager
def unpacked(files: Mapping[str, str], folder: str) -> Iterator[Path]:
    """Write the files of `pack` below a temporary folder that stands for `/`, and make `folder` in it the current one.

    Removed at the end of the `with` statement. Raises InputError for a path that is not absolute.
    """
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="polydl-job-") as name:
        root = Path(name).resolve() / "root"
        for path, contents in files.items():
            place = inside(root, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(base64.b64decode(contents))
        current = inside(root, folder)
        current.mkdir(parents=True, exist_ok=True)
        os.chdir(current)
        try:
            yield root
        finally:
            os.chdir(before)


def inside(root: Path, path: str) -> Path:
    """The place below `root` for an absolute path of the user's machine. Raises InputError for another path."""
    if not Path(path).is_absolute():
        raise InputError(f"{path} is no absolute path")
    return root / os.path.normpath(path).lstrip("/")


def options_from_data(values: Mapping[str, Any], root: Path) -> Options:
    """The options that `options_to_data` wrote, with paths of the user's machine replaced by their places below `root`
    where such a file is there."""
    ready: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}

    def local(name: str) -> str:
        return str(inside(root, name)) if Path(name).is_absolute() and inside(root, name).exists() else name

    def flag(word: str) -> str:
        found = _PATH.fullmatch(word)
        return found[1] + local(found[2]) if found else word

    for field in ("include_dirs", "link", "preprocessor_flags", "cflags"):
        ready[field] = tuple(flag(word) for word in ready[field])
    for field in ("ranker", "schedule"):
        ready[field] = local(ready[field]) if ready[field] else ready[field]
    ready["effort"] = msgspec.convert(values["effort"], Effort)
    return Options(**ready)
