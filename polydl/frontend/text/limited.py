"""Running the preprocessor with limits: a few lines of macros can ask for any amount of text, memory and time."""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

WALL_SECONDS = 60.0
"""A preprocessor that takes longer reads something endless, or its disk is asleep."""
CPU_SECONDS = 3
"""Processor time; megabytes of headers take a tenth of a second."""
MEMORY = 1 << 30
"""Bytes of address space."""
_TICK_MS = 20


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    """Exit code; negative: the signal that ended it."""
    output: bytes
    messages: bytes
    too_long: bool
    """It wrote as much as it may, and was stopped."""


def run(command: Sequence[str], given: bytes, most: int) -> Done:
    """Run a command on `given` as its standard input; it may write `most` bytes.

    Raises OSError when it cannot be started or the user's own limit on files stops it, subprocess.TimeoutExpired when
    it does not end. Its children end with it.
    """
    limits = {
        resource.RLIMIT_CPU: CPU_SECONDS,
        resource.RLIMIT_AS: MEMORY,
        resource.RLIMIT_FSIZE: most,
        resource.RLIMIT_CORE: 0,
    }
    with tempfile.TemporaryFile() as text, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as messages:
        text.write(given)
        text.seek(0)
        process = subprocess.Popen(command, stdin=text, stdout=output, stderr=messages, start_new_session=True)
        descriptor = os.pidfd_open(process.pid)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            end = time.monotonic() + WALL_SECONDS
            _limit(process.pid, limits)
            while not poll.poll(_TICK_MS):
                # Compilers are a driver that starts the preprocessor proper, perhaps before the limits were set.
                _limit(process.pid, limits)
                if time.monotonic() > end:
                    raise subprocess.TimeoutExpired(command, WALL_SECONDS)
        finally:
            os.close(descriptor)
            with suppress(ProcessLookupError):  # the usual case: the whole group has ended
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        output.seek(0)
        messages.seek(0)
        written = output.read()
        own, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        if own != resource.RLIM_INFINITY and own <= len(written) < most:
            raise OSError(errno.EFBIG, f"{os.strerror(errno.EFBIG)}: files may have {own} bytes here (ulimit -f)")
        return Done(code, written, messages.read(1 << 20), len(written) >= most)


def _limit(process: int, limits: dict[int, int]) -> None:
    """Set limits of a process and its children, where there are none that are lower."""
    # What has ended meanwhile needs no limits; after exec of another user's program they cannot be set.
    with suppress(ProcessLookupError, FileNotFoundError, PermissionError):
        for which, value in limits.items():
            _, hard = resource.prlimit(process, which)
            if hard == resource.RLIM_INFINITY or value < hard:
                resource.prlimit(process, which, (value, value))
        for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
            _limit(int(child), limits)
