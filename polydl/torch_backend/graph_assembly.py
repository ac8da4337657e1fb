"""The function of a graph from plain data: what a first compilation ends with, and what an entry of the cache holds.

Both a graph that was just compiled and one that an earlier process compiled become functions here, by the same lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from polydl.torch_backend.graph_report import GroupReport, RegionReport
from polydl.torch_backend.group_code import GroupCode
from polydl.torch_backend.region_plan import RegionPlan, Step
from polydl.torch_backend.straight_line import Lines

RELEASED = 200_000.0
"""Work of a region (floating-point operations plus bytes) from which its calls release the interpreter's lock: that
takes as long as some 10 µs of work are worth."""

Function = Callable[[list[Any]], Sequence[Any]]
"""Takes a list of inputs, which it empties, and returns the outputs."""


@dataclass(frozen=True, slots=True)
class GroupCall:
    """A call of a group's code."""

    key: str
    """Of the code in the cache."""
    name: str
    how: str
    numbers: tuple[int, ...]
    """Of the values that it is given."""
    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    work: float


@dataclass(frozen=True, slots=True)
class RegionData:
    """A region's arguments of `call_extension`'s Region."""

    inputs: int
    outputs: tuple[tuple[tuple[int, ...], tuple[int, ...], str], ...]
    """Sizes, strides and dtype of each."""
    offsets: tuple[int, ...]
    arena: int
    calls: tuple[GroupCall, ...]
    bounds: tuple[tuple[int, int, tuple[int, ...], tuple[int, ...], int, int], ...]
    """What elements of inputs must be: number, bytes of an element, sizes, strides, least, most."""


def data_of(plan: RegionPlan) -> RegionData:
    """The data of a planned region. Where groups take sizes, these are an input behind the others."""
    inputs, sized = len(plan.inputs), plan.sized

    def numbers(step: Step) -> tuple[int, ...]:
        moved = tuple(n + (sized and n >= inputs) for n in step.numbers)
        return (inputs, *moved) if step.made.group.sizes else moved

    calls = tuple(
        GroupCall(
            step.made.code.key, step.made.code.name, step.made.code.how, numbers(step),
            tuple(node.name for node in step.made.group.nodes),
            tuple(str(node.target) for node in step.made.group.nodes), step.made.group.work,
        )
        for step in plan.steps
    )  # fmt: skip
    bounds = dict.fromkeys(
        (one.number, one.bytes, one.sizes, one.strides, one.least, one.most)
        for step in plan.steps
        for one in step.bounds
    )
    outputs = tuple((one.sizes, one.strides, str(one.dtype).removeprefix("torch.")) for one in plan.outputs)
    return RegionData(inputs + sized, outputs, plan.offsets, plan.arena, calls, tuple(bounds))


def region(data: RegionData, codes: Sequence[GroupCode], module: Any) -> tuple[Callable[..., Any], RegionReport]:
    """The function of a region whose calls are of these codes, in order, and what is said of it."""
    function = module.Region(
        data.inputs, tuple((sizes, strides, getattr(torch, dtype)) for sizes, strides, dtype in data.outputs),
        data.offsets, data.arena,
        tuple((code.address, call.numbers) for call, code in zip(data.calls, codes, strict=True)),
        sum(call.work for call in data.calls) >= RELEASED, data.bounds, tuple(code.library for code in codes),
    )  # fmt: skip
    reports = tuple(
        GroupReport(
            code.name, call.nodes, call.operators, code.how, code.variants, code.notes, call.work, code.written,
            code.text, code.file,
        )
        for call, code in zip(data.calls, codes, strict=True)
    )  # fmt: skip
    return function, RegionReport(reports, data.inputs, len(data.outputs), data.arena)


def folded(lines: Lines, gm: fx.GraphModule, weights: str, module: Any) -> Any:
    """What keeps the results of a function of parameters: `call_extension`'s Watch, or, if weights are frozen, what
    never looks at them again."""
    run = lines.function(gm, {})

    def compute(*tensors: torch.Tensor) -> Any:
        with torch.no_grad():
            return run(list(tensors))

    return (_Frozen if weights == "frozen" else module.Watch)(compute)


class _Frozen:
    """What was computed of tensors once, whatever happens to them."""

    def __init__(self, compute: Callable[..., Any]) -> None:
        self._compute = compute
        self._result: Any = None
        self.computed = 0

    def __call__(self, *tensors: torch.Tensor) -> Any:
        if self._result is None:
            self._result = self._compute(*tensors)
            self.computed += 1
        return self._result

    def forget(self) -> None:
        """Forget the result, so that the next call computes it."""
        self._result = None

    def forget_changed(self, tensors: set[int]) -> None:
        """Nothing: it is frozen."""
