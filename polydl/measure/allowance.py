"""The seconds that measuring may take, runs of the original left out: when they are spent, it ends with what it has."""

from __future__ import annotations

import time


class Allowance:
    """Seconds of wall-clock time from its making on. They decide how many of the shortlisted variants are measured,
    never what is generated nor in which order."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._begin = time.monotonic()

    def grant(self, seconds: float) -> None:
        """More time, for what is not to count."""
        self._begin += seconds

    @property
    def spent(self) -> float:
        """Seconds that were spent, without those that were granted."""
        return time.monotonic() - self._begin

    @property
    def left(self) -> float:
        """Seconds that are left; negative when more were spent."""
        return self.seconds - self.spent

    @property
    def half_spent(self) -> bool:
        """Whether it is time to come to an end with what was begun: a candidate's first run, by which it is decided
        whether it is measured, takes about half of what it takes in all."""
        return self.left < self.seconds / 2
