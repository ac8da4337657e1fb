"""What tests of the PyTorch backend share: the backend is registered, and torch forgets what it compiled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from polydl.torch_backend import register


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    register()
    torch.compiler.reset()
    torch.manual_seed(0)
    yield
    torch.compiler.reset()
