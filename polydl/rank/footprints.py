"""Footprints of pieces of programs, in cache lines and pages; a piece is a box of iterations of some statements."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property

import numpy as np

from polydl.base.errors import QuotaExceeded
from polydl.base.records import dataclass
from polydl.dependences.scalars import private_scalars
from polydl.kernels.innermost import RowOptions
from polydl.kernels.tree_rows import Inside, becomes_row
from polydl.locality.boxes import BoxAccess, BoxNest
from polydl.locality.contiguity import Images, images_of, units_of
from polydl.model import isl
from polydl.model.counting import count
from polydl.model.isl import quota
from polydl.model.scop import Scop, Statement
from polydl.model.time import map_from_affs
from polydl.rank.batches import box_accesses, layouts
from polydl.rank.plain import Work
from polydl.rank.ranker import FloatArray
from polydl.schedule.tree import Member

_OPERATIONS = 200_000
"""Of isl, for the iterations of a few loops."""
_BUDGET = 2_000


@dataclass(frozen=True, slots=True)
class Part:
    """What a piece runs of one statement: a box of iterations."""

    statement: str
    ranges: tuple[int, ...]
    """Iterations of each of its loops, from the first one on."""
    slanted: tuple[tuple[tuple[int, ...], int], ...] = ()
    """Where the loops of a schedule run slantwise: of each the step that it makes and its number of values. Both boxes,
    this and that of `ranges`, hold all of the piece. A loop with one value makes no step."""


Box = tuple[Part, ...]
"""One part per statement, in the order of the program."""


Steps = tuple[tuple[int, ...], ...]
"""Of each loop the step that it makes of a statement's iterators; empty: the loops are the iterators."""
Coordinates = Sequence[tuple[str, Steps]]
"""Per statement its name and the loops in which its iterations are counted."""


@dataclass
class Footprints:
    """Those of statements; what was computed is kept, since variants of a program have many pieces in common."""

    works: Mapping[str, Work]
    nest: BoxNest = field(init=False)
    """The statements side by side, each with columns of its own for its loops."""
    _first: dict[str, int] = field(init=False)
    _width: int = field(init=False)
    _functions: dict[tuple[str, Steps], Sequence[BoxAccess]] = field(init=False, default_factory=dict)
    _known: dict[tuple[int, Box], FloatArray] = field(init=False, default_factory=dict)
    _last: tuple[object, list[Images | None]] = field(init=False, default=(None, []))
    """What the pieces touch that were asked for last, per array: they are asked for in lines, then in pages."""
    _rows: dict[object, bool] = field(init=False, default_factory=dict)
    _turns: dict[object, float | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._first = {}
        names: list[str] = []
        extents: list[int] = []
        for name, work in self.works.items():
            self._first[name] = len(names)
            names += [f"{name}.{i}" for i in work.statement.iterators]
            extents += [int(r) for r in work.ranges]
        self._width = len(names)
        accesses = [access for name in self.works for access in self._accesses(name)]
        scop = self.scop
        arrays = dict.fromkeys(a.array for a in accesses)
        bytes_of = {a: scop.arrays[a].element.bytes for a in arrays}
        statements = [work.statement for work in self.works.values()]
        self.nest = BoxNest(tuple(names), tuple(extents), tuple(accesses), bytes_of, layouts(scop, statements, arrays))

    @property
    def scop(self) -> Scop:
        """The program of the statements."""
        return next(iter(self.works.values())).scop

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names, in the order of the columns of `touched`."""
        return self.nest.arrays

    def touched(self, boxes: Sequence[Box], unit: int) -> FloatArray:
        """(boxes, arrays): bytes of the units of so many bytes (lines, pages; 1: the elements) that boxes touch."""
        return self._units(boxes, unit)[:, 0] * unit

    def runs(self, boxes: Sequence[Box], unit: int) -> FloatArray:
        """(boxes, arrays): runs without a gap of a whole unit that they make."""
        return self._units(boxes, unit)[:, 1]

    def _units(self, boxes: Sequence[Box], unit: int) -> FloatArray:
        """(boxes, 2, arrays): units and runs."""
        new: dict[tuple[tuple[str, Steps], ...], dict[Box, None]] = {}
        for box in boxes:
            if (unit, box) not in self._known:
                new.setdefault(tuple((p.statement, tuple(s for s, _ in p.slanted)) for p in box), {})[box] = None
        for coordinates, some in new.items():
            ranges = [[part.ranges for part in box] for box in some]
            found = self._computed([(name, ()) for name, _ in coordinates], ranges, unit)
            if any(steps for _, steps in coordinates):
                values = [[tuple(v for _, v in part.slanted) or part.ranges for part in box] for box in some]
                other = self._computed(coordinates, values, unit)
                found = np.where(other[:, :1] < found[:, :1], other, found)
            self._known |= {(unit, box): found[number] for number, box in enumerate(some)}
        return np.array([self._known[unit, box] for box in boxes])

    def _computed(self, coordinates: Coordinates, boxes: Sequence[Sequence[tuple[int, ...]]], unit: int) -> FloatArray:
        """As `_units`, of boxes in coordinates of one kind."""
        asked = (coordinates, boxes)
        if self._last[0] != asked:
            self._last = (asked, self._touched(coordinates, boxes))
        result = np.zeros((len(boxes), 2, len(self.arrays)))
        for column, images in enumerate(self._last[1]):
            if images is not None:
                result[:, 0, column], _, result[:, 1, column] = units_of(self.nest, images, unit)
        return result

    def _touched(self, coordinates: Coordinates, boxes: Sequence[Sequence[tuple[int, ...]]]) -> list[Images | None]:
        """Per array what boxes in coordinates of one kind touch."""
        high = np.zeros((len(boxes), len(self.nest.iterators)), dtype=np.int64)
        for number, box in enumerate(boxes):
            for (name, _), lengths in zip(coordinates, box, strict=True):
                first = self._first[name]
                high[number, first : first + len(lengths)] = [length - 1 for length in lengths]
        accesses = [access for name, steps in coordinates for access in self._accesses(name, steps)]
        every = [list({a.function: a for a in accesses if a.array == array}.values()) for array in self.arrays]
        return [images_of(functions, high) if functions else None for functions in every]

    def _accesses(self, name: str, steps: Steps = ()) -> Sequence[BoxAccess]:
        """A statement's accesses as functions of its iterators, or of loops that make these steps."""
        if (name, steps) not in self._functions:
            work, first = self.works[name], self._first[name]
            columns = {i: first + d for d, i in enumerate(work.statement.iterators)}
            found = box_accesses(work.statement, work.counts, columns, self._width, hull=True, steps=steps)
            self._functions[name, steps] = found or []
        return self._functions[name, steps]

    def becomes_row(self, inside: Sequence[Inside], options: RowOptions) -> bool:
        """Whether an innermost loop with these statements becomes a row (`kernels.tree_rows`)."""
        texts = [
            tuple(member.text(one.statement.name) for member in loops)
            for one in inside
            for loops in (one.loops, one.written_out, () if one.inner is None else (one.inner,))
        ]
        key = tuple(one.statement.name for one in inside), tuple(texts), options
        if key not in self._rows:
            scop = self.works[inside[0].statement.name].scop
            self._rows[key] = becomes_row(scop, self._private, inside, options)
        return self._rows[key]

    def turns(self, several: Sequence[tuple[Statement, tuple[Member, ...]]]) -> float | None:
        """How many iterations of loops, which these statements share, any of them runs in; None where counting them
        takes too long."""
        key = tuple((statement.name, tuple(m.text(statement.name) for m in loops)) for statement, loops in several)
        if key not in self._turns:
            self._turns[key] = _counted(several)
        return self._turns[key]

    @cached_property
    def _private(self) -> frozenset[str]:
        """Scalars of which each thread may have its own."""
        return frozenset(name for work in self.works.values() for name in private_scalars(work.scop))


def _counted(several: Sequence[tuple[Statement, tuple[Member, ...]]]) -> float | None:
    """As `Footprints.turns`."""
    try:
        with quota("the iterations of shared loops", _OPERATIONS):
            ran = [
                map_from_affs(statement.domain, [m.affs[statement.name] for m in loops]).range()
                for statement, loops in several
            ]
            found = count(functools.reduce(isl.Set.union, ran), _OPERATIONS, _BUDGET)
    except QuotaExceeded:
        return None
    return float(found.value) if found.exact else None
