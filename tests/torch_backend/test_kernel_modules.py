"""Modules of `kernel_modules` and `network_modules`, untuned: what the backend gives is what eager PyTorch gives,
forward and backward, for plain inputs, permuted ones, and no batch at all; and what eager PyTorch runs has a reason."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polydl.torch_backend.graph_report import GraphReport
from tests.torch_backend.kernel_modules import KERNELS, WITHOUT_BATCH
from tests.torch_backend.network_modules import NETWORKS
from tests.torch_backend.test_modules import gradients, same

ALL = {**KERNELS, **NETWORKS}


def drawn(name: str) -> tuple[nn.Module, nn.Module, tuple[Any, ...]]:
    """A module, a copy of it, and inputs."""
    torch.manual_seed(0)
    module, inputs = ALL[name]()
    return module, copy.deepcopy(module), inputs


def compiled(module: nn.Module, reports: list[GraphReport]) -> Any:
    return torch.compile(module, backend="polydl", options={"groups": 0, "report": reports.append})


def permuted(x: Tensor) -> Tensor:
    """The same elements, the first dimension innermost in memory."""
    return x.permute(*reversed(range(x.ndim))).contiguous().permute(*reversed(range(x.ndim)))


def agree(module: nn.Module, other: nn.Module, inputs: tuple[Any, ...]) -> list[GraphReport]:
    """What was compiled of a module; raises AssertionError where it differs from its copy. Random numbers are the
    same."""
    reports: list[GraphReport] = []
    given = copy.deepcopy(inputs)
    with torch.no_grad():
        torch.manual_seed(1)
        found = compiled(module, reports)(*inputs)
        torch.manual_seed(1)
        same(found, other(*given))
    same(inputs, given)
    same(list(module.buffers()), list(other.buffers()))
    return reports


@pytest.mark.usefixtures("quick_code")
@pytest.mark.parametrize("name", ALL)
def test_forward(name: str) -> None:
    for report in agree(*drawn(name)):
        lowered = {node for group in report.groups for node in group.nodes}
        eager = {reason.node: reason.why for reason in report.eager}
        assert not lowered & eager.keys()
        assert all(eager.values())
        assert lowered or eager


@pytest.mark.usefixtures("quick_code")
@pytest.mark.parametrize("name", sorted(ALL)[::2])  # gradients of plain inputs: test_modules
def test_gradients_of_permuted_inputs(name: str) -> None:
    module, other, inputs = drawn(name)
    inputs = tuple(map(permuted, inputs))
    torch.manual_seed(1)
    found = gradients(compiled(module, []), inputs, list(module.parameters()))
    torch.manual_seed(1)
    expected = gradients(other, inputs, list(other.parameters()))
    if found is None or expected is None:
        assert found is expected
        return
    # That of a bias in front of a batch norm is 0: what there is are rounded parts of the others.
    largest = max(float(one.abs().max()) for one in expected if one.numel())
    for one, wanted in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (wanted.dtype, wanted.shape)
        torch.testing.assert_close(one, wanted, rtol=1e-4, atol=5e-5 * max(1.0, largest), equal_nan=True)


@pytest.mark.usefixtures("quick_code")
@pytest.mark.parametrize("name", [name for name in ALL if name not in WITHOUT_BATCH])
def test_without_batch(name: str) -> None:
    """What eager PyTorch refuses is refused, and with its kind of error."""
    module, other, inputs = drawn(name)
    inputs = tuple(one[:0] for one in inputs)
    try:
        with torch.no_grad():
            torch.manual_seed(1)
            other(*inputs)
    except Exception as error:  # noqa: BLE001  # whatever eager PyTorch says
        with pytest.raises((type(error), RuntimeError)), torch.no_grad():
            compiled(module, [])(*inputs)
        return
    agree(*drawn(name)[:2], inputs)
