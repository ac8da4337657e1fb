"""Results of `polydl optimize` cached by content: the second run of a command compiles and measures nothing.

What a result depends on is hashed: polydl itself, the file, the options, the compiler (its path, size and time of
change), the environment that compilers and OpenMP read, files to link, the weights of the ranker, the machine with its
calibration, the module of a ranker of another package (not what that imports). The headers are known only after the
first run, as in ccache's direct mode: the entry lists them with their digests. A header that newly appears in a folder
searched earlier is not noticed (`--fresh` measures anew).
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from polydl.base import resources
from polydl.base.cache import Cache, compiler_parts, key_of, stamp
from polydl.base.errors import PolyDLError
from polydl.base.version import __version__
from polydl.options import Options
from polydl.rank import plugged

CACHE = Cache("results", ".json", 1000)
_READ_BY_COMPILERS = ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "PATH", "CC")
_READ_BY_OPENMP = ("OMP_", "GOMP_", "KMP_")


@dataclass(frozen=True, slots=True)
class CachedResult:
    """A result of an earlier run."""

    text: str
    """Of the output file."""
    document: dict[str, Any]
    """What --json prints."""
    shown: str
    """What is printed otherwise."""
    seconds: float
    """Since the epoch: when it was found."""
    record: str | None = None
    """The record of the run (polydl.inspect.report.record), where it was asked for."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """The JSON document that the cache holds under a key."""

    headers: dict[str, str]
    """Path -> digest of what the source includes."""
    result: CachedResult


def key(source: Path, written: Path, options: Options, *, run: bool = True) -> str:
    """Digest of all that the result of optimizing `source` depends on but its headers. `run`: whether variants are
    measured. Raises InputError, OSError."""
    return key_of(_parts(source, written, options, run=run))


def _parts(source: Path, written: Path, options: Options, *, run: bool) -> Iterator[bytes | str]:
    yield f"{__version__} {Path.cwd()} {written} {run}"
    for _, path in resources.own_files():
        yield stamp(path)
    yield source.read_bytes()
    yield json.dumps(asdict(options), sort_keys=True, default=str)
    yield from compiler_parts(options.cc, options.link)
    if options.ranker in (others := plugged.installed()):
        yield plugged.origin(others[options.ranker])
        yield plugged.code(others[options.ranker])
    for data in options.data.values():
        yield Path(data).read_bytes() if isinstance(data, str | Path) else data.tobytes()
    for name in (options.ranker, str(options.machine or ""), str(options.schedule or "")):
        if name and Path(name).is_file():
            yield Path(name).read_bytes()
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _READ_BY_COMPILERS or name.startswith(_READ_BY_OPENMP)
    }
    yield json.dumps(environment, sort_keys=True)
    yield repr((options.target(), sorted(os.sched_getaffinity(0))))


def load(name: str) -> CachedResult | None:
    """The result under a key, when its headers are still what they were; None otherwise, and for a damaged entry."""
    data = CACHE.read(name)
    if data is None:
        return None
    try:
        entry = msgspec.convert(json.loads(data), _Entry)
    except (ValueError, RecursionError) as error:
        warnings.warn(f"the cache entry {CACHE.path(name)} is no result ({error}): made anew", stacklevel=2)
        return None
    if any(_digest(Path(header)) != digest for header, digest in entry.headers.items()):
        return None
    return entry.result


def save(name: str, result: CachedResult, source: Path, options: Options) -> None:
    """Keep the result of optimizing `source`. Where that is not possible there is a warning, and nothing else."""
    from polydl.measure.includes import included

    try:
        headers = included(source, options.cc, (*options.unit_flags(), *options.cflags))
    except PolyDLError as error:
        warnings.warn(f"not cached for the next run: {error}", stacklevel=2)
        return
    entry = _Entry({str(path.absolute()): _digest(path) for path in headers}, result)
    CACHE.write(name, json.dumps(asdict(entry)).encode())


def _digest(path: Path) -> str:
    """Of a file's contents; empty for one that is not there."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def when(result: CachedResult) -> str:
    """When a result was found, for people."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(result.seconds))
