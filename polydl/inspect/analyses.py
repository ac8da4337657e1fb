"""What `polydl analyze` shows: a scop with its dependences, parallel loops, nests and working sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polydl.base.records import dataclass
from polydl.dependences.analysis import Dependence, dependences
from polydl.dependences.flow import Flow, flow
from polydl.dependences.nests import nests
from polydl.locality.assign import level_of
from polydl.locality.exact import WorkingSet
from polydl.locality.exact import working_sets as exact_working_sets
from polydl.locality.symbolic import SymbolicWorkingSet
from polydl.locality.symbolic import working_sets as symbolic_working_sets
from polydl.model.counting import Count
from polydl.model.scop import Array, Scop
from polydl.model.time import original_schedule
from polydl.model.touched import asked as asked_of
from polydl.schedule.timed import original_nest
from polydl.target import Machine


@dataclass(frozen=True, slots=True)
class Analysis:
    """A scop and what is known about it."""

    scop: Scop
    dependences: tuple[Dependence, ...]
    parallel_loops: tuple[str, ...]
    """Loops that carry no dependence (but RAR), outermost first, as `i`, or `S1.i` where statements differ."""
    working_sets: tuple[WorkingSet, ...] | tuple[SymbolicWorkingSet, ...]
    flow: Flow
    """The nests in which the scop is transformed, and what flows between them."""
    machine: Machine

    def to_data(self) -> dict[str, Any]:
        """The entry of this scop in the document of `polydl analyze --json`: sets and maps as isl text, sizes in
        elements, symbolic ones as text in the parameters."""
        scop = self.scop
        times = original_schedule(scop)
        return {
            "function": scop.function,
            "file": str(scop.source.path),
            "line": scop.span.line,
            "parameters": list(scop.parameters),
            "sizes": dict(scop.sizes),
            "context": str(scop.context),
            "arrays": [_array(a) for a in scop.arrays.values()],
            "statements": [
                {
                    "name": s.name,
                    "domain": str(s.domain),
                    "schedule": str(times[s.name]),
                    "reads": [str(a.relation) for a in s.accesses if not a.write],
                    "writes": [str(a.relation) for a in s.accesses if a.write],
                }
                for s in scop.statements
            ],
            "dependences": [
                {
                    "kind": d.kind.value,
                    "array": d.array,
                    "source": d.source,
                    "target": d.target,
                    "map": str(d.relation),
                    "carried_by": d.carried_by,
                    "reduction": d.reduction,
                }
                for d in self.dependences
            ],
            "parallel_loops": list(self.parallel_loops),
            "nests": [
                {"name": n.name, "statements": [s.name for s in n.statements], "loops": list(n.loops)}
                for n in self.flow.nests
            ],
            "flow": [edge.to_data() for edge in self.flow.edges],
            "working_sets": [self._working_set(w) for w in self.working_sets],
            "asked": list(asked_of(scop)),
            "assumptions": list(scop.assumptions),
        }

    def _working_set(self, found: WorkingSet | SymbolicWorkingSet) -> dict[str, Any]:
        common = {"kind": found.kind.value, "array": found.array, "carried_by": found.carried_by}
        if isinstance(found, SymbolicWorkingSet):
            low, high = (None if x is None else str(x) for x in (found.min, found.max))
            return {**common, "min": low, "max": high, "level_min": None, "level_max": None}
        return {
            **common,
            "min": _count(found.min),
            "max": _count(found.max),
            "level_min": self._level(found.min_footprint.bytes),
            "level_max": self._level(found.max_footprint.bytes),
        }

    def _level(self, size: Count) -> str:
        index = level_of(size, self.machine)
        return "memory" if index is None else f"L{self.machine.caches[index].level}"


def _array(array: Array) -> dict[str, Any]:
    return {
        "name": array.name,
        "type": array.element.c,
        "extents": [None if e is None else str(e) for e in array.extents],
        "storage": array.storage.value,
        "restrict": array.restrict,
    }


def _count(count: Count) -> int | dict[str, int | None]:
    if count.exact:
        return count.lower
    return {"at_least": count.lower, "at_most": count.upper}


def parallel_loops(scop: Scop, found: Sequence[Dependence]) -> tuple[str, ...]:
    """The loops of a scop that carry no dependence other than RAR."""
    carried = {
        (scop.statement(d.source).position[: d.depth + 1])
        for d in found
        if d.depth is not None and d.kind.value != "RAR"
    }
    names: dict[tuple[int, ...], str] = {}
    for statement in scop.statements:
        for depth, iterator in enumerate(statement.iterators):
            names.setdefault(statement.position[: depth + 1], iterator)
    repeated = {n for n in names.values() if list(names.values()).count(n) > 1}
    result = []
    for place, name in names.items():
        if place not in carried:
            first = next(s for s in scop.statements if s.position[: len(place)] == place)
            result.append(f"{first.name}.{name}" if name in repeated else name)
    return tuple(result)


def analyze(scop: Scop, machine: Machine) -> Analysis:
    """Dependences, parallel loops, nests and their flow, and working sets of a scop in its original order.

    Working sets are numbers when all sizes are known, else expressions in the parameters. Raises QuotaExceeded.
    """
    found = dependences(scop)
    nest = original_nest(scop)
    sets = symbolic_working_sets(nest) if scop.parameters else exact_working_sets(nest)
    between = flow(scop, nests(scop, found), found)
    return Analysis(scop, found, parallel_loops(scop, found), sets, between, machine)
