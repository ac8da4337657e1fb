"""Splits off what depends on parameters alone: parts that run when a parameter changed, and not in every call.

Each part is a graph of its own whose inputs are static inputs of the whole (parameters and buffers, which Dynamo knows
to be the same tensors in every call) and whose outputs become inputs of the rest. Two results are in one part if they
share a parameter; so a parameter that changed recomputes what depends on it. (The fold function of the oneDNN Graph
Compiler, and AOTInductor's split of constants.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from polydl.torch_backend.node_kinds import in_sequence, is_view, memory_of, readers


@dataclass(frozen=True, slots=True)
class Part:
    """What is computed of some of a graph's inputs alone."""

    inputs: tuple[int, ...]
    """Numbers of the whole graph's inputs."""
    gm: fx.GraphModule
    """Takes them in this order; returns a tuple."""
    results: int
    """How many tensors that is."""


def split(gm: fx.GraphModule, static: Sequence[int]) -> tuple[fx.GraphModule, list[Part]]:
    """The rest of a graph, and the parts that depend on its inputs `static` alone. The rest takes the inputs of the
    whole, then the results of the parts in order."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    given = {placeholders[i]: i for i in static}
    its = roots(gm.graph, given)
    ends = [node for node, one in its.items() if one and _is_end(node, its, given)]
    parts = [_part(gm, nodes, its, given) for nodes in _joined(ends, its)]
    if not parts:
        return gm, []
    rest = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in placeholders:
        copies[node] = rest.node_copy(node)
    for nodes in _joined(ends, its):
        for node in nodes:
            copies[node] = rest.placeholder(f"folded_{node.name}")
            copies[node].meta = dict(node.meta)
    for node in gm.graph.nodes:
        if node not in copies:
            copies[node] = rest.node_copy(node, copies.__getitem__)
    rest.eliminate_dead_code()
    return fx.GraphModule(gm, rest), parts


def roots(graph: fx.Graph, given: dict[fx.Node, int]) -> dict[fx.Node, frozenset[fx.Node]]:
    """Of each node that depends on static inputs alone: which. Not those that are given away, directly or by a view:
    whoever gets a tensor may change it."""
    output = next(iter(graph.find_nodes(op="output")))
    given_away = {memory_of(node) for node in output.all_input_nodes}
    found: dict[fx.Node, frozenset[fx.Node]] = {node: frozenset((node,)) for node in given}
    for node in graph.nodes:
        its = [found.get(one) for one in node.all_input_nodes]
        if node.op != "call_function" or not its or any(one is None for one in its):
            continue
        if in_sequence(node) or not isinstance(node.meta.get("val"), torch.Tensor) or node in given_away:
            continue
        found[node] = frozenset().union(*(one for one in its if one is not None))
    return found


def _is_end(node: fx.Node, roots: dict[fx.Node, Any], given: dict[fx.Node, int]) -> bool:
    """Whether something that runs in every call reads the node, and the node is no view of a parameter."""
    if node in given or is_view(node):
        return False
    return any(reader not in roots for reader in readers(node))


def _joined(ends: Sequence[fx.Node], roots: dict[fx.Node, frozenset[fx.Node]]) -> list[list[fx.Node]]:
    """The ends, those that share a root together."""
    made: list[tuple[frozenset[fx.Node], list[fx.Node]]] = []
    for node in ends:
        its, nodes = roots[node], [node]
        apart = []
        for others, group in made:
            if others & its:
                its, nodes = its | others, group + nodes
            else:
                apart.append((others, group))
        made = [*apart, (its, nodes)]
    return [nodes for _, nodes in made]


def _part(
    gm: fx.GraphModule, ends: Sequence[fx.Node], roots: dict[fx.Node, frozenset[fx.Node]], given: dict[fx.Node, int]
) -> Part:
    inputs = tuple(node for node in given if any(node in roots[end] for end in ends))
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in inputs:
        copies[node] = graph.node_copy(node)
    for node in gm.graph.nodes:
        if node in roots and node not in given and all(one in copies for one in node.all_input_nodes):
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[end] for end in ends)).meta = {}
    graph.eliminate_dead_code()
    return Part(tuple(given[node] for node in inputs), fx.GraphModule(gm, graph), len(ends))
