"""isl's operations with dimensions by name, on sets small enough to list."""

from __future__ import annotations

import pytest

from polydl.model import isl
from polydl.model.isl.trees import (
    functions_of,
    loops_of,
    maps_of,
    parametric_value,
    partial_schedule,
    sets_of,
    union_map,
    union_set,
)

TRIANGLE = isl.Set("{ S[i, j, k] : 0 <= i < 4 and 0 <= j <= i and k = i + 2j }")


def points(of: isl.Set) -> set[tuple[int, ...]]:
    """Coordinates of all points."""
    found: set[tuple[int, ...]] = set()
    of.foreach_point(lambda point: found.add(isl.sample(isl.Set.from_point(point))[0]))
    return found


def pairs(of: isl.Map) -> set[tuple[int, ...]]:
    """Coordinates of source and target together."""
    return points(of.wrap().flatten())


def test_projections() -> None:
    every = points(TRIANGLE)
    assert points(isl.project_onto(TRIANGLE, ["j"])) == {(j,) for _, j, _ in every}
    assert points(isl.project_onto(TRIANGLE, ["k", "i"])) == {(i, k) for i, _, k in every}
    assert points(isl.project_onto(TRIANGLE, range(2))) == {(i, j) for i, j, _ in every}
    assert str(isl.project_onto(isl.Set("{ S[i, j, k] : i < k }"), ["k", "i"])) == "{ [i, k] : k > i }"
    relation = isl.Map("{ S[i, j] -> A[a, b, c] : 0 <= i, j < 3 and a = i and b = j and c = i + j }")
    assert pairs(isl.range_onto(relation, [2])) == {(i, j, c) for i, j, _, _, c in pairs(relation)}
    assert pairs(isl.domain_onto(relation, ["j"])) == {(j, *rest) for _, j, *rest in pairs(relation)}


def test_unknown_dimension() -> None:
    with pytest.raises(KeyError, match="no dimension 'x'"):
        isl.project_onto(TRIANGLE, ["x"])


def test_pairs_by_coordinate() -> None:
    square = isl.Set("{ [x, y] : 0 <= x, y < 3 }")
    all_pairs = isl.Map.from_domain_and_range(square, square)
    every = pairs(all_pairs)
    assert pairs(isl.agree(all_pairs, [0])) == {p for p in every if p[0] == p[2]}
    assert pairs(isl.differ(all_pairs, [0, 1])) == {p for p in every if p[:2] != p[2:]}
    assert pairs(isl.ascending(all_pairs, 1)) == {p for p in every if p[1] < p[3]}
    assert pairs(isl.descending(all_pairs, 1)) == {p for p in every if p[1] > p[3]}
    assert pairs(isl.domain_between(all_pairs, 0, 1, None)) == {p for p in every if p[0] >= 1}
    assert pairs(isl.fix_domain(all_pairs, (1, 2))) == {p for p in every if p[:2] == (1, 2)}
    source, target = isl.linear(square, {0: 1, 1: 2}), isl.floor_div(isl.linear(square, {0: 3}, 1), 2)
    assert pairs(isl.meet(all_pairs, source, target)) == {p for p in every if p[0] + 2 * p[1] == (3 * p[2] + 1) // 2}
    assert isl.agrees(isl.agree(all_pairs, [1]), 1)
    assert not isl.agrees(all_pairs, 1)
    assert isl.least_pair(isl.ascending(all_pairs, 1)) == ((0, 0), (0, 1))


def test_extremes() -> None:
    assert isl.bounds(TRIANGLE, "k") == (0, 9)
    assert (isl.least(TRIANGLE, "j"), isl.greatest(TRIANGLE, "j")) == (0, 3)
    half = isl.Set("{ [x] : x >= 4 and x mod 6 = 4 }")
    assert (isl.least(half, 0), isl.greatest(half, 0), isl.stride(half, 0)) == (4, None, 6)
    with pytest.raises(ValueError, match="not an integer"):
        isl.bounds(half, 0)
    assert isl.lex_extreme(TRIANGLE) == (0, 0, 0)
    assert isl.lex_extreme(TRIANGLE, greatest=True) == (3, 3, 9)


def test_extremes_beside_a_piece_without_points() -> None:
    strips = isl.Map("{ S[i, j] -> T[q, t = i, z = j - 512q] : 0 <= i, j <= 2999 and -511 + j <= 512q <= j }")
    apart = strips.subtract(isl.meet(strips, isl.linear(strips.domain(), {0: 1}), isl.linear(strips.range(), {0: 1})))
    assert isl.least_pair(apart) == ((0, 512), (1, 0, 0))  # for i = 0 one of the two pieces holds no integer point
    one_by_one = isl.Set("{ [i] : i >= 0 or i = -4 }")
    assert (isl.least(one_by_one, "i"), isl.greatest(one_by_one, "i")) == (-4, None)


def test_a_value_in_several_pieces() -> None:
    """isl compared its space with that of the parameters, of several pieces alone."""
    found = parametric_value(isl.PwAff("[n, m] -> { [] -> [(m + 2)] : 2m <= n; [] -> [(n)] : 2m > n }"))
    assert found.to_C_str() == "2 * m >= n + 1 ? n : m + 2"
    assert parametric_value(isl.PwAff("[n] -> { [(n + 1)] }")).to_C_str() == "n + 1"


def test_sample_names_parameters() -> None:
    coordinates, given = isl.sample(isl.Set("[m, n] -> { S[i] : i = m + 1 and m = 4 and n = -2 }"))
    assert (coordinates, given) == ((5,), {"m": 4, "n": -2})


def test_names_change_places_at_once() -> None:
    swapped = {"i": "j", "j": "i", "n": "m"}
    assert str(isl.renamed(isl.Set("[n] -> { S[i, j] : i < j < n }"), swapped)) == "[m] -> { S[j, i] : j < i < m }"
    function = isl.renamed(isl.Aff("[n] -> { S[i, j] -> [(n + i)] }"), swapped)
    assert str(function) == "[m] -> { S[j, i] -> [(m + j)] }"
    relation = isl.range_named(isl.Map("{ S[i] -> [i, 2i] }"), "A", ("x", "y"))
    assert isl.range_name(relation) == "A"
    assert str(isl.domain_named(relation, None)) == "{ [i] -> A[x = i, y = 2i] }"


def test_parameters() -> None:
    of = isl.Set("[n, m] -> { [i] : 0 <= i < n }")
    assert (isl.parameters(of), isl.involved_parameters(of)) == (("n", "m"), ("n",))
    assert isl.parameters(isl.parametric(of, ("k", "n"))) == ("k", "n")
    assert isl.some_values(of, ["n", "x"]).is_equal(isl.Set("[m] -> { [i] : i >= 0 }"))
    assert isl.without_parameters(of).is_equal(isl.Set("{ [i] : i >= 0 }"))
    bound = isl.as_dimensions(isl.Set("[j, n, i] -> { [] : 0 <= i < n and j = 2i }"), ["i", "j"])
    assert bound.is_equal(isl.Set("[n] -> { [i, j] : 0 <= i < n and j = 2i }"))
    assert isl.bounds(isl.parametric(bound.intersect_params(isl.Set("[n] -> { : n = 3 }")), ()), "j") == (0, 4)


def test_functions() -> None:
    space = TRIANGLE.get_space()
    assert str(isl.linear(space, {"j": 3, "i": -1}, 7)) == "{ S[i, j, k] -> [(7 - i + 3j)] }"
    assert [isl.coefficients(one) for one in isl.coordinates(space)] == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    assert isl.coefficients(isl.Aff("{ [i] -> [(i)/2] }")) is None
    assert isl.coefficients(isl.Aff("{ [i] -> [floor(i/2)] }")) is None
    assert isl.offset(isl.constant(space, -(1 << 70))) == -(1 << 70)
    assert str(isl.parameter("n")) == "[n] -> { [] -> [(n)] }"


@pytest.mark.parametrize(
    "text",
    [
        "{ [x, y] : 0 <= x < 9 and 2y <= x and x mod 3 = 1 and y >= -2 }",
        "{ [x, y] : 5 * floor(x/5) = y and 0 <= x < 12 }",
    ],
)
def test_rows_hold_exactly_in_the_set(text: str) -> None:
    of = isl.Set(text)
    (piece,) = of.compute_divs().get_basic_sets()
    equal, at_least = isl.rows(piece)
    width = isl.arity(piece) + isl.divisions(piece)

    def holds(x: int, y: int, rest: tuple[int, ...]) -> bool:
        at = (x, y, *rest, 1)
        sums = ([sum(a * b for a, b in zip(row, at, strict=True)) for row in rows] for rows in (equal, at_least))
        zero, positive = sums
        return not any(zero) and all(value >= 0 for value in positive)

    tried = [()]
    for _ in range(width - 2):
        tried = [(*one, q) for one in tried for q in range(-4, 14)]
    found = {(x, y) for x in range(-3, 14) for y in range(-4, 14) if any(holds(x, y, rest) for rest in tried)}
    assert found == points(of)


def test_unions_by_name() -> None:
    sets = [isl.Set("[n] -> { T[i] : i < n }"), isl.Set("{ S[i, j] }")]
    assert [one.get_tuple_name() for one in sets_of(union_set(sets))] == ["S", "T"]
    maps = [isl.Map("{ T[i] -> A[i] }"), isl.Map("{ S[i] -> B[i] }"), isl.Map("{ S[i] -> A[i] }")]
    assert [(isl.domain_name(m), isl.range_name(m)) for m in maps_of(union_map(maps))] == [
        ("S", "A"),
        ("S", "B"),
        ("T", "A"),
    ]
    assert str(union_set([])) == "{  }"


def test_loops_of_a_band() -> None:
    one, two = isl.PwAff("{ S[i] -> [i] }"), isl.PwAff("{ T[i, j] -> [j] }")
    loops = loops_of(partial_schedule([[one, two], [two, one]], isl.unnamed_space(0)))
    assert [sorted(loop) for loop in loops] == [["S", "T"], ["S", "T"]]
    assert loops[0]["T"].is_equal(two)
    assert functions_of(isl.UnionPwAff("{ S[i] -> [2i] }"))["S"].is_equal(isl.PwAff("{ S[i] -> [2i] }"))
