"""Collect training data: variants of every convolution layer and matrix product of experiments/data, measured.

python experiments/collect.py --store measurements.sqlite

The same as `polydl collect` with the lists of experiments/data; needs the machine for itself.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from polydl.base.errors import PolyDLError
from polydl.learn.collect.command import collect_command

DATA = Path(__file__).parent / "data"
LISTS = ("conv_layers.csv", "gemm_random.csv", "gemm_sizes.csv")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--layers", type=Path, action="append", metavar="CSV", help="default: all of experiments/data")
    options.add_argument("--store", type=Path, required=True, metavar="SQLITE")
    options.add_argument("--samples", type=int, default=72, help="variants of each size; half for those above 2 GFLOP")
    options.add_argument("--most-gflop", type=float, default=10.0, help="larger sizes are left out")
    options.add_argument("--workload", action="append", default=[], metavar="NAME", help="only these networks")
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--images", type=int, help="default: as many as threads")
    options.add_argument("--space", default="default")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--scratch", type=Path, metavar="DIR", help="build here; kept until it is measured")
    options.add_argument("--prepare-only", action="store_true", help="build in --scratch: may share the machine")
    given = options.parse_args()
    try:
        collect_command(
            given.layers or [DATA / name for name in LISTS],
            given.store,
            samples=given.samples,
            images=given.images,
            most_operations=given.most_gflop * 1e9,
            workloads=given.workload,
            threads=given.threads,
            space=given.space,
            seed=given.seed,
            scratch=given.scratch,
            prepare_only=given.prepare_only,
        )
    except PolyDLError as error:
        sys.stderr.write(error.render() + "\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
