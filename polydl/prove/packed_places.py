"""Where in its buffer a copied element goes: panels of words, in each of which is a group of elements, or one."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.prove.contracts import PackContract
from polydl.prove.integers import ZERO, Affine, Unreadable, number
from polydl.prove.word_copies import Words

PLAIN = Words("", "", 1, 0, False, 0)
"""Of a copy that converts nothing."""


def steps_of(words: Words, extents: Sequence[Affine]) -> Affine:
    """Words of a panel per element of its width, those side by side counted as one. Raises Unreadable."""
    steps = number(1)
    for extent in (words.extent(k, e) for k, e in enumerate(extents)):
        if steps.terms and extent.terms:
            raise Unreadable("a copy of unknown shape")
        steps = steps.times(extent.constant) if not extent.terms else extent.times(steps.constant)
    return steps


def places(
    contract: PackContract,
    start: Affine,
    steps: Affine,
    w: Affine,
    counters: Sequence[Affine],
    extents: Sequence[Affine],
) -> tuple[Affine, Affine]:
    """Of an element of the width and the reductions where it goes, and where the sum of its column does, from a start
    in words. With steps of unknown number there is one panel. Raises Unreadable."""
    words = contract.words or PLAIN
    panel = Affine(((f"floor(({w})/{contract.block})", 1),))
    column = w
    if not steps.terms:
        length = steps.constant + (1 if words.sums else 0)
        column = column.plus(panel, length * contract.block).plus(panel, -contract.block)
    linear, lane = ZERO, ZERO
    for k, (counter, size) in enumerate(zip(counters, extents, strict=True)):
        r, extent = counter, words.extent(k, size)
        if k == words.grouped and words.group > 1:
            r = Affine(((f"floor(({counter})/{words.run})", 1),))
            lane = counter.plus(r, -words.run)
        if linear.terms and extent.terms:
            raise Unreadable("a copy of unknown shape")
        linear = linear.times(extent.constant).plus(r) if linear.terms else r
    begin = start.times(words.group)
    element = begin.plus(column.plus(linear, contract.block).times(words.run)).plus(lane)
    return element, begin.plus(column.plus(steps, contract.block).times(words.run))
