"""Finds arrays whose old contents the region never reads; they are filled with NaN before a candidate is verified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from polydl.base.errors import QuotaExceeded
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.isl.trees import sets_of, union_map
from polydl.model.scop import BlackBox, Scop
from polydl.model.time import original_schedule

if TYPE_CHECKING:
    from polydl.measure.input_data import AnyArray, Buffer


def overwritten(scop: Scop) -> frozenset[str]:
    """The arrays that statements write, and of which no element is read before it is written.

    Code whose accesses are only bounds (BlackBox) counts as reading all that it touches, and so does all code when isl
    exceeds its quota.
    """
    if any(isinstance(s.body, BlackBox) for s in scop.statements):
        return frozenset()
    accesses = [access for statement in scop.statements for access in statement.accesses]
    reads = union_map(a.relation for a in accesses if not a.write)
    writes = union_map(a.relation for a in accesses if a.write)
    times = union_map(original_schedule(scop).values())
    try:
        with quota("finding what is read before it is written"):
            info = isl.UnionAccessInfo.from_sink(reads).set_must_source(writes).set_schedule_map(times)
            unwritten = info.compute_flow().get_must_no_source()
    except QuotaExceeded:
        return frozenset()

    read = {elements.get_tuple_name() for elements in sets_of(unwritten.range())}
    return frozenset(
        name
        for name, array in scop.arrays.items()
        if any(a.write and a.array == name for s in scop.statements for a in s.accesses) and name not in read
    )


def poisoned(inputs: Sequence[AnyArray], buffers: Sequence[Buffer]) -> list[AnyArray]:
    """The inputs, with NaN in the floating-point arrays that are overwritten before they are read."""
    return [
        buffer.stored(np.full(values.shape, np.nan)) if buffer.overwritten and buffer.element.rounds else values
        for values, buffer in zip(inputs, buffers, strict=True)
    ]


def with_overwritten(buffers: Sequence[Buffer], scop: Scop) -> tuple[Buffer, ...]:
    """The buffers, with `overwritten` set for the arrays that are overwritten before they are read."""
    names = overwritten(scop)
    return tuple(replace(b, overwritten=b.array.name in names and b.fixed is None and not b.parts) for b in buffers)
