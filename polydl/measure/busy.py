"""Is somebody else using the machine?"""

from __future__ import annotations

import os
import time
from pathlib import Path

_BUSY = 0.1
"""Share of the machine used by others above which a warning is given."""
_IDLE_PROBE = 0.1
"""Seconds for which other load is watched."""


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
