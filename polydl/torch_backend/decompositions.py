"""Replaces operators without a lowering by smaller ones that have one.

Nothing is decomposed before autograd but what PyTorch itself takes apart: nodes that stay with eager PyTorch are its
own fused operators. A node without a lowering is replaced by its core-ATen decomposition only if every operator of that
can be lowered, itself decomposed if need be.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import fx
from torch._decomp import core_aten_decompositions
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from polydl.torch_backend.node_kinds import Kind, Lowering, kinds, outside

_DEPTH = 6
"""How many times the parts of a decomposition are taken apart."""


@cache
def table() -> Mapping[Any, Callable[..., Any]]:
    """Operator -> a function that computes it by others: torch's core-ATen decompositions."""
    return dict(core_aten_decompositions())


def expand(gm: fx.GraphModule, lowering: Lowering) -> None:
    """Replace nodes of a graph by their decompositions, where all of these can be lowered. Every new node has
    `meta["val"]`, and the line of the model that the replaced node came from."""
    found, _ = kinds(gm.graph, lowering)
    for node in list(gm.graph.nodes):
        if found.get(node) is Kind.EAGER:
            parts = _parts(node, lowering, _DEPTH)
            if parts is not None:
                _inline(gm.graph, node, parts)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def forward_identities(graph: fx.Graph) -> None:
    """Let operators read what an `alias` or `detach` is of: after autograd it computes nothing. Results stay."""
    for node in graph.nodes:
        if node.target in (torch.ops.aten.alias.default, torch.ops.aten.detach.default):
            node.replace_all_uses_with(node.args[0], delete_user_cb=lambda user: user.op != "output")


def _parts(node: fx.Node, lowering: Lowering, depth: int) -> fx.Graph | None:
    """A graph of lowered nodes that computes what a node does of its tensors, in order; None if there is none."""
    if depth == 0 or node.target not in table() or outside(node) is not None:
        return None
    graph = _traced(node)
    found, _ = kinds(graph, lowering)
    for part in list(graph.nodes):
        if found.get(part) is Kind.EAGER and part.target is not operator.getitem:
            smaller = None if part.target is node.target else _parts(part, lowering, depth - 1)
            if smaller is None:
                return None
            _inline(graph, part, smaller)
        elif part.op == "get_attr":  # a tensor made while tracing
            return None
    return graph


def _traced(node: fx.Node) -> fx.Graph:
    """The graph of one step of a node's decomposition; its placeholders are the node's tensors in order."""
    flat, spec = pytree.tree_flatten((node.args, node.kwargs))
    places = [i for i, one in enumerate(flat) if isinstance(one, fx.Node)]
    values = [flat[i].meta["val"] for i in places]

    def run(*tensors: Any) -> Any:
        given = list(flat)
        for i, tensor in zip(places, tensors, strict=True):
            given[i] = tensor
        args, kwargs = pytree.tree_unflatten(given, spec)
        return table()[node.target](*args, **kwargs)

    with detect_fake_mode(values) or FakeTensorMode(allow_non_fake_inputs=True):
        return make_fx(run)(*values).graph


def _inline(graph: fx.Graph, node: fx.Node, parts: fx.Graph) -> None:
    """Put the nodes of `parts` in a node's place."""
    flat, _ = pytree.tree_flatten((node.args, node.kwargs))
    given = iter([one for one in flat if isinstance(one, fx.Node)])
    copies: dict[fx.Node, fx.Node] = {}
    results: Any = None
    with graph.inserting_before(node):
        for part in parts.nodes:
            if part.op == "placeholder":
                copies[part] = next(given)
            elif part.op == "output":
                results = fx.map_arg(part.args[0], copies.__getitem__)
            else:
                copies[part] = graph.node_copy(part, copies.__getitem__)
                for name in ("stack_trace", "nn_module_stack"):
                    if name in node.meta:
                        copies[part].meta[name] = node.meta[name]
    if isinstance(results, fx.Node):
        node.replace_all_uses_with(results)
    else:
        for user in list(node.users):
            user.replace_all_uses_with(results[user.args[1]])
            graph.erase_node(user)
    graph.erase_node(node)
