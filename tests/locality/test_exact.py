"""Algorithm 1 and 2: the paper's figures, brute force on random nests, speed."""

from __future__ import annotations

import islpy as isl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydl.locality import exact, symbolic
from polydl.locality.exact import Kind
from polydl.model.counting import Count
from polydl.model.nest import TimedAccess, TimedNest
from tests.locality.nests import PlainNest, brute_force, plain_nests


def matmul(order: str = "ijk", parameters: str = "", M: str = "300", N: str = "100", K: str = "200") -> TimedNest:
    t = ", ".join(order)
    accesses = [("C", False, "i, j"), ("A", False, "i, k"), ("B", False, "k, j"), ("C", True, "i, j")]
    return TimedNest(
        tuple(order),
        isl.Set(f"{parameters} {{ [{t}] : 0 <= i < {M} and 0 <= j < {N} and 0 <= k < {K} }}"),
        tuple(
            TimedAccess("S0", array, write, isl.Map(f"{{ [{t}] -> {array}[{subscript}] }}"))
            for array, write, subscript in accesses
        ),
        {"A": 4, "B": 4, "C": 4},
    )


def sizes(nest: TimedNest) -> dict[str, tuple[int, int]]:
    return {found.carried_by: (found.min.value, found.max.value) for found in exact.working_sets(nest)}


def test_matmul_gives_the_figures_of_the_paper() -> None:
    assert sizes(matmul()) == {"k": (5, 401), "j": (403, 20101), "i": (20302, 109702)}


def test_matmul_has_every_kind_of_dependence() -> None:
    found = exact.working_sets(matmul())
    assert {(w.kind, w.array, w.carried_by) for w in found} == {
        (Kind.RAW, "C", "k"), (Kind.WAR, "C", "k"), (Kind.WAW, "C", "k"), (Kind.RAR, "C", "k"),
        (Kind.RAR, "A", "j"), (Kind.RAR, "B", "i"),
    }  # fmt: skip
    (by_j,) = [w for w in found if w.carried_by == "j"]
    assert [(p.array, p.elements.value, p.bytes.value) for p in by_j.min_footprint.arrays] == [
        ("C", 2, 8), ("A", 200, 800), ("B", 201, 804),
    ]  # fmt: skip


def test_matmul_with_symbolic_sizes() -> None:
    known = isl.Set("[M, N, K] -> { : M >= 2 and N >= 2 and K >= 2 }")
    found = symbolic.working_sets(matmul("ijk", "[M, N, K] ->", "M", "N", "K"), known)
    assert {(w.carried_by, w.min, w.max) for w in found} == {
        ("k", "5", "2*K + 1"),
        ("j", "2*K + 3", "N*K + N + 1"),
        ("i", "N*K + N + K + 2", "M*N + M*K + N*K - N - K + 2"),
    }


def test_symbolic_sizes_without_knowledge_show_their_cases() -> None:
    found = symbolic.working_sets(matmul("ijk", "[M, N, K] ->", "M", "N", "K"))
    (by_i,) = [w for w in found if w.carried_by == "i"]
    assert by_i.min == "{ 2*K + 3 if N = 1; N*K + N + K + 2 if N >= 2 }"


def test_parallel_outer_loop_takes_the_whole_footprint() -> None:
    nest = matmul()
    parallel = TimedNest(nest.loops, nest.domain, nest.accesses, nest.element_bytes, frozenset({"i"}))
    (by_i,) = [w for w in exact.working_sets(parallel) if w.carried_by == "i"]
    assert (by_i.min, by_i.max, by_i.spans_parallel) == (Count.of(110_000), Count.of(110_000), "i")
    (by_j,) = [w for w in exact.working_sets(parallel) if w.carried_by == "j"]
    assert (by_j.min.value, by_j.max.value, by_j.spans_parallel) == (403, 20101, None)


def test_parallel_inner_loop_is_taken_with_outer_loops_fixed() -> None:
    nest = matmul()
    parallel = TimedNest(nest.loops, nest.domain, nest.accesses, nest.element_bytes, frozenset({"j"}))
    (by_j,) = [w for w in exact.working_sets(parallel) if w.carried_by == "j"]
    assert by_j.min == by_j.max == Count.of(200 + 200 * 100 + 100)


def test_parameters_are_refused_by_the_exact_form() -> None:
    with pytest.raises(ValueError, match="depend on parameters"):
        exact.working_sets(matmul("ijk", "[M, N, K] ->", "M", "N", "K"))


def as_plain(nest: PlainNest) -> list[tuple[str, str, str, str, str, dict[str, int], dict[str, int]]]:
    return [
        (
            w.kind.value,
            w.array,
            w.source_statement,
            w.target_statement,
            w.carried_by,
            {p.array: p.elements.value for p in w.min_footprint.arrays},
            {p.array: p.elements.value for p in w.max_footprint.arrays},
        )
        for w in exact.working_sets(nest.timed())
    ]


@settings(max_examples=250, deadline=None)
@given(plain_nests())
def test_random_nests_against_brute_force(nest: PlainNest) -> None:
    assert as_plain(nest) == brute_force(nest)


@settings(max_examples=120, deadline=None)
@given(plain_nests(parallel=True))
def test_random_parallel_nests_against_brute_force(nest: PlainNest) -> None:
    assert as_plain(nest) == brute_force(nest)


@settings(max_examples=60, deadline=None)
@given(plain_nests(parallel=True))
def test_symbolic_form_without_parameters_agrees(nest: PlainNest) -> None:
    found = symbolic.working_sets(nest.timed())
    expected = exact.working_sets(nest.timed())
    assert [(w.kind, w.array, w.carried_by) for w in found] == [(w.kind, w.array, w.carried_by) for w in expected]
    for w, e in zip(found, expected, strict=True):
        assert w.min in (None, str(e.min))
        assert w.max in (None, str(e.max))


@settings(max_examples=60, deadline=None)
@given(plain_nests(), st.integers(0, 2))
def test_footprint_against_brute_force(nest: PlainNest, fixed: int) -> None:
    times = nest.times
    if not times:
        return
    prefix = times[len(times) // 2][: min(fixed, len(nest.extents))]
    elements = {
        (access.array, access.touches(t))
        for t in times
        if t[: len(prefix)] == prefix
        for access in nest.accesses
        if access.touches(t) is not None
    }
    assert exact.footprint(nest.timed(), prefix).elements == Count.of(len(elements))


def tiled_gemm() -> TimedNest:
    """1024³ tiled twice (128, 16): nine loops."""
    loops = ("i0", "j0", "k0", "i1", "j1", "k1", "i2", "j2", "k2")
    t = ", ".join(loops)
    bounds = " and ".join(f"0 <= {loop} < {[8, 8, 16][int(loop[1])]}" for loop in loops)
    i, j, k = (f"128*{x}0 + 16*{x}1 + {x}2" for x in "ijk")
    accesses = [("C", False, f"{i}, {j}"), ("A", False, f"{i}, {k}"), ("B", False, f"{k}, {j}")]
    accesses.append(("C", True, f"{i}, {j}"))
    return TimedNest(
        loops,
        isl.Set(f"{{ [{t}] : {bounds} }}"),
        tuple(TimedAccess("S0", a, w, isl.Map(f"{{ [{t}] -> {a}[{s}] }}")) for a, w, s in accesses),
        {"A": 4, "B": 4, "C": 4},
    )


def test_nine_loops_of_a_tiled_gemm() -> None:
    found = sizes(tiled_gemm())
    assert found["k2"] == (5, 33)
    assert found["j2"] == (2 * 16 + 3, 16 * 16 + 16 + 1)
    # From (0, …, 0) to the first time of the second block of rows: 128 rows of A and C, all of B, then one of each.
    assert found["i0"][0] == 128 * 1024 + 1024 * 1024 + 128 * 1024 + 2
