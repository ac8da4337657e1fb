"""What the first calls of models take: cold, warm, and with other batches.

    python experiments/torch_starts.py [MODEL …] [--batches 1 2 3 5] [--cache FOLDER]

Models are those of `torch_models.py`, untuned. Each runs in two processes of its own one after the other, the first
with an empty cache (or that of `--cache`), and calls the compiled model with each of the batches in turn. For each call
there is a line: seconds of the call, and of these the seconds that polydl took for each graph that it was given.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

import torch
from torch_models import MODELS

import polydl.torch_backend
from polydl.torch_backend.graph_report import GraphReport


def first_calls(name: str, batches: list[int]) -> None:
    """Prints a line for each batch."""
    polydl.torch_backend.register()
    reports: list[GraphReport] = []
    torch.manual_seed(0)
    model, _ = MODELS[name](1)
    model.eval()
    options = {"report": reports.append}
    compiled = torch.compile(model, backend="polydl", options=options)  # type: ignore[arg-type]
    for batch in batches:
        _, inputs = MODELS[name](batch)
        reports.clear()
        begin = time.perf_counter()
        with torch.no_grad():
            compiled(*inputs)
        seconds = time.perf_counter() - begin
        own = ", ".join(f"{report.seconds:.2f}" for report in reports) or "none"
        print(f"{name}: batch {batch}: {seconds:.2f} s, graphs of polydl: {own}", flush=True)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["ResNet-50", "BERT-base"], metavar="MODEL")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 3, 5])
    parser.add_argument("--cache", help="where code is kept; default: a folder that is removed again")
    parser.add_argument("--here", action="store_true", help="in this process, once")
    given = parser.parse_args()
    batches = list(map(str, given.batches))
    for name in given.models:
        if given.here:
            first_calls(name, given.batches)
            continue
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"POLYDL_CACHE": given.cache or folder}
            for start in ("cold", "warm"):
                print(f"{start}:", flush=True)
                subprocess.run(
                    [sys.executable, __file__, name, "--here", "--batches", *batches], env=environment, check=True
                )


if __name__ == "__main__":
    main()
