"""Contractions whose operands both lie along the sum: products of rows with rows, in blocks of dot products."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from polydl.model.strides import Stride
from polydl.rank.estimator import Estimator
from polydl.schedule.ordered import Ordered, ordered
from polydl.schedule.transform import Transform
from polydl.schedule.transforms import Parallelize, Permute, Tile, Vectorize
from polydl.search.variant import Variant

_BLOCKS = ((4, 4), (4, 2))
"""Dot products that are computed together: rows of one operand, then of the other."""
_TILES = (1024, 4096)
"""Steps of the sum from which all rows are met before the next ones: they stay in the first or the second cache."""


def in_dot_rows(variant: Variant, estimator: Estimator) -> Iterator[Variant]:
    """Variants in which the sums of such a contraction are vectors along the sum, blocks of them at once.

    before:    for i: for j: for k: C[i][j] += A[i][k] * B[j][k]
    after:     for k in tiles: for i in steps of 2: for j in steps of 4: eight sums in vectors along k, added up
    requires:  both operands have neighbours along k; sums may be added up in another order

    A microkernel has vectors along the columns of the output, so that one operand has to be copied first: where its
    rows overlap (the gradient of a convolution's weights reads an image shifted by each tap), once for each tap.
    """
    if not variant.origin.reassociate:
        return
    for place, part in enumerate(variant.parts):
        for made in _of_part(part, estimator.threads):
            parts = (*variant.parts[:place], made, *variant.parts[place + 1 :])
            whole = Variant.of(variant.origin, parts, variant.estimate)
            yield whole.estimated(estimator.whole(whole.tree, variant.estimate))


def _of_part(part: Ordered, threads: int) -> Iterator[Ordered]:
    loops = part.loops
    found = None if loops is None else loops.nest.contraction
    if loops is None or found is None or found.within or found.step is not None or not found.uniform or found.alone:
        return
    nest = loops.nest
    left, right = found.left.strides, found.right.strides
    along = [k for k in found.reductions if left[k] == 1 and right[k] == 1]
    own_left = [i for i in nest.loops if right[i] == 0 and left[i] != 0]
    own_right = [i for i in nest.loops if left[i] == 0 and right[i] != 0]
    if len(along) != 1 or not own_left or not own_right:
        return
    (summed,) = along
    # The loops that move least are next to the sum: what their iterations read overlaps, or is near.
    inner = [_moving_least(own_left, left), _moving_least(own_right, right)]
    rest = [i for i in nest.loops if i != summed and i not in inner]
    shared = next((i for i in rest if i not in found.reductions), inner[0])
    extent = nest.counts[summed].extent
    for tile in _TILES:
        cut = extent is not None and extent > tile
        outer, point = ([f"{summed}.0"], f"{summed}.1") if cut else ([], summed)
        order = [shared, *(i for i in (*rest, *outer, *inner, point) if i != shared)]
        how: list[Transform] = [*([Tile(summed, (tile,))] if cut else []), Permute(tuple(order))]
        if threads > 1:
            how.append(Parallelize((shared,)))
        for block in _BLOCKS:
            yield ordered(nest, [*how, Vectorize((), 0, block)])
        if not cut:
            return


def _moving_least(loops: Sequence[str], strides: Mapping[str, Stride]) -> str:
    def moved(loop: str) -> float:
        stride = strides[loop]
        return abs(stride) if isinstance(stride, int) else math.inf

    return min(loops, key=moved)
