"""Memory that prefetchers do not follow: whose bytes cost more, and whose do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from polydl import pipeline
from polydl.frontend import load
from polydl.rank.batches import box_nest
from polydl.rank.conflicts import again, inflation
from polydl.rank.each_once import by_copies
from polydl.rank.ranker import FloatArray
from polydl.rank.streams import LATE_FROM, PAGE_BYTES, late_seconds, piece_bytes, unfollowed
from polydl.schedule.loops import NestLoops
from polydl.target import preset
from tests.rank.test_cost import structures

MACHINE = preset("epyc-zen4")


def second_operand(columns: int, steps: int) -> tuple[list[NestLoops], FloatArray]:
    """Structures of a product whose B has rows so long, and the seconds by which a byte of B is late in each."""
    scop, nest, sample = structures("matmul.c", {"M": "64", "N": str(columns), "K": str(steps)}, 150)
    box = box_nest(scop, nest, hull=True)
    assert box
    late = unfollowed(box, sample, MACHINE, 1)
    assert not late[:, [a for a, name in enumerate(box.arrays) if name != "B"]].any()
    return sample, late[:, box.arrays.index("B")]


def steps_of(structure: NestLoops) -> int:
    """Iterations of the reduction that a call of the microkernel makes."""
    if structure.kernel is None:
        return 0
    return int(np.prod([loop.within or 512 for loop in structure.kernel.reductions]))


def test_a_page_for_each_step_is_late() -> None:
    """Rows of two pages: a microkernel goes to another page with each step of its reduction."""
    sample, late = second_operand(2048, 512)
    direct = [(steps_of(s), seconds) for s, seconds in zip(sample, late, strict=True) if s.kernel and not s.packs]
    assert {seconds > 0 for steps, seconds in direct if steps >= 64} == {True}
    assert {seconds for steps, seconds in direct if steps <= 16} == {0.0}


def test_rows_that_share_a_page_are_followed() -> None:
    assert not second_operand(64, 512)[1].any()


def test_slower_memory_is_later() -> None:
    scop, nest, sample = structures("matmul.c", {"M": "64", "N": "2048", "K": "512"}, 50)
    far = replace(MACHINE, memory=replace(MACHINE.memory, latency_ns=2 * MACHINE.memory.latency_ns))
    box = box_nest(scop, nest, hull=True)
    assert box
    near, later = (unfollowed(box, sample, machine, 1) for machine in (MACHINE, far))
    assert (later >= near).all() and (later[near > 0] > near[near > 0]).all()


def test_longer_runs_are_less_late() -> None:
    """The rest of a run follows its first line: by vectors of a microkernel, with as many steps."""
    sample, late = second_operand(2048, 512)
    seconds: dict[int, set[float]] = {}
    for structure, each in zip(sample, late, strict=True):
        kernel = structure.kernel
        if kernel and not structure.packs and steps_of(structure) == 512:
            seconds.setdefault(int(kernel.columns.within or 1), set()).add(float(each))
    ordered = [max(seconds[columns]) for columns in sorted(seconds)]
    assert len(ordered) > 1 and ordered == sorted(ordered, reverse=True)


def test_pieces_grow_while_few_runs_are_followed() -> None:
    """Loops from the outside: 1 run of all; 100 runs; 10 runs of 1 KiB; what is innermost: 10 of 128 bytes."""
    lines = np.array([102400.0, 102400.0, 10240.0, 1280.0])[None, :, None]
    runs = np.array([1.0, 100.0, 10.0, 10.0])[None, :, None]
    assert piece_bytes(lines, runs, np.array([3])).item() == 1024
    few = np.array([1.0, 25.0, 10.0, 10.0])[None, :, None]
    assert piece_bytes(lines, few, np.array([3])).item() == PAGE_BYTES, "prefetchers stop at the end of a page"
    many = np.array([1.0, 1.0, 1.0, 80.0])[None, :, None]
    assert piece_bytes(lines, many, np.array([3])).item() == 16, "those of one block are too many"
    assert piece_bytes(lines, many, np.array([2])).item() == PAGE_BYTES, "what a call touches, not its inner loops"


def test_pieces_from_far_are_late_unless_they_are_written() -> None:
    scop, nest, _ = structures("matmul.c", {"M": "64", "N": "64", "K": "64"}, 1)
    box = box_nest(scop, nest, hull=True)
    assert box
    pieces = np.full((1, len(box.arrays)), 128.0)
    near, far, memory = (late_seconds(box, pieces, MACHINE, level)[0] for level in range(3))
    assert MACHINE.caches[1].level < LATE_FROM and not near.any()
    assert [a for a, late in zip(box.arrays, far, strict=True) if late > 0] == [a for a in box.arrays if a != "C"]
    assert (memory >= far).all() and memory.max() > far.max()


def test_all_channels_are_read_before_the_next_place() -> None:
    """Pooling with channels innermost: blocks of some channels at all places read short pieces everywhere."""
    file = Path(__file__).parents[1] / "everyday" / "max_pool_channels_last.c"
    scop = load(file, defines={"CH": "128", "H": "56", "W": "56"}).scops[0]
    variants = pipeline.rank(scop, machine="epyc-zen4", threads=2).variants
    order = [str(variant.recipe).split("; ")[-1] for variant in variants]
    outside = next(variant for variant, text in zip(variants, order, strict=True) if "Permute(order=(c, y, x))" in text)
    assert "order=(c" not in order[0] and outside.score > 1.05 * variants[0].score


def test_arrays_whose_boxes_are_not_known_have_no_column() -> None:
    """At some sizes a subscript is one of several functions (`x / 4` where `x = 4 * s`), of which none is affine."""
    scop, nest, sample = structures("matmul.c", {"M": "64", "N": "2048", "K": "512"}, 50)
    box = box_nest(scop, nest, hull=True)
    assert box
    alike = by_copies(sample)
    for name in "AB":
        left = replace(box, accesses=tuple(a for a in box.accesses if a.array != name))
        kept = [box.arrays.index(one) for one in left.arrays]
        assert name not in left.arrays and len(kept) == 2
        assert np.array_equal(unfollowed(left, sample, MACHINE, 1), unfollowed(box, sample, MACHINE, 1)[:, kept])
        for cache in MACHINE.caches:
            for of in (inflation, again):
                assert np.array_equal(of(left, alike, cache), of(box, alike, cache)[:, kept])
