"""The closed form of LRU stacks against a plain simulation, and the ranker against hand-made cases."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydl import pipeline
from polydl.dependences.analysis import dependences
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import Nest, nests
from polydl.locality.boxes import BoxAccess, BoxNest
from polydl.model.layout import row_major
from polydl.model.scop import Scop
from polydl.rank.block_shapes import register_blocks_for
from polydl.rank.ranker import FloatArray
from polydl.rank.trace import SAMPLES, TraceRanker, Traces, _moves, sampled_calls, served, stack_bytes
from polydl.schedule.limits import SPACES, Limits
from polydl.schedule.loops import NestLoops, apply
from polydl.schedule.loopstring import parse
from polydl.schedule.notation import Written
from polydl.search.space import legal_structures
from polydl.target import Machine, preset

EXAMPLES = Path(__file__).parents[2] / "examples"


def simulate(trips: list[int], moved: list[list[bool]], slices: list[float]) -> FloatArray:
    """(calls, operands) bytes of the LRU stack down to each slice, walked call by call: the second of two runs."""
    stack: list[tuple[int, tuple[int, ...]]] = []  # most recent last
    rows: list[list[float]] = []
    for _ in range(2):
        rows = []
        for counters in itertools.product(*map(range, trips)):
            row = []
            for o, size in enumerate(slices):
                key = (o, tuple(c for c, m in zip(counters, moved, strict=True) if m[o]))
                if key in stack:
                    above = stack[stack.index(key) + 1 :]
                    stack.remove(key)
                    row.append(size + math.fsum(slices[other] for other, _ in above))
                else:
                    row.append(math.inf)
                stack.append(key)
            rows.append(row)
    return np.array(rows)


def traces(trips: list[int], moved: list[list[bool]], slices: list[float]) -> Traces:
    return Traces(np.array([trips]), np.array([moved]), np.array([slices]))


@st.composite
def cases(
    draw: st.DrawFn,
    depths: st.SearchStrategy[int] = st.integers(1, 5),  # noqa: B008 - strategies are constants
    sizes: st.SearchStrategy[int] = st.integers(1, 4),  # noqa: B008
) -> tuple[list[int], list[list[bool]], list[float]]:
    depth, operands = draw(depths), draw(sizes)
    trips = [draw(st.integers(1, 4)) for _ in range(depth)]
    moved = [[draw(st.booleans()) for _ in range(operands)] for _ in range(depth)]
    return trips, moved, [float(2**o * 10 + o) for o in range(operands)]


@given(cases())
def test_stack_distances_are_those_of_a_walked_trace(case: tuple[list[int], list[list[bool]], list[float]]) -> None:
    made = traces(*case)
    calls, counts = sampled_calls(made.trips, 10**6)
    assert counts.all()
    assert calls[0].tolist() == [list(c) for c in itertools.product(*map(range, case[0]))]
    np.testing.assert_array_equal(stack_bytes(made, calls)[0], simulate(*case))


@given(st.lists(cases(depths=st.just(4), sizes=st.just(3)), min_size=1, max_size=3))
def test_variants_are_independent(many: list[tuple[list[int], list[list[bool]], list[float]]]) -> None:
    together = Traces(*(np.array([case[i] for case in many]) for i in range(3)))
    calls, counts = sampled_calls(together.trips, 10**6)
    capacity = np.array([[40.0, 90.0, 200.0]] * len(many))
    levels = served(together, calls, capacity)
    for v, case in enumerate(many):
        expected = (simulate(*case)[:, :, None] > capacity[v]).sum(axis=2)
        np.testing.assert_array_equal(levels[v][counts[v]], expected)


def test_by_hand() -> None:
    # for i in 3: for j in 2: A[i] (10 bytes), B[j] (1 byte), C[i][j] (100 bytes)
    made = traces([3, 2], [[True, False, True], [False, True, True]], [10.0, 1.0, 100.0])
    calls, _ = sampled_calls(made.trips)
    found = stack_bytes(made, calls)[0]
    # A[i], j = 1: itself, B[0] and C[i][0] in between.
    assert found[1, 0] == 10 + 1 + 100
    # B[1] at i = 1, since (0, 1): C[0][1], A[1], B[0], C[1][0].
    assert found[3, 1] == 1 + 100 + 10 + 1 + 100
    # C[0][0], once a run: everything.
    assert found[0, 2] == 3 * 10 + 2 * 1 + 6 * 100


def test_samples_are_calls_spread_over_the_trace() -> None:
    trips = np.array([[7, 11, 13], [2, 3, 4], [1, 1, 1]])
    calls, counts = sampled_calls(trips, 100)
    assert counts.sum(axis=1).tolist() == [100, 24, 1]
    assert (calls >= 0).all()
    assert (calls < trips[:, None, :]).all()
    assert len(np.unique(calls[0], axis=0)) > 90
    assert {tuple(c) for c in calls[1][counts[1]]} == set(itertools.product(range(2), range(3), range(4)))
    for d, trip in enumerate(trips[0]):
        often = np.bincount(calls[0, :, d], minlength=trip) * trip / 100
        assert often.min() > 0.85
        assert often.max() < 1.15


def test_sampling_comes_close_to_the_whole_trace() -> None:
    rng = np.random.default_rng(3)
    wrong: list[float] = []
    for _ in range(30):
        trips = rng.integers(2, 14, size=(1, 5))
        made = Traces(trips, rng.random((1, 5, 3)) < 0.6, np.array([[3.0, 5.0, 7.0]]))
        capacity = np.array([[20.0, 200.0, 2000.0]])
        means = []
        for most in (10**7, SAMPLES):
            calls, counts = sampled_calls(made.trips, most)
            means.append(served(made, calls, capacity)[counts].mean(axis=0))
        wrong += np.abs(means[0] - means[1]).tolist()
    # Of mean levels, which are 0 to 3; 256 independent samples would give 0.03 and 0.2.
    assert max(wrong) < 0.12
    assert math.fsum(wrong) / len(wrong) < 0.015


def test_a_window_stays_in_its_slice() -> None:
    # in[2 * y + p][c]: p shifts along y.
    access = BoxAccess("in", ((2, 1, 0), (0, 0, 1)), (0, 0), False, "S0")
    nest = BoxNest(("y", "p", "c"), (10, 3, 4), (access,), {"in": 4}, {"in": row_major((21, 4))})
    assert _moves(nest)[:, 0].tolist() == [True, False, True]


def program(name: str) -> tuple[Scop, Nest]:
    scop = pipeline.load(EXAMPLES / name).scops[0]
    (nest,) = nests(scop, dependences(scop, reads=False))
    return scop, nest


def structures(nest: Nest, lines: list[tuple[str, str]], machine: Machine) -> list[NestLoops]:
    choose = register_blocks_for(machine)
    return [apply(nest, parse(nest, Written(a, "-"), Written(b, "-"), choose)) for a, b in lines]


def test_score_is_that_of_a_walked_trace() -> None:
    """One thread of two, a GEMM of 300 x 100 x 200: every quantity worked out from the definition."""
    machine = preset("xeon-8280")
    scop, nest = program("matmul.c")
    (made,) = structures(nest, [("cAb", "c=50;mk=10x50:k")], machine)
    scored = TraceRanker().rank(scop, nest, [made], machine, 2)
    # Loops k.0 (4), i (30, of which a thread has 15), j (2); slices of A: 10 x 50, B: 50 x 50, C: 10 x 50 floats.
    order = {"C": (10 * 50 * 4.0, [False, True, True]), "A": (10 * 50 * 4.0, [True, True, False])}
    order["B"] = (50 * 50 * 4.0, [True, False, True])
    names = list(dict.fromkeys(a.array for a in nest.statements[0].accesses))
    moved = [[order[n][1][d] for n in names] for d in range(3)]
    distance = simulate([4, 15, 2], moved, [order[n][0] for n in names])
    caches = machine.caches[:3]
    sizes = [c.bytes / min(2, c.shared_by_cores) for c in caches]
    rates = [*(machine.cache_bandwidth(c, 2) for c in caches), machine.memory_bandwidth(2)]
    core = scored.columns["core_seconds"][0] / 120
    seconds = 0.0
    for row in distance:
        transfer = 0.0
        for name, needed in zip(names, row, strict=True):
            level = sum(needed > size for size in sizes)
            transfer += order[name][0] * (2 if name == "C" else 1) / rates[level]
        seconds += max(core, transfer)
    seconds += 4 * machine.parallel_region_us * 1e-6
    assert scored.columns["sampled_share"][0] == 1.0
    assert scored.scores[0] == pytest.approx(seconds, rel=1e-12)


def test_the_slowest_thread_counts() -> None:
    machine = preset("xeon-8280")
    scop, nest = program("matmul.c")
    lines = [("Abc", "mk=10x50:"), ("aBc", "mk=10x50:"), ("abc", "mk=10x50:"), ("A{R:3}bc", "mk=10x50:")]
    scored = TraceRanker().rank(scop, nest, structures(nest, lines, machine), machine, 4)
    each = scored.columns["core_seconds"] / scored.columns["core_seconds"][2]
    # 30 rows of blocks on 4 threads: 8; 2 columns: 1; all; 3 blocks of 10 rows.
    assert each == pytest.approx([8 / 30, 1 / 2, 1.0, 1 / 3])
    assert scored.columns["forks"].tolist() == [1, 30, 0, 1]


def test_reuse_in_cache_beats_streaming() -> None:
    machine = preset("xeon-8280")
    scop = pipeline.load(EXAMPLES / "matmul.c", defines={"M": "2048", "N": "2048", "K": "2048"}).scops[0]
    (nest,) = nests(scop, dependences(scop, reads=False))
    # Blocks of k so that C is loaded and stored 8 times, or 2048 times (k one by one, outermost).
    good, bad = structures(nest, [("cBa", "c=256;mk=14x32:k"), ("cBa", "mk=14x32:")], machine)
    scored = TraceRanker().rank(scop, nest, [good, bad], machine, 1)
    assert scored.scores[0] * 3 < scored.scores[1]
    far = scored.columns["from_L3_bytes"] + scored.columns["from_memory_bytes"]
    assert far[0] * 20 < far[1]


def test_a_thousand_variants_of_a_convolution() -> None:
    machine = preset("epyc-zen5")
    scop, nest = program("conv2d.c")
    legality = nest_legality(nest, dependences(scop, reads=False))
    every = legal_structures(Limits(nest, legality, SPACES["default"], register_blocks_for(machine), 2))
    chosen = list(itertools.islice(every, 1000))
    assert len(chosen) == 1000
    scored = TraceRanker().rank(scop, nest, chosen, machine, 2)
    assert np.isfinite(scored.scores).all() and (scored.scores > 0).all()


def test_a_nest_without_loops_takes_one_call(tmp_path: Path) -> None:
    path = tmp_path / "one.c"
    path.write_text("void one(float A[restrict 4])\n{\n#pragma scop\n    A[1] = A[2];\n#pragma endscop\n}\n")
    ranking = pipeline.rank(path, ranker="trace", threads=2, machine="xeon-8280")
    assert len(ranking) == 1
    assert ranking.variants[0].score > 0
