"""Detects other load on the machine, and keeps two timings of polydl apart."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUSY = 0.1
"""Share of the machine that others may use without a warning."""
_LOCKED = Path("/sys/devices/system/cpu")
_LONGEST_WAIT = 120.0
"""Seconds to wait for the timing of another polydl process."""
_LEAST = 0.1
"""Processor seconds of others that are ignored: the kernel counts in ticks, so that few seconds may be none."""
_IDLE_PROBE = 0.1
"""Seconds for which other load is measured."""


@contextmanager
def timing_turn() -> Iterator[list[str]]:
    """Wait until no other polydl process on this machine is timing, and keep others waiting; gives a list of warnings.

    The lock is on a folder of sysfs: it needs no file of its own, and the system releases it when its holder dies.
    After two minutes this goes on without the lock, with a warning; also, at once, where sysfs cannot be read.
    """
    warnings: list[str] = []
    try:
        descriptor = os.open(_LOCKED, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    except OSError as error:
        warnings.append(f"cannot tell whether another polydl is timing: {error}")
        yield warnings
        return
    try:
        deadline = time.monotonic() + _LONGEST_WAIT
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
    """Measure the load for a tenth of a second in which this process is idle; a warning for people, or nothing."""
    before = _busy_seconds()
    time.sleep(_IDLE_PROBE)
    share = (_busy_seconds() - before) / (_IDLE_PROBE * (os.cpu_count() or 1))
    if share > BUSY:
        return [f"the machine is busy: other programs use {100 * min(share, 1):.0f} % of its processors"]
    return []


class Others:
    """Measures how much other processes use the machine, from the creation of the object to the call of `warnings`."""

    def __init__(self) -> None:
        self._start, self._busy, self._own = time.monotonic(), _busy_seconds(), _own_seconds()

    def share(self) -> float:
        """The share of the processors that others used since the start; 0 for what the kernel's ticks do not resolve.

        Child processes of this one count as its own once they have ended and been waited for.
        """
        elapsed = time.monotonic() - self._start
        used = _busy_seconds() - self._busy - (_own_seconds() - self._own)
        share = used / (elapsed * (os.cpu_count() or 1))
        return min(share, 1.0) if used > _LEAST else 0.0

    def warnings(self) -> list[str]:
        """A warning for people when others used more than a tenth of the processors since the start, or nothing."""
        share = self.share()
        if share > BUSY:
            return [f"the machine was busy during timing: other programs used {100 * share:.0f} % of its processors"]
        return []


def wait_until_quiet(seconds: float) -> None:
    """Wait until others leave the machine alone for a moment, at most so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and machine_warnings():
        pass


def _own_seconds() -> float:
    """Processor seconds of this process and of all its descendants that were waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _busy_seconds() -> float:
    """Processor seconds used by all processes since boot, from /proc/stat (proc(5): user nice system idle iowait irq
    …)."""
    with Path("/proc/stat").open() as file:
        fields = [int(word) for word in file.readline().split()[1:]]
    busy = sum(fields[:3]) + sum(fields[5:8])
    return busy / os.sysconf("SC_CLK_TCK")
