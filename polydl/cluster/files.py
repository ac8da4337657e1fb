"""The files of a user's program on their way to another machine: source, headers, objects, machine-independent options.

There they lie in a folder that stands for `/`, at the same paths, so that relative names (`#include "../x.h"`, -I,
--link) mean what they mean here.
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

from polydl.base.errors import InputError
from polydl.measure.includes import included
from polydl.model.scop import Source
from polydl.options import Options

_PATH = re.compile(r"(-I|-iquote|-isystem|-include|)(/.*)", re.DOTALL)
"""An absolute path, alone or after the option that it belongs to."""


def packed(source: Source, options: Options) -> dict[str, str]:
    """Absolute path -> contents (base64) of all the files that the source and the options name, headers of the system
    left out. Raises OSError, ToolchainError."""
    named = [Path(name) for name in (*options.link, options.ranker, options.schedule or "") if Path(name).is_file()]
    headers = included(source.path, options.cc, (*options.unit_flags(), *options.cflags), system=False)
    paths = [source.path, *headers, *named]
    return {os.path.normpath(path.absolute()): base64.b64encode(path.read_bytes()).decode() for path in paths}


def plain(options: Options) -> dict[str, Any]:
    """Options as JSON has them."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(options), default=str))
    return found


@contextmanager
def unpacked(files: Mapping[str, str], folder: str) -> Iterator[Path]:
    """A folder that stands for `/`, with the files; `folder` of it is the current one inside of the `with` statement.
    It is gone afterwards."""
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
    """Where an absolute path of the other machine is. Raises InputError for one that is not absolute."""
    if not Path(path).is_absolute():
        raise InputError(f"{path} is no absolute path")
    return root / os.path.normpath(path).lstrip("/")


def moved(values: Mapping[str, Any], root: Path) -> Options:
    """The options of `plain`, with absolute paths of the other machine where they lie below `root`."""
    ready: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}

    def here(name: str) -> str:
        return str(inside(root, name)) if Path(name).is_absolute() and inside(root, name).exists() else name

    def flag(word: str) -> str:
        found = _PATH.fullmatch(word)
        return found[1] + here(found[2]) if found else word

    for field in ("include_dirs", "link", "preprocessor_flags", "cflags"):
        ready[field] = tuple(flag(word) for word in ready[field])
    for field in ("ranker", "schedule"):
        ready[field] = here(ready[field]) if ready[field] else ready[field]
    return Options(**ready)
