"""isl in a child process that is ended after a time: some of its algorithms run for minutes on few operations."""

from __future__ import annotations

import os
import resource
import traceback
import warnings
from collections.abc import Callable
from typing import NoReturn

from polydl.base.errors import QuotaExceeded
from polydl.model import isl


def in_seconds(make: Callable[[], str], seconds: int, what: str) -> str:
    """The text that `make` returns in a child process, which is ended after so many seconds of processor time.

    Raises QuotaExceeded when it takes longer or exceeds its own quota, isl.Error.
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
    reason = text if kind == _QUOTA else f"{what} needs more than {seconds} s"
    raise QuotaExceeded(reason, hint="simplify the bounds and subscripts of the nest")


_DONE, _QUOTA, _FAILED, _BROKEN = "done", "quota", "failed", "broken"


def _child(make: Callable[[], str], seconds: int, writer: int) -> NoReturn:
    """Answer through the pipe and end, whatever happens: nothing of the parent's may run here."""
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            answer = f"{_DONE}\n{make()}"
        except QuotaExceeded as error:
            answer = f"{_QUOTA}\n{error.reason}"
        except isl.Error as error:
            answer = f"{_FAILED}\n{error}"
        except Exception:  # noqa: BLE001 - raised again by the parent
            answer = f"{_BROKEN}\n{traceback.format_exc()}"
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(answer.encode())
    finally:
        os._exit(0)
