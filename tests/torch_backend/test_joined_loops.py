"""Loops over rows without gaps become one; what needs both of them keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (its usual name)

from tests.torch_backend.executed import Executed, compiled, traced

CASES: dict[str, tuple[Callable[..., Any], Sequence[Tensor], int]] = {
    "pointwise": (lambda x, y: x * y + 1, [torch.randn(3, 4, 5), torch.randn(3, 4, 5)], 1),
    "a row of another": (lambda x, y: x * y, [torch.randn(3, 4, 5), torch.randn(5)], 2),
    "a number for each plane": (lambda x, y: x * y, [torch.randn(3, 4, 5), torch.randn(3, 1, 1)], 2),
    "a column of each plane": (lambda x, y: x * y, [torch.randn(3, 4, 5), torch.randn(3, 4, 1)], 2),
    "transposed": (lambda x, y: x.transpose(1, 2) + y, [torch.randn(3, 4, 5), torch.randn(3, 5, 4)], 3),
    "rows with gaps": (lambda x, y: x[:, :, :5] + y, [torch.randn(3, 4, 8), torch.randn(3, 4, 5)], 2),
    "the place itself": (lambda x: x + torch.arange(5.0), [torch.randn(3, 4, 5)], 2),
    "softmax": (lambda x: x.softmax(-1), [torch.randn(3, 4, 5)], 4),
    "sum of planes": (lambda x: x.sum((1, 2)), [torch.randn(3, 4, 5)], 2),
    "window of one pixel": (
        lambda x, w, b, y: F.conv2d(x, w, b).relu() + y,
        [torch.randn(2, 3, 4, 5), torch.randn(6, 3, 1, 1), torch.randn(6), torch.randn(2, 6, 4, 5)],
        4,
    ),
    "strided window of one pixel": (
        lambda x, w: F.conv2d(x, w, stride=2), [torch.randn(2, 3, 4, 6), torch.randn(6, 3, 1, 1)], 5
    ),
    "rows of a permuted image": (
        lambda x, w: F.linear(x.permute(0, 2, 3, 1), w),
        [torch.randn(1, 4, 6, 5).to(memory_format=torch.channels_last), torch.randn(7, 4)],
        3,
    ),
    "a view of rows": (lambda x, y: x.view(2, 12) + y, [torch.randn(2, 3, 4), torch.randn(2, 12)], 1),
    "window": (lambda x, w: F.conv2d(x, w), [torch.randn(2, 3, 6, 6), torch.randn(6, 3, 3, 3)], 7),
    "chosen rows": (
        lambda x, i: x[i] * 2, [torch.randn(6, 4, 5), torch.tensor([[1, 2], [0, 5]])], 4,
    ),
    "zeros around": (lambda x: F.pad(x, (1, 1)), [torch.randn(3, 4, 5)], 4),
}  # fmt: skip
"""What is computed, of what, and how many loops its group has."""


@pytest.mark.parametrize("name", CASES)
def test_joined(name: str, tmp_path: Path) -> None:
    function, inputs, loops = CASES[name]
    executed = Executed(traced(function, inputs))
    (group,) = [one for one in executed.groups if "arange" not in one.text("f")]
    assert group.text("f").count("for (") == loops, group.text("f")
    compiled([executed], tmp_path)
    torch.testing.assert_close(executed(*inputs), function(*inputs), rtol=1e-5, atol=1e-5)
