"""What a family of kernels is: functions that run a piece of a program, and what is known about them.

A family is one object in the table `kernels.families`, which is asked by whoever searches, estimates and writes C. The
proof asks nobody: it reads what stands above a function, and the function. There are four kinds of pieces, each with
its part of the table:

    innermost loops    `kernels.innermost.Innermost`     a row of columns: `kernels.rows`, and families for special ones
    two of them        `kernels.transposes.Rectangle`    squares that are transposed: `kernels.transposes`
    nests              `dependences.nests.Nest`          blocks of a contraction: `kernels.contraction_blocks`
    copies             `kernels.copy.CopyPiece`          an operand laid out anew: `kernels.copy`

A microkernel that the user calls by a pragma is in no family: its function is the user's, so that there is nothing to
choose, to lay out or to emit, and its meaning stands in the pragma.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from polydl.base.records import dataclass
from polydl.model.layout import Layout
from polydl.target.isa import Isa


@dataclass(frozen=True, slots=True)
class Cycles:
    """What a kernel takes in the core, all data in the first-level cache."""

    step: float
    """One step of its innermost work: a vector of columns of a row, one iteration of the reductions for all elements of
    the output of a contraction."""
    stores: float = 0.0
    """Once per whole block: its output loaded and stored."""
    drain: float = 0.0
    """Once per call: from its last result to what follows."""


class Function(Protocol):
    """A generated C function."""

    @property
    def name(self) -> str: ...

    @property
    def text(self) -> str:
        """C definitions, without what must stand before them; ends in a newline."""

    @property
    def signature(self) -> str:
        """Declarations of its parameters."""


Piece = TypeVar("Piece", contravariant=True)
Use = TypeVar("Use")
Shape = TypeVar("Shape")
Made = TypeVar("Made", bound=Function, covariant=True)


class Family(Protocol[Piece, Use, Shape, Made]):
    """Functions of one kind. `Use`: a piece that one of them can run, with the roles of its loops and operands.
    `Shape`: how much of it one call, or one step of the call, takes."""

    @property
    def name(self) -> str: ...

    def matches(self, piece: Piece) -> Sequence[Use]:
        """The ways in which functions of the family can run the piece, decided by its accesses and operations, never by
        names; empty: none. The first is the best where nothing else decides."""

    def shapes(self, use: Use, isa: Isa) -> Sequence[Shape]:
        """Shapes worth trying in an instruction set, most promising first."""

    def layouts(self, use: Use, shape: Shape) -> Mapping[str, Layout]:
        """By role, the operands that it cannot read where they are, with the layout of the copy that it needs."""

    def cycles(self, use: Use, shape: Shape, isa: Isa) -> Cycles:
        """What it takes in an instruction set."""

    def emit(self, use: Use, shape: Shape) -> Made:
        """The C function, for every instruction set at once: which of them it is the compiler says by its macros."""

    def meaning(self, use: Use, shape: Shape) -> str:
        """C statements, plain loops, that do the same as the function and could stand in its place: a body for its
        signature. What a call does is proved from it, and the function's body against it."""
