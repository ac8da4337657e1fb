"""What calling a compiled graph costs: 3 inputs, 8 weights, 1 output, so small that nearly all time is the call.

    python experiments/torch_calls.py [--rounds 21] [--calls 3000]

Prints microseconds per call (medians; the ways are timed in turns) of the function that polydl's backend gives to
AOTAutograd, of Inductor's for the same graph of ATen operators, of eager PyTorch, and of the bare function
of C, called from C. Dynamo's guards and AOTAutograd's wrapper come before either function and are in none of them.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._inductor.compile_fx import compile_fx_inner
from torch.fx.experimental.proxy_tensor import make_fx

from polydl.torch_backend import group_code
from polydl.torch_backend.backend import compiled
from polydl.torch_backend.backend_options import BackendOptions
from polydl.torch_backend.graph_report import GraphReport

INPUTS, WEIGHTS = 3, 8
BARE = """
#include <time.h>
double seconds(void (*f)(void *const *), void *const *arguments, long calls)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long i = 0; i < calls; i++) f(arguments);
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (end.tv_sec - begin.tv_sec) + 1e-9 * (end.tv_nsec - begin.tv_nsec);
}
"""


def pointwise(x: Tensor, y: Tensor, z: Tensor, *w: Tensor) -> tuple[Tensor]:
    """Each weight is read in each call."""
    return (((x * w[0] + w[1]).relu() * w[2] + w[3] + (y * w[4] + w[5]).relu() * w[6] + z * w[7]).relu(),)


def folded(x: Tensor, y: Tensor, z: Tensor, *w: Tensor) -> tuple[Tensor]:
    """What depends on weights alone is computed when they change: each call compares the records of all eight."""
    return ((x * (w[0] * w[1] + w[2] * w[3]) + y * (w[4] * w[5]) + z * (w[6] * w[7])).relu(),)


def bare(report: GraphReport, tensors: list[Tensor]) -> Callable[[int], float]:
    """Seconds of so many runs of the one group of a graph, from C, on any tensors that are large enough."""
    (group,) = report.groups
    folder = Path(tempfile.mkdtemp())
    (folder / "bare.c").write_text(BARE)
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "bare.c", "-o", "bare.so"], cwd=folder, check=True)
    timer = ctypes.CDLL(str(folder / "bare.so")).seconds
    timer.restype = ctypes.c_double
    library = ctypes.CDLL(str(group.file))
    arguments = (ctypes.c_void_p * len(tensors))(*(one.data_ptr() for one in tensors))
    entry = getattr(library, group_code.ENTRY)

    def run(calls: int) -> float:
        assert len(tensors) == len(arguments)  # they live as long as what they are the memory of is used
        return float(timer(entry, arguments, ctypes.c_long(calls)))

    return run


def repeated(function: Callable[[], Any]) -> Callable[[int], float]:
    def run(calls: int) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        return time.perf_counter() - begin

    return run


def ways(graph: Callable[..., tuple[Tensor]], size: int) -> dict[str, Callable[[int], float]]:
    inputs = [torch.randn(size, size) for _ in range(INPUTS)]
    weights = [torch.nn.Parameter(torch.randn(size)) for _ in range(WEIGHTS)]
    given: list[Tensor] = [*inputs, *weights]
    static = tuple(range(INPUTS, len(given)))
    reports: list[GraphReport] = []
    with torch.no_grad():
        expected = graph(*given)[0]
        mine = compiled(make_fx(graph, tracing_mode="fake")(*given), static, BackendOptions(report=reports.append))
        theirs = compile_fx_inner(make_fx(graph, tracing_mode="fake")(*given), given, static_input_idxs=list(static))
        for function in (mine, theirs):
            torch.testing.assert_close(function(list(given))[0], expected)
    spare = [torch.randn(size, size) for _ in range(len(given) + 1)]
    return {
        "polydl": repeated(lambda: mine(list(given))),
        "inductor": repeated(lambda: theirs(list(given))),
        "eager": repeated(lambda: graph(*given)),
        "bare C": bare(reports[0], spare),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--size", type=int, default=8, help="rows and columns of inputs (default: 8)")
    given = parser.parse_args()
    for graph in (pointwise, folded):
        timed = ways(graph, given.size)
        samples: dict[str, list[float]] = {name: [] for name in timed}
        with torch.no_grad():
            for _ in range(given.rounds):
                for name, run in timed.items():
                    samples[name].append(1e6 * run(given.calls) / given.calls)
        found = {name: statistics.median(one) for name, one in samples.items()}
        told = "  ".join(f"{name} {value:6.2f} µs" for name, value in found.items())
        print(f"{graph.__name__:10} {told}  polydl over bare C {found['polydl'] - found['bare C']:5.2f} µs", flush=True)


if __name__ == "__main__":
    main()
