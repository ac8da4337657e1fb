"""Replaces operators without a lowering by smaller ones that have one.

Nothing is decomposed before autograd but what PyTorch itself takes apart: nodes that stay with eager PyTorch are its
own fused operators. A node without a lowering is replaced by its core-ATen decomposition only if every operator of
that can be lowered, itself decomposed if need be, and none reads at indices that others compute and that must be
checked. A convolution with padding becomes one of a padded tensor: its loops have no borders then, for which the
search would make code of their own. A batch norm of fixed statistics behind one goes into its weight and bias, which
are computed when parameters change, and not in each call.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import fx
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from polydl.torch_backend.graph_values import value_of
from polydl.torch_backend.node_kinds import Kind, Lowering, kinds, memory_of, outside
from polydl.torch_backend.operator_call import arguments_of
from polydl.torch_backend.support import checked_indices
from polydl.torch_backend.whole_operators import WHOLE

ORIGIN = "polydl_origin"
"""Of a node's meta: the `Origin` that it is a part of, if it is one."""


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """An operator that was replaced by its parts."""

    name: str
    """Of its node."""
    target: Callable[..., Any]
    args: tuple[Any, ...]
    """With a `Value` for each tensor."""
    kwargs: Mapping[str, Any]


_DEPTH = 6
"""How many times the parts of a decomposition are taken apart."""


@cache
def table() -> Mapping[Any, Callable[..., Any]]:
    """Operator -> a function that computes it by others: torch's core-ATen decompositions, and those that it uses
    while it traces."""
    more = {op: decomposition_table[op] for op in WHOLE if op in decomposition_table}
    return {**more, **core_aten_decompositions()}


def expand(gm: fx.GraphModule, lowering: Lowering, plain: Container[str] = ()) -> None:
    """Replace nodes of a graph by their decompositions, where all of these can be lowered, but for nodes with names
    that are `plain`: eager PyTorch runs them. Every new node has `meta["val"]`, the line of the model that the replaced
    node came from, and `meta[ORIGIN]`."""
    for node in list(gm.graph.nodes):
        if _is_norm_of_convolution(node):
            _fold_norm(gm.graph, node, lowering)
    found, _ = kinds(gm.graph, lowering)
    for node in [one for one in gm.graph.nodes if one.name not in plain]:
        parts = None
        if found.get(node) is Kind.EAGER:
            parts = _parts(node, table().get(node.target), lowering, _DEPTH)
        if parts is None and _has_equal_bags(node):
            parts = _parts(node, _rows_of_bags, lowering, 1)
        elif found.get(node) is Kind.LOWERED and _has_padding(node):
            parts = _parts(node, _padded_first, lowering, 1)
        if parts is not None:
            _inline(gm.graph, node, parts)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def forward_identities(graph: fx.Graph) -> None:
    """Let operators read what an `alias` or `detach` is of: after autograd it computes nothing. Results stay."""
    for node in graph.nodes:
        if node.target in (torch.ops.aten.alias.default, torch.ops.aten.detach.default):
            node.replace_all_uses_with(node.args[0], delete_user_cb=lambda user: user.op != "output")


def _is_norm_of_convolution(node: fx.Node) -> bool:
    """Whether a node normalises, with fixed statistics, what a convolution gives to it alone; weights and statistics
    are inputs of the graph of one type."""
    aten = torch.ops.aten
    source = node.args[0] if node.args else None
    if node.target is not aten._native_batch_norm_legit_no_training.default or any(u.args[1] != 0 for u in node.users):
        return False
    if not isinstance(source, fx.Node) or source.target is not aten.convolution.default or len(source.users) > 1:
        return False
    given = [one for one in (*source.args[1:3], *node.args[1:5]) if isinstance(one, fx.Node)]
    types = {one.meta["val"].dtype for one in given if "val" in one.meta}
    return not source.args[6] and len(types) == 1 and all(one.op in ("placeholder", "get_attr") for one in given)


def _fold_norm(graph: fx.Graph, node: fx.Node, lowering: Lowering) -> None:
    """Put one convolution in the place of a convolution and the batch norm behind it, if it can be lowered."""
    source = node.args[0]
    assert isinstance(source, fx.Node)
    with graph.inserting_before(node):
        both = graph.call_function(_normalised_convolution, (*source.args, *node.args[1:5], node.args[6]))
    parts = _traced(both, _normalised_convolution)
    (result,) = parts.find_nodes(op="output")[0].all_input_nodes
    users = list(node.users)
    if Kind.EAGER in kinds(parts, lowering)[0].values() or any(
        user.meta["val"].stride() != result.meta["val"].stride() for user in users
    ):
        graph.erase_node(both)
        return
    for user in users:
        user.replace_all_uses_with(both)
        graph.erase_node(user)
    graph.erase_node(node)
    graph.erase_node(source)
    _inline(graph, both, parts)


def _normalised_convolution(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any,
    groups: int, gamma: Any, beta: Any, mean: Any, variance: Any, eps: float,
) -> Any:  # fmt: skip
    """A convolution, normalised: gamma (w x + b - mean) / sqrt(variance + eps) + beta, as one of another weight."""
    scale = torch.rsqrt(variance + eps)
    scale = scale if gamma is None else scale * gamma
    shift = (-mean if bias is None else bias - mean) * scale
    shift = shift if beta is None else shift + beta
    weight = weight * scale.view(-1, *[1] * (weight.ndim - 1))
    return torch.ops.aten.convolution.default(
        x, weight, shift, stride, padding, dilation, transposed, output_padding, groups
    )


def _has_padding(node: fx.Node) -> bool:
    """Whether a node is a convolution, not a transposed one, of a tensor with zeros around it."""
    if node.target is not torch.ops.aten.convolution.default:
        return False
    padding, transposed = node.args[4], node.args[6]
    return not transposed and any(padding)  # type: ignore[arg-type]


def _padded_first(x: Any, weight: Any, bias: Any, stride: Any, padding: list[int], dilation: Any, *rest: Any) -> Any:
    """A convolution by one without padding."""
    pairs = padding * (x.ndim - 2) if len(padding) == 1 else padding
    x = torch.ops.aten.constant_pad_nd.default(x, [n for one in reversed(pairs) for n in (one, one)], 0)
    return torch.ops.aten.convolution.default(x, weight, bias, stride, [0] * len(padding), dilation, *rest)


def _has_equal_bags(node: fx.Node) -> bool:
    """Whether a node combines rows of a table in bags, as many in each, and gives nothing else that is read."""
    aten = torch.ops.aten
    if node.target not in (aten._embedding_bag.default, aten._embedding_bag_forward_only.default):
        return False
    given = arguments_of(node)
    offsets, bags = given["offsets"], given["offsets"].meta["val"].numel()
    if offsets.target is not aten.arange.start_step or any(user.args[1] != 0 for user in node.users):
        return False
    if given["per_sample_weights"] is not None or given["include_last_offset"] or given["padding_idx"] != -1:
        return False
    count = given["indices"].meta["val"].numel()
    return bags > 0 and count % bags == 0 and [*offsets.args, 1][:3] == [0, count, count // bags]


def _rows_of_bags(weight: Any, indices: Any, offsets: Any, scaled: bool = False, mode: int = 0, *_: Any) -> tuple[Any]:
    """The sums, means or extremes of bags of rows, as many in each."""
    aten = torch.ops.aten
    rows = aten.embedding.default(weight, aten.view.default(indices, [offsets.numel(), -1]))
    return ((aten.sum.dim_IntList, aten.mean.dim, aten.amax.default)[mode](rows, [1]),)


def pad_in_eager(graph: fx.Graph, eager: Container[fx.Node]) -> None:
    """Give convolutions that eager PyTorch runs the zeros that were put around their images for loops: its kernels need
    no padded copy."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default):
        source = node.args[0]
        if node not in eager or node.args[6] or source.target is not torch.ops.aten.constant_pad_nd.default:
            continue
        image, pads, *value = source.args
        pairs = list(zip(pads[::2], pads[1::2], strict=True))
        rank = node.meta["val"].ndim - 2
        if len(source.users) > 1 or len(pairs) > rank or any(a != b or a < 0 for a, b in pairs) or any(value):
            continue
        around = [*[0] * (rank - len(pairs)), *(a for a, _ in reversed(pairs))]
        known = node.args[4] * rank if len(node.args[4]) == 1 else node.args[4]
        node.args = (image, *node.args[1:4], [a + b for a, b in zip(around, known, strict=True)], *node.args[5:])
        graph.erase_node(source)


def _parts(node: fx.Node, by: Callable[..., Any] | None, lowering: Lowering, depth: int) -> fx.Graph | None:
    """A graph of lowered nodes that computes what a node does of its tensors, in order, as the function `by` does; None
    if there is none."""
    if depth == 0 or by is None or outside(node) is not None:
        return None
    graph = _traced(node, by)
    found, _ = kinds(graph, lowering)
    for part in list(graph.nodes):
        if found.get(part) is Kind.EAGER and part.target is not operator.getitem:
            smaller = None
            if part.target is not node.target:
                smaller = _parts(part, table().get(part.target), lowering, depth - 1)
            if smaller is None:
                return None
            _inline(graph, part, smaller)
        elif part.op == "get_attr":  # a tensor made while tracing
            return None
    indices = (memory_of(one) for part in graph.nodes for one in checked_indices(part))
    return None if any(one.op != "placeholder" for one in indices) else graph


def _traced(node: fx.Node, by: Callable[..., Any]) -> fx.Graph:
    """The graph of one step of a node's decomposition; its placeholders are the node's tensors in order."""
    flat, spec = pytree.tree_flatten((node.args, node.kwargs))
    places = [i for i, one in enumerate(flat) if isinstance(one, fx.Node)]
    values = [flat[i].meta["val"] for i in places]

    def run(*tensors: Any) -> Any:
        given = list(flat)
        for i, tensor in zip(places, tensors, strict=True):
            given[i] = tensor
        args, kwargs = _mutable(pytree.tree_unflatten(given, spec))
        return by(*args, **kwargs)

    with detect_fake_mode(values) or FakeTensorMode(allow_non_fake_inputs=True):
        return make_fx(run)(*values).graph


def traced(gm: fx.GraphModule, inputs: list[fx.Node], kept: list[fx.Node]) -> fx.GraphModule:
    """A graph of ATen operators as autograd leaves them: composite ones taken apart as PyTorch itself does. It takes
    those of the inputs that are `kept`; nothing reads the others."""

    def run(*tensors: Any) -> Any:
        given = dict(zip(kept, tensors, strict=True))
        with fx.traceback.preserve_node_meta():
            return fx.Interpreter(gm).run(*(given.get(node) for node in inputs), enable_io_processing=False)

    values = [node.meta["val"] for node in kept]
    with torch.no_grad(), detect_fake_mode(values) or FakeTensorMode(allow_non_fake_inputs=True):
        found = make_fx(run)(*values)
    for node in found.graph.nodes:
        if node.target is torch.ops.aten._assert_tensor_metadata.default:  # true of what was traced
            found.graph.erase_node(node)
    return found


def _mutable(value: Any) -> Any:
    """Arguments with plain lists and dicts in place of those of a graph: some decompositions change them."""
    if isinstance(value, tuple):
        return tuple(map(_mutable, value))
    if isinstance(value, list):
        return list(map(_mutable, value))
    if isinstance(value, dict):
        return {name: _mutable(one) for name, one in value.items()}
    return value


def _origin(node: fx.Node) -> Origin | None:
    """What a node is; None for one that no graph of PyTorch's has."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    args, kwargs = pytree.tree_map_only(fx.Node, value_of, (node.args, node.kwargs))
    return Origin(node.name, node.target, args, kwargs)


def _inline(graph: fx.Graph, node: fx.Node, parts: fx.Graph) -> None:
    """Put the nodes of `parts` in a node's place."""
    flat, _ = pytree.tree_flatten((node.args, node.kwargs))
    given = iter([one for one in flat if isinstance(one, fx.Node)])
    origin = node.meta.get(ORIGIN) or _origin(node)
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
                if origin is not None:
                    copies[part].meta[ORIGIN] = origin
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
