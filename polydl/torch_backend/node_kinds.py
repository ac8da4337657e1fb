"""What each node of a graph is: an input, a view, lowered to loops, or left to eager PyTorch for a reason."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from polydl.torch_backend.graph_values import Reason
from polydl.torch_backend.support import place_of, target_name

Lowering = Callable[[fx.Node], Reason | None]
"""`support.lowering`: None for a node that can be lowered."""


class Kind(Enum):
    """What runs a node."""

    INPUT = "input"
    """A placeholder or constant: nothing runs."""
    VIEW = "view"
    """A view that loops take as an access to its base; run by ATen where its tensor is needed."""
    LOWERED = "lowered"
    EAGER = "eager"


def kinds(graph: fx.Graph, lowering: Lowering) -> tuple[dict[fx.Node, Kind], list[Reason]]:
    """The kind of every node but the output's, and why those that are left to eager are."""
    found: dict[fx.Node, Kind] = {}
    reasons: list[Reason] = []
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            found[node] = Kind.INPUT
        elif node.target is operator.getitem:  # one of several results is made by whatever makes them all
            found[node] = found[node.all_input_nodes[0]]
        elif node.op != "output":
            why = outside(node) or lowering(node)
            if why is None:
                found[node] = Kind.VIEW if is_view(node) else Kind.LOWERED
            else:
                found[node] = Kind.EAGER
                reasons.append(why)
    return found, reasons


def is_view(node: fx.Node) -> bool:
    """Whether the result shares memory with the first argument: by the operator's schema, or because it is the view of
    a tensor that nothing else has (`_unsafe_view`)."""
    if node.target is operator.getitem:
        return is_view(node.all_input_nodes[0])
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    return bool(node.target.is_view) or node.target is torch.ops.aten._unsafe_view.default


def readers(node: fx.Node) -> Iterator[fx.Node]:
    """What reads a node's tensor, or a view of it."""
    pending = list(node.users)
    while pending:
        user = pending.pop()
        if is_view(user):
            pending += user.users
        else:
            yield user


def base_of(node: fx.Node, found: dict[fx.Node, Kind]) -> fx.Node:
    """The node whose memory a node's tensor lies in, through views."""
    while found.get(node) is Kind.VIEW:
        node = node.all_input_nodes[0]
    return node


def memory_of(node: fx.Node) -> fx.Node:
    """The node whose memory a node's tensor lies in, through all views, whatever runs them."""
    while is_view(node):
        node = node.all_input_nodes[0]
    return node


def ordered_after_all(node: fx.Node) -> bool:
    """Whether a node changes what others read: it stays behind everything before it, and before everything behind."""
    if node.op != "call_function" or node.target is operator.getitem:
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        return bool(node.target._schema.is_mutable)
    return isinstance(node.target, torch._ops.HigherOrderOperator)


def in_sequence(node: fx.Node) -> bool:
    """Whether a node keeps its place among others of its kind: it draws random numbers or has effects."""
    if ordered_after_all(node):
        return True
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    if _drops_nothing(node):
        return False
    return torch.Tag.nondeterministic_seeded in target.tags or bool(node.is_impure())


def _drops_nothing(node: fx.Node) -> bool:
    """Whether an operator would draw random numbers to drop elements, and is told to drop none: attention."""
    assert isinstance(node.target, torch._ops.OpOverload)
    for number, one in enumerate(node.target._schema.arguments):
        if one.name == "dropout_p":
            given = node.args[number] if number < len(node.args) else node.kwargs.get(one.name, one.default_value)
            return isinstance(given, int | float) and not given
    return False


def reason(node: fx.Node, why: str) -> Reason:
    """Why a node is left to eager, with the line of the model that it comes from."""
    return Reason(node.name, target_name(node), why, place_of(node))


def outside(node: fx.Node) -> Reason | None:
    """Why a node can have no loops whatever its operator: its target, or a tensor that is not plain."""
    if node.op != "call_function":
        return reason(node, f"{node.op} has no lowering")
    if not isinstance(node.target, torch._ops.OpOverload):
        return reason(node, "it is no ATen operator")
    if in_sequence(node):
        return reason(node, "it draws random numbers, changes a tensor in place or has effects")
    if any(map(_has_untold_type, (node, *map(memory_of, node.all_input_nodes)))):
        return reason(node, "PyTorch gives statistics or gradients of a norm in another type than the graph says")
    for one in (*node.all_input_nodes, node):
        for leaf in _leaves(one):
            why = not_plain(leaf)
            if why is not None:
                return reason(node, why if one is node else f"{one.name}: {why}")
    return None


_NORMS: frozenset[Any] = frozenset(
    getattr(torch.ops.aten, name)
    for name in (
        "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
        "_native_batch_norm_legit_no_training", "native_group_norm", "native_layer_norm",
    )
)  # fmt: skip
_NORMS_BACKWARD: frozenset[Any] = frozenset(
    getattr(torch.ops.aten, f"native_{name}_norm_backward") for name in ("batch", "group", "layer")
)


_NARROW = frozenset((torch.float16, torch.bfloat16))


def _has_untold_type(node: fx.Node) -> bool:
    """Whether a node is a norm, or a result of one, whose type is not that of `meta["val"]`: of a narrow tensor and
    float parameters the statistics are float, and said to be narrow. Who reads one must be eager as well, or it would
    take one type for the other."""
    norm, number = (node.args[0], node.args[1]) if node.target is operator.getitem else (node, None)
    packet = getattr(getattr(norm, "target", None), "overloadpacket", None)
    if not isinstance(norm, fx.Node) or (packet not in _NORMS and packet not in _NORMS_BACKWARD):
        return False
    values = [one.meta.get("val") for one in norm.all_input_nodes]
    types = {value.dtype for value in values if isinstance(value, torch.Tensor)}
    if packet in _NORMS_BACKWARD:
        return len(types) > 1
    asked = {user.args[1] for user in norm.users if user.target is operator.getitem} if number is None else {number}
    # The new running statistics of a module of halves are said to be float, and are halves.
    return (len(types) > 1 and bool(asked & {1, 2})) or (bool(types & _NARROW) and bool(asked & {3, 4}))


def not_plain(value: object) -> str | None:
    """Why a value of `meta["val"]` is no dense tensor in main memory with known sizes."""
    if value is None:
        return None
    if not isinstance(value, torch.Tensor):
        return "a size is known only when it runs" if isinstance(value, torch.SymInt) else "it is no tensor"
    if value.layout is not torch.strided:
        return f"it is {value.layout}"
    if value.device.type != "cpu":
        return f"it is on {value.device}"
    if value.is_quantized or value.is_conj() or value.is_neg():
        return "it is quantized, conjugated or negated by a bit"
    if any(not isinstance(n, int) for n in (*value.shape, *value.stride())):
        return "a size is known only when it runs"
    return None


def _leaves(node: fx.Node) -> Iterator[Any]:
    if "val" not in node.meta:
        if node.op == "get_attr":
            return iter(("a constant without a tensor",))
        raise AssertionError(f"{node.name} has no meta['val']")
    return iter(pytree.tree_leaves(node.meta["val"]))
