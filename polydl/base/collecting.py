"""Run Python's garbage collector less often where many objects are made that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_VALUES = 100_000
"""Objects made between two runs of the collector, at least. A search makes millions that stay, and each run walks many
of them: with Python's 700 it took a sixth of the ranking of an encoder layer."""


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Raise the collector's threshold inside of the block; a collector that is turned off stays so."""
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], _VALUES), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
