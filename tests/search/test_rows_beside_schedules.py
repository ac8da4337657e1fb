"""Rows of vectors are tried where schedules of their own promise more for each of the nests."""

from __future__ import annotations

from polydl.options import Options
from polydl.pipeline import load, rank, with_fused
from tests.programs.corpus import catalogue


def test_rows_start_from_loop_transforms_alone() -> None:
    """Every combination that was looked at had a schedule in it; a batch norm kept its loops, 5 times as slow."""
    entry = catalogue()["batchnorm"]
    values = {"B": 8, "C": 32, "H": 30}
    options = Options(machine="epyc-zen5", threads=2, space="small")
    (scop,) = load(entry.path, options, defines=entry.defines(values)).scops
    ranking = rank(scop, options=options)
    assert ranking.variants[0].scheduled
    assert len({v.id for v in ranking.variants}) == len(ranking)
    found = with_fused(ranking, options).variants
    nests = [part for part in found[0].parts if part.loops is not None]
    assert nests and all(part.rows is not None for part in nests if part.into is None)
