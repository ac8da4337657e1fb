"""Dependences, working sets and counts of a recorded execution, by enumeration.

Everything here is memory-based: a pair relates every access of an element to every later one, not only to the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from tests.oracle.interpret import Element, Instance, Trace

KINDS = ("RAW", "WAR", "WAW", "RAR")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two accesses of one element, the source executed before the target, by different statement instances."""

    kind: str
    """RAW (the source writes, the target reads), WAR, WAW or RAR."""
    array: str
    source: tuple[int, int]
    """(statement, access): accesses are numbered reads first, in evaluation order, then the write."""
    target: tuple[int, int]
    depth: int | None
    """0-based depth of the loop that carries it: the outermost shared loop whose variable differs. None when no
    loop does: both instances stand in the same iteration of every shared loop."""
    source_iterators: tuple[int, ...]
    target_iterators: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Carried:
    """What a working set belongs to: an access pair and the loop that carries it (fields as in `Pair`)."""

    kind: str
    array: str
    source: tuple[int, int]
    target: tuple[int, int]
    depth: int | None


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """Distinct elements touched from the first source up to its first and its last target."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class _Touch:
    time: int
    instance: Instance
    access: int
    write: bool


def shared_loops(a: Instance, b: Instance) -> int:
    """Number of loops around both."""
    count = 0
    for x, y in zip(a.loops, b.loops, strict=False):
        if x != y:
            break
        count += 1
    return count


def carrying_depth(source: Instance, target: Instance) -> int | None:
    """Depth of the outermost shared loop whose variable differs, or None."""
    for depth in range(shared_loops(source, target)):
        if source.iterators[depth] != target.iterators[depth]:
            return depth
    return None


def _timed_pairs(trace: Trace, kinds: Collection[str]) -> Iterator[tuple[Pair, int, int]]:
    """(pair, time of its source, time of its target), time being the index into `trace.instances`."""
    touches: dict[Element, list[_Touch]] = defaultdict(list)
    for time, instance in enumerate(trace.instances):
        for access, element in enumerate(instance.touched):
            touches[element].append(_Touch(time, instance, access, access == len(instance.reads)))
    for (array, _), of_element in touches.items():
        for position, source in enumerate(of_element):
            for target in of_element[position + 1 :]:
                kind = ("W" if target.write else "R") + "A" + ("W" if source.write else "R")
                if target.time == source.time or kind not in kinds:
                    continue
                pair = Pair(
                    kind,
                    array,
                    (source.instance.statement, source.access),
                    (target.instance.statement, target.access),
                    carrying_depth(source.instance, target.instance),
                    source.instance.iterators,
                    target.instance.iterators,
                )
                yield pair, source.time, target.time


def dependences(trace: Trace, kinds: Collection[str] = KINDS) -> set[Pair]:
    """Every pair of the given kinds. Accesses of one and the same statement instance make no pair."""
    return {pair for pair, _, _ in _timed_pairs(trace, kinds)}


def parallel_loops(trace: Trace) -> set[int]:
    """Textual numbers of the loops (among those executed) that carry no RAW, WAR or WAW pair."""
    loops = {loop for instance in trace.instances for loop in instance.loops}
    for pair, source, _ in _timed_pairs(trace, ("RAW", "WAR", "WAW")):
        if pair.depth is not None:
            loops.discard(trace.instances[source].loops[pair.depth])
    return loops


def distinct_elements(instances: Iterable[Instance], array: str | None = None) -> int:
    """Number of distinct elements (of one array) that the instances touch."""
    return len({e for instance in instances for e in instance.touched if array is None or e[0] == array})


def footprint(trace: Trace, loop: int, outer: tuple[int, ...]) -> int:
    """Distinct elements touched by the whole of a loop (textual number) for fixed values of the loops around it."""
    return distinct_elements(
        i for i in trace.instances if loop in i.loops and i.iterators[: i.loops.index(loop)] == outer
    )


def points(trace: Trace, statement: int) -> list[tuple[int, ...]]:
    """Iteration vectors of a statement in execution order."""
    return [i.iterators for i in trace.instances if i.statement == statement]


def working_sets(
    trace: Trace, kinds: Collection[str] = KINDS, parallel: Collection[int] = ()
) -> dict[Carried, WorkingSet]:
    """Working set sizes in elements, per access pair and carrying loop (PolyDL, algorithms 1 and 2).

    The source is the first instance, in execution order, that is a source of such a pair; the minimum is the number
    of distinct elements that all instances from it to its first target touch, both ends included, the maximum the
    same up to its last target. A pair carried by a loop in `parallel` (textual numbers) takes, for both, the
    footprint of that whole loop with the loops around it fixed as they are for the source.
    """
    first: dict[Carried, tuple[int, int, int]] = {}
    for pair, source, target in _timed_pairs(trace, kinds):
        key = Carried(pair.kind, pair.array, pair.source, pair.target, pair.depth)
        known = first.get(key)
        if known is None or source < known[0]:
            first[key] = (source, target, target)
        elif source == known[0]:
            first[key] = (source, min(known[1], target), max(known[2], target))
    sizes: dict[Carried, WorkingSet] = {}
    for key, (source, nearest, farthest) in first.items():
        instance = trace.instances[source]
        if key.depth is not None and instance.loops[key.depth] in parallel:
            size = footprint(trace, instance.loops[key.depth], instance.iterators[: key.depth])
            sizes[key] = WorkingSet(size, size)
        else:
            sizes[key] = WorkingSet(
                distinct_elements(trace.instances[source : nearest + 1]),
                distinct_elements(trace.instances[source : farthest + 1]),
            )
    return sizes
