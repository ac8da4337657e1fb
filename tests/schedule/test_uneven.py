"""Loops whose iterations are not alike: what the busiest thread has, and what is done about it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

import polydl
from polydl import pipeline
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.schedule.loops import Loop, start
from polydl.schedule.uneven import shares as shares_of

LOWER = "for (int i = 0; i < {n}; i++) for (int j = 0; j <= i; j++) x[i] = x[i] + a[i][j];"
UPPER = "for (int i = 0; i < {n}; i++) for (int j = i; j < {n}; j++) x[i] = x[i] + a[i][j];"
FALLING = "for (int i = {n} - 1; i >= 0; i--) for (int j = 0; j <= i; j++) x[i] = x[i] + a[i][j];"
BAND = "for (int i = 2; i < {n}; i++) for (int j = i - 2; j <= i; j++) x[i] = x[i] + a[i][j];"
SQUARE = "for (int i = 0; i < {n}; i++) for (int j = 0; j < {n}; j++) x[i] = x[i] + a[i][j];"
INSTANCES: dict[str, Callable[[int, int], int]] = {
    LOWER: lambda i, n: i + 1,
    UPPER: lambda i, n: n - i,
    FALLING: lambda i, n: n - i,
    BAND: lambda i, n: 3,
    SQUARE: lambda i, n: n,
}
"""Of the i-th iteration that runs."""


def text(body: str, n: int) -> str:
    return f"void f(double x[{n}], double a[{n}][{n}]) {{\n#pragma scop\n{body.format(n=n)}\n#pragma endscop\n}}\n"


@pytest.mark.parametrize("body", INSTANCES)
@pytest.mark.parametrize(("n", "threads", "step"), [(100, 2, 1), (101, 8, 1), (100, 3, 7), (64, 64, 1)])
def test_the_busiest_thread_against_counting(body: str, n: int, threads: int, step: int) -> None:
    """Contiguous pieces of tiles, the first ones longer by one where they don't divide."""
    scop, _ = pipeline.scop_of(text(body, n), polydl.Options())
    (nest,) = nests(scop, dependences(scop, reads=False))
    count = n - 2 if body is BAND else n
    sizes = [INSTANCES[body](i, n) for i in range(count)]
    tiles = [sum(sizes[at : at + step]) for at in range(0, count, step)]
    whole, more = divmod(len(tiles), threads)
    ends = [thread * whole + min(thread, more) for thread in range(threads + 1)]
    shares = [sum(tiles[low:high]) for low, high in itertools.pairwise(ends)]
    known = threads <= len(tiles) and not nest.box
    expected = [share * threads / sum(shares) if known else 1.0 for share in shares]
    assert shares_of(nest, Loop("i", "i", step, None), threads) == pytest.approx(expected)


def test_what_is_not_known_is_even() -> None:
    (nest,) = pipeline.rank(text(LOWER, 100), "small", "epyc-zen5", threads=2).nests
    assert shares_of(nest, Loop("i.1", "i", 1, 10), 2) == (1.0,) * 2
    assert shares_of(nest, start(nest).loops[0], 1) == (1.0,)
    assert shares_of(nest, start(nest).loops[0], 101) == (1.0,) * 101


TRIANGLE = """
void f(double c[200][200], double a[200][200], double b[200][200]) {
#pragma scop
  for (int i = 0; i < 200; i++)
    for (int j = 0; j <= i; j++)
      for (int k = 0; k < 200; k++)
        c[i][j] += a[i][k] * b[k][j];
#pragma endscop
}
"""


def test_triangles_are_shared_out_as_threads_are_ready() -> None:
    ranking = pipeline.rank(TRIANGLE, "default", "epyc-zen5", threads=2)
    made = [
        s
        for v in ranking
        for s in v.structures
        if len(s.parallel) == 1 and not s.grid and s.loop(s.parallel[0]).within is None
    ]
    uneven = [s for s in made if s.loop(s.parallel[0]).iterator == "i"]
    assert uneven
    for structure in made:
        share = max(shares_of(structure.nest, structure.loop(structure.parallel[0]), 2))
        assert structure.omp_schedule.startswith(("dynamic,", "guided,")) == (share >= 1.1)
    square = TRIANGLE.replace("j <= i", "j < 200")
    assert not any(
        "dynamic" in s.omp_schedule
        for v in pipeline.rank(square, "small", "epyc-zen5", threads=2)
        for s in v.structures
    )


@pytest.mark.parametrize(("columns", "guided"), [("j <= i", True), ("j < 200 - i", False)])
def test_guided_where_the_long_rows_come_last(columns: str, guided: bool) -> None:
    """Its first piece is a thread's share of the iterations: more than a thread's share of the work, where these are
    the long ones."""
    ranking = pipeline.rank(TRIANGLE.replace("j <= i", columns), "small", "epyc-zen5", threads=2)
    clauses = {s.omp_schedule.partition(",")[0] for v in ranking for s in v.structures}
    assert "dynamic" in clauses
    assert ("guided" in clauses) == guided


def test_the_loop_string_says_it_and_names_the_variant() -> None:
    ranking = pipeline.rank(TRIANGLE, "small", "epyc-zen5", threads=2)
    variant = next(v for v in ranking if any("dynamic" in s.omp_schedule for s in v.structures))
    ((strings),) = (
        polydl.explain(TRIANGLE, [variant.id], polydl.Options(space="small", machine="epyc-zen5", threads=2))
        .variants[0]
        .loop_strings()
        .values()
    )
    assert "@schedule(dynamic," in strings["loops"]
    again = pipeline.rank(
        TRIANGLE,
        options=polydl.Options(
            space="small", machine="epyc-zen5", threads=2, loops=strings["loops"], blocks=strings["blocks"]
        ),
    )
    assert again.variants[0].id == variant.id
    assert "schedule(dynamic," in variant.generated.region
