"""A rewrite of a program as a value: what it did, and a check that the program computes the same afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from polydl.model.scop import Scop


class Rewrite(Protocol):
    """What was done to a program; its text says it to people."""

    def broken(self, before: Scop, after: Scop) -> str | None:
        """Why `after` does not compute what `before` computes, or is not what this says; None: it does and is.

        Decided from both programs alone, by their instances, accesses and order, whoever made `after`. Raises
        QuotaExceeded.
        """


@dataclass(frozen=True, slots=True)
class Step:
    """A rewrite with the programs on both sides of it."""

    rewrite: Rewrite
    before: Scop
    after: Scop

    def broken(self) -> str | None:
        """See `Rewrite.broken`."""
        return self.rewrite.broken(self.before, self.after)

    def __str__(self) -> str:
        return str(self.rewrite)


def applied(scop: Scop, steps: Iterable[Step]) -> Scop:
    """The program after the last step; the program itself where there is none."""
    for step in steps:
        scop = step.after
    return scop
