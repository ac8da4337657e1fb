"""Shared objects of kernels, compiled once and kept by content in the user's cache folder.

An entry's name is a digest of the preprocessed C text, the compiler and its flags, the files linked and the
processor. It ends with a digest of its own bytes; one that does not fit (a disk that was full, another program) is
compiled anew. Entries appear whole (written beside, then renamed), so that any number of processes may share them.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import secrets
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from polydl.base import cache as kept
from polydl.base.errors import ToolchainError
from polydl.measure import Toolchain
from polydl.measure.compile import find_compiler, link_flags, run_compiler

FORMAT = 1
MOST = 500
"""Entries kept; the ones used longest ago go first."""
_MARK = b"polydl-shared-object\0"
_TIMEOUT = 600.0
"""Seconds that one run of the compiler may take."""
_SHARED = ("-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,defs")
"""Hidden: names of the file neither meet those of other libraries of the process nor give way to them. What is not
defined is an error now, not a crash at the first call."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What a shared object is made of."""

    text: str
    """C, utf-8 with surrogateescape."""
    flags: tuple[str, ...]
    """Of the preprocessor: -D, -I, the folder of the file."""
    toolchain: Toolchain


def folder() -> Path:
    """Where shared objects are kept."""
    return kept.folder().parent / "compiled" if not os.environ.get("POLYDL_CACHE") else kept.folder() / "compiled"


def load(unit: Unit) -> tuple[ctypes.CDLL, Path]:
    """The shared object of a unit, from the cache or compiled, and its file. Raises ToolchainError."""
    with tempfile.TemporaryDirectory(prefix="polydl-native-") as temporary:
        source = Path(temporary, "kernel.c")
        source.write_bytes(unit.text.encode("utf-8", "surrogateescape"))
        path = folder() / f"{_key(unit, source)}.so"
        if _whole(path):
            os.utime(path)
            return _open(path), path
        made = Path(temporary, "kernel.so")
        _run(unit, [*_SHARED, "-o", made, source, *link_flags(unit.toolchain)])
        data = made.read_bytes()
        sealed = data + _MARK + hashlib.sha256(data).digest()
        try:
            _keep(path, sealed)
        except OSError as error:
            warnings.warn(f"the compiled kernel is not kept for the next run: {error}", stacklevel=2)
            return _open(made), made  # the memory stays mapped when the file goes
        return _open(path), path


def _run(unit: Unit, arguments: list[str | Path]) -> str:
    compiler = find_compiler(unit.toolchain)
    done = run_compiler([compiler, *unit.toolchain.cflags, *unit.flags, *arguments], _TIMEOUT)
    if not done.ok:
        raise ToolchainError(f"the kernel cannot be compiled: {done.message}")
    return done.output


def _key(unit: Unit, source: Path) -> str:
    expanded = source.with_suffix(".i")
    _run(unit, ["-E", "-P", "-o", expanded, source])
    digest = hashlib.sha256()
    for part in _parts(unit, expanded.read_bytes()):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _parts(unit: Unit, expanded: bytes) -> Iterator[bytes]:
    yield f"{FORMAT} {_processor()}".encode()
    yield expanded
    tools = unit.toolchain
    yield repr((_SHARED, tools.cflags, tools.ldflags, tools.link)).encode("utf-8", "surrogateescape")
    compiler = Path(find_compiler(tools)).resolve()
    found = compiler.stat()
    yield f"{compiler} {found.st_size} {found.st_mtime_ns}".encode("utf-8", "surrogateescape")
    for item in tools.link:
        if Path(item).is_file():
            yield Path(item).absolute().as_posix().encode("utf-8", "surrogateescape")
            yield Path(item).read_bytes()


def _processor() -> str:
    """What -march=native depends on: the processor's model and its flags."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        return platform.processor()
    told = re.findall(r"^(?:model name|flags|Features|CPU part|CPU implementer)\s*:.*$", text, re.MULTILINE)
    return f"{platform.machine()} {' '.join(told)}"


def _whole(path: Path) -> bool:
    """Whether an entry is there and as it was written."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    body, mark, digest = data.rpartition(_MARK)
    return bool(mark) and hashlib.sha256(body).digest() == digest


def _keep(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o700)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    entries = sorted(path.parent.glob("*.so"), key=_used, reverse=True)
    for old in entries[MOST:]:
        old.unlink(missing_ok=True)


def _used(path: Path) -> float:
    """When an entry was last used; 0 for one that another process has just removed."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _open(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise ToolchainError(
            f"the compiled kernel cannot be loaded: {error}", hint="name every library it needs with link= or ldflags="
        ) from error
