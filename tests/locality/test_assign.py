"""Algorithm 2 on sizes worked out by hand."""

from __future__ import annotations

from dataclasses import replace

from polydl.locality import exact
from polydl.locality.assign import assign, level_of
from polydl.model.counting import Count
from polydl.target import preset
from tests.locality.test_exact import matmul

ZEN4 = preset("epyc-zen4")
"""32 KiB, 1 MiB, 32 MiB."""


def test_matmul_of_the_paper() -> None:
    served = assign(exact.working_sets(matmul()), ZEN4)
    # Elements (5, 401), (403, 20101), (20302, 109702) of 4 bytes; the four dependences on C are one pair of sizes.
    assert served.caches == (Count.of(4 * (5 + 401 + 403)), Count.of(4 * (20101 + 20302 + 109702)), Count.of(0))
    assert served.memory == Count.of(0)


def test_bytes_decide_not_elements() -> None:
    nest = matmul()
    doubles = replace(nest, element_bytes=dict.fromkeys("ABC", 8))
    tiny = replace(ZEN4, caches=(replace(ZEN4.caches[0], bytes=4 * 20101),))
    assert assign(exact.working_sets(nest), tiny).caches == (Count.of(4 * (5 + 401 + 403 + 20101)),)
    assert assign(exact.working_sets(doubles), tiny).caches == (Count.of(8 * (5 + 401 + 403)),)
    assert assign(exact.working_sets(doubles), tiny).memory == Count.of(8 * (20101 + 20302 + 109702))


def test_inexact_sizes_go_by_their_upper_bound() -> None:
    assert level_of(Count(1, 32 * 1024), ZEN4) == 0
    assert level_of(Count(1, 32 * 1024 + 1), ZEN4) == 1
    assert level_of(Count(1, 1 << 40), ZEN4) is None


def test_one_size_of_a_pair_counts_once() -> None:
    nest = replace(matmul(), parallel=frozenset({"i"}))
    (by_i,) = [w for w in exact.working_sets(nest) if w.carried_by == "i"]
    assert assign([by_i, by_i], ZEN4).caches[1] == Count.of(4 * 110_000)
