"""Small whole networks in the manner of collections of architectures to be optimized: convolutional, recurrent, with
attention, of points, graphs and tables. In training mode, with odd sizes; the first dimension of inputs is the batch.

`NETWORKS` maps a name to a function that makes a module and its inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as PyTorch users write it
from torch import Tensor, nn

from tests.torch_backend.modules import Calls, Maker, whole

NETWORKS: dict[str, Maker] = {}


def network(name: str, module: Callable[[], nn.Module], *inputs: Any) -> None:
    """A module on random inputs: a tuple is a shape, a function makes the input."""
    assert name not in NETWORKS
    NETWORKS[name] = lambda: (module(), tuple(torch.randn(s) if isinstance(s, tuple) else s() for s in inputs))


def normed(source: int, out: int, window: int = 3, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution without bias and its batch norm."""
    return [
        nn.Conv2d(source, out, window, stride, window // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out),
    ]


# Images.
class Basic(nn.Module):
    """Of ResNet-18."""

    def __init__(self, source: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*normed(source, out, 3, stride), nn.ReLU(), *normed(out, out))
        self.short = nn.Sequential(*normed(source, out, 1, stride)) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.short(x))


class Excited(nn.Module):
    """Of MobileNetV3 and EfficientNet: expand, depthwise, weights of channels by their means, project."""

    def __init__(self, width: int, gate: type[nn.Module], activation: type[nn.Module]) -> None:
        super().__init__()
        inner = 3 * width
        self.first = nn.Sequential(*normed(width, inner, 1), activation())
        self.depthwise = nn.Sequential(*normed(inner, inner, 5, 1, inner), activation())
        self.weights = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(inner, 4, 1), nn.ReLU(), nn.Conv2d(4, inner, 1), gate()
        )
        self.last = nn.Sequential(*normed(inner, width, 1))

    def forward(self, x: Tensor) -> Tensor:
        found = self.depthwise(self.first(x))
        return x + self.last(found * self.weights(found))


class ShuffleV2(nn.Module):
    """Half of the channels pass, the others go through convolutions; then they are shuffled."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.body = nn.Sequential(
            *normed(half, half, 1), nn.ReLU(), *normed(half, half, 3, 1, half), *normed(half, half, 1), nn.ReLU()
        )

    def forward(self, x: Tensor) -> Tensor:
        one, other = x.chunk(2, 1)
        x = torch.cat((one, self.body(other)), 1)
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class Pyramid(nn.Module):
    """Features at three scales, each with those of the next coarser one."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in ((3, 4), (4, 6), (6, 8)))
        self.side = nn.ModuleList(nn.Conv2d(n, 5, 1) for n in (4, 6, 8))
        self.smooth = nn.Conv2d(5, 5, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        seen = []
        for step in self.down:
            x = F.leaky_relu(step(x), 0.1)
            seen.append(x)
        found = [self.side[2](seen[2])]
        for side, one in zip((self.side[1], self.side[0]), (seen[1], seen[0]), strict=True):
            found.append(side(one) + F.interpolate(found[-1], size=one.shape[-2:], mode="nearest"))
        return tuple(self.smooth(one) for one in found)


class Atrous(nn.Module):
    """Windows with holes of several sizes, and the mean of the image, side by side (DeepLab)."""

    def __init__(self) -> None:
        super().__init__()
        self.ways = nn.ModuleList(nn.Conv2d(4, 3, 3, padding=rate, dilation=rate) for rate in (1, 2, 5))
        self.pooled, self.last = nn.Conv2d(4, 3, 1), nn.Conv2d(12, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        mean = self.pooled(x.mean((2, 3), keepdim=True)).expand(-1, -1, *x.shape[2:])
        found = self.last(F.relu(torch.cat([*(way(x) for way in self.ways), mean], 1)))
        return F.interpolate(found, scale_factor=2, mode="bilinear", align_corners=True).log_softmax(1)


class SoftUNet(nn.Module):
    """Convolution, batch norm, softmax along rows, twice for each scale; bilinear on the way up."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList(self.twice(a, b) for a, b in ((3, 4), (4, 8), (12, 4)))

    @staticmethod
    def twice(source: int, out: int) -> nn.Module:
        return nn.Sequential(*normed(source, out), nn.Softmax(-1), *normed(out, out), nn.Softmax(-1))

    def forward(self, x: Tensor) -> Tensor:
        one = self.steps[0](x)
        two = self.steps[1](F.max_pool2d(one, 2))
        return self.steps[2](torch.cat((F.interpolate(two, size=one.shape[2:], mode="bilinear"), one), 1))


class Variational(nn.Module):
    """An autoencoder whose code is drawn: the numbers are an input."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 4, 4, 2, 1), nn.ReLU(), nn.Conv2d(4, 6, 4, 2, 1), nn.ReLU())
        self.mean, self.spread, self.back = nn.Linear(54, 5), nn.Linear(54, 5), nn.Linear(5, 54)
        self.up = nn.Sequential(nn.ConvTranspose2d(6, 4, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(4, 1, 4, 2, 1))

    def forward(self, x: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.down(x).flatten(1)
        mean, spread = self.mean(hidden), self.spread(hidden)
        code = mean + drawn * torch.exp(0.5 * spread)
        away = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum(1)
        return torch.sigmoid(self.up(self.back(code).unflatten(1, (6, 3, 3)))), away


class ConvLstm(nn.Module):
    """Gates that are convolutions, over a sequence of images."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.width, self.gates = width, nn.Conv2d(3 + width, 4 * width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        state = memory = x.new_zeros(x.shape[0], self.width, *x.shape[3:])
        for t in range(x.shape[1]):
            i, f, o, g = self.gates(torch.cat((x[:, t], state), 1)).chunk(4, 1)
            memory = f.sigmoid() * memory + i.sigmoid() * g.tanh()
            state = o.sigmoid() * memory.tanh()
        return state


class Transformed(nn.Module):
    """A spatial transformer: where each pixel comes from is computed of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Sequential(
            nn.Conv2d(2, 3, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 6)
        )

    def forward(self, x: Tensor) -> Tensor:
        grid = F.affine_grid(self.place(x).view(-1, 2, 3), list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)


class Vlad(nn.Module):
    """NetVLAD: differences to centres, summed by how near they are."""

    def __init__(self, width: int = 7, centres: int = 5) -> None:
        super().__init__()
        self.nearness, self.norm = nn.Linear(width, centres + 1, bias=False), nn.BatchNorm1d(centres + 1)
        self.centres = nn.Parameter(torch.randn(1, width, centres))

    def forward(self, x: Tensor) -> Tensor:
        n, t, width = x.shape
        near = self.norm(self.nearness(x.reshape(-1, width))).softmax(1)[:, :-1].view(n, t, -1)
        away = near.sum(1, keepdim=True) * self.centres
        found = (near.transpose(1, 2) @ x).transpose(1, 2) - away
        return F.normalize(F.normalize(found).reshape(n, -1))


class Capsules(nn.Module):
    """Routing by agreement, three rounds."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.weight = nn.Conv2d(1, 8, 3, 2), nn.Parameter(0.1 * torch.randn(3, 18, 5, 4))

    @staticmethod
    def squashed(x: Tensor) -> Tensor:
        square = (x * x).sum(-1, keepdim=True)
        return square / (1 + square) * x / torch.sqrt(square + 1e-8)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        seen = self.squashed(self.first(x).reshape(n, 2, 4, -1).permute(0, 1, 3, 2).reshape(n, -1, 4))
        said = torch.einsum("cpok,npk->ncpo", self.weight, seen)
        belief = said.new_zeros(said.shape[:3])
        for _ in range(3):
            found = self.squashed((belief.softmax(1)[..., None] * said).sum(2))
            belief = belief + (said * found[:, :, None]).sum(-1)
        return found.norm(dim=-1)


class Mixer(nn.Module):
    """MLP-Mixer: perceptrons of patches and of channels in turns."""

    def __init__(self, patches: int = 9, width: int = 10) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, width, 4, 4)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.patches = nn.Sequential(nn.Linear(patches, 7), nn.GELU(), nn.Linear(7, patches))
        self.channels = nn.Sequential(nn.Linear(width, 17), nn.GELU(), nn.Linear(17, width))

    def forward(self, x: Tensor) -> Tensor:
        x = self.cut(x).flatten(2).transpose(1, 2)
        x = x + self.patches(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.norms[1](x))
        return self.norms[2](x).mean(1)


class Convolved(nn.Module):
    """Of CvT: what attention is given are depthwise convolutions, keys with steps of two."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.queries, self.keys = (
            nn.Sequential(*normed(width, width, 3, stride, width), nn.Conv2d(width, out, 1))
            for stride, out in ((1, width), (2, 2 * width))
        )

    def forward(self, x: Tensor) -> Tensor:
        q, kv = (
            y.flatten(2).transpose(1, 2).unflatten(-1, (-1, 4)).transpose(1, 2) for y in (self.queries(x), self.keys(x))
        )
        k, v = kv.chunk(2, 1)
        found = F.scaled_dot_product_attention(q, k, v)
        return x + found.transpose(1, 2).flatten(2).transpose(1, 2).reshape(x.shape)


network("vgg", lambda: nn.Sequential(
    *normed(3, 5), nn.ReLU(), *normed(5, 5), nn.ReLU(), nn.MaxPool2d(2, 2), *normed(5, 9), nn.ReLU(), nn.MaxPool2d(2),
    nn.AdaptiveAvgPool2d((3, 2)), nn.Flatten(), nn.Linear(54, 11), nn.ReLU(), nn.Dropout(0.0), nn.Linear(11, 4),
), (2, 3, 17, 15))  # fmt: skip
network("alexnet", lambda: nn.Sequential(
    nn.Conv2d(3, 8, 7, 4, 2), nn.ReLU(), nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0), nn.MaxPool2d(3, 2),
    nn.Conv2d(8, 10, 5, padding=2, groups=2), nn.ReLU(), nn.AvgPool2d(2, 1), nn.Flatten(), nn.Linear(160, 6),
), (2, 3, 47, 43))  # fmt: skip
network("resnet 18", lambda: nn.Sequential(
    *normed(3, 4, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Basic(4, 4, 1), Basic(4, 6, 2), Basic(6, 6, 1),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5),
), (2, 3, 31, 29))  # fmt: skip
network("mobilenet v3", lambda: Excited(5, nn.Hardsigmoid, nn.Hardswish), (2, 5, 9, 7))
network("efficientnet", lambda: Excited(4, nn.Sigmoid, nn.SiLU), (3, 4, 8, 11))
network("shufflenet v2", lambda: nn.Sequential(ShuffleV2(8), ShuffleV2(8)), (2, 8, 7, 9))
network("pyramid", Pyramid, (2, 3, 21, 19))
network("atrous", Atrous, (2, 4, 11, 9))
network("unet, softmax", SoftUNet, (2, 3, 10, 13))
network("super resolution", lambda: nn.Sequential(
    nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.Conv2d(6, 9, 3, padding=1), nn.PixelShuffle(3),
), (2, 1, 7, 8))  # fmt: skip
network("generator", lambda: nn.Sequential(
    nn.ConvTranspose2d(9, 8, 4, 1, 0, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
    nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
    nn.ConvTranspose2d(4, 3, 4, 2, 1), nn.Tanh(),
), (3, 9, 1, 1))  # fmt: skip
network("discriminator", lambda: nn.Sequential(
    nn.Conv2d(3, 4, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(4, 8, 4, 2, 1), nn.InstanceNorm2d(8, affine=True),
    nn.LeakyReLU(0.2), nn.Conv2d(8, 1, 4, 1, 0), nn.Flatten(), nn.Sigmoid(),
), (2, 3, 18, 22))  # fmt: skip
network("variational", Variational, (2, 1, 12, 12), (2, 5))
network("convolutional lstm", ConvLstm, (2, 3, 3, 6, 5))
network("spatial transformer", Transformed, (2, 2, 9, 7))
network("capsules", Capsules, (2, 1, 7, 7))
network("mixer", Mixer, (2, 3, 12, 12))
network("convolved attention", Convolved, (2, 8, 7, 5))


# Sequences.
class Wave(nn.Module):
    """Causal windows with holes, gates, and what every layer adds (WaveNet); weights by direction and length."""

    def __init__(self, width: int = 5) -> None:
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.first = nn.Conv1d(1, width, 1)
        self.layers = nn.ModuleList(norm(nn.Conv1d(width, 2 * width, 2, dilation=d)) for d in (1, 2, 4))
        self.outs = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        total: Any = 0.0
        layer: Any
        for layer, out in zip(self.layers, self.outs, strict=True):
            one, gate = layer(F.pad(x, (layer.dilation[0], 0))).chunk(2, 1)
            found = out(one.tanh() * gate.sigmoid())
            x, total = x + found, total + found
        return F.relu(total)


class Cells(nn.Module):
    """Cells of PyTorch's, one step after the other, and a plain recurrence with a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.plain = nn.GRUCell(5, 6), nn.LSTMCell(6, 4), nn.Linear(9, 5)
        self.norm = nn.LayerNorm(5)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        n = x.shape[1]
        one, (two, memory), plain = x.new_zeros(n, 6), x.new_zeros(2, n, 4).unbind(), x.new_zeros(n, 5)
        for step in x:
            one = self.one(step, one)
            two, memory = self.two(one, (two, memory))
            plain = torch.tanh(self.norm(self.plain(torch.cat((two, plain), 1))))
        return two, memory, plain


class Additive(nn.Module):
    """A decoder that looks at what an encoder gave, by a perceptron (Bahdanau)."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.words, self.encoder = nn.Embedding(11, 5), nn.GRU(5, width, batch_first=True)
        self.key, self.query, self.score = nn.Linear(width, 4), nn.Linear(width, 4), nn.Linear(4, 1, bias=False)
        self.cell, self.out = nn.GRUCell(width, width), nn.Linear(2 * width, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        seen, last = self.encoder(self.words(tokens))
        state, found = last[0], []
        for _ in range(3):
            near = self.score(torch.tanh(self.key(seen) + self.query(state)[:, None])).squeeze(-1).softmax(-1)
            context = torch.bmm(near[:, None], seen).squeeze(1)
            state = self.cell(context, state)
            found.append(self.out(torch.cat((state, context), -1)).log_softmax(-1))
        return torch.stack(found, 1)


class Llama(nn.Module):
    """Rotated pairs, heads that share keys, root mean squares, gated perceptron."""

    def __init__(self, width: int = 24, heads: int = 6, shared: int = 2) -> None:
        super().__init__()
        self.heads, self.shared, size = heads, shared, width // heads
        self.q, self.kv, self.o = (
            nn.Linear(width, width, False),
            nn.Linear(width, 2 * shared * size, False),
            nn.Linear(width, width, False),
        )
        self.norms = nn.ModuleList(nn.RMSNorm(width, 1e-6) for _ in range(2))
        self.gate, self.up, self.down = (
            nn.Linear(width, 40, False),
            nn.Linear(width, 40, False),
            nn.Linear(40, width, False),
        )
        self.size = size

    def turned(self, x: Tensor) -> Tensor:
        half = self.size // 2
        angle = torch.arange(x.shape[-2])[:, None] / 10000 ** (torch.arange(half) / half)
        angle = torch.cat((angle, angle), -1)
        other = torch.cat((-x[..., half:], x[..., :half]), -1)
        return x * angle.cos() + other * angle.sin()

    def forward(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        y = self.norms[0](x)
        q = self.turned(self.q(y).view(n, t, self.heads, -1).transpose(1, 2))
        k, v = self.kv(y).view(n, t, 2, self.shared, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, self.turned(k), v, is_causal=True, enable_gqa=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(n, t, -1))
        y = self.norms[1](x)
        found: Tensor = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return found


class Experts(nn.Module):
    """Each token goes to two of four perceptrons."""

    def __init__(self, width: int = 7) -> None:
        super().__init__()
        self.gate = nn.Linear(width, 4, bias=False)
        self.first, self.last = (
            nn.Parameter(0.3 * torch.randn(4, width, 9)),
            nn.Parameter(0.3 * torch.randn(4, 9, width)),
        )

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        all_of_them = torch.einsum("neh,ehd->ned", F.gelu(torch.einsum("nd,edh->neh", x, self.first)), self.last)
        found: Tensor = all_of_them.gather(1, chosen[..., None].expand(-1, -1, x.shape[-1])) * weights[..., None]
        return found.sum(1)


class Featured(nn.Module):
    """Attention without softmax: features of keys are summed up first, then so far."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, -1)).permute(2, 0, 3, 1, 4)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        whole_sum = (q @ (k.mT @ v)) / (q @ k.sum(-2)[..., None] + 1e-6)
        so_far = torch.einsum("bhtd,bhtde->bhte", q, torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(2))
        return whole_sum, so_far / (q * k.cumsum(2)).sum(-1, keepdim=True)


class Selective(nn.Module):
    """A state space whose steps depend on what is read (Mamba), one after the other."""

    def __init__(self, width: int = 6, states: int = 3) -> None:
        super().__init__()
        self.window = nn.Conv1d(width, width, 3, padding=2, groups=width)
        self.parts, self.step = nn.Linear(width, 2 * states + 1, bias=False), nn.Linear(1, width)
        self.logarithms = nn.Parameter(torch.log(torch.arange(1.0, states + 1)).repeat(width, 1))

    def forward(self, x: Tensor) -> Tensor:
        t = x.shape[1]
        x = F.silu(self.window(x.mT)[..., :t].mT)
        step, b, c = self.parts(x).split([1, 3, 3], -1)
        step = F.softplus(self.step(step))
        decay = torch.exp(step[..., None] * -self.logarithms.exp())
        given = (step * x)[..., None] * b[:, :, None]
        state, found = torch.zeros_like(decay[:, 0]), []
        for i in range(t):
            state = decay[:, i] * state + given[:, i]
            found.append((state @ c[:, i, :, None]).squeeze(-1))
        return torch.stack(found, 1)


class Related(nn.Module):
    """Attention with a bias of distances (T5), and one mask for all heads that is learned."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.bias = nn.Embedding(9, 3)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        q, k, v = (f(z).unflatten(-1, (3, -1)).transpose(1, 2) for f, z in ((self.q, x), (self.k, y), (self.v, y)))
        away = torch.arange(y.shape[1])[None] - torch.arange(x.shape[1])[:, None]
        bias = self.bias(away.clamp(-4, 4) + 4).permute(2, 0, 1)[None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2)


network("wavenet", Wave, (2, 1, 13))
network("cells", Cells, (3, 4, 5))
network("additive attention", Additive, whole(0, 11, 3, 5))
network("encoder and decoder", lambda: nn.Transformer(12, 2, 1, 1, 20, 0.0, batch_first=True), (2, 5, 12), (2, 4, 12))
network("llama", Llama, (2, 7, 24))
network("experts", Experts, (9, 7))
network("linear attention", Featured, (2, 6, 12))
network("selective state space", Selective, (2, 5, 6))
network("related attention", Related, (2, 5, 12), (2, 7, 12))
network("fourier mixing", lambda: Calls(lambda x: torch.fft.fft2(x).real + F.gelu(x)), (2, 5, 7))


# Points, graphs and tables.
class Points(nn.Module):
    """PointNet: the same perceptron of all points, turned by a matrix that is computed of them, and its greatest."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU())
        self.matrix, self.rest = nn.Linear(8, 9), nn.Sequential(nn.Conv1d(3, 7, 1), nn.ReLU(), nn.Conv1d(7, 5, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        turn = self.matrix(self.turn(x).max(2)[0]).view(-1, 3, 3) + torch.eye(3)
        found = self.rest(torch.bmm(turn, x)).amax(2)
        return found.log_softmax(-1), (torch.eye(3) - turn @ turn.mT).norm(dim=(1, 2)).mean()


class Graphs(nn.Module):
    """Sums over neighbours by a matrix, and by weights of edges (GCN, GAT)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.ends = nn.Linear(5, 6), nn.Linear(6, 4), nn.Parameter(torch.randn(2, 4))

    def forward(self, x: Tensor, near: Tensor) -> Tensor:
        near = ((near + near.mT) > 0.5).float() + torch.eye(near.shape[-1])
        scale = near.sum(-1).rsqrt()
        x = F.relu((scale[..., None] * near * scale[..., None, :]) @ self.first(x))
        x = self.second(x)
        scores = F.leaky_relu((x @ self.ends[0])[..., None] + (x @ self.ends[1])[..., None, :], 0.2)
        return F.elu(scores.masked_fill(near == 0, -1e9).softmax(-1) @ x)


class Crossed(nn.Module):
    """Sums of pairs of features: factorization machine, cross network, perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.pairs = nn.Embedding(13, 1), nn.Embedding(13, 4)
        self.cross = nn.ModuleList(nn.Linear(12, 12) for _ in range(2))
        self.deep = nn.Sequential(nn.Linear(12, 9), nn.BatchNorm1d(9), nn.PReLU(), nn.Linear(9, 1))

    def forward(self, features: Tensor) -> Tensor:
        rows = self.pairs(features)
        both = 0.5 * (rows.sum(1).pow(2) - rows.pow(2).sum(1)).sum(1, keepdim=True)
        first = x = rows.flatten(1)
        for layer in self.cross:
            x = first * layer(x) + x
        return torch.sigmoid(self.one(features).sum(1) + both + self.deep(x))


class Contrasted(nn.Module):
    """Two towers, and how well each of one finds its own of the other (CLIP)."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Sequential(nn.Linear(9, 6), nn.SELU()), nn.Sequential(nn.Linear(7, 6), nn.Softsign())
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        scores = self.scale.exp() * F.normalize(self.one(x), dim=-1) @ F.normalize(self.other(y), dim=-1).t()
        own = torch.arange(len(x))
        return (F.cross_entropy(scores, own) + F.cross_entropy(scores.t(), own)) / 2


class Highway(nn.Module):
    """Gates that let through, four steps of a differential equation behind them."""

    def __init__(self, width: int = 7) -> None:
        super().__init__()
        self.gate, self.body, self.slope = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(x))
        x = gate * F.relu(self.body(x)) + (1 - gate) * x
        for _ in range(4):
            half = x + 0.05 * torch.tanh(self.slope(x))
            x = x + 0.1 * torch.tanh(self.slope(half))
        return x


network("points", Points, (3, 3, 11))
network("graphs", Graphs, (2, 6, 5), (2, 6, 6))
network("crossed features", Crossed, whole(0, 13, 5, 3))
network("contrast", Contrasted, (5, 9), (5, 7))
network("highway", Highway, (5, 7))
network("centres", Vlad, (2, 6, 7))
