"""Which nests of a scop want a schedule of their own."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.dependences.analysis import Dependence
from polydl.dependences.legality import ordering
from polydl.model.scop import MicrokernelCall
from polydl.variants.nests import Nest


def plain(nest: Nest, found: Sequence[Dependence]) -> bool:
    """Whether the loops of a nest are all there is to choose from: a rectangular contraction, a microkernel call, or
    a rectangular nest with an independent outermost loop."""
    if any(isinstance(s.body, MicrokernelCall) for s in nest.statements):
        return True
    if not nest.box or len(nest.statements) > 1:
        return False
    if nest.contraction is not None or not nest.loops:
        return True
    name = nest.statements[0].name
    kept = ordering(found, reassociate=False)
    return not any(d.source == name and d.target == name and d.depth == 0 for d in kept)


def segments(nests: Sequence[Nest], found: Sequence[Dependence]) -> list[tuple[bool, tuple[Nest, ...]]]:
    """The nests in order, each alone (False) or with neighbours as a region to be scheduled (True). Contractions stay
    alone: those that are no boxes may be scheduled or given to a microkernel."""
    result: list[tuple[bool, tuple[Nest, ...]]] = []
    open_ = False
    for nest in nests:
        alone = plain(nest, found)
        joins = not alone and nest.contraction is None
        if joins and open_:
            result[-1] = (True, (*result[-1][1], nest))
        else:
            result.append((not alone, (nest,)))
        open_ = joins
    return result
