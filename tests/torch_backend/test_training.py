"""Training through the backend: gradients of parameters and inputs are those of eager PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from polydl.torch_backend.backend import polydl
from polydl.torch_backend.graph_report import GraphReport


def gradients(module: Callable[..., Tensor], inputs: list[Tensor], parameters: Iterator[Tensor]) -> list[Tensor]:
    """The result of a module, and the gradients of its sum with a weighting of each element."""
    given = [one.detach().requires_grad_() if one.is_floating_point() else one for one in inputs]
    found = module(*given)
    weighting = torch.linspace(-1, 2, found.numel()).reshape(found.shape).to(found.dtype)
    wanted = [one for one in (*given, *parameters) if one.requires_grad]
    return [found.detach(), *torch.autograd.grad(found, wanted, weighting)]


@pytest.mark.parametrize("width", [3, 5, 9, 16])
def test_selected_gradients_of_short_rows(width: int) -> None:
    """gcc 12.2 vectorizes loads under a condition around a short loop with the mask of another vector."""
    relu = nn.Sequential(nn.BatchNorm2d(8), nn.ReLU()).eval()
    module, inputs = copy.deepcopy(relu), [torch.randn(2, 8, 16, width)]
    found = gradients(torch.compile(module, backend="polydl", options={"groups": 0}), inputs, module.parameters())
    torch.testing.assert_close(found, gradients(relu, inputs, relu.parameters()), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "norm", [nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.LayerNorm(9)], ids=lambda n: type(n).__name__
)
@pytest.mark.parametrize("training", [True, False])
def test_norm_of_halves_with_float_parameters(norm: nn.Module, training: bool) -> None:
    """PyTorch's meta tensors say that the statistics are halves; they are floats."""
    eager = nn.Sequential(nn.Conv2d(3, 4, 3, padding=2).half(), copy.deepcopy(norm)).train(training)
    module, inputs = copy.deepcopy(eager), [torch.randn(2, 3, 7, 7).half()]
    found = gradients(torch.compile(module, backend="polydl", options={"groups": 0}), inputs, module.parameters())
    expected = gradients(eager, inputs, eager.parameters())
    assert [one.dtype for one in found] == [one.dtype for one in expected]
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=3e-2)
    torch.testing.assert_close(list(module.buffers()), list(eager.buffers()), rtol=1e-2, atol=1e-2)


def test_inference_of_a_norm_of_halves_is_compiled() -> None:
    """Nothing reads its statistics."""
    reports: list[GraphReport] = []
    module, x = nn.BatchNorm2d(4).eval(), torch.randn(2, 4, 7, 7).half()
    with torch.no_grad():
        found = torch.compile(module, backend=polydl, options={"groups": 0, "report": reports.append})(x)
        torch.testing.assert_close(found, module(x), rtol=1e-3, atol=1e-3)
    assert not reports[0].eager
