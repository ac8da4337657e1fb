"""One output for every size: matrix products at random sizes, which nobody tuned, beside oneDNN and MKL.

python experiments/every_size.py --json every_size.json [--points 40] [--largest 4096] [--tuned]
python experiments/every_size.py --convolutions --json convolutions.json [--points 40] [--largest 256]

The output is made once, for --size m=512,n=512,k=512. M, N and K of the points are drawn log-uniformly up to --largest;
a third each are any number, a multiple of 16, a power of two. With --tuned polydl also searches at each point, and what
it finds is a contender: a ratio under 1 in its column is what one output for all sizes loses. With --convolutions
layers of resnet with 3x3 and 1x1 filters stand in for the products (experiments/any_size_convolutions.py): one output
for each filter and stride, batches of 1 to 16, images from 7 to --largest each way.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import any_size_convolutions as convolution
import gemm
import numpy as np
from bench import POLYDL, Bound, Contender, Problem
from common import define_flags, on_isa, optimized, parser, prepare, run, scratch_folder
from native import KERNELS, Floats, bound_with_sizes, placed
from sizes import GemmSize

import polydl

SOURCE = KERNELS / "gemm_any.c"
TUNED = {"m": 512, "n": 512, "k": 512}
_MOST = 4e9
"""Multiply-adds of a point, at most: larger ones are drawn again."""


def drawn(count: int, largest: int, seed: int) -> list[GemmSize]:
    """Sizes of products."""
    rng = np.random.default_rng(seed)
    found: list[GemmSize] = []
    while len(found) < count:
        sizes = [_size(float(np.exp(rng.uniform(0, np.log(largest)))), int(rng.integers(3))) for _ in range(3)]
        if np.prod([float(s) for s in sizes]) <= _MOST:
            found.append(GemmSize("drawn", *sizes))
    return found


def _size(value: float, kind: int) -> int:
    if kind == 0 or value < 16:
        return round(value)
    return 16 * round(value / 16) if kind == 1 else int(2 ** round(np.log2(value)))


def for_any(c_file: Path) -> Contender:
    """The function with its sizes as arguments."""

    def bind(inputs: Sequence[Floats], rng: np.random.Generator) -> Bound:
        a, b = (placed(x, rng) for x in inputs)
        c = placed(np.zeros((a.shape[0], b.shape[1]), dtype=np.float32), rng)
        sizes = a.shape[0], b.shape[1], a.shape[1]
        return Bound(bound_with_sizes(c_file, "matmul", sizes, (a, b, c)), lambda: c.copy())

    return Contender(POLYDL, bind)


def main() -> int:
    options = parser(__doc__ or "")
    options.add_argument("--points", type=int, default=40)
    options.add_argument("--largest", type=int, help="of the sizes; default: 4096, of images 256")
    options.add_argument("--tuned", action="store_true", help="search at each point as well")
    options.add_argument("--convolutions", action="store_true", help="layers of resnet in place of matrix products")
    given = options.parse_args()
    if given.tuned and given.convolutions:
        sys.exit("--tuned is for matrix products: leave out one of the two")
    prepare(given.threads, given.isa)
    from peers import onednn

    onednn.start(given.threads)
    return convolutions(given) if given.convolutions else products(given)


def convolutions(given: argparse.Namespace) -> int:
    """Layers of resnet at sizes that were not tuned. Returns the exit code."""
    points = {point.name: point for point in convolution.drawn(given.points, given.largest or 256, given.seed)}
    title = (
        f"Convolutions at sizes that were not tuned, fp32, {given.threads} threads{on_isa(given)}, GFLOP/s hot (cold)"
    )
    return run(given, title, [(n, lambda p=p: convolution.problem(p, given)) for n, p in points.items()])


def products(given: argparse.Namespace) -> int:
    """Matrix products at sizes that were not tuned. Returns the exit code."""
    from peers import onednn

    begin = time.perf_counter()
    output = scratch_folder(given) / "gemm_any.c"
    done = polydl.optimize(SOURCE, output, sizes=TUNED, threads=given.threads, top_k=given.top_k, isa=given.isa)
    seconds = time.perf_counter() - begin
    print(f"one output, made in {seconds:.0f} s: {done.scops[0].other_sizes}")

    def problem(size: GemmSize) -> Problem:
        contenders = [c for c in onednn.gemm_contenders() if c.name != "torch.addmm"]
        if given.tuned:
            defines = {"M": size.M, "N": size.N, "K": size.K}
            own, _ = optimized(gemm.SOURCE, f"gemm_{size.name}", defines, given)
            tuned = gemm.from_c("tuned", own, define_flags(defines))
            contenders.append(tuned)
        contenders.append(for_any(output))
        notes: dict[str, object] = {"polydl_seconds": seconds}
        return Problem(size.name, size.operations, size.bytes, lambda r, i: gemm.data(size, r, i), contenders, notes)

    title = f"GEMM at sizes that were not tuned, fp32, {given.threads} threads{on_isa(given)}, GFLOP/s hot (cold)"
    sizes = {size.name: size for size in drawn(given.points, given.largest or 4096, given.seed)}
    return run(given, title, [(s.name, lambda s=s: problem(s)) for s in sizes.values()])


if __name__ == "__main__":
    sys.exit(main())
