"""GEMM, row-major in and out, packing inside the time: polydl against MKL, oneDNN and LIBXSMM.

python experiments/gemm.py --json gemm.json --plot gemm.png
python experiments/gemm.py --dtype s8s8 --prepack
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import gemm_types
import numpy as np
from bench import POLYDL, Bound, Contender, Problem
from common import define_flags, need_peer, on_isa, optimized, parser, peers_of, prepare, run, scratch_folder
from native import KERNELS, Floats, bound_packed, placed
from sizes import DATA, GemmSize, gemm_sizes

import polydl

SOURCE = KERNELS / "gemm.c"
PLAIN_OPERATIONS = 2e10
"""The plain code is run on problems of up to this many operations only: it may take a second per 10^9."""


def data(size: GemmSize, rng: np.random.Generator, integral: bool) -> Sequence[Floats]:
    """A and B. Integers from -2 to 2: sums stay below 2^24 as long as K < 4 million."""
    shapes = ((size.M, size.K), (size.K, size.N))
    if integral:
        return [rng.integers(-2, 3, shape, dtype=np.int8).astype(np.float32) for shape in shapes]
    return [rng.random(shape, dtype=np.float32) - np.float32(0.5) for shape in shapes]


def from_c(name: str, c_file: Path, flags: Sequence[str]) -> Contender:
    """`matmul` of a C file."""

    def bind(inputs: Sequence[Floats], rng: np.random.Generator) -> Bound:
        a, b = (placed(x, rng) for x in inputs)
        c = placed(np.zeros((a.shape[0], b.shape[1]), dtype=np.float32), rng)
        return Bound(bound_packed(c_file, "matmul", flags, (a, b, c), b), lambda: c.copy())

    return Contender(name, bind)


def along_curve(size: GemmSize, given: argparse.Namespace) -> Path:
    """The order that needs no search: blocks of C along a Hilbert curve (as LIBXSMM's authors do it, 2026), each thread
    a contiguous stretch, with the best register block of the model and B packed before."""
    output = scratch_folder(given) / f"curve_{size.name}.c"
    macros = {"M": str(size.M), "N": str(size.N), "K": str(size.K)}
    polydl.optimize(
        SOURCE, output, run=False, defines=macros, threads=given.threads, loops="AB@hilbert", blocks="pack=B"
    )
    return output


def problem(size: GemmSize, given: argparse.Namespace) -> Problem:
    """A size with everything that is to solve it. The first contender is what the others are compared with."""
    wanted = peers_of(given)
    defines = {"M": size.M, "N": size.N, "K": size.K}
    contenders: list[Contender] = []
    notes: dict[str, object] = {"workload": size.workload}
    if "onednn" in wanted:
        from peers import onednn

        # torch.addmm reads C as well: another problem.
        contenders += [c for c in onednn.gemm_contenders() if c.name != "torch.addmm"]
    if "xsmm" in wanted:
        from peers import xsmm

        if xsmm.available():
            contenders.append(xsmm.gemm_contender())
    if "plain" in wanted and size.operations <= PLAIN_OPERATIONS:
        contenders.append(from_c("plain C", SOURCE, define_flags(defines)))
    if "curve" in wanted:
        contenders.append(from_c("Hilbert order", along_curve(size, given), define_flags(defines)))
    need_peer(contenders)
    if not given.skip_polydl:
        output, seconds = optimized(SOURCE, f"gemm_{size.name}", defines, given, "B")
        notes["polydl_seconds"] = seconds
        contenders.append(from_c(POLYDL, output, define_flags(defines)))
    return Problem(size.name, size.operations, size.bytes, lambda r, i: data(size, r, i), contenders, notes)


def main() -> int:
    options = parser(__doc__ or "")
    options.add_argument("--sizes", type=Path, default=DATA / "gemm_sizes.csv", metavar="CSV")
    options.add_argument("--dtype", choices=("fp32", *gemm_types.KINDS), default="fp32", help="of A and B")
    given = options.parse_args()
    prepare(given.threads, given.isa)
    if "onednn" in peers_of(given):
        from peers import onednn

        onednn.start(given.threads)
    sizes = gemm_sizes(given.sizes)
    title = f"GEMM, {given.dtype}, {given.threads} threads{on_isa(given)}, GFLOP/s hot (cold)"
    if given.dtype != "fp32":
        return run(given, title, [(s.name, lambda s=s: gemm_types.problem(given.dtype, s, given)) for s in sizes])
    return run(given, title, [(s.name, lambda s=s: problem(s, given)) for s in sizes])


if __name__ == "__main__":
    sys.exit(main())
