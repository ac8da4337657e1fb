"""A nest with transforms applied to it, in short: its loops, outermost first, and how they came about.

Thousands of them are made and compared in a search. What one stands for is its tree (`schedule.as_tree`): that is
checked, estimated and written. What is asked of the short form instead, because it is quicker, is held equal to what
the tree says: legality by direction vectors (`schedule.quick_legality`) to the exact check, estimates in batches
(`rank.traffic`) to those of trees.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from polydl.dependences.nests import Nest
from polydl.schedule.as_tree import as_tree
from polydl.schedule.loops import Loop, NestLoops, Rows
from polydl.schedule.transform import Transform
from polydl.schedule.tree import Node

RegisterBlocks = Callable[[Nest], Sequence[tuple[str | None, str, int, int] | tuple[str | None, str, int, int, str]]]
"""(rows loop, columns loop, m, n) worth trying for a contraction, most promising first; where it is not that of the
types, then the inner product (`Microkernel.product`)."""


@dataclass(frozen=True, slots=True)
class Structure(NestLoops):
    """A nest with transforms applied to it: its loops, and how they came about."""

    barriers: tuple[str, ...] = ()
    """See `Parallelize.barriers`."""
    fused: str = ""
    """Name of the nest that this one runs inside of (see `Fuse`); empty: it runs by itself."""
    rows: Rows | None = None
    """How innermost loops become vector functions; None: they stay loops."""
    transforms: tuple[Transform, ...] = field(default=(), compare=False)
    """The transforms that lead from the nest as it is written to this structure, in the order of application."""

    how: ClassVar[None] = None
    """It has no order of its own, as regions have (`schedule.plan`)."""

    @property
    def tree(self) -> Node:
        """The tree that runs its statements in this order, without rows and what is fused."""
        return as_tree(self.use)

    @property
    def family(self) -> tuple[object, ...]:
        """What it has in common with structures that differ in the tiles and the order of outer loops only."""
        kernel = self.kernel and (tuple(loop.iterator for loop in self.inner), self.kernel.m, self.kernel.n)
        parallel = {loop.iterator for loop in self.loops if loop.name in self.parallel}
        reduced = {loop.iterator for loop in self.kernel.reductions} if self.kernel is not None else set()
        innermost = [loop.iterator for loop in self.loops if loop.iterator not in reduced][-1:]
        packed = frozenset(pack.operand for pack in self.packs)
        return self.fused, self.rows, kernel, tuple(innermost), frozenset(parallel), packed

    @property
    def described(self) -> str:
        """The loops in one line: `j/32* pack(B) k.0/256 i/12 | i.mk j.mk k.1`; * is parallel, / a step."""
        if self.fused:
            return f"in {self.fused}"
        words = []
        for loop in self.loops:
            word = f"{loop.name}/{loop.step}" if loop.step > 1 else loop.name
            words.append(f"{word}*" if loop.name in self.parallel else word)
        for pack in sorted(self.packs, key=self.pack_depth, reverse=True):
            words.insert(self.pack_depth(pack), f"pack({pack.operand})")
        inside = " ".join(loop.name for loop in self.inner)
        rows = " vectors" if self.rows else ""
        return " ".join(words) + rows + (f" | {inside}" if inside else "")

    @property
    def use(self) -> NestLoops:
        """The loops without how they came about."""
        return NestLoops(
            self.nest, self.loops, self.parallel, self.kernel, self.packs, self.grid, self.summed, self.omp_schedule
        )

    def after(self, transform: Transform, **changes: Any) -> Structure:
        """This with some fields changed, and the transform that changed them added to `transforms`."""
        return replace(self, transforms=(*self.transforms, transform), **changes)


def start(nest: Nest) -> Structure:
    """The nest as it is written."""
    return Structure(nest, tuple(Loop(i, i, 1, None) for i in nest.loops))


OMP_SCHEDULE = re.compile(r"(?:(?:static|dynamic|guided)(?:,[1-9][0-9]*)?|auto|runtime)")
"""What may stand in OpenMP's schedule clause (white space left out)."""


def apply(nest: Nest, transforms: Sequence[Transform]) -> Structure:
    """The structure that the transforms make of a nest, in their order. Raises InputError (see `Transform.applied`)."""
    structure = start(nest)
    for transform in transforms:
        structure = transform.applied(structure)
    return structure
