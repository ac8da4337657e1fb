"""Groups beside eager PyTorch: which of the two is faster. What was measured is in the cache."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from polydl.base.cache import Cache, key_of
from polydl.torch_backend import graph_assembly, region_plan
from polydl.torch_backend.decompositions import ORIGIN, Origin
from polydl.torch_backend.graph_levels import Region, units
from polydl.torch_backend.graph_values import Value, value_of
from polydl.torch_backend.group_check import is_undrawn, leaves, operators
from polydl.torch_backend.node_kinds import is_view, kinds, readers, reason
from polydl.torch_backend.region_plan import Made, at
from polydl.torch_backend.straight_line import function_of

_TIMES = Cache("torch_times", ".json", 5000)
_SECONDS, _MOST_SECONDS = 0.03, 0.4
"""For all samples of both ways, and on a machine that does much else meanwhile."""
_TURN = 0.001
"""Seconds for which one way is called again and again, before it is the other's turn."""
_MOST_BYTES = 1 << 30
"""Of tensors, from which on nothing is measured: memory may be short, and each run takes seconds."""
_MARGIN, _MARGIN_SECONDS = 1.05, 1e-6
"""How many times as long as eager PyTorch, and how much longer beside, groups may take before they are left to it: what
is within noise is not."""

Sizes = Sequence[Sequence[int]]
Parts = Mapping[Origin, frozenset[fx.Node]]
"""Of operators that were replaced, the nodes in their place that compute something."""


def parts_of(graph: fx.Graph) -> Parts:
    """The parts of all operators that were replaced in a graph."""
    found: dict[Origin, set[fx.Node]] = {}
    for node in graph.nodes:
        if ORIGIN in node.meta and not is_view(node):
            found.setdefault(node.meta[ORIGIN], set()).add(node)
    return {origin: frozenset(nodes) for origin, nodes in found.items()}


def slower(
    made: Sequence[Made],
    least_work: float,
    parts: Parts,
    module: Any,
    elsewhere: Sequence[Mapping[str, fx.Node]] = (),
    sizes: Sizes = (),
) -> dict[fx.Node, str]:
    """Why nodes of a region's groups had better be run by eager PyTorch, a clause: their groups were measured to take
    longer than their operators do there, as they were before these were replaced by others. Groups that compute the
    parts of one operator are one; what is less work than `least_work` is not measured, nor what reads indices that no
    data that are drawn stand for.

    Where groups take sizes, these are `sizes`, and `elsewhere` has the nodes of the graph at each by their names: both
    the first and the last count, since code may know the first one by its numbers."""
    found: dict[fx.Node, str] = {}
    for together in _clusters(made):
        if sum(one.group.work for one in together) < least_work or any(is_undrawn(one.group) for one in together):
            continue
        mine, eager = _seconds(together, parts, module, elsewhere, sizes)
        if mine > _MARGIN * eager + _MARGIN_SECONDS:
            why = f"its code was measured: {1e6 * mine:.1f} µs, {1e6 * eager:.1f} µs in eager PyTorch"
            found.update((node, why) for one in together for node in one.group.nodes if not is_view(node))
    return found


def _clusters(made: Sequence[Made]) -> Iterator[list[Made]]:
    """Groups with those that have parts of the same operators, in order."""
    found: list[tuple[set[Origin], list[int]]] = []
    for number, one in enumerate(made):
        origins = {node.meta[ORIGIN] for node in one.group.nodes if ORIGIN in node.meta}
        joined = [each for each in found if each[0] & origins]
        found = [each for each in found if not each[0] & origins]
        members = sorted([number, *(n for _, numbers in joined for n in numbers)])
        found.append((origins.union(*(names for names, _ in joined)), members))
    for _, numbers in sorted(found, key=lambda each: each[1]):
        yield [made[n] for n in numbers]


def _seconds(
    made: Sequence[Made], parts: Parts, module: Any, elsewhere: Sequence[Mapping[str, fx.Node]], sizes: Sizes
) -> tuple[float, float]:
    """Seconds of groups and of their operators, all sizes that count together."""
    sized = any(one.group.sizes for one in made)
    key = _key(made, sizes if sized else ())
    kept = _TIMES.read(key)
    if kept is not None:
        mine, eager = json.loads(kept)
        return float(mine), float(eager)
    mine, eager, undisturbed = 0.0, 0.0, True
    nodes = list(dict.fromkeys(node for one in made for node in one.group.nodes))
    outputs = [value.node for one in made for value in one.group.outputs]
    inside = frozenset(nodes)
    whole = [origin for origin, each in parts.items() if each <= inside]
    for k in (0, len(sizes) - 1) if sized else (0,):
        values = sizes[k] if sized else ()
        here = [replace(one, group=at(one.group, values)) for one in made] if sized else made
        if any(sum(v.elements * v.dtype.itemsize for v in (*one.group.inputs, *one.group.outputs)) > _MOST_BYTES
               for one in here):  # fmt: skip
            continue
        wanted = [v.node for one in made for v in one.group.outputs if not set(readers(v.node)) <= inside]
        plan = region_plan.planned(Region(tuple(nodes), tuple(wanted)), here)
        function, _ = graph_assembly.region(graph_assembly.data_of(plan), [one.code for one in here], module)
        read = [value.node for value in plan.inputs]
        order = list(operators(outputs, inside | set(outputs), frozenset(read)))
        there = elsewhere[k] if sized else {}
        read, wanted, order = ([there.get(node.name, node) for node in some] for some in (read, wanted, order))
        a, b, enough = seconds(
            function, read, wanted, order, whole=whole if k == 0 else (), sizes=values, ends=_ends(here, there)
        )
        mine, eager, undisturbed = mine + a, eager + b, undisturbed and enough
    if undisturbed:
        _TIMES.write(key, json.dumps([mine, eager]).encode())
    return mine, eager


def _ends(made: Sequence[Made], there: Mapping[str, fx.Node]) -> dict[fx.Node, tuple[int, int]]:
    """Of tensors of indices, the least and the greatest."""
    values = (
        (one.group.inputs[position].node, least, most)
        for one in made
        for position, least, most in one.group.index_ranges
    )
    return {there.get(node.name, node): (least, most) for node, least, most in values}


def _key(made: Sequence[Made], sizes: Sizes) -> str:
    said: list[str] = []
    for one in made:
        origins = (node.meta[ORIGIN].target if ORIGIN in node.meta else "" for node in one.group.nodes)
        said += [one.code.key, *(f"{node.target} {of}" for node, of in zip(one.group.nodes, origins, strict=True))]
        said += [f"{v.dtype} {v.sizes} {v.strides}" for v in (*one.group.inputs, *one.group.outputs)]
    return key_of([*said, repr([tuple(one) for one in sizes]), torch.__version__])


def seconds(
    function: Callable[..., Any], read: Sequence[fx.Node], made: Sequence[fx.Node], nodes: Sequence[fx.Node],
    whole: Sequence[Origin] = (), sizes: Sequence[int] = (), ends: Mapping[fx.Node, tuple[int, int]] | None = None,
) -> tuple[float, float, bool]:  # fmt: skip
    """Least seconds of a region's function, which takes the tensors `read` (and sizes) and gives those `made`, and of
    its nodes in eager PyTorch, in which operators that are `whole` stand for their parts; timed in turns, on inputs of
    random floats, of random integers between the `ends` of what is read, and of zeros elsewhere. Then whether both were
    called often enough before the time for it was over: on a machine that does much else they may not be."""
    eager, taken = _eager(leaves(nodes, read), made, nodes, whole)
    # While torch compiles, its tensors have no memory; what a first call does is watched by a mode of its own.
    with _disable_current_modes(), torch.no_grad():
        inputs = [_tensor(value_of(node), (ends or {}).get(node)) for node in read]
        given = [*inputs, *(_tensor(one) for one in taken[len(read) :])]
        inputs += [torch.tensor(sizes)] if sizes else []
        ways: tuple[Callable[[], Any], ...] = (lambda: function(*inputs), lambda: eager(list(given)))
        least, rounds, begin = [math.inf] * len(ways), 0, time.perf_counter()
        while time.perf_counter() - begin < _MOST_SECONDS:
            # What else runs only adds to a call: the least counts, also of what the calls took.
            least = [min(so_far, _least_of_some(way)) for so_far, way in zip(least, ways, strict=True)]
            rounds += 1
            if rounds * sum(max(one, _TURN) for one in least) >= _SECONDS:
                break
    mine, theirs = least
    return mine, theirs, rounds * sum(max(one, _TURN) for one in least) >= _SECONDS


def _least_of_some(way: Callable[[], Any]) -> float:
    """Least seconds of the calls that a turn has time for: threads that sleep meanwhile are awake behind the first."""
    least, begin = math.inf, time.perf_counter()
    now = begin
    while now - begin < _TURN:
        way()
        before, now = now, time.perf_counter()
        least = min(least, now - before)
    return least


def _tensor(value: Value, ends: tuple[int, int] | None = None) -> torch.Tensor:
    storage = torch.zeros(value.elements, dtype=value.dtype)
    generator = torch.Generator().manual_seed(0)  # torch's own stays as it is
    if value.dtype.is_floating_point:
        storage.normal_(generator=generator)
    elif ends is not None:
        storage.random_(ends[0], ends[1] + 1, generator=generator)
    return storage.as_strided(value.sizes, value.strides)


def _eager(
    read: Sequence[fx.Node], made: Sequence[fx.Node], nodes: Sequence[fx.Node], whole: Sequence[Origin]
) -> tuple[Callable[[list[Any]], Any], list[Value]]:
    """The nodes of a region as a function, and what it takes: first what is `read`. Operators that are `whole` get
    tensors of their own, and whoever reads their parts does, too."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    taken: list[Value] = []

    def input_of(value: Value) -> fx.Node:
        found = graph.placeholder(f"polydl_input_{len(taken)}")
        found.meta["val"] = value.node.meta["val"]
        taken.append(value)
        return found

    def copy(node: fx.Node) -> fx.Node:
        if node not in copies:
            copies[node] = input_of(value_of(node))
        return copies[node]

    for node in read:
        copy(node)
    kept = [node for node in nodes if node.meta.get(ORIGIN) not in whole]
    for one in leaves(kept, read):
        copy(one)
    arguments = [_put((one.args, one.kwargs), input_of) for one in whole]
    for node in kept:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    for origin, (args, kwargs) in zip(whole, arguments, strict=True):
        graph.call_function(origin.target, args, kwargs).meta["val"] = None
    graph.output(tuple(copies[node] for node in made if node in copies))
    gm = fx.GraphModule(torch.nn.Module(), graph)
    found, _ = kinds(gm.graph, lambda node: reason(node, "timed"))
    return function_of(gm, units(gm.graph, found), {}).function(gm, {}), taken


def _put(value: Any, input_of: Callable[[Value], fx.Node]) -> Any:
    """Arguments with inputs in place of tensors."""
    if isinstance(value, Value):
        return input_of(value)
    if isinstance(value, tuple | list):
        return type(value)(_put(one, input_of) for one in value)
    return {name: _put(one, input_of) for name, one in value.items()} if isinstance(value, dict) else value
