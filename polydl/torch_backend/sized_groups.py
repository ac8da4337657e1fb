"""Groups of a model at several sizes as groups that take sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import fx

from polydl.base.errors import PolyDLError
from polydl.torch_backend.graph_compiler import Lowerings
from polydl.torch_backend.graph_levels import Region, units
from polydl.torch_backend.groups import Group
from polydl.torch_backend.loop_program import SizeName
from polydl.torch_backend.model_sizes import ModelSizes
from polydl.torch_backend.node_kinds import kinds
from polydl.torch_backend.sized_programs import DiffersError, Fit, Size, united


def for_all_sizes(
    sizes: ModelSizes, graphs: Sequence[fx.GraphModule], lowerings: Lowerings
) -> Callable[[Sequence[fx.Node], Sequence[fx.Node]], Sequence[Group]]:
    """What gives the groups of a graph with sizes as parameters; the graphs are of the points. Raises PolyDLError for a
    group whose loops are not those of all sizes."""
    others = [_groups_of(gm, lowerings) for gm in graphs[1:]]

    def groups_of(nodes: Sequence[fx.Node], wanted: Sequence[fx.Node]) -> Sequence[Group]:
        first = lowerings.groups(nodes, wanted)
        if any(len(one) != len(first) for one in others):
            raise PolyDLError("the model has other groups of operators at other sizes")
        return [_united(each, sizes.fit, sizes.names) for each in zip(first, *others, strict=True)]

    return groups_of


def _united(samples: Sequence[Any], fit: Fit, names: Sequence[SizeName]) -> Group:
    first = samples[0]
    operators = [[str(node.target) for node in one.nodes] for one in samples]
    if any(one != operators[0] for one in operators):
        raise PolyDLError("the model has other groups of operators at other sizes")
    used: set[str] = set()

    def noted(values: Sequence[int]) -> Size:
        size = fit(values)
        used.update(name for name, n in zip(size.names, size.factors, strict=False) if n)
        return size

    try:
        program = united([one.program for one in samples], noted)
        ranges = united([one.index_ranges for one in samples], fit)
        inputs = tuple(
            replace(values[0], sizes=united([one.sizes for one in values], fit),
                    strides=united([one.strides for one in values], fit))
            for values in zip(*(one.inputs for one in samples), strict=True)
        )  # fmt: skip
    except DiffersError as error:
        raise PolyDLError(f"there is no code of {', '.join(operators[0])} for all sizes: {error}") from error
    if any(a.elements > b.elements for one in samples for a, b in zip(one.outputs, first.outputs, strict=True)):
        raise PolyDLError("a tensor is larger where the sizes are not the greatest: memory is laid out for these")
    program = replace(program, sizes=tuple(one for one in names if one.name in used))
    made: Group = replace(first, program=program, inputs=inputs, index_ranges=ranges)
    return made


def _groups_of(gm: fx.GraphModule, lowerings: Lowerings) -> Sequence[Any]:
    found, _ = kinds(gm.graph, lowerings.lowering)
    return [
        group for one in units(gm.graph, found) if isinstance(one, Region)
        for group in lowerings.groups(one.nodes, one.wanted)
    ]  # fmt: skip
