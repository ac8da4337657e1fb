"""Products of a sparse and a dense matrix beside torch, and beside polydl's own product of dense matrices.

python experiments/sparse.py --json sparse.json [--only NAME]… [--columns N]… [--no-tune] [--again]

y = A x in float, A by rows of blocks (`polydl.sparse_rows`), x and y row by row. polydl compiles the loops as they are
in the first place written, for the number of rows and columns and any pattern; CSR stands for blocks of 1 x 1. The
peers are torch's products with the same matrix in BSR and CSR (MKL), with the dense one, and polydl's own dense
product. All take turns in one process with one OpenMP runtime; a figure is the median of the ratios within a round.
Each result is held against the dense product in double precision. Rows are written as they come; those that are in the
file already are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from native import openmp_runtimes, set_threads
from operators import _direct as direct
from operators import _timed as timed
from operators import difference
from output import commit, machine

CSR = """
void product(const int ptr[restrict N + 1], const int *restrict idx, const float *restrict val,
             const float x[restrict M][K], float y[restrict N][K])
{
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < K; j++)
            y[i][j] = 0;
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int j = 0; j < K; j++)
                y[i][j] += val[p] * x[idx[p]][j];
    }
}
"""
BSR = """
void product(const int ptr[restrict N + 1], const int *restrict idx, const float (*restrict val)[B][B],
             const float x[restrict M][B][K], float y[restrict N][B][K])
{
    for (int i = 0; i < N; i++) {
        for (int r = 0; r < B; r++)
            for (int j = 0; j < K; j++)
                y[i][r][j] = 0;
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int r = 0; r < B; r++)
                for (int j = 0; j < K; j++)
                    for (int c = 0; c < B; c++)
                        y[i][r][j] += val[p][r][c] * x[idx[p]][c][j];
    }
}
"""
DENSE = """
void product(const float a[restrict N][M], const float x[restrict M][K], float y[restrict N][K])
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < K; j++) {
            y[i][j] = 0;
            for (int k = 0; k < M; k++)
                y[i][j] += a[i][k] * x[k][j];
        }
}
"""


@dataclass(frozen=True, slots=True)
class Work:
    """A matrix and the columns of what it is multiplied with."""

    rows: int
    inner: int
    block: int
    density: float
    pattern: str
    columns: int

    @property
    def name(self) -> str:
        return f"{self.rows}x{self.inner}-{self.pattern}-{self.block}-{self.density:g}-{self.columns}"

    def matrix(self) -> np.ndarray:
        """With blocks of random numbers: as likely everywhere, more in each next row, or near the diagonal."""
        rng = np.random.default_rng(7)
        across, down = self.inner // self.block, self.rows // self.block
        if self.pattern == "uniform":
            kept = rng.random((down, across)) < self.density
        elif self.pattern == "skewed":
            kept = rng.random((down, across)) < np.linspace(0, 2 * self.density, down)[:, None]
        else:
            place = np.arange(down)[:, None] * across / down
            kept = abs(np.arange(across)[None] - place) <= self.density * across / 2
        blocks = np.kron(kept, np.ones((self.block, self.block)))
        return (rng.standard_normal((self.rows, self.inner)) * blocks).astype(np.float32)


WORKS = [
    *(Work(2048, 2048, block, density, "uniform", 256)
      for block in (1, 4, 8, 16, 32) for density in (0.9, 0.5, 0.2, 0.1, 0.05, 0.01)),
    *(Work(768, 3072, block, density, "uniform", 256) for block in (1, 8, 32) for density in (0.2, 0.1)),
    *(Work(2048, 2048, block, 0.1, pattern, 256) for block in (1, 8) for pattern in ("skewed", "banded")),
    *(Work(2048, 2048, block, 0.1, "uniform", columns) for block in (1, 8) for columns in (32, 2048)),
]  # fmt: skip


@dataclass
class Row:
    """A product, timed."""

    name: str
    operations: float
    """With entries that are kept."""
    times: Mapping[str, Sequence[float]]
    recipe: str
    error: float

    def ratio(self, peer: str) -> float:
        """By how much polydl is faster; the median over the rounds."""
        pairs = zip(self.times[peer], self.times["polydl"], strict=True)
        return statistics.median(theirs / own for theirs, own in pairs)


def measure(work: Work, given: argparse.Namespace) -> Row:
    """One row. Raises SystemExit where several OpenMP runtimes are loaded."""
    import torch

    import polydl

    warnings.filterwarnings("ignore", message="Sparse .* tensor support is in beta")
    torch.set_num_threads(given.threads)
    matrix, b = work.matrix(), work.block
    ptr, idx, val = polydl.sparse_rows(matrix, (b, b))
    rng = np.random.default_rng(8)
    x, y = rng.standard_normal((work.inner, work.columns)).astype(np.float32), np.zeros((work.rows, work.columns), "f")
    text = CSR if b == 1 else f"#define B {b}\n{BSR}"
    sizes = {"N": work.rows // b, "M": work.inner // b, "K": work.columns}
    kernel = polydl.compile(text, sizes, tune=not given.no_tune, threads=given.threads)
    own = polydl.compile(DENSE, {"N": work.rows, "M": work.inner, "K": work.columns}, tune=False, threads=given.threads)
    shape = (-1, work.columns) if b == 1 else (-1, b, work.columns)
    arrays: dict[str, Any] = {"ptr": ptr, "idx": idx, "val": val, "x": x.reshape(shape), "y": y.reshape(shape)}
    all_ = {name: torch.from_numpy(array) for name, array in arrays.items()}
    full = {"a": torch.from_numpy(matrix), "x": torch.from_numpy(x), "y": torch.zeros(work.rows, work.columns)}
    csr = full["a"].to_sparse_csr()
    bsr = full["a"].to_sparse_bsr((b, b))
    contenders = {
        "polydl": direct(kernel, all_, given.threads),
        "own dense": direct(own, full, given.threads),
        "dense": lambda: full["a"] @ full["x"],
        "bsr": lambda: bsr @ full["x"],
        "csr": lambda: csr @ full["x"],
    }
    kernel(*(arrays[p.name] for p in kernel.signature.parameters if p.is_array))
    exact = full["a"].double() @ full["x"].double()
    error = difference([torch.from_numpy(y)], [exact])
    if len(runtimes := openmp_runtimes()) > 1:
        sys.exit(f"several OpenMP runtimes are loaded, which spoils every timing: {', '.join(runtimes)}")
    times = timed(contenders, given.rounds, given.turn_seconds)
    return Row(work.name, 2.0 * val.size * work.columns, times, kernel.made.recipe, error)


def table(rows: Sequence[Row]) -> str:
    """Markdown: over 1 is faster than the peer."""
    lines = [
        "| rows x columns - pattern - block - density - columns | GFLOP/s | own dense | dense | BSR | CSR | error |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        rate = row.operations / statistics.median(row.times["polydl"]) * 1e-9
        ratios = " | ".join(f"{row.ratio(peer):.2f}" for peer in ("own dense", "dense", "bsr", "csr"))
        lines.append(f"| {row.name} | {rate:.0f} | {ratios} | {row.error:.0e} |")
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, required=True, metavar="FILE")
    options.add_argument("--only", action="append", metavar="NAME", help="part of a name")
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--turn-seconds", type=float, default=0.01)
    options.add_argument("--no-tune", action="store_true", help="polydl takes its best ranked variant, untimed")
    options.add_argument("--again", action="store_true", help="measure rows that are in the file, too")
    given = options.parse_args()
    set_threads(given.threads)
    known = json.loads(given.json.read_text(encoding="utf-8"))["rows"] if given.json.is_file() else []
    rows = {r["name"]: Row(**r) for r in known}
    for work in WORKS:
        if (given.only and not any(word in work.name for word in given.only)) or (
            work.name in rows and not given.again
        ):
            continue
        rows[work.name] = row = measure(work, given)
        document = {"machine": machine(), "commit": commit(), "threads": given.threads}
        document["rows"] = [asdict(r) for r in rows.values()]
        given.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
        print(table([row]).splitlines()[-1], flush=True)
    print(table(list(rows.values())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
