"""Results of `polydl optimize` kept by content: the second run of a command compiles and measures nothing.

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
import shutil
import subprocess
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs

from polydl._version import __version__
from polydl.base import files as output
from polydl.base import resources
from polydl.base.errors import PolyDLError
from polydl.measure.compile import unit_flags
from polydl.model.scop import Source
from polydl.options import Options
from polydl.rank import plugged

FORMAT = 1
MOST = 1000
"""Entries kept; the ones used longest ago go first."""
_READ_BY_COMPILERS = ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "PATH", "CC")
_READ_BY_OPENMP = ("OMP_", "GOMP_", "KMP_")


@dataclass(frozen=True, slots=True)
class Kept:
    """A result of an earlier run."""

    text: str
    """Of the output file."""
    document: dict[str, Any]
    """What --json prints."""
    shown: str
    """What is printed otherwise."""
    seconds: float
    """Since the epoch: when it was measured."""
    record: str | None = None
    """The record of the run (polydl.inspect.report.record), where it was asked for."""


def folder() -> Path:
    """Where results are kept; the variable POLYDL_CACHE names another folder."""
    named = os.environ.get("POLYDL_CACHE")
    return Path(named) if named else Path(platformdirs.user_cache_dir("polydl")) / "results"


def key(source: Path, written: Path, options: Options) -> str:
    """Digest of all that the result of optimizing `source` depends on but its headers. Raises InputError, OSError."""
    digest = hashlib.sha256()
    for part in _parts(source, written, options):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _parts(source: Path, written: Path, options: Options) -> Iterator[bytes]:
    yield f"{FORMAT} {__version__} {Path.cwd()} {written}".encode("utf-8", "surrogateescape")
    package = Path(__file__).resolve().parent.parent
    own = [*package.rglob("*.py"), *package.rglob("*.toml"), *resources.templates().rglob("*.j2")]
    for path in sorted((*own, *resources.trained_models().glob("*.safetensors"))):
        found = path.stat()
        yield f"{path} {found.st_size} {found.st_mtime_ns}".encode("utf-8", "surrogateescape")
    yield source.read_bytes()
    yield json.dumps(asdict(options), sort_keys=True, default=str).encode("utf-8", "surrogatepass")
    compiler = shutil.which(options.cc)
    if compiler is not None:
        real = Path(compiler).resolve()
        yield f"{real} {real.stat().st_size} {real.stat().st_mtime_ns}".encode("utf-8", "surrogateescape")
    if options.ranker in (others := plugged.installed()):
        yield plugged.origin(others[options.ranker]).encode()
        yield plugged.code(others[options.ranker])
    for name in (*options.link, options.ranker, str(options.machine or ""), str(options.schedule or "")):
        if name and Path(name).is_file():
            yield Path(name).read_bytes()
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _READ_BY_COMPILERS or name.startswith(_READ_BY_OPENMP)
    }
    yield json.dumps(environment, sort_keys=True).encode("utf-8", "surrogatepass")
    yield repr((options.target(), sorted(os.sched_getaffinity(0)))).encode()


def load(name: str) -> Kept | None:
    """What is kept under a key, when its headers are still what they were; None otherwise, and for a damaged entry."""
    path = folder() / f"{name}.json"
    try:
        entry = json.loads(path.read_bytes())
        if any(_digest(Path(header)) != digest for header, digest in entry["headers"].items()):
            return None
        result = entry["result"]
        if [type(result[name]) for name in ("text", "document", "shown")] != [str, dict, str]:
            raise TypeError("no result of polydl")
        if not isinstance(result.get("record"), str | None):
            raise TypeError("no record of a run")
        kept = Kept(**result)
        os.utime(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        warnings.warn(f"what is kept in {path} cannot be used ({error}): measuring anew", stacklevel=2)
        return None
    return kept


def save(name: str, kept: Kept, source: Source, options: Options) -> None:
    """Keep a result. Where that is not possible there is a warning, and nothing else."""
    place = folder()
    try:
        entry = {"headers": headers(source, options), "result": asdict(kept)}
        place.mkdir(parents=True, exist_ok=True)
        output.write(place / f"{name}.json", json.dumps(entry))
        entries = sorted(place.glob("*.json"), key=lambda p: p.stat().st_mtime, reverse=True)
        for old in entries[MOST:]:
            old.unlink(missing_ok=True)
    except (OSError, PolyDLError, subprocess.SubprocessError) as error:
        warnings.warn(f"the result is not kept for the next run: {error}", stacklevel=2)


def headers(source: Source, options: Options) -> dict[str, str]:
    """All the files that the source includes, with their digests. Raises OSError, SubprocessError."""
    return {str(path): _digest(path) for path in included(source, options)}


def included(source: Source, options: Options, *, system: bool = True) -> list[Path]:
    """Absolute paths of the files that the source includes, as `cc -M` lists them; without `system` (`cc -MM`) those
    outside of the compiler's own folders. Raises OSError, SubprocessError."""
    listing = "-M" if system else "-MM"
    command = [options.cc, listing, "-x", "c", *unit_flags(source), *options.cflags, str(source.path.absolute())]
    listed = subprocess.run(command, capture_output=True, timeout=60, check=True).stdout
    _, _, names = listed.decode("utf-8", "surrogateescape").replace("\\\n", " ").partition(": ")
    # A space inside of a name is escaped.
    words = names.replace("\\ ", "\0").split()
    paths = [Path(word.replace("\0", " ").replace("$$", "$").replace("\\#", "#")) for word in words]
    return [path.absolute() for path in paths[1:]]


def _digest(path: Path) -> str:
    """Of a file's contents; empty for one that is not there."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def when(kept: Kept) -> str:
    """When a result was measured, for people."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(kept.seconds))
