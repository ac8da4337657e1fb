"""The fraction of the peak that generated microkernels reach on data in the first- and second-level cache.

    python experiments/microkernel_peak.py [--samples N] [--blocks 6x64,28x16] [--isa avx2] [--cflags=-O3]
    python experiments/microkernel_peak.py --product dot_bf16

Each block runs as a GEMM (one reduction loop, B packed) and as a convolution (ifm_tile, kj, ki, ifm). The loop of
nothing but FMAs, or another inner product, and the microkernels alternate in one process; the figures are the medians
of the ratios of neighbours in time, with the 10th and 90th percentile.
"""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace

import numpy as np

from polydl.kernels import microkernel
from polydl.kernels.microkernel import MicrokernelSpec, Reduction
from polydl.measure.calibration import kernel_speeds
from polydl.model.types import F32, F64, ElementType
from polydl.options import Options
from polydl.rank.instruction_set import target_isa
from polydl.target.products import FMA, MEASURED, Product
from polydl.target.register_blocks import register_blocks

MOST_BLOCKS = 8
"""Of a machine, best modelled efficiency first."""
REDUCTION = 256
"""Iterations of the GEMM's reduction."""
IFM_TILES, FILTER, IFM = 2, 3, 64
"""Reduction of the convolution; IFM is the channel block."""
SAMPLE_FLOPS = 4e8
"""Work in one timed sample: some milliseconds, far above the clock's resolution."""


def gemm(dtype: ElementType, m: int, n: int, product: Product = FMA) -> MicrokernelSpec:
    """Rows of A contiguous along the reduction, B packed n wide; a step is a word of a group."""
    steps = REDUCTION // product.group
    return MicrokernelSpec(dtype, m, n, steps, n, (Reduction(steps, 1, n),), product=product)


def convolution(dtype: ElementType, m: int, n: int, product: Product = FMA) -> MicrokernelSpec:
    """m neighbouring output pixels, n output channels; input [ifm_tile][row][pixel][ifm], a row wide enough for m."""
    steps = IFM // product.group
    row = (m + FILTER - 1) * steps
    tap = steps * n
    reductions = (
        Reduction(IFM_TILES, FILTER * row, FILTER * FILTER * tap),
        Reduction(FILTER, row, FILTER * tap),
        Reduction(FILTER, steps, tap),
        Reduction(steps, 1, n),
    )
    return MicrokernelSpec(dtype, m, n, steps, n, reductions, product=product)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=41)
    parser.add_argument("--cc", default="gcc")
    parser.add_argument("--isa", help="avx512, avx2 or generic; default: the widest of this machine")
    parser.add_argument("--cflags", help="default: -O3 -march=native, kept to --isa")
    parser.add_argument("--product", choices=(FMA.name, *MEASURED), default=FMA.name)
    parser.add_argument("--blocks", help="MxN,… for each element type of sums; default: those that polydl tries first")
    options = parser.parse_args()
    polydl_options = Options(isa=options.isa)
    target = target_isa(polydl_options.target())
    toolchain = replace(polydl_options.toolchain(), cc=options.cc)
    if options.cflags:
        toolchain = replace(toolchain, cflags=tuple(shlex.split(options.cflags)))
    product = MEASURED.get(options.product, FMA)
    for dtype in (F32, F64) if product is FMA else product.sums:
        blocks = list(register_blocks(dtype, target.multiplying(product))[:MOST_BLOCKS])
        if options.blocks:
            blocks = [tuple(map(int, b.split("x"))) for b in options.blocks.split(",")]
        specs = [(kind.__name__, kind(dtype, m, n, product)) for m, n in blocks for kind in (gemm, convolution)]
        kernels = [microkernel.generate(spec) for _, spec in specs]
        figures = kernel_speeds(dtype, kernels, options.samples, toolchain, SAMPLE_FLOPS, product)
        alone = f"{product.name} loop {np.median(figures[:, 0]):.1f} GOP/s"
        if product is not FMA:
            alone += f", loop of FMAs on float {np.median(figures[:, -1]):.1f} GOP/s"
        print(f"{dtype}: {alone}, {options.cc} {shlex.join(toolchain.cflags)}")
        print(f"{'block':>8} {'kind':>12} {'GOP/s':>9} {'of peak':>8}  10th..90th percentile")
        for column, (kind, spec) in enumerate(specs, 1):
            ratio = figures[:, column] / figures[:, 0]
            low, middle, high = np.percentile(ratio, [10, 50, 90])
            speed = np.median(figures[:, column])
            print(f"{spec.m:>4}x{spec.n:<3} {kind:>12} {speed:9.1f} {middle:8.3f}  {low:.3f}..{high:.3f}")


if __name__ == "__main__":
    main()
