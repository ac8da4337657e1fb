"""Runs the code of a group beside its operators in eager PyTorch, before any graph uses it.

What was taken by its estimate has run nowhere: an error in its loops, in their schedule or in the compiler would be
found by whoever reads the model's results. The operators are run on small whole numbers of both signs, of which sums of
products are exact in any order; on numbers in [0.5, 1.5), where every function is defined and there are no ties; and on
what programs stumble over: integers that wrap, NaN, infinities, -0, denormals, ties. What the code writes lies between
bytes that it must leave as they are, and is no number before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import unset_fake_temporarily

from polydl.torch_backend import calls_in_python, graph_assembly, region_plan
from polydl.torch_backend.graph_levels import Region
from polydl.torch_backend.graph_values import value_of
from polydl.torch_backend.node_kinds import is_view
from polydl.torch_backend.region_plan import Group, Made
from polydl.torch_backend.support import is_getitem

_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 8e-2}
"""By type, of an element's magnitude plus the median of all: what other orders of sums and other functions may differ
by. Code that is wrong is not wrong by as little."""
_LEAST = 1e-3
"""That the median counts for at least: sums of numbers of both signs may be zero but for their rounding."""
_FLIPS = 0.01
"""Part of the whole numbers made of floats that may differ: where a rounding, a comparison or an extreme is decided by
the last bit. Of less than a hundred elements none."""
_MOST_WORK = 1e8
"""Of a group with floats, operations plus bytes, up to which it also runs on what programs stumble over: 0.1 s."""
_MOST_BYTES = 1 << 30
"""Of a group's tensors, from which on it is not run: memory may be short, and each run takes seconds."""
_PERIOD = 65537
"""Elements after which data repeat: drawing so many takes no time, and a prime is no multiple of a tensor's sizes."""

_UNCHECKED = frozenset((
    "aten::max_pool2d_with_indices_backward", "aten::max_pool3d_with_indices_backward",
    "aten::scatter", "aten::index_put", "polydl::linear_blocks",
))  # fmt: skip
"""Operators whose tensors of indices no data that are drawn stand for: they came from the operator before, must begin
segments, or must name no place twice."""

_GUARD = 4096
"""Bytes on either side of what a group writes: a page."""

_BY_LIBRARIES = re.compile(r"^aten::(addmm|mm|bmm|baddbmm|mv|dot|vdot|linear|convolution|_scaled_dot|upsample)")

_checked: set[str] = set()
"""Keys of code that was run in this process."""


def difference(made: Made, sizes: Sequence[int] = ()) -> str | None:
    """How the results of a group's code differ from those of its operators in eager PyTorch; None if they do not, or if
    the code was checked before. The group's tensors have numbers for sizes; `sizes` are those that its code takes."""
    group, key = made.group, made.code.key
    if key in _checked or group.moved > _MOST_BYTES:
        return None
    if is_undrawn(group):
        return None
    if 0 in (size for value in (*group.inputs, *group.outputs) for size in value.sizes):
        return None
    with unset_fake_temporarily(), torch.no_grad():  # while torch compiles, its tensors have no memory
        told = _difference(made, sizes)
    if told is None:
        _checked.add(key)
    return told


def is_undrawn(group: Group) -> bool:
    """Whether a group reads tensors of indices that no data that are drawn stand for."""
    return any(isinstance(node.target, OpOverload) and node.target._schema.name in _UNCHECKED for node in group.nodes)


def _difference(made: Made, sizes: Sequence[int]) -> str | None:
    group = made.group
    outputs = tuple(value.node for value in group.outputs)
    plan = region_plan.planned(Region(group.nodes, outputs), [made])
    run, _ = graph_assembly.region(graph_assembly.data_of(plan), [made.code], _Guards)
    assert isinstance(run, _Guarded)
    read = tuple(value.node for value in plan.inputs)
    ranges = {
        group.inputs[position].node: (least, most)
        for position, least, most in (*group.known_ranges, *group.index_ranges)
    }
    order = tuple(operators(outputs, frozenset((*group.nodes, *outputs)), frozenset(read)))
    wholes = all(not value.dtype.is_floating_point for value in group.inputs)
    tolerance = max((_TOLERANCE[one] for one in _types((*order, *read)) if one in _TOLERANCE), default=0.0)
    generator = torch.Generator().manual_seed(0)  # torch's own stays as it is
    special = _special if all(map(_is_elementwise, order)) else _special_finite
    for draw, what in ((_small, "small whole numbers"), (_positive, "numbers in [0.5, 1.5)"), (special, SPECIAL)):
        if draw is special and not (_is_total(order) and (wholes or group.work <= _MOST_WORK)):
            continue
        given = {node: _tensor(node, ranges.get(node), draw, generator) for node in leaves(order, read)}
        inputs = [_guarded(given[node]) for node in read]
        expected = _eager(order, outputs, given)
        found = run(*inputs, *([torch.tensor(sizes)] if group.sizes else ()))
        for node, one in zip(read, inputs, strict=True):
            if not _same(one, given[node]):
                return f"on {what}, it changes its input {node.name}"
        if run.broken() or not all(map(_is_whole, inputs)):
            return f"on {what}, it writes outside of its tensors"
        each = (found,) if len(outputs) == 1 else found
        if draw is special:
            again = _eager(order, outputs, given, apart=True)
            each = [_where_told(*three, tolerance) for three in zip(each, expected, again, strict=True)]
        for node, mine, theirs in zip(outputs, each, expected, strict=True):
            exact = draw is _small or wholes
            told = _compared(mine, theirs, tolerance, exact=exact, classes=draw is special)
            if told is not None:
                return f"on {what}, {node.name} {told}"
    return None


def _is_total(order: Sequence[fx.Node]) -> bool:
    """Whether operators are defined on all numbers: a conversion of a float that an integer does not hold is not, and
    PyTorch's quotient of the least integer and -1 ends the process. Where a NaN or a denormal goes in a product of
    matrices depends on PyTorch's libraries (which pad with 0, or skip), and so it does at the borders of resized
    images."""
    for node in order:
        floats = any(one.is_floating_point for one in _types(node.all_input_nodes))
        if floats and isinstance(node.target, OpOverload) and _BY_LIBRARIES.search(node.target._schema.name):
            return False
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor) or value.dtype.is_floating_point or value.dtype is torch.bool:
            continue
        if node.kwargs.get("rounding_mode") is not None and -1 in node.args:
            return False
        if floats and not _is_place(node):
            return False
    return True


def _is_elementwise(node: fx.Node) -> bool:
    """Whether each element is made of one of each argument. Libraries of matrix products take denormals for 0, whose
    product with an infinity is NaN."""
    return is_view(node) or (isinstance(node.target, OpOverload) and torch.Tag.pointwise in node.target.tags)


def _is_place(node: fx.Node) -> bool:
    """Whether the integers that an operator of floats gives are places of elements."""
    return "arg" in str(node.target)


class _Guarded(calls_in_python.Region):
    """A region whose memory lies between guards, and is no number before it is written."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._all: list[torch.Tensor] = []

    def made(self, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        self._all.append(_between_guards(sizes, strides, dtype))
        return self._all[-1]

    def broken(self) -> bool:
        """Whether a guard was written to."""
        return not all(map(_is_whole, self._all))


class _Guards:
    Region = _Guarded


def _between_guards(sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    span = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    bytes_ = torch.full((2 * _GUARD + span * dtype.itemsize,), 255, dtype=torch.uint8)
    return bytes_[_GUARD : _GUARD + span * dtype.itemsize].view(dtype).as_strided(tuple(sizes), tuple(strides))


def _guarded(tensor: torch.Tensor) -> torch.Tensor:
    """A copy between guards."""
    made = _between_guards(tensor.shape, tensor.stride(), tensor.dtype)
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    made.as_strided((span,), (1,)).copy_(tensor.as_strided((span,), (1,)))  # elements may be there several times
    return made


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether the guards around a tensor are as they were."""
    every = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    return bool((every[:_GUARD] == 255).all()) and bool((every[-_GUARD:] == 255).all())


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one, other) or bool(((one == other) | ((one != one) & (other != other))).all())


Draw = Callable[[int, torch.dtype, torch.Generator], torch.Tensor]


def _small(count: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    return torch.randint(-3, 4, (count,), generator=generator).to(dtype)


def _positive(count: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    if not dtype.is_floating_point:
        return torch.randint(0, 4, (count,), generator=generator).to(dtype)
    return torch.rand(count, generator=generator).add_(0.5).to(dtype)


SPECIAL = "integers that wrap, NaN, infinities, -0, denormals and ties"
_FEW = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40)
_FINITE = tuple(0.0 if math.isinf(one) else one for one in _FEW)


def _special(count: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Of integers all, with more of the least and greatest; of floats few values, every eighth what is hardly one."""
    return _with(_FEW, count, dtype, generator)


def _special_finite(count: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    return _with(_FINITE, count, dtype, generator)


def _with(few: Sequence[float], count: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    which = torch.randint(0, 8 * len(few), (count,), generator=generator)
    if dtype.is_floating_point:
        rare = torch.tensor(few, dtype=torch.float64)
        common = torch.randint(-4, 5, (count,), generator=generator).double() / 2
        return torch.where(which < len(few), rare[which % len(few)], common).to(dtype)
    ends = torch.iinfo(dtype)
    extremes = torch.tensor((ends.min, ends.max, ends.max - 1, 0, 1, -1, ends.min + 1))
    every = torch.randint(-(1 << 63), (1 << 63) - 1, (count,), generator=generator)
    return torch.where(which < 24, extremes[which % len(extremes)], every).to(dtype)


def _tensor(node: fx.Node, ends: tuple[int, int] | None, draw: Draw, generator: torch.Generator) -> torch.Tensor:
    """Data for a tensor of the graph, between `ends` where it is one of indices."""
    value = value_of(node)
    count = min(value.elements, _PERIOD) or 1  # of an empty tensor none is taken
    if ends is not None:
        part = torch.randint(ends[0], ends[1] + 1, (count,), generator=generator).to(value.dtype)
    elif value.dtype is torch.bool:
        part = torch.randint(0, 2, (count,), generator=generator).to(torch.bool)
    else:
        part = draw(count, value.dtype, generator)
    times = -(-value.elements // count)
    return part.repeat(times)[: value.elements].as_strided(value.sizes, value.strides)


def operators(outputs: Sequence[fx.Node], members: frozenset[fx.Node], read: frozenset[fx.Node]) -> Iterator[fx.Node]:
    """The operators of a group and the views that they read through, each behind what it reads."""
    done = set(read)
    pending = [(node, False) for node in reversed(outputs)]
    while pending:
        node, ready = pending.pop()
        if ready:
            yield node
        elif (
            node not in done
            and node.op == "call_function"
            and (node in members or is_view(node) or (is_getitem(node) and node.args[0] in members))
        ):
            done.add(node)
            pending.append((node, True))
            pending += [(one, False) for one in node.all_input_nodes]


def leaves(order: Sequence[fx.Node], read: Sequence[fx.Node]) -> Sequence[fx.Node]:
    """What operators read and none of them makes: `read`, then tensors whose sizes alone matter."""
    made = frozenset(order)
    return tuple(dict.fromkeys([*read, *(one for node in order for one in node.all_input_nodes if one not in made)]))


def _eager(
    order: Sequence[fx.Node], outputs: Sequence[fx.Node], given: Mapping[fx.Node, torch.Tensor], *, apart: bool = False
) -> list[torch.Tensor]:
    """What eager PyTorch computes; `apart`: of elements with gaps between them, for which its kernels of single
    elements take other loops."""
    values: dict[fx.Node, Any] = dict(given)
    for node in order:
        moved = apart and not is_view(node) and _keeps_sizes(node)

        def value(one: fx.Node, moved: bool = moved) -> Any:
            found = values[one]
            return torch.stack((found, found), -1)[..., 0] if moved and isinstance(found, torch.Tensor) else found

        args = fx.node.map_arg(node.args, value)
        kwargs = fx.node.map_arg(node.kwargs, value)
        assert callable(node.target)
        values[node] = node.target(*args, **kwargs)
    return [values[node] for node in outputs]


def _keeps_sizes(node: fx.Node) -> bool:
    """Whether an operator gives one tensor as large as those that it takes: others may want theirs without gaps."""
    return isinstance(node.meta["val"], torch.Tensor) and all(
        isinstance(one.meta["val"], torch.Tensor) and one.meta["val"].shape == node.meta["val"].shape
        for one in node.all_input_nodes
    )


def _where_told(mine: torch.Tensor, theirs: torch.Tensor, again: torch.Tensor, tolerance: float) -> torch.Tensor:
    """Results, but for elements of which PyTorch says nothing: its loops over vectors and over single elements give
    different ones (the GELU of an infinity is NaN in vectors)."""
    close = torch.isclose(again.double(), theirs.double(), rtol=tolerance, atol=tolerance, equal_nan=True)
    return torch.where(close, mine, theirs)


def _types(nodes: Iterable[fx.Node]) -> Iterator[torch.dtype]:
    """The types of elements that pass between operators: results are as exact as the least exact of them."""
    for node in nodes:
        value = node.meta["val"]
        yield from (one.dtype for one in (value if isinstance(value, list | tuple) else [value]) if one is not None)


def _compared(
    mine: torch.Tensor, theirs: torch.Tensor, tolerance: float, *, exact: bool, classes: bool = False
) -> str | None:
    """How results differ from those of eager PyTorch, a clause; None if they do not. Elements that are infinite or no
    number in eager PyTorch are left out, unless `classes` says that they must be so here, too: where a sum overflows
    depends on its order."""
    if theirs.dtype.is_floating_point:
        expected, found = theirs.double(), mine.double()
        finite = expected.isfinite()
        magnitudes = expected[finite & (expected != 0)].abs()
        typical = max(_LEAST, float(magnitudes.median()) if magnitudes.numel() else 0.0)
        near = (found - expected).abs() <= tolerance * (expected.abs() + typical)
        wrong = finite & ~near
        if classes:
            wrong |= ~finite & (expected != found) & ~(expected.isnan() & found.isnan())
        allowed = 0
    else:
        wrong = mine != theirs
        allowed = 0 if exact else int(_FLIPS * theirs.numel())
    count = int(wrong.sum())
    if count <= allowed:
        return None
    place = tuple(wrong.nonzero()[0].tolist())
    return f"differs in {count} of {wrong.numel()} elements, at {list(place)} it is {mine[place]}, not {theirs[place]}"
