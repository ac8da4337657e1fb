"""Strides of a schedule's loops: how far each access moves per iteration, and how well it would run in vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.linear_equations import solved
from polydl.model.scop import Scop, Statement
from polydl.model.strides import known_strides


@lru_cache(maxsize=4096)
def direction(rows: tuple[tuple[int, ...], ...], v: int, depth: int) -> tuple[Fraction, ...] | None:
    """The step in the iteration space that changes the value of row `v` by one and of no other row; None when the rows
    do not determine it (fewer rows than iterators, or dependent ones)."""
    found = solved(([*map(Fraction, row), Fraction(int(i == v))] for i, row in enumerate(rows)), depth)
    return tuple(found[i] for i in range(depth)) if found is not None and len(found) == depth else None


@dataclass(frozen=True)
class Moving:
    """A statement whose accesses move: what is asked again for each schedule is kept."""

    scop: Scop
    statement: Statement

    @cached_property
    def strides(self) -> tuple[dict[str, int] | None, ...]:
        """Per access the elements by which each iterator moves it; None where that is not one known constant."""
        return tuple(known_strides(self.scop, self.statement, access) for access in self.statement.accesses)

    @cached_property
    def _stored(self) -> tuple[bool, ...]:
        """Per access whether its array has elements, not just one value."""
        return tuple(not self.scop.arrays[access.array].is_scalar for access in self.statement.accesses)

    def moves(self, affs: Sequence[isl.Aff], v: int) -> tuple[Fraction | None, ...]:
        """Per access the elements by which it moves when loop `v` advances by one and the others stay; None: unknown.
        `affs`: the loops, outermost first."""
        rows = [isl.coefficients(aff) for aff in affs]
        affine = tuple(row for row in rows if row is not None)
        step = direction(affine, v, self.statement.depth) if len(affine) == len(rows) else None
        if step is None:
            return (None,) * len(self.strides)
        parts = [(name, s) for name, s in zip(self.statement.iterators, step, strict=True) if s]
        return tuple(
            None if strides is None else sum((s * strides[name] for name, s in parts), Fraction(0))
            for strides in self.strides
        )

    def is_shared(self, affs: Sequence[isl.Aff], v: int) -> bool:
        """Whether the iterations of a loop access the same element of some array."""
        return any(stored and moved == 0 for stored, moved in zip(self._stored, self.moves(affs, v), strict=True))

    def unit_score(self, affs: Sequence[isl.Aff], v: int) -> float:
        """How well it runs in vectors along a loop: the mean over its accesses of 1 (unit stride), or less (no move; a
        store that does not move counts as bad), and a fraction of that where any of them jumps. 0 when nothing is
        known."""
        scores = []
        jumps = False
        for access, stored, moved in zip(self.statement.accesses, self._stored, self.moves(affs, v), strict=True):
            if not stored:
                continue
            if moved is None or abs(moved) > _NEAR:
                jumps = True
                scores.append(0.0)
            else:
                scores.append(1.0 if moved == 1 else (0.1 if access.write else 0.9) if moved == 0 else 0.3)
        if not scores:
            return 1.0
        return sum(scores) / len(scores) * (_STRIDED if jumps else 1.0)


def moving(scop: Scop, statements: Iterable[Statement]) -> Mapping[str, Moving]:
    """Statements by their names."""
    return {s.name: Moving(scop, s) for s in statements}


_STRIDED = 0.15
"""What is left of the speed of vectors where an access jumps from line to line."""

_NEAR = 4
"""Elements of a step after which a vector is still put together from neighbouring ones."""
