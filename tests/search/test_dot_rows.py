"""Products of rows with rows: blocks of dot products in vectors along the sum, and what copies of windows take."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from polydl import pipeline
from polydl.options import Options
from polydl.rank import rankers
from polydl.rank.estimator import Estimator
from polydl.rank.tree_estimate import footprints_of, tree_estimate
from polydl.results import Ranking
from polydl.search.dot_rows import in_dot_rows
from tests.oracle.native import compile_c

GRADIENT = """\
void f(float weight[{k}][{c}][{s}], const float input[{c}][{q} + {d} * {s}], const float gradient[{k}][{q}])
{{
    for (int k = 0; k < {k}; k++)
        for (int c = 0; c < {c}; c++)
            for (int s = 0; s < {s}; s++) {{
                float sum = 0;
                for (int q = 0; q < {q}; q++)
                    sum += gradient[k][q] * input[c][q + {d} * s];
                weight[k][c][s] = sum;
            }}
}}
"""
"""Of the weights of a dilated convolution."""
PRODUCT = """\
void f(float C[{k}][{s}], const float A[{k}][{q}], const float B[{s}][{q}])
{{
    for (int i = 0; i < {k}; i++)
        for (int j = 0; j < {s}; j++) {{
            C[i][j] = 0;
            for (int k = 0; k < {q}; k++)
                C[i][j] += A[i][k] * B[j][k];
        }}
}}
"""


def ranked(source: str, **changes: object) -> tuple[Ranking, Estimator]:
    ranking = pipeline.rank(source, "small", "epyc-zen5", threads=2, **changes)
    return ranking, Estimator(ranking.scop, ranking.nests, ranking.machine, 2, rankers.usable("traffic"))


@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        (GRADIENT, {"k": 17, "c": 3, "s": 23, "q": 2100, "d": 8}),
        (GRADIENT, {"k": 4, "c": 2, "s": 4, "q": 61, "d": 1}),
        (PRODUCT, {"k": 21, "s": 35, "q": 1100}),
    ],
    ids=["dilated", "short", "product"],
)
def test_dot_rows_compute_the_same(source: str, sizes: dict[str, int]) -> None:
    text = source.format(**sizes)
    ranking, estimator = ranked(text)
    best = next(v for v in ranking.variants if any(one.kernel for one in v.structures))
    found = list(in_dot_rows(best, estimator))
    assert found and all(one.refused is None and one.generated.rows for one in found)
    texts = [text, *(variant.code() for variant in found)]
    k, c, s, q, d = (sizes.get(name, 1) for name in "kcsqd")
    rng = np.random.default_rng(0)
    left = rng.integers(-3, 4, (k, q)).astype(np.float32)
    right = rng.integers(-3, 4, (c, q + d * s) if source is GRADIENT else (s, q)).astype(np.float32)
    given = (right, left) if source is GRADIENT else (left, right)
    results = []
    for one in texts:
        out = np.full((k, c, s), np.nan, np.float32)
        arguments = [array.ctypes.data_as(ctypes.c_void_p) for array in (out, *given)]
        compile_c([one], ("-std=gnu11", "-O1", "-march=native", "-w")).f(*arguments)
        results.append(out.tobytes())
    assert len(set(results)) == 1


def test_gradients_of_weights_are_dot_rows_by_estimate() -> None:
    """A microkernel would copy each image once for each tap."""
    ranking, estimator = ranked(GRADIENT.format(k=15, c=15, s=51, q=20000, d=8))
    assert ranking.fused is None
    made = pipeline.with_fused(ranking, Options(machine="epyc-zen5", threads=2, space="small"))
    assert made.variants[0].recipe.nests[-1].transforms[-1].jam == (4, 4)
    plain, _ = ranked(GRADIENT.format(k=15, c=15, s=51, q=20000, d=8), reassociate=False)
    assert not list(in_dot_rows(plain.variants[0], estimator))


def test_a_copy_counts_each_window() -> None:
    """The image is copied once for each tap, though the windows overlap."""
    sizes = {"k": 15, "c": 15, "s": 51, "q": 20000, "d": 8}
    ranking, estimator = ranked(GRADIENT.format(**sizes))
    best = next(v for v in ranking.variants if any(one.kernel and one.packs for one in v.structures))
    (packing,) = (one for one in best.structures if one.packs)
    assert [pack.operand for pack in packing.packs] == ["B"] and packing.operand("B").array == "input"
    bytes_ = sizes["c"] * sizes["s"] * sizes["q"] * 4
    rate = estimator.machine.cache_bandwidth(estimator.machine.caches[-1], 2)
    each_thread = 2 * bytes_ / rate / 2
    found = [estimator.structures(packing.nest, [packing])[0], estimator.part(best.parts[-1])]
    found.append(
        tree_estimate(footprints_of(ranking.scop, packing.statements), best.parts[-1].tree, ranking.machine, 2)
    )
    assert all(one.seconds["copies"] == pytest.approx(each_thread, rel=0.1) for one in found)
