"""Speed of transposes and relayouts, against gcc -O3, torch, and a copy of as many bytes.

python experiments/transposes.py --keep DIR --build-only     # writes and compiles polydl's output
python experiments/transposes.py --keep DIR [--rows FILE] [--only NAME]

Every contender is called in turns in one process on the same data; a row is written as soon as it is measured. The
figures are medians of the ratios within a round: `copy` is memcpy of half of the bytes by each thread (of as many bytes
as are read and written together, halved, where an element's size changes), `gcc` the loops as they stand, by one
thread, `torch` a copy of a permuted view by all threads. Above 1: polydl is faster.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from native import keep_freed_memory, set_threads

THREADS = 2
set_threads(THREADS)

import numpy as np  # noqa: E402
import torch  # noqa: E402
from common import RowFile  # noqa: E402

import polydl  # noqa: E402

torch.set_num_threads(THREADS)
COPY = """\
#include <string.h>
#include <stddef.h>
void copy(char *restrict to, const char *restrict from, long bytes)
{
    #pragma omp parallel for
    for (int half = 0; half < 2; half++) {
        const size_t first = half ? (size_t)bytes / 128 * 64 : 0;
        memcpy(to + first, from + first, half ? (size_t)bytes - first : (size_t)bytes / 128 * 64);
    }
}
"""
FLAGS = ("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-w", "-x", "c")
Torch = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Program:
    """Loops over `to` and `from`."""

    name: str
    to: str
    """C type and extents."""
    source: str
    """The same of `from`; empty: in place."""
    loops: str
    """`i:N j:M` for two loops, and then statements."""
    sizes: Sequence[Mapping[str, int]]
    torch: Torch | None = None
    """What makes a view with the shape of `to` of `from`."""

    def text(self, sizes: Mapping[str, int]) -> str:
        """The C file."""
        defines = "".join(f"#define {name} {value}\n" for name, value in sizes.items())
        arrays = [(self.to, "to"), *([(f"const {self.source}", "from")] if self.source else [])]
        arguments = ", ".join(array.replace(" [", f" {name}[restrict ", 1) for array, name in arrays)
        heads, _, body = self.loops.partition(" {")
        loops = "".join(
            f"for (int {counter} = {first or 0}; {counter} < {end}; {counter}++)\n"
            for counter, end, first in ((*head.split(":"), "")[:3] for head in heads.split())
        )
        return f"#include <stdint.h>\n{defines}void run({arguments})\n{{\n{loops}{{{body}\n}}\n"

    def extents(self, array: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Of an array, in numbers."""
        shape = array.partition(" [")[2].rstrip("]")
        return tuple(eval(extent, {}, dict(sizes)) for extent in shape.replace("/", "//").split("]["))


def _two(*sizes: int) -> list[dict[str, int]]:
    return [{"N": n, "M": m} for n, m in zip(sizes[::2], sizes[1::2], strict=True)]


SQUARES = _two(64, 64, 192, 192, 1000, 700, 4096, 4096, 5003, 4001)
IMAGES = [{"B": n, "C": c, "H": s, "W": s} for n, c, s in ((1, 64, 14), (8, 64, 56), (3, 67, 37), (32, 256, 56))]
FRAMES = [{"H": 224, "W": 224}, {"H": 2160, "W": 3840}]
GROUPS = [{"K": 256, "N": 256}, {"K": 4096, "N": 4096}]
ORDERS = [{"N": 200}, {"N": 1000}, {"N": 4096}]


def _plain(kind: str, name: str = "") -> Program:
    body = "i:N j:M { to[j][i] = from[i][j]; }"
    return Program(name or kind, f"{kind} [M][N]", f"{kind} [N][M]", body, SQUARES, lambda x: x.T)


def _changed(name: str, kind: str, statement: str, view: Torch | None = None) -> Program:
    return Program(name, f"{kind} [M][N]", "float [N][M]", f"i:N j:M {{ {statement} }}", SQUARES[1:4], view)


PROGRAMS = (
    _plain("float"),
    _plain("double"),
    _plain("uint16_t", "u16"),
    _plain("uint8_t", "u8"),
    Program(
        "nchw_nhwc",
        "float [B][H][W][C]",
        "float [B][C][H][W]",
        "n:B c:C h:H w:W { to[n][h][w][c] = from[n][c][h][w]; }",
        IMAGES,
        lambda x: x.permute(0, 2, 3, 1),
    ),
    Program(
        "nhwc_nchw",
        "float [B][C][H][W]",
        "float [B][H][W][C]",
        "n:B c:C h:H w:W { to[n][c][h][w] = from[n][h][w][c]; }",
        IMAGES,
        lambda x: x.permute(0, 3, 1, 2),
    ),
    Program(
        "heads",
        "float [B][H][S][D]",
        "float [B][S][H][D]",
        "b:B h:H s:S d:D { to[b][h][s][d] = from[b][s][h][d]; }",
        [{"B": 1, "S": 64, "H": 4, "D": 64}, {"B": 16, "S": 197, "H": 12, "D": 64}],
        lambda x: x.permute(0, 2, 1, 3),
    ),
    Program(
        "batches",
        "float [B][D][S]",
        "float [B][S][D]",
        "b:B s:S d:D { to[b][d][s] = from[b][s][d]; }",
        [{"B": 12, "S": 197, "D": 64}, {"B": 300, "S": 197, "D": 64}],
        lambda x: x.permute(0, 2, 1),
    ),
    Program(
        "nchw16c",
        "float [B][C/16][H][W][16]",
        "float [B][C/16][16][H][W]",
        "n:B c:C/16 h:H w:W k:16 { to[n][c][h][w][k] = from[n][c][k][h][w]; }",
        IMAGES[:2],
        lambda x: x.permute(0, 1, 3, 4, 2),
    ),
    Program(
        "vnni2",
        "uint16_t [K/2][N][2]",
        "uint16_t [K/2][2][N]",
        "k:K/2 n:N t:2 { to[k][n][t] = from[k][t][n]; }",
        GROUPS,
        lambda x: x.permute(0, 2, 1),
    ),
    Program(
        "vnni4",
        "int8_t [K/4][N][4]",
        "int8_t [K/4][4][N]",
        "k:K/4 n:N t:4 { to[k][n][t] = from[k][t][n]; }",
        GROUPS,
        lambda x: x.permute(0, 2, 1),
    ),
    Program(
        "to_tensor",
        "float [3][H][W]",
        "uint8_t [H][W][3]",
        "c:3 h:H w:W { to[c][h][w] = from[h][w][c] * (1.0f / 255); }",
        FRAMES,
        lambda x: x.permute(2, 0, 1),
    ),
    Program(
        "planes",
        "uint8_t [3][H][W]",
        "uint8_t [H][W][3]",
        "h:H w:W c:3 { to[c][h][w] = from[h][w][c]; }",
        FRAMES,
        lambda x: x.permute(2, 0, 1),
    ),
    _changed("to_half", "_Float16", "to[j][i] = from[i][j];", lambda x: x.T),
    _changed("relu", "float", "to[j][i] = from[i][j] > 0 ? from[i][j] * 0.5f : 0;"),
    _changed("rotate", "float", "to[j][N - 1 - i] = from[i][j];", lambda x: torch.rot90(x, -1)),
    Program(
        "complex",
        "float [N][2]",
        "float [2][N]",
        "i:N { to[i][0] = from[0][i]; to[i][1] = from[1][i]; }",
        [{"N": 10000}, {"N": 10000000}],
        lambda x: x.T,
    ),
    Program(
        "in_place",
        "float [N][N]",
        "",
        "i:N j:N:i+1 { float t = to[i][j]; to[i][j] = to[j][i]; to[j][i] = t; }",
        ORDERS,
    ),
    Program("symmetric", "float [N][N]", "", "i:N j:i { to[j][i] = to[i][j]; }", ORDERS),
)
"""Loops as users write them."""

_DTYPES = {
    "float": np.float32,
    "double": np.float64,
    "uint16_t": np.uint16,
    "uint8_t": np.uint8,
    "int8_t": np.int8,
    "_Float16": np.float16,
}


def compiled(text: str, out: Path) -> ctypes.CDLL:
    """A C text as a shared object; compiled again only where the text differs."""
    source = out.with_suffix(".c")
    if not (out.exists() and source.exists() and source.read_text(encoding="utf-8") == text):
        source.write_text(text, encoding="utf-8")
        subprocess.run(["gcc", *FLAGS, str(source), "-o", str(out), "-lm"], check=True)
    return ctypes.CDLL(str(out))


def label(program: Program, sizes: Mapping[str, int]) -> str:
    """Name of a program at a size."""
    return "_".join([program.name, *map(str, sizes.values())])


def build(program: Program, sizes: Mapping[str, int], folder: Path) -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The original and polydl's output, whose text is made once."""
    name = label(program, sizes)
    source = folder / f"{name}_source.c"
    source.write_text(program.text(sizes), encoding="utf-8")
    output = folder / f"{name}_output.c"
    if not output.exists():
        polydl.optimize(source, output, run=False, threads=THREADS, top_k=1)
    return (
        compiled(program.text(sizes), folder / f"{name}_gcc.so"),
        compiled(output.read_text(encoding="utf-8"), folder / f"{name}_polydl.so"),
    )


def turns(contenders: dict[str, Callable[[], object]], seconds: float) -> dict[str, list[float]]:
    """Seconds per call of each contender, round by round."""
    calls = {}
    for name, call in contenders.items():
        call()
        begin = time.perf_counter()
        call()
        calls[name] = max(1, int(0.003 / max(1e-7, time.perf_counter() - begin)))
    times: dict[str, list[float]] = {name: [] for name in contenders}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["polydl"]) < 5:
        for name, call in contenders.items():
            call()
            begin = time.perf_counter()
            for _ in range(calls[name]):
                call()
            times[name].append((time.perf_counter() - begin) / calls[name])
    return times


def measured(program: Program, sizes: Mapping[str, int], folder: Path, seconds: float) -> dict[str, Any]:
    """A row. Raises SystemExit for a wrong result."""
    gcc, own = build(program, sizes, folder)
    copy = compiled(COPY, folder / "copy.so")
    rng = np.random.default_rng(0)
    least = -50 if program.name == "relu" else 0

    def made(array: str) -> Any:
        kind = _DTYPES[array.partition(" [")[0]]
        return rng.integers(least, 100, program.extents(array, sizes)).astype(kind)

    in_place = not program.source
    source, to = made(program.source or program.to), made(program.to)
    other = to.copy()

    def bound(library: ctypes.CDLL, out: Any) -> Callable[[], object]:
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in ([out] if in_place else [out, source])]
        return lambda: library.run(*pointers)

    own_call, gcc_call = bound(own, to), bound(gcc, other)
    own_call(), gcc_call()
    if not np.array_equal(to, other):
        sys.exit(f"{label(program, sizes)}: wrong at {np.argwhere(to != other)[:3].tolist()}")
    moved = (to.nbytes + source.nbytes) // 2
    if in_place:
        moved //= 2 if program.name == "symmetric" else 1
    room = [np.ones(moved + 64, dtype=np.uint8) for _ in range(2)]  # of zeros there would be one page for all
    ends = [r.ctypes.data + -r.ctypes.data % 64 for r in room]
    contenders = {
        "polydl": own_call,
        "copy": lambda: copy.copy(ctypes.c_void_p(ends[0]), ctypes.c_void_p(ends[1]), ctypes.c_long(moved)),
        "gcc": gcc_call,
    }
    if program.torch is not None:
        view, out = program.torch(torch.from_numpy(source)), torch.from_numpy(other)
        contenders["torch"] = lambda: out.copy_(view)
    times = turns(contenders, seconds)
    ratios = {
        name: statistics.median(b / a for a, b in zip(times["polydl"], each, strict=True))
        for name, each in times.items()
        if name != "polydl"
    }
    took = statistics.median(times["polydl"])
    return {"name": label(program, sizes), "us": f"{took * 1e6:.1f}", "GB/s": f"{2 * moved / took / 1e9:.1f}"} | {
        name: f"{ratios[name]:.2f}" if name in ratios else "" for name in ("copy", "gcc", "torch")
    }


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--keep", type=Path, required=True, metavar="DIR", help="where C and objects are kept")
    options.add_argument("--build-only", action="store_true")
    options.add_argument("--only", action="append", metavar="NAME", help="of a program, or of a program at a size")
    options.add_argument("--rows", type=Path, metavar="JSONL", help="where rows are added; those it has are not made")
    options.add_argument("--seconds", type=float, default=1.0, help="per program and size")
    given = options.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    keep_freed_memory()
    cases = [
        (program, sizes)
        for program in PROGRAMS
        for sizes in program.sizes
        if not given.only or program.name in given.only or label(program, sizes) in given.only
    ]
    if given.build_only:
        for program, sizes in cases:
            build(program, sizes, given.keep)
        return 0
    rows = RowFile(given.rows, ("name", "us", "GB/s", "copy", "gcc", "torch")) if given.rows else None
    known = {row["name"]: row for row in rows.rows()} if rows else {}
    for program, sizes in cases:
        row = known.get(label(program, sizes))
        if row is None:
            row = measured(program, sizes, given.keep, given.seconds)
            if rows:
                rows.add(row)
        print("{name:28} {us:>10} us {GB/s:>6} GB/s  copy {copy:>5}  gcc {gcc:>6}  torch {torch:>6}".format(**row))
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
