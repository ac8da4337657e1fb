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


def test_rows_that_save_instructions_are_tried_where_memory_hides_them_by_estimate() -> None:
    """What a microkernel leaves of a triangle took half of the time as loops, and nothing by estimate: of syr2k's
    tiles of 192, rows were not tried."""
    entry = catalogue()["syr2k"]
    options = Options(machine="epyc-zen4", threads=2)
    (scop,) = load(entry.path, options, defines=entry.defines(entry.bench)).scops
    found = with_fused(rank(scop, options=options), options).variants
    rows = [v for v in found if any(part.how is not None and part.rows for part in v.parts)]
    kernels = [v for v in rows if "microkernel" in v.loops]
    assert kernels, [v.loops for v in found[:8]]
