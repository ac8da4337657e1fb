"""Products of a sparse and a dense matrix beside torch, and beside polydl's own product of dense matrices.

python experiments/sparse.py --json sparse.json [--only NAME]… [--seconds S] [--no-tune] [--again] [--untimed]

y = A x in float, A by rows of blocks (`polydl.sparse_rows`), x and y row by row. polydl compiles the loops as they are
in the first place written, for the number of rows and columns and any pattern; CSR stands for blocks of 1 x 1. The
peers are torch's products with the same matrix in BSR and CSR (MKL), with the dense one, polydl's own dense product,
and scipy's in CSR where scipy is installed. Names that end in `bf16` or `int8` are of such elements, with sums of
float and of int, beside torch's dense products, whose results are of bf16 and of int. Names that begin with
`matvec` are of a large sparse matrix times a vector, and `sampled` of products of rows at the entries of a pattern,
which have no dense twin. `read` is a sum over an array of as many bytes as the operands and the result have together,
`gather` one over the rows that a sampled product reads. The part of the roofline is the longer one of `read` and the
operations at the peak, over polydl's time.

All take turns in one process with one OpenMP runtime; a figure is the median of the ratios within a round. Each result
is held against the product in double precision. Rows are written as they come; those that are in the file already are
left out, and how many reach the bars is said at the end. `--untimed` compiles, which is cached, and checks; nothing is
timed or written.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import json
import os
import re
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from native import openmp_runtimes, peak_gflops, set_threads, support_library
from operators import _direct as direct
from operators import _timed as timed
from operators import difference
from output import commit, machine

from polydl.model.types import I8, U8
from polydl.target.products import DOT_8, DOT_BF16, FMA, Product

CSR = """
void product(const int ptr[restrict N + 1], const int *restrict idx, const ELEMENT *restrict val,
             const ELEMENT x[restrict M][K], SUM y[restrict N][K])
{
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < K; j++)
            y[i][j] = 0;
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int j = 0; j < K; j++)
                y[i][j] += OF(val[p]) * OF(x[idx[p]][j]);
    }
}
"""
BSR = """
void product(const int ptr[restrict N + 1], const int *restrict idx, const ELEMENT (*restrict val)[B][B],
             const ELEMENT x[restrict M][B][K], SUM y[restrict N][B][K])
{
    for (int i = 0; i < N; i++) {
        for (int r = 0; r < B; r++)
            for (int j = 0; j < K; j++)
                y[i][r][j] = 0;
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int r = 0; r < B; r++)
                for (int j = 0; j < K; j++)
                    for (int c = 0; c < B; c++)
                        y[i][r][j] += OF(val[p][r][c]) * OF(x[idx[p]][c][j]);
    }
}
"""
BSR_VECTOR = """
void product(const int ptr[restrict N + 1], const int *restrict idx, const ELEMENT (*restrict val)[B][B],
             const ELEMENT x[restrict M][B], SUM y[restrict N][B])
{
    for (int i = 0; i < N; i++) {
        for (int r = 0; r < B; r++)
            y[i][r] = 0;
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int r = 0; r < B; r++)
                for (int c = 0; c < B; c++)
                    y[i][r] += OF(val[p][r][c]) * OF(x[idx[p]][c]);
    }
}
"""
MATVEC = """
void product(const int ptr[restrict N + 1], const int *restrict idx, const ELEMENT *restrict val,
             const ELEMENT x[restrict M], SUM y[restrict N])
{
    for (int i = 0; i < N; i++) {
        SUM sum = 0;
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            sum += OF(val[p]) * OF(x[idx[p]]);
        y[i] = sum;
    }
}
"""
SAMPLED = """
void product(const int ptr[restrict N + 1], const int *restrict idx, const float *restrict val,
             const float a[restrict N][K], const float b[restrict M][K], float *restrict y)
{
    for (int i = 0; i < N; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++) {
            float sum = 0;
            for (int k = 0; k < K; k++)
                sum += a[i][k] * b[idx[p]][k];
            y[p] = val[p] * sum;
        }
}
"""
DENSE = """
void product(const ELEMENT a[restrict N][M], const ELEMENT x[restrict M][K], SUM y[restrict N][K])
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < K; j++) {
            y[i][j] = 0;
            for (int k = 0; k < M; k++)
                y[i][j] += OF(a[i][k]) * OF(x[k][j]);
        }
}
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """Types of a product of blocks."""

    macros: str
    """C: the types of elements and of sums, and an element in the type of the sum."""
    element: str
    """torch's name of the type of elements, of which there are whole numbers but for float."""
    sums: str
    factor: Product = FMA
    """The inner product whose peak the operations are compared with."""


PLAIN = "#define ELEMENT {0}\n#define SUM {0}\n#define OF(x) x\n"
KINDS: Mapping[str, Kind] = {
    "float": Kind(PLAIN.format("float"), "float32", "float32"),
    "bf16": Kind(
        "#include <polydl.h>\n#define ELEMENT polydl_bf16\n#define SUM float\n#define OF(x) polydl_to_float(x)\n",
        "bfloat16", "float32", DOT_BF16,
    ),
    "int8": Kind("#define ELEMENT signed char\n#define SUM int\n#define OF(x) x\n", "int8", "int32", DOT_8[U8, I8]),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Work:
    """A matrix and the columns of what it is multiplied with."""

    rows: int
    inner: int
    block: int
    density: float
    pattern: str
    columns: int
    kind: str = "float"
    """Of `KINDS`."""

    @property
    def name(self) -> str:
        kind = f"-{self.kind}" if self.kind != "float" else ""
        return f"{self.rows}x{self.inner}-{self.pattern}-{self.block}-{self.density:g}-{self.columns}{kind}"

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
        shape = (self.rows, self.inner)
        values = rng.standard_normal(shape) if self.kind == "float" else rng.choice((-3, -2, -1, 1, 2, 3), shape)
        return (values * blocks).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Matvec:
    """A square matrix times a vector."""

    rows: int
    entries: int
    """Of a row, on average."""
    pattern: str
    type: str = "float"

    @property
    def name(self) -> str:
        return f"matvec-{self.rows}-{self.pattern}-{self.entries}-{self.type}"

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
        val = rng.standard_normal(len(row)).astype(np.float32 if self.type == "float" else np.float64)
        return ptr.astype(np.int32), idx.astype(np.int32), val


@dataclass(frozen=True, slots=True)
class Sampled:
    """Products of rows of two matrices at the entries of a square pattern."""

    rows: int
    entries: int
    """Of a row."""
    columns: int

    @property
    def name(self) -> str:
        return f"sampled-{self.rows}-{self.entries}-{self.columns}"


BLOCKS, COLUMNS, DENSITIES = (1, 2, 4, 8, 16, 32), (1, 32, 256, 2048), (1, 0.9, 0.5, 0.2, 0.1, 0.01)
WORKS = [
    *(Work(2048, 2048, block, density, "uniform", columns)
      for columns in COLUMNS for block in BLOCKS
      for density in (DENSITIES if columns < 2048 else (0.9, 0.2, 0.1))),
    *(Work(768, 3072, block, density, "uniform", columns)
      for columns in COLUMNS for block in BLOCKS for density in (0.9, 0.2, 0.1)),
    *(Work(2048, 2048, block, density, pattern, columns)
      for columns in COLUMNS for block in (1, 8, 32) for pattern in ("skewed", "banded") for density in (0.5, 0.1)),
    *(Work(2048, 2048, block, density, "uniform", columns, kind)
      for kind in ("bf16", "int8") for columns in COLUMNS for block in BLOCKS for density in (0.9, 0.2, 0.1)),
    *(Work(2048, 2048, 64, density, "uniform", 256, kind) for kind in ("bf16", "int8") for density in (0.9, 0.2, 0.1)),
]  # fmt: skip
MATVECS = [
    *(Matvec(50_000, entries, pattern, type_) for type_ in ("float", "double")
      for entries in (4, 20, 200) for pattern in ("uniform", "banded")),
    *(Matvec(50_000, 20, "half", type_) for type_ in ("float", "double")),
]  # fmt: skip
SAMPLES = [Sampled(4096, 32, 64), Sampled(4096, 32, 256), Sampled(50_000, 16, 256)]

PEERS = ("own dense", "dense", "bsr", "csr", "scipy", "read", "gather")
MOST_OF_SCIPY = 4e8
"""Operations from which on scipy's product, which is on one core, takes too long."""


@dataclass
class Row:
    """A product, timed."""

    name: str
    operations: float
    """With entries that are kept."""
    times: Mapping[str, Sequence[float]]
    recipe: str
    error: float
    peak: float = 0
    """Operations per second that the machine has, in the same process; 0: not measured."""

    def ratio(self, peer: str) -> float:
        """By how much polydl is faster; the median over the rounds."""
        pairs = zip(self.times[peer], self.times["polydl"], strict=True)
        return statistics.median(theirs / own for theirs, own in pairs)

    @property
    def roofline(self) -> float | None:
        """The least time that reading and computing take, over polydl's; None where it is not known."""
        if not self.peak or "read" not in self.times:
            return None
        pairs = zip(self.times["read"], self.times["polydl"], strict=True)
        return statistics.median(max(read, self.operations / self.peak) / own for read, own in pairs)


@dataclass(frozen=True)
class Case:
    """What is timed."""

    name: str
    operations: float
    kernel: Any
    """Of `polydl.compile`."""
    arrays: Mapping[str, Any]
    """By parameter; `y` is the result."""
    peers: Mapping[str, Callable[[], object]]
    exact: Any
    """The result in double precision, a tensor."""
    factor: Product = FMA
    """The inner product whose peak it is compared with."""


@cache
def compiled(text: str, *sizes: tuple[str, int], tune: bool, threads: int) -> Any:
    """A kernel, for all patterns that it is timed with."""
    import polydl

    return polydl.compile(text, dict(sizes), tune=tune, threads=threads)


def product(work: Work, given: argparse.Namespace) -> Case:
    """A sparse matrix times a dense one, or a vector."""
    import torch

    import polydl

    matrix, b, kind = work.matrix(), work.block, KINDS[work.kind]
    ptr, idx, val = polydl.sparse_rows(matrix, (b, b))
    rng, wide = np.random.default_rng(8), (work.inner, work.columns)
    x = rng.standard_normal(wide) if work.kind == "float" else rng.integers(-4, 5, wide)
    element = getattr(torch, kind.element)
    a, x, val = (torch.from_numpy(one.astype(np.float32)).to(element) for one in (matrix, x, val))
    y = torch.zeros(work.rows, work.columns, dtype=getattr(torch, kind.sums))
    options: dict[str, Any] = {"tune": not given.no_tune, "threads": given.threads}
    sizes = {"N": work.rows // b, "M": work.inner // b}
    if work.columns > 1:
        text, sizes = CSR if b == 1 else BSR, sizes | {"K": work.columns}
    else:
        text = MATVEC if b == 1 else BSR_VECTOR
    kernel = compiled(f"#define B {b}\n{kind.macros}{text}", *sizes.items(), **options)
    dense = {"N": work.rows, "M": work.inner, "K": work.columns}
    own = compiled(kind.macros + DENSE, *dense.items(), **options | {"tune": False})
    shape = tuple(n for n, kept in ((-1, True), (b, b > 1), (work.columns, work.columns > 1)) if kept)
    arrays: dict[str, Any] = {"ptr": ptr, "idx": idx, "val": val, "x": x.reshape(shape), "y": y.reshape(shape)}
    operations = 2.0 * val.numel() * work.columns
    peers = {
        "own dense": direct(own, {"a": a, "x": x, "y": torch.zeros_like(y)}, given.threads),
        **of_torch(a, x, b),
        **(of_scipy(matrix, x.numpy(), operations) if work.kind == "float" else {}),
    }
    return Case(work.name, operations, kernel, arrays, peers, a.double() @ x.double(), kind.factor)


def of_torch(a: Any, x: Any, block: int) -> dict[str, Callable[[], object]]:
    """torch's products of a dense matrix and, of float, in blocks and in rows."""
    import torch

    if a.dtype is not torch.float32:  # MKL's sparse products have no smaller types
        return {"dense": (lambda: torch._int_mm(a, x)) if a.dtype is torch.int8 else (lambda: a @ x)}
    csr, bsr = a.to_sparse_csr(), a.to_sparse_bsr((block, block))
    return {"dense": lambda: a @ x, "bsr": lambda: bsr @ x, "csr": lambda: csr @ x}


def matvec(work: Matvec, given: argparse.Namespace) -> Case:
    """A matrix that is sparse all along, times a vector."""
    import torch

    import polydl

    ptr, idx, val = work.csr()
    x, y = np.random.default_rng(8).standard_normal(work.rows).astype(val.dtype), np.zeros(work.rows, val.dtype)
    text, sizes = PLAIN.format(work.type) + MATVEC, {"N": work.rows, "M": work.rows}
    kernel = polydl.compile(text, sizes, tune=not given.no_tune, threads=given.threads)
    arrays: dict[str, Any] = {"ptr": ptr, "idx": idx, "val": val, "x": x, "y": y}
    rows, columns, values = (torch.from_numpy(each) for each in (ptr, idx, val))
    csr = torch.sparse_csr_tensor(rows, columns, values, size=(work.rows, work.rows))
    vector = torch.from_numpy(x)
    operations = 2.0 * val.size
    peers = {"csr": lambda: csr @ vector, **of_scipy((val, idx, ptr), x, operations)}
    return Case(work.name, operations, kernel, arrays, peers, csr.double() @ vector.double())


def sampled(work: Sampled, given: argparse.Namespace) -> Case:
    """Products of rows at the entries of a pattern."""
    import torch

    import polydl

    ptr, idx, val = Matvec(work.rows, work.entries, "uniform").csr()
    rng = np.random.default_rng(8)
    a, b = (rng.standard_normal((work.rows, work.columns)).astype(np.float32) for _ in range(2))
    sizes = {"N": work.rows, "M": work.rows, "K": work.columns}
    kernel = polydl.compile(SAMPLED, sizes, tune=not given.no_tune, threads=given.threads)
    arrays: dict[str, Any] = {"ptr": ptr, "idx": idx, "val": val, "a": a, "b": b, "y": np.zeros_like(val)}
    rows, columns, values = (torch.from_numpy(each) for each in (ptr, idx, val))
    csr = torch.sparse_csr_tensor(rows, columns, values, size=(work.rows, work.rows))
    left, right = torch.from_numpy(a), torch.from_numpy(b)
    read_rows = support_library().read_rows
    read_rows.restype = ctypes.c_float
    lengths = (ctypes.c_long(len(idx)), ctypes.c_long(work.columns))
    peers = {
        "csr": lambda: torch.sparse.sampled_addmm(csr, left, right.T, beta=0.0),
        "gather": lambda: read_rows(ctypes.c_void_p(b.ctypes.data), ctypes.c_void_p(idx.ctypes.data), *lengths),
    }
    of = np.repeat(np.arange(work.rows), work.entries)
    exact = values.double() * (left[of].double() * right[columns.long()].double()).sum(1)
    return Case(work.name, 2.0 * len(idx) * work.columns, kernel, arrays, peers, exact)


def reads(arrays: Mapping[str, Any]) -> Callable[[], object]:
    """A sum over as many bytes."""
    data = np.ones(sum(array.nbytes for array in arrays.values()) // 4, np.float32)
    read_all = support_library().read_all
    return lambda: read_all(ctypes.c_void_p(data.ctypes.data), ctypes.c_long(data.size))


def of_scipy(matrix: Any, x: np.ndarray, operations: float) -> dict[str, Callable[[], object]]:
    """The product of scipy, where it is installed and does not take too long."""
    if importlib.util.find_spec("scipy") is None or operations > MOST_OF_SCIPY:
        return {}
    made = importlib.import_module("scipy.sparse").csr_matrix(matrix)
    return {"scipy": lambda: made @ x}


def row_of(case: Case, given: argparse.Namespace) -> Row:
    """A kernel of polydl beside its peers, whose result is held against the exact one. Raises SystemExit where several
    OpenMP runtimes are loaded."""
    import torch

    kernel, arrays = case.kernel, case.arrays
    kernel(*(arrays[p.name] for p in kernel.signature.parameters if p.is_array))
    result = torch.as_tensor(arrays["y"])
    error = difference([result.reshape(case.exact.shape)], [case.exact])
    if len(runtimes := openmp_runtimes()) > 1:
        sys.exit(f"several OpenMP runtimes are loaded, which spoils every timing: {', '.join(runtimes)}")
    if given.untimed:
        return Row(case.name, case.operations, {}, kernel.made.recipe, error)
    tensors = {key: torch.as_tensor(array) for key, array in arrays.items()}
    contenders = {"polydl": direct(kernel, tensors, given.threads), **case.peers, "read": reads(arrays)}
    times = timed(contenders, given.rounds, given.turn_seconds)
    factor = 0.5 if tensors["val"].dtype == torch.float64 else 1.0
    return Row(case.name, case.operations, times, kernel.made.recipe, error, factor * peak(case.factor) * 1e9)


@cache
def peak(factor: Product) -> float:
    """Of an inner product, or of FMAs on floats, GFLOP/s."""
    return peak_gflops(product=factor)


def table(rows: Sequence[Row]) -> str:
    """Markdown: over 1 is faster than the peer."""
    lines = [
        f"| rows x columns - pattern - block - density - columns | GFLOP/s | {' | '.join(PEERS)} | roofline | error |",
        f"|---|---:|{'---:|' * len(PEERS)}---:|---:|",
    ]
    for row in rows:
        rate = row.operations / statistics.median(row.times["polydl"]) * 1e-9
        ratios = " | ".join(f"{row.ratio(peer):.2f}" if peer in row.times else "" for peer in PEERS)
        roofline = "" if row.roofline is None else f"{row.roofline:.2f}"
        lines.append(f"| {row.name} | {rate:.1f} | {ratios} | {roofline} | {row.error:.0e} |")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Bar:
    """What rows are to reach."""

    title: str
    least: float
    of: Callable[[Row], float | None]
    """What is to reach it; None: the row is none of these."""


def _ratio(peer: str) -> Callable[[Row], float | None]:
    return lambda row: row.ratio(peer) if peer in row.times else None


def _of_matvec(peer: str) -> Callable[[Row], float | None]:
    return lambda row: row.ratio(peer) if row.name.startswith("matvec") else None


def _of_product(pattern: str, least_block: int, value: Callable[[Row], float | None]) -> Callable[[Row], float | None]:
    """A value of the products whose density and columns, `{density}-{columns}`, fit."""

    def of(row: Row) -> float | None:
        found = re.match(r"\d+x\d+-[a-z]+-(\d+)-([\d.]+-\d+)(-|$)", row.name)
        fits = found is not None and int(found[1]) >= least_block and re.fullmatch(pattern, found[2])
        return value(row) if fits else None

    return of


BARS = (
    Bar("own dense, blocks of 8 or more, one column, 10 % to 99 % sparse", 1,
        _of_product(r"0\.\d+-1", 8, _ratio("own dense"))),
    Bar("own dense, blocks of 8 or more, more columns, 10 % to 99 % sparse", 1,
        _of_product(r"0\.\d+-\d{2,}", 8, _ratio("own dense"))),
    Bar("own dense, blocks of 8 or more, 90 % sparse", 6, _of_product(r"0\.1-\d+", 8, _ratio("own dense"))),
    Bar("torch BSR, blocks of 2 or more", 2, _of_product(r".*", 2, _ratio("bsr"))),
    Bar("roofline, blocks of 8 or more, 80 % sparse", 0.85, _of_product(r"0\.2-\d+", 8, lambda row: row.roofline)),
    Bar("a matrix times a vector: reading as many bytes", 0.85, _of_matvec("read")),
    Bar("a matrix times a vector: torch CSR", 1, _of_matvec("csr")),
    Bar("products at entries: reading the rows", 0.85, _ratio("gather")),
)  # fmt: skip


def bars(rows: Sequence[Row]) -> str:
    """Markdown: how many rows reach each bar, and the furthest from it."""
    lines = ["| of | bar | rows | reach it | median | least |", "|---|---:|---:|---:|---:|---|"]
    for bar in BARS:
        found = sorted((value, row.name) for row in rows if (value := bar.of(row)) is not None)
        if found:
            reached = sum(value >= bar.least for value, _ in found)
            middle = statistics.median(value for value, _ in found)
            worst = ", ".join(f"{value:.2f} {name}" for value, name in found[:4])
            lines.append(f"| {bar.title} | {bar.least} | {len(found)} | {reached} | {middle:.2f} | {worst} |")
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, required=True, metavar="FILE")
    options.add_argument("--only", action="append", metavar="NAME", help="a regular expression")
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--turn-seconds", type=float, default=0.01)
    options.add_argument("--seconds", type=float, default=float("inf"), help="begin no row after so many")
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
    works: dict[str, Callable[[], Case]] = {
        **{work.name: partial(matvec, work, given) for work in MATVECS},
        **{work.name: partial(sampled, work, given) for work in SAMPLES},
        **{work.name: partial(product, work, given) for work in WORKS},
    }
    begin = time.perf_counter()
    for name, work in works.items():
        if (given.only and not any(re.search(word, name) for word in given.only)) or (name in rows and not given.again):
            continue
        if time.perf_counter() - begin > given.seconds:
            print("out of time: run it again")
            break
        row = row_of(work(), given)
        if given.untimed:
            print(f"{row.name}: error {row.error:.0e}, {row.recipe}", flush=True)
            continue
        rows[name] = row
        document = {"machine": machine(), "commit": commit(), "threads": given.threads}
        document["rows"] = [asdict(r) for r in rows.values()]
        given.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
        print(table([row]).splitlines()[-1], flush=True)
    if not given.untimed:
        print(table(list(rows.values())), bars(list(rows.values())), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
