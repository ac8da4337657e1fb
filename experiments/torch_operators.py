"""Single operators and small fused blocks: eager PyTorch, Inductor and `backend="polydl"`, timed in turns.

    python experiments/torch_operators.py [OPERATOR …] [--batch 1] [--rounds 15] [--tune] [--no-inductor]

The options are those of `torch_models.py`. Sizes are such that each takes eager PyTorch 50 microseconds or more.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812 - as PyTorch users write it
from torch import Tensor, nn
from torch_models import Maker, main, normed

Shape = tuple[int, ...]


class Calls(nn.Module):
    """A function of inputs."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)


def call(function: Callable[..., Tensor], *shapes: Shape) -> Maker:
    """A function of floats; the batch times the first size of each shape."""
    return lambda n: (Calls(function), tuple(torch.randn(n * shape[0], *shape[1:]) for shape in shapes))


def layers(make: Callable[[], nn.Module], *shapes: Shape) -> Maker:
    """A module of floats."""
    return lambda n: (make(), tuple(torch.randn(n * shape[0], *shape[1:]) for shape in shapes))


def rotated(x: Tensor) -> Tensor:
    """Pairs of a row, turned by their place (RoFormer)."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2])[:, None] / 10000 ** (torch.arange(half) / half)
    angle = torch.cat((angle, angle), -1)
    return x * angle.cos() + torch.cat((-x[..., half:], x[..., :half]), -1) * angle.sin()


def embedded(n: int) -> tuple[nn.Module, tuple[Tensor]]:
    return nn.EmbeddingBag(10000, 64, mode="sum"), (torch.randint(0, 10000, (512 * n, 16)),)


def entropy(n: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Calls(F.cross_entropy), (torch.randn(512 * n, 1000), torch.randint(0, 1000, (512 * n,)))


def gathered(n: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Calls(lambda x, i: x[i] * 2), (torch.randn(10000, 64), torch.randint(0, 10000, (8192 * n,)))


ROWS, IMAGE = (512, 768), (1, 64, 56, 56)
OPERATORS: dict[str, Maker] = {
    "gelu": call(F.gelu, ROWS),
    "silu, product": call(lambda x, y: F.silu(x) * y, ROWS, ROWS),
    "tanh, sigmoid": call(lambda x, y: torch.tanh(x) * torch.sigmoid(y), ROWS, ROWS),
    "hardswish, sum": call(lambda x, y: F.hardswish(x) + 0.5 * y, (1024, 768), (1024, 768)),
    "where, clamp": call(lambda x, y: torch.where(x > y, x.clamp(-1, 1), y * 2), (1024, 768), (1024, 768)),
    "softmax": call(lambda x: x.softmax(-1), ROWS),
    "masked softmax": call(lambda x, m: x.masked_fill(m > 1, -torch.inf).softmax(-1), ROWS, ROWS),
    "log softmax": call(lambda x: x.log_softmax(-1), (128, 5000)),
    "softmax of columns": call(lambda x: x.softmax(1), (8, 96, 512)),
    "logarithm of sums": call(lambda x: x.logsumexp(-1), ROWS),
    "layer norm": layers(lambda: nn.LayerNorm(768), ROWS),
    "layer norm of a sum": call(lambda x, y: F.layer_norm(x + y, (768,)), ROWS, ROWS),
    "rms norm": layers(lambda: nn.RMSNorm(768), ROWS),
    "group norm": layers(lambda: nn.GroupNorm(8, 64), IMAGE),
    "batch norm, relu": layers(lambda: nn.Sequential(nn.BatchNorm2d(64), nn.ReLU()), IMAGE),
    "instance norm": layers(lambda: nn.InstanceNorm2d(64), IMAGE),
    "normalised rows": call(lambda x: F.normalize(x, dim=-1), ROWS),
    "sums of rows": call(lambda x: x.sum(-1), (2048, 1024)),
    "sums of columns": call(lambda x: x.sum(0), (2048, 1024)),
    "variance": call(lambda x: x.var(-1), ROWS),
    "place of the greatest": call(lambda x: x.argmax(-1), ROWS),
    "sums so far": call(lambda x: x.cumsum(-1), ROWS),
    "mean squared error": call(F.mse_loss, (1024, 768), (1024, 768)),
    "cross entropy": entropy,
    "turned pairs": call(rotated, (8, 12, 128, 64)),
    "transposed copy": call(lambda x: x.transpose(1, 2).contiguous() * 1, (4, 512, 384)),
    "concatenated": call(lambda x, y: torch.cat((x, y), -1).relu(), ROWS, ROWS),
    "rows by index": gathered,
    "embedding bag": embedded,
    "max pool": layers(lambda: nn.MaxPool2d(3, 2, 1), (1, 64, 112, 112)),
    "average pool": layers(lambda: nn.AvgPool2d(2), (1, 64, 112, 112)),
    "mean of images": call(lambda x: x.mean((2, 3)), (4, 256, 28, 28)),
    "bilinear": call(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), IMAGE),
    "linear, gelu": layers(lambda: nn.Sequential(nn.Linear(768, 768), nn.GELU()), (128, 768)),
    "linear, relu": layers(lambda: nn.Sequential(nn.Linear(256, 512), nn.ReLU()), (256, 256)),
    "batched product": call(torch.bmm, (12, 128, 64), (12, 64, 128)),
    "convolution 1x1, norm, relu": layers(lambda: nn.Sequential(*normed(nn.Conv2d(64, 128, 1), width=128)), IMAGE),
    "convolution 3x3, norm, relu": layers(
        lambda: nn.Sequential(*normed(nn.Conv2d(64, 64, 3, 1, 1), width=64)), (1, 64, 28, 28)
    ),
    "convolution 3x3, steps of 2": layers(
        lambda: nn.Sequential(*normed(nn.Conv2d(64, 128, 3, 2, 1), width=128)), (1, 64, 28, 28)
    ),
    "depthwise 3x3": layers(lambda: nn.Sequential(nn.Conv2d(96, 96, 3, 1, 1, groups=96), nn.ReLU6()), (1, 96, 56, 56)),
    "depthwise 3x3, steps of 2": layers(
        lambda: nn.Sequential(nn.Conv2d(96, 96, 3, 2, 1, groups=96), nn.ReLU6()), (1, 96, 112, 112)
    ),
    "depthwise 7x7": layers(lambda: nn.Conv2d(96, 96, 7, 1, 3, groups=96), (1, 96, 56, 56)),
    "transposed convolution": layers(lambda: nn.ConvTranspose2d(64, 32, 2, 2), (1, 64, 28, 28)),
}

if __name__ == "__main__":
    main(OPERATORS, __doc__, 1)
