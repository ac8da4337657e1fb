"""PyTorch's products and convolutions of small types, as contenders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from bench import Bound, Contender
from native import placed
from sizes import ConvLayer

Array = np.ndarray[Any, np.dtype[Any]]


def gemm_contenders(dtype: str) -> list[Contender]:
    """torch._int_mm and oneDNN's quantised linear for bytes, torch.mm for floats of 16 bits; none for int16.

    The quantised linear has its weights packed before, and gives floats. With signed activations it runs oneDNN's
    reference code, at 0 GFLOP/s.
    """
    return {
        "u8s8": [Contender("oneDNN qlinear", _qlinear)],
        "s8s8": [Contender("torch._int_mm", _int_mm)],
        "bf16": [Contender("torch.mm", lambda d, r: _mm(d, r, torch.bfloat16))],
        "half": [Contender("torch.mm", lambda d, r: _mm(d, r, torch.float16))],
    }.get(dtype, [])


def conv_contenders(dtype: str, layer: ConvLayer) -> list[Contender]:
    """oneDNN's convolutions through PyTorch, channels-last with packed weights, and for bf16 in NCHW as well: those of
    bytes give floats. None for s16, which oneDNN has not, for signed activations, which PyTorch refuses, and for half,
    whose weights it does not pack."""
    if dtype == "bf16":
        return [
            Contender("oneDNN plain", lambda d, r: _bf16_conv(layer, d, r, last=False)),
            Contender("oneDNN channels-last", lambda d, r: _bf16_conv(layer, d, r, last=True)),
        ]
    return [Contender("oneDNN channels-last", lambda d, r: _qconv(layer, d, r))] if dtype == "u8s8" else []


def _geometry(layer: ConvLayer) -> tuple[list[int], list[int], list[int]]:
    """(stride, padding, dilation)"""
    return [layer.stride] * 2, [layer.pad_h, layer.pad_w], [layer.dilation] * 2


def _image(image: Array, rng: np.random.Generator) -> torch.Tensor:
    """A dense NHWC buffer seen as NCHW."""
    return torch.from_numpy(placed(np.ascontiguousarray(image.transpose(0, 2, 3, 1)), rng)).permute(0, 3, 1, 2)


def _quick(run: Callable[[], torch.Tensor]) -> Bound:
    def quick() -> torch.Tensor:
        with torch.inference_mode():
            return run()

    return Bound(quick, lambda: np.ascontiguousarray(quick().double().numpy()))


def _bf16_conv(layer: ConvLayer, data: Sequence[Array], rng: np.random.Generator, *, last: bool) -> Bound:
    stride, padding, dilation = _geometry(layer)
    image, weights = data
    x = _image(image, rng) if last else torch.from_numpy(placed(image, rng))
    x = x.view(torch.int16).view(torch.bfloat16)
    w = torch.from_numpy(placed(weights, rng)).view(torch.int16).view(torch.bfloat16)
    if not last:
        return _quick(lambda: torch.conv2d(x, w, None, stride, padding, dilation))
    packed = torch._C._nn.mkldnn_reorder_conv2d_weight(w.to_mkldnn(), padding, stride, dilation, 1, list(image.shape))
    conv = torch.ops.mkldnn._convolution_pointwise
    return _quick(lambda: conv(x, packed, None, padding, stride, dilation, 1, "none", [], ""))


def _qconv(layer: ConvLayer, data: Sequence[Array], rng: np.random.Generator) -> Bound:
    stride, padding, dilation = _geometry(layer)
    image, weights = data
    x, scales = _image(image, rng), torch.ones(layer.K)
    zeros = torch.zeros(layer.K, dtype=torch.int64)
    shape = list(image.shape)
    w = torch.from_numpy(weights)
    packed = torch.ops.onednn.qconv_prepack(w, scales, 1.0, 0, stride, padding, dilation, 1, shape)
    conv, kind = torch.ops.onednn.qconv_pointwise, torch.float32
    return _quick(
        lambda: conv(
            x, 1.0, 0, packed, scales, zeros, None, stride, padding, dilation, 1, 1.0, 0, kind, "none", [], None
        )
    )


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
