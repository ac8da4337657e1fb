"""The fraction of the FMA peak that generated microkernels reach on data in the first- and second-level cache.

    python experiments/microkernel_peak.py [--samples N] [--blocks 6x64,28x16] [--isa avx2] [--cflags=-O3]

Each block runs as a GEMM (one reduction loop, B packed) and as a convolution (ifm_tile, kj, ki, ifm). The FMA loop
and the microkernels alternate in one process; the figures are the medians of the ratios of neighbours in time, with
the 10th and 90th percentile.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from polydl.kernels import microkernel
from polydl.kernels.microkernel import Microkernel, MicrokernelSpec, Reduction
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


def iterations(spec: MicrokernelSpec) -> int:
    """Reduction iterations of a specification with constant extents."""
    return int(np.prod([r.extent for r in spec.reductions], dtype=np.int64))


def program(dtype: ElementType, kernels: list[Microkernel], samples: int) -> str:
    """C text of the timing program."""
    flops = [2 * k.spec.m * k.spec.n * iterations(k.spec) for k in kernels]
    largest_m, largest_n = max(k.spec.m for k in kernels), max(k.spec.n for k in kernels)
    pixels = largest_m + FILTER
    return (
        microkernel.environment()
        .get_template("microkernel_peak.c.j2")
        .render(
            t=dtype,
            prologue=microkernel.isa_prologue(dtype),
            kernels=kernels,
            flops=flops,
            calls=[max(1, round(SAMPLE_FLOPS / f)) for f in flops],
            fma_steps=1_000_000,
            samples=samples,
            a_elements=max(largest_m * REDUCTION, IFM_TILES * FILTER * pixels * IFM),
            b_elements=max(iterations(k.spec) for k in kernels) * largest_n,
            c_elements=largest_m * largest_n,
        )
    )


def measure(
    dtype: ElementType, kernels: list[Microkernel], samples: int, compiler: str, flags: list[str]
) -> np.ndarray:
    """GFLOP/s, one row a sample: the FMA loop, then each kernel. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / "peak.c", Path(folder) / "peak"
        source.write_text(program(dtype, kernels, samples))
        subprocess.run([compiler, *flags, str(source), "-o", str(binary)], check=True)
        out = subprocess.run([str(binary)], check=True, capture_output=True, text=True).stdout
    return np.array([[float(x) for x in line.split()] for line in out.splitlines()])


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
    options.cflags = options.cflags or " ".join(f for f in polydl_options.toolchain().cflags if f != "-fopenmp")
    for dtype in (F32, F64):
        blocks = list(register_blocks(dtype, target)[:MOST_BLOCKS])
        if options.blocks:
            blocks = [tuple(map(int, b.split("x"))) for b in options.blocks.split(",")]
        specs = [(kind.__name__, kind(dtype, m, n)) for m, n in blocks for kind in (gemm, convolution)]
        kernels = [microkernel.generate(spec) for _, spec in specs]
        figures = measure(dtype, kernels, options.samples, options.cc, shlex.split(options.cflags))
        print(f"{dtype}: FMA loop {np.median(figures[:, 0]):.1f} GFLOP/s, {options.cc} {options.cflags}")
        print(f"{'block':>8} {'kind':>12} {'GFLOP/s':>9} {'of peak':>8}  10th..90th percentile")
        for column, (kind, spec) in enumerate(specs, 1):
            ratio = figures[:, column] / figures[:, 0]
            low, middle, high = np.percentile(ratio, [10, 50, 90])
            speed = np.median(figures[:, column])
            print(f"{spec.m:>4}x{spec.n:<3} {kind:>12} {speed:9.1f} {middle:8.3f}  {low:.3f}..{high:.3f}")


if __name__ == "__main__":
    main()
