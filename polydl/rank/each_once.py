"""What many structures of a nest have in common is found once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from polydl.rank.ranker import FloatArray
from polydl.schedule.loops import NestLoops


def each_once(
    structures: Sequence[NestLoops],
    width: int,
    key: Callable[[NestLoops], object],
    of: Callable[[NestLoops], FloatArray],
) -> FloatArray:
    """(V, width) what `of` says of each structure of a nest, asked once for those with the same microkernel and `key`.

    Microkernels, and whatever a key names by `id`, are told apart by identity, which is quick: structures that differ
    in threads or copies share theirs."""
    places: dict[object, int] = {}
    found: list[FloatArray] = []
    index = np.empty(len(structures), dtype=np.int64)
    for v, structure in enumerate(structures):
        which = id(structure.kernel), key(structure)
        place = places.get(which)
        if place is None:
            place = places[which] = len(found)
            found.append(of(structure))
        index[v] = place
    return np.array(found, dtype=np.float64).reshape(len(found), width)[index]


def copied(structure: NestLoops) -> tuple[str, ...]:
    """The operands that its microkernel reads from copies."""
    return tuple([pack.operand for pack in structure.packs])
