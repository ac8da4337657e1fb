"""The place of the output file: checked before any work is done, written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

from polydl.base.errors import InputError, PolyDLError

_ELSEWHERE = "choose another place with -o"


def output_path(source: Path, output: str | Path | None) -> Path:
    """Where the output goes: `output`, or FILE.polydl.c beside the input `source`.

    Raises InputError when nothing could be written there, or when it is the input under this or another name.
    """
    if output is not None and not str(output):
        raise InputError("the output has no name", hint="name a file with -o")
    target = source.with_name(f"{source.stem}.polydl.c") if output is None else Path(output)
    if output is not None and str(output).endswith(os.sep):
        raise InputError(f"cannot write {target}{os.sep}: it names a folder", hint="name a file with -o")
    try:
        if target.exists():
            if source.exists() and target.samefile(source):
                raise InputError(f"the output would replace the input {source}", hint="choose another name with -o")
            if target.is_dir():
                raise InputError(f"cannot write {target}: it is a folder", hint="name a file with -o")
        folder = _real(target).parent
        if not folder.is_dir():
            raise InputError(f"cannot write {target}: there is no folder {folder}", hint="make it, or " + _ELSEWHERE)
        if not os.access(folder if _replaced(target) else target, os.W_OK):
            raise InputError(f"cannot write {target}: permission denied", hint=_ELSEWHERE)
    except OSError as error:
        raise _failure(target, error) from error
    return target


def write(path: Path, text: str) -> None:
    """As `write_bytes`, with text in UTF-8."""
    write_bytes(path, text.encode("utf-8", "surrogateescape"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old one or the whole new one, also when this process is killed.

    A link is followed. What is no regular file (a device, a pipe) is written to. Raises InputError when the place
    is at fault, PolyDLError when there is no room left.
    """
    if not _replaced(path):
        try:
            path.write_bytes(data)
        except OSError as error:
            raise _failure(path, error) from error
        return
    real = _real(path)
    temporary = real.with_name(f".polydl-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            if real.exists():
                temporary.chmod(real.stat().st_mode & 0o777)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(real)
    except OSError as error:
        raise _failure(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _replaced(path: Path) -> bool:
    """Whether a new file takes this one's place."""
    return not path.exists() or path.is_file()


def _real(path: Path) -> Path:
    """The file a chain of links ends at. Raises OSError for a ring of links."""
    try:
        return path.resolve()
    except RuntimeError as error:  # what Python 3.11 raises for a ring
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error


def _failure(path: Path, error: OSError) -> PolyDLError:
    reason = f"cannot write {path}: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        return PolyDLError(reason, hint="make room, or " + _ELSEWHERE)
    return InputError(reason, hint=_ELSEWHERE)
