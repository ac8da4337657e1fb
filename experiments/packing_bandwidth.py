"""How fast generated pack routines copy a square matrix, beside memcpy of as many bytes in the same process.

    python experiments/packing_bandwidth.py [--size 1024] [--samples N] [--cflags="-O3 -march=haswell"]

Medians, with the 10th and 90th percentile of the ratio of neighbours in time. GB/s count the source once.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from polydl.kernels import microkernel, packing
from polydl.kernels.packing import PackLoop, PackSpec
from polydl.model.types import F32, F64
from polydl.target.isa import VECTOR_TYPES


def specifications(size: int) -> list[tuple[str, PackSpec]]:
    """The layouts that occur in GEMM: B and A as stored row-major, and both transposed."""
    row_major, transposed = (PackLoop(size, size),), (PackLoop(size, 1),)
    return [
        ("B row-major, panels of 64", PackSpec(F32, 64, 1, row_major)),
        ("B row-major, panels of 32", PackSpec(F32, 32, 1, row_major)),
        ("B transposed, panels of 64", PackSpec(F32, 64, size, transposed)),
        ("A row-major, panels of 14", PackSpec(F32, 14, size, transposed)),
        ("B row-major, panels of 32", PackSpec(F64, 32, 1, row_major)),
        ("B transposed, panels of 32", PackSpec(F64, 32, size, transposed)),
    ]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1024, help="rows and columns")
    parser.add_argument("--samples", type=int, default=41)
    parser.add_argument("--cc", default="gcc")
    parser.add_argument("--cflags", default="-O3 -march=native")
    options = parser.parse_args()
    layouts = specifications(options.size)
    routines = [packing.pack_routine(spec) for _, spec in layouts]
    sizes = [options.size**2 * spec.dtype.bytes for _, spec in layouts]
    text = (
        microkernel.environment()
        .get_template("packing_bandwidth.c.j2")
        .render(
            prologue="".join(microkernel.isa_prologue(d) + packing.pack_prologue(d) for d in VECTOR_TYPES),
            routines=routines,
            size=options.size,
            sizes=sizes,
            samples=options.samples,
            # Panels end in zeros: at most one panel of padding.
            buffer_bytes=max(sizes) + 64 * options.size * 8,
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / "packing.c", Path(folder) / "packing"
        source.write_text(text)
        subprocess.run([options.cc, *shlex.split(options.cflags), str(source), "-o", str(binary)], check=True)
        out = subprocess.run([str(binary)], check=True, capture_output=True, text=True).stdout
    figures = np.array([[float(x) for x in line.split()] for line in out.splitlines()])
    print(f"{options.size} x {options.size}, {options.cc} {options.cflags}")
    print(f"{'layout':>36} {'GB/s':>7} {'memcpy':>7} {'ratio':>6}  10th..90th percentile")
    for index, (name, spec) in enumerate(layouts):
        own, copy = figures[:, 2 * index], figures[:, 2 * index + 1]
        low, middle, high = np.percentile(own / copy, [10, 50, 90])
        label = f"{spec.dtype} {name}"
        print(f"{label:>36} {np.median(own):7.1f} {np.median(copy):7.1f} {middle:6.2f}  {low:.2f}..{high:.2f}")


if __name__ == "__main__":
    main()
