"""How tensors lie in memory where only the graph knows of it: images between convolutions, and weights.

Images:

before:    y = convolution(x, w)               x, y in rows: [channel][row][column]
after:     y = convolution(clone(x), w')       x, y: [row][column][channel]
invariant: what leaves the graph has the strides that it had

The vectors of a convolution's loops are output channels then, whatever its stride and however narrow its image; pixels
are single elements that are broadcast, so that nothing is copied to be read with a stride. (oneDNN and Inductor lay
images out so as well.) Operators between convolutions take over the layout of what they read, as in eager PyTorch, and
so does a depthwise convolution, which reads vectors of neighbours in both.

Weights of these and of products of matrices:

before:    w: [out][in][window] (a product: [out][in])
after:     w' = reshape(p), p = clone(w) as [panel][window][in][output of the panel]
invariant: w' has the elements of w

Loops read the panels p, since a reshape is an access map to them: a microkernel goes through them element by element,
and copies nothing. The weights are parameters, or are computed of them: panels are made when they change.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Sequence
from math import prod
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from polydl.torch_backend import fold
from polydl.torch_backend.node_kinds import Lowering, memory_of, outside

_aten = torch.ops.aten
_VIEWS = (_aten.view.default, _aten._unsafe_view.default, _aten._reshape_alias.default)
"""Operators that fail where the dimensions that they join do not lie behind each other."""
_PRODUCTS: dict[Any, int] = {_aten.mm.default: 1, _aten.addmm.default: 2}
"""Products of matrices, and which of the arguments is the weight if one is: [in][out]."""
_PANEL = 32
"""Outputs of a panel: two vectors of floats with AVX-512, four with AVX2."""
_LEAST_CHANNELS = 16
"""Output channels of a convolution that gains: a vector of floats."""
_FLOATS = (torch.float32, torch.float64)


def lay_out(
    gm: fx.GraphModule, static: Sequence[int], lowering: Lowering, plain: Container[str] = ()
) -> tuple[fx.GraphModule, frozenset[str]]:
    """The graph with its images and weights laid out, and the names of the convolutions and products that this is for;
    the same graph where nothing gains. Images stay where laying out what comes and goes would move more than the
    convolutions themselves.

    `static` are the numbers of inputs that are the same tensors in every call, `plain` names of nodes that eager
    PyTorch runs: they read what they read before. Every node has `meta["val"]`.
    """
    images, products = _wanted(gm.graph, static, lowering, plain)
    if any(_is_bound_to_its_layout(node) for node in gm.graph.nodes):
        return gm, frozenset()
    if images:
        made = _LaidOut(gm.graph, images, products)
        if made.exact and made.converted <= sum(_elements(node) + _elements(node.args[0]) for node in images):
            return fx.GraphModule(gm, made.graph), frozenset(node.name for node in images | products)
    if products:
        made = _LaidOut(gm.graph, frozenset(), products)
        return fx.GraphModule(gm, made.graph), frozenset(node.name for node in products)
    return gm, frozenset()


def _wanted(
    graph: fx.Graph, static: Sequence[int], lowering: Lowering, plain: Container[str]
) -> tuple[frozenset[fx.Node], frozenset[fx.Node]]:
    """Convolutions of images and products of matrices whose weights are or depend on parameters alone. What a graph
    gives away may be kept for a backward pass: such weights change in each step, and such images would be laid out
    again."""
    placeholders = graph.find_nodes(op="placeholder")
    constant = fold.roots(graph, {placeholders[i]: i for i in static})
    output = next(iter(graph.find_nodes(op="output")))
    kept = {memory_of(node) for node in output.all_input_nodes}

    def gains(node: fx.Node, weight: int) -> bool:
        other: Any = node.args[weight]
        return (
            node.name not in plain and other in constant and memory_of(other) not in kept
            and other.meta["val"].dtype in _FLOATS and not outside(node) and lowering(node) is None
        )  # fmt: skip

    nodes = graph.find_nodes(op="call_function", target=_aten.convolution.default)
    images = [one for one in nodes if _has_vectors(one) and memory_of(one.args[0]) not in kept and gains(one, 1)]
    products = [
        node for target, weight in _PRODUCTS.items() for node in graph.find_nodes(op="call_function", target=target)
        if _has_panels(node) and gains(node, weight)
    ]  # fmt: skip
    return frozenset(images), frozenset(products)


def _has_vectors(node: fx.Node) -> bool:
    image, weight = node.args[0].meta["val"], node.args[1].meta["val"]  # type: ignore[union-attr]
    transposed, groups = node.args[6], node.args[8]
    if transposed or image.ndim != 4 or weight.shape[0] < _LEAST_CHANNELS or not _in_rows(node.meta["val"]):
        return False
    return bool(groups == 1 or groups == image.shape[1] == weight.shape[0])


def _is_planar_depthwise(node: fx.Node) -> bool:
    """Whether a convolution has a weight of its own for each channel, and reads them one after the other."""
    image, weight = node.args[0].meta["val"], node.args[1].meta["val"]  # type: ignore[union-attr]
    return weight.shape[1] == 1 < image.shape[1] and not image.is_contiguous(memory_format=torch.channels_last)


def _in_rows(image: torch.Tensor) -> bool:
    return image.is_contiguous() or image.is_contiguous(memory_format=torch.channels_last)


def _has_panels(node: fx.Node) -> bool:
    rows, outputs = node.meta["val"].shape
    return bool(rows > 1 and outputs > 0 and outputs % _PANEL == 0)


def _is_bound_to_its_layout(node: fx.Node) -> bool:
    """Whether a node's meaning depends on the strides of what it reads, or cannot be found out again."""
    if node.op != "call_function" or node.target is operator.getitem:
        return False
    if not isinstance(node.target, torch._ops.OpOverload) or node.target is _aten.as_strided.default:
        return True
    return any(not isinstance(n, int) for one in _tensors(node.meta.get("val")) for n in (*one.shape, *one.stride()))


def _tensors(value: Any) -> list[torch.Tensor]:
    values = value if isinstance(value, list | tuple) else [value]
    return [one for one in values if isinstance(one, torch.Tensor)]


def _elements(node: Any) -> int:
    return prod(node.meta["val"].shape)


class _LaidOut:
    """A copy of a graph in which these convolutions have channels innermost, what reads them follows, and these
    convolutions and products read their weights in panels."""

    def __init__(self, source: fx.Graph, images: frozenset[fx.Node], products: frozenset[fx.Node]) -> None:
        self.graph = fx.Graph()
        self.converted = 0
        """Elements that are written once more, to lie as others want them, in each call."""
        self.exact = True
        """Whether all results have the strides that they had."""
        self._images, self._products = images, products
        self._copies: dict[fx.Node, fx.Node] = {}
        values = [one for node in source.nodes for one in _tensors(node.meta.get("val"))]
        self._mode = detect_fake_mode(values) or FakeTensorMode(allow_non_fake_inputs=True)
        for node in source.nodes:
            match node.op:
                case "call_function":
                    self._copies[node] = self._call(node)
                case "output":
                    self.graph.output(fx.map_arg(node.args[0], self._as_before)).meta = dict(node.meta)
                case _:
                    self._copies[node] = self.graph.node_copy(node)

    def _call(self, node: fx.Node) -> fx.Node:
        made = self.graph.node_copy(node, self._copies.__getitem__)
        with self.graph.inserting_before(made):
            if node in self._images and not _is_planar_depthwise(made):
                made.args = (self._last(made.args[0]), self._window_panels(made.args[1]), *made.args[2:])
            elif node in self._products:
                place = _PRODUCTS[node.target]
                made.args = (*made.args[:place], self._panels(made.args[place]), *made.args[place + 1 :])
            elif node.target in _VIEWS and not self._works(made):
                made.args = (self._converted(made.args[0], torch.contiguous_format), *made.args[1:])
        if _tensors(node.meta.get("val")):
            made.meta["val"] = self._value(made)
        return made

    def _value(self, node: fx.Node) -> Any:
        """What the operator gives, without computing it."""
        args, kwargs = fx.map_arg((node.args, node.kwargs), self._fake)
        with self._mode, torch.no_grad():
            return node.target(*args, **kwargs)  # type: ignore[operator]

    def _fake(self, node: fx.Node) -> Any:
        value = node.meta["val"]
        real = isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
        return self._mode.from_tensor(value) if real else value

    def _works(self, node: fx.Node) -> bool:
        """Whether a view can be had of the strides that its tensor has now."""
        try:
            self._value(node)
        except (RuntimeError, ValueError):  # torch has no question for it
            return False
        return True

    def _last(self, image: Any) -> fx.Node:
        if image.meta["val"].is_contiguous(memory_format=torch.channels_last):
            return image  # type: ignore[no-any-return]
        return self._converted(image, torch.channels_last)

    def _converted(self, node: Any, memory_format: torch.memory_format) -> fx.Node:
        self.converted += _elements(node)
        return self._added(_aten.clone.default, node, memory_format=memory_format)

    def _window_panels(self, weight: Any) -> fx.Node:
        """The weight of a convolution in memory as [panel][window][in][output of the panel]."""
        outputs, inputs, *window = weight.meta["val"].shape
        if outputs % _PANEL or inputs == 1:  # a depthwise convolution needs no panels
            return self._turned(self._rows(self._turned(weight, 2, 3, 1, 0)), 3, 2, 0, 1)
        parts = self._added(_aten.reshape.default, weight, [outputs // _PANEL, _PANEL, inputs, *window])
        panels = self._turned(self._rows(self._turned(parts, 0, 3, 4, 2, 1)), 0, 4, 3, 1, 2)
        return self._added(_aten.reshape.default, panels, [outputs, inputs, *window])

    def _panels(self, weight: Any) -> fx.Node:
        """The weight of a product in memory as [panel][in][output of the panel]."""
        inputs, outputs = weight.meta["val"].shape
        parts = self._added(_aten.reshape.default, weight, [inputs, outputs // _PANEL, _PANEL])
        panels = self._turned(self._rows(self._turned(parts, 1, 0, 2)), 1, 0, 2)
        return self._added(_aten.reshape.default, panels, [inputs, outputs])

    def _turned(self, node: fx.Node, *order: int) -> fx.Node:
        return self._added(_aten.permute.default, node, list(order))

    def _rows(self, node: fx.Node) -> fx.Node:
        return self._added(_aten.clone.default, node, memory_format=torch.contiguous_format)

    def _added(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        made = self.graph.call_function(target, args, kwargs)
        made.meta["val"] = self._value(made)
        return made

    def _as_before(self, node: fx.Node) -> fx.Node:
        """A result with the strides that it had."""
        copied, before = self._copies[node], node.meta.get("val")
        if not isinstance(before, torch.Tensor) or copied.meta["val"].stride() == before.stride():
            return copied
        if before.is_contiguous():
            return self._converted(copied, torch.contiguous_format)
        order = sorted(range(before.ndim), key=lambda d: (-before.stride()[d], d))
        made = self._converted(self._turned(copied, *order), torch.contiguous_format)
        found = self._turned(made, *(order.index(d) for d in range(before.ndim)))
        self.exact = self.exact and found.meta["val"].stride() == before.stride()
        return found
