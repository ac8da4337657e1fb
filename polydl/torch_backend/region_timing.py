"""A region beside eager PyTorch: which of the two is faster."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from polydl.torch_backend.graph_levels import units
from polydl.torch_backend.graph_values import value_of
from polydl.torch_backend.group_check import leaves
from polydl.torch_backend.node_kinds import kinds, reason
from polydl.torch_backend.straight_line import function_of

_ROUNDS = 9
_LEAST = 0.002
"""Least seconds of one sample."""
MARGIN = 1.05
"""How many times as long as eager PyTorch a region may take before it is left to it: what is within noise is not."""


def seconds(
    function: Callable[..., Any], read: Sequence[fx.Node], made: Sequence[fx.Node], nodes: Sequence[fx.Node]
) -> tuple[float, float]:
    """Median seconds of a region's function, which takes the tensors `read` and gives those `made`, and of its nodes in
    eager PyTorch, timed in turns, on inputs of random floats and of zeros elsewhere."""
    taken = leaves(nodes, read)
    eager = _eager(taken, made, nodes)
    with unset_fake_temporarily(), torch.no_grad():  # while torch compiles, its tensors have no memory
        given = [_input(node) for node in taken]
        inputs = given[: len(read)]
        ways: tuple[Callable[[], Any], ...] = (lambda: function(*inputs), lambda: eager(list(given)))
        times = [max(1, int(_LEAST / max(_sample(way, 2), 1e-7))) for way in ways]
        samples = [[_sample(way, n) for way, n in zip(ways, times, strict=True)] for _ in range(_ROUNDS)]
    mine, theirs = (statistics.median(column) for column in zip(*samples, strict=True))
    return mine, theirs


def _sample(way: Callable[[], Any], times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        way()
    return (time.perf_counter() - begin) / times


def _input(node: fx.Node) -> torch.Tensor:
    value = value_of(node)
    storage = torch.zeros(value.elements, dtype=value.dtype)
    if value.dtype.is_floating_point:
        storage.normal_(generator=torch.Generator().manual_seed(0))  # torch's own generator stays as it is
    return storage.as_strided(value.sizes, value.strides)


def _eager(read: Sequence[fx.Node], made: Sequence[fx.Node], nodes: Sequence[fx.Node]) -> Callable[[list[Any]], Any]:
    """The nodes of a region as a function of its inputs."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in read:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in made))
    gm = fx.GraphModule(torch.nn.Module(), graph)
    found, _ = kinds(gm.graph, lambda node: reason(node, "timed"))
    return function_of(gm, units(gm.graph, found), {}).function(gm, {})
