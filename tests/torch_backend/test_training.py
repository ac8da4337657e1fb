"""Training through the backend: gradients of parameters and inputs are those of eager PyTorch."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from torch import Tensor, nn

from polydl.torch_backend.backend import polydl
from polydl.torch_backend.graph_report import GraphReport
from tests.torch_backend.executed import Executed, traced
from tests.torch_backend.executed import compiled as compile_groups
from tests.torch_backend.test_compiled_graphs import random_function
from tests.torch_backend.test_operators import gradient_of


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


OPTIONS: dict[str, Any] = {"groups": 0}


def pair(module: Any) -> tuple[Any, Any]:
    """A copy of a module, and the compiled module."""
    return copy.deepcopy(module), torch.compile(module, backend="polydl", options=OPTIONS)


def close(found: object, expected: object, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def grads(module: nn.Module) -> list[Tensor | None]:
    return [one.grad for one in module.parameters()]


def network() -> nn.Sequential:
    """One of each: running statistics, masks, products, a norm."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(6 * 9, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 4),
    )  # fmt: skip


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_five_steps_of_an_optimizer(optimizer: Any) -> None:
    """Weights and running statistics change between calls; what was computed of them is not kept."""
    module = network()
    eager, compiled = pair(module)
    more = {"momentum": 0.9} if optimizer is torch.optim.SGD else {}
    steps: list[Any] = [optimizer(one.parameters(), lr=0.05, **more) for one in (module, eager)]
    for number in range(5):
        x, y = torch.randn(5, 3, 6, 6), torch.randint(4, (5,))
        losses = []
        for function, step in zip((compiled, eager), steps, strict=True):
            step.zero_grad(set_to_none=number % 2 == 0)
            loss: Any = nn.functional.cross_entropy(function(x), y)
            loss.backward()
            losses.append(loss.detach())
            step.step()
        close(losses[0], losses[1], 1e-3)
    close(list(module.parameters()), list(eager.parameters()), 2e-3)
    close(list(module.buffers()), list(eager.buffers()), 2e-3)
    module.eval(), eager.eval()
    with torch.no_grad():
        close(compiled(x), eager(x), 1e-2)


def test_called_twice_before_backward() -> None:
    """What the first call saved is not what the second one writes."""
    eager, compiled = pair(module := network().eval())
    x, y = torch.randn(2, 5, 3, 6, 6).unbind()
    for function in (compiled, eager):
        (function(x) * 2 + function(y)).pow(2).sum().backward()
    close(grads(module), grads(eager), 1e-3)


def test_backward_twice_of_one_call() -> None:
    eager, compiled = pair(module := network().eval())
    x = torch.randn(5, 3, 6, 6)
    for function in (compiled, eager):
        found = function(x)
        found.sum().backward(retain_graph=True)
        found.pow(2).sum().backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            found.sum().backward()
    close(grads(module), grads(eager), 1e-3)


def test_without_gradients_and_in_inference_mode_between() -> None:
    eager, compiled = pair(module := network().eval())
    x = torch.randn(5, 3, 6, 6)
    close(compiled(x), eager(x))
    with torch.no_grad():
        found = compiled(x)
        assert not found.requires_grad
        close(found, eager(x))
    with torch.inference_mode():
        assert compiled(x).is_inference()
    compiled(x).sum().backward()
    eager(x).sum().backward()
    close(grads(module), grads(eager), 1e-3)


def test_autocast_to_bfloat16() -> None:
    """Convolutions give bfloat16, batch norms have float parameters."""
    eager, compiled = pair(module := network())
    x = torch.randn(5, 3, 6, 6)
    for function in (compiled, eager):
        with torch.autocast("cpu", torch.bfloat16):
            found = function(x)
        assert found.dtype is torch.bfloat16
        found.float().pow(2).sum().backward()
    for one, other in zip(grads(module), grads(eager), strict=True):
        assert one is not None and other is not None
        assert float((one - other).norm()) <= 0.06 * float(other.norm()) + 0.05
    close(list(module.buffers()), list(eager.buffers()), 2e-2)


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(9, 7), nn.Linear(7, 9)

    def inner(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.two(torch.nn.functional.gelu(self.one(x)))
        return hidden

    def forward(self, x: Tensor) -> Tensor:
        checkpointed: Tensor = torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)
        return torch.tanh(checkpointed)


class Buffers(nn.Module):
    """Changes buffers, an input, and gives views of its inputs and one result twice."""

    seen: Tensor
    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("total", torch.zeros(5))

    def forward(self, x: Tensor, changed: Tensor) -> tuple[Tensor, ...]:
        self.seen += 1
        self.total.lerp_(x.detach().mean(0), 0.25)
        changed.mul_(2).add_(self.total)
        y = (x * self.weight).relu_()
        return y, y[1:], x.t(), changed[0], y


def test_checkpointing() -> None:
    eager, compiled = pair(module := Checkpointed())
    one, other = (torch.randn(4, 9, generator=torch.Generator().manual_seed(3)).requires_grad_() for _ in range(2))
    compiled(one).pow(2).sum().backward()
    eager(other).pow(2).sum().backward()
    close([one.grad, *grads(module)], [other.grad, *grads(eager)])


def test_buffers_inputs_and_views() -> None:
    eager, compiled = pair(module := Buffers())
    for _ in range(3):
        x, changed = torch.randn(4, 5), torch.randn(3, 5)
        pairs = []
        for function in (compiled, eager):
            given, state = x.clone().requires_grad_(), changed.clone()
            y, part, turned, row, again = function(given, state)
            (y.sum() + 2 * part.pow(2).sum() + (turned * 3).sum() + again[0].sum()).backward()
            assert row.data_ptr() == state.data_ptr() and turned.data_ptr() == given.data_ptr()
            pairs.append([y.detach(), part.detach(), state, row, given.grad])
        close(pairs[0], pairs[1])
    close(grads(module), grads(eager))
    close(list(module.buffers()), list(eager.buffers()))


def test_hooks_and_parameters_that_are_frozen() -> None:
    module: Any = network().eval()
    next(module.parameters()).requires_grad_(False)
    eager, compiled = pair(module)
    seen: list[list[float]] = [[], []]
    x = torch.randn(5, 3, 6, 6)
    for function, one, sums in zip((compiled, eager), (module, eager), seen, strict=True):
        hook = one[-1].weight.register_hook(lambda g, sums=sums: sums.append(float(g.sum())) or g * 2)
        found = function(x)
        found.register_hook(lambda g: g * 3)
        found.pow(2).sum().backward()
        hook.remove()
    assert len(seen[0]) == 1
    close(seen[0], seen[1], 1e-3)
    close(grads(module), grads(eager), 1e-3)
    assert next(module.parameters()).grad is None


@pytest.mark.parametrize("layout", ["expanded", "overlapping", "channels_last", "transposed", "empty", "scalar"])
def test_odd_tangents_and_inputs(layout: str) -> None:
    """A function of two tensors, called again with other strides: compiled anew, or right as it is."""
    shape = {"empty": (0, 3, 4, 5), "scalar": ()}.get(layout, (2, 3, 4, 5))

    def made() -> Tensor:
        match layout:
            case "expanded":
                return torch.randn(2, 1, 4, 1).expand(2, 3, 4, 5)
            case "overlapping":
                return torch.randn(60).as_strided((2, 3, 4, 5), (2, 7, 3, 1))
            case "channels_last":
                return torch.randn(shape).to(memory_format=torch.channels_last)
            case "transposed":
                return torch.randn(shape[::-1]).permute(3, 2, 1, 0)
        return torch.randn(shape)

    def function(a: Tensor, b: Tensor) -> Tensor:
        return torch.where(a > b, a * b.sigmoid(), b.tanh()) + (a - b).abs()

    compiled = torch.compile(function, backend="polydl", options=OPTIONS)
    x, y, weighting = made(), made(), made()
    for one, other in ((torch.randn(shape), torch.randn(shape)), (x, y), (x, x)):
        found: list[Tensor] = []
        expected: list[Tensor] = []
        for call, kept in ((compiled, found), (function, expected)):
            a, b = one.detach().requires_grad_(), other.detach().requires_grad_()
            z = call(a, b)
            kept += [z.detach(), *torch.autograd.grad(z, (a, b), weighting)]
        close(found, expected)


@pytest.mark.parametrize("part", range(6))
def test_gradients_of_random_graphs(part: int, tmp_path: Path) -> None:
    """300 of them in double precision, by some of their inputs, one of which is expanded now and then. Some round to
    float in between, which may differ by one unit."""
    cases: list[tuple[list[Tensor], list[Tensor], Executed]] = []
    for seed in range(50 * part, 50 * part + 50):
        draw = random.Random(seed)
        function, inputs = random_function(seed)
        inputs = [one.double() for one in inputs]
        if draw.random() < 0.2:
            inputs[0] = inputs[0][:1].expand(inputs[0].shape)
        by = [True, draw.random() < 0.8, draw.random() < 0.8]
        gradient = gradient_of(function, by)
        if seed in (29, 221, 298):
            with pytest.raises(RuntimeError, match="to have the same dtype"):  # a product of float and double
                gradient(*inputs)
            continue
        expected = gradient(*inputs)
        cases.append((inputs, expected, Executed(traced(gradient, inputs, mutates=False))))
    compile_groups([one[-1] for one in cases], tmp_path)
    for inputs, expected, made in cases:
        torch.testing.assert_close(list(made(*inputs)), expected, rtol=1e-5, atol=1e-5, equal_nan=True)
