"""Room on Python's stack for functions that follow expressions and statements down."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_FRAMES = 10_000
"""Frames of functions. A level of brackets takes pycparser fifteen; what C itself takes of the stack for so many stays
below the eight megabytes that threads usually have."""


@contextmanager
def deep() -> Iterator[None]:
    """Let functions call each other so deeply inside; what is deeper raises RecursionError."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
