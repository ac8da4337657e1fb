"""Cuts a graph into regions of lowered nodes and single eager nodes, by levels.

The level of a node is the greatest among its inputs', one more where an input's kind is the other one, or where the
call of its region checks the input's elements before it runs: so an edge never lowers the level, and a path from a
region through an eager node to a lowered one raises it by two. Lowered nodes of one level are a region, connected or
not; no two regions can wait for each other. Linear in nodes and edges. Views count for nothing: they belong to their
base. (Capability-based partitioners merge node by node instead, which is quadratic and has given circular partitions:
pytorch#86159, pytorch#115943.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from torch import fx

from polydl.torch_backend.node_kinds import Kind, base_of, in_sequence, ordered_after_all


@dataclass(frozen=True, slots=True)
class Region:
    """Lowered nodes that run together."""

    nodes: tuple[fx.Node, ...]
    """In graph order; with the views that they read."""
    wanted: tuple[fx.Node, ...]
    """Those whose tensors are read outside of the region; no views."""


Unit = Region | fx.Node
"""A region or an eager node."""


Checked = Mapping[fx.Node, Sequence[fx.Node]]
"""Of lowered nodes: tensors of indices that a call of their region checks before it runs."""


def units(graph: fx.Graph, found: dict[fx.Node, Kind], checked: Checked = MappingProxyType({})) -> list[Unit]:
    """Regions and eager nodes in an order in which they can run. Nodes that draw random numbers, change tensors or have
    effects keep their order; indices that are checked are computed in an earlier region."""
    levels = _levels(graph, found, checked)
    number = {node: i for i, node in enumerate(graph.nodes)}
    regions: dict[int, list[fx.Node]] = {}
    order: list[tuple[int, int, fx.Node | None]] = []
    for node, level in levels.items():
        if found[node] is Kind.EAGER:
            order.append((level, number[node], node))
        elif found[node] is Kind.LOWERED:
            if level not in regions:
                regions[level] = []
                order.append((level, len(number), None))
            regions[level].append(node)
    order.sort(key=lambda one: one[:2])
    made: list[Unit] = []
    for level, _, eager in order:
        made.append(_region(regions[level], found, number) if eager is None else eager)
    return made


def _levels(graph: fx.Graph, found: dict[fx.Node, Kind], checked: Checked) -> dict[fx.Node, int]:
    """The level of each node that something runs."""
    levels: dict[fx.Node, int] = {}
    highest: dict[Kind, int] = {}
    sequence = 0
    barrier: int | None = None
    """Level of the last node that changes what others read."""
    for node in graph.nodes:
        kind = found.get(node)
        if kind not in (Kind.LOWERED, Kind.EAGER):
            continue
        bases = (base_of(one, found) for one in node.all_input_nodes)
        before = [(found[base], levels[base]) for base in bases if base in levels]
        if ordered_after_all(node):
            before += highest.items()
        if barrier is not None:
            before.append((Kind.EAGER, barrier))
        level = max((level + (other is not kind) for other, level in before), default=0)
        indices = (base_of(one, found) for one in checked.get(node, ()))
        level = max([level, *(levels[base] + 1 for base in indices if base in levels)])
        if in_sequence(node):
            level = sequence = max(level, sequence)
        if ordered_after_all(node):
            barrier = level
        levels[node] = level
        highest[kind] = max(highest.get(kind, 0), level)
    return levels


def _region(members: list[fx.Node], found: dict[fx.Node, Kind], number: Mapping[fx.Node, int]) -> Region:
    inside = set(members)
    views = {view for node in members for view in _views_read(node, found)}
    wanted = tuple(node for node in members if _read_outside(node, inside, found))
    return Region(tuple(sorted((*members, *views), key=number.__getitem__)), wanted)


def _views_read(node: fx.Node, found: Mapping[fx.Node, Kind]) -> Iterator[fx.Node]:
    """The views that a node reads through."""
    pending = list(node.all_input_nodes)
    while pending:
        one = pending.pop()
        if found.get(one) is Kind.VIEW:
            yield one
            pending += one.all_input_nodes


def _read_outside(node: fx.Node, inside: set[fx.Node], found: Mapping[fx.Node, Kind]) -> bool:
    """Whether a node or a view of it is read by a node that is not in the region."""
    pending = list(node.users)
    while pending:
        user = pending.pop()
        if found.get(user) is Kind.VIEW:
            pending += user.users
        elif user not in inside:
            return True
    return False
