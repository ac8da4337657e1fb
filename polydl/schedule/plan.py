"""A part of a scop with a schedule of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from polydl.model.scop import Statement
from polydl.schedule.structure import Rows
from polydl.schedule.transform import Transform
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
    rows: Rows | None = None
    """How innermost loops become vector functions; None: they stay loops."""
    later: tuple[Transform, ...] = ()
    """What was done to the tree after it was made."""

    @property
    def name(self) -> str:
        return self.statements[0].name

    @property
    def transforms(self) -> tuple[Transform, ...]:
        """Those that lead from the statements as they are written to this, in the order of application."""
        return (self.how, *self.later)

    def after(self, transform: Transform, **changes: Any) -> Scheduled:
        """This with some fields changed, and the transform that changed them added to `transforms`."""
        return replace(self, later=(*self.later, transform), **changes)
