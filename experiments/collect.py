"""Collect training data: variants of every convolution layer and matrix product of experiments/data, measured.

python experiments/collect.py --store measurements.sqlite
python experiments/collect.py --store measurements.sqlite --dtype bf16

`polydl collect` with the lists of experiments/data, without those above 10 GFLOP: takes its options (see
`polydl collect --help`) and, like it, needs the machine for itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

from polydl.cli import main

DATA = Path(__file__).parent / "data"
LISTS = ("conv_layers.csv", "gemm_random.csv", "gemm_sizes.csv")

if __name__ == "__main__":
    own = sys.argv[1:]
    lists = [] if any(word.startswith("--layers") for word in own) else [f"--layers={DATA / name}" for name in LISTS]
    sys.argv[1:] = ["collect", "--most-gflop=10", *lists, *own]
    main()
