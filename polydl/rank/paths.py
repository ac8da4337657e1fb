"""The loops above a statement in a schedule tree, as they cut its iterations into pieces."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.rank.footprints import Part
from polydl.rank.plain import UNKNOWN, Work
from polydl.schedule.direction import direction
from polydl.schedule.tree import Member


@dataclass(frozen=True)
class Path:
    """A statement with the loops above it. Iterations are counted as its own loops count them, in steps of one."""

    work: Work
    loops: tuple[Member, ...]
    """Outermost first."""
    _values: dict[int, Mapping[int, float]] = field(default_factory=dict, init=False, repr=False)
    """What `values` found, by level."""
    _ranges: dict[int, tuple[int, ...]] = field(default_factory=dict, init=False, repr=False)
    """What `ranges` found, by level."""

    @cached_property
    def points(self) -> tuple[Member, ...]:
        """The loops that are not over tiles."""
        return tuple(m for m in self.loops if m.tile == 1)

    @cached_property
    def _rows(self) -> Mapping[int, tuple[list[int], int] | None]:
        """By identity of the underlying loop its coefficients of the counted iterators, divided by what they have in
        common, and that; None for an expression with divisions."""
        statement = self.work.statement
        steps = [self.work.counts[i].stride * (-1 if i in statement.descending else 1) for i in statement.iterators]
        found: dict[int, tuple[list[int], int] | None] = {}
        for m in self.points:
            row = isl.coefficients((m.whole or m.affs)[statement.name])
            if row is None:
                found[id(m.key)] = None
                continue
            counted = [c * s for c, s in zip(row, steps, strict=True)]
            common = math.gcd(*counted) or 1
            found[id(m.key)] = [c // common for c in counted], common
        return found

    @cached_property
    def extents(self) -> Mapping[int, float]:
        """By identity of the underlying loop, its number of values."""
        found = {}
        for key, row in self._rows.items():
            reach = sum(abs(c) * (r - 1) for c, r in zip(row[0] if row else (), self.work.ranges, strict=False))
            found[key] = float(UNKNOWN) if row is None else 1 + reach
        return found

    @cached_property
    def steps(self) -> Mapping[int, tuple[float, ...] | None]:
        """By identity of the underlying loop the step of the counted iterators when it advances by one value and the
        other loops stay; None where the loops do not say."""
        depth = self.work.statement.depth
        rows = [row[0] if row is not None else [0] * depth for row in self._rows.values()]
        units = [row.index(1) if sorted(row) == [0] * (depth - 1) + [1] else -1 for row in rows]
        if len(rows) == depth and sorted(units) == list(range(depth)):
            return {
                key: tuple(float(d == unit) for d in range(depth)) for key, unit in zip(self._rows, units, strict=True)
            }
        found = (direction(tuple(map(tuple, rows)), v, depth) for v in range(len(rows)))
        return {
            key: None if f is None else tuple(float(x) for x in f) for key, f in zip(self._rows, found, strict=True)
        }

    @cached_property
    def _tiles(self) -> Mapping[int, tuple[int, list[tuple[int, float]]]]:
        """By identity of the underlying loop, the place of the loop that is not over tiles, and of each loop over tiles
        its place and the values that a tile holds."""
        found: dict[int, tuple[int, list[tuple[int, float]]]] = {}
        for key, row in self._rows.items():
            common = row[1] if row is not None else 1
            own = [(place, m) for place, m in enumerate(self.loops) if id(m.key) == key]
            tiles = [(place, max(1.0, m.tile / common)) for place, m in own if m.tile > 1]
            found[key] = max(place for place, m in own if m.tile == 1), tiles
        return found

    def values(self, level: int) -> Mapping[int, float]:
        """By identity of the underlying loop the values it takes while the outer `level` loops stay where they are."""
        if level not in self._values:
            found: dict[int, float] = {}
            for key, full in self.extents.items():
                place, tiles = self._tiles[key]
                outer = [size for at, size in tiles if at < level]
                found[key] = 1.0 if place < level else min(full, outer[-1]) if outer else full
            self._values[level] = found
        return self._values[level]

    def ranges(self, level: int) -> tuple[int, ...]:
        """Iterations of each of the statement's loops while the outer `level` loops stay where they are."""
        if level not in self._ranges:
            ranges = [1.0] * self.work.statement.depth
            for key, value in self.values(level).items():
                step = self.steps[key]
                if step is not None and value != 1.0:
                    for i, by in enumerate(step):
                        ranges[i] += abs(by) * (value - 1)
            self._ranges[level] = tuple(round(min(r, full)) for r, full in zip(ranges, self.work.ranges, strict=True))
        return self._ranges[level]

    @cached_property
    def _slanted(self) -> bool:
        """Whether the loops are as many as the statement's own, make whole steps, and not each along one of them."""
        depth = self.work.statement.depth
        known = [step for step in self.steps.values() if step is not None and all(x == int(x) for x in step)]
        return len(self.steps) == len(known) == depth and any(sum(x != 0 for x in step) > 1 for step in known)

    def part(self, level: int) -> Part:
        """What runs of the statement while the outer `level` loops stay where they are."""
        slanted: tuple[tuple[tuple[int, ...], int], ...] = ()
        if self._slanted:
            values = self.values(level)
            still = (0,) * self.work.statement.depth
            slanted = tuple(
                (tuple(int(x) for x in step) if values[key] > 1 else still, round(values[key]))
                for key, step in self.steps.items()
                if step is not None
            )
        return Part(self.work.statement.name, self.ranges(level), slanted)

    def entries(self, level: int) -> float:
        """How often what is inside of the outer `level` loops is entered, were it full each time."""
        return max(1.0, self.work.instances / math.prod(self.values(level).values()))

    def step(self, loop: Member) -> tuple[float, ...] | None:
        """By how much the iterators move from one iteration of a loop to the next; None where that is not known."""
        found, row = self.steps.get(id(loop.key)), self._rows.get(id(loop.key))
        if found is None or row is None:
            return None
        by = max(1.0, loop.tile / row[1])
        statement = self.work.statement
        signs = [-1 if i in statement.descending else 1 for i in statement.iterators]
        strides = [self.work.counts[i].stride for i in statement.iterators]
        return tuple(s * by * sign * stride for s, sign, stride in zip(found, signs, strides, strict=True))

    def shares(self, written_out: Sequence[Member], level: int) -> tuple[float, ...]:
        """Per access the part of its loads and stores that is left when the loops `written_out`, those inside of the
        outer `level` ones, are: what does not move along one of them stays in a register."""
        values = self.values(level)
        found = []
        for moved in zip(*(self.work.moves(self.step(m)) for m in written_out), strict=True):
            still = (values[id(m.key)] for m, by in zip(written_out, moved, strict=True) if by == 0)
            found.append(1.0 / max(math.prod(still), 1.0))
        return tuple(found) if written_out else (1.0,) * len(self.work.statement.accesses)
