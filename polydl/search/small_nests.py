"""Nests that are not worth a search of their own: what is left at the borders of a convolution, the ends of a loop."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.dependences.nests import Nest
from polydl.model import isl
from polydl.model.counting import count, total

LIGHT = 20
"""A nest with less than this part of the work keeps the choice that is ranked first (see `search.combine`), and is
searched in the small space of loop transforms alone."""


DEEP = 3
"""Loops of a statement from which on the search of a nest takes long enough to be spared."""


def light(nests: Sequence[Nest]) -> frozenset[str]:
    """Names of the deep nests with less than a `LIGHT`th of the instances of all nests of their kind: those that a
    microkernel computes, which takes little time for each, and the others. None where an instance count depends on
    parameters."""
    if len(nests) == 1 or any(isl.involved_parameters(s.domain) for nest in nests for s in nest.statements):
        return frozenset()
    counts = {nest.name: total(count(s.domain) for s in nest.statements) for nest in nests}
    deep = {nest.name for nest in nests if max(s.depth for s in nest.statements) >= DEEP}
    found: set[str] = set()
    for kind in (True, False):
        names = [nest.name for nest in nests if (nest.contraction is not None) == kind]
        least = sum(counts[name].lower for name in names)
        found |= {name for name in names if name in deep and counts[name].upper * LIGHT < least}
    return frozenset(found)
