"""Runs isl in a child process that is ended for its time or memory: some of its algorithms run for minutes, or fill the
memory, on few counted operations."""

from __future__ import annotations

import os
import resource
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from polydl.base.errors import QuotaExceeded
from polydl.model import isl

MEMORY = 4 << 30
"""Bytes of address space that a child may take beyond what its parent has."""


class Hung(QuotaExceeded):
    """A child was ended for its time or memory before any quota of operations was used up: on a faster machine, or one
    with more memory, it might have answered."""


def in_child(make: Callable[[], str], what: str, *, seconds: int) -> str:
    """The text that `make` returns in a child process.

    Raises QuotaExceeded when it exceeds its own quota of operations, isl.Error; Hung when it takes more than so many
    seconds of processor time or `MEMORY`.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Other threads do not matter: the child runs isl, writes, and is gone.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _child(make, seconds, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    kind, _, text = answer.decode().partition("\n")
    if kind == _DONE:
        return text
    if kind == _FAILED:
        raise isl.Error(text)
    if kind == _BROKEN:
        raise RuntimeError(f"{what} broke down in its own process:\n{text}")
    hint = "simplify the bounds and subscripts of the nest"
    if kind == _QUOTA:
        raise QuotaExceeded(text, hint=hint)
    raise Hung(f"{what} was stopped after {seconds} s of processor time or for its memory", hint=hint)


_DONE, _QUOTA, _FAILED, _BROKEN = "done", "quota", "failed", "broken"


def _child(make: Callable[[], str], seconds: int, writer: int) -> NoReturn:
    """Answer through the pipe and end, whatever happens: nothing of the parent's may run here."""
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _limit_memory()
        try:
            answer = f"{_DONE}\n{make()}"
        except QuotaExceeded as error:
            answer = f"{_QUOTA}\n{error.reason}"
        except isl.Error as error:
            answer = f"{_FAILED}\n{error}"
        except MemoryError:
            answer = ""
        except Exception:  # noqa: BLE001 - raised again by the parent
            answer = f"{_BROKEN}\n{traceback.format_exc()}"
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(answer.encode())
    finally:
        os._exit(0)


def _limit_memory() -> None:
    taken = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = taken + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most))
