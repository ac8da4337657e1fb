"""Which nodes of a graph have loops, and why the others have none."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import fx

from polydl.model.types import BOOL
from polydl.torch_backend import ops
from polydl.torch_backend.graph_values import Reason
from polydl.torch_backend.loop_index import Index
from polydl.torch_backend.loop_program import Expr, Load
from polydl.torch_backend.loop_writer import Writer
from polydl.torch_backend.operand_arrays import operand_array
from polydl.torch_backend.operator_call import (
    LOWERINGS,
    STORED,
    Call,
    Element,
    Kind,
    Lowered,
    Result,
    Target,
    Unsupported,
    cast,
    computed,
    loaded,
)

assert ops.__all__


def lowering(node: fx.Node) -> Reason | None:
    """None where the node can be lowered, else why not. Depends on the node and what its arguments are like."""
    try:
        check(node)
    except Unsupported as error:
        return Reason(node.name, target_name(node), str(error), place_of(node))
    return None


def target_name(node: fx.Node) -> str:
    return str(node.target) if not callable(node.target) or hasattr(node.target, "_schema") else node.target.__name__


def place_of(node: fx.Node) -> str:
    """The last line of the model in the node's stack trace, `file:line`."""
    for line in reversed((node.meta.get("stack_trace") or "").splitlines()):
        words = line.strip().split('"')
        if len(words) > 2 and words[0] == "File " and ", line " in words[2]:
            return f"{words[1]}:{words[2].split(', line ')[1].split(',')[0]}"
    return ""


def is_getitem(node: fx.Node) -> bool:
    """Whether the node takes one of several results."""
    return node.op == "call_function" and node.target is operator.getitem


def check(node: fx.Node) -> None:
    """Raises Unsupported for a node that has no lowering: it is lowered alone, for what would be written."""
    if is_getitem(node):
        parent = node.args[0]
        assert isinstance(parent, fx.Node)
        check(parent)
        return
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        raise Unsupported("it is no operator of ATen")
    if str(node.target) not in LOWERINGS:
        raise Unsupported("there is no lowering of it")
    for one in (*node.all_input_nodes, node):
        first, *others = _tensors(one.meta.get("val"))
        _check_tensor(first)
        if 0 in first.shape:
            raise Unsupported("a tensor of it has no elements")
        for value in others:
            _check_tensor(value)
    probed(node, ())


def _tensors(value: object) -> list[torch.Tensor]:
    found = [one for one in value if one is not None] if isinstance(value, list | tuple) else [value]
    tensors = [one for one in found if isinstance(one, torch.Tensor)]
    if not found:
        raise Unsupported("it gives nothing")
    for one in found:
        if not isinstance(one, torch.Tensor):
            raise Unsupported(f"it handles a {type(one).__name__} that is computed")
    return tensors


def _check_tensor(value: torch.Tensor) -> None:
    if value.dtype not in STORED:
        raise Unsupported(f"{str(value.dtype).removeprefix('torch.')} has no loops")
    if value.layout is not torch.strided:
        raise Unsupported("a tensor of it is sparse")
    if value.device.type != "cpu":
        raise Unsupported("a tensor of it is not in the processor's memory")
    if not all(isinstance(n, int) for n in (*value.shape, *value.stride())):
        raise Unsupported("a size of it is known only when it runs")
    if value.is_conj() or value.is_neg():
        raise Unsupported("a tensor of it is a conjugate or negated view")


@dataclass(frozen=True, slots=True)
class Read:
    """An element that an operator reads at a point of its domain."""

    node: fx.Node
    index: tuple[Index, ...]
    guarded: bool
    """Whether it may lie outside of the tensor, and is not read then."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What an operator reads at one point of its domain."""

    lowered: Lowered
    point: tuple[Index, ...]
    """The axes of the domain."""
    reads: tuple[Read, ...]
    checked: tuple[fx.Node, ...]
    """Tensors of indices that must be in memory before it runs: they are checked there."""


class _Recording:
    """The scope of an operator alone: what it asks for is in memory, and noted; views among `inner` are looked
    through."""

    def __init__(self, inner: Sequence[fx.Node] | frozenset[fx.Node]) -> None:
        self.writer = Writer()
        self.reads: list[Read] = []
        self.checked: list[fx.Node] = []
        self._inner = inner

    def element(self, node: fx.Node) -> Element:
        if node in self._inner:
            found = view_of(node, self)
            if found is not None:
                return found
        value = node.meta["val"]
        sizes = tuple(value.shape)
        array, subscripts = operand_array(node.name, STORED[value.dtype], sizes, value.stride())

        def at(index: tuple[Index, ...]) -> Expr:
            self.reads.append(Read(node, index, self.writer.guarded))
            return loaded(array, subscripts(index), value.dtype)

        return Element(sizes, value.dtype, at)

    def bound(self, node: fx.Node, least: int, most: int, *, known: bool = False) -> None:
        """Nothing is run here."""
        if not known:
            self.checked.append(node)


def view_of(node: fx.Node, scope: object) -> Element | None:
    """The element of another tensor that a view gives; None for what is no view."""
    parent, number = (node.args[0], node.args[1]) if is_getitem(node) else (node, 0)
    assert isinstance(parent, fx.Node) and isinstance(number, int)
    if str(parent.target) not in VIEWS:
        return None
    return lowered(parent, scope).results[number].element


VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        "view.default", "_unsafe_view.default", "squeeze.default", "squeeze.dim", "squeeze.dims",
        "unsqueeze.default", "permute.default", "transpose.int", "t.default", "numpy_T.default", "expand.default",
        "select.int", "slice.Tensor", "diagonal.default", "split.Tensor", "split_with_sizes.default", "unbind.int",
        "reshape.default", "flatten.using_ints", "_reshape_alias.default", "chunk.default",
    )
)  # fmt: skip
"""Operators whose result is the same memory: never written by a group."""


def lowered(node: fx.Node, scope: object) -> Lowered:
    """The loops of an operator in a scope. Raises Unsupported."""
    return LOWERINGS[str(node.target)](Call(node, scope))  # type: ignore[arg-type]


def probed(node: fx.Node, inner: Sequence[fx.Node] | frozenset[fx.Node]) -> Probe:
    """Lowers an operator alone at one point. Raises Unsupported."""
    scope = _Recording(inner)
    found = lowered(node, scope)
    assert (found.kind is Kind.VIEW) == (str(node.target) in VIEWS), node.target
    made = [scope.writer.variables(extent, axis) for axis, extent in enumerate(found.domain)]
    point = tuple(index for index, _ in made)
    if found.write is not None:
        targets = [_target(number, result) for number, result in enumerate(found.results)]
        found.write(targets)
        return Probe(found, point, tuple(scope.reads), tuple(scope.checked))
    with scope.writer.loops([var for _, variables in made for var in variables]):
        for result in found.results:
            if result.element.absent or 0 in result.element.sizes:
                continue
            value = result.element.at(result.place(point))
            assert value.type is computed(result.element.dtype) or value.type is BOOL, (node.target, value)
            cast(value, computed(result.element.dtype))
    return Probe(found, point, tuple(scope.reads), tuple(scope.checked))


def checked_indices(node: fx.Node) -> tuple[fx.Node, ...]:
    """Tensors of indices that must be in memory before a lowered node runs."""
    if is_getitem(node) or str(node.target) not in LOWERINGS:
        return ()
    if all(one.meta["val"].dtype.is_floating_point for one in node.all_input_nodes):
        return ()
    return probed(node, ()).checked


def _target(number: int, result: Result) -> Target | None:
    """Memory for a result that a lowering writes."""
    element = result.element
    if element.absent:
        return None
    array, subscripts = operand_array(f"o{number}", STORED[element.dtype], element.sizes, _plain(element.sizes))
    return lambda index: Load(array, subscripts(index))


def _plain(sizes: tuple[int, ...]) -> tuple[int, ...]:
    found, step = [], 1
    for size in reversed(sizes):
        found.append(step)
        step *= size
    return tuple(reversed(found))
