"""C that is given as text instead of as a file, and sizes that are given by name alone."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from operator import index
from pathlib import Path

from polydl import kept, output
from polydl.errors import InputError, PolyDLError, one_of
from polydl.model.scop import Source
from polydl.native.signature import read, variables
from polydl.options import Options


def is_c(source: str | Path) -> bool:
    """Whether it is C rather than the name of a file: no such file is there, and it has a brace or a line's end."""
    return isinstance(source, str) and ("\n" in source or "{" in source) and not os.path.lexists(source.strip())


def located(source: str | Path, options: Options) -> tuple[Path, Options]:
    """A file with the C that is given; the same text gives the same file. It includes what lies in the working folder.

    Raises InputError, PolyDLError where it cannot be written.
    """
    if not is_c(source):
        return Path(source), options
    text = str(source)
    name = f"{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}.c"
    folder = kept.folder() / "sources"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        output.write(folder / name, text)
    except (OSError, PolyDLError):  # a cache that cannot be written to: a folder of this process
        folder = Path(tempfile.mkdtemp(prefix="polydl-source-"))
        output.write(folder / name, text)
    if re.search(r"#\s*include\s*\"", text):
        options = replace(options, include_dirs=(*options.include_dirs, Path.cwd()))
    return folder / name, options


def with_sizes(path: Path, sizes: Mapping[str, int], options: Options) -> Options:
    """The options with each size where it belongs: variables of the file get a value, other names are macros.

    Raises InputError for a name that the file does not have, and for a size that is no integer.
    """
    if not sizes:
        return options
    values = {name: _integer(name, value) for name, value in sizes.items()}
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        source = Source(path, text, options.unit_flags())
        known = variables(read(source, options.cc))
    except OSError:
        return replace(options, defines={**options.defines, **values})  # told by who reads the file next
    except InputError:
        known = frozenset()  # a file may need the macros to be read at all
    macros = {name: value for name, value in values.items() if name not in known}
    for name in macros:
        if not re.search(rf"\b{re.escape(name)}\b", text) and "#include" not in text.replace(" ", ""):
            words = sorted(known | set(re.findall(r"^\s*#\s*(?:define|ifndef|ifdef)\s+(\w+)", text, re.MULTILINE)))
            raise InputError(f"{path} has nothing called '{name}'", hint=one_of(name, words) if words else None)
    for name, value in {**options.defines, **options.sizes}.items():
        if name in values and str(value) != str(values[name]):
            raise InputError(f"'{name}' is {values[name]} and {value}", hint="give it once")
    given = {name: value for name, value in values.items() if name in known}
    return replace(options, defines={**options.defines, **macros}, sizes={**options.sizes, **given})


def _integer(name: str, value: object) -> int:
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"the size {name} is {value!r}", hint="give an integer") from None
