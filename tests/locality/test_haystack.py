"""The programs that HayStack publishes its counts for, against an emulation of their loops.

https://github.com/spcl/haystack at 0753e07 (Gysi, Grosser, Brandner, Hoefler, PLDI 2019): the programs of tests/inputs,
with the sizes and caches of tests/*Test.cpp, which hold HayStack's counts to those of an emulator (tests/CacheEmulator)
that is fed with the lines that each statement touches, in its order; and those of examples/, whose counts follow by
hand. The emulator here does the same, written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from polydl import Options, pipeline
from polydl.locality.lines import line_trace
from polydl.locality.lru_misses import analytic, misses
from polydl.model.counting import ZERO, Count, total
from polydl.schedule.timed import original_nest

LINE = 4
"""Elements of a line: 16 bytes of float."""

Run = Iterator[tuple[str, list[tuple[str, tuple[int, ...]]]]]
"""Statements one after the other, each with (array, subscripts) in the order in which it touches them."""


def blink(N1: int, N2: int) -> Run:
    for _ in range(4):
        for statement in ("S0", "S1"):
            for i in range(N1):
                for j in range(N2):
                    yield statement, [("A", (i, j))]


def cholesky(N: int) -> Run:
    for i in range(N):
        for j in range(i):
            for k in range(j):
                yield "S0", [("A", (i, j)), ("A", (i, k)), ("A", (j, k)), ("A", (i, j))]
            yield "S1", [("A", (i, j)), ("A", (j, j)), ("A", (i, j))]
        for k in range(i):
            yield "S2", [("A", (i, i)), ("A", (i, k)), ("A", (i, k)), ("A", (i, i))]
        yield "S3", [("A", (i, i)), ("A", (i, i))]


def copy(N1: int, N2: int, N3: int) -> Run:
    points = [(i, j, k) for i in range(N1) for j in range(N2) for k in range(N3)]
    for i, j, k in points:
        yield "S0", [("A", (i, j, k)), ("T", (k, j, i))]
    for i, j, k in points:
        yield "S1", [("T", (k, j, i)), ("B", (i, j, k))]


def multiplication(N1: int, N2: int, N3: int) -> Run:
    for i in range(N1):
        for j in range(N2):
            yield "S0", [("C", (i, j)), ("C", (i, j))]
        for k in range(N3):
            for j in range(N2):
                yield "S1", [("C", (i, j)), ("A", (i, k)), ("B", (k, j)), ("C", (i, j))]


def stencil(N1: int, N2: int) -> Run:
    for _ in range(N1):
        for statement, read, written in (("S0", "A", "B"), ("S1", "B", "A")):
            for i in range(1, N2 - 1):
                for j in range(1, N2 - 1):
                    places = [(i, j), (i, j - 1), (i, j + 1), (i + 1, j), (i - 1, j)]
                    yield statement, [*((read, place) for place in places), (written, (i, j))]


def toy(N: int) -> Run:
    for i in range(N):
        yield "S0", [("A", (i,))]
        yield "S1", [("A", (N - 1 - i,))]
        if i < N // 2:
            yield "S2", [("A", (2 * i,))]


PROGRAMS = {
    "blink": """
float A[N1][N2];
for (int t = 0; t < 4; ++t) {
  for (int i = 0; i < N1; i++)
    for (int j = 0; j < N2; j++)
      A[i][j] = 0.0;
  for (int i = 0; i < N1; i++)
    for (int j = 0; j < N2; j++)
      A[i][j] = 1.0;
}""",
    "cholesky": """
float A[N][N];
for (int i = 0; i < N; i++) {
  for (int j = 0; j < i; j++) {
    for (int k = 0; k < j; k++)
      A[i][j] = A[i][j] - A[i][k] * A[j][k];
    A[i][j] = A[i][j] / A[j][j];
  }
  for (int k = 0; k < i; k++)
    A[i][i] = A[i][i] - A[i][k] * A[i][k];
  A[i][i] = A[i][i] * 0.5f;
}""",
    "copy": """
float A[N1][N2][N3]; float B[N1][N2][N3]; float T[N3][N2][N1];
for (int i = 0; i < N1; i++)
  for (int j = 0; j < N2; j++)
    for (int k = 0; k < N3; k++)
      T[k][j][i] = A[i][j][k];
for (int i = 0; i < N1; i++)
  for (int j = 0; j < N2; j++)
    for (int k = 0; k < N3; k++)
      B[i][j][k] = T[k][j][i];""",
    "multiplication": """
float A[N1][N3]; float B[N3][N2]; float C[N1][N2]; float alpha, beta;
for (int i = 0; i < N1; i++) {
  for (int j = 0; j < N2; j++)
    C[i][j] = C[i][j] * beta;
  for (int k = 0; k < N3; k++)
    for (int j = 0; j < N2; j++)
      C[i][j] = C[i][j] + alpha * A[i][k] * B[k][j];
}""",
    "stencil": """
float A[N2][N2]; float B[N2][N2];
for (int t = 0; t < N1; t++) {
  for (int i = 1; i < N2 - 1; i++)
    for (int j = 1; j < N2 - 1; j++)
      B[i][j] = 0.2 * (A[i][j] + A[i][j - 1] + A[i][1 + j] + A[1 + i][j] + A[i - 1][j]);
  for (int i = 1; i < N2 - 1; i++)
    for (int j = 1; j < N2 - 1; j++)
      A[i][j] = 0.2 * (B[i][j] + B[i][j - 1] + B[i][1 + j] + B[1 + i][j] + B[i - 1][j]);
}""",
    "toy": """
float A[N];
for (int i = 0; i < N; i++) {
  A[i] = 0;
  A[N - 1 - i] = 1;
  if (i < N / 2)
    A[2 * i] = 2;
}""",
}
"""tests/inputs: declarations in the first line. `x op= y` is spelled `x = x op y`, which is the order of HayStack."""

RUNS: list[tuple[Callable[..., Run], int, dict[str, int]]] = [
    (blink, 64, {"N1": 32, "N2": 16}),
    (blink, 64, {"N1": 33, "N2": 11}),
    (cholesky, 64, {"N": 32}),
    (cholesky, 64, {"N": 33}),
    (copy, 64, {"N1": 32, "N2": 16, "N3": 8}),
    (copy, 64, {"N1": 11, "N2": 22, "N3": 33}),
    (multiplication, 64, {"N1": 32, "N2": 16, "N3": 24}),
    (multiplication, 64, {"N1": 33, "N2": 11, "N3": 22}),
    (stencil, 64, {"N1": 2, "N2": 32}),
    (stencil, 64, {"N1": 2, "N2": 33}),
    (toy, 16, {"N": 128}),
    (toy, 16, {"N": 177}),
]
"""Loops, lines of the cache, sizes: those of tests/*Test.cpp."""


def emulated(run: Run, lines: int) -> dict[tuple[str, str], list[int]]:
    """By statement and array: accesses, compulsory misses, capacity misses."""
    order: dict[tuple[object, ...], None] = {}
    found: dict[tuple[str, str], list[int]] = {}
    for statement, touched in run:
        for array, subscripts in touched:
            line = (array, *subscripts[:-1], subscripts[-1] // LINE)
            counts = found.setdefault((statement, array), [0, 0, 0])
            first = line not in order
            left = not first and line not in islice(reversed(order), lines)
            order.pop(line, None)
            order[line] = None  # the line touched last stands last
            for place, more in enumerate((1, first, left)):
                counts[place] += more
    return found


@pytest.mark.parametrize(
    ("loops", "lines", "sizes"),
    RUNS,
    ids=[f"{loops.__name__}-{'-'.join(map(str, s.values()))}" for loops, _, s in RUNS],
)
def test_the_programs_of_its_tests(
    tmp_path: Path, loops: Callable[..., Run], lines: int, sizes: dict[str, int]
) -> None:
    declared, text = PROGRAMS[loops.__name__].strip().split("\n", 1)
    source = tmp_path / "program.c"
    source.write_text(f"{declared}\nvoid f(void) {{\n#pragma scop\n{text}\n#pragma endscop\n}}\n", encoding="utf-8")
    scop = pipeline.only_scop(pipeline.load(source, Options(defines=dict(sizes))))
    nest = original_nest(scop)
    trace = line_trace(nest, 16)
    expected = emulated(loops(**sizes), lines)
    # The lines of a triangle's rows are no affine number: `analytic` has bounds, `misses` counts them one by one.
    exact, operations = loops is not cholesky, 20_000_000 if loops is not cholesky else 100_000
    ways = (misses(trace, [lines], operations), True), (analytic(trace, [lines], operations), exact)
    for numbers, sure in ways:
        found: dict[tuple[str, str], list[Count]] = {}
        for access, one in zip(nest.accesses, numbers, strict=True):
            counts = found.setdefault((access.statement, access.array), [ZERO, ZERO, ZERO])
            found[access.statement, access.array] = [
                a + b for a, b in zip(counts, (one.accesses, one.compulsory, one.capacity[0]), strict=True)
            ]
        arrays = {key: counts for key, counts in found.items() if scop.arrays[key[1]].extents}
        assert arrays.keys() == expected.keys()
        for key, counts in arrays.items():
            assert all(a.lower <= b <= a.upper for a, b in zip(counts, expected[key], strict=True))
            assert all(size.exact for size in counts) or not sure


GEMM_TILED = """
float A[1024][1024], B[1024][1024], C[1024][1024]; float alpha, beta;
for (int i = 0; i < 1024 / 32; i++)
  for (int j = 0; j < 1024 / 32; j++) {
    for (int ii = i * 32; ii < i * 32 + 32; ii++)
      for (int jj = j * 32; jj < j * 32 + 32; jj++)
        C[ii][jj] *= beta;
    for (int k = 0; k < 1024 / 32; k++)
      for (int ii = i * 32; ii < i * 32 + 32; ii++)
        for (int kk = k * 32; kk < k * 32 + 32; kk++)
          for (int jj = j * 32; jj < j * 32 + 32; jj++)
            C[ii][jj] += alpha * A[ii][kk] * B[kk][jj];
  }
"""
TRANSPOSE = """
float A[1024][1024], B[1024][1024];
for (int i = 0; i < 1024; i++)
  for (int j = 0; j < 1024; j++)
    B[i][j] = A[j][i];
"""
TRANSPOSE_TILED = """
float A[1024][1024], B[1024][1024];
for (int i = 0; i < 1024 / 256; i++)
  for (int j = 0; j < 1024 / 256; j++)
    for (int ii = i * 256; ii < i * 256 + 256; ii++)
      for (int jj = j * 256; jj < j * 256 + 256; jj++)
        B[ii][jj] = A[jj][ii];
"""
ROW, BLOCKS = 64, 32
"""Lines of a row of 1024 floats; blocks of 32 in a row."""


@pytest.mark.parametrize(
    ("text", "compulsory", "capacity"),
    [
        # Of A and of B one block after the other, 64 lines each, misses in 512 lines but for its first time: A's row of
        # blocks once for each j, B's block once for each i. A block of C stays.
        (GEMM_TILED, 3 * 1024 * ROW, (2 * (BLOCKS - 1) * 1024 * ROW, (BLOCKS - 1) * 1024 * ROW)),
        # Columns of A: 1024 lines are more than 512 and fewer than 8192.
        (TRANSPOSE, 2 * 1024 * ROW, (15 * 1024 * ROW, 0)),
        # Columns of 256 lines, and the line of B: all of them stay.
        (TRANSPOSE_TILED, 2 * 1024 * ROW, (0, 0)),
    ],
    ids=["gemm.tiled", "transpose", "transpose.tiled"],
)
def test_the_examples(tmp_path: Path, text: str, compulsory: int, capacity: tuple[int, int]) -> None:
    """examples/ with HayStack's caches, 32 KiB and 512 KiB with lines of 64 bytes; gemm.c and the figures of the README
    are in tests/cli/test_misses.py."""
    declared, loops = text.strip().split("\n", 1)
    source = tmp_path / "program.c"
    source.write_text(f"{declared}\nvoid f(void) {{\n#pragma scop\n{loops}\n#pragma endscop\n}}\n", encoding="utf-8")
    scop = pipeline.only_scop(pipeline.load(source, Options()))
    nest = original_nest(scop)
    arrays = tuple(a for a in nest.accesses if scop.arrays[a.array].extents)
    found = analytic(line_trace(replace(nest, accesses=arrays), 64), [512, 8192])
    assert total(one.compulsory for one in found).value == compulsory
    assert tuple(total(one.capacity[level] for one in found).value for level in range(2)) == capacity
