"""Where the values come from that are read of an array: from before the program, or from which of its instances."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.isl.trees import maps_of, union_map
from polydl.model.scop import BlackBox, Statement
from polydl.model.time import map_from_affs, original_affs


@dataclass(frozen=True, slots=True)
class LastWrites:
    """The sources of all reads of one array (Feautrier, "Dataflow analysis of array and scalar references", 1991)."""

    relations: tuple[isl.Map, ...]
    """{ W[j…] -> S[i…] } the instances that surely wrote last what an instance reads."""
    before: isl.UnionMap
    """{ S[i…] -> X[e…] } the reads that may find what was there before the program."""


def last_writes(statements: Sequence[Statement], array: str, context: isl.Set) -> LastWrites:
    """The sources of what the statements read of an array, for the parameters in a context { [] }. Exact: what data
    choose never surely replaces a value, and reads all that it may. Whoever asks has set a quota for isl."""
    depth = max((s.depth for s in statements), default=0)
    known = context.params()
    reads, writes, order = [], [], []
    for s in statements:
        own = [a for a in s.accesses if a.array == array]
        if own:
            order.append(map_from_affs(s.domain, original_affs(s, depth)))
        for access in own:
            relation = access.relation.intersect_domain(s.domain).intersect_params(known)
            if not access.write:
                reads.append(relation)
            elif access.exact and not isinstance(s.body, BlackBox):
                writes.append(relation)
    sinks = union_map(reads)
    found = isl.UnionAccessInfo.from_sink(sinks).set_must_source(union_map(writes))
    flow = found.set_schedule_map(union_map(order)).compute_flow()
    return LastWrites(tuple(maps_of(flow.get_must_dependence())), flow.get_must_no_source())
