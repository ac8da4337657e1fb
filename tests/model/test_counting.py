"""Counting against enumeration, in closed form where enumeration is out of reach."""

from __future__ import annotations

import itertools
import time
from math import comb

import islpy as isl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydl.model import lattice
from polydl.model.counting import Count, count, count_symbolic, format_symbolic

BOX = range(-4, 7)


@settings(deadline=None)
@given(n=st.integers(0, 30), a=st.integers(-40, 40), b=st.integers(-90, 90), m=st.integers(1, 23))
def test_floor_sum(n: int, a: int, b: int, m: int) -> None:
    assert lattice.floor_sum(n, a, b, m) == sum((a * i + b) // m for i in range(n))


def rows(width: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*(st.integers(-4, 4) for _ in range(width)), st.integers(-9, 9))


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 4).flatmap(lambda w: st.tuples(st.lists(rows(w), max_size=1), st.lists(rows(w), max_size=4))))
def test_systems_of_rows(system: tuple[list[tuple[int, ...]], list[tuple[int, ...]]]) -> None:
    equalities, inequalities = system
    width = len((equalities + inequalities or [(0, 0)])[0]) - 1
    bounds = []
    for j in range(width):
        unit = tuple(int(i == j) for i in range(width))
        bounds += [(*unit, -BOX.start), (*(-u for u in unit), BOX.stop - 1)]
    expected = sum(
        all(sum(a * v for a, v in zip(row, x, strict=False)) + row[-1] == 0 for row in equalities)
        and all(sum(a * v for a, v in zip(row, x, strict=False)) + row[-1] >= 0 for row in inequalities)
        for x in itertools.product(BOX, repeat=width)
    )
    found = lattice.count_points(width, equalities, inequalities + bounds, lattice.Budget(10_000))
    assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{ [a, b, c, d] : 0 <= a < 1000 and 0 <= b < 1000 and 0 <= c < 1000 and 0 <= d < 1000 }", 10**12),
        ("{ A[a, b, c, d] : a = 3 and 0 <= b < 1000000 and c = 2b and 0 <= d < 1000000 }", 10**12),
        ("{ [a, b] : 0 <= a <= b < 1000000 }", comb(1000001, 2)),
        ("{ [a] : exists o, k : a = 2o + k and 0 <= o < 100000 and 0 <= k < 3 }", 200001),
        ("{ [a] : exists o, k : a = 4o + k and 0 <= o < 100000 and 0 <= k < 3 }", 300000),
        ("{ [a, b] : exists o, k : a = 4o + k and 0 <= o < 1000 and 0 <= k < 3 and 0 <= b < 1000000 }", 3 * 10**9),
        ("{ [a, b, c] : 0 <= a <= b <= c < 1000 }", comb(1002, 3)),
        ("{ [a] : 0 <= a < 1000000000 and a mod 7 = 3 }", 142857143),
        (
            "{ [a, b] : 0 <= a < 1000000 and 0 <= b < 1000000; [a, b] : 0 <= a < 1000000 and 500000 <= b < 1500000 }",
            15 * 10**11,
        ),
        ("{ [] }", 1),
        ("{ [a] : false }", 0),
        ("{ [a] : 2 * a = 7 }", 0),
    ],
)
def test_closed_forms_return_at_once(text: str, expected: int) -> None:
    start = time.perf_counter()
    assert count(isl.Set(text)) == Count.of(expected)
    assert time.perf_counter() - start < 2.0  # enumeration would take hours


@st.composite
def small_sets(draw: st.DrawFn) -> isl.Set:
    """Unions of bounded basic sets with strides, windows and couplings, as images of boxes."""
    union = None
    dims = draw(st.integers(1, 3))
    for _ in range(draw(st.integers(1, 3))):
        depth = draw(st.integers(1, 3))
        extents = draw(st.lists(st.integers(1, 4), min_size=depth, max_size=depth))
        names = [f"t{i}" for i in range(depth)]
        outs = []
        for _ in range(dims):
            coefficients = draw(st.lists(st.integers(-3, 3), min_size=depth, max_size=depth))
            terms = [f"{c}*{n}" for c, n in zip(coefficients, names, strict=True)]
            outs.append(" + ".join([*terms, str(draw(st.integers(-2, 2)))]))
        conditions = [f"0 <= {n} < {e}" for n, e in zip(names, extents, strict=True)]
        if depth > 1 and draw(st.booleans()):
            conditions.append(f"t0 <= t1 + {draw(st.integers(-1, 2))}")
        image = isl.Map(f"{{ [{', '.join(names)}] -> [{', '.join(outs)}] : {' and '.join(conditions)} }}").range()
        union = image if union is None else union.union(image)
    return union


@settings(max_examples=300, deadline=None)
@given(small_sets())
def test_unions_of_images_against_isl_scan(points: isl.Set) -> None:
    assert count(points) == Count.of(points.count_val().to_python())


def test_coupled_dimensions_past_every_limit_are_bounds() -> None:
    tetrahedron = isl.Set("{ [a, b, c] : 0 <= a <= b <= c < 100000 }")
    found = count(tetrahedron, operations=10_000, budget=100)
    assert not found.exact
    assert found.lower <= comb(100002, 3) <= found.upper
    with pytest.raises(ValueError, match="not exact"):
        _ = found.value


def test_small_coupled_sets_past_the_budget_are_scanned() -> None:
    tetrahedron = isl.Set("{ [a, b, c] : 0 <= a <= b <= c < 20 }")
    assert count(tetrahedron, budget=3) == Count.of(comb(22, 3))


def test_infinite_and_parametric_sets_are_refused() -> None:
    with pytest.raises(ValueError, match="infinitely many"):
        count(isl.Set("{ [a] : a >= 0 }"))
    with pytest.raises(ValueError, match="infinitely many"):
        count(isl.Set("{ [a, b] : 0 <= a < 3 }"))
    with pytest.raises(ValueError, match="parameters"):
        count(isl.Set("[N] -> { [a] : 0 <= a < N }"))
    assert count(isl.Set("[N] -> { [a] : 0 <= a < 5 }")) == Count.of(5)


def test_counts_add_and_scale() -> None:
    assert Count(1, 3) + Count.of(2) == Count(3, 5)
    assert Count(1, 3) * 4 == Count(4, 12)
    assert str(Count(1, 3)) == "between 1 and 3"
    assert str(Count.of(7)) == "7"
    with pytest.raises(ValueError, match="not a count"):
        Count(3, 1)


@pytest.mark.parametrize(
    ("text", "context", "expected"),
    [
        ("[K, N] -> { B[k, j] : 0 <= k < K and j = 0; B[0, 1] }", "[K, N] -> { : K >= 1 and N >= 2 }", "K + 1"),
        ("[K, N] -> { B[k, j] : 0 <= k < K and 2 <= j < N }", "[K, N] -> { : K >= 1 and N >= 3 }", "K*N - 2*K"),
        ("[N] -> { [i] : 0 <= i < N }", "[N] -> { : N >= -3 }", "{ N if N > 0 }"),
        ("[N] -> { [i] : i = N }", "[N] -> { : }", "1"),
        ("[N] -> { [i] : false }", "[N] -> { : }", "0"),
        ("[N] -> { [i, j] : 0 <= i <= j < N }", "[N] -> { : N >= 1 }", "1/2*N*N + 1/2*N"),
        ("[M, N] -> { [i, j] : 0 <= i < M and i <= j < i + N }", "[M, N] -> { : M >= 1 and N >= 1 }", "M*N"),
    ],
)
def test_symbolic(text: str, context: str, expected: str) -> None:
    size = count_symbolic(isl.Set(text))
    assert size is not None
    assert format_symbolic(size, isl.Set(context)) == expected


@pytest.mark.parametrize(
    "text",
    ["[N] -> { [i] : 0 <= i }", "[N] -> { [i] : 0 <= i < N and i mod 2 = 0 }"],
)
def test_symbolic_says_when_it_cannot(text: str) -> None:
    assert count_symbolic(isl.Set(text)) is None


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3), st.integers(-1, 2)), min_size=1, max_size=3),
    st.integers(1, 5),
    st.booleans(),
)
def test_symbolic_evaluates_to_the_count(bounds: list[tuple[int, int, int]], value: int, slanted: bool) -> None:
    conditions = " and ".join(f"{low} <= x{i} < {a}*N + {b}" for i, (low, a, b) in enumerate(bounds))
    conditions += " and x0 <= x1" if slanted and len(bounds) > 1 else ""
    names = ", ".join(f"x{i}" for i in range(len(bounds)))
    points = isl.Set(f"[N] -> {{ [{names}] : {conditions} }}")
    size = count_symbolic(points)
    if size is None:
        assert slanted, "several cases of what is the first and the last"
        return
    fixed = points.fix_val(isl.dim_type.param, 0, isl.Val(value)).project_out(isl.dim_type.param, 0, 1)
    at = isl.Point.zero(points.get_space().params()).set_coordinate_val(isl.dim_type.param, 0, isl.Val(value))
    assert size.eval(at).to_python() == count(fixed).value
