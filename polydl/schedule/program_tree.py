"""The tree of a program from those of its parts, with what runs inside of microkernels in its place there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from polydl.base.errors import IllegalVariant
from polydl.schedule.fusion_groups import groups_by_place
from polydl.schedule.ordered import Ordered
from polydl.schedule.transforms.merge import merged
from polydl.schedule.transforms.start_from_zero import zeroes_all
from polydl.schedule.tree import Node
from polydl.schedule.tree import Sequence as InOrder


def program_tree(parts: Sequence[Ordered]) -> InOrder:
    """The parts of a program one after the other, those that share loops together. What is fused into a microkernel is
    inside of it, and so are the zeros that it starts from. Raises IllegalVariant where a condition of fusion fails, no
    microkernel is there, or nests that are to share loops are no neighbours or have none alike."""
    groups, zeros = groups_by_place(parts), starting_from_zero(parts)
    statements = {s.name: s for part in parts for s in part.statements}
    found: list[tuple[Ordered, Node]] = []
    for place, part in enumerate(parts):
        if part.name in zeros.values() or part.into is not None:
            continue
        zeroing = statements[zeros[part.name]] if part.name in zeros else None
        found.append((part, part.running(groups.get(place), zeroing)))
    return InOrder(tuple(_sharing_loops(found)))


def _sharing_loops(found: Sequence[tuple[Ordered, Node]]) -> Iterator[Node]:
    """The trees of parts, those that share loops as one. Raises IllegalVariant."""
    for shared, group in groupby(found, key=lambda one: one[0].merge and (one[0].merge.first, one[0].merge.loops)):
        together = list(group)
        if shared is None:
            yield from (node for _, node in together)
            continue
        first, loops = shared
        if together[0][0].name != first:
            raise IllegalVariant(f"{together[0][0].name} is no neighbour of {first}, whose loops it is to share")
        yield merged([node for _, node in together], loops)


def starting_from_zero(parts: Sequence[Ordered], known: dict[tuple[str, str], bool] | None = None) -> Mapping[str, str]:
    """By name of a nest whose microkernel starts from zero the nest of zeros that it does away with: the last that
    touches the array before it. `known`: for which pairs of nests that is so, kept from variant to variant."""
    found: dict[str, str] = {}
    for later, part in enumerate(parts):
        loops = part.loops
        if loops is None or loops.kernel is None or loops.summed or not loops.nest.box:
            continue
        (statement,) = part.statements
        array = next(a.array for a in statement.accesses if a.write)
        for earlier in reversed(parts[:later]):
            if any(a.array == array for s in earlier.statements for a in s.accesses):
                if len(earlier.statements) == 1:
                    pair = earlier.name, part.name
                    kept = {} if known is None else known
                    if pair not in kept:
                        kept[pair] = zeroes_all(earlier.statements[0], statement, any_number=loops.steps)
                    if kept[pair]:
                        found[part.name] = earlier.name
                break
    return found
