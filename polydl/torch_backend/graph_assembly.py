"""The function of a graph from plain data: what a first compilation ends with, and what an entry of the cache holds.

Both a graph that was just compiled and one that an earlier process compiled become functions here, by the same lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from polydl.torch_backend.graph_report import GroupReport, RegionReport
from polydl.torch_backend.group_code import GroupCode
from polydl.torch_backend.region_plan import RegionPlan, Step
from polydl.torch_backend.size_polynomials import Number, Polynomial
from polydl.torch_backend.size_polynomials import numbers as numbers_of
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
    outputs: tuple[tuple[tuple[Number, ...], tuple[Number, ...], str], ...]
    """Sizes, strides and dtype of each."""
    offsets: tuple[int, ...]
    arena: int
    stack: tuple[tuple[int, Number, tuple[int, ...]], ...]
    """Of `RegionPlan`, where any number changes with sizes, which are the last input then; else empty."""
    calls: tuple[GroupCall, ...]
    bounds: tuple[tuple[int, int, tuple[Number, ...], tuple[Number, ...], Number, Number], ...]
    """What elements of inputs must be: number, bytes of an element, sizes, strides, least, most."""

    @property
    def changes(self) -> bool:
        """Whether any number changes with sizes."""
        return _changes((self.outputs, self.stack, self.bounds))


def _changes(value: object) -> bool:
    return isinstance(value, Polynomial) or (isinstance(value, tuple) and any(map(_changes, value)))


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
        numbers_of((one.number, one.bytes, one.sizes, one.strides, one.least, one.most))
        for step in plan.steps
        for one in step.bounds
    )
    outputs = tuple(
        (*numbers_of((one.sizes, one.strides)), str(one.dtype).removeprefix("torch.")) for one in plan.outputs
    )
    found = RegionData(inputs + sized, outputs, plan.offsets, plan.arena, plan.stack, calls, tuple(bounds))
    return found if found.changes else replace(found, stack=())


def region(data: RegionData, codes: Sequence[GroupCode], module: Any) -> tuple[Callable[..., Any], RegionReport]:
    """The function of a region whose calls are of these codes, in order, and what is said of it."""
    outputs = tuple((sizes, strides, getattr(torch, dtype)) for sizes, strides, dtype in data.outputs)
    calls = tuple((code.address, call.numbers) for call, code in zip(data.calls, codes, strict=True))
    release, owners = sum(call.work for call in data.calls) >= RELEASED, tuple(code.library for code in codes)
    if data.changes:
        made, stack, bounds = map(_listed, (outputs, data.stack, data.bounds))
        function = module.SizedRegion(data.inputs, made, stack, calls, release, bounds, owners)
    else:
        function = module.Region(
            data.inputs, outputs, data.offsets, data.arena, calls, release, data.bounds, owners
        )  # fmt: skip
    reports = tuple(
        GroupReport(
            code.name, call.nodes, call.operators, code.how, code.variants, code.notes, call.work, code.written,
            code.text, code.file,
        )
        for call, code in zip(data.calls, codes, strict=True)
    )  # fmt: skip
    return function, RegionReport(reports, data.inputs, len(data.outputs), data.arena)


def _listed(value: Any) -> Any:
    """With lists of terms in place of polynomials, as `SizedRegion` takes them."""
    if isinstance(value, Polynomial):
        return list(value.terms)
    return tuple(map(_listed, value)) if isinstance(value, tuple) else value


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
