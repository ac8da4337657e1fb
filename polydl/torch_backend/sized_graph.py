"""Graphs with symbolic sizes as code that is made once: what is in numbers alone is worked out for each size.

The graph is lowered at a few sizes, and what is equal but for numbers that are affine in the sizes becomes groups that
take them (`sized_groups`). For a size that comes, the tensors between groups are laid out, and the lines of Python are
run with its numbers; no C is made.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from polydl.torch_backend import call_extension, graph_assembly, group_check, region_plan
from polydl.torch_backend.backend_options import BackendOptions
from polydl.torch_backend.decompositions import pad_in_eager
from polydl.torch_backend.fold import Part
from polydl.torch_backend.graph_assembly import Function
from polydl.torch_backend.graph_compiler import LaidOut, Lowerings, Planned, planned, stored_of
from polydl.torch_backend.graph_levels import Region
from polydl.torch_backend.graph_report import GraphReport
from polydl.torch_backend.graph_sizes import FAR, GraphSizes, Point, sizes_of
from polydl.torch_backend.node_kinds import is_view
from polydl.torch_backend.sized_groups import at, for_all_sizes, same_operators
from polydl.torch_backend.sized_programs import DiffersError, Fit
from polydl.torch_backend.sizes import static_graph
from polydl.torch_backend.stored_graph import assembled

_PREFIX = "polydl_"
"""Of the names of sizes in the lines of Python, beside those of nodes."""
_MOST = (1 << 31) - 1
"""Elements of a tensor: indices are of 32 bits."""


def sized_graph(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    static: Sequence[int],
    o: BackendOptions,
    lowerings: Lowerings,
    beyond: Callable[[str], object],
) -> tuple[SizedGraph, GraphReport, list[Any]]:
    """The function of a graph for any size, its report, and the watches on its parameters; `inputs` are those of the
    first call, and `beyond` is told why eager PyTorch runs a size. Raises DiffersError where its operators are not the
    same at all sizes, and GroupsDifferError where its loops are not and options are strict."""
    begin = time.perf_counter()
    module = call_extension.calls(o.cc)
    for last, far in enumerate(FAR, 1 - len(FAR)):
        try:
            sizes, found, first = _planned(gm, inputs, static, o, lowerings, module, far)
            break
        except DiffersError:
            if last == 0:
                raise
    stored = stored_of(found)
    _, report, watches = assembled(stored, found.codes, first, o, module)
    folds = dict(zip(stored.folds, watches, strict=True))

    def make(values: Point) -> Function | None:
        names: dict[str, Any] = {f"{_PREFIX}{one.name}": n for one, n in zip(sizes.names, values, strict=True)}
        names["polydl_sizes"] = torch.tensor(values, dtype=torch.int64)
        for number, made in found.built.made.items():
            unit = found.built.units[number]
            assert isinstance(unit, Region)
            groups = [replace(one, group=at(one.group, values)) for one in made]
            if any(v.elements > _MOST for one in groups for v in (*one.group.inputs, *one.group.outputs)):
                return None
            data = graph_assembly.data_of(region_plan.planned(unit, groups))
            names[f"polydl_region_{number}"], _ = graph_assembly.region(data, [one.code for one in made], module)
        return stored.lines.function(first, {**folds, **names})

    function = SizedGraph(gm, sizes, make, o.sizes, beyond)
    return function, replace(report, seconds=time.perf_counter() - begin), watches


def _planned(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    static: Sequence[int],
    o: BackendOptions,
    lowerings: Lowerings,
    module: Any,
    far: int,
) -> tuple[GraphSizes, Planned, fx.GraphModule]:
    """The sizes of a graph up to those of a point that is so far, its plan, and the graph at the first point. Raises
    DiffersError."""
    sizes = sizes_of(gm, inputs, far)
    try:
        graphs = [static_graph(gm, one) for one in sizes.inputs]
    except (RuntimeError, ValueError, IndexError) as error:
        raise DiffersError(f"it cannot run at sizes near these: {error}") from error

    def together(laid: Sequence[LaidOut]) -> Any:
        rest = [one for one, _, _ in laid]
        same_operators(rest)
        _same_parts([parts for _, parts, _ in laid])
        return for_all_sizes(sizes.names, sizes.fit(), rest, lowerings)

    try:
        found = planned(graphs, static, o, lowerings, module, together)
    except RuntimeError as error:  # torch's, of operators that others are made of
        if not far:
            raise
        raise DiffersError(f"its operators cannot run at sizes near these: {error}") from error
    for one in (one for made in found.built.made.values() for one in made):
        told = group_check.difference(replace(one, group=at(one.group, sizes.points[0])), sizes.points[0])
        if told is not None:
            raise DiffersError(f"the code for all sizes computes other values than eager PyTorch: {told}")
    _with_sizes(found, sizes.fit(_PREFIX))
    return sizes, found, graphs[0]


class SizedGraph:
    """The function of a graph for any size: `make` gives that of values of its sizes, and is asked again when as many
    others were used since; None stands for eager PyTorch, which also runs sizes out of their range."""

    def __init__(
        self,
        gm: fx.GraphModule,
        sizes: GraphSizes,
        make: Callable[[Point], Function | None],
        most: int,
        beyond: Callable[[str], object],
    ) -> None:
        self._sizes, self._make, self._most, self._beyond = sizes, make, most, beyond
        self._told = False
        self._gm = gm
        self._made: dict[Point, Function] = {}
        self._lock = threading.Lock()

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        key = self._sizes.key(inputs)
        function = self._made.get(key) or self._made_for(key)
        return function(inputs)

    def _made_for(self, key: Point) -> Function:
        with self._lock:
            if key not in self._made:
                values = self._sizes.values(key)
                function = None if values is None else self._make(values)
                if function is None and not self._told:
                    self._beyond(f"its code is for sizes of {self._sizes}, and tensors of less than 2^31 elements")
                    self._told = True
                if len(self._made) >= self._most:
                    del self._made[next(iter(self._made))]
                self._made[key] = function or self._run_eagerly
            return self._made[key]

    def _run_eagerly(self, inputs: list[Any]) -> Sequence[Any]:
        given = list(inputs)
        inputs.clear()
        found: Sequence[Any] = fx.Interpreter(self._gm).run(*given)
        return found


def _same_parts(samples: Sequence[Sequence[Part]]) -> None:
    """Raises DiffersError where what is computed of parameters depends on sizes."""
    for same in zip(*samples, strict=False):
        same_operators([part.gm for part in same])
        for nodes in zip(*(part.gm.graph.nodes for part in same), strict=True):
            _united([(node.args, node.kwargs) for node in nodes], None)
    if len({tuple(part.inputs for part in parts) for parts in samples}) > 1:
        raise DiffersError("other parameters are read at other sizes")


def _with_sizes(found: Planned, fit: Fit) -> None:
    """Put the sizes in place of numbers that differ into the arguments of the nodes, which run eagerly or are views."""
    eager = {node.name for node in found.failed.nodes}
    for gm in found.graphs[1:]:
        pad_in_eager(gm.graph, [node for node in gm.graph.nodes if node.name in eager])
    same_operators(found.graphs)
    regions = (unit.nodes for unit in found.built.units if isinstance(unit, Region))
    lowered = {node for nodes in regions for node in nodes if not is_view(node)}
    for nodes in zip(*(gm.graph.nodes for gm in found.graphs), strict=True):
        if nodes[0] not in lowered:
            nodes[0].args, nodes[0].kwargs = _united([(node.args, node.kwargs) for node in nodes], fit)


def _united(samples: Sequence[Any], fit: Fit | None) -> Any:
    """One of the arguments of nodes at several sizes. Raises DiffersError."""
    first = samples[0]
    if isinstance(first, fx.Node):
        if any(not isinstance(one, fx.Node) or one.name != first.name for one in samples):
            raise DiffersError(f"other tensors than {first.name} are read at other sizes")
        return first
    if isinstance(first, tuple | list) and all(len(one) == len(first) for one in samples):
        made = [_united(same, fit) for same in zip(*samples, strict=True)]
        return made if isinstance(first, list) else tuple(made)
    if isinstance(first, dict) and all(one.keys() == first.keys() for one in samples):
        return {name: _united([one[name] for one in samples], fit) for name in first}
    if isinstance(first, slice):
        return slice(*_united([(one.start, one.stop, one.step) for one in samples], fit))
    if fit is not None and all(type(one) is int for one in samples) and any(one != first for one in samples):
        return fit(samples)
    if any(type(one) is not type(first) or repr(one) != repr(first) for one in samples):  # a NaN equals none
        raise DiffersError(f"there are other numbers at other sizes: {', '.join(map(repr, samples))}")
    return first
