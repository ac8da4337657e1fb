"""What several loops over a row would compute again is kept, and the results are the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (its usual name)

from tests.torch_backend.executed import Executed, compiled, traced

X, Y = torch.randn(3, 37), torch.randn(3, 37)
IMAGE = torch.randn(2, 6, 4, 5)


def chain(x: Tensor, y: Tensor) -> Tensor:
    return (F.layer_norm(F.gelu(F.layer_norm(x + y, (37,))), (37,)) * 0.1 + y).softmax(-1)


def twice(x: Tensor) -> Tensor:
    return F.layer_norm(torch.tanh(F.layer_norm(F.gelu(x), (37,))), (37,))


CASES: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...], int]] = {
    "a norm behind GELU": (lambda x: F.layer_norm(F.gelu(x), (37,)), (X,), 1),
    "GELU between norms": (chain, (X, Y), 1),
    "two rows": (twice, (X,), 2),
    "two loops": (lambda x: F.layer_norm(F.gelu(x.transpose(-1, -2)), (5, 4)), (IMAGE,), 1),
    "exponentials twice": (lambda x: x.softmax(-1), (X,), 0),
    "nothing that takes long": (lambda x, y: F.layer_norm((x * 2).relu() + y, (37,)), (X, Y), 0),
    "with a choice": (lambda x, y: F.layer_norm(torch.where(x > 0, F.gelu(y), y), (37,)), (X, Y), 1),
    "longer than the caches": (lambda x: F.layer_norm(F.gelu(x), (70_000,)), (torch.randn(1, 70_000),), 0),
}
"""What is computed, of what, and how many rows are kept."""


@pytest.mark.parametrize("name", CASES)
def test_kept(name: str, tmp_path: Path) -> None:
    function, inputs, rows = CASES[name]
    pieces = Executed(traced(function, inputs))
    text = "".join(group.text("f") for group in pieces.groups)
    assert len(re.findall(r"float kept\d+\[", text)) == rows
    for kept in re.findall(r"float (kept\d+)\[", text):
        assert len(re.findall(rf"\b{kept}(?:\[\w+\])+ = ", text)) == 1
    assert rows == 0 or len(re.findall(r"\b(?:erff|tanhf)\(", text)) == rows
    compiled([pieces], tmp_path)
    torch.testing.assert_close(pieces(*inputs), function(*inputs), rtol=1e-5, atol=1e-5)
