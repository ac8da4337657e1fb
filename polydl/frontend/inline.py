"""C that is given as text instead of as a file."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path

from polydl.base import cache
from polydl.base import output_files as output
from polydl.base.errors import InputError, PolyDLError


def is_c(source: object) -> bool:
    """Whether it is C rather than the name of a file: no such file is there, and it has a brace or a line's end."""
    return isinstance(source, str) and ("\n" in source or "{" in source) and not os.path.lexists(source.strip())


def located(source: object) -> tuple[Path, tuple[Path, ...]]:
    """A file with the C that is given, and the folders to look for what it includes: for text the working folder.

    The same text gives the same file. Raises InputError for what is neither; InputError, PolyDLError where the text
    cannot be written.
    """
    if not isinstance(source, str | os.PathLike):
        kind = type(source).__name__
        raise InputError(f"what is given is of type {kind}, not C", hint="give the path of a C file, or C as a string")
    if not is_c(source):
        return Path(source), ()
    text = str(source)
    name = f"{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}.c"
    folder = cache.folder() / "sources"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        output.write(folder / name, text)
    except (OSError, PolyDLError):  # a cache that cannot be written to: a folder of this process
        folder = Path(tempfile.mkdtemp(prefix="polydl-source-"))
        output.write(folder / name, text)
    return folder / name, (Path.cwd(),) if re.search(r"#\s*include\s*\"", text) else ()
