"""Loops are cut where a choice between elements of tensors changes, and compute the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (its usual name)

from polydl.torch_backend import groups
from tests.torch_backend.executed import Executed, compiled, traced

X, Y, Z = torch.randn(3, 4, 5), torch.randn(3, 4, 7), torch.randn(3, 4, 1)
HALVES = torch.randn(2, 3, 8)


def turned(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * 2 + torch.cat((-x[..., half:], x[..., :half]), -1) * 3


def softmax(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat((x, y), -1).softmax(-1)


CASES: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...], int, int]] = {
    "two": (lambda x, y: torch.cat((x, y), -1).relu(), (X, Y), 0, 2),
    "three": (lambda *all_of: torch.cat(all_of, -1) * 2, (X, Y, Z), 0, 3),
    "rows": (lambda x, y: torch.cat((x, y), 1) + 1, (X, X), 0, 2),
    "in a cat": (lambda x, y: torch.cat((torch.cat((x, y), -1), torch.cat((y, x), -1)), 1) * 2, (X, Y), 0, 4),
    "halves turned": (turned, (HALVES,), 0, 2),
    "rows of both": (softmax, (X, Y), 0, 2),
    "eleven": (lambda *all_of: torch.cat(all_of, -1) * 2, (X,) * 11, 10, 1),
    "zeros around": (lambda x: F.pad(x, (1, 1)), (X,), 0, 3),
    "zeros around an image": (lambda x: F.pad(x, (2, 1, 0, 3)) * 2, (X,), 0, 4),
    "without its ends": (lambda x: F.pad(x, (-1, -2, 1, 1), value=3.0), (X,), 0, 3),
}
"""What is computed, of what, how many conditions its code has, and how many stores to its result."""


@pytest.mark.parametrize("name", CASES)
def test_cut(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    function, inputs, conditions, stores = CASES[name]
    pieces = Executed(traced(function, inputs))
    text = "".join(group.text("f") for group in pieces.groups)
    monkeypatch.setattr(groups, "cut", lambda program: program)
    whole = Executed(traced(function, inputs))
    compiled([pieces, whole], tmp_path)
    found = pieces(*inputs)
    torch.testing.assert_close(found, function(*inputs), rtol=1e-6, atol=1e-6)
    if name != "rows of both":  # sums of parts of rows
        assert torch.equal(found, whole(*inputs))
    assert len(re.findall(r"\? \(*a\d", text)) == conditions, text
    assert len(re.findall(r"o0\[\w*\](\[.*\])? =", text)) >= stores, text
