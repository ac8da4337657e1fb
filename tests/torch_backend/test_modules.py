"""Operators, fused blocks and small networks as people write them: what `torch.compile` with the backend gives is what
eager PyTorch gives: values, types, sizes and strides, and what it does to buffers and inputs."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.torch_backend.modules import LARGER, MODULES, made


def tensors(value: Any) -> list[Tensor]:
    """The tensors of a result, in order."""
    if isinstance(value, Tensor):
        return [value]
    return [one for part in value for one in tensors(part)] if isinstance(value, (tuple, list)) else []


def same(found: Any, wanted: Any) -> None:
    """Raise AssertionError where results differ by more than sums in another order explain."""
    one, two = tensors(found), tensors(wanted)
    assert len(one) == len(two)
    for a, b in zip(one, two, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.stride() == b.stride() or a.numel() < 2 or 1 in a.shape
        torch.testing.assert_close(a, b, rtol=1e-4, atol=2e-5, equal_nan=True)


@pytest.mark.parametrize("name", MODULES)
def test_module(name: str) -> None:
    torch._dynamo.reset()
    one, inputs = made(name).module, made(name).inputs
    other, given = copy.deepcopy(one), copy.deepcopy(inputs)
    compiled = torch.compile(one, backend="polydl", options={"groups": 0})
    with torch.no_grad():
        for _ in range(2):
            same(compiled(*inputs), other(*given))
    same(inputs, given)
    same(list(one.buffers()), list(other.buffers()))


def gradients(call: Any, inputs: Any, parameters: Any) -> list[Tensor] | None:
    """Of inputs and parameters, of a weighting of the results that is not contiguous; None if nothing has one."""
    given = [one.detach().requires_grad_() if in_double(one) is not one else one for one in inputs]
    results = [one for one in tensors(call(*given)) if one.requires_grad]
    wanted = [one for one in (*tensors(given), *parameters) if one.requires_grad]
    if not results:
        return None
    steps = [torch.linspace(-1, 2, one.numel(), dtype=torch.float64) for one in results]
    weighting = [
        v.reshape(o.shape[::-1]).permute(tuple(range(o.ndim))[::-1]) for v, o in zip(steps, results, strict=True)
    ]
    weighting = [v.to(o.dtype) for v, o in zip(weighting, results, strict=True)]
    found = torch.autograd.grad(results, wanted, weighting, materialize_grads=True, allow_unused=True)
    return list(found)


@pytest.mark.usefixtures("quick_code")
@pytest.mark.parametrize("name", [name for name in MODULES if name != "mutated_input"])
def test_gradients_of_module(name: str) -> None:
    torch._dynamo.reset()
    one, inputs = made(name).module, made(name).inputs
    other = copy.deepcopy(one)
    compiled = torch.compile(one, backend="polydl", options={"groups": 0})
    found = gradients(compiled, inputs, one.parameters())
    expected = gradients(other, inputs, other.parameters())
    if found is None or expected is None:
        assert found is expected
        return
    assert [(g.dtype, g.shape) for g in found] == [(g.dtype, g.shape) for g in expected]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=5e-5 * max(1.0, float(b.abs().max()) if b.numel() else 0))
    same(list(one.buffers()), list(other.buffers()))


def in_double(value: Any) -> Any:
    """Floating-point tensors in double precision."""
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def error(found: Any, exact: Any) -> float:
    """The largest difference over the largest magnitude of a result, of all results."""
    pairs = zip(tensors(found), tensors(exact), strict=True)
    return max(float((a.double() - b).abs().max() / (b.double().abs().max() + 1e-30)) for a, b in pairs)


@pytest.mark.parametrize("name", LARGER)
def test_larger_module_as_searched(name: str) -> None:
    """Not less exact than eager PyTorch but for some roundings, against double precision."""
    module, inputs = made(name).module, made(name).inputs
    with torch.no_grad():
        exact = copy.deepcopy(module).double()(*(in_double(one) for one in inputs))
        found, eager = torch.compile(module, backend="polydl")(*inputs), module(*inputs)
    assert [(a.dtype, a.shape, a.stride()) for a in tensors(found)] == [
        (a.dtype, a.shape, a.stride()) for a in tensors(eager)
    ]
    assert error(found, exact) <= 4 * error(eager, exact) + 1e-6
