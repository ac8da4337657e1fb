"""Layouts of images: graphs that are laid out compute the same, with the strides that they had, where that pays."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as PyTorch users write it
from torch import Tensor, fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

from polydl.torch_backend import group_code, group_search
from polydl.torch_backend.graph_layouts import lay_out
from polydl.torch_backend.graph_report import GraphReport
from polydl.torch_backend.support import lowering

CLONE = torch.ops.aten.clone.default


def graph(function: Callable[..., Any], *inputs: Tensor) -> fx.GraphModule:
    return make_fx(torch.func.functionalize(function, remove="mutations"), tracing_mode="fake")(*inputs)


def laid_out(function: Callable[..., Any], *inputs: Tensor, weights: int = 1) -> tuple[fx.GraphModule, bool]:
    """The graph after `lay_out`, all inputs but the first as parameters, and whether it is another one. Both are run
    by eager PyTorch."""
    gm = graph(function, *inputs)
    found, _ = lay_out(gm, range(len(inputs) - weights, len(inputs)), lowering)
    found.graph.lint()
    with torch.no_grad():
        expected, given = gm(*inputs), found(*inputs)
    pairs = list(zip(expected, given, strict=True)) if isinstance(expected, tuple) else [(expected, given)]
    for one, other in pairs:
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)
        assert other.stride() == one.stride()
    for node in found.graph.find_nodes(op="output"):
        for one, (wanted, _) in zip(node.all_input_nodes, pairs, strict=False):
            assert one.meta["val"].stride() == wanted.stride()
    return found, found is not gm


def strides(gm: fx.GraphModule, target: Any) -> list[tuple[int, ...]]:
    return [node.meta["val"].stride() for node in gm.graph.find_nodes(op="call_function", target=target)]


def test_channels_are_innermost_in_images_and_weights() -> None:
    found, changed = laid_out(
        lambda x, w: F.conv2d(x, w, stride=2).relu(), torch.randn(2, 8, 9, 9), torch.randn(16, 8, 3, 3)
    )
    assert changed
    (convolution,) = found.graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default)
    assert convolution.meta["val"].stride() == (256, 1, 64, 16)
    assert convolution.args[1].meta["val"].stride() == (1, 16, 3 * 8 * 16, 8 * 16)


def test_one_layout_between_convolutions() -> None:
    """What comes and goes is laid out, and nothing in between: padding, activations, sums, pools, means."""

    def function(x: Tensor, *w: Tensor) -> Tensor:
        x = F.relu(F.conv2d(x, w[0], padding=1))
        y = F.max_pool2d(F.conv2d(F.pad(x, (1, 1, 1, 1)), w[1]) + x, 3, 2, 1)
        return F.conv2d(y, w[2], groups=16).mean((2, 3))

    weights = torch.randn(16, 3, 3, 3), torch.randn(16, 16, 3, 3), torch.randn(16, 1, 3, 3)
    found, changed = laid_out(function, torch.randn(2, 3, 12, 12), *weights, weights=3)
    assert changed
    images = [one for one in strides(found, CLONE) if len(one) == 4 and one[1] == 1]
    assert len(images) == 1
    assert all(one[1] == 1 for one in strides(found, torch.ops.aten.convolution.default))


@pytest.mark.parametrize("first", [False, True])
def test_a_depthwise_convolution_follows_what_it_reads(first: bool) -> None:
    def function(x: Tensor, w: Tensor, depthwise: Tensor) -> Tensor:
        return F.conv2d(F.conv2d(x, w) if first else x, depthwise, padding=1, groups=16)

    x, w, depthwise = torch.randn(2, 16, 9, 9), torch.randn(16, 16, 1, 1), torch.randn(16, 1, 3, 3)
    found, _ = laid_out(function, x, w, depthwise, weights=2)
    last = strides(found, torch.ops.aten.convolution.default)[-1]
    assert (last[1] == 1) == first


@pytest.mark.parametrize("end", [
    lambda x: x.flatten(1), lambda x: x.view(2, 4, 4, 6, 6), lambda x: x.permute(0, 2, 3, 1).softmax(-1),
    lambda x: x.transpose(1, 2) * 2, lambda x: (x, x[:, 3]), lambda x: x.reshape(2, -1, 2).sum(1),
    lambda x: x.split(4, 1), lambda x: F.pixel_shuffle(x, 2), lambda x: x.to(memory_format=torch.channels_last) + 1,
])  # fmt: skip
def test_results_have_their_strides(end: Callable[[Tensor], Any]) -> None:
    laid_out(lambda x, w: end(F.conv2d(F.conv2d(x, w), w)), torch.randn(2, 16, 10, 10), torch.randn(16, 16, 3, 3))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_images_that_lie_so_already_stay(layout: torch.memory_format) -> None:
    x = torch.randn(2, 16, 9, 9).contiguous(memory_format=layout)
    found, changed = laid_out(lambda x, w: F.conv2d(x, w), x, torch.randn(16, 16, 3, 3))
    assert changed
    images = [one for one in strides(found, CLONE) if one[-1] != 1]
    assert len(images) == (layout is torch.contiguous_format)


@pytest.mark.parametrize("function", [
    lambda x, w: F.conv2d(x, w[:8]),  # half a vector
    lambda x, w: F.conv2d(x, w[:, :4], groups=4),
    lambda x, w: F.conv_transpose2d(x, w),
    lambda x, w: (F.conv2d(x, w), x.relu(), x),  # what is kept of x may be for a backward pass
    lambda x, w: F.conv2d(x, w).as_strided((2, 2), (1, 5)),
    lambda x, w: F.conv2d(x, w * x.mean()),
    lambda x, w: F.conv1d(x[:, :, 0], w[:, :, 0]),
    lambda x, w: x + 1,
])  # fmt: skip
def test_graphs_that_gain_nothing_stay(function: Callable[..., Any]) -> None:
    assert not laid_out(function, torch.randn(2, 16, 9, 9), torch.randn(16, 16, 3, 3))[1]


def test_a_graph_whose_images_are_converted_more_than_they_are_convolved_stays() -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        y = F.conv2d(x, w)
        return torch.cat([(y + n).view(-1) for n in range(3)])

    assert not laid_out(function, torch.randn(2, 16, 9, 9), torch.randn(16, 16, 1, 1))[1]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 16, 3, 2, 1, groups=16), nn.Hardswish(), nn.Conv2d(16, 24, 1), nn.AvgPool2d(2),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layers(x)
        return found.flatten(1)


@pytest.mark.parametrize("weights", ["packed", "live"])
@pytest.mark.parametrize("groups", [0, 64])
def test_a_network_follows_its_parameters(weights: str, groups: int) -> None:
    reports: list[GraphReport] = []
    model: Any = Network().eval()
    other = copy.deepcopy(model)
    options: dict[str, Any] = {"weights": weights, "report": reports.append, "groups": groups, "least_work": 0}
    run = torch.compile(other, backend="polydl", options=options)
    x = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-4)
        for one in (other, model):
            one.layers[3].weight.mul_(2)
            one.layers[1].running_mean.add_(1)
        torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-4)
    assert any("[3][3][3][16]" in group.written for group in reports[0].groups) == (weights == "packed")


def test_training_keeps_images_as_they_are() -> None:
    model = Network()
    other = copy.deepcopy(model)
    reports: list[GraphReport] = []
    run = torch.compile(other, backend="polydl", options={"report": reports.append, "groups": 0})
    x = torch.randn(2, 3, 16, 16)
    run(x).pow(2).sum().backward()
    model(x).pow(2).sum().backward()
    for one, wanted in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one.grad, wanted.grad, rtol=1e-3, atol=1e-4)
    assert not any("[3][3][3][16]" in group.written for report in reports for group in report.groups)


def test_weights_of_products_are_panels() -> None:
    def function(x: Tensor, b: Tensor, w: Tensor, v: Tensor) -> Tensor:
        return torch.addmm(b, x, w.t()).relu() @ v

    inputs = torch.randn(6, 20), torch.randn(96), torch.randn(96, 20), torch.randn(96, 64)
    found, changed = laid_out(function, *inputs, weights=3)
    assert changed
    assert sorted(strides(found, CLONE)) == [(20 * 32, 32, 1), (96 * 32, 32, 1)]


@pytest.mark.parametrize("function", [
    lambda x, w: x @ w[:, :40],  # no whole panels
    lambda x, w: x[:1] @ w,  # each weight is read once
    lambda x, w: (x @ w, w),  # given away
    lambda x, w: x @ (w * x.mean()),
])  # fmt: skip
def test_products_that_gain_nothing_stay(function: Callable[..., Any]) -> None:
    assert not laid_out(function, torch.randn(6, 64), torch.randn(64, 64))[1]


@pytest.mark.parametrize("kernels", [0, 1])
def test_what_eager_runs_reads_its_own_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kernels: int) -> None:
    """Nothing is laid out for a product or convolution that is left to PyTorch."""
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    group_code.forget()
    searched = group_search.Searched
    monkeypatch.setattr(group_search, "optimized", lambda job: searched(job.written, job.written, (), (), kernels))
    model = nn.Sequential(nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(2048, 128), nn.ReLU()).eval()
    x = torch.randn(4, 16, 16, 16)
    reports: list[GraphReport] = []
    with torch.no_grad():
        run = torch.compile(model, backend="polydl", options={"report": reports.append, "groups": 2})
        torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-4)
    assert reports[0].folded == 2 * kernels
    assert sum("no microkernel" in one.why for one in reports[0].eager) == 2 * (1 - kernels)
    group_code.forget()
