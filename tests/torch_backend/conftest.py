"""What tests of the PyTorch backend share: the backend is registered, and torch forgets what it compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import platformdirs
import pytest
import torch

from polydl.torch_backend import graph_compiler, group_code, group_search, register
from polydl.torch_backend.backend_options import BackendOptions
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
    """How loaded the machine is decides in no test what is left to eager PyTorch, but for those that say `tune`."""
    before = graph_compiler._slower

    def slower(graphs: Any, built: Any, o: BackendOptions, *rest: Any) -> Any:
        return before(graphs, built, o, *rest) if o.tune else {}

    monkeypatch.setattr(graph_compiler, "_slower", slower)


@pytest.fixture
def quick_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """What compilers make of groups is optimized little: for tests of what the text of groups that are not searched
    computes. No loads are masked then, so that nobody needs to look for those."""
    monkeypatch.setenv("POLYDL_CACHE", str(QUICK_CODE))
    monkeypatch.setattr(group_code, "avoiding", lambda fault, toolchain: QUICK)
    monkeypatch.setattr(group_search, "_flags", lambda job, text: job.flags)
