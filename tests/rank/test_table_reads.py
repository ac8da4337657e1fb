"""What a table leads to comes from the cache that holds its array, once for each block of rows."""

from __future__ import annotations

from functools import cache

import pytest

import polydl
from polydl.rank.compute import columns_at_once
from polydl.schedule.loops import NestLoops

BLOCKS = """
void f(const int ptr[restrict {n} + 1], const int *restrict idx, const float (*restrict val)[{b}][{b}],
       const float x[restrict {m}][{b}][256], float y[restrict {n}][{b}][256])
{{
    for (int i = 0; i < {n}; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int r = 0; r < {b}; r++)
                for (int j = 0; j < 256; j++)
                    for (int c = 0; c < {b}; c++)
                        y[i][r][j] += val[p][r][c] * x[idx[p]][c][j];
}}
"""


@cache
def structures(block: int, columns: int) -> list[tuple[NestLoops, float]]:
    """Those with a microkernel, with the seconds that they take in the core; best first."""
    (scop,) = polydl.load(BLOCKS.format(n=256, m=columns, b=block)).scops
    ranking = polydl.rank(scop, machine="epyc-zen5", threads=2)
    return [
        (one, variant.estimate.seconds["compute"])
        for variant in ranking.variants
        for one in variant.structures
        if one.kernel is not None
    ]


@pytest.mark.parametrize("block", [8, 16])
def test_blocks_of_all_rows_come_first_where_the_table_is_far(block: int) -> None:
    """2 MiB: each block of four rows would take the whole of it from the third cache."""
    kernel = structures(block, 2048 // block)[0][0].kernel
    assert kernel is not None
    assert kernel.m >= 8


def test_a_table_in_the_first_cache_takes_no_time() -> None:
    near, far = structures(8, 2), structures(8, 256)
    known = {one.transforms: spent for one, spent in near}
    both = [(known[one.transforms], spent) for one, spent in far if one.transforms in known]
    assert both
    assert all(spent >= before for before, spent in both)
    assert any(spent > before for before, spent in both)


WIDE = """
void f(const int ptr[restrict 2049], const int *restrict idx, const float *restrict val,
       const float x[restrict 2048][{k}], float y[restrict 2048][{k}])
{{
    for (int i = 0; i < 2048; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int j = 0; j < {k}; j++)
                y[i][j] += val[p] * x[idx[p]][j];
}}
"""


@pytest.mark.parametrize(("columns", "tiled"), [(256, False), (1024, False), (4096, True)])
def test_rows_pass_over_columns_that_the_last_cache_keeps(columns: int, tiled: bool) -> None:
    """32 MiB: one row after the other would bring what its entries lead to from memory."""
    (scop,) = polydl.load(WIDE.format(k=columns)).scops
    (best,) = polydl.rank(scop, machine="epyc-zen3", threads=2).variants[0].structures
    tile, every = columns_at_once(best)
    assert every == columns
    assert (tile < every) == tiled
