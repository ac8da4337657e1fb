"""What many structures of a nest have in common is found once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from polydl.locality.boxes import IntArray
from polydl.rank.ranker import FloatArray
from polydl.schedule.loops import NestLoops


@dataclass(frozen=True, slots=True)
class Alike:
    """Structures of a nest in groups: those with the same microkernel and the same key."""

    firsts: Sequence[NestLoops]
    """The first of each group."""
    group: IntArray
    """(V,) The group of each structure."""

    @staticmethod
    def by(key: Callable[[NestLoops], object], structures: Sequence[NestLoops]) -> Alike:
        """Microkernels, and whatever a key names by `id`, are told apart by identity, which is quick: structures that
        differ in threads or copies share theirs."""
        places: dict[object, int] = {}
        firsts: list[NestLoops] = []
        group = np.empty(len(structures), dtype=np.int64)
        for v, structure in enumerate(structures):
            which = id(structure.kernel), key(structure)
            place = places.get(which)
            if place is None:
                place = places[which] = len(firsts)
                firsts.append(structure)
            group[v] = place
        return Alike(firsts, group)

    def asked(self, width: int, of: Callable[[NestLoops], FloatArray]) -> FloatArray:
        """(V, width) what `of` says of each structure, asked once for each group."""
        found = np.array([of(structure) for structure in self.firsts], dtype=np.float64)
        return found.reshape(len(self.firsts), width)[self.group]


def by_copies(structures: Sequence[NestLoops]) -> Alike:
    """Those together that read the same operands from copies."""
    return Alike.by(copied, structures)


def copied(structure: NestLoops) -> tuple[str, ...]:
    """The operands that its microkernel reads from copies."""
    return tuple([pack.operand for pack in structure.packs])
