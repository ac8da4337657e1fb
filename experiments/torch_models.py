"""Small models in this file: eager PyTorch, Inductor with freezing and `backend="polydl"`, timed in turns.

    python experiments/torch_models.py [MODEL …] [--batch 16] [--rounds 15] [--tune] [--train] [--prepare] [--csv FILE]

Prints the median of each in milliseconds, and how polydl stands to the others. Weights are random. `--prepare` compiles
and checks only, so that a later run finds everything in the caches. `--train`: forward and gradients of all parameters
and inputs, in evaluation mode, nothing else; Inductor does not freeze weights then.
"""

from __future__ import annotations

import argparse
import csv
import gc
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
from torch import Tensor, nn

import polydl.torch_backend
from polydl.torch_backend.graph_report import GraphReport

Inputs = tuple[Tensor, ...]
PAUSE = 0.02
"""Least seconds of one sample."""


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
        return x + self.feed(self.norms[1](x))


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
        return (self.body(x) + x).relu()


class NormChain(nn.Module):
    """Rows: normalised, scaled, through GELU, normalised again, softmax."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = self.norms[0](x + y)
        return (self.norms[1](nn.functional.gelu(x)) * 0.1 + y).softmax(-1)


class Pointwise(nn.Module):
    """Transcendental functions of two tensors."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.mish(x) * torch.sigmoid(y) + torch.tanh(x - y) * torch.exp(-x.abs())


def mlp(width: int, classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes)
    )


MODELS: dict[str, Callable[[int], tuple[nn.Module, Inputs]]] = {
    "mlp": lambda n: (mlp(512, 10), (torch.randn(n, 512),)),
    "transformer block": lambda n: (TransformerBlock(256, 4), (torch.randn(n, 128, 256),)),
    "ResNet block": lambda n: (ResNetBlock(256), (torch.randn(n, 256, 14, 14),)),
    "norm chain": lambda n: (NormChain(768), (torch.randn(n, 128, 768), torch.randn(n, 128, 768))),
    "pointwise": lambda n: (Pointwise(), (torch.randn(n, 128, 768), torch.randn(n, 128, 768))),
}


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
        given = [one.detach().requires_grad_() for one in inputs]
        result = way(*given)
        return result.detach(), *torch.autograd.grad(result, [*given, *model.parameters()], result.detach())

    return step


def compared(name: str, batch: int, rounds: int, tune: bool, train: bool) -> dict[str, float]:
    """Median milliseconds by way; without rounds an empty one, after checking."""
    torch.manual_seed(0)
    torch.compiler.reset()
    model, inputs = MODELS[name](batch)
    model.eval()
    reports: list[GraphReport] = []
    options = {"tune": tune, "report": reports.append}
    ways: dict[str, Callable[..., Any]] = {
        "eager": model,
        "inductor": torch.compile(model, backend="inductor"),
        "polydl": torch.compile(model, backend="polydl", options=options),  # type: ignore[arg-type]
    }
    if train:
        ways = {k: gradients(way, model) for k, way in ways.items()}
    with torch.set_grad_enabled(train):
        expected = ways["eager"](*inputs)
        for way in ways.values():
            agree(way(*inputs), expected)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    torch._inductor.config.freezing = not given.train
    polydl.torch_backend.register()
    rows = []
    for name in given.models or MODELS:
        found = compared(name, given.batch, 0 if given.prepare else given.rounds, given.tune, given.train)
        if found:
            rows.append({"model": name, "batch": given.batch, **{k: round(v, 4) for k, v in found.items()}})
            print(
                f"{name:18} eager {found['eager']:8.3f} ms  inductor {found['inductor']:8.3f}"
                f"  polydl {found['polydl']:8.3f}"
                f"  {found['eager'] / found['polydl']:.2f}x eager  {found['inductor'] / found['polydl']:.2f}x inductor",
                flush=True,
            )
    if given.csv is not None and rows:
        with given.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
