"""The one cache: bytes by key, an entry per file in the user's cache folder, for any number of processes at once.

An entry appears whole (written beside, then renamed) and ends with a digest of itself: one that was cut short or
changed is told of, and counts as missing. The entries used longest ago go first. Files, because a shared object must
be one to be loaded. Nothing is unpickled: readers get bytes, and check what those say. (diskcache, which would do the
same over SQLite, unpickles what it finds, CVE-2025-69872, and has had no release since 2023.)
"""

from __future__ import annotations

import hashlib
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import platformdirs

from polydl.base.errors import PolyDLError
from polydl.base.output_files import write_bytes
from polydl.base.records import dataclass

_MARK = b"polydl-cache-entry\0"


def folder() -> Path:
    """Where everything is cached; the variable POLYDL_CACHE names another folder."""
    named = os.environ.get("POLYDL_CACHE")
    return Path(named) if named else Path(platformdirs.user_cache_dir("polydl"))


@dataclass(frozen=True, slots=True)
class Cache:
    """The entries of one kind."""

    name: str
    """Of their folder, below `folder()`."""
    suffix: str
    """Of their files, with its dot."""
    most: int
    """Entries that stay."""

    def path(self, key: str) -> Path:
        """The file of an entry, which may not be there."""
        return folder() / self.name / f"{key}{self.suffix}"

    def read(self, key: str) -> bytes | None:
        """The bytes under a key; None for none, and with a warning for ones that cannot be read or are damaged."""
        path = self.path(key)
        try:
            data = path.read_bytes()
            os.utime(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            warnings.warn(f"the cache entry {path} cannot be used ({error}): made anew", stacklevel=2)
            return None
        body, mark, digest = data.rpartition(_MARK)
        if not mark or hashlib.sha256(body).digest() != digest:
            warnings.warn(f"the cache entry {path} is damaged: made anew", stacklevel=2)
            return None
        return body

    def write(self, key: str, data: bytes) -> bool:
        """Keep bytes under a key. Where that is not possible there is a warning, and nothing else."""
        path = self.path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_bytes(path, data + _MARK + hashlib.sha256(data).digest())
            entries = sorted(path.parent.glob(f"*{self.suffix}"), key=_last_use, reverse=True)
            for old in entries[self.most :]:
                old.unlink(missing_ok=True)
        except (OSError, PolyDLError) as error:
            warnings.warn(f"not cached for the next run: {error}", stacklevel=2)
            return False
        return True


def _last_use(path: Path) -> float:
    """Seconds since the epoch; 0 for an entry that another process has just removed."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def key_of(parts: Iterable[bytes | str]) -> str:
    """A digest of the parts, each with its length."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def stamp(path: Path) -> str:
    """A text that changes when a file is replaced: path, size and time of change. Raises OSError."""
    found = path.stat()
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def compiler_parts(cc: str, link: Iterable[str]) -> Iterator[bytes | str]:
    """Parts of a key that stand for the compiler and the files linked, which its output depends on like on its input.
    Raises OSError."""
    compiler = shutil.which(cc)
    if compiler is not None:
        yield stamp(Path(compiler).resolve())
    for item in link:
        if Path(item).is_file():
            yield str(Path(item).absolute())
            yield Path(item).read_bytes()
