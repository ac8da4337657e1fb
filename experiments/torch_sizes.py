"""Code for all batch sizes beside code for one and eager PyTorch, on the models of `torch_models.py`, timed in turns.

    python experiments/torch_sizes.py [MODEL …] [--batches 2 3 4 12] [--rounds 15]

A model is compiled for the first size; at the second, Dynamo makes a graph whose sizes are symbols, and polydl C for
all of them. Prints the seconds of the first call at each size, and for those from the third on the median of the times
of eager PyTorch, and of code for that size, over those of the code for all. Variants are chosen by estimate.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch_models import MODELS, PAUSE, agree, seconds

import polydl.torch_backend


def compared(name: str, batches: list[int], rounds: int) -> str:
    """A line for a model. Raises AssertionError where results differ."""
    torch.manual_seed(0)
    torch.compiler.reset()
    model, _ = MODELS[name](batches[0])
    model.eval()
    inputs = {batch: MODELS[name](batch)[1] for batch in batches}
    sized = torch.compile(model, backend="polydl", options={"tune": False})
    first = []
    for batch in batches:
        begin = time.perf_counter()
        found = sized(*inputs[batch])
        first.append(f"{time.perf_counter() - begin:.1f}")
        agree(found, model(*inputs[batch]))
    parts = [f"{name:18} first calls {' '.join(first)} s"]
    for batch in batches[2:]:
        given = inputs[batch]
        one = torch.compile(model, backend="polydl", options={"tune": False}, dynamic=False)
        ways = {"eager": model, "one": one, "all": sized}
        times = {k: max(1, int(PAUSE / min(seconds(way, given, 2) for _ in range(2)))) for k, way in ways.items()}
        samples: dict[str, list[float]] = {k: [] for k in ways}
        for _ in range(rounds):
            for k, way in ways.items():
                samples[k].append(seconds(way, given, times[k]))
        ratios = {
            k: statistics.median(a / b for a, b in zip(samples[k], samples["all"], strict=True))
            for k in ("eager", "one")
        }
        milliseconds = 1e3 * statistics.median(samples["all"])
        parts.append(f"{batch}: {milliseconds:.3f} ms, {ratios['eager']:.2f}x eager, {ratios['one']:.2f}x for the size")
    return "  ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["mlp", "transformer block", "ResNet block", "norm chain"])
    parser.add_argument("--batches", nargs="+", type=int, default=[2, 3, 4, 12])
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    polydl.torch_backend.register()
    with torch.no_grad():
        for name in given.models:
            print(compared(name, given.batches, given.rounds), flush=True)


if __name__ == "__main__":
    main()
