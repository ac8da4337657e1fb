"""Products of a sparse and a dense matrix beside torch, and beside polydl's own product of dense matrices.

python experiments/sparse.py --json sparse.json [--only NAME]… [--no-tune] [--again] [--untimed]

y = A x in float, A by rows of blocks (`polydl.sparse_rows`), x and y row by row. polydl compiles the loops as they are
in the first place written, for the number of rows and columns and any pattern; CSR stands for blocks of 1 x 1. The
peers are torch's products with the same matrix in BSR and CSR (MKL), with the dense one, polydl's own dense product,
and scipy's in CSR where scipy is installed. Names that begin with `matvec` are of a large sparse matrix times a vector,
which has no dense twin. All take turns in one process with one OpenMP runtime; a figure is the median of the ratios
within a round. Each result is held against the product in double precision. Rows are written as they come; those that
are in the file already are left out. `--untimed` compiles, which is cached, and checks; nothing is timed or written.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import statistics
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
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
MATVEC = """
void product(const int ptr[restrict N + 1], const int *restrict idx, const float *restrict val,
             const float x[restrict M], float y[restrict N])
{
    for (int i = 0; i < N; i++) {
        float sum = 0;
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            sum += val[p] * x[idx[p]];
        y[i] = sum;
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


@dataclass(frozen=True, slots=True)
class Matvec:
    """A square matrix times a vector."""

    rows: int
    entries: int
    """Of a row, on average."""
    pattern: str
    columns: int = 1
    block: int = 1

    @property
    def name(self) -> str:
        return f"matvec-{self.rows}-{self.pattern}-{self.entries}"

    def csr(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pointers, columns, values: columns anywhere or near the diagonal; rows of one length but for those of `half`,
        of which one has half of all entries."""
        rng = np.random.default_rng(7)
        lengths = np.full(self.rows, self.entries)
        if self.pattern == "half":
            lengths[self.rows // 3] = self.rows * self.entries
        row = np.repeat(np.arange(self.rows), lengths)
        near = row + rng.integers(-2 * self.entries, 2 * self.entries + 1, len(row))
        idx = near % self.rows if self.pattern == "banded" else rng.integers(0, self.rows, len(row))
        idx = idx[np.lexsort((idx, row))]
        ptr = np.concatenate([[0], np.cumsum(lengths)])
        return ptr.astype(np.int32), idx.astype(np.int32), rng.standard_normal(len(row)).astype(np.float32)


WORKS = [
    *(Work(2048, 2048, block, density, "uniform", 256)
      for block in (1, 4, 8, 16, 32) for density in (0.9, 0.5, 0.2, 0.1, 0.05, 0.01)),
    *(Work(768, 3072, block, density, "uniform", 256) for block in (1, 8, 32) for density in (0.2, 0.1)),
    *(Work(2048, 2048, block, 0.1, pattern, 256) for block in (1, 8) for pattern in ("skewed", "banded")),
    *(Work(2048, 2048, block, 0.1, "uniform", columns) for block in (1, 8) for columns in (32, 2048)),
    *(Work(2048, 2048, block, density, "uniform", 32) for block in (1, 8, 32) for density in (0.5, 0.2, 0.1, 0.01)),
]  # fmt: skip
MATVECS = [
    *(Matvec(50_000, entries, pattern) for entries in (4, 20, 200) for pattern in ("uniform", "banded")),
    Matvec(50_000, 20, "half"),
]


PEERS = ("own dense", "dense", "bsr", "csr", "scipy")


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
    full = {"a": torch.from_numpy(matrix), "x": torch.from_numpy(x), "y": torch.zeros(work.rows, work.columns)}
    csr = full["a"].to_sparse_csr()
    bsr = full["a"].to_sparse_bsr((b, b))
    peers = {
        "own dense": direct(own, full, given.threads),
        "dense": lambda: full["a"] @ full["x"],
        "bsr": lambda: bsr @ full["x"],
        "csr": lambda: csr @ full["x"],
        **of_scipy(matrix, x),
    }
    exact = full["a"].double() @ full["x"].double()
    return row_of(work.name, 2.0 * val.size * work.columns, kernel, arrays, peers, exact, given)


def measure_matvec(work: Matvec, given: argparse.Namespace) -> Row:
    """The same for a matrix that is sparse all along."""
    import torch

    import polydl

    ptr, idx, val = work.csr()
    x, y = np.random.default_rng(8).standard_normal(work.rows).astype(np.float32), np.zeros(work.rows, np.float32)
    kernel = polydl.compile(MATVEC, {"N": work.rows, "M": work.rows}, tune=not given.no_tune, threads=given.threads)
    arrays: dict[str, Any] = {"ptr": ptr, "idx": idx, "val": val, "x": x, "y": y}
    rows, columns, values = (torch.from_numpy(each) for each in (ptr, idx, val))
    csr = torch.sparse_csr_tensor(rows, columns, values, size=(work.rows, work.rows))
    vector = torch.from_numpy(x)
    peers = {"csr": lambda: csr @ vector, **of_scipy((val, idx, ptr), x)}
    exact = csr.double() @ vector.double()
    return row_of(work.name, 2.0 * val.size, kernel, arrays, peers, exact, given)


def of_scipy(matrix: Any, x: np.ndarray) -> dict[str, Callable[[], object]]:
    """The product of scipy, where it is installed."""
    if importlib.util.find_spec("scipy") is None:
        return {}
    made = importlib.import_module("scipy.sparse").csr_matrix(matrix)
    return {"scipy": lambda: made @ x}


def row_of(
    name: str,
    operations: float,
    kernel: Any,
    arrays: Mapping[str, Any],
    peers: Mapping[str, Callable[[], object]],
    exact: Any,
    given: argparse.Namespace,
) -> Row:
    """A kernel of polydl beside its peers, whose result is held against `exact`. Raises SystemExit where several OpenMP
    runtimes are loaded."""
    import torch

    kernel(*(arrays[p.name] for p in kernel.signature.parameters if p.is_array))
    result = torch.from_numpy(arrays["y"])
    error = difference([result.reshape(exact.shape)], [exact])
    if len(runtimes := openmp_runtimes()) > 1:
        sys.exit(f"several OpenMP runtimes are loaded, which spoils every timing: {', '.join(runtimes)}")
    if given.untimed:
        return Row(name, operations, {}, kernel.made.recipe, error)
    tensors = {key: torch.from_numpy(array) for key, array in arrays.items()}
    contenders = {"polydl": direct(kernel, tensors, given.threads), **peers}
    times = timed(contenders, given.rounds, given.turn_seconds)
    return Row(name, operations, times, kernel.made.recipe, error)


def table(rows: Sequence[Row]) -> str:
    """Markdown: over 1 is faster than the peer."""
    lines = [
        f"| rows x columns - pattern - block - density - columns | GFLOP/s | {' | '.join(PEERS)} | error |",
        f"|---|---:|{'---:|' * len(PEERS)}---:|",
    ]
    for row in rows:
        rate = row.operations / statistics.median(row.times["polydl"]) * 1e-9
        ratios = " | ".join(f"{row.ratio(peer):.2f}" if peer in row.times else "" for peer in PEERS)
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
    options.add_argument("--untimed", action="store_true", help="compile and check, and time nothing")
    options.add_argument("--again", action="store_true", help="measure rows that are in the file, too")
    given = options.parse_args()
    set_threads(given.threads)
    known = json.loads(given.json.read_text(encoding="utf-8"))["rows"] if given.json.is_file() else []
    rows = {r["name"]: Row(**r) for r in known}
    import torch

    torch.set_num_threads(given.threads)
    warnings.filterwarnings("ignore", message="Sparse .* tensor support is in beta")
    works: dict[str, Work | Matvec] = {work.name: work for work in MATVECS} | {work.name: work for work in WORKS}
    for work in works.values():
        if (given.only and not any(word in work.name for word in given.only)) or (
            work.name in rows and not given.again
        ):
            continue
        row = measure_matvec(work, given) if isinstance(work, Matvec) else measure(work, given)
        if given.untimed:
            print(f"{row.name}: error {row.error:.0e}, {row.recipe}", flush=True)
            continue
        rows[work.name] = row
        document = {"machine": machine(), "commit": commit(), "threads": given.threads}
        document["rows"] = [asdict(r) for r in rows.values()]
        given.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
        print(table([row]).splitlines()[-1], flush=True)
    if not given.untimed:
        print(table(list(rows.values())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
