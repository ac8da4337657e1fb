"""PyTorch's products of small types, as contenders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from bench import Bound, Contender
from native import placed

Array = np.ndarray[Any, np.dtype[Any]]


def gemm_contenders(dtype: str) -> list[Contender]:
    """torch._int_mm and oneDNN's quantised linear for bytes, torch.mm for floats of 16 bits; none for int16.

    The quantised linear has its weights packed before, and gives floats.
    """
    return {
        "u8s8": [Contender("oneDNN qlinear", _qlinear)],
        "s8s8": [Contender("torch._int_mm", _int_mm), Contender("oneDNN qlinear", _qlinear)],
        "bf16": [Contender("torch.mm", lambda d, r: _mm(d, r, torch.bfloat16))],
        "half": [Contender("torch.mm", lambda d, r: _mm(d, r, torch.float16))],
    }.get(dtype, [])


def _tensors(data: Sequence[Array], rng: np.random.Generator) -> list[torch.Tensor]:
    return [torch.from_numpy(placed(x, rng)) for x in data]


def _int_mm(data: Sequence[Array], rng: np.random.Generator) -> Bound:
    a, b = _tensors(data, rng)
    c = torch.empty((a.shape[0], b.shape[1]), dtype=torch.int32)
    return Bound(lambda: torch._int_mm(a, b, out=c), lambda: c.numpy().astype(np.float64))


def _qlinear(data: Sequence[Array], rng: np.random.Generator) -> Bound:
    a, b = _tensors(data, rng)
    columns = b.shape[1]
    packed = torch.ops.onednn.qlinear_prepack(b.t().contiguous(), list(a.shape))
    scales, zeros = torch.ones(columns), torch.zeros(columns, dtype=torch.int64)
    linear = torch.ops.onednn.qlinear_pointwise

    def run() -> torch.Tensor:
        return linear(a, 1.0, 0, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], "")

    return Bound(run, lambda: run().numpy().astype(np.float64))


def _mm(data: Sequence[Array], rng: np.random.Generator, dtype: torch.dtype) -> Bound:
    """With a result of 16 bits, which is less work than sums that stay floats: compared after both are rounded."""
    a, b = _tensors(data, rng)
    if dtype is torch.bfloat16:
        a, b = a.view(torch.int16).view(dtype), b.view(torch.int16).view(dtype)
    c = torch.empty((a.shape[0], b.shape[1]), dtype=dtype)
    return Bound(lambda: torch.mm(a, b, out=c), lambda: c.double().numpy())
