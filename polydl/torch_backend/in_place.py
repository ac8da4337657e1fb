"""Changes of inputs in place cost what they write.

PyTorch traces `cache.index_copy_(2, place, x)` as a new tensor, which is copied into the input at the end of the graph:

before:    new = index_copy(cache, 2, place, x); y = f(new); copy_(cache, new)
after:     index_copy_(cache, 2, place, x); y = f(cache)
requires:  nothing reads the old elements behind that place, no result is the new tensor, and what is stored is no view
           of the input

(As `torch._inductor.fx_passes.reinplace` does. Nodes that change tensors keep their place among all others.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from polydl.torch_backend.node_kinds import memory_of, readers
from polydl.torch_backend.operator_call import arguments_of

_aten = torch.ops.aten
_STORES: dict[Any, Any] = {
    getattr(getattr(_aten, name), overload): getattr(getattr(_aten, f"{name}_"), overload)
    for name, overloads in {
        "index_put": ("default",),
        "index_copy": ("default",),
        "index_add": ("default",),
        "index_fill": ("int_Scalar", "int_Tensor"),
        "index_reduce": ("default",),
        "scatter": ("src", "value", "reduce", "value_reduce"),
        "scatter_add": ("default",),
        "scatter_reduce": ("two",),
    }.items()
    for overload in overloads
}
"""Operators that give a copy of their first argument with some elements stored -> those that store them there."""
_PARTS: dict[Any, Any] = {
    _aten.slice_scatter.default: _aten.slice.Tensor,
    _aten.select_scatter.default: _aten.select.int,
    _aten.diagonal_scatter.default: _aten.diagonal.default,
}
"""Operators that give a copy of their first argument with a part replaced by their second -> the view of that part."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of an operator on a tensor."""

    operator: Any
    args: tuple[Any, ...]
    """Behind the tensor."""
    kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Store:
    """What one operator of a chain stores in the input."""

    views: tuple[_Call, ...]
    """Of the input, each of what the one before gives: the part that is written."""
    by: _Call
    """What writes it."""


def store_in_place(graph: fx.Graph) -> None:
    """Store in inputs of a graph what is stored in copies of them which are copied back at the end."""
    places = {node: number for number, node in enumerate(graph.nodes)}
    for copy in graph.find_nodes(op="call_function", target=_aten.copy_.default):
        target, value = copy.args[:2]
        if target.op != "placeholder" or not isinstance(value, fx.Node):
            continue
        chain = _chain(target, value)
        stores = [_store_of(step) for step in chain]
        if chain and _is_safe(target, chain, stores, copy, places):
            for step, store in zip(chain, stores, strict=True):
                _write(graph, target, step, store)
            graph.erase_node(copy)
    graph.eliminate_dead_code(lambda node: node.is_impure())


def _chain(target: fx.Node, value: fx.Node) -> list[fx.Node]:
    """The operators that make a value of an input, each of what the one before gives; empty if there is another."""
    found: list[fx.Node] = []
    while value is not target:
        if value.target not in _STORES and value.target not in _PARTS:
            return []
        found.append(value)
        source = value.args[0]
        assert isinstance(source, fx.Node)
        value = source
    return found[::-1]


def _store_of(step: fx.Node) -> _Store:
    views: list[_Call] = []
    while step.target in _PARTS:
        view = _Call(_PARTS[step.target], step.args[2:], step.kwargs)
        views.append(view)
        part = step.args[1]
        assert isinstance(part, fx.Node)
        if part.target is _aten.copy.default:  # its first argument says which sizes and type its second is given
            return _Store(tuple(views), _Call(_aten.copy_.default, part.args[1:], part.kwargs))
        if not _is_made_of(part, step):
            return _Store(tuple(views), _Call(_aten.copy_.default, (part,), {}))
        step = part
    return _Store(tuple(views), _Call(_STORES[step.target], step.args[1:], step.kwargs))


def _is_made_of(part: fx.Node, step: fx.Node) -> bool:
    """Whether what an operator of `_PARTS` puts in a place is a copy of what was there, with elements stored."""
    if (part.target not in _STORES and part.target not in _PARTS) or len(part.users) > 1:
        return False
    view = part.args[0]
    assert isinstance(view, fx.Node)
    if view.target is not _PARTS[step.target]:
        return False
    given, taken = arguments_of(step), arguments_of(view)
    del given["src"]
    return given == taken


def _is_safe(
    target: fx.Node, chain: Sequence[fx.Node], stores: Sequence[_Store], copy: fx.Node, places: dict[fx.Node, int]
) -> bool:
    """Whether elements can be stored in the input where the operators of a chain are."""
    for before, step, store in zip((target, *chain), chain, stores, strict=False):
        for reader in readers(before):
            if reader.op == "output":  # the input itself, with what is in it at last, may be a result
                if before is not target:
                    return False
            elif reader not in (step, copy) and places[reader] > places[step]:
                return False
        given, _ = pytree.tree_flatten((store.by.args, store.by.kwargs))
        if any(isinstance(one, fx.Node) and memory_of(one) in (target, *chain) for one in given):
            return False
    return all(reader.op != "output" for reader in readers(chain[-1]))


def _write(graph: fx.Graph, target: fx.Node, step: fx.Node, store: _Store) -> None:
    """Put what stores in an input in the place of an operator that gives a copy."""
    with graph.inserting_before(step):
        part = target
        for one in store.views:
            view = graph.call_function(one.operator, (part, *one.args), dict(one.kwargs))
            view.meta["val"] = one.operator(part.meta["val"], *one.args, **one.kwargs)
            part = view
        by = graph.call_function(store.by.operator, (part, *store.by.args), dict(store.by.kwargs))
    by.meta = {**step.meta, "val": part.meta["val"]}
    step.replace_all_uses_with(target)
