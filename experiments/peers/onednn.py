"""oneDNN and MKL as PyTorch calls them."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from bench import Bound, Contender
from native import Floats, placed
from sizes import ConvLayer

VERBOSE_RUNS = 20
"""Calls under oneDNN's verbose mode from which the share of a reorder is taken."""


def conv_contenders(layer: ConvLayer) -> list[Contender]:
    """The three layouts: plain NCHW, channels last with packed weights, blocked (nChw16c) with packed weights."""
    return [
        Contender("oneDNN plain", lambda data, rng: _plain(layer, data, rng)),
        Contender("oneDNN channels-last", lambda data, rng: _channels_last(layer, data, rng)),
        Contender("oneDNN blocked", lambda data, rng: _blocked(layer, data, rng)),
    ]


def conv_clip_contenders(layer: ConvLayer, low: float, high: float) -> list[Contender]:
    """The convolution with the clip as oneDNN's post-op (`hardtanh`, eltwise_clip): in plain NCHW and channels-last,
    and, since opaque tensors take no post-op through PyTorch, nothing blocked. Weights packed in the latter."""
    clip = ("hardtanh", [low, high])
    return [
        Contender("oneDNN plain", lambda data, rng: _plain_pointwise(layer, data, rng, *clip)),
        Contender("oneDNN channels-last", lambda data, rng: _channels_last(layer, data, rng, *clip)),
    ]


def bnorm_relu_contenders(shape: tuple[int, ...]) -> list[Contender]:
    """Batch normalisation with given statistics, then ReLU in place, in NCHW and channels-last."""
    return [
        Contender("PyTorch NCHW", lambda data, rng: _bnorm_relu(shape, data, rng, last=False)),
        Contender("PyTorch channels-last", lambda data, rng: _bnorm_relu(shape, data, rng, last=True)),
    ]


def _bnorm_relu(shape: tuple[int, ...], data: Sequence[Floats], rng: np.random.Generator, *, last: bool) -> Bound:
    x, mean, scale, shift = data
    if last:
        image = torch.from_numpy(placed(np.ascontiguousarray(x.transpose(0, 2, 3, 1)), rng)).permute(0, 3, 1, 2)
    else:
        image = torch.from_numpy(placed(x, rng))
    means, weights, biases = (torch.from_numpy(placed(a, rng)) for a in (mean, scale, shift))
    ones = torch.ones_like(means)

    def run() -> torch.Tensor:
        with torch.inference_mode():
            made = torch.batch_norm(image, weights, biases, means, ones, False, 0.0, 0.0, True)
            return torch.relu_(made)

    return Bound(run, lambda: np.ascontiguousarray(run().numpy()))


def _plain_pointwise(
    layer: ConvLayer, data: Sequence[Floats], rng: np.random.Generator, attribute: str, values: Sequence[float]
) -> Bound:
    padding, stride = _geometry(layer)
    x, w = (torch.from_numpy(placed(a, rng)) for a in data)
    conv = torch.ops.mkldnn._convolution_pointwise
    return _bound(
        lambda: conv(x, w, None, padding, stride, [layer.dilation] * 2, layer.groups, attribute, list(values), ""),
        layer,
    )


def _geometry(layer: ConvLayer) -> tuple[list[int], list[int]]:
    """(padding, stride)"""
    return [layer.pad_h, layer.pad_w], [layer.stride, layer.stride]


def _plain(layer: ConvLayer, data: Sequence[Floats], rng: np.random.Generator) -> Bound:
    padding, stride = _geometry(layer)
    x, w = (torch.from_numpy(placed(a, rng)) for a in data)
    return _bound(lambda: torch.conv2d(x, w, None, stride, padding, layer.dilation, layer.groups), layer)


def _channels_last(
    layer: ConvLayer,
    data: Sequence[Floats],
    rng: np.random.Generator,
    attribute: str = "none",
    values: Sequence[float] = (),
) -> Bound:
    padding, stride = _geometry(layer)
    image, weights = data
    # A dense NHWC buffer seen as NCHW is what PyTorch calls channels-last.
    x = torch.from_numpy(placed(np.ascontiguousarray(image.transpose(0, 2, 3, 1)), rng)).permute(0, 3, 1, 2)
    packed = torch._C._nn.mkldnn_reorder_conv2d_weight(
        torch.from_numpy(weights).to_mkldnn(), padding, stride, [layer.dilation] * 2, layer.groups, list(image.shape)
    )
    conv = torch.ops.mkldnn._convolution_pointwise
    return _bound(
        lambda: conv(x, packed, None, padding, stride, [layer.dilation] * 2, layer.groups, attribute, list(values), ""),
        layer,
    )


def _blocked(layer: ConvLayer, data: Sequence[Floats], rng: np.random.Generator) -> Bound:
    padding, stride = _geometry(layer)
    image, weights = (torch.from_numpy(a) for a in data)
    opaque = image.to_mkldnn()
    if layer.C % 16 == 0:
        # to_mkldnn() keeps the plain format. A convolution gives its result blocked: one with the identity does so
        # without changing a value.
        identity = torch.eye(layer.C).reshape(layer.C, layer.C, 1, 1).contiguous()
        opaque = torch.conv2d(opaque, identity.to_mkldnn())
    packed = torch._C._nn.mkldnn_reorder_conv2d_weight(
        weights.to_mkldnn(), padding, stride, [layer.dilation] * 2, layer.groups
    )
    return _bound(lambda: torch.conv2d(opaque, packed, None, stride, padding, layer.dilation, layer.groups), layer)


def _bound(run: Callable[[], torch.Tensor], layer: ConvLayer) -> Bound:
    def quick() -> torch.Tensor:
        with torch.inference_mode():
            return run()

    def result() -> Floats:
        out = quick()
        dense = out.to_dense() if out.layout is torch._mkldnn else out
        return np.ascontiguousarray(dense.numpy())

    return Bound(quick, result, lambda: weight_reorder(quick, layer))


def weight_reorder(run: Callable[[], object], layer: ConvLayer) -> tuple[float, str]:
    """(share of the time that is not spent reordering weights, what was seen).

    PyTorch packs weights for channels-last only, so that in the other layouts oneDNN reorders them on every call.
    Packed weights are what is compared with, so that this share is taken off, as oneDNN's verbose mode reports it:
    the shortest time of each step over some calls, since other processes can only add to one.
    """
    channels = f"{layer.groups}x1x1" if layer.depthwise else f"{layer.K}x{layer.C}"
    dims = f"{channels}x{layer.kh}x{layer.kw}"
    calls = [list(executed(run)) for _ in range(VERBOSE_RUNS)]
    steps = [(step, min(call[i].milliseconds for call in calls)) for i, step in enumerate(calls[0])]
    total = sum(shortest for _, shortest in steps)
    weights = sum(shortest for step, shortest in steps if step.kind == "reorder" and step.problem == dims)
    share = 1.0 - weights / total if total else 1.0
    seen = " + ".join(f"{s.kind} {s.implementation} [{' '.join(s.formats)}]" for s, _ in steps)
    return share, f"{1 - share:.1%} taken off for reordering weights; ran {seen or 'without oneDNN'}"


class Primitive:
    """A line of oneDNN's verbose output."""

    def __init__(self, fields: Sequence[str]) -> None:
        self.kind, self.implementation = fields[5], fields[6]
        # src:f32:a:blocked:aBcd16b::f0: tensor, type, flags, kind, format, strides, extra flags
        self.formats = [part.split(":")[4] for part in fields[8].split() if "undef" not in part]
        self.problem = fields[-2]
        self.milliseconds = float(fields[-1])


def executed(run: Callable[[], object]) -> Iterator[Primitive]:
    """Primitives that oneDNN executes in a call. It prints them to the process's standard output, which is caught."""
    sys.stdout.flush()
    with tempfile.TemporaryFile() as caught:
        saved = os.dup(1)
        os.dup2(caught.fileno(), 1)
        try:
            with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
                run()
        finally:
            os.dup2(saved, 1)
            os.close(saved)
        caught.seek(0)
        for line in caught.read().decode().splitlines():
            fields = line.split(",")
            if line.startswith("onednn_verbose") and "exec" in fields:
                yield Primitive(fields)


def gemm_contenders() -> list[Contender]:
    """Row-major in and out, packing inside the time: torch.addmm and torch.mm (MKL), oneDNN's inner product.

    addmm computes C += A B as the others' sources say; mm and oneDNN write C without reading it, which is less work.
    """
    return [
        Contender("torch.addmm", _addmm),
        Contender("torch.mm", _mm),
        Contender("oneDNN", _inner_product),
    ]


def _matrices(data: Sequence[Floats], rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    a, b = data
    c = np.zeros((a.shape[0], b.shape[1]), dtype=np.float32)
    return torch.from_numpy(placed(a, rng)), torch.from_numpy(placed(b, rng)), torch.from_numpy(placed(c, rng))


def _addmm(data: Sequence[Floats], rng: np.random.Generator) -> Bound:
    a, b, c = _matrices(data, rng)
    return Bound(lambda: c.addmm_(a, b), lambda: c.numpy().copy())


def _mm(data: Sequence[Floats], rng: np.random.Generator) -> Bound:
    a, b, c = _matrices(data, rng)
    return Bound(lambda: torch.mm(a, b, out=c), lambda: c.numpy().copy())


def _inner_product(data: Sequence[Floats], rng: np.random.Generator) -> Bound:
    a, b, _ = _matrices(data, rng)
    transposed = b.t()
    linear = torch.ops.mkldnn._linear_pointwise

    def run() -> torch.Tensor:
        with torch.inference_mode():
            return linear(a, transposed, None, "none", [], "")

    return Bound(run, lambda: np.ascontiguousarray(run().numpy()))


def start(threads: int) -> None:
    """Set PyTorch's threads. Raises RuntimeError when it has no oneDNN."""
    if not torch.backends.mkldnn.is_available():
        raise RuntimeError("this build of PyTorch has no oneDNN")
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)


def version() -> str:
    """PyTorch's version."""
    return f"PyTorch {torch.__version__}"
