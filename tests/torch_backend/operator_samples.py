"""Samples of PyTorch's own tests of operators (`torch.testing._internal`)."""

from __future__ import annotations

import importlib.util
import sys
import types
import unittest
from collections.abc import Iterator
from typing import Any

import torch


def op_infos() -> list[Any]:
    """PyTorch's list of operators with makers of samples. It imports `expecttest` for test cases of its own, which
    nothing here uses: where that is not installed, an empty module stands for it."""
    if importlib.util.find_spec("expecttest") is None and "expecttest" not in sys.modules:
        stub = types.ModuleType("expecttest")
        stub.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stub
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def samples(
    info: Any, dtype: torch.dtype, most: int, *, gradients: bool = False
) -> Iterator[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """First argument, others, and keywords, of samples spread over all that there are; with `gradients`, tensors by
    which they may be differentiated require them."""
    torch.manual_seed(0)
    every = list(info.sample_inputs("cpu", dtype, requires_grad=gradients))
    step = max(1, len(every) // most)
    for one in every[::step][:most]:
        yield one.input, one.args, one.kwargs
