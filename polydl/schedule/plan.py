"""A part of a scop with a schedule of its own."""

from __future__ import annotations

from dataclasses import dataclass

from polydl.model.scop import Statement
from polydl.schedule.transforms import Schedule
from polydl.schedule.tree import Node


@dataclass(frozen=True, slots=True, eq=False)
class Scheduled:
    """Consecutive statements of a scop and the tree that orders them."""

    statements: tuple[Statement, ...]
    """In textual order."""
    how: Schedule
    """The transform that makes the tree of the statements as they are written."""
    tree: Node

    @property
    def name(self) -> str:
        return self.statements[0].name

    @property
    def transforms(self) -> tuple[Schedule]:
        """The one that makes the tree."""
        return (self.how,)
