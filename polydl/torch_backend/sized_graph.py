"""Graphs with symbolic sizes as code that is made once: what is in numbers alone is worked out for each size.

The graph is lowered at a few sizes, and what is equal but for numbers that are affine in the sizes becomes groups that
take them (`sized_groups`). The lines of Python are given the sizes that come, and regions lay out the tensors between
groups by polynomials of them; no C is made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from polydl.torch_backend import call_extension, group_check, size_polynomials
from polydl.torch_backend.backend_options import BackendOptions
from polydl.torch_backend.decompositions import pad_in_eager
from polydl.torch_backend.fold import Part
from polydl.torch_backend.graph_compiler import LaidOut, Lowerings, Planned, planned, stored_of
from polydl.torch_backend.graph_levels import Region
from polydl.torch_backend.graph_report import GraphReport
from polydl.torch_backend.graph_sizes import FAR, GraphSizes, Point, sizes_of
from polydl.torch_backend.node_kinds import is_view
from polydl.torch_backend.region_plan import Group, at
from polydl.torch_backend.size_polynomials import Polynomial
from polydl.torch_backend.sized_groups import for_all_sizes, same_operators
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
    stored = stored_of(found, [f"{_PREFIX}{one.name}" for one in sizes.names])
    made, report, watches = assembled(stored, found.codes, first, o, module)
    groups = [one.group for made in found.built.made.values() for one in made]
    function = SizedGraph(gm, sizes, made, _counts(groups, sizes.most), beyond)
    return function, replace(report, seconds=time.perf_counter() - begin), watches


def _counts(groups: Sequence[Group], most: Point) -> tuple[Polynomial, ...]:
    """Elements of the tensors that may have more than an index can say, where sizes are at most these."""
    values = (value for group in groups for value in (*group.inputs, *group.outputs))
    found = dict.fromkeys(size_polynomials.elements(value.sizes, value.strides) for value in values)
    return tuple(one for one in found if isinstance(one, Polynomial) and one.most(most) > _MOST)


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
        found = planned(graphs, static, o, lowerings, module, together, sizes.points)
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
    """The function of a graph for any size; `run` takes a list of inputs, a tensor of all sizes, and each. Eager
    PyTorch runs sizes out of their range, and those of which one of the `counts` is too much."""

    def __init__(
        self,
        gm: fx.GraphModule,
        sizes: GraphSizes,
        run: Callable[..., Sequence[Any]],
        counts: Sequence[Polynomial],
        beyond: Callable[[str], object],
    ) -> None:
        self._gm, self._sizes, self._run, self._counts, self._beyond = gm, sizes, run, counts, beyond
        self._told = False
        self._last: tuple[Point, tuple[torch.Tensor, Point] | None] = ((), None)
        """The symbols of the last call, and what they give."""

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        key = self._sizes.key(inputs)
        last, given = self._last
        if last != key:
            given = self._given(key)
            self._last = (key, given)
        return self._run_eagerly(inputs) if given is None else self._run(inputs, given[0], *given[1])

    def _given(self, key: Point) -> tuple[torch.Tensor, Point] | None:
        values = self._sizes.values(key)
        if values is not None and all(one.at(values) <= _MOST for one in self._counts):
            return torch.tensor(values, dtype=torch.int64), values
        if not self._told:
            self._beyond(f"its code is for sizes of {self._sizes}, and tensors of less than 2^31 elements")
            self._told = True
        return None

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
