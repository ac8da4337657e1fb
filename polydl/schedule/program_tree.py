"""The tree of a program from those of its parts, with what runs inside of microkernels in its place there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from polydl.base.errors import IllegalVariant
from polydl.rewrite.conditions import Group
from polydl.schedule.fusion_groups import groups_by_place
from polydl.schedule.jam import jammed
from polydl.schedule.plan import Part
from polydl.schedule.transforms.start_from_zero import start_from_zero, zeroes_all
from polydl.schedule.tree import Node, in_rows, kernels, with_kernels
from polydl.schedule.tree import Sequence as InOrder


def tree_of(part: Part, group: Group | None = None) -> Node:
    """The tree of one part of a program. `group`: what is fused into it. Raises IllegalVariant where it has no
    microkernel for that."""
    found = part.tree
    if group is not None:
        if part.kernel is None:
            raise IllegalVariant(f"nothing can be fused into {part.name}: it has no microkernel")
        found = with_kernels(found, {kernel: replace(kernel, group=group) for kernel in kernels(found)})
    if part.rows is None:
        return found
    vectors = in_rows(found, part.rows)
    return jammed(vectors, part.rows.jam) if part.rows.jam else vectors


def program_tree(parts: Sequence[Part]) -> InOrder:
    """The parts of a program one after the other. What is fused into a microkernel is inside of it, and so are the
    zeros that it starts from. Raises IllegalVariant where a condition of fusion fails, or no microkernel is there."""
    groups, zeros = groups_by_place(parts), starting_from_zero(parts)
    statements = {s.name: s for part in parts for s in part.statements}
    found = []
    for place, part in enumerate(parts):
        if part.name in zeros.values() or part.fused:
            continue
        node = tree_of(part, groups.get(place))
        found.append(start_from_zero(node, statements[zeros[part.name]]) if part.name in zeros else node)
    return InOrder(tuple(found))


def starting_from_zero(parts: Sequence[Part], known: dict[tuple[str, str], bool] | None = None) -> Mapping[str, str]:
    """By name of a nest whose microkernel starts from zero the nest of zeros that it does away with: the last that
    touches the array before it. `known`: for which pairs of nests that is so, kept from variant to variant."""
    found: dict[str, str] = {}
    for later, part in enumerate(parts):
        if part.nest is None or part.kernel is None or part.summed or not part.nest.box:
            continue
        (statement,) = part.statements
        array = next(a.array for a in statement.accesses if a.write)
        for earlier in reversed(parts[:later]):
            if any(a.array == array for s in earlier.statements for a in s.accesses):
                if len(earlier.statements) == 1:
                    pair = earlier.name, part.name
                    kept = {} if known is None else known
                    if pair not in kept:
                        kept[pair] = zeroes_all(earlier.statements[0], statement)
                    if kept[pair]:
                        found[part.name] = earlier.name
                break
    return found
