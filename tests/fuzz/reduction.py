"""A program's text made smaller line by line, as long as it still fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


def pieces(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Lines that may go together: each line, and each block with its braces, the longest first."""
    found, opened = [], []
    for number, line in enumerate(lines):
        first = number
        if line.count("}") > line.count("{") and opened:
            first = opened.pop()
        elif line.count("{") > line.count("}"):
            opened.append(number)
            continue
        found.append((first, number + 1))
    return sorted(found, key=lambda piece: piece[0] - piece[1])


def inner(lines: Sequence[str], piece: tuple[int, int]) -> list[str]:
    """A block without its braces."""
    return list(lines[piece[0] + 1 : piece[1] - 1])


def reduced(text: str, fails: Callable[[str], bool], seconds: float) -> str:
    """The shortest text found within so many seconds for which `fails` still holds: blocks and lines are left out, and
    what stands in a block is put in its place."""
    best, end = text.splitlines(), time.monotonic() + seconds
    tried: set[str] = set()

    def better(lines: list[str]) -> bool:
        nonlocal best
        candidate = "\n".join(lines) + "\n"
        if candidate in tried or time.monotonic() > end:
            return False
        tried.add(candidate)
        if fails(candidate):
            best = lines
            return True
        return False

    again = True
    while again and time.monotonic() < end:
        again = False
        for piece in pieces(best):
            if piece[1] > len(best) or piece not in pieces(best):
                continue
            if better(best[: piece[0]] + best[piece[1] :]) or (
                piece[1] - piece[0] > 2 and better(best[: piece[0]] + inner(best, piece) + best[piece[1] :])
            ):
                again = True
    return "\n".join(best) + "\n"
