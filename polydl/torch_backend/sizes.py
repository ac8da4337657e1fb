"""Graphs with symbolic sizes whose loops are not the same at all of them (see `sized_graph`): one static graph for each
of the first few sizes, made when they come."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

Function = Callable[[list[Any]], Sequence[Any]]


def symbolic(gm: fx.GraphModule) -> bool:
    """Whether sizes of the graph's inputs are symbols, and all sizes follow from them. Where some are known only when
    the graph runs (`nonzero`), its nodes stay eager one by one."""
    inputs = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    if not any(_has_symbol(value) for value in inputs):
        return False
    values = [leaf for node in gm.graph.nodes for leaf in pytree.tree_leaves(node.meta.get("val"))]
    return not any(free_unbacked_symbols(value) for value in values if isinstance(value, torch.Tensor | torch.SymInt))


def _has_symbol(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride()))
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


class AtFirstCall:
    """A function that `make` makes of the inputs of the first call."""

    def __init__(self, make: Callable[[Sequence[Any]], Function]) -> None:
        self._make = make
        self._made: Function | None = None
        self._lock = threading.Lock()

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        with self._lock:
            if self._made is None:
                self._made = self._make(inputs)
        return self._made(inputs)


class PerSizes:
    """The function of a graph with symbolic sizes: `make(static graph)` for the first `most` sizes that come, and eager
    PyTorch for others; `beyond()` is called for the first of these, and may refuse it."""

    def __init__(
        self, gm: fx.GraphModule, make: Callable[[fx.GraphModule], Function], most: int,
        beyond: Callable[[], object],
    ) -> None:  # fmt: skip
        self._gm, self._make, self._most, self._beyond = gm, make, most, beyond
        self._told = False
        self._eager = fx.Interpreter(gm)
        self._made: dict[tuple[Any, ...], Function] = {}
        self._lock = threading.Lock()

    @property
    def sizes(self) -> int:
        """For how many sizes there is code."""
        return len(self._made)

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        key = tuple((one.shape, one.stride()) if isinstance(one, torch.Tensor) else (type(one), one) for one in inputs)
        function = self._made.get(key)
        if function is None:
            with self._lock:
                if key not in self._made and len(self._made) < self._most:
                    self._made[key] = self._make(static_graph(self._gm, inputs))
                function = self._made.get(key)
        if function is not None:
            return function(inputs)
        if not self._told:
            self._beyond()
            self._told = True
        given = list(inputs)
        inputs.clear()
        found: Sequence[Any] = self._eager.run(*given)
        return found


def static_graph(gm: fx.GraphModule, inputs: Sequence[Any]) -> fx.GraphModule:
    """The graph for the sizes of these inputs, of which some may be functions that make them: its nodes with
    `meta["val"]` of these sizes, its integers as literals. It has the same inputs, also those that were sizes."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    graph = fx.Graph()
    copies: dict[fx.Node, Any] = {}
    values: dict[fx.Node, Any] = {}
    following = iter(inputs)

    def put(node: fx.Node, value: Any, make: Callable[[], fx.Node]) -> None:
        values[node] = value
        if isinstance(value, int | float | bool) and node.op != "placeholder":
            copies[node] = value
        else:
            new = make()
            new.meta = {**node.meta, "val": value}
            copies[node] = value if isinstance(value, int | float | bool) else new

    with mode:
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                given = next(following)
                value = given() if isinstance(given, partial) else given
                if value is given and isinstance(given, torch.Tensor):
                    value = mode.from_tensor(given, static_shapes=True)
                put(node, value, lambda node=node: graph.node_copy(node))  # type: ignore[misc]
            elif node.op == "output":
                graph.output(_mapped(node.args[0], copies)).meta = copy.copy(node.meta)
            elif node.op == "get_attr":
                found: Any = gm
                for name in str(node.target).split("."):
                    found = getattr(found, name)
                value = mode.from_tensor(found, static_shapes=True) if isinstance(found, torch.Tensor) else found
                put(node, value, lambda node=node: graph.node_copy(node))  # type: ignore[misc]
            else:
                args, kwargs = _mapped((node.args, node.kwargs), values)
                value = node.target(*args, **kwargs)
                put(node, value, lambda node=node: _copied(graph, node, copies))  # type: ignore[misc]
    return fx.GraphModule(gm, graph)


def _copied(graph: fx.Graph, node: fx.Node, copies: dict[fx.Node, Any]) -> fx.Node:
    args, kwargs = _mapped((node.args, node.kwargs), copies)
    return graph.create_node(node.op, node.target, args, kwargs, node.name)


def _mapped(value: Any, by: dict[fx.Node, Any]) -> Any:
    return pytree.tree_map_only(fx.Node, by.__getitem__, value)
