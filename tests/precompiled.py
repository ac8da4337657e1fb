"""Headers of vector intrinsics, compiled once for each compiler and set of flags.

To read `immintrin.h` is most of what a small compilation takes. A precompiled header is put before a text that
includes the same header itself, and that only where it makes no difference to the text: of what the text defines as a
macro, nothing occurs in the header.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import platformdirs

FOLDER = platformdirs.user_cache_path("polydl-tests") / "headers"
HEADERS = (b"immintrin.h", b"arm_neon.h")
ASKED = FOLDER.with_name("asked")
"""By set of flags a file with a byte for each compilation with them, as far as its header is not made."""
BEFORE = 2
"""Compilations with a set of flags before its header is made, which takes as long as it saves in three."""
MOST = 48
"""Headers that the folder may hold when a run of tests ends; each takes 26 MB."""


def words(compiler: str, stamp: bytes, flags: Sequence[str], header: bytes, defined: Iterable[str]) -> list[str]:
    """What to put behind the compiler's name in a command with these flags, whose text includes `header` and defines
    the macros `defined`; nothing where that could make a difference, or the header cannot be compiled.

    `stamp` says which compiler it is. Warnings are no part of a header: it serves commands with any.
    """
    flags = [flag for flag in flags if not flag.startswith("-W") and flag not in ("-w", "-pedantic")]
    digest = hashlib.sha256(b"\0".join([stamp, header, *map(str.encode, flags)])).hexdigest()[:24]
    folder = FOLDER / digest
    if not _is_there(folder) and not (_often(digest) and _made(compiler, tuple(flags), header, folder)):
        return []
    if any(name.startswith("_") or name in _names(folder) for name in defined):
        return []  # names with an underscore may be asked for by conditions in the header
    with contextlib.suppress(FileNotFoundError):
        os.utime(folder)  # used; another run may trim
    return ["-include", str(folder / "first.h")]


def trim(most: int = MOST) -> None:
    """Forget those that were not used for longest."""
    with contextlib.suppress(FileNotFoundError):  # there are none, or another run trims as well
        for folder in sorted(FOLDER.iterdir(), key=lambda path: path.stat().st_mtime_ns, reverse=True)[most:]:
            shutil.rmtree(folder, ignore_errors=True)


def _often(digest: str) -> bool:
    """Whether enough compilations asked for a header before, in this run or others."""
    ASKED.mkdir(parents=True, exist_ok=True)
    with (ASKED / digest).open("ab") as file:
        file.write(b".")
        return file.tell() > BEFORE


def _is_there(folder: Path) -> bool:
    return (folder / "first.h.gch").is_file() and (folder / "names").is_file()


@cache
def _names(folder: Path) -> frozenset[str]:
    """All identifiers that the header mentions once it is preprocessed, and the macros that it defines."""
    return frozenset((folder / "names").read_text(encoding="utf-8").split())


@cache
def _made(compiler: str, flags: tuple[str, ...], header: bytes, folder: Path) -> bool:
    """Whether the compiler made the header in this folder, which appears with all that is in it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER.parent, prefix="header-") as name:
        own = Path(name)
        (own / "first.h").write_text(f"#include <{header.decode()}>\n", encoding="utf-8")
        command = [compiler, *flags, "-x", "c-header", str(own / "first.h"), "-o", str(own / "first.h.gch")]
        read = [compiler, *flags, "-E", "-dD", "-x", "c", str(own / "first.h")]
        made = subprocess.run(command, capture_output=True, check=False)
        text = subprocess.run(read, capture_output=True, text=True, check=False)
        if made.returncode or text.returncode:
            return False
        (own / "names").write_text("\n".join(sorted(mentioned(text.stdout))), encoding="utf-8")
        with contextlib.suppress(OSError):  # another process was first
            own.rename(folder)
            own.mkdir()
    return _is_there(folder)


def mentioned(text: str) -> set[str]:
    """The identifiers in a preprocessed text with its `#define`s, but for what replaces macros where they are used."""
    found: set[str] = set()
    for line in text.splitlines():
        if line.startswith("#"):
            found.update(re.findall(r"^#(?:define|undef) (\w+)", line))
        else:
            found.update(re.findall(r"[A-Za-z_]\w*", line))
    return found
