"""Single operators, fused blocks and small networks in the manner of collections of kernels to be optimized, in
training mode as these leave them; sizes are small and odd.

`KERNELS` maps a name to a function that makes a module and its inputs. The first dimension of inputs is the batch, but
for those named in `WITHOUT_BATCH`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as PyTorch users write it
from torch import Tensor, nn

from tests.torch_backend.modules import Calls, Maker, whole

KERNELS: dict[str, Maker] = {}
WITHOUT_BATCH: set[str] = set()


def kernel(name: str, module: Callable[[], nn.Module], *inputs: Any, batch: bool = True) -> None:
    """A module on random inputs: a tuple is a shape, a function makes the input."""
    assert name not in KERNELS
    KERNELS[name] = lambda: (module(), tuple(torch.randn(s) if isinstance(s, tuple) else s() for s in inputs))
    if not batch:
        WITHOUT_BATCH.add(name)


def call(name: str, function: Callable[..., Any], *inputs: Any, batch: bool = True) -> None:
    """A function of inputs."""
    kernel(name, lambda: Calls(function), *inputs, batch=batch)


def block(name: str, layer: Callable[[], nn.Module], function: Callable[[Tensor], Any], *inputs: Any) -> None:
    """A layer, and a function of what it gives."""
    kernel(name, lambda: nn.Sequential(layer(), Calls(function)), *inputs)


# Single operators.
call("tensor times matrix", lambda a, b: torch.einsum("bijl,lk->bijk", a, b), (3, 2, 5, 19), (19, 7), batch=False)
call("upper triangles", lambda a, b: torch.triu(torch.triu(a) @ torch.triu(b)), (33, 33), (33, 33), batch=False)
call("rows by a column", lambda a, b: a[:, None] * b, (37,), (37, 11))
call("batched, both transposed", lambda a, b: a.mT @ b.mT, (3, 17, 9), (3, 11, 17))
call("long depth", torch.matmul, (3, 1031), (1031, 5), batch=False)
call("gelu by formula", lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), (7, 33))
call("rms norm of channels", lambda x: x / torch.sqrt(x.pow(2).mean(1, keepdim=True) + 1e-5), (3, 7, 5, 6))
call("frobenius norm", lambda x: x / torch.norm(x, p="fro"), (3, 5, 7))
call("sums before", lambda x: torch.cat((torch.zeros_like(x[:, :1]), x), 1)[:, :-1].cumsum(1), (5, 33))
call("products of columns", lambda x: x.cumprod(0), (9, 5), batch=False)
call("products from the end", lambda x: x.flip(1).cumprod(1).flip(1), (5, 9))
call("greatest so far", lambda x: torch.cummax(x, 1).values, (5, 9))
call("logarithm of sums so far", lambda x: torch.logcumsumexp(x, 1), (5, 9))
kernel("max pool 3d, dilated", lambda: nn.MaxPool3d(3, 2, 1, dilation=2), (2, 3, 9, 8, 7))
kernel("average pool 3d, padded", lambda: nn.AvgPool3d(3, 2, 1), (2, 3, 7, 8, 9))
kernel("adaptive max pool", lambda: nn.AdaptiveMaxPool2d((3, 2)), (2, 3, 7, 9))
kernel("adaptive average pool 3d", lambda: nn.AdaptiveAvgPool3d((2, 4, 1)), (2, 3, 6, 8, 5))
kernel("window of 11, stride 4", lambda: nn.Conv2d(3, 8, 11, 4, 2), (2, 3, 31, 29))
kernel("separable", lambda: nn.Sequential(nn.Conv2d(5, 5, 3, 2, 1, 1, 5), nn.Conv2d(5, 9, 1)), (2, 5, 9, 8))
kernel("oblong 3d", lambda: nn.Conv3d(3, 4, (3, 5, 1), (1, 2, 2), (0, 2, 1), (2, 1, 1)), (2, 3, 7, 9, 6))
kernel("transposed 1d, dilated", lambda: nn.ConvTranspose1d(4, 6, 3, 2, 1, dilation=3), (2, 4, 11))
kernel(
    "transposed 2d, grouped",
    lambda: nn.ConvTranspose2d(6, 9, (3, 5), (2, 3), (1, 2), (1, 1), groups=3),
    (2, 6, 5, 4),
)
kernel("transposed 3d, oblong", lambda: nn.ConvTranspose3d(4, 6, (3, 2, 5), (1, 2, 3), (0, 1, 2)), (2, 4, 3, 4, 5))
call("entropy, smoothed", lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), (9, 7), whole(0, 7, 9))
call("entropy of images", lambda x, t: F.cross_entropy(x, t, ignore_index=2), (2, 5, 3, 4), whole(0, 5, 2, 3, 4))
call("divergence", lambda p, q: F.kl_div(p.softmax(-1).log(), q.softmax(-1), reduction="batchmean"), (9, 7), (9, 7))
call("huber", lambda x, y: F.huber_loss(x, y, delta=0.7), (9, 7), (9, 7))
call("hinge", lambda x, y: torch.clamp(1 - x * y.sign()[:, None], min=0).mean(), (9, 7), (9,))
call("triplets", lambda a, p, n: F.triplet_margin_loss(a, p, n, margin=0.5, swap=True), (9, 7), (9, 7), (9, 7))
call("contrast", lambda a, b: F.cosine_embedding_loss(a, b, torch.ones(len(a))), (9, 7), (9, 7))
call("binary entropy", lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), (9, 7), (9, 7))

# Fused blocks.
block("product, max pool, sum", lambda: nn.Linear(33, 20),
      lambda x: F.max_pool1d(x[:, None], 3).squeeze(1).sum(1) * 0.5, (9, 33))  # fmt: skip
block("product, average pool, gelu, greatest", lambda: nn.Linear(33, 20),
      lambda x: (F.gelu(F.avg_pool1d(x[:, None], 4).squeeze(1)) * 2).amax(1), (9, 33))  # fmt: skip
block("product, twice logarithms of sums", lambda: nn.Linear(33, 20),
      lambda x: x.sum(1, keepdim=True).max(1, keepdim=True)[0].logsumexp(1, True).logsumexp(1, True),
      (9, 33))  # fmt: skip
block("product, instance norm, residual", lambda: nn.Linear(33, 20),
      lambda x: (F.instance_norm(x[:, None]).squeeze(1) + x) * x, (9, 33))  # fmt: skip
block("product, batch norm, swish", lambda: nn.Sequential(nn.Linear(33, 20), nn.BatchNorm1d(20)),
      lambda x: F.silu((x + 0.3) / 2), (9, 33))  # fmt: skip
block("product, group norm, least", lambda: nn.Sequential(nn.Linear(33, 20), nn.GroupNorm(5, 20)),
      lambda x: x.min(1, keepdim=True)[0] + torch.linspace(0, 1, 20)[:, None, None], (9, 33))  # fmt: skip
block("product, dropout, softmax", lambda: nn.Sequential(nn.Linear(33, 20), nn.Dropout(0.3)),
      lambda x: x.softmax(1), (9, 33))  # fmt: skip
block("convolution, norm, tanh, residual, logarithms of sums",
      lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(4, 8)),
      lambda x: (F.hardswish(torch.tanh(x)) + x).logsumexp(1, keepdim=True), (2, 3, 9, 9))  # fmt: skip
block("convolution, instance norm", lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8)),
      lambda x: x / 2, (2, 3, 9, 9))  # fmt: skip
block("convolution, softplus, batch norm", lambda: nn.Conv2d(3, 8, 3),
      lambda x: F.batch_norm(torch.tanh(F.softplus(x)) * x, None, None, training=True), (2, 3, 9, 9))  # fmt: skip
block("convolution 3d, softmax, mean", lambda: nn.Conv3d(3, 8, 3, bias=False),
      lambda x: F.relu(F.hardswish(x)).softmax(1).mean((2, 3, 4)), (2, 3, 5, 6, 7))  # fmt: skip
block("convolution 3d, least, softmax", lambda: nn.Conv3d(3, 8, 3), lambda x: x.min(2)[0].softmax(1), (2, 3, 5, 6, 7))
block("convolution 3d, norm, clamp", lambda: nn.Sequential(nn.Conv3d(3, 8, 3), nn.GroupNorm(4, 8), nn.Dropout(0.2)),
      lambda x: torch.clamp(torch.min(x, torch.tensor(0.1)), 0.0, 1.0), (2, 3, 5, 6, 7))  # fmt: skip
block("transposed, mean, softmax", lambda: nn.ConvTranspose3d(3, 8, 3, 2, 1),
      lambda x: torch.tanh((x.mean(2, keepdim=True) + 0.1).softmax(1)) * 2, (2, 3, 3, 4, 5))  # fmt: skip
block("transposed, softmax, sigmoid", lambda: nn.ConvTranspose3d(3, 8, 3, 2, 1, 1),
      lambda x: torch.sigmoid(x.softmax(1)), (2, 3, 3, 4, 5))  # fmt: skip
block("transposed, layer norm, gelu", lambda: nn.Sequential(nn.ConvTranspose3d(3, 8, 4, 2, 1), nn.LayerNorm(8)),
      lambda x: F.gelu(x) * 0.5, (2, 3, 3, 3, 4))  # fmt: skip
block("transposed, batch norm, pools", lambda: nn.Sequential(nn.ConvTranspose3d(3, 4, 3, 2, 1), nn.BatchNorm3d(4)),
      lambda x: F.avg_pool3d(F.avg_pool3d(x, 2), 2), (2, 3, 4, 5, 5))  # fmt: skip
block("transposed, max pool, swish", lambda: nn.ConvTranspose3d(3, 4, 3, 2, 1, 1),
      lambda x: F.silu(F.max_pool3d(x, 2).softmax(1) - 0.1).max(1)[0], (2, 3, 3, 4, 5))  # fmt: skip
block("transposed, means, logarithms of sums", lambda: nn.ConvTranspose2d(3, 8, 3),
      lambda x: (x.mean((2, 3), keepdim=True) + 0.3).logsumexp(1, True).sum((2, 3)) * 10, (2, 3, 6, 5))  # fmt: skip
block("transposed, least, sum, gelu", lambda: nn.ConvTranspose2d(3, 8, 3, 2, 1, 1),
      lambda x: F.gelu(x.min(1, keepdim=True)[0].sum(2, keepdim=True)) + 0.3, (2, 3, 6, 5))  # fmt: skip
block("transposed, max pool, mean", lambda: nn.ConvTranspose2d(3, 8, 3, 1, 1),
      lambda x: torch.tanh(F.hardtanh(F.max_pool2d(x, 2)).mean((2, 3), keepdim=True)), (2, 3, 6, 7))  # fmt: skip


# Small networks.
class Inception(nn.Module):
    """Windows of several sizes side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.ways = nn.ModuleList(
            (
                nn.Conv2d(6, 4, 1),
                nn.Sequential(nn.Conv2d(6, 3, 1), nn.Conv2d(3, 4, 3, padding=1)),
                nn.Sequential(nn.Conv2d(6, 2, 1), nn.Conv2d(2, 3, 5, padding=2)),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(6, 2, 1)),
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([way(x) for way in self.ways], 1)


class Fire(nn.Module):
    """Of SqueezeNet: few channels, then two windows of them side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.few, self.one, self.three = nn.Conv2d(6, 3, 1), nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.few(x))
        return torch.cat((F.relu(self.one(x)), F.relu(self.three(x))), 1)


class Shuffle(nn.Module):
    """Grouped convolutions whose channels are shuffled between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(12, 6, 1, groups=3, bias=False), nn.Conv2d(6, 12, 1, groups=3, bias=False)
        self.middle = nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (6, 6, 12))

    def forward(self, x: Tensor) -> Tensor:
        found = F.relu(self.norms[0](self.first(x)))
        n, c, h, w = found.shape
        found = found.view(n, 3, c // 3, h, w).transpose(1, 2).contiguous().view(n, -1, h, w)
        return x + F.relu(self.norms[2](self.last(self.norms[1](self.middle(found)))))


class DenseBlock(nn.Module):
    """Norm, ReLU, convolution, dropout; each layer sees what all before it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(n), nn.ReLU(), nn.Conv2d(n, 3, 3, padding=1, bias=False), nn.Dropout(0.0))
            for n in (4, 7, 10)
        )

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        for layer in self.layers:
            found.append(layer(torch.cat(found, 1)))
        return torch.cat(found, 1)


class ViT(nn.Module):
    """Patches, a token of the class, one encoder layer, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.head = nn.Linear(48, 12), nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 5))
        self.place, self.token = nn.Parameter(torch.randn(1, 10, 12)), nn.Parameter(torch.randn(1, 1, 12))
        self.layer = nn.TransformerEncoderLayer(12, 3, 24, dropout=0.0, batch_first=True)

    def forward(self, image: Tensor) -> Tensor:
        x = image.unfold(2, 4, 4).unfold(3, 4, 4).reshape(image.shape[0], -1, 48)
        x = torch.cat((self.token.expand(image.shape[0], -1, -1), self.patches(x)), 1) + self.place
        return self.head(self.layer(x)[:, 0])


class Windows(nn.Module):
    """Shifted windows of an image, each attended to by itself, by the cosine of the angle (Swin, version 2)."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.scale = nn.Linear(8, 24), nn.Parameter(torch.full((2, 1, 1), 2.0))
        self.bias = nn.Parameter(torch.randn(2, 49))
        place = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        steps = place[:, :, None] - place[:, None, :] + 3
        self.places: Tensor
        self.register_buffer("places", steps[0] * 7 + steps[1])

    def forward(self, x: Tensor) -> Tensor:
        n, h, w, c = x.shape
        x = (
            torch.roll(x, (-2, -2), (1, 2))
            .view(n, h // 4, 4, w // 4, 4, c)
            .permute(0, 1, 3, 2, 4, 5)
            .reshape(-1, 16, c)
        )
        q, k, v = self.qkv(x).view(-1, 16, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        scores = scores * torch.clamp(self.scale, max=math.log(100)).exp()
        scores = scores + self.bias[:, self.places.view(-1)].view(2, 16, 16)
        x = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, h // 4, w // 4, 4, 4, c)
        return torch.roll(x.permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c), (2, 2), (1, 2))


class StateSpace(nn.Module):
    """A state space in chunks, as sums of segments (Mamba 2)."""

    def __init__(self, length: int = 4) -> None:
        super().__init__()
        self.length = length
        self.a = nn.Parameter(torch.rand(1, 2))

    def segments(self, x: Tensor) -> Tensor:
        t = x.shape[-1]
        x = x.cumsum(-1)
        return (x[..., :, None] - x[..., None, :]).masked_fill(~torch.ones(t, t, dtype=torch.bool).tril(), -torch.inf)

    def forward(self, x: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        n, t, heads, _ = x.shape
        x, b, c = (y.view(n, t // self.length, self.length, heads, -1) for y in (x, b, c))
        a = (-self.a.expand(n, t, heads)).view(n, -1, self.length, heads).permute(0, 3, 1, 2)
        sums = a.cumsum(-1)
        inner = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", c, b, torch.exp(self.segments(a)), x)
        states = torch.einsum("bclhn,bhcl,bclhp->bchpn", b, torch.exp(sums[..., -1:] - sums), x)
        states = torch.cat((torch.zeros_like(states[:, :1]), states), 1)
        decay = torch.exp(self.segments(F.pad(sums[..., -1], (1, 0))))
        states = torch.einsum("bhzc,bchpn->bzhpn", decay, states)
        outer = torch.einsum("bclhn,bchpn,bhcl->bclhp", c, states[:, :-1], torch.exp(sums))
        return (inner + outer).reshape(n, t, heads, -1), states[:, -1]


class Gated(nn.Module):
    """A recurrent network of PyTorch's."""

    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.inner, self.head = kind(5, 7, batch_first=True, **options), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.inner(x)[0]
        return self.head(found[:, -1, :7])


def relu_attention(x: Tensor) -> Tensor:
    """Causal, with ReLU in place of softmax."""
    q, k, v = x.chunk(3, -1)
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(torch.ones(9, 9).tril() == 0, float("-inf"))
    return F.relu(scores) @ v


def lenet() -> nn.Module:
    """LeNet-5 with half of the channels."""
    layers: list[nn.Module] = [nn.Conv2d(1, 3, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 8, 5), nn.ReLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 20), nn.ReLU(), nn.Linear(20, 10))


kernel("lenet", lenet, (2, 1, 28, 28))
kernel("fire, two windows", Fire, (2, 6, 7, 9))
kernel("inception", Inception, (2, 6, 7, 9))
kernel("shuffle unit", Shuffle, (2, 12, 5, 7))
kernel("dense block, norms first", DenseBlock, (2, 4, 7, 5))
kernel("vision transformer", ViT, (2, 3, 12, 12))
kernel("shifted windows", Windows, (2, 8, 8, 8))
kernel("state space", StateSpace, (2, 12, 2, 5), (2, 12, 2, 3), (2, 12, 2, 3))
kernel("lstm", lambda: Gated(nn.LSTM, num_layers=2), (3, 6, 5))
kernel("gru, both ways", lambda: Gated(nn.GRU, bidirectional=True), (3, 6, 5))
call("relu attention", relu_attention, (2, 9, 24))
