"""A part of a scop with a schedule of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from polydl.model.scop import Statement
from polydl.schedule.loops import Rows
from polydl.schedule.structure import Structure
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

    fused: ClassVar[str] = ""
    """It is inside of no other nest."""
    nest: ClassVar[None] = None
    kernel: ClassVar[None] = None
    """Its microkernels are those of its tree."""
    summed: ClassVar[str] = ""

    @property
    def name(self) -> str:
        return self.statements[0].name

    @property
    def family(self) -> tuple[object, ...]:
        """What it has in common with others that differ in the sizes of tiles only."""
        return self.how.base.removesuffix("-renamed"), bool(self.how.block), self.how.unroll, self.rows

    @property
    def described(self) -> str:
        """Its order, for people."""
        return f"{self.name}…: {self.how.described}{', rows of vectors' if self.rows else ''}"

    @property
    def transforms(self) -> tuple[Transform, ...]:
        """Those that lead from the statements as they are written to this, in the order of application."""
        return (self.how, *self.later)

    def after(self, transform: Transform, **changes: Any) -> Scheduled:
        """This with some fields changed, and the transform that changed them added to `transforms`."""
        return replace(self, later=(*self.later, transform), **changes)


Part = Structure | Scheduled
"""One part of a program, with its schedule."""
