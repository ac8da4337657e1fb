"""Reductions of the same rows are one group: memory is read once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from polydl.torch_backend.groups import MOST_ROW_BYTES
from tests.torch_backend.executed import Executed, compiled, traced


def several(x: Tensor) -> tuple[Tensor, ...]:
    return x.amax(-1), x.amin(-1), x.mean(-1), x.var(-1)


def of_what_was_computed(x: Tensor) -> tuple[Tensor, ...]:
    y = x.exp()
    return y, x.sum(-1, keepdim=True) + 1, x.amax(-1), y.amin(-1)


def in_order(x: Tensor) -> tuple[Tensor, ...]:
    """The second one reads what comes of the first, so that it is no sibling of it in one pass."""
    most = x.amax(-1, keepdim=True)
    return most, (x - most.flip(0)).sum(-1), x.amin(-1)


@pytest.mark.parametrize("function", [several, of_what_was_computed, in_order])
@pytest.mark.parametrize("shape", [(5, 300), (3, 4, 7)])
def test_as_eager(function: Callable[..., Any], shape: tuple[int, ...], tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape)
    made = Executed(traced(function, [x]))
    compiled([made], tmp_path)
    for got, wanted in zip(made(x), function(x), strict=True):
        torch.testing.assert_close(got, wanted, equal_nan=True)


def test_rows_are_read_once() -> None:
    (group,) = Executed(traced(several, [torch.ones(8, 512)])).groups
    assert [str(node.target).split(".")[1] for node in group.nodes] == ["amax", "amin", "mean", "var"]
    assert group.text("f").count("+= (double)") == 1  # the mean is that of the variance, too


def test_columns_and_rows_that_fit_no_cache_stay_apart() -> None:
    def columns(x: Tensor) -> tuple[Tensor, ...]:
        return x.sum(0), x.amax(0)

    assert len(Executed(traced(columns, [torch.ones(8, 512)])).groups) == 2
    assert len(Executed(traced(several, [torch.ones(1, MOST_ROW_BYTES)])).groups) == 4


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_variances_of_long_rows(scale: float, shift: float, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = (torch.randn(4, 3000, dtype=torch.float64) + shift).mul(scale).float()
    x[1] = x[1, 0]
    made = Executed(traced(lambda x: torch.var_mean(x, -1), [x]))
    compiled([made], tmp_path)
    variance, mean = made(x)
    torch.testing.assert_close(variance, x.double().var(-1).float(), rtol=1e-6, atol=0)
    torch.testing.assert_close(mean, x.double().mean(-1).float(), rtol=1e-6, atol=0)
    assert variance[1] == 0
