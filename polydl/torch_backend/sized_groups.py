"""Groups of a graph at several sizes as groups that take sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from polydl.torch_backend.graph_compiler import Lowerings
from polydl.torch_backend.graph_values import Value
from polydl.torch_backend.groups import Group
from polydl.torch_backend.loop_program import SizeName
from polydl.torch_backend.operator_call import EVERYWHERE
from polydl.torch_backend.region_plan import GroupsDifferError
from polydl.torch_backend.sized_programs import DiffersError, Fit, Size, united


def for_all_sizes(
    names: Sequence[SizeName], fit: Fit, graphs: Sequence[fx.GraphModule], lowerings: Lowerings
) -> Callable[[Sequence[fx.Node], Sequence[fx.Node]], Sequence[Group]]:
    """What gives the groups of nodes of the first graph, with sizes as parameters; the graphs are the same at other
    sizes (`same_operators`). Raises GroupsDifferError for groups whose loops are not those of all sizes."""
    others = [{node.name: node for node in gm.graph.nodes} for gm in graphs[1:]]
    for nodes in zip(*(gm.graph.nodes for gm in graphs), strict=True):
        if all(isinstance(node.meta.get("val"), torch.Tensor) for node in nodes):
            every = tuple(node.meta["val"] for node in nodes)
            for node in nodes:
                node.meta[EVERYWHERE] = every

    def groups_of(nodes: Sequence[fx.Node], wanted: Sequence[fx.Node]) -> Sequence[Group]:
        elsewhere = []
        for by_name in others:
            inner, outer = ([by_name[node.name] for node in some] for some in (nodes, wanted))
            elsewhere.append({_members(one): one for one in lowerings.groups(inner, outer)})
        found: list[Group] = []
        wrong: list[fx.Node] = []
        why = ""
        for group in lowerings.groups(nodes, wanted):
            try:
                found.append(_united([group, *(one.get(_members(group)) for one in elsewhere)], fit, names))
            except DiffersError as error:
                wrong += group.nodes
                why = why or f"there is no code of {', '.join(_operators(group))} for all sizes: {error}"
        if wrong:
            raise GroupsDifferError(wrong, why)
        return found

    return groups_of


def same_operators(graphs: Sequence[fx.GraphModule]) -> None:
    """Raises DiffersError for graphs that do not have the same operators under the same names."""
    for nodes in zip(*(gm.graph.nodes for gm in graphs), strict=False):
        if len({(node.op, node.name, str(node.target)) for node in nodes}) > 1:
            raise DiffersError(f"there are other operators at other sizes than {nodes[0].name}")
    if len({len(gm.graph.nodes) for gm in graphs}) > 1:
        raise DiffersError("there are more operators at some sizes")


def _members(group: Any) -> tuple[str, ...]:
    return tuple(node.name for node in group.nodes)


def _tensors(group: Any) -> list[list[str]]:
    return [[one.node.name for one in some] for some in (group.inputs, group.outputs)]


def _operators(group: Any) -> list[str]:
    return [str(node.target) for node in group.nodes]


def _united(samples: Sequence[Any], fit: Fit, names: Sequence[SizeName]) -> Group:
    if None in samples:
        raise DiffersError("at other sizes they are not together")
    first = samples[0]
    used: set[int] = set()

    def noted(values: Sequence[int]) -> Size:
        size = fit(values)
        used.update(n for n, factor in enumerate(size.factors[:-1]) if factor)
        return size

    def tensors(each: Sequence[Sequence[Value]]) -> tuple[Value, ...]:
        return tuple(
            replace(same[0], sizes=united([one.sizes for one in same], fit),
                    strides=united([one.strides for one in same], fit))
            for same in zip(*each, strict=True)
        )  # fmt: skip

    if any(_tensors(one) != _tensors(first) for one in samples):
        raise DiffersError("it has other tensors at other sizes")
    program = united([one.program for one in samples], noted)
    ranges = united([one.index_ranges for one in samples], fit)
    program = replace(program, sizes=tuple(one for n, one in enumerate(names) if n in used))
    made: Group = replace(
        first, program=program, index_ranges=ranges,
        inputs=tensors([one.inputs for one in samples]), outputs=tensors([one.outputs for one in samples]),
    )  # fmt: skip
    return made
