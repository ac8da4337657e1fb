"""Numbers of targets of each source as polynomials, against enumeration."""

from __future__ import annotations

import islpy as isl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydl.model.counting import count_above, count_fibres
from polydl.model.parametric_counting import NotClosedForm


def numbers(relation: isl.Map, low: int, high: int) -> dict[int, int]:
    return {
        i: relation.fix_val(isl.dim_type.in_, 0, isl.Val(i)).range().count_val().to_python() for i in range(low, high)
    }


def same(text: str, low: int = -2, high: int = 30) -> None:
    relation = isl.Map(text)
    found = count_fibres(relation)
    expected = numbers(relation, low, high)
    for i, number in expected.items():
        at = isl.Point.zero(isl.Set("{ [i] }").get_space()).set_coordinate_val(isl.dim_type.set, 0, isl.Val(i))
        assert found.eval(at).to_python() == number
    inside = relation.domain().count_val().to_python() == sum(1 for n in expected.values() if n)
    if inside:
        for limit in (0, 1, 5, 20):
            assert count_above(found, limit).value == sum(n > limit for n in expected.values())


@pytest.mark.parametrize(
    "text",
    [
        "{ [i] -> [j] : 0 <= i < 20 and 0 <= j < i }",
        "{ [i] -> [j, k] : 0 <= i < 20 and 0 <= j <= k <= i }",
        "{ [i] -> [j, k, l] : 0 <= i < 9 and 0 <= j <= k <= l and l <= i + 2 }",
        "{ [i] -> [l] : exists j: 0 <= i < 25 and i <= j < 2i + 7 and 16l <= j < 16l + 16 }",
        "{ [i] -> [a] : exists j: 0 <= i < 20 and a = 3j and i <= a < 4i }",
        "{ [i] -> [l, j] : 0 <= i < 20 and i <= j < 2i + 7 and 16l <= j < 16l + 16 }",
        "{ [i] -> [l, r] : 0 <= i < 9 and 0 <= r < i and 12r <= 16l < 12r + 12 }",
        "{ [i] -> [a, b] : 0 <= i < 20 and 4a + 6b = 2i and 0 <= a <= 9 and 0 <= b }",
        "{ [i] -> [j] : 0 <= i < 9 and i <= j < i + 4; [i] -> [j] : 3 <= i < 20 and 6 <= 2j < i + 9 }",
    ],
)
def test_forms(text: str) -> None:
    same(text)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-2, 2), st.integers(-2, 3), st.sampled_from([-3, -1, 1, 2]), st.integers(-6, 9)),
        min_size=1,
        max_size=3,
    )
)
def test_random_systems(rows: list[tuple[int, int, int, int]]) -> None:
    conditions = " and ".join(f"{a}*i + {b}*x + {c}*y + {d} >= 0" for a, b, c, d in rows)
    text = f"{{ [i] -> [x, y] : 0 <= i < 8 and 0 <= x < 7 and -3 <= y < 5 and {conditions} }}"
    try:
        same(text, 0, 8)
    except NotClosedForm:
        assert any(abs(c) > 1 or abs(b) > 1 for _, b, c, _ in rows)


def test_says_when_it_cannot() -> None:
    with pytest.raises(NotClosedForm, match="no bound"):
        count_fibres(isl.Map("{ [i] -> [j] : 0 <= i < 5 and j >= i }"))
    with pytest.raises(NotClosedForm, match="residues"):
        count_fibres(isl.Map("{ [i] -> [x, y] : 0 <= i < 5 and 0 <= y < i and 0 <= 29x - 31y <= 100 }"))
