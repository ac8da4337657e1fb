"""Memory that prefetchers do not follow: whose bytes cost more, and whose do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polydl.rank.batches import box_nest
from polydl.rank.ranker import FloatArray
from polydl.rank.streams import unfollowed
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
        if kernel and kernel.columns and not structure.packs and steps_of(structure) == 512:
            seconds.setdefault(int(kernel.columns.within or 1), set()).add(float(each))
    ordered = [max(seconds[columns]) for columns in sorted(seconds)]
    assert len(ordered) > 1 and ordered == sorted(ordered, reverse=True)
