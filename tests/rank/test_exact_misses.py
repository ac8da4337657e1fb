"""`misses`: what it counts against simulations of the same structures, and what it makes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polydl import Options, pipeline
from polydl.locality.lines import line_trace
from polydl.locality.simulate import Cache, simulate
from polydl.rank.exact_misses import MissesRanker, of_thread
from polydl.rank.ranker import Scored
from polydl.rank.rankers import NAMES, QUICK, available
from polydl.schedule.as_tree import as_tree
from polydl.schedule.loops import NestLoops, Packed
from polydl.schedule.timed import timed
from polydl.target import preset
from tests.rank.test_cost import structures

TINY = preset("epyc-zen4")
TINY = replace(
    TINY, caches=tuple(replace(c, bytes=size) for c, size in zip(TINY.caches, (384, 1024, 4096), strict=True))
)
"""Caches of 6, 16 and 64 lines; the last is shared by eight cores."""

CASES = [
    ("matmul.c", {"M": "12", "N": "32", "K": "10"}),
    ("conv2d.c", {"GEMM_BLOCK": "16", "NOFM": "32", "NIFM": "32", "OFH": "3", "OFW": "2"}),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("file", "defines"), CASES)
def test_counts_are_those_of_simulations(file: str, defines: dict[str, str], threads: int) -> None:
    """Structure by structure, with kernels, tiles, orders and parallel loops, at every level."""
    scop, nest, sample = structures(file, defines, 6 if file == "matmul.c" else 2)
    scored = MissesRanker().rank(scop, nest, sample, TINY, threads)
    assert not scored.columns["inexact_counts"].any()
    for place, structure in enumerate(sample):
        run, active = of_thread(timed(scop, as_tree(structure)), structure, threads)
        assert active == (threads if structure.parallel else 1)
        lines = [c.bytes // min(active, c.shared_by_cores) // 64 for c in TINY.caches]
        found = simulate(line_trace(run, 64), [Cache(1, size) for size in lines])
        for cache, others in zip(TINY.caches, found.others, strict=True):
            counted = scored.columns[f"misses_of_L{cache.level}_lines"][place]
            assert counted == others.sum() + found.compulsory.sum()
    assert len(set(scored.scores.tolist())) > 1, "the sample tells structures apart"


def test_the_score_is_transfers_in_seconds() -> None:
    scop, nest, sample = structures(*CASES[0], 3)
    scored = MissesRanker().rank(scop, nest, sample, TINY, 1)
    behind = [*(TINY.cache_bandwidth(c, 1) for c in TINY.caches[1:]), TINY.memory_bandwidth(1)]
    misses = np.stack([scored.columns[f"misses_of_L{c.level}_lines"] for c in TINY.caches], axis=1)
    assert scored.scores == pytest.approx(misses @ (64 / np.array(behind)))


def test_few_operations_give_bounds() -> None:
    """And no hang: what is ranked by are upper bounds."""
    scop, nest, sample = structures(*CASES[0], 3)
    exact = MissesRanker().rank(scop, nest, sample, TINY, 1)
    bounded = MissesRanker(operations=300).rank(scop, nest, sample, TINY, 1)
    assert (bounded.columns["inexact_counts"] > 0).all()
    for name in (f"misses_of_L{c.level}_lines" for c in TINY.caches):
        assert (bounded.columns[name] >= exact.columns[name]).all()


def test_what_is_not_counted_costs_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Structures that differ in copies only are one."""
    scop, nest, (plain, *_) = structures(*CASES[0], 3)
    packed = replace(plain, packs=(Packed("B", ""),))
    seen: list[NestLoops] = []
    row = MissesRanker._row

    def noted(self: MissesRanker, *arguments: object) -> list[float]:
        seen.append(arguments[1])  # type: ignore[arg-type]
        return row(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(MissesRanker, "_row", noted)
    found: Scored = MissesRanker().rank(scop, nest, [plain, packed], TINY, 1)
    assert len(seen) == 1
    assert found.scores[0] == found.scores[1]


TRIANGLE = """
float A[200][200], x[200], y[200];
void f(void) {
#pragma scop
  for (int i = 0; i < 200; i++)
    for (int j = 0; j <= i; j++)
      y[j] = y[j] + A[i][j] * x[i];
#pragma endscop
}
"""


def test_other_nests_than_contractions_are_ranked(tmp_path: Path) -> None:
    """Rows of A along the inner loop come first: the other order misses at each element."""
    source = tmp_path / "triangle.c"
    source.write_text(TRIANGLE, encoding="utf-8")
    options = Options(machine="epyc-zen4", threads=1, space="small", ranker="misses")
    ranking = pipeline.rank(source, options=options)
    assert ranking.ranker == "misses"
    scored = [v for v in ranking.variants if "misses_score" in v.features]
    assert scored
    assert scored[0].features["misses_score"] == min(v.features["misses_score"] for v in scored)


def test_it_is_asked_only_by_name() -> None:
    assert "misses" in NAMES
    assert "misses" not in QUICK
    assert "misses" not in available()
