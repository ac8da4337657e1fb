"""Is somebody else using the machine?"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BUSY = 0.1
"""Share of the machine used by others above which a warning is given."""
_LOCKED = Path("/sys/devices/system/cpu")
_PATIENCE = 120.0
"""Seconds to wait for another polydl's timing."""
_IDLE_PROBE = 0.1
"""Seconds for which other load is watched."""


@contextmanager
def timing_turn() -> Iterator[list[str]]:
    """Wait until no other polydl on this machine is timing; the value is a list of warnings for people.

    The turn is a lock on a folder of sysfs: no file of our own is needed, and the system gives it back when its holder
    dies. After two minutes the turn is taken anyway, with a warning; so it is, at once, where sysfs cannot be read.
    """
    warnings: list[str] = []
    try:
        descriptor = os.open(_LOCKED, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    except OSError as error:
        warnings.append(f"cannot tell whether another polydl is timing: {error}")
        yield warnings
        return
    try:
        deadline = time.monotonic() + _PATIENCE
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                warnings.append("another polydl was timing at the same time")
                break
            time.sleep(_IDLE_PROBE / 2)
        yield warnings
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def machine_warnings() -> list[str]:
    """Look at the load while we are idle ourselves, for a tenth of a second; a warning for people, or nothing."""
    before = _busy_seconds()
    time.sleep(_IDLE_PROBE)
    share = (_busy_seconds() - before) / (_IDLE_PROBE * (os.cpu_count() or 1))
    if share > _BUSY:
        return [f"the machine is busy: other programs use {100 * min(share, 1):.0f} % of its processors"]
    return []


def _busy_seconds() -> float:
    """Processor seconds spent by anyone since boot, from /proc/stat (proc(5): user nice system idle iowait irq …)."""
    with Path("/proc/stat").open() as file:
        fields = [int(word) for word in file.readline().split()[1:]]
    busy = sum(fields[:3]) + sum(fields[5:8])
    return busy / os.sysconf("SC_CLK_TCK")
