"""Modules as people write them: operators, fused blocks and small networks, with odd sizes and odd strides.

`MODULES` maps a name to a function that makes a module and its inputs, deterministically (`made`). Weights are random,
sizes small; nothing here knows what the backend supports. Those of `LARGER` have work enough for blocks and threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as PyTorch users write it
from torch import Tensor, nn

Inputs = tuple[Any, ...]
Maker = Callable[[], tuple[nn.Module, Inputs]]
MODULES: dict[str, Maker] = {}
LARGER: dict[str, Maker] = {}


@dataclass(frozen=True)
class Made:
    """A module in evaluation mode and the inputs of one call."""

    module: nn.Module
    inputs: Inputs


def made(name: str, seed: int = 0) -> Made:
    """The module of this name, with weights and inputs drawn from a seed. Raises KeyError for unknown names."""
    torch.manual_seed(seed)
    module, inputs = {**MODULES, **LARGER}[name]()
    return Made(module.eval(), inputs)


class Calls(nn.Module):
    """A module of a function without weights."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def function(name: str, call: Callable[..., Any], *shapes: Any) -> None:
    """A module that calls a function on random inputs: a tuple is a shape, a function makes the input."""

    def maker() -> tuple[nn.Module, Inputs]:
        return Calls(call), tuple(torch.randn(s) if isinstance(s, tuple) else s() for s in shapes)

    MODULES[name] = maker


def layers(name: str, module: Callable[[], nn.Module], *shapes: Any) -> None:
    """A module with weights on random inputs."""

    def maker() -> tuple[nn.Module, Inputs]:
        return module(), tuple(torch.randn(s) if isinstance(s, tuple) else s() for s in shapes)

    MODULES[name] = maker


def whole(low: int, high: int, *shape: int) -> Callable[[], Tensor]:
    """Integers of a range."""
    return lambda: torch.randint(low, high, shape)


# Products
function("matmul_square", torch.matmul, (65, 65), (65, 65))
function("matmul_tall", torch.matmul, (257, 9), (9, 31))
function("matmul_wide", torch.matmul, (3, 130), (130, 259))
function("matmul_vector", torch.matmul, (67, 129), (129,))
function("vector_matmul", torch.matmul, (129,), (129, 35))
function("dot", torch.dot, (1003,), (1003,))
function("outer", torch.outer, (33,), (65,))
function("matmul_batch", torch.bmm, (5, 33, 17), (5, 17, 41))
function("matmul_left_transposed", lambda a, b: a.t() @ b, (33, 65), (33, 47))
function("matmul_right_transposed", lambda a, b: a @ b.t(), (33, 65), (47, 65))
function("matmul_both_transposed", lambda a, b: a.t() @ b.t(), (65, 33), (47, 65))
function("matmul_of_4d", torch.matmul, (2, 3, 17, 33), (33, 21))
function("matmul_broadcast_batch", torch.matmul, (2, 1, 17, 33), (3, 33, 5))
function("einsum_bilinear", lambda a, b, c: torch.einsum("bi,oij,bj->bo", a, b, c), (5, 7), (9, 7, 11), (5, 11))
function("einsum_4d", lambda a, b: torch.einsum("bijl,lk->bijk", a, b), (2, 5, 7, 19), (19, 23))
function("diagonal_times", lambda d, b: torch.diag(d) @ b, (33,), (33, 20))
function("triangular_product", lambda a, b: torch.tril(a) @ torch.tril(b), (33, 33), (33, 33))
function("symmetric_product", lambda a, b: (a + a.t()) @ b, (33, 33), (33, 20))
function("depth_of_one", torch.matmul, (17, 1), (1, 19))
function("depth_of_nothing", torch.matmul, (17, 0), (0, 19))
function("no_rows", torch.matmul, (0, 7), (7, 19))
function("addmm_scaled", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2.0), (1, 20), (7, 33), (33, 20))
function("baddbmm", lambda c, a, b: torch.baddbmm(c, a, b, beta=0.0), (3, 7, 9), (3, 7, 11), (3, 11, 9))

# Pointwise functions
for _name, _call in {
    "relu": F.relu, "leaky_relu": lambda x: F.leaky_relu(x, 0.1), "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "selu": F.selu,
    "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "softplus": lambda x: F.softplus(x, 2.0, 3.0),
    "softsign": F.softsign, "elu": lambda x: F.elu(x, 0.7), "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.8),
    "mish": F.mish, "celu": F.celu, "logsigmoid": F.logsigmoid, "tanhshrink": F.tanhshrink,
    "softshrink": F.softshrink, "hardshrink": F.hardshrink, "relu6": F.relu6, "exp": torch.exp, "erf": torch.erf,
    "sin_cos": lambda x: torch.sin(x) * torch.cos(3 * x), "rsqrt": lambda x: torch.rsqrt(x * x + 1e-3),
    "power": lambda x: torch.pow(x.abs() + 0.1, 1.7), "square_cube": lambda x: x**2 - x**3, "sign": torch.sign,
    "round_trip": lambda x: torch.round(3 * x) - torch.floor(x) + torch.ceil(x) - torch.trunc(x),
    "clamp": lambda x: torch.clamp(x, -0.3, 0.4), "clamp_min": lambda x: x.clamp_min(0.1),
    "reciprocal": lambda x: 1 / (x + 5), "remainder": lambda x: torch.remainder(x, 0.7),
    "fmod": lambda x: torch.fmod(x, 0.7), "log1p_expm1": lambda x: torch.log1p(x.abs()) + torch.expm1(x),
    "isnan_where": lambda x: torch.where(torch.isnan(torch.log(x)), torch.zeros_like(x), x),
    "comparisons": lambda x: (x > 0) & (x < 1) | (x == 0), "to_int": lambda x: (10 * x).to(torch.int32),
    "to_bf16_and_back": lambda x: x.to(torch.bfloat16).float(), "to_double": lambda x: x.double() * 2,
    "masked_fill": lambda x: x.masked_fill(x < 0, -math.inf), "lerp": lambda x: torch.lerp(x, 2 * x, 0.3),
    "copysign": lambda x: torch.copysign(torch.ones_like(x), x), "atan2": lambda x: torch.atan2(x, 1 + x),
    "nan_to_num": lambda x: torch.nan_to_num(torch.log(x), nan=1.0, neginf=-7.0),
}.items():  # fmt: skip
    function(_name, _call, (7, 131))
function("pointwise_of_nothing", lambda x: F.relu(x) + 1, (0, 5))
function("pointwise_of_one", lambda x: F.gelu(x) * 2, ())
function("broadcast_three", lambda a, b, c: a * b + c, (5, 1, 7), (3, 1), (7,))
function("mixed_types", lambda a, b: a * b + 1, (9, 5), whole(-5, 5, 9, 5))
function("integer_arithmetic", lambda a: a // 3 + a % 4 - (a >> 1) + (a ^ 5), whole(-40, 40, 33))
function("of_a_transpose", lambda x: F.silu(x.t()) + 1, (33, 20))
function("of_a_stepped_slice", lambda x: x[::2, 1::3] * x[1::2, ::3][:, :6], (20, 19))
function("of_a_flip", lambda x: x.flip(0) - x, (19, 5))
function("of_an_expand", lambda x: x.expand(5, 19) * torch.arange(5.0)[:, None], (1, 19))
function("channels_last_chain", lambda x: F.relu(x.contiguous(memory_format=torch.channels_last) * 2 + 1), (2, 5, 6, 7))
function("glu", lambda x: F.glu(x, 1), (5, 22, 3))
function("swiglu", lambda x, g: F.silu(g) * x, (17, 33), (17, 33))
function("view_and_add", lambda x, y: x.view(6, 35) + y.reshape(6, 35), (2, 3, 35), (6, 5, 7))

# Reductions and rows
for _name, _call in {
    "sum_all": lambda x: x.sum(), "sum_rows": lambda x: x.sum(-1), "sum_columns": lambda x: x.sum(0),
    "sum_middle": lambda x: x.sum(1, keepdim=True), "mean_two": lambda x: x.mean((0, 2)), "amax": lambda x: x.amax(-1),
    "amin_first": lambda x: x.amin(0), "max_values": lambda x: torch.max(x, 1), "argmax": lambda x: x.argmax(-1),
    "argmin_first": lambda x: x.argmin(0), "product": lambda x: x.prod(1), "variance": lambda x: x.var(-1),
    "std_of_all": lambda x: x.std(), "norm_of_rows": lambda x: x.norm(dim=-1), "frobenius": lambda x: x / x.norm(),
    "l1_normalised": lambda x: x / x.abs().mean(1, keepdim=True), "l2_normalised": lambda x: F.normalize(x, dim=1),
    "softmax": lambda x: x.softmax(-1), "softmax_middle": lambda x: x.softmax(1), "softmin": lambda x: F.softmin(x, -1),
    "log_softmax": lambda x: x.log_softmax(-1), "logsumexp": lambda x: x.logsumexp(1), "any_all": lambda x:
    ((x > 2).any(-1), (x > -3).all(0)), "cumsum": lambda x: x.cumsum(-1), "cumsum_first": lambda x: x.cumsum(0),
    "cumsum_reversed": lambda x: x.flip(1).cumsum(1).flip(1), "cumprod": lambda x: x.cumprod(-1), "masked_cumsum":
    lambda x: (x * (x > 0)).cumsum(-1), "sort_values": lambda x: x.sort(-1).values, "topk": lambda x: x.topk(3)[0],
    "count_nonzero": lambda x: (x > 0).sum(1), "centre": lambda x: x - x.mean(-1, keepdim=True),
    "median": lambda x: x.median(-1).values,
}.items():  # fmt: skip
    function(_name, _call, (5, 9, 33))
function("sum_of_nothing", lambda x: (x.sum(0), x.sum()), (0, 7))
function("mean_of_wide", lambda x: x.mean(-1), (3, 5001))
function(
    "softmax_masked", lambda x, m: (x + m).softmax(-1), (2, 3, 9, 9), lambda: torch.full((9, 9), -math.inf).triu(1)
)

# Norms
layers("layer_norm", lambda: nn.LayerNorm(33), (5, 7, 33))
layers("layer_norm_of_images", lambda: nn.LayerNorm((5, 6, 7)), (3, 5, 6, 7))
layers("layer_norm_plain", lambda: nn.LayerNorm(33, elementwise_affine=False), (19, 33))
layers("rms_norm", lambda: nn.RMSNorm(33), (5, 7, 33))
layers("batch_norm_2d", lambda: nn.BatchNorm2d(5), (3, 5, 6, 7))
layers("batch_norm_1d", lambda: nn.BatchNorm1d(19), (8, 19))
layers("instance_norm", lambda: nn.InstanceNorm2d(5, affine=True), (3, 5, 6, 7))
layers("group_norm", lambda: nn.GroupNorm(3, 12), (2, 12, 5, 7))
layers("local_response_norm", lambda: nn.LocalResponseNorm(3), (2, 7, 5, 5))

# Windows
layers("max_pool_1d", lambda: nn.MaxPool1d(3, 2, 1), (2, 5, 33))
layers("max_pool_2d", lambda: nn.MaxPool2d(3, 2, 1), (2, 5, 17, 19))
layers("max_pool_2d_dilated", lambda: nn.MaxPool2d(2, 1, 0, dilation=2), (2, 5, 9, 11))
layers("max_pool_2d_ceil", lambda: nn.MaxPool2d(3, 2, ceil_mode=True), (2, 5, 16, 18))
layers("max_pool_3d", lambda: nn.MaxPool3d(2), (1, 3, 7, 8, 9))
layers("avg_pool_1d", lambda: nn.AvgPool1d(4, 2), (2, 5, 33))
layers("avg_pool_2d", lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), (2, 5, 17, 19))
layers("avg_pool_3d", lambda: nn.AvgPool3d(2), (1, 3, 7, 8, 9))
layers("adaptive_avg_pool", lambda: nn.AdaptiveAvgPool2d((3, 2)), (2, 5, 10, 7))
layers("global_avg_pool", lambda: nn.AdaptiveAvgPool2d(1), (2, 5, 10, 7))
layers("upsample_nearest", lambda: nn.Upsample(scale_factor=2), (2, 3, 5, 7))
layers("upsample_bilinear", lambda: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), (2, 3, 5, 7))
layers("upsample_bilinear_corners", lambda: nn.UpsamplingBilinear2d((11, 9)), (2, 3, 5, 7))
layers("upsample_linear", lambda: nn.Upsample(scale_factor=3, mode="linear"), (2, 3, 7))
layers("upsample_trilinear", lambda: nn.Upsample(size=(5, 2, 8), mode="trilinear"), (2, 3, 4, 3, 5))
layers("upsample_bilinear_smaller", lambda: nn.Upsample(scale_factor=0.6, mode="bilinear"), (2, 3, 10, 17))
layers("pixel_shuffle", lambda: nn.PixelShuffle(2), (2, 12, 5, 7))
layers("reflection_pad", lambda: nn.ReflectionPad2d((1, 2, 3, 0)), (2, 3, 7, 7))
layers("unfold", lambda: nn.Unfold(3, padding=1), (2, 3, 7, 7))

# Convolutions
layers("conv_1d", lambda: nn.Conv1d(5, 7, 3, padding=1), (2, 5, 33))
layers("conv_1d_dilated", lambda: nn.Conv1d(5, 7, 3, dilation=4), (2, 5, 33))
layers("conv_2d", lambda: nn.Conv2d(5, 7, 3), (2, 5, 13, 17))
layers("conv_2d_same", lambda: nn.Conv2d(5, 7, (3, 5), padding="same"), (2, 5, 13, 17))
layers("conv_2d_strided", lambda: nn.Conv2d(3, 9, 7, stride=2, padding=3), (2, 3, 23, 25))
layers(
    "conv_2d_oblong", lambda: nn.Conv2d(4, 6, (3, 5), stride=(2, 1), padding=(1, 2), dilation=(1, 2)), (2, 4, 13, 17)
)
layers("conv_2d_pointwise", lambda: nn.Conv2d(17, 33, 1, bias=False), (2, 17, 7, 9))
layers("conv_2d_grouped", lambda: nn.Conv2d(6, 9, 3, groups=3), (2, 6, 9, 11))
layers("conv_2d_depthwise", lambda: nn.Conv2d(6, 6, 3, padding=1, groups=6), (2, 6, 9, 11))
layers("conv_2d_depthwise_doubled", lambda: nn.Conv2d(6, 12, 5, padding=2, stride=2, groups=6), (2, 6, 9, 11))
layers("conv_3d", lambda: nn.Conv3d(3, 4, 3, padding=1), (1, 3, 5, 6, 7))
layers("conv_no_batch", lambda: nn.Conv2d(5, 7, 3), (5, 9, 9))
layers("conv_transposed_1d", lambda: nn.ConvTranspose1d(5, 4, 3, stride=2), (2, 5, 9))
layers("conv_transposed_2d", lambda: nn.ConvTranspose2d(5, 4, 3, stride=2, padding=1, output_padding=1), (2, 5, 7, 9))
layers("conv_transposed_3d", lambda: nn.ConvTranspose3d(3, 4, 2, stride=2), (1, 3, 4, 5, 6))
layers("conv_channels_last", lambda: nn.Conv2d(8, 16, 3, padding=1).to(memory_format=torch.channels_last),
       lambda: torch.randn(2, 8, 9, 9).to(memory_format=torch.channels_last))  # fmt: skip
layers("conv_batch_of_none", lambda: nn.Conv2d(5, 7, 3), (0, 5, 9, 9))

# Losses
function("mse_loss", F.mse_loss, (17, 9), (17, 9))
function("cross_entropy", F.cross_entropy, (17, 9), whole(0, 9, 17))
function("huber_loss", F.smooth_l1_loss, (17, 9), (17, 9))
function("cosine_loss", lambda a, b: (1 - F.cosine_similarity(a, b, dim=1)).mean(), (17, 9), (17, 9))
function("kl_loss", lambda a, b: F.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="batchmean"), (17, 9), (17, 9))
function("triplet_loss", F.triplet_margin_loss, (17, 9), (17, 9), (17, 9))
function("hinge_loss", lambda p, t: torch.mean(torch.clamp(1 - p * t.sign(), min=0)), (17, 9), (17, 9))
function("bce_with_logits", lambda a, b: F.binary_cross_entropy_with_logits(a, b.sigmoid()), (17, 9), (17, 9))

# Subscripts
layers("embedding", lambda: nn.Embedding(31, 17), whole(0, 31, 5, 7))
layers("embedding_bag", lambda: nn.EmbeddingBag(31, 17, mode="sum"), whole(0, 31, 5, 7))
layers("embedding_bag_mean", lambda: nn.EmbeddingBag(31, 17), whole(0, 31, 5, 7))
layers("embedding_bag_most", lambda: nn.EmbeddingBag(31, 17, mode="max"), whole(0, 31, 5, 7))
layers("embedding_bag_padded", lambda: nn.EmbeddingBag(31, 17, padding_idx=3), whole(0, 31, 5, 7))
function("embedding_bags_of_any", lambda i, w: F.embedding_bag(i, w, torch.tensor([0, 2, 9])), whole(0, 9, 13), (9, 5))
function("gather", lambda x, i: x.gather(1, i), (5, 9), whole(0, 9, 5, 4))
function("index_rows", lambda x, i: x[i], (9, 5), whole(0, 9, 13))
function("index_two", lambda x, i, j: x[i, j], (9, 5), whole(0, 9, 13), whole(0, 5, 13))
function("index_add", lambda x, i, y: x.index_add(0, i, y), (9, 5), whole(0, 9, 13), (13, 5))
function("scatter_sum", lambda x, i, y: x.scatter_add(1, i, y), (5, 9), whole(0, 9, 5, 4), (5, 4))
function("one_hot_product", lambda i, w: F.one_hot(i, 11).float() @ w, whole(0, 11, 7), (11, 5))
function("concatenated", lambda a, b: torch.cat([a, b[:, :3], a * 2], 1), (5, 4), (5, 7))
function("stacked", lambda a, b: torch.stack([a, b], -1).reshape(5, -1), (5, 4), (5, 4))
function("split_and_mixed", lambda x: torch.cat([c * (i + 1) for i, c in enumerate(x.chunk(3, 1))], 0), (5, 12))
function("padded", lambda x: F.pad(x, (1, 2, 0, 3), value=1.5), (3, 5))
function("rolled", lambda x: torch.roll(x, (2, -1), (0, 1)), (7, 9))
function("boolean_mask", lambda x: x[x > 0], (7, 9))
function("nonzero", lambda x: torch.nonzero(x > 0), (7, 9))
function("tril_sum", lambda x: torch.tril(x, 1).sum(), (9, 9))
function("meshed", lambda x, y: torch.cdist(x, y), (9, 3), (7, 3))


# Blocks
class Attention(nn.Module):
    """Several heads, written out by hand, causal or not."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, s, w = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(w // self.heads)
        if self.causal:
            mask = torch.ones(s, s, dtype=torch.bool, device=x.device).tril()
            scores = scores.masked_fill(~mask, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, w))


class Block(nn.Module):
    """A transformer block with norms in front."""

    def __init__(self, width: int, heads: int, *, whole_attention: bool) -> None:
        super().__init__()
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads, self.whole_attention = heads, whole_attention
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.attention = Attention(width, heads, causal=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.one(x)
        if self.whole_attention:
            b, s, w = h.shape
            q, k, v = (t.view(b, s, self.heads, -1).transpose(1, 2) for t in self.qkv(h).chunk(3, -1))
            h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = self.out(h.transpose(1, 2).reshape(b, s, w))
        else:
            h = self.attention(h)
        x = x + h
        return x + self.mlp(self.two(x))


class Residual(nn.Module):
    """x + f(x), with an activation behind it."""

    def __init__(self, *inner: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(*inner)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.inner(x))


def conv_norm(inputs: int, outputs: int, size: int, **options: Any) -> list[nn.Module]:
    """A convolution and its batch norm, whose statistics are not 0 and 1."""
    norm = nn.BatchNorm2d(outputs)
    norm.running_mean = torch.randn(outputs)
    norm.running_var = torch.rand(outputs) + 0.5
    return [nn.Conv2d(inputs, outputs, size, bias=False, **options), norm]


class SqueezeExcite(nn.Module):
    """Channels weighed by a small network of their means."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, 3, 1), nn.Conv2d(3, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.up(F.silu(self.down(x.mean((2, 3), keepdim=True)))))


class Dense(nn.Module):
    """Each layer sees all results before it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(4 + 3 * i, 3, 3, padding=1) for i in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, F.relu(layer(x))], 1)
        return x


class Unet(nn.Module):
    """Down, up, and across."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1), nn.Conv2d(16, 8, 1)
        self.up, self.end = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        a = F.relu(self.a(x))
        b = F.relu(self.b(F.max_pool2d(a, 2)))
        return self.end(torch.cat([self.up(b), a], 1))


class Steps(nn.Module):
    """A cell, stepped over a short sequence."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor) -> Tensor:
        state: Any = None
        out = []
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
            out.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(out, 1)


class Cached(nn.Module):
    """Keys of one more token, written in place into a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(9, 5))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        self.keys.index_copy_(0, position, x)
        return self.keys.softmax(-1).sum(0)


class Tied(nn.Module):
    """One weight used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(31, 12)

    def forward(self, tokens: Tensor) -> Tensor:
        return F.gelu(self.embedding(tokens)) @ self.embedding.weight.t()


class OfItself(nn.Module):
    """Attention of a sequence to itself, the weights of attention as well."""

    def __init__(self, attention: nn.MultiheadAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Any:
        return self.attention(x, x, x)


def rotary(x: Tensor) -> Tensor:
    """Rotary positions of [batch, heads, tokens, width]."""
    half = x.shape[-1] // 2
    angles = torch.outer(torch.arange(x.shape[-2]).float(), 1 / 10000 ** (torch.arange(half).float() / half))
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


def selective_scan(x: Tensor, decay: Tensor) -> Tensor:
    """h[t] = decay[t] h[t-1] + x[t]."""
    h, out = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        h = torch.sigmoid(decay[:, t]) * h + x[:, t]
        out.append(h)
    return torch.stack(out, 1)


layers(
    "mlp", lambda: nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 33), nn.ReLU(), nn.Linear(33, 1)), (9, 13)
)
layers("mlp_wide", lambda: nn.Sequential(nn.Linear(129, 65), nn.Tanh(), nn.Linear(65, 10), nn.Softmax(-1)), (3, 129))
layers("linear_gelu_scale", lambda: nn.Sequential(nn.Linear(33, 20), Calls(lambda x: F.gelu(x) * 0.5 + x)), (2, 5, 33))
layers(
    "linear_max_mean",
    lambda: nn.Sequential(nn.Linear(33, 20), Calls(lambda x: x.amax(1, True) - x.mean(1, True))),
    (9, 33),
)
layers("linear_logsumexp", lambda: nn.Sequential(nn.Linear(33, 20), Calls(lambda x: F.mish(x.logsumexp(1)))), (9, 33))
layers("linear_group_norm", lambda: nn.Sequential(nn.Linear(33, 20), nn.GroupNorm(4, 20), nn.Hardtanh()), (9, 33))
layers("linear_dropout", lambda: nn.Sequential(nn.Linear(33, 20), nn.Dropout(0.5), nn.Softmax(1)), (9, 33))
layers("bilinear", lambda: nn.Bilinear(5, 7, 4), (9, 5), (9, 7))
layers("conv_relu_bias", lambda: nn.Sequential(nn.Conv2d(3, 8, 3), Calls(lambda x: F.relu(x) + 0.3)), (2, 3, 9, 9))
layers("conv_norm_relu", lambda: nn.Sequential(*conv_norm(3, 8, 3, padding=1), nn.ReLU()), (2, 3, 9, 9))
layers(
    "conv_pool_flatten",
    lambda: nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, 10)),
    (2, 1, 12, 12),
)
layers(
    "conv_min_tanh",
    lambda: nn.Sequential(nn.Conv2d(3, 8, 3), Calls(lambda x: torch.tanh(torch.tanh(x.amin(1, True))))),
    (2, 3, 9, 9),
)
layers(
    "conv_sub_hardswish_pool",
    lambda: nn.Sequential(nn.Conv2d(3, 8, 3), Calls(lambda x: F.mish(F.max_pool2d(F.hardswish(x - 0.5), 2)))),
    (2, 3, 10, 10),
)
layers(
    "conv3d_softmax_pool", lambda: nn.Sequential(nn.Conv3d(2, 4, 3), nn.Softmax(1), nn.MaxPool3d(2)), (1, 2, 6, 8, 8)
)
layers(
    "conv_transposed_clamp",
    lambda: nn.Sequential(nn.ConvTranspose2d(3, 5, 3, 2, 1, 1), Calls(lambda x: (x.clamp(0, 1) * 2).clamp(0, 1) / 2)),
    (2, 3, 6, 6),
)
layers(
    "residual_block",
    lambda: Residual(*conv_norm(6, 6, 3, padding=1), nn.ReLU(), *conv_norm(6, 6, 3, padding=1)),
    (2, 6, 9, 9),
)
layers(
    "bottleneck",
    lambda: Residual(*conv_norm(16, 4, 1), nn.ReLU(), *conv_norm(4, 4, 3, padding=1), nn.ReLU(), *conv_norm(4, 16, 1)),
    (1, 16, 9, 9),
)
layers(
    "inverted_residual",
    lambda: nn.Sequential(
        *conv_norm(6, 24, 1), nn.ReLU6(), *conv_norm(24, 24, 3, padding=1, groups=24), nn.ReLU6(), *conv_norm(24, 6, 1)
    ),
    (1, 6, 9, 9),
)
layers("squeeze_excite", lambda: SqueezeExcite(8), (2, 8, 9, 9))
layers(
    "fire", lambda: nn.Sequential(nn.Conv2d(6, 3, 1), nn.ReLU(), nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()), (2, 6, 9, 9)
)
layers("dense_block", Dense, (2, 4, 7, 7))
layers("unet", Unet, (1, 3, 12, 12))
layers(
    "convnext_block",
    lambda: Residual(
        nn.Conv2d(8, 8, 7, padding=3, groups=8),
        Calls(lambda x: F.layer_norm(x.permute(0, 2, 3, 1), (8,)).permute(0, 3, 1, 2)),
        nn.Conv2d(8, 32, 1),
        nn.GELU(),
        nn.Conv2d(32, 8, 1),
    ),
    (1, 8, 11, 11),
)
layers("attention", lambda: Attention(24, 3, causal=False), (2, 9, 24))
layers("attention_causal", lambda: Attention(24, 3, causal=True), (2, 9, 24))
layers("transformer_block", lambda: Block(24, 3, whole_attention=False), (2, 9, 24))
layers("transformer_block_sdpa", lambda: Block(24, 3, whole_attention=True), (2, 9, 24))
layers("encoder_layer", lambda: nn.TransformerEncoderLayer(24, 3, 48, batch_first=True), (2, 9, 24))
layers("multihead", lambda: OfItself(nn.MultiheadAttention(24, 3, batch_first=True)), (2, 9, 24))
layers("gru_cell", lambda: Steps(nn.GRUCell(7, 11)), (3, 5, 7))
layers("lstm_cell", lambda: Steps(nn.LSTMCell(7, 11)), (3, 5, 7))
layers("rnn_cell", lambda: Steps(nn.RNNCell(7, 11)), (3, 5, 7))
layers("tied_weights", Tied, whole(0, 31, 2, 5))
layers("key_cache", Cached, (2, 5), lambda: torch.tensor([3, 7]))
layers(
    "mixer",
    lambda: nn.Sequential(
        nn.LayerNorm(12),
        Calls(lambda x: x.transpose(1, 2)),
        nn.Linear(9, 20),
        nn.GELU(),
        nn.Linear(20, 9),
        Calls(lambda x: x.transpose(1, 2)),
    ),
    (2, 9, 12),
)
layers(
    "patches",
    lambda: nn.Sequential(nn.Conv2d(3, 12, 4, 4), nn.Flatten(2), Calls(lambda x: x.transpose(1, 2)), nn.LayerNorm(12)),
    (2, 3, 12, 16),
)
function("rotary", rotary, (2, 3, 9, 8))
function("selective_scan", selective_scan, (2, 6, 5), (2, 6, 5))
function(
    "attention_one_query",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    (2, 3, 1, 8),
    (2, 3, 17, 8),
    (2, 3, 17, 8),
)
function(
    "attention_grouped",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    (2, 6, 9, 8),
    (2, 2, 9, 8),
    (2, 2, 9, 8),
)
function(
    "attention_masked",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(9, 9).tril().bool()),
    (2, 3, 9, 8),
    (2, 3, 9, 8),
    (2, 3, 9, 8),
)
function(
    "rope_free_alibi", lambda x: (x - torch.arange(9.0).abs()[None, None, None, :] * 0.5).softmax(-1), (2, 3, 9, 9)
)
function(
    "netvlad",
    lambda x, c: F.normalize(torch.einsum("bnk,bnd->bkd", (x @ c.t()).softmax(-1), x), dim=-1).flatten(1),
    (2, 17, 6),
    (4, 6),
)
function(
    "normal_density", lambda x, m, s: -0.5 * ((x - m) / s.exp()).pow(2).sum(-1) - s.sum(-1), (7, 9), (7, 9), (7, 9)
)
function("two_outputs_of_one", lambda x: (x.t(), x[1:], x + 1), (5, 7))
function("input_returned", lambda x: (x, x.view(35)), (5, 7))
function("mutated_input", lambda x: x.mul_(2).add_(1).sum(0), (5, 7))
function("complex_numbers", lambda x: torch.fft.rfft(x).abs(), (5, 16))
function("inverse", lambda x: torch.linalg.inv(x @ x.t() + 5 * torch.eye(7)), (7, 7))


def larger(name: str, module: Callable[[], nn.Module], *inputs: Callable[[], Tensor]) -> None:
    """A module with work enough for blocks and threads."""
    LARGER[name] = lambda: (module(), tuple(one() for one in inputs))


def drawn(*shape: int, scale: float = 1.0, mean: float = 0.0) -> Callable[[], Tensor]:
    """Numbers that are normally distributed."""
    return lambda: torch.randn(shape) * scale + mean


larger(
    "large mlp",
    lambda: nn.Sequential(nn.Linear(479, 1024), nn.ReLU(), nn.Linear(1024, 256), nn.GELU(), nn.Linear(256, 1)),
    drawn(77, 479),
)
larger("large attention", lambda: Attention(96, 3, causal=True), drawn(2, 65, 96))
larger("large layer_norm", lambda: nn.LayerNorm(1027), drawn(513, 1027, scale=3, mean=100))
larger("large softmax_middle", lambda: Calls(lambda x: x.softmax(1)), drawn(7, 333, 129))
larger("large conv_norm_relu", lambda: nn.Sequential(*conv_norm(32, 48, 3, padding=1), nn.ReLU()), drawn(2, 32, 28, 30))
larger(
    "large depthwise",
    lambda: nn.Sequential(*conv_norm(64, 64, 3, padding=1, groups=64), nn.ReLU6()),
    drawn(2, 64, 28, 28),
)
larger("large pointwise conv", lambda: nn.Conv2d(96, 160, 1), drawn(2, 96, 27, 29))
larger("large places", lambda: Calls(lambda x: (x.argmax(-1), x.argmin(0), x.amax(1))), drawn(501, 1003))
larger("large bmm", lambda: Calls(torch.bmm), drawn(12, 65, 129), drawn(12, 129, 77))
larger("large product of a transpose", lambda: Calls(lambda a, b: a.t() @ b), drawn(333, 257), drawn(333, 129))
larger(
    "large pointwise",
    lambda: Calls(lambda a, b, c: F.gelu(a) * torch.sigmoid(b) + c.tanh()),
    drawn(513, 1025),
    drawn(513, 1025),
    drawn(1025),
)
larger(
    "large half",
    lambda: Calls(lambda x, w: F.silu(x) * w + x.softmax(-1)),
    lambda: torch.randn(200, 768).half(),
    lambda: torch.randn(768).half(),
)
larger(
    "large bfloat16",
    lambda: nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 64)).bfloat16(),
    lambda: torch.randn(65, 256).bfloat16(),
)
larger("large variance", lambda: Calls(lambda x: (x.var(-1), x.mean((0, 1)))), drawn(201, 513, mean=50))
larger(
    "large means over images",
    lambda: nn.Sequential(nn.Conv2d(256, 2048, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    drawn(1, 256, 7, 7),
)
