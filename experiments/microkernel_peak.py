"""The fraction of the FMA peak that generated microkernels reach on data in the first- and second-level cache.

    python experiments/microkernel_peak.py [--samples N] [--blocks 6x64,28x16] [--isa avx2] [--cflags=-O3]

Each block runs as a GEMM (one reduction loop, B packed) and as a convolution (ifm_tile, kj, ki, ifm). The FMA loop
and the microkernels alternate in one process; the figures are the medians of the ratios of neighbours in time, with
the 10th and 90th percentile.
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
from polydl.rank.register_blocks import target_isa
from polydl.target.isa import register_blocks

MOST_BLOCKS = 8
"""Of a machine, best modelled efficiency first."""
REDUCTION = 256
"""Iterations of the GEMM's reduction."""
IFM_TILES, FILTER, IFM = 2, 3, 64
"""Reduction of the convolution; IFM is the channel block."""
SAMPLE_FLOPS = 4e8
"""Work in one timed sample: some milliseconds, far above the clock's resolution."""


def gemm(dtype: ElementType, m: int, n: int) -> MicrokernelSpec:
    """Rows of A contiguous along the reduction, B packed n wide."""
    return MicrokernelSpec(dtype, m, n, REDUCTION, n, (Reduction(REDUCTION, 1, n),))


def convolution(dtype: ElementType, m: int, n: int) -> MicrokernelSpec:
    """m neighbouring output pixels, n output channels; input [ifm_tile][row][pixel][ifm], a row wide enough for m."""
    row = (m + FILTER - 1) * IFM
    tap = IFM * n
    reductions = (
        Reduction(IFM_TILES, FILTER * row, FILTER * FILTER * tap),
        Reduction(FILTER, row, FILTER * tap),
        Reduction(FILTER, IFM, tap),
        Reduction(IFM, 1, n),
    )
    return MicrokernelSpec(dtype, m, n, IFM, n, reductions)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=41)
    parser.add_argument("--cc", default="gcc")
    parser.add_argument("--isa", help="avx512, avx2 or generic; default: the widest of this machine")
    parser.add_argument("--cflags", help="default: -O3 -march=native, kept to --isa")
    parser.add_argument("--blocks", help="MxN,… for both element types; default: those that polydl tries first")
    options = parser.parse_args()
    polydl_options = Options(isa=options.isa)
    target = target_isa(polydl_options.target())
    toolchain = replace(polydl_options.toolchain(), cc=options.cc)
    if options.cflags:
        toolchain = replace(toolchain, cflags=tuple(shlex.split(options.cflags)))
    for dtype in (F32, F64):
        blocks = list(register_blocks(dtype, target)[:MOST_BLOCKS])
        if options.blocks:
            blocks = [tuple(map(int, b.split("x"))) for b in options.blocks.split(",")]
        specs = [(kind.__name__, kind(dtype, m, n)) for m, n in blocks for kind in (gemm, convolution)]
        kernels = [microkernel.generate(spec) for _, spec in specs]
        figures = kernel_speeds(dtype, kernels, options.samples, toolchain, SAMPLE_FLOPS)
        print(f"{dtype}: FMA loop {np.median(figures[:, 0]):.1f} GFLOP/s, {options.cc} {shlex.join(toolchain.cflags)}")
        print(f"{'block':>8} {'kind':>12} {'GFLOP/s':>9} {'of peak':>8}  10th..90th percentile")
        for column, (kind, spec) in enumerate(specs, 1):
            ratio = figures[:, column] / figures[:, 0]
            low, middle, high = np.percentile(ratio, [10, 50, 90])
            speed = np.median(figures[:, column])
            print(f"{spec.m:>4}x{spec.n:<3} {kind:>12} {speed:9.1f} {middle:8.3f}  {low:.3f}..{high:.3f}")


if __name__ == "__main__":
    main()
