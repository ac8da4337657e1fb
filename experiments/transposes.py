"""Speed of transposes and relayouts, against gcc -O3, torch, and a copy of as many bytes.

python experiments/transposes.py --keep DIR --build-only     # writes and compiles polydl's output
python experiments/transposes.py --keep DIR [--csv FILE] [--only NAME]

Every contender is called in turns in one process on the same data; a row is written as soon as it is measured. The
figures are medians of the ratios within a round: `copy` is memcpy of half of the bytes by each thread (of as many bytes
as are read and written together, halved, where an element's size changes), `gcc` the loops as they stand, by one
thread, `torch` a copy of a permuted view by all threads. Above 1: polydl is faster.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from native import keep_freed_memory, set_threads

THREADS = 2
set_threads(THREADS)

import numpy as np  # noqa: E402
import torch  # noqa: E402

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
    types: tuple[str, str]
    """Of `to` and of `from`, in C."""
    shapes: tuple[str, str]
    """Extents of both, as C."""
    loops: str
    sizes: Sequence[dict[str, int]]
    torch: Torch | None = None
    """What makes a view with the shape of `to` of `from`."""

    def text(self, sizes: dict[str, int]) -> str:
        defines = "".join(f"#define {name} {value}\n" for name, value in sizes.items())
        to, source = self.types
        first, second = (shape.replace("[", "[restrict ", 1) for shape in self.shapes)
        arguments = f"{to} to{first}, const {source} from{second}"
        if self.shapes[1] == "in place":
            arguments = f"{to} to{self.shapes[0]}"
        return f"#include <stdint.h>\n#include <math.h>\n{defines}void run({arguments})\n{{\n{self.loops}}}\n"

    def extents(self, which: int, sizes: dict[str, int]) -> tuple[int, ...]:
        shape = self.shapes[0] if self.shapes[which] == "in place" else self.shapes[which]
        return tuple(eval(e, {}, dict(sizes)) for e in shape.replace("/", "//").strip("[]").split("]["))


def _two(n: int, m: int) -> dict[str, int]:
    return {"N": n, "M": m}


PLAIN = "for (int i = 0; i < N; i++)\n for (int j = 0; j < M; j++)\n  "
SQUARES = [_two(64, 64), _two(192, 192), _two(1000, 700), _two(4096, 4096), _two(5003, 4001)]


def _plain(name: str, kind: str, sizes: Sequence[dict[str, int]]) -> Program:
    return Program(name, (kind, kind), ("[M][N]", "[N][M]"), f"{PLAIN}to[j][i] = from[i][j];\n", sizes, lambda x: x.T)


def _images(c: int, s: int, n: int) -> dict[str, int]:
    return {"B": n, "C": c, "H": s, "W": s}


IMAGES = [_images(64, 14, 1), _images(64, 56, 8), _images(67, 37, 3), _images(256, 56, 32)]
FOUR = "for (int n = 0; n < B; n++)\n for (int c = 0; c < C; c++)\n  for (int h = 0; h < H; h++)\n   for (int w = 0; w < W; w++)\n    "

PROGRAMS = (
    _plain("float", "float", SQUARES),
    _plain("double", "double", SQUARES),
    _plain("u16", "uint16_t", SQUARES),
    _plain("u8", "uint8_t", SQUARES),
    Program("nchw_nhwc", ("float", "float"), ("[B][H][W][C]", "[B][C][H][W]"), f"{FOUR}to[n][h][w][c] = from[n][c][h][w];\n", IMAGES, lambda x: x.permute(0, 2, 3, 1)),
    Program("nhwc_nchw", ("float", "float"), ("[B][C][H][W]", "[B][H][W][C]"), f"{FOUR}to[n][c][h][w] = from[n][h][w][c];\n", IMAGES, lambda x: x.permute(0, 3, 1, 2)),
    Program("heads", ("float", "float"), ("[B][H][S][D]", "[B][S][H][D]"),
            "for (int b = 0; b < B; b++)\n for (int h = 0; h < H; h++)\n  for (int s = 0; s < S; s++)\n   for (int d = 0; d < D; d++)\n    to[b][h][s][d] = from[b][s][h][d];\n",
            [{"B": 1, "S": 64, "H": 4, "D": 64}, {"B": 16, "S": 197, "H": 12, "D": 64}], lambda x: x.permute(0, 2, 1, 3)),
    Program("batches", ("float", "float"), ("[B][D][S]", "[B][S][D]"),
            "for (int b = 0; b < B; b++)\n for (int s = 0; s < S; s++)\n  for (int d = 0; d < D; d++)\n   to[b][d][s] = from[b][s][d];\n",
            [{"B": 12, "S": 197, "D": 64}, {"B": 300, "S": 197, "D": 64}], lambda x: x.permute(0, 2, 1)),
    Program("nchw16c", ("float", "float"), ("[B][C/16][H][W][16]", "[B][C/16][16][H][W]"),
            "for (int n = 0; n < B; n++)\n for (int c = 0; c < C / 16; c++)\n  for (int h = 0; h < H; h++)\n   for (int w = 0; w < W; w++)\n    for (int k = 0; k < 16; k++)\n     to[n][c][h][w][k] = from[n][c][k][h][w];\n",
            [_images(64, 14, 1), _images(64, 56, 8)], lambda x: x.permute(0, 1, 3, 4, 2)),
    Program("vnni2", ("uint16_t", "uint16_t"), ("[K/2][N][2]", "[K/2][2][N]"),
            "for (int k = 0; k < K / 2; k++)\n for (int n = 0; n < N; n++)\n  for (int t = 0; t < 2; t++)\n   to[k][n][t] = from[k][t][n];\n",
            [{"K": 256, "N": 256}, {"K": 4096, "N": 4096}], lambda x: x.permute(0, 2, 1)),
    Program("vnni4", ("int8_t", "int8_t"), ("[K/4][N][4]", "[K/4][4][N]"),
            "for (int k = 0; k < K / 4; k++)\n for (int n = 0; n < N; n++)\n  for (int t = 0; t < 4; t++)\n   to[k][n][t] = from[k][t][n];\n",
            [{"K": 256, "N": 256}, {"K": 4096, "N": 4096}], lambda x: x.permute(0, 2, 1)),
    Program("to_tensor", ("float", "uint8_t"), ("[3][H][W]", "[H][W][3]"),
            "for (int c = 0; c < 3; c++)\n for (int h = 0; h < H; h++)\n  for (int w = 0; w < W; w++)\n   to[c][h][w] = from[h][w][c] * (1.0f / 255);\n",
            [{"H": 224, "W": 224}, {"H": 2160, "W": 3840}], lambda x: x.permute(2, 0, 1)),
    Program("planes", ("uint8_t", "uint8_t"), ("[3][H][W]", "[H][W][3]"),
            "for (int h = 0; h < H; h++)\n for (int w = 0; w < W; w++)\n  for (int c = 0; c < 3; c++)\n   to[c][h][w] = from[h][w][c];\n",
            [{"H": 224, "W": 224}, {"H": 2160, "W": 3840}], lambda x: x.permute(2, 0, 1)),
    Program("to_half", ("_Float16", "float"), ("[M][N]", "[N][M]"), f"{PLAIN}to[j][i] = from[i][j];\n", SQUARES[1:4], lambda x: x.T),
    Program("relu", ("float", "float"), ("[M][N]", "[N][M]"), f"{PLAIN}to[j][i] = from[i][j] > 0 ? from[i][j] * 0.5f : 0;\n", SQUARES[1:4]),
    Program("rotate", ("float", "float"), ("[M][N]", "[N][M]"), f"{PLAIN}to[j][N - 1 - i] = from[i][j];\n", SQUARES[1:4], lambda x: torch.rot90(x, -1)),
    Program("complex", ("float", "float"), ("[N][2]", "[2][N]"),
            "for (int i = 0; i < N; i++) {\n to[i][0] = from[0][i];\n to[i][1] = from[1][i];\n}\n", [{"N": 10000}, {"N": 10000000}], lambda x: x.T),
    Program("in_place", ("float", "float"), ("[N][N]", "in place"),
            "for (int i = 0; i < N; i++)\n for (int j = i + 1; j < N; j++) {\n  float t = to[i][j];\n  to[i][j] = to[j][i];\n  to[j][i] = t;\n }\n", [{"N": 200}, {"N": 1000}, {"N": 4096}]),
    Program("symmetric", ("float", "float"), ("[N][N]", "in place"),
            "for (int i = 0; i < N; i++)\n for (int j = 0; j < i; j++)\n  to[j][i] = to[i][j];\n", [{"N": 200}, {"N": 1000}, {"N": 4096}]),
)  # fmt: skip
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


def label(program: Program, sizes: dict[str, int]) -> str:
    """Name of a program at a size."""
    return "_".join([program.name, *map(str, sizes.values())])


def build(program: Program, sizes: dict[str, int], folder: Path) -> tuple[ctypes.CDLL, ctypes.CDLL]:
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


def measured(program: Program, sizes: dict[str, int], folder: Path, seconds: float) -> dict[str, Any]:
    """A row. Raises SystemExit for a wrong result."""
    gcc, own = build(program, sizes, folder)
    copy = compiled(COPY, folder / "copy.so")
    rng = np.random.default_rng(0)
    source, to = (
        (rng.integers(0, 100, program.extents(which, sizes)) - (50 if program.name == "relu" else 0)).astype(_DTYPES[program.types[which]])
        for which in (1, 0)
    )  # fmt: skip
    other = to.copy()
    in_place = program.shapes[1] == "in place"

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
    options.add_argument("--csv", type=Path, metavar="FILE")
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
    file = open(given.csv, "w", newline="", encoding="utf-8") if given.csv else open(os.devnull, "w", encoding="utf-8")
    with file:
        rows = csv.DictWriter(file, ("name", "us", "GB/s", "copy", "gcc", "torch"))
        rows.writeheader()
        for program, sizes in cases:
            row = measured(program, sizes, given.keep, given.seconds)
            rows.writerow(row)
            file.flush()
            print(
                "{name:28} {us:>10} us {GB/s:>6} GB/s  copy {copy:>5}  gcc {gcc:>6}  torch {torch:>6}".format(**row),
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
