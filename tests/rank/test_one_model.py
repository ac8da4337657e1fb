"""The batched estimate of structures and the one of trees are the same model."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from polydl import pipeline
from polydl.dependences.analysis import dependences
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import nests
from polydl.frontend import load
from polydl.rank.block_shapes import register_blocks_for
from polydl.rank.estimator import Estimator
from polydl.rank.traffic import TrafficRanker, resources_of
from polydl.rank.tree_estimate import footprints_of, tree_estimate
from polydl.rank.whole import program_estimate
from polydl.schedule.as_tree import as_tree
from polydl.schedule.limits import SPACES, Limits
from polydl.search.combine import NestChoice, whole
from polydl.search.space import legal_structures
from polydl.target import preset
from tests.programs.corpus import catalogue
from tests.rank.test_cost import EXAMPLES, SMALL

ZEN3 = preset("epyc-zen3")

PLAIN = """
void stencil(int n, double a[n][n], double b[n][n])
{
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            a[i][j] = b[i][j] + b[i - 1][j] + b[i + 1][j] + b[i][j - 1] + b[i][j + 1];
}
"""
TRIANGLE = """
void triangle(int n, double a[n][n], double b[n][n], double c[n][n])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            for (int k = 0; k < n; k++)
                c[i][j] += a[i][k] * b[k][j];
}
"""
TRANSPOSED = """
void transposed(int n, float a[n][n], float s[n])
{
    for (int j = 0; j < n; j += 2)
        for (int i = 0; i < n; i++)
            s[j] += a[i][j] * a[j][i];
}
"""
TWO = """
void two(int n, double a[n][n], double b[n][n], double c[n][n])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            a[i][j] = b[i][j] + c[j][i];
            b[i][j] = a[i][j] * 2 + b[i][j];
        }
}
"""


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        (EXAMPLES / "matmul.c", {"M": "60", "N": "64", "K": "40"}),
        (EXAMPLES / "matmul.c", {"M": "1024", "N": "1024", "K": "1024"}),
        (EXAMPLES / "conv2d.c", {"NOFM": "128", "NIFM": "128", "OFH": "7", "OFW": "14"}),
        (PLAIN, {"n": 300}),
        (TRIANGLE, {"n": 300}),
        (TRANSPOSED, {"n": 500}),
        (TWO, {"n": 500}),
    ],
)
def test_structures_by_either_way(
    tmp_path: Path, source: Path | str, sizes: dict[str, str | int], threads: int
) -> None:
    if isinstance(source, str):
        (tmp_path / "in.c").write_text(source)
        (scop,) = load(tmp_path / "in.c", sizes={k: int(v) for k, v in sizes.items()}).scops
    else:
        (scop,) = load(source, defines={k: str(v) for k, v in sizes.items()}).scops
    found = dependences(scop, reads=False)
    nest = max(nests(scop, found), key=lambda n: len(n.loops))
    footprints = footprints_of(scop, nest.statements)
    for machine in (ZEN3, SMALL):
        blocks = register_blocks_for(machine)
        legality = nest_legality(nest, found)
        every = list(legal_structures(Limits(nest, legality, SPACES["default"], blocks, threads)))
        some = random.Random(1).sample(every, min(40, len(every)))
        batch = resources_of(scop, nest, some, machine, threads).estimates(machine, threads).each()
        for number, structure in enumerate(some):
            one = tree_estimate(footprints, as_tree(structure), machine, threads)
            assert one.seconds == pytest.approx(batch[number].seconds, rel=1e-6, abs=1e-18), structure.loops
            assert one.counts == pytest.approx(batch[number].counts, rel=1e-6), structure.loops


def test_parts_of_any_kind_add_up(tmp_path: Path) -> None:
    """Nests, and regions with a schedule of their own: the parts' estimates are the variant's."""
    entry = catalogue()["trmm"]
    values = entry.sizes[1]
    ranking = pipeline.rank(
        entry.path, "small", ZEN3, defines=entry.defines(values), sizes=entry.parameters(values), threads=2
    )
    estimator = Estimator(ranking.scop, ranking.nests, ZEN3, 2, TrafficRanker())
    trees = [v for v in ranking if v.scheduled]
    assert trees and len(trees) < len(ranking)
    for variant in (*trees[:5], *(v for v in ranking if not v.scheduled)):
        made = whole(variant.origin, NestChoice(variant.parts, tuple(map(estimator.part, variant.parts))))
        assert made.estimate == variant.estimate
        assert variant.score == pytest.approx(sum(variant.estimate.seconds.values()), rel=1e-9)
        together = program_estimate(ranking.scop, variant.tree, ZEN3, 2)
        assert together.score == pytest.approx(variant.score, rel=1e-6)
