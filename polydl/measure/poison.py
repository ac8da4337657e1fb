"""Arrays whose old contents nobody may read: they are filled with NaN before a candidate is verified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import islpy as isl
import numpy as np

from polydl.base.errors import QuotaExceeded
from polydl.model.isl import quota
from polydl.model.schedule import original_schedule
from polydl.model.scop import BlackBox, Scop

if TYPE_CHECKING:
    from polydl.measure.data import AnyArray, Buffer


def overwritten(scop: Scop) -> frozenset[str]:
    """Arrays that statements write, and of which none reads an element before one has written it.

    Elements that nothing writes keep what they hold. Code whose accesses are only bounds (BlackBox) counts as reading
    all that it touches; so does everything when isl needs too long.
    """
    if any(isinstance(s.body, BlackBox) for s in scop.statements):
        return frozenset()
    reads, writes = isl.UnionMap("{ }"), isl.UnionMap("{ }")
    for statement in scop.statements:
        for access in statement.accesses:
            relation = isl.UnionMap.from_map(access.relation)
            reads, writes = (reads, writes.union(relation)) if access.write else (reads.union(relation), writes)
    times = isl.UnionMap("{ }")
    for time in original_schedule(scop).values():
        times = times.union(isl.UnionMap.from_map(time))
    try:
        with quota("finding what is read before it is written"):
            info = isl.UnionAccessInfo.from_sink(reads).set_must_source(writes).set_schedule_map(times)
            unwritten = info.compute_flow().get_must_no_source()
    except QuotaExceeded:
        return frozenset()

    found = unwritten.range().get_set_list()
    read = {found.get_at(i).get_tuple_name() for i in range(found.n_set())}
    return frozenset(
        name
        for name, array in scop.arrays.items()
        if any(a.write and a.array == name for s in scop.statements for a in s.accesses) and name not in read
    )


def poisoned(inputs: Sequence[AnyArray], buffers: Sequence[Buffer]) -> list[AnyArray]:
    """The inputs with NaN in the floating-point arrays whose old contents nobody may read."""
    return [
        np.full_like(values, np.nan) if buffer.overwritten and buffer.dtype.kind in "fc" else values
        for values, buffer in zip(inputs, buffers, strict=True)
    ]


def marked(buffers: Sequence[Buffer], scop: Scop) -> tuple[Buffer, ...]:
    """The buffers, with those marked whose old contents nobody may read."""
    names = overwritten(scop)
    return tuple(replace(b, overwritten=b.array.name in names and b.fixed is None) for b in buffers)
