"""The closed forms against the exact analysis: zero differences, and speed at the size of real searches."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydl.locality import exact
from polydl.locality.assign import assign, assign_batch
from polydl.locality.batch import BoxAnalysis
from polydl.locality.boxes import BoxAccess, BoxNest, LoopBatch
from polydl.model.layout import row_major
from polydl.target import preset
from tests.locality.box_cases import differences, random_batch, random_nest, timed_nest


@given(st.integers(350, 2**32))
def test_any_nest_is_equal_to_the_exact_analysis(seed: int) -> None:
    """`make fuzz-properties` tries thousands of them, for which `make test` has no time."""
    assert list(differences(seed)) == []


@pytest.mark.parametrize("part", range(5))
def test_equal_to_the_exact_analysis(part: int) -> None:
    """5 parts of 30 nests with 3 variants each: 450 random cases, strided, windowed, tiled, parallel, blocked."""
    wrong = list(itertools.chain.from_iterable(differences(seed) for seed in range(30 * part, 30 * part + 30)))
    assert not wrong, wrong[0]


@pytest.mark.parametrize("seed", range(1000, 1040))
def test_footprints_equal_the_exact_ones(seed: int) -> None:
    rng = random.Random(seed)
    nest = random_nest(rng)
    batch = random_batch(rng, nest, 2, 0.0)
    found = BoxAnalysis(nest).footprints(batch)
    for variant in range(2):
        timed = timed_nest(nest, batch, variant)
        running = np.cumsum([0, *(batch.trip[variant] > 1)])
        for depth in range(batch.depth + 1):
            parts = exact.footprint(timed, (0,) * int(running[depth])).arrays
            expected = {part.array: part.elements.value for part in parts}
            assert dict(zip(nest.arrays, found[variant, depth].tolist(), strict=True)) == expected


@pytest.mark.parametrize("seed", range(2000, 2030))
def test_timed_nest_runs_every_iteration_once(seed: int) -> None:
    """The reference itself, by enumeration: blocks of all times cover the box without overlap, in the loops' order."""
    rng = random.Random(seed)
    nest = random_nest(rng)
    everything = BoxAccess(
        "all", tuple(np.eye(len(nest.iterators), dtype=int).tolist()), (0,) * len(nest.extents), False
    )
    nest = BoxNest(nest.iterators, nest.extents, (everything,), {"all": 1}, {"all": row_major(nest.extents)})
    batch = random_batch(rng, nest, 1, 0.0)
    timed = timed_nest(nest, batch, 0)
    relation = timed.accesses[0].relation
    covered = relation.intersect_domain(timed.domain).wrap().count_val().to_python()
    assert covered == np.prod(nest.extents), "each iteration at one time"
    assert relation.range().count_val().to_python() == np.prod(nest.extents)
    times = timed.domain.count_val().to_python()
    leaves = 1
    for index, extent in enumerate(nest.extents):
        spans = [int(s) for i, s in zip(batch.iterator[0], batch.span[0], strict=True) if i == index]
        leaves *= _leaves(extent, spans)
    assert times == leaves


def _leaves(extent: int, spans: list[int]) -> int:
    """Blocks that a chain of spans cuts an extent into."""
    if not spans:
        return 1
    whole, rest = divmod(extent, spans[0])
    return whole * _leaves(spans[0], spans[1:]) + (_leaves(rest, spans[1:]) if rest else 0)


def gemm(m: int, n: int, k: int) -> BoxNest:
    c, a, b = ((1, 0, 0), (0, 1, 0)), ((1, 0, 0), (0, 0, 1)), ((0, 0, 1), (0, 1, 0))
    return BoxNest(
        ("i", "j", "k"),
        (m, n, k),
        (
            BoxAccess("C", c, (0, 0), False),
            BoxAccess("A", a, (0, 0), False),
            BoxAccess("B", b, (0, 0), False),
            BoxAccess("C", c, (0, 0), True),
        ),
        dict.fromkeys("ABC", 4),
        {"A": row_major((m, k)), "B": row_major((k, n)), "C": row_major((m, n))},
    )


def test_matmul_gives_the_figures_of_the_paper() -> None:
    nest = gemm(300, 100, 200)
    batch = LoopBatch.of(nest, [[(0, 1), (1, 1), (2, 1)]])
    found = BoxAnalysis(nest).working_sets(batch)
    sizes = {
        (found.pairs[p].array, int(d)): (int(low.sum()), int(high.sum()))
        for p, d, low, high in zip(found.pair, found.depth, found.minimum, found.maximum, strict=True)
    }
    assert sizes == {("C", 2): (5, 401), ("A", 1): (403, 20101), ("B", 0): (20302, 109702)}


def test_padding_changes_nothing() -> None:
    nest = gemm(30, 20, 10)
    loops = [(0, 8), (2, 1), (0, 1), (1, 1)]
    plain = BoxAnalysis(nest).working_sets(LoopBatch.of(nest, [loops]))
    padded = BoxAnalysis(nest).working_sets(LoopBatch.of(nest, [[(-1, 1), loops[0], (-1, 1), *loops[1:], (-1, 1)]]))
    assert (plain.minimum == padded.minimum).all()
    assert (plain.maximum == padded.maximum).all()


@pytest.mark.parametrize("seed", range(3000, 3020))
def test_levels_equal_those_of_the_exact_form(seed: int) -> None:
    rng = random.Random(seed)
    nest = random_nest(rng)
    batch = random_batch(rng, nest, 3, 0.2)
    tiny = preset("epyc-zen4")
    from dataclasses import replace

    caches = tuple(replace(c, bytes=size) for c, size in zip(tiny.caches, (64, 256, 1024), strict=True))
    machine = replace(tiny, caches=caches)
    levels = assign_batch(BoxAnalysis(nest).working_sets(batch), nest, machine, 3)
    for variant in range(3):
        expected = assign(exact.working_sets(timed_nest(nest, batch, variant)), machine)
        assert levels[variant].tolist() == [c.value for c in (*expected.caches, expected.memory)]


def test_coupled_subscripts_are_refused() -> None:
    diagonal = BoxAccess("A", ((1,), (1,)), (0, 0), False)
    nest = BoxNest(("i",), (5,), (diagonal,), {"A": 4}, {"A": row_major((5, 5))})
    with pytest.raises(ValueError, match="i occurs in two subscripts"):
        BoxAnalysis(nest)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"iterator": [[3]]}, "does not have"),
        ({"span": [[0]]}, "at least 1"),
        ({"parallel": [[False, True]]}, "shapes differ"),
    ],
)
def test_bad_batches_are_refused(change: dict[str, list[list[int]]], message: str) -> None:
    arrays: dict[str, list[list[int]]] = {"iterator": [[0]], "span": [[1]], "parallel": [[0]]} | change
    with pytest.raises(ValueError, match=message):
        LoopBatch(
            (5, 5, 5),
            np.array(arrays["iterator"], dtype=np.int64),
            np.array(arrays["span"], dtype=np.int64),
            np.array(arrays["parallel"], dtype=np.bool_),
        )


def gemm_variants(count: int) -> list[list[tuple[int, int]]]:
    """Two levels of tiles in random orders around a register block."""
    rng = random.Random(0)
    loops = []
    for _ in range(count):
        block = (*rng.choice([(6, 64), (8, 48), (12, 32), (14, 32)]), 1)
        near = [rng.choice([1, 2, 4, 8]) * size for size in (block[0], block[1], 64)]
        far = [rng.choice([2, 4, 8]) * size for size in near]
        orders = [rng.sample(range(3), 3) for _ in range(2)]
        levels = zip(orders, (far, near), strict=True)
        loops.append([(i, spans[i]) for order, spans in levels for i in order] + [(i, block[i]) for i in range(3)])
    return loops


def test_ten_thousand_variants_of_a_gemm() -> None:
    nest = gemm(4096, 4096, 4096)
    batch = LoopBatch.of(nest, gemm_variants(10_000))
    analysis = BoxAnalysis(nest)
    found = analysis.working_sets(batch)
    analysis.footprints(batch)
    assign_batch(found, nest, preset("epyc-zen5"), len(batch))
    assert len(found.variant) > 60_000
