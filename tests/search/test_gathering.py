"""Programs that sum, find and count: what is tried first is parallel, and gathers in vectors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from polydl.options import Options
from polydl.pipeline import load, rank, with_fused
from tests.programs.corpus import catalogue

FOLDER = Path(__file__).parents[1] / "everyday"
OPTIONS = Options(space="small", machine="epyc-zen5", threads=2)


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("matvec", 2),
        ("row_extremes", 1),
        ("row_argmax", 1),
        ("row_argmin", 1),
        ("row_statistics", 1),
        ("row_norms", 1),
        ("masked_sum", 1),
        ("variance_two_passes", 2),
        ("softmax_plain", 3),
        ("squares_of_triangle", 4),
        ("best_window", 2),
        ("last_least", 3),
        ("inversions", 2),
        ("all_set", 2),
    ],
)
def test_the_first_choice(name: str, calls: int) -> None:
    entry = catalogue(FOLDER)[name]
    (scop,) = load(entry.path, options=OPTIONS, defines=entry.defines(entry.bench)).scops
    first = with_fused(rank(scop, options=OPTIONS), OPTIONS).variants[0]
    assert len(re.findall(r"polydl_row_\w+\(", first.region())) == calls, first.region()
    assert "#pragma omp parallel for" in first.region()


def test_what_is_rarely_better_is_looked_for_in_vectors() -> None:
    """Of `ok[i][j] && a[i][j] >= best` lanes ask for the second."""
    entry = catalogue(FOLDER)["last_of_best"]
    (scop,) = load(entry.path, options=OPTIONS, defines=entry.defines(entry.bench)).scops
    first = with_fused(rank(scop, options=OPTIONS), OPTIONS).variants[0]
    assert re.findall(r"polydl_changes_i32s_\w+\(", first.region()), first.region()


@pytest.mark.parametrize("name", ["inversions", "squares_of_triangle"])
def test_threads_take_pieces_of_triangles(name: str) -> None:
    entry = catalogue(FOLDER)[name]
    (scop,) = load(entry.path, options=OPTIONS, defines=entry.defines(entry.bench)).scops
    for variant in with_fused(rank(scop, options=OPTIONS), OPTIONS).variants[:3]:
        parallel = re.findall(r"omp parallel for[^\n]*", variant.region())
        assert "schedule(dynamic" in parallel[0], variant.loops
