"""Operators that PyTorch takes apart, and that become loops as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (its usual name)

import polydl.torch_backend
from polydl.torch_backend.whole_operators import WHOLE, whole

IMAGE = torch.randn(2, 3, 6, 9)


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), "aten.upsample_bilinear2d.default"),
        (lambda x: F.interpolate(x, (4, 13), mode="bilinear", align_corners=True), "aten.upsample_bilinear2d.default"),
        (lambda x: F.interpolate(x[0], 27, mode="linear"), "aten.upsample_linear1d.default"),
        (lambda x: F.interpolate(x[None], (4, 4, 4), mode="trilinear"), "aten.upsample_trilinear3d.default"),
    ],
)
@pytest.mark.parametrize("gradients", [False, True])
def test_resized_images_are_one_nest(function: Callable[[Tensor], Tensor], operator: str, gradients: bool) -> None:
    def loss(x: Tensor) -> Any:
        return function(x.requires_grad_(gradients))

    told = polydl.torch_backend.explain(loss, IMAGE.clone(), options={"groups": 0})
    forward = told.graphs[-1 if gradients else 0]
    assert [one.operators for one in forward.groups] == [(operator,)]
    compiled = torch.compile(function, backend="polydl", options={"groups": 0})
    torch.testing.assert_close(compiled(IMAGE), function(IMAGE))


def test_what_pytorch_does_is_left_as_it_was() -> None:
    before = [dict(op.py_kernels) for op in WHOLE]
    assert all(before)
    with whole():
        assert [dict(op.py_kernels) for op in WHOLE] != before
    assert [dict(op.py_kernels) for op in WHOLE] == before


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("bags", [[4, 6], [2, 1], [7, 3]])
def test_bags_of_as_many_rows_each_are_loops(mode: str, bags: Sequence[int]) -> None:
    torch.manual_seed(0)
    table = nn.EmbeddingBag(11, 5, mode=mode)
    indices = torch.randint(0, 11, tuple(bags))
    with torch.no_grad():
        told = polydl.torch_backend.explain(table, indices, options={"groups": 0})
        compiled = torch.compile(table, backend="polydl", options={"groups": 0})
        torch.testing.assert_close(compiled(indices), table(indices))
    (graph,) = told.graphs
    assert graph.eager == () and len(graph.groups) >= 1


def test_steps_that_are_no_ratio_are_left_to_pytorch() -> None:
    scale = float(Fraction(1000003, 700001))

    def resized(x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=scale, mode="linear", recompute_scale_factor=False)

    compiled = torch.compile(resized, backend="polydl", options={"groups": 0})
    x = torch.randn(1, 2, 5000)
    torch.testing.assert_close(compiled(x), resized(x))
