"""Child processes that end when their parent does, however that ends."""

from __future__ import annotations

import ctypes
import os
from signal import Signals

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int, how: Signals) -> None:
    """Have this process sent a signal when the one that started it is gone (prctl(2), PR_SET_PDEATHSIG).

    `parent`: the process number that the starter has of itself; when it is gone already, this process exits with 1.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, how)
    if os.getppid() != parent:
        os._exit(1)
