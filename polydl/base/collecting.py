"""Python's collector of cycles, held back while many values are made that are in none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_VALUES = 100_000
"""That are made between two runs of the collector, at least. A search makes millions that stay, and each run walks
many of them: with Python's 700 it took a sixth of the ranking of an encoder layer."""


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Let the collector run more rarely inside; one that is turned off stays so."""
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], _VALUES), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
