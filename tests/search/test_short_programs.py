"""Chosen by estimates alone: nothing slower than the program as it is written, and one thread for short programs."""

from __future__ import annotations

import pytest

import polydl
from polydl.options import Options

SMOOTHED = """
void smooth(const unsigned char x[{rows}][80], unsigned char out[{rows}][80])
{{
    for (int i = 0; i < {rows}; i++)
        for (int j = 1; j < 79; j++)
            out[i][j] = (x[i][j - 1] + 2 * x[i][j] + x[i][j + 1] + 2) >> 2;
}}
"""
SCALED = """
void scale(const float x[{n}], float y[{n}]) {{ for (int i = 0; i < {n}; i++) y[i] += 3 * x[i]; }}
"""
DOTS = """
void dots(const float a[{rows}][40], const float x[40], float y[{rows}])
{{
    for (int i = 0; i < {rows}; i++)
        for (int j = 0; j < 40; j++)
            y[i] += a[i][j] * x[j];
}}
"""


def text(program: str, threads: int) -> str:
    return polydl.optimize(program, options=Options(machine="epyc-zen3", threads=threads), run=False).text


def test_the_program_as_it_is_written_is_one_of_those_that_estimates_choose_from() -> None:
    """The order of its loops was turned around, four times as slow: nothing times the original."""
    (done,) = polydl.optimize(
        SMOOTHED.format(rows=80), options=Options(machine="epyc-zen3", threads=1), run=False
    ).scops
    assert done.chosen is not None and done.chosen.as_written
    assert done.chosen.score == min(v.score for v in done.ranking.variants if not v.without_its_rows)


@pytest.mark.parametrize(
    ("program", "short", "long"),
    [
        (SCALED, {"n": 1000}, {"n": 4000000}),
        (DOTS, {"rows": 40}, {"rows": 40000}),
        (SMOOTHED, {"rows": 8}, {"rows": 80000}),
    ],
)
def test_what_takes_less_time_than_starting_threads_has_one(
    program: str, short: dict[str, int], long: dict[str, int]
) -> None:
    """Where a loop could be parallel there was nothing else but the program as it is written."""
    assert "omp parallel" not in text(program.format(**short), 2)
    assert "omp parallel" in text(program.format(**long), 2)


def test_a_short_program_is_searched_as_for_one_thread() -> None:
    both, one = (
        polydl.optimize(DOTS.format(rows=40), options=Options(machine="epyc-zen3", threads=threads), run=False).scops[0]
        for threads in (2, 1)
    )
    assert both.chosen is not None and one.chosen is not None
    assert both.chosen.id == one.chosen.id and not both.chosen.as_written
