"""Footprints of pieces of programs, in cache lines and pages; a piece is a box of iterations of some statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from polydl.locality.boxes import BoxNest
from polydl.locality.contiguity import units_of
from polydl.rank.batches import box_accesses, layouts
from polydl.rank.plain import Work
from polydl.rank.ranker import FloatArray

Box = tuple[tuple[str, tuple[int, ...]], ...]
"""Per statement, in the order of the program: its name and the iterations of each of its loops that a piece runs, from
the first one on."""


@dataclass
class Footprints:
    """Those of statements; what was computed is kept, since variants of a program have many pieces in common."""

    works: Mapping[str, Work]
    nest: BoxNest = field(init=False)
    """The statements side by side, each with columns of its own for its loops."""
    _first: dict[str, int] = field(init=False)
    _known: dict[tuple[int, Box], FloatArray] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._first = {}
        names: list[str] = []
        extents: list[int] = []
        for name, work in self.works.items():
            self._first[name] = len(names)
            names += [f"{name}.{i}" for i in work.statement.iterators]
            extents += [int(r) for r in work.ranges]
        accesses = []
        for name, work in self.works.items():
            columns = {i: self._first[name] + d for d, i in enumerate(work.statement.iterators)}
            accesses += box_accesses(work.statement, work.counts, columns, len(names), hull=True) or []
        scop = next(iter(self.works.values())).scop
        arrays = dict.fromkeys(a.array for a in accesses)
        bytes_of = {a: scop.arrays[a].element.bytes for a in arrays}
        statements = [work.statement for work in self.works.values()]
        self.nest = BoxNest(tuple(names), tuple(extents), tuple(accesses), bytes_of, layouts(scop, statements, arrays))

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names, in the order of the columns of `touched`."""
        return self.nest.arrays

    def touched(self, boxes: Sequence[Box], unit: int) -> FloatArray:
        """(boxes, arrays): bytes of the units of so many bytes (lines, pages; 1: the elements) that boxes touch."""
        new: dict[tuple[str, ...], dict[Box, None]] = {}
        for box in boxes:
            if (unit, box) not in self._known:
                new.setdefault(tuple(name for name, _ in box), {})[box] = None
        for names, some in new.items():
            found = self._computed(names, list(some), unit)
            self._known |= {(unit, box): found[number] for number, box in enumerate(some)}
        return np.array([self._known[unit, box] for box in boxes])

    def _computed(self, names: Sequence[str], boxes: Sequence[Box], unit: int) -> FloatArray:
        high = np.zeros((len(boxes), len(self.nest.iterators)), dtype=np.int64)
        for number, box in enumerate(boxes):
            for name, ranges in box:
                first = self._first[name]
                high[number, first : first + len(ranges)] = [r - 1 for r in ranges]
        result = np.zeros((len(boxes), len(self.arrays)))
        for column, array in enumerate(self.arrays):
            functions = [a for a in self.nest.accesses if a.array == array and a.statement in names]
            functions = list({a.function: a for a in functions}.values())
            if functions:
                result[:, column] = units_of(self.nest, functions, high, unit)[0] * unit
        return result
