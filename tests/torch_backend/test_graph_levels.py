"""Regions can never wait for each other, and effects keep their order."""

from __future__ import annotations

import random
import time

import pytest
import torch
from torch import fx

from polydl.torch_backend.graph_levels import Region, Unit, units
from polydl.torch_backend.node_kinds import Kind, base_of

aten = torch.ops.aten


def graph_of(seed: int, size: int) -> tuple[fx.Graph, dict[fx.Node, Kind]]:
    """A random graph whose nodes are lowered, eager or views at random, some of them with effects."""
    draw = random.Random(seed)
    graph = fx.Graph()
    nodes = [graph.placeholder(f"x{i}") for i in range(3)]
    found = dict.fromkeys(nodes, Kind.INPUT)
    for _ in range(size):
        kind = draw.choice([Kind.LOWERED, Kind.LOWERED, Kind.EAGER, Kind.VIEW])
        if kind is Kind.VIEW:
            node = graph.call_function(aten.t.default, (draw.choice(nodes),))
            if found[base_of(node.all_input_nodes[0], found)] is Kind.EAGER and draw.random() < 0.5:
                kind = Kind.EAGER
        elif kind is Kind.EAGER and draw.random() < 0.2:
            target = draw.choice([aten.bernoulli.default, aten.add_.Tensor])
            given = draw.sample(nodes[-12:], 1 + (target is aten.add_.Tensor))
            node = graph.call_function(target, tuple(given))
        else:
            node = graph.call_function(aten.add.Tensor, tuple(draw.choices(nodes[-12:], k=2)))
        nodes.append(node)
        found[node] = kind
    graph.output(tuple(nodes[-4:]))
    return graph, found


def steps(found: dict[fx.Node, Kind], order: list[Unit]) -> dict[fx.Node, int]:
    """The number of the unit that runs each node."""
    at: dict[fx.Node, int] = {}
    for number, unit in enumerate(order):
        for node in unit.nodes if isinstance(unit, Region) else [unit]:
            if found[node] is not Kind.VIEW:
                assert node not in at
                at[node] = number
    return at


@pytest.mark.parametrize("seed", range(10))
def test_random_graphs(seed: int) -> None:
    for part in range(100):
        graph, found = graph_of(100 * seed + part, 40)
        draw = random.Random(part)
        lowered = [node for node, kind in found.items() if kind is Kind.LOWERED]
        checked = {node: draw.sample(node.all_input_nodes, 1) for node in lowered if draw.random() < 0.2}
        order = units(graph, found, checked)
        at = steps(found, order)
        for node, indices in checked.items():
            assert all(at.get(base_of(one, found), -1) < at[node] for one in indices)
        assert set(at) == {node for node, kind in found.items() if kind in (Kind.LOWERED, Kind.EAGER)}
        for node in at:
            for one in node.all_input_nodes:
                base = base_of(one, found)
                if base in at:
                    assert at[base] <= at[node]
                    assert at[base] < at[node] or found[node] is Kind.LOWERED
        _effects_in_order(graph, at)
        _wanted(graph, found, order)


def _effects_in_order(graph: fx.Graph, at: dict[fx.Node, int]) -> None:
    nodes = [node for node in graph.nodes if node in at]
    drawn = [node for node in nodes if node.target in (aten.bernoulli.default, aten.add_.Tensor)]
    assert [at[node] for node in drawn] == sorted(at[node] for node in drawn)
    for i, node in enumerate(nodes):
        if node.target is aten.add_.Tensor:
            assert all(at[one] < at[node] for one in nodes[:i])
            assert all(at[one] > at[node] for one in nodes[i + 1 :])


def _wanted(graph: fx.Graph, found: dict[fx.Node, Kind], order: list[Unit]) -> None:
    for unit in order:
        if isinstance(unit, Region):
            inside = set(unit.nodes)
            for node in unit.nodes:
                if found[node] is Kind.VIEW:
                    assert node not in unit.wanted
                elif any(user not in inside and found.get(user) is not Kind.VIEW for user in node.users):
                    assert node in unit.wanted


def test_a_region_reaches_past_what_does_not_depend_on_it() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    a = graph.call_function(aten.relu.default, (x,))
    b = graph.call_function(aten.sort.default, (x,))
    c = graph.call_function(aten.relu.default, (a,))
    d = graph.call_function(aten.relu.default, (b,))
    e = graph.call_function(aten.add.Tensor, (c, d))
    graph.output((e,))
    found = {x: Kind.INPUT, a: Kind.LOWERED, b: Kind.EAGER, c: Kind.LOWERED, d: Kind.LOWERED, e: Kind.LOWERED}
    order = units(graph, found)
    assert [unit.nodes if isinstance(unit, Region) else unit for unit in order] == [b, (a, c), (d, e)]
    assert [unit.wanted for unit in order if isinstance(unit, Region)] == [(c,), (e,)]


def test_linear() -> None:
    graph, found = graph_of(0, 6000)
    begin = time.process_time()
    units(graph, found)
    assert time.process_time() - begin < 1
