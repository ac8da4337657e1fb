"""Running the preprocessor with limits: a few lines of macros can ask for any amount of text, memory and time.

What is refused is decided by bytes, of text and of memory: the same on every machine. The limits on time are far beyond
what such text takes, and end only what never would.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from polydl.base.records import dataclass

WALL_SECONDS = 300.0
"""A preprocessor that takes longer reads something endless, or its disk is asleep."""
CPU_SECONDS = 60
"""Processor time, the last resort for macros that expand for hours to nothing; eight megabytes of expansions take gcc
three seconds."""
MEMORY = 1 << 30
"""Bytes of address space."""
_TICK_MS = 20
_OUT_OF_TIME = re.compile(rb"cpu time limit", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    """Exit code; negative: the signal that ended it."""
    output: bytes
    messages: bytes
    too_long: bool
    """It wrote as much as it may, and was stopped."""
    too_slow: bool = False
    """It was stopped for its processor time: on a faster machine it may have come to its end."""


def run(command: Sequence[str], stdin: bytes, most: int) -> Done:
    """Run a command with `stdin` as its standard input; it may write `most` bytes.

    Raises OSError when it cannot be started or the user's own limit on files stops it, subprocess.TimeoutExpired when
    it does not end. Its children end with it.
    """
    limits = {
        resource.RLIMIT_CPU: (CPU_SECONDS, CPU_SECONDS + 1),  # the first sends a signal that says why
        resource.RLIMIT_AS: (MEMORY, MEMORY),
        resource.RLIMIT_FSIZE: (most, most),
        resource.RLIMIT_CORE: (0, 0),
    }
    with tempfile.TemporaryFile() as text, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as messages:
        text.write(stdin)
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
        said = messages.read(1 << 20)
        # The driver of a compiler passes on in words what ended the preprocessor proper.
        too_slow = code == -signal.SIGXCPU or (code != 0 and _OUT_OF_TIME.search(said) is not None)
        return Done(code, written, said, len(written) >= most, too_slow)


def _limit(process: int, limits: Mapping[int, tuple[int, int]]) -> None:
    """Set limits of a process and its children, where there are none that are lower."""
    # What has ended meanwhile needs no limits; after exec of another user's program they cannot be set.
    with suppress(ProcessLookupError, FileNotFoundError, PermissionError):
        for which, (soft, most) in limits.items():
            _, hard = resource.prlimit(process, which)
            if hard == resource.RLIM_INFINITY or most < hard:
                resource.prlimit(process, which, (soft, most))
        for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
            _limit(int(child), limits)
