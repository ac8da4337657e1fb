"""Estimated seconds of a schedule: what decides which few of many are compiled and timed.

The model of `rank.traffic` (execution, caches and memory, each with the speed that the machine file gives) for trees
of any shape, from extents instead of exact footprints: the blocks that a loop's iterations touch are taken as boxes.
Every figure is an estimate; nothing but the order of candidates depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from polydl.model import isl
from polydl.model.contraction import affine_rows
from polydl.model.counting import count
from polydl.model.expr import Binary, Call, Conditional, Expr, operands
from polydl.model.scop import Assignment, Scop, Statement
from polydl.schedule.direction import direction, moves, unit_score
from polydl.schedule.relations import Links, after, span
from polydl.schedule.tree import Band, Blocks, Leaf, Member, Node, Order, Run, Step, kernels, paths
from polydl.target import CacheLevel, Machine

_UNKNOWN = 64
"""Iterations that a loop without constant bounds is taken to have."""

_SCALAR_RATE = 2.0
"""Simple arithmetic instructions, or loads, a core completes a cycle."""
_LOADS = 1.5
"""Of these a core completes for one arithmetic instruction."""
_LATENCY = 4.0
"""Cycles from an operand to the sum, where each iteration waits for the one before."""
_SLOW = {"/": 13.0, "%": 25.0}
"""Cycles of the operators that are not pipelined well."""
_KERNEL_SHARE = 0.7
"""Of the peak that a microkernel's calls reach on blocks in a cache."""
_CALL = 20.0
"""Cycles of a call of libm."""


@dataclass(frozen=True)
class Work:
    """A statement as the cost model sees it."""

    scop: Scop
    statement: Statement

    @cached_property
    def instances(self) -> float:
        """How often it runs."""
        found = count(self.statement.domain, budget=10_000)
        return (found.lower + found.upper) / 2

    @cached_property
    def operations(self) -> tuple[float, float]:
        """Simple instructions of one instance, and the cycles of its divisions and calls."""
        body = self.statement.body
        if not isinstance(body, Assignment):
            return 10.0, 0.0
        simple, slow = _operations(body.value)
        own = (0.0, _SLOW["/"]) if body.op == "/=" else (0.0 if body.op == "=" else 1.0, 0.0)
        return simple + own[0] + len(self.statement.accesses) / _LOADS, slow + own[1]

    @cached_property
    def ranges(self) -> tuple[float, ...]:
        """Number of values of each iterator."""
        return tuple(_range(self.statement.domain, d) for d in range(self.statement.depth))

    @cached_property
    def subscripts(self) -> tuple[tuple[str, tuple[Mapping[str, int], ...]], ...]:
        """Per access to an array its name and, per dimension, the coefficients of the iterators."""
        found = []
        for access in self.statement.accesses:
            rows = affine_rows(self.statement, access)
            if rows is not None and rows:
                found.append((access.array, tuple(row for row, _ in rows)))
        return tuple(found)


def _range(domain: isl.Set, d: int) -> float:
    low, high = isl.least(domain, d), isl.greatest(domain, d)
    return float(_UNKNOWN) if low is None or high is None else float(high - low + 1)


def _operations(value: Expr) -> tuple[float, float]:
    inside = [_operations(one) for one in operands(value)]
    simple, slow = sum(i[0] for i in inside), sum(i[1] for i in inside)
    match value:
        case Binary(op) if op in _SLOW:
            return simple, slow + _SLOW[op]
        case Binary() | Conditional():
            return simple + 1.0, slow
        case Call():
            return simple, slow + _CALL
        case _:
            return simple, slow


@dataclass(frozen=True)
class _Placed:
    """A statement with the loops above it."""

    work: Work
    path: tuple[Step, ...]

    @cached_property
    def loops(self) -> tuple[Member, ...]:
        return tuple(step for step in self.path if isinstance(step, Member))

    @cached_property
    def points(self) -> tuple[Member, ...]:
        """The loops that are not over tiles."""
        return tuple(m for m in self.loops if m.tile == 1)

    @cached_property
    def extents(self) -> Mapping[int, float]:
        """By identity of the underlying loop, its number of values."""
        name = self.work.statement.name
        found = {}
        for m in self.points:
            row = isl.coefficients(m.affs[name])
            reach = sum(abs(c) * (r - 1) for c, r in zip(row or (), self.work.ranges, strict=False))
            found[id(m.key)] = float(_UNKNOWN) if row is None else 1 + reach
        return found

    @cached_property
    def steps(self) -> tuple[Sequence[float] | None, ...]:
        """Per point loop the step of the iterators when it advances by one and the others stay."""
        depth, name = self.work.statement.depth, self.work.statement.name
        rows = [isl.coefficients(m.affs[name]) for m in self.points]
        known = [row if row is not None else [0] * depth for row in rows]
        found = [direction(known, v, depth) for v in range(len(known))]
        return tuple(None if f is None else [float(x) for x in f] for f in found)

    def inside(self, level: int) -> dict[int, float]:
        """Per underlying loop the number of values it takes while the outer `level` loops stay where they are."""
        inner = {id(m.key) for m in self.loops[level:] if m.tile == 1}
        found: dict[int, float] = {}
        for m in self.points:
            key = id(m.key)
            outer = [t.tile for t in self.loops[:level] if t.tile > 1 and id(t.key) == key]
            full = self.extents[key]
            found[key] = 1.0 if key not in inner else min(full, outer[-1]) if outer else full
        return found

    def footprint(self, level: int) -> dict[str, float]:
        """Bytes of each array that are touched while the outer `level` loops stay where they are."""
        extents = self.inside(level)
        ranges = [1.0] * self.work.statement.depth
        for m, step in zip(self.points, self.steps, strict=True):
            for i in range(len(ranges)):
                ranges[i] += abs(step[i]) * (extents[id(m.key)] - 1) if step is not None else 0.0
        ranges = [min(r, full) for r, full in zip(ranges, self.work.ranges, strict=True)]
        names = self.work.statement.iterators
        result: dict[str, float] = {}
        for array, rows in self.work.subscripts:
            size = float(self.work.scop.arrays[array].element.bytes)
            for place, row in enumerate(rows):
                values = 1 + sum(abs(row[n]) * (r - 1) for n, r in zip(names, ranges, strict=True))
                if place == len(rows) - 1:
                    size = max(size * values, 64.0)
                else:
                    size *= values
            result[array] = max(result.get(array, 0.0), size)
        return result

    def blocks(self, level: int) -> float:
        """How often the loops inside of the outer `level` ones are entered."""
        volume = 1.0
        for extent in self.inside(level).values():
            volume *= extent
        return max(1.0, self.work.instances / volume)


def seconds(scop: Scop, works: Mapping[str, Work], tree: Node, links: Links, machine: Machine, threads: int) -> float:
    """Estimated time of a tree."""
    placed = {name: _Placed(works[name], path) for name, path in paths(tree).items()}
    blocked = {kernel.statement: kernel for kernel, _, _ in kernels(tree)}
    total = 0.0
    for name, one in placed.items():
        shared = threads if any(m.run is Run.PARALLEL for m in one.loops) else 1
        core = machine.seconds(_core_cycles(scop, one, links, machine) * one.work.instances) / shared
        if name in blocked:
            whole = min(blocked[name].instances / max(one.work.instances, 1.0), 1.0)
            peak = machine.peak(blocked[name].element) * _KERNEL_SHARE
            core += whole * (2 * one.work.instances / peak / shared - core)
        moved = [
            _traffic(name, placed, cache.bytes / (max(1, min(shared, cache.shared_by_cores)))) / shared / speed
            for cache, speed in _levels(machine, shared)
        ]
        total += (core**2 + sum(t**2 for t in moved)) ** 0.5
    return total + _forks(tree, placed) * machine.parallel_region_us * 1e-6


def _levels(machine: Machine, threads: int) -> list[tuple[CacheLevel, float]]:
    """Each cache with the bytes per second into it."""
    result = []
    for i, cache in enumerate(machine.caches):
        last = i + 1 == len(machine.caches)
        below = machine.memory_bandwidth(threads) if last else machine.cache_bandwidth(machine.caches[i + 1], threads)
        result.append((cache, below))
    return result


def _core_cycles(scop: Scop, one: _Placed, links: Links, machine: Machine) -> float:
    """Cycles of one instance with all data in the first cache."""
    simple, slow = one.work.operations
    simple -= _kept(scop, one) / _LOADS
    own = 1.0
    loops = [m for m in one.loops if not m.unroll]
    inner = loops[-1] if loops else None
    name = one.work.statement.name
    if inner is None:
        return simple / _SCALAR_RATE + slow
    score = 0.0
    if inner.tile == 1 and inner in one.points:
        rows = [m.affs[name] for m in one.points]
        score = unit_score(scop, one.work.statement, rows, one.points.index(inner))
    if inner.run in (Run.SIMD, Run.SUM):
        widest = max((scop.arrays[array].element.bytes for array, _ in one.work.subscripts), default=8)
        lanes = machine.simd.vector_bytes / 2 / widest
        own = 1 + (lanes - 1) * max(0.0, score - 0.3) / 0.7
        trips = one.inside(len(loops) - 1)[id(inner.key)]
        return (simple / _SCALAR_RATE + slow / 2) / own + 10.0 / max(trips, 1.0)
    own_links = tuple(link for link in links if link.source == name and link.target == name)
    waits = any(span(link, inner) != (0, 0) for link in after(own_links, loops[:-1]))
    if not waits:
        return simple / _SCALAR_RATE + slow / 2
    return max(simple / _SCALAR_RATE + slow, _LATENCY + slow) + 3.0 * (1 - score)


def _kept(scop: Scop, one: _Placed) -> float:
    """Loads and stores of one instance that loops written out save: what does not move along one stays in registers."""
    unrolled = [m for m in one.loops if m.unroll]
    if not unrolled:
        return 0.0
    name, statement = one.work.statement.name, one.work.statement
    extents = one.inside(len(one.loops) - len(unrolled))
    rows = [m.affs[name] for m in one.points]
    saved = 0.0
    for access in statement.accesses:
        share = 1.0
        for m in unrolled:
            if m in one.points and moves(scop, statement, access, rows, one.points.index(m)) == 0:
                share /= max(extents[id(m.key)], 1.0)
        saved += 1.0 - share
    return saved


def _traffic(name: str, placed: Mapping[str, _Placed], capacity: float) -> float:
    """Bytes that a statement moves into a cache of which it has `capacity` bytes; its share of what it touches
    together with others."""
    one = placed[name]
    for level in range(len(one.loops) + 1):
        if _together(name, placed, level)[0] * 2 > capacity and level < len(one.loops):
            continue
        # A block fits: what the loop around it comes back to is still there.
        outer = max(level - 1, 0)
        size, count_of = _together(name, placed, outer)
        return size * one.blocks(outer) / count_of
    return 0.0


def _together(name: str, placed: Mapping[str, _Placed], level: int) -> tuple[float, int]:
    """Bytes touched by all the statements that share the outer `level` loops, and their number."""
    one = placed[name]
    head = one.loops[:level]
    arrays: dict[str, float] = {}
    number = 0
    for other in placed.values():
        if len(other.loops) >= level and all(a.key is b.key for a, b in zip(head, other.loops, strict=False)):
            if level == 0 and other is not one:
                continue
            number += 1
            for array, size in other.footprint(level).items():
                arrays[array] = max(arrays.get(array, 0.0), size)
    return sum(arrays.values()), max(number, 1)


def _forks(tree: Node, placed: Mapping[str, _Placed], outside: float = 1.0) -> float:
    """How often threads are started."""
    match tree:
        case Leaf():
            return 0.0
        case Blocks(child, _):
            return _forks(child, placed, outside)
        case Order(children):
            return sum(_forks(child, placed, outside) for child in children)
        case Band(members, child):
            for m in members:
                name = next(iter(m.affs))
                if m.run is Run.PARALLEL:
                    return outside
                full = max(p.extents.get(id(m.key), 1.0) for n, p in placed.items() if n in m.affs or n == name)
                outside *= max(1.0, full / m.tile)
            return _forks(child, placed, outside)
