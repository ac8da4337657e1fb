"""Pages that miss the TLB, against counting them one by one."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from itertools import product

import pytest

from polydl.locality.boxes import BoxAccess, BoxNest, LoopBatch
from polydl.locality.contiguity import unit_footprints
from polydl.model.layout import row_major
from polydl.rank.pages import page_misses
from polydl.rank.traffic import TrafficRanker
from tests.rank.test_cost import CASES, SMALL, structures

PAGE = 4096


def simulated(nest: BoxNest, order: list[int], entries: int) -> int:
    """Misses of a fully associative LRU TLB, arrays far apart."""
    kept: OrderedDict[tuple[str, int], None] = OrderedDict()
    misses = 0
    for point in product(*(range(nest.extents[i]) for i in order)):
        at = dict(zip(order, point, strict=True))
        for access in nest.accesses:
            element = 0
            for row, offset, extent in zip(access.rows, access.offsets, nest.layouts[access.array].shape, strict=True):
                element = element * extent + offset + sum(c * at[i] for i, c in enumerate(row))
            page = (access.array, element * nest.element_bytes[access.array] // PAGE)
            if page not in kept:
                misses += 1
                if len(kept) == entries:
                    kept.popitem(last=False)
            kept[page] = None
            kept.move_to_end(page)
    return misses


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
@pytest.mark.parametrize("entries", [4, 16, 64])
def test_walking_rows_and_columns(order: list[int], entries: int) -> None:
    """A matrix with rows of a page: by rows every page once, by columns all pages again and again."""
    rows, columns = 32, 1024
    read = BoxAccess("A", ((1, 0), (0, 1)), (0, 0), False, "S")
    nest = BoxNest(("i", "j"), (rows, columns), (read,), {"A": 4}, {"A": row_major((rows, columns))})
    batch = LoopBatch.of(nest, [[(i, 1) for i in order]])
    pages = unit_footprints(nest, batch, PAGE).units.astype(float)
    trips = batch.trip.astype(float)
    got = page_misses(pages, trips, trips, entries, {})[0]
    want = simulated(nest, order, entries)
    assert got == (0 if rows <= entries else want)  # all of it fits: warm


@pytest.mark.parametrize(("file", "defines"), CASES[:2])
def test_a_smaller_tlb_is_no_quicker(file: str, defines: dict[str, str]) -> None:
    scop, nest, sample = structures(file, defines, 25)
    tiny = replace(SMALL, tlb=replace(SMALL.tlb, l2_entries=8))
    large = replace(SMALL, tlb=replace(SMALL.tlb, l2_entries=1 << 20))
    slow, quick = (TrafficRanker().rank(scop, nest, sample, machine, 2) for machine in (tiny, large))
    assert (quick.columns["translation_seconds"] == 0).all()
    assert (slow.columns["translation_seconds"] > 0).all()
    assert (slow.scores > quick.scores).all()
