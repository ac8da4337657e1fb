"""Direction vectors of a nest: which loops carry what, whatever order they are in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from polydl.base.records import dataclass
from polydl.dependences.analysis import Dependence, Kind
from polydl.dependences.legality import Signs, ordering, sign_vectors
from polydl.dependences.nests import Nest


@dataclass(frozen=True, slots=True)
class NestLegality:
    """Direction vectors over the shared loops of a nest."""

    ordered: frozenset[Signs]
    """Of the dependences whose order must be kept."""
    concurrent: frozenset[Signs]
    """Of all dependences, accumulations included: none may be carried by a parallel loop."""
    accumulated: frozenset[Signs] = frozenset()
    """Of the accumulations alone of which blocks may have an accumulator each, such as those of a summed loop."""
    exclusive: frozenset[Signs] = frozenset()
    """Of all others."""

    def parallel_loops(self, nest: Nest) -> tuple[str, ...]:
        """Loops that carry nothing wherever they stand: their sign is zero in every dependence."""
        return tuple(i for d, i in enumerate(nest.loops) if all(s[d] == 0 for s in self.concurrent))


def nest_legality(nest: Nest, dependences: Sequence[Dependence], *, reassociate: bool = True) -> NestLegality:
    """Direction vectors of the dependences between the statements of a nest. Raises QuotaExceeded."""
    names = {s.name: s for s in nest.statements}
    inside = [d for d in dependences if d.kind is not Kind.RAR and d.source in names and d.target in names]
    depths = range(len(nest.loops))

    def signs(of: Iterable[Dependence]) -> frozenset[Signs]:
        found: frozenset[Signs] = frozenset()
        for d in of:
            source = names[d.source]
            found |= sign_vectors(d.relation, depths, [i in source.descending for i in nest.loops])
        return found

    ordered = signs(ordering(inside, reassociate=reassociate))
    apart = [d for d in inside if d.apart(reassociate=reassociate)]
    accumulated = signs(apart)
    exclusive = signs(d for d in inside if d not in apart)
    return NestLegality(ordered, ordered | accumulated, accumulated, exclusive)
