"""Threads of a call in a process that was forked (workers of `multiprocessing` and of torch's `DataLoader`).

gcc's OpenMP runtime keeps the threads of a parallel region for the next one. A forked process has none of them, and the
runtime doesn't know: the next parallel region waits for them forever (gcc bug 58378). One of a single thread waits for
none.
"""

from __future__ import annotations

import os

_waiting = False
"""Whether OpenMP threads of this process may wait for work."""
_lost = False
"""Whether they were those of another process, which this one was forked from."""


def usable_threads(wanted: int) -> int:
    """The threads that a call may use: `wanted`, or 1 where this process was forked from one that had called kernels
    with several."""
    global _waiting
    if _lost:
        return 1
    _waiting = _waiting or wanted > 1
    return wanted


def _in_child() -> None:
    global _lost
    _lost = _lost or _waiting


os.register_at_fork(after_in_child=_in_child)
