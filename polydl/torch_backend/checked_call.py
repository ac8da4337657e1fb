"""`options={"check": True}`: the first call of a graph is compared with eager PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from polydl.base.errors import PolyDLError
from polydl.torch_backend.graph_report import GraphReport

RELATIVE = {torch.float64: 1e-7, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Relative tolerance by type, with the same absolute one; what is no float must be equal."""


class Checked:
    """A graph's function whose first call also runs the graph eagerly. Raises PolyDLError where they differ."""

    def __init__(
        self, function: Callable[[list[Any]], Sequence[Any]], eager: Callable[..., Sequence[Any]], report: GraphReport
    ) -> None:
        self._function, self._eager, self._report = function, eager, report
        self._checked = False

    @staticmethod
    def reference(gm: fx.GraphModule) -> Callable[..., Sequence[Any]]:
        """The graph as eager PyTorch runs it, also after the graph was changed."""
        graph = fx.Graph()
        output = graph.graph_copy(gm.graph, {})
        graph.output(output)
        return fx.Interpreter(fx.GraphModule(gm, graph)).run

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        if self._checked:
            return self._function(inputs)
        state = torch.get_rng_state()
        given, changed = list(inputs), [_clone(one) for one in inputs]
        expected = self._eager(*changed)
        torch.set_rng_state(state)
        found = self._function(inputs)
        for one, other in zip(given, changed, strict=True):
            if isinstance(one, torch.Tensor) and one.numel():
                _compare(one.detach(), other, "input", self._report)
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            if isinstance(other, torch.Tensor):
                _compare(one, other, f"output {number}", self._report)
        self._checked = True
        return found


def _clone(value: Any) -> Any:
    return copy.deepcopy(value.detach()) if isinstance(value, torch.Tensor) else value


def _compare(found: torch.Tensor, expected: torch.Tensor, what: str, report: GraphReport) -> None:
    tolerance = RELATIVE.get(expected.dtype, 0.0)
    told = [(n, s) for n, s in zip(expected.shape, expected.stride(), strict=True) if n > 1]
    if told != [(n, s) for n, s in zip(found.shape, found.stride(), strict=True) if n > 1] and expected.numel():
        raise PolyDLError(f"{what} has strides {found.stride()}, eager PyTorch {expected.stride()}\n{report}")
    try:
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    except AssertionError as error:
        raise PolyDLError(f"{what} is not that of eager PyTorch: {error}\n{report}") from error
