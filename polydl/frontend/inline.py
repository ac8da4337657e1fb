"""C that is given as text instead of as a file."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path

from polydl.base import cache
from polydl.base import files as output
from polydl.base.errors import PolyDLError


def is_c(source: str | Path) -> bool:
    """Whether it is C rather than the name of a file: no such file is there, and it has a brace or a line's end."""
    return isinstance(source, str) and ("\n" in source or "{" in source) and not os.path.lexists(source.strip())


def located(source: str | Path) -> tuple[Path, tuple[Path, ...]]:
    """A file with the C that is given, and the folders to look for what it includes: for text the working folder.

    The same text gives the same file. Raises InputError, PolyDLError where it cannot be written.
    """
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
