"""Traffic of loops along a space-filling curve."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from polydl import pipeline
from polydl.rank.curve_traffic import curve_factors
from polydl.schedule.notation import Written

MATMUL = Path(__file__).resolve().parents[2] / "examples" / "matmul.c"


def test_what_one_iteration_does_not_keep_comes_in_each() -> None:
    """Of three arrays, which both loops move, the first, and neither."""
    outside, between, inside = (np.array(sizes, float) for sizes in ([64, 64, 8], [8, 1, 8], [1, 1, 8]))
    assert curve_factors(outside, between, inside, 16.0, 64.0, 8.0, 512.0).tolist() == [512.0, 256.0, 1.0]
    assert curve_factors(outside, between, inside, 9.0, 64.0, 8.0, 512.0).tolist() == [512.0, 512.0, 512.0]


def test_tiles_as_large_as_the_matrix_gain_nothing() -> None:
    """Tiles of 504 of 512 columns, whose lines are all of B's lines: every row of blocks brings B, curve or not."""
    scop = pipeline.only_scop(pipeline.load(MATMUL, defines={"M": "512", "N": "512", "K": "512"}))
    written = [(Written(loops, "x"), Written("b=21;mk=4x24:c", "x")) for loops in ("ABb@hilbert", "Abb")]
    variants = pipeline.score(scop, written, machine="epyc-zen3", threads=2).variants
    curve, rows = (variant.estimate.counts["into_L1_bytes"] for variant in variants)
    assert 0.9 < curve / rows < 1.1
