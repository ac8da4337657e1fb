"""What tests of the PyTorch backend share: the backend is registered, and torch forgets what it compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import platformdirs
import pytest
import torch

from polydl.torch_backend import group_code, group_search, region_timing, register
from tests.oracle.native import QUICK

QUICK_CODE = platformdirs.user_cache_path("polydl-tests") / "quick_torch"
"""Where code that is optimized little is kept, apart from what users and other tests have."""


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    register()
    torch.compiler.reset()
    torch.manual_seed(0)
    yield
    torch.compiler.reset()


@pytest.fixture(autouse=True)
def _little_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """How loaded the machine is decides in no test what is left to eager PyTorch, but for those that say `tune` or
    `least_work=0`."""
    before = region_timing.slower

    def slower(made: Any, least_work: float, *rest: Any) -> dict[Any, str]:
        return before(made, least_work, *rest) if least_work == 0 else {}

    monkeypatch.setattr(region_timing, "slower", slower)


@pytest.fixture
def quick_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """What compilers make of groups is optimized little: for tests of what the text of groups that are not searched
    computes. No loads are masked then, so that nobody needs to look for those."""
    monkeypatch.setenv("POLYDL_CACHE", str(QUICK_CODE))
    monkeypatch.setattr(group_code, "avoiding", lambda fault, toolchain: QUICK)
    monkeypatch.setattr(group_search, "_flags", lambda job, text: job.flags)
