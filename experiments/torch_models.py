"""Models in this file: eager PyTorch, Inductor with freezing and `backend="polydl"`, timed in turns.

    python experiments/torch_models.py [MODEL …] [--batch 16] [--rounds 15] [--tune] [--train] [--no-inductor]
                                       [--autotune] [--rows FILE.jsonl]

Prints the median of each in milliseconds, and how polydl stands to the others. Weights are random. `--prepare` compiles
and checks only, so that a later run finds everything in the caches. `--train`: forward and gradients of all parameters
and inputs, in evaluation mode, nothing else; Inductor does not freeze weights then. `--autotune` times Inductor's
max-autotune, too. With `--rows` a row is written when it is there, and a later run goes on from the file. Models of
torchvision, timm and transformers are there where these packages are installed.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
from common import RowFile
from torch import Tensor, nn

import polydl.torch_backend
from polydl.torch_backend.graph_report import GraphReport

Inputs = tuple[Tensor, ...]
PAUSE = 0.02
"""Least seconds of one sample."""
PEERS: dict[str, dict[str, Any]] = {"inductor": {}, "max-autotune": {"mode": "max-autotune"}}
"""What `torch.compile` is asked for with Inductor."""


class Attention(nn.Module):
    """Of queries, keys and values in rows of heads."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)


class TransformerBlock(nn.Module):
    """Pre-norm attention and feed-forward network, as in GPT-2."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        q, k, v = (y.reshape(n, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norms[0](x)).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(n, t, c))
        result: Tensor = x + self.feed(self.norms[1](x))
        return result


class ResNetBlock(nn.Module):
    """Bottleneck of ResNet-50."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = width // 4
        self.body = nn.Sequential(
            nn.Conv2d(width, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, inner, 3, padding=1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = (self.body(x) + x).relu()
        return result


class NormChain(nn.Module):
    """Rows: normalised, scaled, through GELU, normalised again, softmax."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = self.norms[0](x + y)
        result: Tensor = (self.norms[1](nn.functional.gelu(x)) * 0.1 + y).softmax(-1)
        return result


class Pointwise(nn.Module):
    """Transcendental functions of two tensors."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.mish(x) * torch.sigmoid(y) + torch.tanh(x - y) * torch.exp(-x.abs())


def mlp(width: int, classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes)
    )


def normed(*layers: nn.Module, width: int, activation: type[nn.Module] | None = nn.ReLU) -> nn.Sequential:
    """Layers, a batch norm, an activation."""
    return nn.Sequential(*layers, nn.BatchNorm2d(width), *([activation()] if activation else []))


class Bottleneck(nn.Module):
    """Of ResNet-50: 1x1, 3x3, 1x1, and a shortcut."""

    def __init__(self, source: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            normed(nn.Conv2d(source, width, 1, bias=False), width=width),
            normed(nn.Conv2d(width, width, 3, stride, 1, bias=False), width=width),
            normed(nn.Conv2d(width, out, 1, bias=False), width=out, activation=None),
        )
        self.short: nn.Module = nn.Identity()
        if source != out or stride != 1:
            self.short = normed(nn.Conv2d(source, out, 1, stride, bias=False), width=out, activation=None)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.short(x))


def resnet(depths: Sequence[int] = (3, 4, 6, 3), width: int = 64) -> nn.Module:
    """ResNet-50 (He et al., 2016)."""
    layers: list[nn.Module] = [normed(nn.Conv2d(3, width, 7, 2, 3, bias=False), width=width), nn.MaxPool2d(3, 2, 1)]
    source = width
    for stage, depth in enumerate(depths):
        for k in range(depth):
            layers.append(Bottleneck(source, width << stage, 2 if stage and not k else 1))
            source = 4 * (width << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(source, 1000))


class Inverted(nn.Module):
    """Of MobileNetV2: 1x1 to more channels, depthwise 3x3, 1x1 back."""

    def __init__(self, source: int, out: int, stride: int, factor: int) -> None:
        super().__init__()
        inner = source * factor
        self.same = source == out and stride == 1
        first = [normed(nn.Conv2d(source, inner, 1, bias=False), width=inner, activation=nn.ReLU6)] * (factor != 1)
        self.body = nn.Sequential(
            *first,
            normed(nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), width=inner, activation=nn.ReLU6),
            normed(nn.Conv2d(inner, out, 1, bias=False), width=out, activation=None),
        )

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.body(x)
        return x + found if self.same else found


def mobilenet() -> nn.Module:
    """MobileNetV2 (Sandler et al., 2018)."""
    layers: list[nn.Module] = [normed(nn.Conv2d(3, 32, 3, 2, 1, bias=False), width=32, activation=nn.ReLU6)]
    source = 32
    for factor, out, times, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for k in range(times):
            layers.append(Inverted(source, out, 1 if k else stride, factor))
            source = out
    last = normed(nn.Conv2d(source, 1280, 1, bias=False), width=1280, activation=nn.ReLU6)
    return nn.Sequential(*layers, last, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


class ConvNeXtBlock(nn.Module):
    """Depthwise 7x7, layer norm of channels, two linear layers (Liu et al., 2022)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, eps=1e-6)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        found = self.feed(self.norm(self.depthwise(x).permute(0, 2, 3, 1))) * self.scale
        result: Tensor = x + found.permute(0, 3, 1, 2)
        return result


class BertLayer(nn.Module):
    """Attention and feed-forward network, each with a layer norm behind it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=1e-12) for _ in range(2))
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        n, t, c = x.shape
        q, k, v = (f(x).view(n, t, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norms[0](x + self.out(mixed.transpose(1, 2).reshape(n, t, c)))
        found: Tensor = self.norms[1](x + self.feed(x))
        return found


class Bert(nn.Module):
    """BERT-base without a head (Devlin et al., 2019)."""

    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(30522, width), nn.Embedding(512, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer(width, heads) for _ in range(layers))

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1])
        x: Tensor = self.norm(self.words(tokens) + self.places(places))
        mask = (places < lengths[:, None])[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Gpt(nn.Module):
    """GPT-2 small (Radford et al., 2019): scores of the last token."""

    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50257, width), nn.Embedding(1024, width)
        self.blocks = nn.ModuleList(TransformerBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return nn.functional.linear(self.norm(x[:, -1]), self.words.weight)


class GptStep(Gpt):
    """The same for one token behind others: their keys and values are (layers, 2, batch, heads, tokens, width)."""

    def forward(self, token: Tensor, past: Tensor) -> Tensor:  # type: ignore[override]
        x = self.words(token) + self.places.weight[past.shape[4]]
        n, t, c = x.shape
        for block, (keys, values) in zip(self.blocks, past, strict=True):
            assert isinstance(block, TransformerBlock)
            heads = block.heads
            q, k, v = (y.view(n, t, heads, -1).transpose(1, 2) for y in block.qkv(block.norms[0](x)).chunk(3, -1))
            k, v = torch.cat((keys, k), 2), torch.cat((values, v), 2)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + block.out(mixed.transpose(1, 2).reshape(n, t, c))
            x = x + block.feed(block.norms[1](x))
        return nn.functional.linear(self.norm(x[:, -1]), self.words.weight)


class Dlrm(nn.Module):
    """Sums of embeddings, products of pairs, two perceptrons (Naumov et al., 2019)."""

    def __init__(self, tables: int = 8, rows: int = 10000, width: int = 64) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(
            nn.Linear(width + pairs, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1), nn.Sigmoid()
        )
        self.pairs: Tensor
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense: Tensor, indices: Tensor) -> Tensor:
        x = self.bottom(dense)
        rows = [table(indices[k]).sum(1) for k, table in enumerate(self.tables)]
        all_rows = torch.stack((x, *rows), 1)
        products = all_rows @ all_rows.transpose(1, 2)
        found: Tensor = self.top(torch.cat((x, products[:, self.pairs[0], self.pairs[1]]), 1))
        return found


class UNet(nn.Module):
    """Down three times and up again, with what was on the way down (Ronneberger et al., 2015)."""

    def __init__(self, width: int = 32, depth: int = 3) -> None:
        super().__init__()
        widths = [width << k for k in range(depth + 1)]
        self.down = nn.ModuleList(self.twice(a, b) for a, b in zip((3, *widths), widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1]))
        self.merge = nn.ModuleList(self.twice(2 * w, w) for w in reversed(widths[:-1]))
        self.last = nn.Conv2d(width, 2, 1)

    @staticmethod
    def twice(source: int, out: int) -> nn.Module:
        return nn.Sequential(
            normed(nn.Conv2d(source, out, 3, padding=1, bias=False), width=out),
            normed(nn.Conv2d(out, out, 3, padding=1, bias=False), width=out),
        )

    def forward(self, x: Tensor) -> Tensor:
        seen = []
        for k, step in enumerate(self.down):
            x = step(nn.functional.max_pool2d(x, 2) if k else x)
            seen.append(x)
        for up, merge, before in zip(self.up, self.merge, reversed(seen[:-1]), strict=True):
            x = merge(torch.cat((up(x), before), 1))
        found: Tensor = self.last(x)
        return found


def image(n: int, size: int) -> Inputs:
    return (torch.randn(n, 3, size, size),)


def tokens(n: int, count: int) -> Tensor:
    return torch.randint(0, 30522, (n, count))


Maker = Callable[[int], tuple[nn.Module, Inputs]]
"""A module and its inputs, for a batch."""


class LastState(nn.Module):
    """The last hidden states of a model of transformers."""

    def __init__(self, config: str, **sizes: Any) -> None:
        super().__init__()
        library = importlib.import_module("transformers")
        self.model = library.AutoModel.from_config(getattr(library, config)(**sizes))

    def forward(self, words: Tensor) -> Tensor:
        found: Tensor = self.model(words, use_cache=False).last_hidden_state
        return found


def of_torchvision(name: str) -> Maker:
    """A model of torchvision's without weights."""
    return lambda n: (getattr(importlib.import_module("torchvision.models"), name)(weights=None), image(n, 224))


def of_timm(name: str) -> Maker:
    """A model of timm's without weights."""
    return lambda n: (importlib.import_module("timm").create_model(name, pretrained=False), image(n, 224))


def of_transformers(config: str, **sizes: Any) -> Maker:
    """A model of transformers' with the sizes of a configuration, but for those that are given."""
    return lambda n: (LastState(config, **sizes), (tokens(n, 128),))


MODELS: dict[str, Maker] = {
    "mlp": lambda n: (mlp(512, 10), (torch.randn(n, 512),)),
    "transformer block": lambda n: (TransformerBlock(256, 4), (torch.randn(n, 128, 256),)),
    "ResNet block": lambda n: (ResNetBlock(256), (torch.randn(n, 256, 14, 14),)),
    "BERT layer": lambda n: (BertLayer(768, 12), (torch.randn(n, 128, 768), torch.ones(n, 1, 1, 128).bool())),
    "GPT-2 layer": lambda n: (TransformerBlock(768, 12), (torch.randn(n, 128, 768),)),
    "attention": lambda n: (Attention(causal=False), tuple(torch.randn(n, 12, 384, 64) for _ in range(3))),
    "causal attention": lambda n: (Attention(causal=True), tuple(torch.randn(n, 12, 512, 64) for _ in range(3))),
    "ConvNeXt block": lambda n: (ConvNeXtBlock(96), (torch.randn(n, 96, 56, 56),)),
    "norm chain": lambda n: (NormChain(768), (torch.randn(n, 128, 768), torch.randn(n, 128, 768))),
    "pointwise": lambda n: (Pointwise(), (torch.randn(n, 128, 768), torch.randn(n, 128, 768))),
    "DLRM": lambda n: (Dlrm(), (torch.randn(64 * n, 13), torch.randint(0, 10000, (8, 64 * n, 4)))),
    "ResNet-50": lambda n: (resnet(), image(n, 224)),
    "MobileNetV2": lambda n: (mobilenet(), image(n, 224)),
    "U-Net": lambda n: (UNet(), image(n, 96)),
    "BERT-base": lambda n: (Bert(), (tokens(n, 128), torch.full((n,), 100))),
    "GPT-2 prefill": lambda n: (Gpt(), (tokens(n, 128),)),
    "GPT-2 decode": lambda n: (GptStep(), (tokens(n, 1), torch.randn(12, 2, n, 12, 128, 64))),
    "torchvision ResNet-18": of_torchvision("resnet18"),
    "torchvision EfficientNet-B0": of_torchvision("efficientnet_b0"),
    "torchvision ShuffleNetV2": of_torchvision("shufflenet_v2_x1_0"),
    "torchvision DenseNet-121": of_torchvision("densenet121"),
    "timm ViT-Tiny": of_timm("vit_tiny_patch16_224"),
    "timm MLP-Mixer": of_timm("mixer_s16_224"),
    "timm ConvNeXt-Atto": of_timm("convnext_atto"),
    "transformers DistilBERT": of_transformers("DistilBertConfig"),
    "transformers GPT-2": of_transformers("GPT2Config", n_layer=6),
    "small ResNet": lambda n: (resnet((1, 1), 16), image(n, 32)),
    "small BERT": lambda n: (Bert(2, 64, 4), (tokens(n, 12), torch.full((n,), 9))),
    "small GPT-2": lambda n: (Gpt(2, 64, 4), (tokens(n, 12),)),
    "small GPT-2 decode": lambda n: (GptStep(2, 64, 4), (tokens(n, 1), torch.randn(2, 2, n, 4, 9, 16))),
    "small U-Net": lambda n: (UNet(8, 2), image(n, 16)),
}
"""Those named small are for tests."""


def agree(found: Tensor | tuple[Tensor, ...], expected: Tensor | tuple[Tensor, ...]) -> None:
    """Raises AssertionError; gradients are sums over a batch, and compared with the largest of their tensor."""
    if isinstance(found, Tensor):
        found, expected = (found,), (expected,)  # type: ignore[assignment]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4 * max(1.0, float(other.abs().max())))


def seconds(function: Callable[..., Any], inputs: Inputs, times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        function(*inputs)
    return (time.perf_counter() - begin) / times


def gradients(way: Callable[..., Tensor], model: nn.Module) -> Callable[..., tuple[Tensor, ...]]:
    """A function of inputs: the result of a model, and the gradients of parameters and inputs along it."""

    def step(*inputs: Tensor) -> tuple[Tensor, ...]:
        given = [one.detach().requires_grad_(one.is_floating_point()) for one in inputs]
        floats = [one for one in given if one.requires_grad]
        result = way(*given)
        return result.detach(), *torch.autograd.grad(result, [*floats, *model.parameters()], result.detach())

    return step


def compared(
    name: str, make: Maker, batch: int, rounds: int, tune: bool, train: bool, peers: Sequence[str]
) -> dict[str, float]:
    """Median milliseconds by way, eager PyTorch, polydl and the peers; without rounds an empty one, after checking."""
    torch.manual_seed(0)
    torch.compiler.reset()
    model, inputs = make(batch)
    model.eval()
    reports: list[GraphReport] = []
    options = {"tune": tune, "report": reports.append}
    ways: dict[str, Callable[..., Any]] = {
        "eager": model,
        "polydl": torch.compile(model, backend="polydl", options=options),  # type: ignore[arg-type]
    }
    if rounds:
        ways |= {peer: torch.compile(model, backend="inductor", **PEERS[peer]) for peer in peers}
    if train:
        ways = {k: gradients(way, model) for k, way in ways.items()}
    with torch.set_grad_enabled(train):
        expected = ways["eager"](*inputs)
        for k, way in ways.items():
            begin = time.perf_counter()
            agree(way(*inputs), expected)
            if not rounds:
                print(f"{name}: {k}: first call {time.perf_counter() - begin:.2f} s", flush=True)
        if not rounds:
            print(f"{name}: {'; '.join(map(str, reports))}")
            return {}
        times = {k: max(1, int(PAUSE / max(seconds(way, inputs, 2), 1e-7))) for k, way in ways.items()}
        samples: dict[str, list[float]] = {k: [] for k in ways}
        gc.disable()
        for _ in range(rounds):
            for k, way in ways.items():
                samples[k].append(seconds(way, inputs, times[k]))
        gc.enable()
    return {k: 1e3 * statistics.median(v) for k, v in samples.items()}


def _is_there(name: str) -> bool:
    """Whether the package that a model's name begins with is installed; True for those of this file."""
    package = name.split()[0]
    return package not in ("torchvision", "timm", "transformers") or find_spec(package) is not None


def main(models: Mapping[str, Maker], doc: str | None, batch: int) -> None:
    """The command: `models` are those that it knows, `batch` is that without `--batch`."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for name in models if not name.startswith("small") and _is_there(name)]
    parser.add_argument("models", nargs="*", default=names, metavar="MODEL")
    parser.add_argument("--batch", type=int, default=batch)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--rows", type=Path, metavar="JSONL", help="where rows are added; those it has are not made")
    parser.add_argument("--inductor", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--autotune", action="store_true")
    given = parser.parse_args()
    torch._inductor.config.freezing = not given.train
    polydl.torch_backend.register()
    rows = RowFile(given.rows, ("model", "batch", "ways", "eager", "polydl")) if given.rows else None
    ways = f"{'tuned' if given.tune else 'untuned'} {'training' if given.train else 'inference'}"
    peers = ["inductor"] * given.inductor + ["max-autotune"] * given.autotune
    complete = [row for row in rows.rows() if row.keys() >= set(peers)] if rows else []
    known = {(row["model"], row["batch"], row["ways"]) for row in complete}
    for name in given.models:
        if (name, given.batch, ways) in known and not given.prepare:
            print(f"{name:18} is in {given.rows}", flush=True)
            continue
        rounds = 0 if given.prepare else given.rounds
        found = compared(name, models[name], given.batch, rounds, given.tune, given.train, peers)
        if found:
            if rows:
                times = {k: round(v, 4) for k, v in found.items()}
                rows.add({"model": name, "batch": given.batch, "ways": ways, **times})
            others = "  ".join(f"{k} {v:8.3f} ms" for k, v in found.items())
            ratios = "  ".join(f"{v / found['polydl']:.2f}x {k}" for k, v in found.items() if k != "polydl")
            print(f"{name:18} {others}  {ratios}", flush=True)


if __name__ == "__main__":
    main(MODELS, __doc__, 16)
